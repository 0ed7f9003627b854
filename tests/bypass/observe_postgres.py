"""Run cases on a real PostgreSQL and observe their effects.

Each text runs three times, unchanged, over the simple protocol: by a superuser in read-only transactions, by an
account that can use every table but owns nothing, also read-only, and by a superuser with write access. The state of
the server is summarised before and after each run; if it differs, the database is created again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import psycopg
from psycopg import pq
from tests.bypass.cases import Case, Observed
from tests.bypass.world_postgres import SETUP
from tests.support.postgres import PostgresServer

# Of the larger ones, what the server did not bring along.
_OWN = ("pg_proc", "pg_type", "pg_constraint", "pg_rewrite", "pg_operator", "pg_cast", "pg_namespace")
_WHOLE = (
    *("pg_attrdef", "pg_trigger", "pg_policy", "pg_authid", "pg_auth_members", "pg_db_role_setting", "pg_default_acl"),
    *("pg_enum", "pg_extension", "pg_event_trigger", "pg_publication", "pg_foreign_data_wrapper", "pg_foreign_server"),
    *("pg_largeobject", "pg_largeobject_metadata", "pg_prepared_xacts", "pg_tablespace", "pg_seclabels", "pg_inherits"),
    *("pg_file_settings", "pg_language", "pg_statistic_ext"),
)
_SUMMED = (
    *(f"select * from {name} where oid >= 16384" for name in _OWN),
    *(f"select * from {name}" for name in _WHOLE),
    "select * from pg_description where objoid >= 16384",
    "select * from pg_index where indexrelid >= 16384",
    "select attrelid, attname, atttypid, attnum, attisdropped, attacl from pg_attribute where attrelid >= 16384",
    "select relname, relnamespace, relkind, relowner, relacl, relrowsecurity, reloptions, relfilenode from pg_class"
    " where oid >= 16384 and relpersistence <> 't' and relkind <> 't' and relname not like 'pg\\_toast%'",
    "select datname, datacl, datconnlimit from pg_database",
    "select slot_name from pg_replication_slots",
)
_REFUSED, _DENIED, _NO_STATEMENT = "25006", "42501", "42601"
_LIMITS = "-c statement_timeout=5s -c lock_timeout=1s"


@dataclass
class _Run:
    states: list[str]
    lost: bool = False


@dataclass
class PostgresObserver:
    """Needs a `server` of its own, because cases change all of it."""

    server: PostgresServer
    _before: str = ""

    def __post_init__(self) -> None:
        self._admin = psycopg.connect(self.server.dsn("postgres"), autocommit=True)
        self._admin.execute("create role clerk login")
        self._admin.execute("create database world")
        with psycopg.connect(self.server.dsn("world"), autocommit=True) as world:
            world.execute(SETUP)
        self._renew()

    def observe(self, case: Case) -> Observed:
        read_only = "-c default_transaction_read_only=on"
        as_superuser = self._run(case, "postgres", read_only)
        as_clerk = self._run(case, "clerk", read_only)
        writing = self._run(case, "postgres", "")
        after = self._sum()
        changed = after != self._before
        if changed:
            self._renew()
        runs = (as_superuser, as_clerk, writing)
        last = next((state for state in reversed(writing.states) if state), "")
        return Observed(
            refused=_REFUSED in as_superuser.states,
            changed=changed,
            denied=_DENIED in as_clerk.states,
            rejected=all(_NO_STATEMENT in run.states for run in runs),
            error="connection lost" if writing.lost else last,
        )

    def close(self) -> None:
        self._admin.close()

    def _renew(self) -> None:
        admin = self._admin
        if admin.closed or admin.broken:  # a case that ends sessions ended this one
            self._admin = admin = psycopg.connect(self.server.dsn("postgres"), autocommit=True)
        for gid, database in admin.execute("select gid, database from pg_prepared_xacts").fetchall():
            with psycopg.connect(self.server.dsn(database), autocommit=True) as owner:
                owner.execute(f"rollback prepared '{gid}'".encode())
        admin.execute("select pg_drop_replication_slot(slot_name) from pg_replication_slots")
        admin.execute("alter system reset all")
        for name in ("scratch", "x"):
            admin.execute(f"drop database if exists {name} with (force)".encode())
        admin.execute("drop role if exists x")
        admin.execute("revoke pg_read_all_data from pg_monitor")
        admin.execute("alter role postgres reset all")
        admin.execute("alter role postgres password null")
        admin.execute("alter database postgres reset all")
        admin.execute("create database scratch template world")
        self._before = self._sum()

    def _run(self, case: Case, user: str, options: str) -> _Run:
        """Return the SQLSTATE of each result; "" for success."""
        run = _Run([])
        dsn = self.server.dsn("scratch", user=user)
        with psycopg.connect(dsn, autocommit=True, options=_LIMITS) as connection:
            pid = connection.info.backend_pid
            for text in case.before:
                self._send(connection, text, _Run([]))
            if options:
                self._send(connection, "set default_transaction_read_only = on", _Run([]))
                # One that `before` opened is made read-only as well.
                if connection.info.transaction_status == pq.TransactionStatus.INTRANS:
                    self._send(connection, "set transaction_read_only = on", _Run([]))
            try:
                self._send(connection, case.text, run)
                if connection.info.transaction_status == pq.TransactionStatus.INTRANS:
                    self._send(connection, "commit", run)  # what it did in there counts
            except psycopg.OperationalError:
                run.lost = True
        self._gone(pid)
        return run

    def _send(self, connection: psycopg.Connection, text: str, run: _Run) -> None:
        wire = connection.pgconn
        wire.send_query(text.encode())
        while True:
            result = wire.get_result()
            if result is None:
                return
            if result.status == pq.ExecStatus.COPY_OUT:
                while wire.get_copy_data(0)[0] > 0:
                    pass
                continue
            if result.status == pq.ExecStatus.COPY_IN:
                wire.put_copy_end()
                continue
            state = result.error_field(pq.DiagnosticField.SQLSTATE)
            run.states.append(state.decode() if state else "")

    def _sum(self) -> str:
        with psycopg.connect(self.server.dsn("scratch"), autocommit=True) as connection:
            listed = connection.execute(
                "select format('%I.%I', nspname, relname) from pg_class join pg_namespace n on n.oid = relnamespace"
                " where relkind in ('r', 'm', 'S', 'p') and nspname in ('public', 'app') order by 1"
            ).fetchall()
            queries = [*_SUMMED, *(f"select * from {row[0]}" for row in listed)]
            parts = [
                f"select md5(coalesce(string_agg(t::text, '|' order by t::text), '')) from ({query}) t"
                for query in queries
            ]
            return str(connection.execute(" union all ".join(f"({part})" for part in parts).encode()).fetchall())

    def _gone(self, pid: int) -> None:
        """Wait for the end of the session's process, which removes its temporary tables after the connection closes."""
        deadline = time.monotonic() + 60
        if self._admin.closed or self._admin.broken:
            self._admin = psycopg.connect(self.server.dsn("postgres"), autocommit=True)
        while self._admin.execute("select 1 from pg_stat_activity where pid = %s", [pid]).fetchone():
            if time.monotonic() > deadline:
                self._admin.execute("select pg_terminate_backend(%s, 5000)", [pid])
                return
            time.sleep(0.005)
