"""Earlier statements of a session can change what a statement means: the row count reflects that, or is unknown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import psycopg
import pytest
from tests.support.counted import DATABASE, LIMITS, START, Watched, permit
from tests.support.postgres import PostgresServer, database
from tests.support.protocols import postgres_test_messages as pg

from postern.domain.rules.row_count import RowCount
from postern.gateway.rules.row_counts import HeldStatement as Statement
from postern.protocols.postgres.postgres_row_counts import postgres_row_counts
from postern.protocols.postgres.wire.postgres_wire import PostgresWire
from postern.protocols.refusal_texts import SQL_ASCII
from postern.protocols.wire_base import TransactionState

DEFINITIONS = """
create table events (id int primary key, at timestamptz, day date, plain timestamp, raw bytea, word text);
insert into events select n, timestamptz '2024-05-06 00:00:00+00' + n * interval '1 hour', date '2024-05-06' + n,
  timestamp '2024-05-06 00:00:00' + n * interval '1 hour', '\\x01', chr(n) from generate_series(1, 48) n;
"""


@pytest.fixture(scope="module")
def server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    with database(postgres_server, DATABASE, DEFINITIONS):
        yield postgres_server


async def counted(server: PostgresServer, *asked: Statement, standing: TransactionState | None = None) -> RowCount:
    found = await postgres_row_counts(Watched(), LIMITS).of(permit(server), START, asked, standing)
    assert found is not None
    return found


SETTINGS = {
    "TimeZone": ("Asia/Tokyo", "delete from events where at < '2024-05-06 12:00:00'"),
    "DateStyle": ("SQL, DMY", "delete from events where day < '12/05/2024' or day::text = '30/05/2024'"),
    "IntervalStyle": ("sql_standard", "delete from events where (day - interval '-1 2:00:00')::text < '2024-05-09'"),
}


@pytest.mark.parametrize("name", SETTINGS)
async def test_attack_session_setting_applies_to_the_row_count(server: PostgresServer, name: str) -> None:
    value, text = SETTINGS[name]
    with psycopg.connect(server.dsn(DATABASE)) as session:
        session.execute("select set_config(%s, %s, false)", [name, value])
        touched = session.execute(text.encode()).rowcount
        session.rollback()
    found = await counted(server, Statement(text), standing=TransactionState(reported={name: value}))
    assert found.rows == touched
    assert (await counted(server, Statement(text))).rows != touched


@pytest.mark.parametrize("told", [{"session_authorization": "app"}, {"is_superuser": "off"}])
async def test_attack_session_of_a_switched_user_is_not_counted(
    server: PostgresServer, told: Mapping[str, str]
) -> None:
    found = await counted(server, Statement("delete from events"), standing=TransactionState(reported=told))
    assert found.rows is None
    assert "has switched to another user" in found.parts[0].why_not


def test_reported_settings_of_the_target_are_tracked() -> None:
    wire = PostgresWire(parameters={"TimeZone": "UTC", "is_superuser": "on", "server_version": "15"})
    assert wire.transaction_state == TransactionState(reported={"TimeZone": "UTC", "is_superuser": "on"})
    wire.feed_target(pg.parameter_status("TimeZone", "Asia/Tokyo") + pg.parameter_status("is_superuser", "off"))
    wire.feed_target(pg.parameter_status("application_name", "x"))
    wire.poll_target()
    assert wire.transaction_state.reported == {"TimeZone": "Asia/Tokyo", "is_superuser": "off"}


async def test_attack_statement_after_unanswered_ones_is_not_counted(server: PostgresServer) -> None:
    found = await counted(server, Statement("delete from events"), standing=TransactionState(unsettled=True))
    assert found.parts[0].why_not == "earlier statements of its session are still running and can change its meaning"


@pytest.mark.parametrize(
    "change", ["create temp table events (id int)", "alter table kept rename to events", "drop table kept"]
)
async def test_attack_statement_in_a_transaction_that_changed_tables_is_not_counted(
    server: PostgresServer, change: str
) -> None:
    standing = TransactionState(in_transaction=True)
    text = "delete from events where id not in (select id from more)"
    with psycopg.connect(server.dsn(DATABASE)) as session:
        session.execute("create schema elsewhere; create table elsewhere.kept (id int); create table more (id int)")
        session.commit()
        try:
            assert (await counted(server, Statement(text), standing=standing)).rows == 48
            session.execute(f"set search_path = elsewhere, public; {change}".encode())
            (part,) = (await counted(server, Statement(text), standing=standing)).parts
            assert part.why_not == "an open transaction, possibly its own, has created or changed tables"
        finally:
            session.rollback()
            session.execute("drop schema elsewhere cascade; drop table more")
            session.commit()


STIRS = [
    "set timezone = 'Asia/Tokyo'",
    "reset all",
    "set role app",
    "select set_config('timezone', 'Asia/Tokyo', false)",
    "select pg_catalog.set_config('timezone', 'Asia/Tokyo', false)",
    "do $$ begin set timezone = 'Asia/Tokyo'; end $$",
    "create temp table events (id int)",
    "select 1 as id into temp events",
    "create table events as select 1",
    "alter table events rename to x",
    "rollback",
    "commit",
    "discard all",
    "call x()",
    "execute x",
    "insert into events values (nextval('s'))",
    "with x as (select own()) insert into events select 1 from x",
    "copy events from stdin",
    "truncate events",
    "delete from events where own()",
]


@pytest.mark.parametrize("first", STIRS)
async def test_attack_statement_after_a_meaning_changing_one_is_not_counted(server: PostgresServer, first: str) -> None:
    reason = "earlier statements can change its meaning"
    in_one = await counted(server, Statement(f"{first}; delete from events"))
    assert in_one.parts[-1].why_not == reason
    by_themselves = await counted(server, Statement(first), Statement("delete from events"))
    assert by_themselves.parts[-1].why_not == reason
    if first != "delete from events where own()":
        behind = await counted(server, Statement(f"delete from events; {first}"))
        assert behind.parts[0].rows == 48
        left_out = first.split()[0] not in ("set", "reset", "rollback", "commit")
        assert ("other effects of the request are not counted" in behind.notes) is left_out or first == "reset all"


async def test_row_count_notes_earlier_row_changes_and_repeated_statements(server: PostgresServer) -> None:
    found = await counted(
        server, Statement("begin; insert into events values (0); select 1; show timezone; delete from events")
    )
    assert (found.rows, found.notes) == (
        48,
        ("each part is counted as if the others had not run", "other effects of the request are not counted"),
    )
    quiet = await counted(server, Statement("begin; select lower('X'); delete from events; commit"))
    assert (quiet.rows, quiet.notes) == (48, ())
    twice = await counted(server, *[Statement("delete from events where id = 1")] * 2)
    assert (twice.rows, twice.notes) == (1, ("statements that run several times are counted once",))


async def test_bind_values_are_counted_with_their_declared_types(server: PostgresServer) -> None:
    told = TransactionState(reported={"TimeZone": "Asia/Tokyo"})
    text = "delete from events where plain < $1"
    moment = (b"2024-05-06 12:00:00+00",)
    assert (await counted(server, Statement(text, moment, types=(1184,)), standing=told)).rows == 20
    assert (await counted(server, Statement(text, moment, types=(1114,)), standing=told)).rows == 11
    assert (await counted(server, Statement("delete from events where raw = $1", (b"\\x01",), types=(17,)))).rows == 48
    (part,) = (await counted(server, Statement("delete from events where id = $1", (b"events",), types=(2205,)))).parts
    assert part.why_not == "a bind value has the type regclass"
    (part,) = (await counted(server, Statement("delete from events where word = any($1)", (b"{NULL}",)))).parts
    assert "an array with a NULL" in part.why_not


async def test_bind_values_are_counted_in_the_encoding_of_the_client(server: PostgresServer) -> None:
    text = "delete from events where word || '\u00e9' = $1"
    assert (await counted(server, Statement(text, (b"A\xe9",), encoding="iso8859-1"))).rows == 0
    text = "delete from events where word || $2 = $1"
    assert (
        await counted(server, Statement(text, ("0\u00e9".encode("latin-1"), b"\xe9"), encoding="iso8859-1"))
    ).rows == 1
    (part,) = (await counted(server, Statement(text, (b"0\xc3\xa9", b"\xc3\xa9"), encoding=SQL_ASCII))).parts
    assert "is not text" in part.why_not
