"""Run cases on a real MariaDB and observe their effects.

Each text runs three times, unchanged: by root in a session with read-only transactions, by an account that can only
read the tables and call the functions, and by root with write access. The state of the server is summarised before
and after each run; if it differs, the database is created again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import pymysql
from tests.bypass.cases import Case, Observed
from tests.support.mariadb import MariaDbServer

SETUP = """
create table customers (id int primary key, name varchar(50), email varchar(80), total int, `drop` int);
create table orders (id int primary key auto_increment, customer_id int, status varchar(20), total int);
create table audit (id int primary key auto_increment, note varchar(200));
create sequence numbers;
create view open_orders as select * from orders where status = 'open';
insert into customers values (1, 'Ann', 'ann@example.com', 5, 0), (2, 'Bob', 'bob@example.com', 7, 0);
insert into orders values (1, 1, 'open', 10), (2, 1, 'paid', 20), (3, 2, 'open', 30);
create function spy() returns int begin insert into audit (note) values ('x'); return 1; end;
create procedure wipe() delete from orders;
create procedure nothing() select 1
"""
_REFUSED = {1792, 1568}
_DENIED = {1044, 1045, 1142, 1143, 1227, 1370, 1873, 1698, 1141, 1410, 1683, 1221}
_NO_STATEMENT = {1064, 1065, 1149}
_SUMMED = (
    "select * from mysql.global_priv order by 1, 2",
    "select * from mysql.db order by 1, 2, 3",
    "select * from mysql.tables_priv order by 1, 2, 3",
    "select * from mysql.proc order by db, name",
    "select * from mysql.event order by db, name",
    "select * from mysql.servers order by 1",
    "select * from mysql.plugin order by 1",
    "select schema_name from information_schema.schemata order by 1",
    "select table_name, table_type, table_comment, auto_increment from information_schema.tables"
    " where table_schema = 'scratch' order by 1",
    "select table_name, column_name, column_type, column_default from information_schema.columns"
    " where table_schema = 'scratch' order by 1, ordinal_position",
    "select table_name, index_name, column_name from information_schema.statistics where table_schema = 'scratch'"
    " order by 1, 2, 3",
    "select trigger_name from information_schema.triggers where trigger_schema = 'scratch' order by 1",
    "select table_name, view_definition from information_schema.views where table_schema = 'scratch' order by 1",
    "select variable_name, variable_value from information_schema.global_variables where variable_name not in"
    " ('GTID_BINLOG_POS', 'GTID_CURRENT_POS', 'TIMESTAMP', 'INNODB_BUFFER_POOL_LOAD_NOW') order by 1",
)


@dataclass
class _Run:
    states: list[int] = field(default_factory=list)  # of each statement: an error's number, or 0
    lost: bool = False


@dataclass
class MariaDbObserver:
    """Needs a `server` of its own, because cases change all of it."""

    server: MariaDbServer
    _before: str = ""

    def __post_init__(self) -> None:
        self._renew()

    def observe(self, case: Case) -> Observed:
        as_root = self._run(case, "root", "set session transaction read only")
        as_clerk = self._run(case, "clerk", "")
        writing = self._run(case, "root", "")
        after = self._sum()
        changed = after != self._before
        if changed:
            self._renew()
        runs = (as_root, as_clerk, writing)
        return Observed(
            refused=any(state in _REFUSED for state in as_root.states),
            changed=changed,
            denied=any(state in _DENIED for state in as_clerk.states),
            rejected=all(run.states and set(run.states) <= _NO_STATEMENT for run in runs),
            error="connection lost" if writing.lost else str(next((one for one in writing.states if one), "")),
        )

    def _run(self, case: Case, user: str, first: str) -> _Run:
        run = _Run()
        if not self.server.running:
            self.server.start()
        connection = self.server.connect(user, "scratch")
        try:
            for text in case.before:
                self._send(connection, text, _Run())
            if first:
                self._send(connection, first, _Run())
            self._send(connection, case.text, run)
            if not run.lost:
                self._send(connection, "commit", _Run())
        finally:
            connection.close()
        deadline = time.monotonic() + 60
        while "shutdown" in case.text.lower() and 1227 not in run.states and self.server.running:
            if time.monotonic() > deadline:
                raise RuntimeError("the server was told to shut down, and did not")
            time.sleep(0.05)
        return run

    def _send(self, connection: Any, text: str, run: _Run) -> None:
        cursor = connection.cursor()
        try:
            cursor.execute(text.encode("utf-8", "surrogatepass"))
            run.states.append(0)
            while cursor.nextset():
                run.states.append(0)
        except pymysql.err.Error as error:
            number = error.args[0] if error.args and isinstance(error.args[0], int) else -1
            run.states.append(number)
            run.lost = number in (0, 2006, 2013)
        except (OSError, AttributeError, UnicodeDecodeError, pymysql.err.InternalError):
            run.lost = True

    def _renew(self) -> None:
        if not self.server.running:
            self.server.start()
        connection = self.server.connect()
        cursor = connection.cursor()
        cursor.execute("select schema_name from information_schema.schemata where schema_name not in"
                       " ('information_schema', 'performance_schema', 'mysql', 'sys')")  # fmt: skip
        for (name,) in cursor.fetchall():
            cursor.execute(f"drop database `{name}`")
        for table in ("servers", "event", "proc"):
            cursor.execute(f"delete from mysql.{table}" + (" where db = 'scratch'" if table != "servers" else ""))
        cursor.execute("delete from mysql.global_priv where user not in ('root', 'mariadb.sys', 'PUBLIC', '')")
        for table in ("db", "tables_priv", "procs_priv", "roles_mapping"):
            cursor.execute(f"delete from mysql.{table} where user not in ('root', 'mariadb.sys', 'PUBLIC', '')")
        cursor.execute("flush privileges")
        cursor.execute("create database scratch")
        cursor.execute("create user clerk@'%'")
        cursor.execute("grant select, execute on scratch.* to clerk@'%'")
        cursor.execute("set global max_connections = 151, global event_scheduler = off, global sql_mode = default,"
                       " global general_log = off, global read_only = off")  # fmt: skip
        connection.select_db("scratch")
        for text in SETUP.strip().split(";\n"):
            cursor.execute(text)
        connection.close()
        self._before = self._sum()

    def _sum(self) -> str:
        if not self.server.running:
            self.server.start()
        connection = self.server.connect()
        cursor = connection.cursor()
        parts = []
        for query in _SUMMED:
            cursor.execute(query)
            parts.append(repr(cursor.fetchall()))
        cursor.execute("select table_name from information_schema.tables where table_schema = 'scratch'"
                       " and table_type <> 'VIEW' order by 1")  # fmt: skip
        for (name,) in cursor.fetchall():
            cursor.execute(f"select * from scratch.`{name}`")
            parts.append(repr((name, cursor.fetchall())))
        connection.close()
        files = sorted(path.name for path in (self.server.folder / "files").iterdir())
        return "\n".join(parts) + repr(files)
