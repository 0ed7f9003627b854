"""Client encodings that could deceive guardrails, against a real target."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import pq
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer

from postern.domain.targets.connection import Connection

REFUSED = psycopg.errors.InsufficientPrivilege


@pytest.fixture(scope="module")
def encoded(gateway: Gateway, target: PostgresServer) -> Connection:
    """The connection `encoded`, where values are masked."""
    return gateway.connection("encoded", target, redact_enabled=True)


@pytest.fixture(params=["guarded", "encoded"])
def ruled(request: pytest.FixtureRequest, guarded: Connection, encoded: Connection) -> str:
    """The name of a connection with guardrails, and of one where values are masked."""
    return str(request.param)


@pytest.mark.parametrize("way", ["set client_encoding = 'SJIS'", "set names 'GBK'",
                                 "select set_config('client_encoding', 'BIG5', false)"])  # fmt: skip
def test_change_to_an_unsafe_client_encoding_is_denied_and_the_connection_continues(
    gateway: Gateway, ruled: str, way: str
) -> None:
    with psycopg.connect(gateway.url(ruled), autocommit=True) as connection:
        with pytest.raises(REFUSED, match="client encoding") as caught:
            connection.execute(way)
        assert caught.value.diag.message_hint is not None
        assert "UTF8" in caught.value.diag.message_hint
        assert connection.execute("show client_encoding").fetchone() == ("UTF8",)
        assert connection.execute("select 'Gr\u00fc\u00dfe'").fetchone() == ("Gr\u00fc\u00dfe",)


def test_statements_are_denied_while_a_startup_parameter_sets_an_unsafe_encoding(gateway: Gateway, ruled: str) -> None:
    with psycopg.connect(gateway.url(ruled, client_encoding="SJIS"), autocommit=True) as connection:
        with pytest.raises(REFUSED, match="SJIS"):
            connection.execute("select 1")
        connection.execute("set client_encoding = 'UTF8'")
        assert connection.execute("select 1").fetchone() == (1,)
        with pytest.raises(REFUSED):
            connection.execute("set client_encoding = 'SJIS'")


def test_statements_are_denied_if_startup_options_set_an_unsafe_encoding(gateway: Gateway, ruled: str) -> None:
    with (
        psycopg.connect(gateway.url(ruled, options="-c client_encoding=UHC"), autocommit=True) as connection,
        pytest.raises(REFUSED, match="UHC"),
    ):
        connection.execute("select 1")


def test_statement_after_code_that_changes_the_encoding_in_a_pipeline_is_denied(gateway: Gateway, ruled: str) -> None:
    """The statements after a code block are read before its effect is known."""
    connection = pq.PGconn.connect(gateway.url(ruled).encode())
    connection.enter_pipeline_mode()
    code = b"do $$ begin perform set_config('client_' || 'encoding', 'SJIS', false); end $$"
    connection.send_query_params(code, [])
    connection.pipeline_sync()
    connection.send_query_params(b"select E'\xe3\x81\x82\\', 4711 --'", [])
    connection.pipeline_sync()
    # Each statement has its result and a None behind it, each sync its own.
    results = [connection.get_result() for _ in range(6)]
    connection.finish()
    states = [result.error_field(pq.DiagnosticField.SQLSTATE) for result in results if result is not None]
    assert b"42501" in states


def test_any_client_encoding_is_allowed_without_rules(gateway: Gateway) -> None:
    with psycopg.connect(gateway.url(client_encoding="SJIS")) as connection:
        assert connection.execute("select '\u8868'").fetchone() == ("\u8868",)
