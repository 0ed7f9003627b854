"""A gateway in front of a MariaDB: connections to it, and clients that log in by the native port."""

from __future__ import annotations

from typing import Any

import pymysql
from pymysql.constants import CLIENT
from tests.support.gateway import Gateway
from tests.support.mariadb import MariaDbServer

from postern.domain.identity.credential import Issued
from postern.domain.targets.connection import Connection

DATABASE = "shop"
ACCOUNT, PASSWORD = "app", "the target's own password"


def set_up(server: MariaDbServer) -> None:
    """The database that connections lead to, and the account by which the gateway logs in."""
    run(server, f"create database {DATABASE}")
    run(server, f"create user {ACCOUNT} identified by %s", PASSWORD)
    run(server, f"grant all on *.* to {ACCOUNT}")


def run(server: MariaDbServer, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Around the gateway, as root; the rows of the first result."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return list(cursor.fetchall())


def mysql_connection(gateway: Gateway, name: str, server: MariaDbServer | None = None, **more: Any) -> Connection:
    secret = {"USER": ACCOUNT, "PASS": PASSWORD, "DB": DATABASE, "SSLMODE": "disable", **more.pop("secret", {})}
    if server is not None:
        secret["PORT"] = str(server.port)
    return gateway.connection(name, secret=secret, subtype="mysql", **more)


def login(gateway: Gateway, issued: Issued, **more: Any) -> dict[str, Any]:
    """Arguments of PyMySQL's `connect` and of those like it, without TLS."""
    return {
        "host": "127.0.0.1",
        "port": gateway.settings.mysql_port,
        "user": issued.credential.username,
        "password": issued.password.reveal(),
        **more,
    }


def connect(gateway: Gateway, issued: Issued, **more: Any) -> Any:
    """A connection of PyMySQL that may send several statements at once; each is committed by itself."""
    options = {"autocommit": True, "charset": "utf8mb4", "client_flag": CLIENT.MULTI_STATEMENTS, "read_timeout": 60}
    return pymysql.connect(**login(gateway, issued, **{**options, **more}))


def ask(client: Any, statement: str, values: Any = None) -> list[tuple[Any, ...]]:
    with client.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())
