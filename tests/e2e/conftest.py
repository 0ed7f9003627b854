"""One real PostgreSQL and one gateway, shared by all end-to-end tests that change neither."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from tests.support.gateway import Gateway
from tests.support.mariadb import MariaDbServer
from tests.support.mongodb import MongoServer, running_mongodb
from tests.support.mongodb_clients import mongodb_connection
from tests.support.mssql_server import SqlServer, running_sqlserver
from tests.support.mysql import running_mariadb
from tests.support.mysql_gateway import mysql_connection, set_up
from tests.support.oracledb.running_server import OracleTestServer, running_oracle
from tests.support.postgres import PostgresServer, running_server
from tests.support.ssh_clients import Clients

from postern.domain.identity.credential import Issued
from postern.domain.targets.connection import Connection


@pytest.fixture(scope="session")
def target() -> Iterator[PostgresServer]:
    """The target of most tests: trust, no TLS, room for many clients."""
    with running_server({"max_connections": "400", "shared_buffers": "64MB"}) as server:
        yield server


@pytest.fixture(scope="session")
def gateway(target: PostgresServer) -> Iterator[Gateway]:
    """One worker, SQLite, and the connection `target` without any rule."""
    running = Gateway()
    try:
        running.start()
        running.connection("target", target)
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def direct(target: PostgresServer) -> Iterator[psycopg.Connection]:
    """A connection that goes around the gateway: what the target really has."""
    with psycopg.connect(target.dsn(), autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def guarded(gateway: Gateway, target: PostgresServer) -> Connection:
    """The connection `guarded`: DROP TABLE is refused on the way in, `top-secret` on the way out."""
    connection = gateway.connection("guarded", target)
    gateway.guardrail("no-drop", connection, deny=r"(?i)drop\s+table", deny_output="top-secret")
    return connection


@pytest.fixture(scope="session")
def maria() -> Iterator[MariaDbServer]:
    """The MySQL target of most tests, whose statements may take their time."""
    with running_mariadb("--max-statement-time=0", "--local-infile=1", "--max-allowed-packet=64M") as server:
        set_up(server)
        yield server


@pytest.fixture(scope="session")
def shop(gateway: Gateway, maria: MariaDbServer) -> Issued:
    """A credential of the connection `shop`, which has no rule."""
    mysql_connection(gateway, "shop", maria)
    return gateway.credential("shop")


@pytest.fixture(scope="session")
def mssql() -> Iterator[SqlServer]:
    """The SQL Server target of most tests."""
    with running_sqlserver() as server:
        yield server


@pytest.fixture(scope="session")
def oracle() -> Iterator[OracleTestServer]:
    """The Oracle target of tests about all protocols."""
    with running_oracle() as server:
        yield server
        assert server.failures == []


@pytest.fixture(scope="session")
def mongo() -> Iterator[MongoServer]:
    """The MongoDB target of most tests, the only member of its replica set."""
    with running_mongodb() as server:
        yield server


@pytest.fixture(scope="session")
def orders(gateway: Gateway, mongo: MongoServer) -> Issued:
    """A credential of the connection `orders`, which has no rule."""
    mongodb_connection(gateway, "orders", mongo)
    return gateway.credential("orders")


@pytest.fixture(scope="module")
def clients(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Clients:
    """OpenSSH's, at the port of the gateway that the module has."""
    return Clients(gateway, tmp_path_factory.mktemp("home"))
