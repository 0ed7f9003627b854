"""Masking on every way out: no path shows a masked value, and every answer keeps its shape."""

from __future__ import annotations

import asyncio
import io

import asyncpg
import psycopg
import pytest
from tests.support.clients import psql
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer

from postern.domain.targets.connection import Connection
from postern.interception.events import ClientOutput

MAIL, CARD, SSN, ADDRESS = "ada.lovelace@example.org", "4111 1111 1111 1111", "536-90-4399", "203.0.113.77"
SECRETS = (MAIL, CARD, SSN, ADDRESS)
ROWS = 3000


@pytest.fixture(scope="module")
def masked(gateway: Gateway, target: PostgresServer, direct: psycopg.Connection) -> Connection:
    """The connection `masked`, where all kinds are masked. Every third row of `people` has no e-mail."""
    direct.execute("drop table if exists people")
    direct.execute(
        "create table people (id int primary key, mail text unique, card varchar(40), ssn text, address inet,"
        " tags text[], document jsonb, note text, amount numeric)"
    )
    direct.execute(
        "insert into people select n, case when n %% 3 = 0 then null else n || %s::text end, %s, %s, %s::inet,"
        " array['plain', %s, null], jsonb_build_object('mail', %s::text, 'n', n), 'note ' || n, n / 8.0"
        " from generate_series(1, %s) n",
        [MAIL, CARD, SSN, ADDRESS, MAIL, MAIL, ROWS],
    )
    return gateway.connection("masked", target, redact_enabled=True)


def clean(shown: object) -> bool:
    return not any(secret in str(shown) for secret in SECRETS)


def test_psql_receives_masked_values(gateway: Gateway, masked: Connection) -> None:
    done = psql(gateway.url("masked"), "-c", "select * from people order by id")
    lines = done.stdout.splitlines()
    assert len(lines) == ROWS
    assert clean(done.stdout)
    assert lines[2].split("|")[1] == ""
    assert "note 3" in lines[2]
    session = gateway.newest_finished("masked")
    counts = session.metrics["data_masking"]["info_types"]
    assert counts["CREDIT_CARD"] == counts["US_SSN"] == ROWS
    assert counts["EMAIL_ADDRESS"] == ROWS * 2 // 3 + 2 * ROWS
    assert clean(gateway.text(session.id))
    shown = b"".join(event.data for event in gateway.records(session.id) if isinstance(event, ClientOutput))
    assert clean(shown.decode("latin-1"))


@pytest.mark.parametrize("ending", ["", " (format csv)", " (format binary)"])
def test_copy_output_is_masked_in_every_format(gateway: Gateway, masked: Connection, ending: str) -> None:
    with psycopg.connect(gateway.url("masked")) as connection, connection.cursor() as cursor:
        kept = ["tags", "mail", "ssn", "card", "note"]
        with cursor.copy(f"copy (select {', '.join(kept)} from people order by id) to stdout{ending}") as copy:
            data = b"".join(bytes(block) for block in copy)
        assert clean(data.decode("latin-1"))
        assert data.count(b"note ") == ROWS


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("prepare", [False, True])
def test_psycopg_receives_masked_values_in_both_formats(
    gateway: Gateway, masked: Connection, binary: bool, prepare: bool
) -> None:
    with psycopg.connect(gateway.url("masked")) as connection, connection.cursor(binary=binary) as cursor:
        for _ in range(3):  # the third time a prepared statement is not described any more
            cursor.execute("select * from people where id > %s order by id", [0], prepare=prepare)
            found = cursor.fetchall()
            assert len(found) == ROWS
            assert clean(found)
            assert found[2][1] is None
            assert found[0][5][0] == "plain"
            assert found[0][5][2] is None
            assert found[0][6]["n"] == 1


def test_cursor_fetched_in_parts_is_masked(gateway: Gateway, masked: Connection) -> None:
    with psycopg.connect(gateway.url("masked")) as connection, connection.cursor("parts") as cursor:
        cursor.itersize = 70
        cursor.execute("select mail, card from people")
        found = list(cursor)
    assert len(found) == ROWS
    assert clean(found)


async def test_asyncpg_receives_masked_values_in_rows_records_and_copies(gateway: Gateway, masked: Connection) -> None:
    connection = await asyncpg.connect(gateway.url("masked"))
    for _ in range(2):
        found = await connection.fetch("select id, mail, tags, document, address, ssn, amount from people order by id")
        assert len(found) == ROWS
        assert clean([tuple(row) for row in found])
        assert found[7]["amount"] == 1
    async with connection.transaction():
        parts = [row["mail"] async for row in connection.cursor("select mail from people", prefetch=33)]
    assert len(parts) == ROWS
    assert clean(parts)
    composite = await connection.fetchval("select row(mail, id) from people where id = 1")
    assert clean(tuple(composite))
    out = io.BytesIO()
    await connection.copy_from_table("people", columns=["mail", "ssn"], output=out, format="binary")
    assert clean(out.getvalue().decode("latin-1"))
    await connection.close()


async def test_notifications_errors_and_notices_are_masked(gateway: Gateway, masked: Connection) -> None:
    connection = await asyncpg.connect(gateway.url("masked"))
    heard: asyncio.Queue[str] = asyncio.Queue()
    logged: list[str] = []
    await connection.add_listener("mail", lambda *given: heard.put_nowait(given[3]))
    connection.add_log_listener(lambda _connection, message: logged.append(str(message.as_dict())))
    await connection.execute(f"select pg_notify('mail', 'for {MAIL}')")
    said = await asyncio.wait_for(heard.get(), 60)
    assert said.startswith("for ")
    assert clean(said)
    await connection.execute(f"do $$ begin raise notice 'about {MAIL}'; end $$")
    assert logged
    assert clean(logged)
    with pytest.raises(asyncpg.UniqueViolationError) as caught:
        await connection.execute("insert into people (id, mail) values (0, $1)", "1" + MAIL)
    assert clean(caught.value.as_dict())
    with pytest.raises(asyncpg.InvalidTextRepresentationError) as also:
        await connection.execute(f"select '{SSN}'::int")
    assert clean(also.value.as_dict())
    await connection.close()


@pytest.mark.parametrize(("encoding", "word"), [("LATIN1", "Grüße"), ("WIN1251", "Ёлка"), ("UTF8", "表ソ十")])
def test_values_are_masked_in_other_client_encodings(
    gateway: Gateway, masked: Connection, encoding: str, word: str
) -> None:
    with psycopg.connect(gateway.url("masked", client_encoding=encoding)) as connection:
        found = connection.execute(f"select '{word} {MAIL} {word}', '{word}'").fetchone()
    assert found is not None
    assert clean(found)
    assert found[0].startswith(word)
    assert found[0].endswith(word)
    assert found[1] == word


def test_every_result_of_a_multi_statement_message_is_masked(gateway: Gateway, masked: Connection) -> None:
    query = "select id from people limit 1; select mail, id from people limit 2; select id, ssn, 1 from people limit 3"
    done = psql(gateway.url("masked"), "-c", query)
    assert len(done.stdout.splitlines()) == 6
    assert clean(done.stdout)


def test_pipelined_and_returned_rows_are_masked(gateway: Gateway, masked: Connection) -> None:
    with psycopg.connect(gateway.url("masked")) as connection:
        with connection.pipeline():
            cursors = [connection.execute("select mail, ssn from people where id = %s", [n]) for n in range(1, 60)]
        found = [cursor.fetchall() for cursor in cursors]
        assert [len(rows) for rows in found] == [1] * 59
        assert clean(found)
        changed = connection.execute("update people set note = mail where id = 1 returning note, mail").fetchall()
        assert clean(changed)
        connection.rollback()


def test_output_of_a_script_is_masked(gateway: Gateway, masked: Connection) -> None:
    script = "select mail, ssn from people order by id limit 5"
    submitted = gateway.call(gateway.services.sessions.submit(gateway.admin, "masked", script, source="127.0.0.1"))
    session = gateway.finished(submitted.id)
    assert session.exit_code == 0
    assert clean(gateway.text(session.id))
    assert session.metrics["data_masking"]["total_redact_count"] == 9
