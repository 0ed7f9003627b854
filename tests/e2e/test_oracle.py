"""Unmodified clients of Oracle Database, through the gateway, to the Oracle server of tests."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import oracledb
import pytest
from tests.e2e.test_oracle_direct import ANSWERS, CLIENTS, LEVELS, NOT_TRIED, program, run
from tests.support.gateway import Gateway
from tests.support.oracle_gateway import ask_directly, ask_oracle, connect_oracle, oracle_connection, plain_dsn
from tests.support.oracledb.running_server import OracleTestServer, running_oracle
from tests.support.oracledb.server_session import ServerOptions

from postern.domain.identity.credential import Issued

PEOPLE = (
    "create table people (id number, name varchar2(40), card varchar2(20))",
    "insert into people values (1, 'Ann', '4111111111111111')",
    "insert into people values (2, 'Bob', null)",
)


@pytest.fixture(scope="module")
def server() -> Iterator[OracleTestServer]:
    with running_oracle() as running:
        ask_directly(running, *PEOPLE)
        yield running
        assert running.failures == []


@pytest.fixture(scope="module")
def books(gateway: Gateway, server: OracleTestServer) -> Issued:
    """A credential of the connection `books`, which has no rule."""
    oracle_connection(gateway, "books", server)
    return gateway.credential("books")


@pytest.fixture
def client(gateway: Gateway, books: Issued) -> Iterator[oracledb.Connection]:
    connected = connect_oracle(gateway, books)
    yield connected
    connected.close()


def test_client_runs_statements(client: oracledb.Connection) -> None:
    for value in ("it's;--", "grüße", "x" * 5000):
        assert ask_oracle(client, "select :1, :2 from dual", value, 42) == [(value, 42)]
    assert ask_oracle(client, "select id, name from people order by id") == [(1, "Ann"), (2, "Bob")]


def test_client_logs_in_without_tls(gateway: Gateway, books: Issued) -> None:
    with connect_oracle(gateway, books, dsn=plain_dsn(gateway), ssl_context=None) as client:
        assert ask_oracle(client, "select 1 from dual") == [(1,)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("oracle-clients")


@functools.cache
def answers(client: str, level: str, gateway: Gateway, folder: Path) -> dict[str, str]:
    """Return what a client's program prints through the gateway, by task."""
    name = f"tasks-{client}-{level}"
    with running_oracle(ServerOptions(level=LEVELS[level])) as server:
        oracle_connection(gateway, name, server)
        issued = gateway.credential(name)
        login = (issued.credential.username, issued.password.reveal())
        place = ["127.0.0.1", str(gateway.settings.oracledb_port), server.service, *login]
        shown = run([*program(client, folder), *place], folder)
        assert server.failures == []
    return dict(line.split(" ", 1) for line in shown.splitlines())


@pytest.mark.parametrize("task", ANSWERS)
@pytest.mark.parametrize("level", ["19c", pytest.param("23ai", marks=pytest.mark.slow)])
@pytest.mark.parametrize("client", CLIENTS)
def test_client_gets_the_answer_of_each_task(gateway: Gateway, client: str, level: str, task: str, built: Path) -> None:
    if (client, task) not in NOT_TRIED:
        assert answers(client, level, gateway, built)[task] == ANSWERS[task]
