"""Clients of PostgreSQL: the command line of psql, and credentials in the formats of drivers.

Every format escapes user, password and database by its own rules, and demands a verified certificate.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from postern.protocols.clients import CredentialForm, NativeClient, NativeCredential, PasswordSource, jdbc, netloc, uri

_PORT: Final = 5432  # psql names its socket by its port; the number has no other meaning
_DATABASE: Final = "postgres"
_VARIABLE: Final = "PGPASSWORD"


def psql_line(credential: NativeCredential) -> str:
    """Return a psql command. The URI is in double quotes and all its parts are quoted for a URI, so that a shell
    expands nothing."""
    return f'psql "{_libpq(credential)}"'


def carried_line(host: str, port: int, database: str) -> str:
    """Return a psql command for a port that needs no password."""
    return f'psql "postgresql://{host}:{port}/{quote(database or _DATABASE, safe="")}?user=me&sslmode=disable"'


def replace_address(line: str, host: str, port: int) -> str:
    """Return a line of `psql_line` with a new address of the gateway."""
    parts = _parts(line)
    who = parts.netloc.rpartition("@")[0]
    return f'psql "{parts._replace(netloc=f"{who}@{netloc(host, port)}").geturl()}"'


def user_of(line: str) -> str:
    """Return the user name in a line of `psql_line`."""
    return unquote(_parts(line).username or "")


def _parts(line: str) -> SplitResult:
    return urlsplit(line.removeprefix("psql ").strip('"'))


def _trust(credential: NativeCredential) -> dict[str, str]:
    return {"sslmode": "verify-full", "sslrootcert": _root(credential)}


def _root(credential: NativeCredential) -> str:
    return "system" if credential.authority is None else str(credential.authority)


def _libpq(credential: NativeCredential) -> str:
    return uri("postgresql", credential, _trust(credential))


def _psycopg(credential: NativeCredential) -> str:
    return uri("postgresql+psycopg", credential, _trust(credential))


def _pgjdbc(credential: NativeCredential) -> str:
    trust = {"sslmode": "verify-full"}
    if credential.authority is None:
        trust["sslfactory"] = "org.postgresql.ssl.DefaultJavaSSLFactory"
    else:
        trust["sslrootcert"] = str(credential.authority)
    return jdbc("postgresql", credential, trust)


def _django(credential: NativeCredential) -> str:
    """Return the entry of DATABASES in settings.py. Text in JSON's escapes is valid in Python."""
    settings = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": credential.database,
        "USER": credential.user,
        **({"PASSWORD": credential.password.reveal()} if credential.password else {}),
        "HOST": credential.host,
        "PORT": credential.port,
        "OPTIONS": _trust(credential),
    }
    return f"DATABASES = {json.dumps({'default': settings}, indent=4)}"


def _env(credential: NativeCredential) -> str:
    """Return lines for a shell, quoted for it."""
    values = {
        "PGHOST": credential.host,
        "PGPORT": credential.port,
        "PGUSER": credential.user,
        **({_VARIABLE: credential.password.reveal()} if credential.password else {}),
        "PGDATABASE": credential.database,
        "PGSSLMODE": "verify-full",
        "PGSSLROOTCERT": _root(credential),
    }
    return "\n".join(f"export {name}={shlex.quote(str(value))}" for name, value in values.items())


def _pgpass(credential: NativeCredential) -> str:
    """Return the line of ~/.pgpass, for any database of the connection."""
    password = credential.password.reveal() if credential.password else ""
    fields = (credential.host, str(credential.port), None, credential.user, password)
    return ":".join("*" if field is None else field.replace("\\", "\\\\").replace(":", "\\:") for field in fields)


def psql_words(folder: Path, database: str) -> list[str]:
    """Return the arguments of psql for the socket in `folder`."""
    values = {"host": str(folder), "port": str(_PORT), "user": "me", "dbname": database or _DATABASE}
    return [" ".join(f"{name}={_conninfo(value)}" for name, value in values.items())]


def _conninfo(value: str) -> str:
    """Quote a value of libpq's key=value form, which can contain spaces and quotes."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


CLIENT: Final = NativeClient(
    names=("psql",),
    package="postgresql-client",
    elsewhere="libpq",
    shows_waiting=True,
    line=psql_line,
    carried_line=carried_line,
    socket=f".s.PGSQL.{_PORT}",
    socket_arguments=psql_words,
    default_database=_DATABASE,
    password_variable=_VARIABLE,
    forms={
        "uri": CredentialForm(_libpq, PasswordSource.ENVIRONMENT, _VARIABLE),
        "jdbc": CredentialForm(_pgjdbc, PasswordSource.SETTING),
        "sqlalchemy": CredentialForm(_psycopg, PasswordSource.ENVIRONMENT, _VARIABLE),
        "django": CredentialForm(_django, PasswordSource.ENVIRONMENT, _VARIABLE),
        "env": CredentialForm(_env, PasswordSource.LINE),
        "pgpass": CredentialForm(_pgpass, PasswordSource.LINE),
    },
    examples=(
        "postern connect shop-demo -- -c 'select count(*) from orders'",
        'eval "$(postern connect shop-demo --native --format env)" && psql',
    ),
    dropped_variables=(_VARIABLE, "PGSERVICE", "PGHOSTADDR", "PGREQUIREAUTH", "PGCHANNELBINDING"),
)
