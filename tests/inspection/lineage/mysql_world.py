"""A MariaDB database in which every column holds a unique value, and the updates that change each value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pymysql
from tests.inspection.lineage import truth
from tests.inspection.lineage.truth import Answer, Case, Group
from tests.support.mariadb import MariaDbServer

from postern.domain.targets.target_schema import ColumnRef, TargetSchema
from postern.interception.events import Column, TextKind
from postern.protocols.mysql.queries.mysql_schema import QUESTIONS, target_schema

DATABASE = "lineage"
_RESET_CONNECTION = 0x1F

# A line is one case; ` ;; ` parts the statements of a session, of which the last one's answer counts. Conditions hold
# whatever a column is changed to: what filters is not lineage.
CASES: tuple[tuple[str, ...], ...] = tuple(
    tuple(part.strip() for part in line.split(" ;; "))
    for line in Path(__file__).with_name("mysql_cases.sql").read_text().splitlines()
)

DEFINITIONS = """
create database lineage character set utf8mb4;
create database hr character set utf8mb4;
use lineage;
create table users (id int primary key, email varchar(50), name varchar(50), info text)
  partition by hash (id) partitions 1;
create table orders (id int primary key, user_id int, note varchar(50), amount decimal(8, 1), placed date);
create table hr.staff (id int primary key, email varchar(50), salary int);
create table staff (id int primary key, email varchar(50), salary int);
create table notes (id int primary key, body varchar(50));
create table hr.notes (id int, body varchar(50));
create table gone (id int, kept varchar(50));
create table people (first varchar(50), full_name varchar(60) as (concat(upper(first), '!')));
create table half (visible varchar(50), unseen varchar(50) invisible);
create table `Mixed Case` (`Email Address` varchar(50), `select` int);
create sequence seq_made;
create view v_users as select id as number, email as contact, upper(name) as shout from users;
create view v_nested (a, b) as select concat(contact, '?'), shout from v_users where number > 0;
create view v_join as select u.email, o.* from users u join orders o on o.user_id = u.id;
create view v_total as select user_id, sum(amount) as total, max(note) as note from orders group by user_id;
create algorithm = temptable view v_union as select email as text from users union all select body from notes;
create view v_both as with s as (select email, salary from hr.staff) select s.*, n.body from s, hr.notes n;
create view hr.v_last as select v.a, (select max(salary) from hr.staff) as top from v_nested v;
create function leak() returns varchar(50) return (select email from lineage.users);
create function shout(what varchar(50)) returns varchar(50) deterministic return upper(what);
create view v_leak as select leak() as it, id from users;
create procedure give() select email, name from lineage.users;
create procedure put() set @given = (select email from lineage.users);
create procedure twist() begin select email into @given from lineage.users; select 1; end
"""

# Each column's value, and the one that it is changed to. Joins hold with either: see KEYS.
VALUES: dict[tuple[str, str], dict[str, tuple[str, str]]] = {
    (DATABASE, "users"): {
        "email": ("Uemail1", "Uemail2"),
        "name": ("Uname1", "Uname2"),
        "info": ('{"k": "Uinfo1"}', '{"k": "Uinfo2"}'),
    },
    (DATABASE, "orders"): {
        "note": ("Onote1", "Onote2"),
        "amount": ("1101.5", "2202.5"),
        "placed": ("2021-02-03", "2022-05-06"),
    },
    ("hr", "staff"): {"email": ("Semail1", "Semail2"), "salary": ("5501", "6602")},
    (DATABASE, "staff"): {"email": ("Temail1", "Temail2"), "salary": ("3301", "4402")},
    (DATABASE, "notes"): {"body": ("Pbody1", "Pbody2")},
    ("hr", "notes"): {"body": ("Hbody1", "Hbody2")},
    (DATABASE, "gone"): {"kept": ("Gkept1", "Gkept2")},
    (DATABASE, "people"): {"first": ("Pfirst1", "Pfirst2")},
    (DATABASE, "half"): {"visible": ("Hvisible1", "Hvisible2"), "unseen": ("Hunseen1", "Hunseen2")},
    (DATABASE, "Mixed Case"): {"Email Address": ("Mail1", "Mail2"), "select": ("71", "72")},
}

# These change together, so that rows that belong together still do.
KEYS = (
    (DATABASE, "users", "id"),
    (DATABASE, "orders", "id"),
    (DATABASE, "orders", "user_id"),
    ("hr", "staff", "id"),
    (DATABASE, "staff", "id"),
    (DATABASE, "notes", "id"),
    ("hr", "notes", "id"),
    (DATABASE, "gone", "id"),
)
KEY_VALUES = ("7", "8")


class World(truth.World):
    def __init__(self, server: MariaDbServer) -> None:
        self._connection = server.connect(database=DATABASE)
        self._session = server.connect(database=DATABASE)
        self.schema = read_schema(self._connection)
        self._variants = list(_variants())

    def close(self) -> None:
        self._connection.close()
        self._session.close()

    def changes(self) -> Iterator[tuple[Group, AbstractContextManager[None]]]:
        for group, updates in self._variants:
            yield group, self._changed(updates)

    @contextmanager
    def _changed(self, updates: Sequence[tuple[str, str, str]]) -> Iterator[None]:
        with self._connection.cursor() as cursor:
            for statement, _, value in updates:
                cursor.execute(statement, (value,))
            try:
                yield
            finally:
                for statement, value, _ in updates:
                    cursor.execute(statement, (value,))

    def run(self, case: Case) -> Answer | str:
        try:
            with self._session.cursor() as cursor:
                cursor.execute("start transaction")
                for statement in case[:-1]:
                    cursor.execute(statement)
                    while cursor.nextset():
                        pass
                cursor.execute(case[-1])
                return _answer(cursor)
        except pymysql.Error as error:
            return f"{case}: {error}"
        finally:
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Roll back and reset the session, which is faster than a new one."""
        self._session._execute_command(_RESET_CONNECTION, b"")
        self._session._read_ok_packet()
        with self._session.cursor() as cursor:
            cursor.execute(f"set autocommit = 1, names utf8mb4; use {DATABASE}")
            while cursor.nextset():
                pass


def read_schema(connection: Any) -> TargetSchema:
    """As the gateway reads it."""
    answers = []
    with connection.cursor() as cursor:
        for question in QUESTIONS:
            cursor.execute(question)
            answers.append([tuple(None if cell is None else str(cell) for cell in row) for row in cursor.fetchall()])
    return target_schema(answers)


@contextmanager
def world(server: MariaDbServer) -> Iterator[World]:
    connection = server.connect()
    with connection.cursor() as cursor:
        for name in (DATABASE, "hr"):
            cursor.execute(f"drop database if exists {name}")
        for statement in DEFINITIONS.split(";\n"):
            cursor.execute(statement)
        for (schema, table), columns in VALUES.items():
            values = {name: pair[0] for name, pair in columns.items()}
            values |= {name: KEY_VALUES[0] for place, of, name in KEYS if (place, of) == (schema, table)}
            names = ", ".join(f"`{name}`" for name in values)
            marks = ", ".join("%s" for _ in values)
            cursor.execute(f"insert into `{schema}`.`{table}` ({names}) values ({marks})", tuple(values.values()))
    connection.close()
    found = World(server)
    try:
        yield found
    finally:
        found.close()


def _variants() -> Iterator[tuple[Group, list[tuple[str, str, str]]]]:
    for (schema, table), columns in VALUES.items():
        for name, pair in columns.items():
            yield frozenset({ColumnRef(schema, table, name)}), [(_update(schema, table, name), *pair)]
    yield frozenset(ColumnRef(*key) for key in KEYS), [(_update(*key), *KEY_VALUES) for key in KEYS]


def _update(schema: str, table: str, column: str) -> str:
    return f"update `{schema}`.`{table}` set `{column}` = %s"


def _answer(cursor: Any) -> Answer:
    fields = cursor._result.fields
    rows = cursor.fetchall()
    columns = tuple(
        Column(one.name, TextKind.TEXT, origin=(_text(one.db), _text(one.org_table), _text(one.org_name)))
        for one in fields
    )
    return Answer(columns, tuple(tuple(str(row[at]) for row in rows) for at in range(len(fields))))


def _text(told: bytes | str) -> str:
    return told.decode() if isinstance(told, bytes) else told
