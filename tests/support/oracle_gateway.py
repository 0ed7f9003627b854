"""A gateway in front of the Oracle server of tests: connections to it, and clients that log in by the native port."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path
from typing import Any

import oracledb
from tests.support import oracle_program
from tests.support.gateway import Gateway
from tests.support.oracledb.running_server import OracleTestServer

from postern.domain.identity.credential import Issued
from postern.domain.targets.connection import Connection
from postern.wiring import tls


def oracle_connection(gateway: Gateway, name: str, server: OracleTestServer, **more: Any) -> Connection:
    secret = {
        "HOST": "127.0.0.1",
        "PORT": str(server.port),
        "USER": server.user,
        "PASS": server.password,
        "DB": server.service,
        **more.pop("secret", {}),
    }
    return gateway.connection(name, secret=secret, subtype="oracledb", **more)


def oracle_login(gateway: Gateway, issued: Issued, **more: Any) -> dict[str, Any]:
    """Arguments of `oracledb.connect`, with TLS."""
    return {
        "user": issued.credential.username,
        "password": issued.password.reveal(),
        "dsn": f"tcps://localhost:{gateway.settings.oracledb_port}/ORCLPDB1",
        "ssl_context": ssl.create_default_context(cafile=str(tls.own_files(gateway.settings).authority)),
        **more,
    }


def connect_oracle(gateway: Gateway, issued: Issued, **more: Any) -> oracledb.Connection:
    return oracledb.connect(**oracle_login(gateway, issued, **more))


def plain_dsn(gateway: Gateway, port: int | None = None) -> str:
    """The address without TLS."""
    return f"127.0.0.1:{port or gateway.settings.oracledb_port}/ORCLPDB1"


def oracle_command(gateway: Gateway, issued: Issued, *, port: int | None = None) -> list[str]:
    """The command of a client that reads statements from its input."""
    words = [plain_dsn(gateway, port), issued.credential.username, issued.password.reveal()]
    # Without -P, the package beside the program would hide the driver, which has the same name.
    return [sys.executable, "-P", str(Path(oracle_program.__file__)), *words]


def ask_directly(server: OracleTestServer, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements at the server itself. Return the rows of the last one."""
    rows: list[tuple[Any, ...]] = []
    with oracledb.connect(user=server.user, password=server.password, dsn=server.easy_connect) as client:
        for statement in statements:
            rows = ask_oracle(client, statement)
        client.commit()
    return rows


def ask_oracle(client: oracledb.Connection, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """The rows of a statement; none if it is not a query."""
    with client.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall()) if cursor.description else []
