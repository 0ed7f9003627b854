"""Unmodified SQL Server clients, through the gateway, to the SQL Server of tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymssql
import pytds
import pytest
from tests.support.gateway import Gateway
from tests.support.mssql_gateway import ask_mssql, connect_pymssql, connect_pytds, mssql_connection
from tests.support.mssql_server import SqlServer

from postern.domain.identity.credential import Issued


@pytest.fixture(scope="module")
def sql_server() -> Iterator[SqlServer]:
    server = SqlServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def books(gateway: Gateway, sql_server: SqlServer) -> Issued:
    """A credential of the connection `books`, which has no rule."""
    mssql_connection(gateway, "books", sql_server)
    return gateway.credential("books")


@pytest.fixture(params=["pymssql", "pytds"])
def client(request: pytest.FixtureRequest, gateway: Gateway, books: Issued) -> Iterator[Any]:
    connect = {"pymssql": connect_pymssql, "pytds": connect_pytds}[request.param]
    with connect(gateway, books) as connected:
        yield connected


def test_client_runs_statements(client: Any) -> None:
    assert ask_mssql(client, "select N'grüße 🦊', null, 42, %s", ("it's;--",)) == [("grüße 🦊", None, 42, "it's;--")]
    ask_mssql(client, "create table #t (a int, b nvarchar(20))")
    ask_mssql(client, "insert into #t values (1, N'x'), (2, null)")
    assert ask_mssql(client, "select a, b from #t order by a") == [(1, "x"), (2, None)]


def test_client_gets_the_servers_errors(client: Any) -> None:
    with pytest.raises((pymssql.Error, pytds.Error), match="nothing_here"):
        ask_mssql(client, "select * from nothing_here")
    assert ask_mssql(client, "select 1") == [(1,)]


def test_wrong_password_is_refused(gateway: Gateway, books: Issued) -> None:
    with pytest.raises(pymssql.Error, match="password is wrong"):
        connect_pymssql(gateway, books, password="wrong")
    with pytest.raises(pytds.Error, match="password is wrong"):
        connect_pytds(gateway, books, password="wrong")
