"""A gateway in front of the SQL Server of tests: connections to it, and clients that log in by the native port."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mssql_python
import pymssql
import pytds
from tests.support import mssql_program
from tests.support.gateway import Gateway
from tests.support.mssql_server import DATABASE, PASSWORD, USER, SqlServer

from postern.domain.identity.credential import Issued
from postern.domain.targets.connection import Connection
from postern.wiring import tls


def mssql_connection(gateway: Gateway, name: str, server: SqlServer, **more: Any) -> Connection:
    secret = {
        "HOST": "localhost",
        "PORT": str(server.port),
        "USER": USER,
        "PASS": PASSWORD,
        "DB": DATABASE,
        "SSLMODE": "verify-full",
        "SSLROOTCERT": server.issued.authority,
        **more.pop("secret", {}),
    }
    return gateway.connection(name, secret=secret, subtype="mssql", **more)


def mssql_login(gateway: Gateway, issued: Issued, **more: Any) -> dict[str, Any]:
    """Arguments of pymssql's `connect`."""
    return {
        "server": "127.0.0.1",
        "port": str(gateway.settings.mssql_port),
        "user": issued.credential.username,
        "password": issued.password.reveal(),
        "database": DATABASE,
        "autocommit": True,
        **more,
    }


def connect_pymssql(gateway: Gateway, issued: Issued, **more: Any) -> Any:
    return pymssql.connect(**mssql_login(gateway, issued, **more))


def connect_pytds(gateway: Gateway, issued: Issued, **more: Any) -> Any:
    """A connection of python-tds, which verifies the gateway's certificate."""
    arguments = mssql_login(gateway, issued, **more)
    return pytds.connect(
        validate_host=False,
        dsn="localhost",
        port=int(arguments.pop("port")),
        cafile=str(tls.own_files(gateway.settings).authority),
        **_without(arguments, "server"),
    )


def connect_odbc(gateway: Gateway, issued: Issued, **more: Any) -> Any:
    """A connection of Microsoft's ODBC driver."""
    arguments = mssql_login(gateway, issued, **more)
    parts = {
        "Server": f"localhost,{arguments['port']}",
        "Database": arguments["database"],
        "UID": arguments["user"],
        "PWD": arguments["password"],
        "Encrypt": "yes",
        "TrustServerCertificate": "yes",
    }
    return mssql_python.connect(";".join([f"{name}={value}" for name, value in parts.items()]), autocommit=True)


def program(gateway: Gateway, issued: Issued, *, port: int | None = None) -> list[str]:
    """The command of a client that reads batches from its input."""
    login = mssql_login(gateway, issued)
    words = [str(port or login["port"]), login["user"], login["password"], login["database"]]
    return [sys.executable, str(Path(mssql_program.__file__)), *words]


def _without(arguments: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if key != name}


def ask_mssql(client: Any, statement: str, values: Any = None) -> list[tuple[Any, ...]]:
    """The rows of a statement's last result."""
    with client.cursor() as cursor:
        cursor.execute(statement, values) if values is not None else cursor.execute(statement)
        rows: list[tuple[Any, ...]] = []
        while True:
            rows = list(cursor.fetchall()) if cursor.description else rows
            if not cursor.nextset():
                return rows
