"""Clients of SQL Server: the command line, and credentials in the formats of drivers. Each verifies the certificate."""

from __future__ import annotations

import json
import shlex
from typing import Final
from urllib.parse import quote, urlencode

from postern.protocols.clients import CredentialForm, NativeClient, NativeCredential, PasswordSource

_PATIENCE: Final = 600  # seconds that a client can wait at login, for a review


def sqlcmd_line(credential: NativeCredential) -> str:
    """Return a command with a credential, quoted for a shell. Without a password it asks for it."""
    words = ["sqlcmd", "-S", f"tcp:{credential.host},{credential.port}", "-U", credential.user]
    words += ["-P", credential.password.reveal()] if credential.password else []
    return shlex.join([*words, "-N", "-l", str(_PATIENCE), *_database(credential.database)])


def carried_line(host: str, port: int, database: str) -> str:
    """Return a command for a port that needs no password. It is on this machine, and has no TLS."""
    words = ["sqlcmd", "-S", f"tcp:{host},{port}", "-U", "me", "-P", "-", "-No", "-l", str(_PATIENCE)]
    return shlex.join([*words, *_database(database)])


def _database(name: str) -> list[str]:
    return ["-d", name] if name else []


def _jdbc(credential: NativeCredential) -> str:
    """Return the URL for Microsoft's JDBC driver. It reads certificates from PEM files since version 11.2."""
    settings = {
        "databaseName": credential.database,
        "encrypt": "true",
        "loginTimeout": str(_PATIENCE),
        "serverCertificate": str(credential.authority) if credential.authority else "",
        "user": credential.user,
        **({"password": credential.password.reveal()} if credential.password else {}),
    }
    listed = ";".join([f"{name}={_quote_value(value)}" for name, value in settings.items() if value])
    return f"jdbc:sqlserver://{credential.netloc};{listed}"


def _odbc(credential: NativeCredential) -> str:
    """Return the connection string for Microsoft's ODBC driver 18."""
    settings = {
        "Driver": "ODBC Driver 18 for SQL Server",
        "Server": f"tcp:{credential.host},{credential.port}",
        "Database": credential.database,
        "UID": credential.user,
        **({"PWD": credential.password.reveal()} if credential.password else {}),
        "Encrypt": "yes",
    }
    return ";".join([f"{name}={_quote_value(value)}" for name, value in settings.items() if value])


def _quote_value(value: str) -> str:
    """Quote a value of a connection string in braces, if it needs that."""
    return "{" + value.replace("}", "}}") + "}" if set(value) & set(";{}=[]() ") else value


def _sqlalchemy(credential: NativeCredential) -> str:
    """Return the URL for SQLAlchemy with python-tds."""
    password = f":{quote(credential.password.reveal(), safe='')}" if credential.password else ""
    query = urlencode({"cafile": credential.authority_file, "login_timeout": str(_PATIENCE)})
    user = quote(credential.user, safe="")
    return f"mssql+pytds://{user}{password}@{credential.netloc}/{quote(credential.database, safe='')}?{query}"


def _pytds(credential: NativeCredential) -> str:
    """Return the arguments of pytds.connect as JSON."""
    settings = {
        "dsn": credential.host,
        "port": credential.port,
        "user": credential.user,
        **({"password": credential.password.reveal()} if credential.password else {}),
        "database": credential.database,
        "cafile": credential.authority_file,
        "login_timeout": _PATIENCE,
    }
    return json.dumps(settings, indent=4)


CLIENT: Final = NativeClient(
    names=("sqlcmd",),
    package="mssql-tools18",
    elsewhere="sqlcmd",
    shows_waiting=False,
    line=sqlcmd_line,
    carried_line=carried_line,
    forms={
        "jdbc": CredentialForm(_jdbc, PasswordSource.SETTING),
        "odbc": CredentialForm(_odbc, PasswordSource.SETTING),
        "sqlalchemy": CredentialForm(_sqlalchemy, PasswordSource.SETTING),
        "pytds": CredentialForm(_pytds, PasswordSource.SETTING),
    },
    examples=("postern connect books --native --format odbc",),
    password_variable="SQLCMDPASSWORD",  # noqa: S106 - the name of a variable
)
