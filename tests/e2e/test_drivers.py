"""Drivers and libraries as people use them: psycopg, asyncpg, SQLAlchemy."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import io
import struct
import uuid

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg.types.numeric import Int4
from tests.support import wire
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer

from postern.domain.targets.connection import Connection


def pipelined(connection: psycopg.Connection, *statements: str) -> None:
    """All of them in one pipeline, with one Sync at its end."""
    with connection.pipeline():
        for statement in statements:
            connection.execute(statement)


def test_pipeline_of_100000_tiny_statements_runs_completely(gateway: Gateway) -> None:
    with psycopg.connect(gateway.url(), autocommit=True) as connection:
        connection.execute("create temp table tiny (n int)")
        with connection.pipeline(), connection.cursor() as cursor:
            for start in range(0, 100_000, 10_000):
                cursor.executemany("insert into tiny values (%s)", [(n,) for n in range(start, start + 10_000)])
        assert connection.execute("select count(*), sum(n) from tiny").fetchone() == (100_000, 4_999_950_000)
    session = gateway.newest_finished()
    assert session.metrics["operations"] >= 100_000


def test_pipeline_with_an_error_leaves_the_connection_usable(gateway: Gateway) -> None:
    with psycopg.connect(gateway.url(), autocommit=True) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            pipelined(connection, "select 1", "select 1/0", "select 2")
        assert connection.execute("select 'usable'").fetchone() == ("usable",)


def test_denied_statement_in_a_pipeline_prevents_the_whole_pipeline(gateway: Gateway, guarded: Connection) -> None:
    with psycopg.connect(gateway.url("guarded"), autocommit=True) as connection:
        connection.execute("create temp table kept (n int)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            pipelined(connection, "insert into kept values (1)", "drop table kept", "insert into kept values (2)")
        assert connection.execute("select count(*) from kept").fetchone() == (0,)
    assert gateway.newest_finished("guarded").metrics["refused"] == 1


def test_server_side_cursor_fetches_all_rows_in_parts(gateway: Gateway) -> None:
    with psycopg.connect(gateway.url()) as connection, connection.cursor("named") as cursor:
        cursor.itersize = 100
        cursor.execute("select n, repeat('x', 50) from generate_series(1, 5000) n")
        assert sum(row[0] for row in cursor) == 12_502_500


def test_binary_results_and_parameters_are_unchanged(gateway: Gateway) -> None:
    with psycopg.connect(gateway.url()) as connection, connection.cursor(binary=True) as cursor:
        cursor.execute("select %b::int4, %b::bytea, array[1, null, 3], 1.5::float8", [Int4(7), b"\0\1\xff"])
        assert cursor.fetchone() == (7, b"\0\1\xff", [1, None, 3], 1.5)


def test_copy_works_in_both_directions_and_formats(gateway: Gateway) -> None:
    with psycopg.connect(gateway.url(), autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("create temp table bulk (n int4, t text)")
        for ending in ("", " (format binary)"):
            with cursor.copy(f"copy bulk from stdin{ending}") as copy:
                if ending:
                    copy.set_types(["int4", "text"])
                for n in range(20_000):
                    copy.write_row((n, f"row {n}"))
            with cursor.copy(f"copy bulk to stdout{ending}") as copy:
                copy.set_types(["int4", "text"])
                assert sum(1 for _ in copy.rows()) >= 20_000
        assert cursor.execute("select count(*) from bulk").fetchone() == (40_000,)


def copy_and_give_up(cursor: psycopg.Cursor, statement: str) -> None:
    with cursor.copy(statement) as copy:
        copy.write_row((1,))
        raise ZeroDivisionError


def copy_all(cursor: psycopg.Cursor, statement: str, blocks: list[str]) -> None:
    with cursor.copy(statement) as copy:
        for block in blocks:
            copy.write(block)


def test_copy_aborted_by_the_client_stores_no_rows(gateway: Gateway) -> None:
    with psycopg.connect(gateway.url(), autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("create temp table given_up (n int)")
        with pytest.raises(ZeroDivisionError):
            copy_and_give_up(cursor, "copy given_up from stdin")
        assert cursor.execute("select count(*) from given_up").fetchone() == (0,)


def test_copy_with_invalid_data_returns_the_targets_error(gateway: Gateway) -> None:
    """The target's error arrives while the client is still sending."""
    with psycopg.connect(gateway.url(), autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("create temp table bad (n int)")
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            copy_all(cursor, "copy bad from stdin", ["1\n2\nthree\n", *["4\n" * 10_000] * 200])
        assert cursor.execute("select count(*) from bad").fetchone() == (0,)


def test_large_object_is_read_back_unchanged(gateway: Gateway) -> None:
    with psycopg.connect(gateway.url()) as connection:
        content = bytes(range(256)) * 4096
        row = connection.execute("select lo_from_bytea(0, %s)", [content]).fetchone()
        assert row is not None
        found = connection.execute("select lo_get(%s)", row).fetchone()
        assert found == (content,)
        connection.rollback()


def test_notification_reaches_a_listening_client(gateway: Gateway) -> None:
    with psycopg.connect(gateway.url(), autocommit=True) as hears:
        hears.execute("listen news")
        with psycopg.connect(gateway.url(), autocommit=True) as tells:
            tells.execute("select pg_notify('news', 'grüße')")
        heard = next(hears.notifies(timeout=60))
        assert (heard.channel, heard.payload) == ("news", "grüße")


def test_notices_and_changed_parameters_reach_the_client(gateway: Gateway) -> None:
    with psycopg.connect(gateway.url(), autocommit=True) as connection:
        notices: list[str] = []
        connection.add_notice_handler(lambda notice: notices.append(f"{notice.severity} {notice.message_primary}"))
        connection.execute("do $$ begin raise notice 'for you'; raise warning 'and this'; end $$")
        assert notices == ["NOTICE for you", "WARNING and this"]
        connection.execute("set application_name = 'renamed'")
        assert connection.info.parameter_status("application_name") == "renamed"
        assert connection.info.server_version >= 130000


async def test_asyncpg_round_trips_values_of_many_types(gateway: Gateway) -> None:
    connection = await asyncpg.connect(gateway.url())
    key = uuid.uuid4()
    values = [
        ([1, None, 3], "int4[]"),
        ([["a", "b"], ["c", None]], "text[]"),
        (decimal.Decimal("-12345678901234567890.000000012345"), "numeric"),
        (datetime.datetime(2024, 2, 29, 23, 59, 59, 999999, datetime.UTC), "timestamptz"),
        (datetime.date(1, 1, 1), "date"),
        (key, "uuid"),
        (b"\0\xff" * 1000, "bytea"),
        ("x" * 100_000, "text"),
        (float("-inf"), "float8"),
        (True, "bool"),
        ('{"a": [1, 2]}', "jsonb"),
        (None, "text"),
    ]
    for value, kind in values:
        assert await connection.fetchval(f"select $1::{kind}", value) == value
    row = await connection.fetchval("select row(1, 'two'::text, null::int)")
    assert tuple(row) == (1, "two", None)
    await connection.close()


async def test_asyncpg_prepared_statements_cursors_and_copy_work_and_are_recorded(gateway: Gateway) -> None:
    connection = await asyncpg.connect(gateway.url())
    await connection.execute("create temp table records (n int, t text, d numeric)")
    records = [(n, f"name {n}", decimal.Decimal(n) / 8) for n in range(5_000)]
    await connection.copy_records_to_table("records", records=records)
    prepared = await connection.prepare("select * from records where n < $1 order by n")
    assert [tuple(row) for row in await prepared.fetch(3)] == records[:3]
    async with connection.transaction():
        taken = [row["n"] async for row in connection.cursor("select n from records order by n", prefetch=77)]
    assert taken == list(range(5_000))
    out = io.BytesIO()
    await connection.copy_from_query("select * from records order by n limit 2", output=out)
    assert out.getvalue() == b"0\tname 0\t0\n1\tname 1\t0.125\n"
    await connection.executemany("insert into records values ($1, $2, $3)", records)
    assert await connection.fetchval("select count(*) from records") == 10_000
    await connection.close()
    session = await asyncio.to_thread(gateway.newest_finished)
    assert "-- $1 = '3'" in await asyncio.to_thread(gateway.text, session.id)


@pytest.mark.parametrize("count", [40_000, 65_536, 70_000])
async def test_asyncpg_with_too_many_parameters_gets_the_same_error_as_from_the_target(
    gateway: Gateway, target: PostgresServer, count: int
) -> None:
    """The connection stays usable."""
    statement = f"select 1 where 1 in ({','.join(f'${number}::int' for number in range(1, count + 1))})"
    said = []
    for url in (target.dsn(), gateway.url()):
        connection = await asyncpg.connect(url)
        with pytest.raises(asyncpg.InterfaceError) as error:
            await connection.fetch(statement, *[1] * count)
        said.append(str(error.value))
        assert await connection.fetchval("select 7") == 7
        await connection.close()
    assert said[0] == said[1]


@pytest.mark.parametrize("count", [65_536, 70_000])
def test_driver_with_an_overflowed_parameter_count_gets_the_targets_error(gateway: Gateway, count: int) -> None:
    issued = gateway.credential("target")
    text = f"select 1 where 1 in ({','.join(f'${number}::int' for number in range(1, count + 1))})"
    values = (struct.pack("!I", 1) + b"1") * count
    with wire.connect(gateway.settings.postgres_port) as stream:
        wire.log_in(stream, issued.credential.username, issued.password.reveal(), database="postgres")
        stream.sendall(wire.message(b"P", b"\0", text.encode(), b"\0\0\0"))
        stream.sendall(wire.message(b"B", bytes(4), struct.pack("!H", count & 0xFFFF), values, b"\0\0"))
        stream.sendall(wire.message(b"E", bytes(5)) + wire.message(b"S"))
        said = f'bind message supplies {count & 0xFFFF} parameters, but prepared statement "" requires {count}'
        assert said.encode() in wire.until_ready(stream)
        stream.sendall(wire.message(b"Q", b"select 'goes on'\0"))
        assert b"goes on" in wire.until_ready(stream)


async def test_asyncpg_listener_and_statement_timeout_work(gateway: Gateway) -> None:
    connection = await asyncpg.connect(gateway.url())
    heard: asyncio.Queue[object] = asyncio.Queue()
    await connection.add_listener("alarm", lambda *given: heard.put_nowait(given[2:]))
    await connection.execute("notify alarm, 'fire'")
    assert await asyncio.wait_for(heard.get(), 60) == ("alarm", "fire")
    with pytest.raises(TimeoutError):
        await connection.fetch("select pg_sleep(20)", timeout=0.2)
    assert await connection.fetchval("select 1") == 1
    await connection.close()


def test_sqlalchemy_reflects_a_schema(gateway: Gateway, direct: psycopg.Connection) -> None:
    direct.execute("drop schema if exists reflected cascade; create schema reflected")
    direct.execute(
        "create table reflected.parent (id serial primary key, name text not null unique);"
        "create table reflected.child (id int primary key, parent_id int references reflected.parent, at timestamptz"
        " default now(), tags text[], check (id > 0)); create index on reflected.child (at)"
    )
    url = gateway.url().replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(url)
    metadata = sqlalchemy.MetaData()
    metadata.reflect(engine, schema="reflected")
    child = metadata.tables["reflected.child"]
    assert [column.name for column in child.columns] == ["id", "parent_id", "at", "tags"]
    assert [key.target_fullname for key in child.foreign_keys] == ["reflected.parent.id"]
    with engine.begin() as connection:
        connection.execute(sqlalchemy.insert(metadata.tables["reflected.parent"]), [{"name": "a"}, {"name": "b"}])
        found = connection.execute(sqlalchemy.select(metadata.tables["reflected.parent"].c.name)).scalars().all()
    assert found == ["a", "b"]
    engine.dispose()
    direct.execute("drop schema reflected cascade")
