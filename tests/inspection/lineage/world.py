"""A PostgreSQL database in which every column holds a unique value, and the updates that change each value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import psycopg
from psycopg import sql
from tests.inspection.lineage import truth
from tests.inspection.lineage.truth import Answer, Case, Group
from tests.support.postgres import PostgresServer

from postern.domain.targets.target_schema import ColumnRef, TargetSchema
from postern.interception.events import Column, TextKind
from postern.protocols.postgres.queries.postgres_schema import QUESTIONS, target_schema

DATABASE = "lineage"

DEFINITIONS = """
create schema hr;
create type mood as enum ('glad', 'sad');
create type place as (street text, city text);
create table users (id int, email text, name text, home place, info jsonb, labels text[], feeling mood);
create table gone (id int, lost text, kept text);
alter table gone drop column lost;
create table orders (id int, user_id int, note text, amount numeric, placed date);
create table hr.staff (id int, email text, salary numeric, boss int);
create table notes (id int, body text);
create table hr.notes (id int, body text);
create table events (id int, kind text, body text) partition by list (kind);
create table events_a partition of events default;
create table animals (id int, sound text);
create table dogs (owner text) inherits (animals);
create table people (first text, full_name text generated always as (upper(first) || '!') stored);
create table "Mixed Case" ("Email Address" text, "select" int);
create view v_users as select id as number, email as contact, upper(name) as shout from users;
create view v_nested (a, b) as select contact || '?', shout from v_users where number > 0;
create view v_join as select u.email, o.* from users u join orders o on o.user_id = u.id;
create view v_total as select user_id, sum(amount) as total, max(note) as note from orders group by user_id;
create view v_row as select u as whole, row_to_json(u) as doc from users u;
create view v_union as select email as text from users union all select body from notes;
create view v_both as with s as (select email, salary from hr.staff) select s.*, n.body from s, hr.notes n;
create view hr.v_last as select v.a, (select max(salary) from hr.staff) as top from v_nested v;
create materialized view m_users as select id, lower(email) as email from users with no data;
create function leak() returns text language sql stable as 'select email from public.users';
create function shout(text) returns text language sql immutable as 'select upper($1)';
create function home_of(users) returns text language sql stable as 'select name from public.users';
create function pairs() returns table (a text, b text) language sql stable as 'select email, name from public.users';
create function initcap(name) returns text language sql stable as 'select name from public.users';
create function either(text, text) returns text language sql stable as 'select email from public.users';
create operator <?> (leftarg = text, rightarg = text, function = either);
create view v_leak as select leak() as it, id from users;
"""

# Each column's value, and the one that it is changed to. Joins hold with either: see KEYS.
VALUES: dict[tuple[str, str], dict[str, tuple[str, str]]] = {
    ("public", "users"): {
        "email": ("'Uemail1'", "'Uemail2'"),
        "name": ("'Uname1'", "'Uname2'"),
        "home": ("row('Ustreet1', 'Ucity1')::place", "row('Ustreet2', 'Ucity2')::place"),
        "info": ("""'{"k": "Uinfo1"}'""", """'{"k": "Uinfo2"}'"""),
        "labels": ("array['Ulabel1']", "array['Ulabel2']"),
        "feeling": ("'glad'", "'sad'"),
    },
    ("public", "gone"): {"kept": ("'Gkept1'", "'Gkept2'")},
    ("public", "orders"): {
        "note": ("'Onote1'", "'Onote2'"),
        "amount": ("1101.5", "2202.5"),
        "placed": ("date '2021-02-03'", "date '2022-05-06'"),
    },
    ("hr", "staff"): {"email": ("'Semail1'", "'Semail2'"), "salary": ("5501", "6602"), "boss": ("41", "42")},
    ("public", "notes"): {"body": ("'Pbody1'", "'Pbody2'")},
    ("hr", "notes"): {"body": ("'Hbody1'", "'Hbody2'")},
    ("public", "events_a"): {"kind": ("'Ekind1'", "'Ekind2'"), "body": ("'Ebody1'", "'Ebody2'")},
    ("public", "animals"): {"sound": ("'Asound1'", "'Asound2'")},
    ("public", "dogs"): {"sound": ("'Dsound1'", "'Dsound2'"), "owner": ("'Downer1'", "'Downer2'")},
    ("public", "people"): {"first": ("'Pfirst1'", "'Pfirst2'")},
    ("public", "Mixed Case"): {"Email Address": ("'Mail1'", "'Mail2'"), "select": ("71", "72")},
}

# These change together, so that rows that belong together still do.
KEYS = (
    ("public", "users", "id"),
    ("public", "gone", "id"),
    ("public", "orders", "id"),
    ("public", "orders", "user_id"),
    ("hr", "staff", "id"),
    ("public", "notes", "id"),
    ("hr", "notes", "id"),
    ("public", "events_a", "id"),
    ("public", "animals", "id"),
    ("public", "dogs", "id"),
)
KEY_VALUES = ("7", "8")


class World(truth.World):
    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self.schema = read_schema(connection)
        self._variants = list(_variants())

    def changes(self) -> Iterator[tuple[Group, AbstractContextManager[None]]]:
        for group, updates in self._variants:
            yield group, self._changed(updates)

    @contextmanager
    def _changed(self, statements: Sequence[sql.Composed]) -> Iterator[None]:
        with self.connection.transaction(force_rollback=True):
            for statement in statements:
                self.connection.execute(statement)
            yield

    def run(self, case: Case) -> Answer | str:
        try:
            with self.connection.transaction(force_rollback=True):
                for statement in case[:-1]:
                    self.connection.execute(statement.encode())
                if case[-1].lower().startswith("copy"):
                    return self._copied(case[-1])
                return _answer(self.connection.execute(case[-1].encode()))
        except psycopg.Error as error:
            return f"{case}: {error}"
        finally:
            self.connection.execute("deallocate all")  # the end of a transaction leaves prepared statements

    def _copied(self, statement: str) -> Answer:
        with self.connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            rows = [bytes(line).rstrip(b"\n").split(b"\t") for line in copy]
        return Answer(tuple(Column("", TextKind.TEXT) for _ in rows[0]), tuple(zip(*rows, strict=True)))


def read_schema(connection: psycopg.Connection) -> TargetSchema:
    """As the gateway reads it, by a connection of its own."""
    with psycopg.connect(connection.info.dsn, dbname=DATABASE, cursor_factory=psycopg.RawCursor) as side:
        answers = []
        for question in QUESTIONS:
            result = side.execute(question.encode()).pgresult
            assert result is not None
            rows = range(result.ntuples)
            cells = [[result.get_value(row, column) for column in range(result.nfields)] for row in rows]
            answers.append([tuple(None if cell is None else cell.decode() for cell in row) for row in cells])
    return target_schema(answers)


@contextmanager
def world(server: PostgresServer) -> Iterator[World]:
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"drop database if exists {DATABASE} with (force)")
        admin.execute(f"create database {DATABASE}")
    with psycopg.connect(server.dsn(DATABASE), autocommit=True) as connection:
        connection.execute(DEFINITIONS.encode())
        for (schema, table), columns in VALUES.items():
            values = {name: pair[0] for name, pair in columns.items()}
            values |= {name: KEY_VALUES[0] for place, of, name in KEYS if (place, of) == (schema, table)}
            statement = sql.SQL("insert into {} ({}) values ({})").format(
                sql.Identifier(schema, table),
                sql.SQL(", ").join(map(sql.Identifier, values)),
                sql.SQL(", ").join(sql.SQL(value) for value in values.values()),
            )
            connection.execute(statement)
        connection.execute("set timezone to 'UTC'")
        connection.execute("set jit to off")  # the server takes empty statistics for large tables
        connection.execute("refresh materialized view m_users")
        yield World(connection)


def _variants() -> Iterator[tuple[Group, list[sql.Composed]]]:
    for (schema, table), columns in VALUES.items():
        for name, pair in columns.items():
            yield frozenset({ColumnRef(schema, table, name)}), [_update(schema, table, name, pair[1])]
    yield (
        frozenset(ColumnRef(*key) for key in KEYS),
        [_update(*key, KEY_VALUES[1]) for key in KEYS],
    )


def _update(schema: str, table: str, column: str, value: str) -> sql.Composed:
    return sql.SQL("update only {} set {} = {}").format(
        sql.Identifier(schema, table),
        sql.Identifier(column),
        sql.SQL(value),
    )


def _answer(cursor: psycopg.Cursor) -> Answer:
    result = cursor.pgresult
    assert result is not None
    assert result.nfields > 0, cursor.statusmessage
    columns = [
        Column((result.fname(at) or b"").decode(), TextKind.TEXT, result.ftable(at), result.ftablecol(at))
        for at in range(result.nfields)
    ]
    values = [tuple(result.get_value(row, at) for row in range(result.ntuples)) for at in range(result.nfields)]
    return Answer(tuple(columns), tuple(values))
