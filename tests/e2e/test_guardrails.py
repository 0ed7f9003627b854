"""Guardrails on every way in and out: a denied statement did not run, and the connection continues."""

from __future__ import annotations

import asyncpg
import psycopg
import pytest
from tests.support.clients import psql
from tests.support.gateway import Gateway

from postern.domain.targets.connection import Connection

REFUSED = psycopg.errors.InsufficientPrivilege


@pytest.fixture
def table(direct: psycopg.Connection) -> str:
    """A table to be kept, with three rows."""
    direct.execute("drop table if exists precious")
    direct.execute("create table precious (n int, t text)")
    direct.execute("insert into precious select n, 'row ' || n from generate_series(1, 3) n")
    return "precious"


def rows(direct: psycopg.Connection) -> int:
    found = direct.execute("select count(*) from precious").fetchone()
    assert found is not None
    return int(found[0])


@pytest.mark.parametrize(
    "statement",
    [
        "drop table precious",
        "DROP   TABLE precious",
        "drop/* hidden */table precious",
        "drop -- hidden\ntable precious",
        "insert into precious values (4); drop table precious",
        "begin; insert into precious values (4); drop table precious; commit",
        "do $$ begin execute 'drop table precious'; end $$",
    ],
)
def test_deny_rule_blocks_a_simple_query_message(
    gateway: Gateway, guarded: Connection, direct: psycopg.Connection, table: str, statement: str
) -> None:
    """Each -c of psql is one message, whatever statements it contains."""
    done = psql(gateway.url("guarded"), "-c", statement, "-c", "select 'goes on'")
    assert "no-drop" in done.stderr
    assert "goes on" in done.stdout
    assert rows(direct) == 3


def test_deny_rule_blocks_a_statement_and_bind_value_of_the_extended_protocol(
    gateway: Gateway, guarded: Connection, direct: psycopg.Connection, table: str
) -> None:
    with psycopg.connect(gateway.url("guarded"), autocommit=True) as connection:
        with pytest.raises(REFUSED, match="no-drop"):
            connection.execute("drop table precious", prepare=True)
        with pytest.raises(REFUSED):  # in a bind value
            connection.execute("select %s::text", ["please drop table precious"])
        assert connection.execute("select %s::int", [1]).fetchone() == (1,)
    assert rows(direct) == 3


async def test_deny_rule_blocks_a_statement_of_asyncpg(gateway: Gateway, guarded: Connection) -> None:
    connection = await asyncpg.connect(gateway.url("guarded"))
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.prepare("drop table precious")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.fetch("drop table precious")
    assert await connection.fetchval("select $1::int", 1) == 1
    await connection.close()


def test_denied_statement_leaves_its_transaction_open(
    gateway: Gateway, guarded: Connection, direct: psycopg.Connection, table: str
) -> None:
    """The client can still commit or roll back what ran before."""
    with psycopg.connect(gateway.url("guarded")) as connection:
        connection.execute("insert into precious values (4)")
        with pytest.raises(REFUSED):
            connection.execute("drop table precious")
        connection.rollback()
        assert connection.execute("select count(*) from precious").fetchone() == (3,)
    assert rows(direct) == 3


def test_deny_rule_blocks_output_in_every_form(gateway: Gateway, guarded: Connection) -> None:
    url = gateway.url("guarded")
    with psycopg.connect(url, autocommit=True) as connection:
        for query in (
            "select n, case when n = 500 then 'top-secret' else 'dull' end from generate_series(1, 1000) n",
            "select array['a', 'top-secret']",
            'select \'{"a": "top-secret"}\'::jsonb',
            "select 1/length('')::int from (select 'top-secret'::int) x",
        ):
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(query)
            assert "top-secret" not in str(caught.value)
            assert connection.execute("select 'fine'").fetchone() == ("fine",)
        with (
            pytest.raises(REFUSED),
            connection.cursor(binary=True) as cursor,
        ):
            cursor.execute("select 'top-' || 'secret' || %s::text", [""])
    done = psql(url, "-c", "copy (select 'top-' || 'secret' || n from generate_series(1, 10) n) to stdout")
    assert "top-secret" not in done.stdout + done.stderr
    assert "no-drop" in done.stderr
    session = gateway.newest_finished("guarded")
    assert "top-secret" not in gateway.text(session.id)


def test_denied_notice_is_withheld_and_other_output_is_sent(gateway: Gateway, guarded: Connection) -> None:
    script = "do $$ begin raise notice '%', 'top-' || 'secret'; raise notice 'harmless'; end $$;\nselect 'end';\n"
    done = psql(gateway.url("guarded"), stdin=script)
    assert "top-secret" not in done.stderr
    assert "harmless" in done.stderr
    assert done.stdout == "DO\nend\n"


def test_denied_copy_does_not_run_and_the_next_copy_does(
    gateway: Gateway, guarded: Connection, direct: psycopg.Connection, table: str
) -> None:
    script = "\\copy (select 'drop table x') to '/dev/null'\n\\copy precious from stdin\n4\tfour\n\\.\n"
    done = psql(gateway.url("guarded"), stdin=script)
    assert "no-drop" in done.stderr
    assert rows(direct) == 4
