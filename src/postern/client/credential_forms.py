"""A connection credential in the form that a client, a driver or a framework reads: `connect --native --format`.

Every form escapes user, password and database by its own rules, and asks for a verified certificate: the gateway's CA
from a file, or the CAs that the system trusts where there is none.
"""

from __future__ import annotations

import json
import shlex
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

from postern.domain.secret import Secret
from postern.errors import Invalid

POSTGRES, MYSQL = "postgres", "mysql"


@dataclass(frozen=True, slots=True)
class NativeCredential:
    """What a client logs in with. `authority` is the file with the gateway's CA; None for the system's CAs."""

    subtype: str
    user: str
    password: Secret
    host: str
    port: int
    database: str
    authority: Path | None

    @property
    def netloc(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def authority_file(self) -> str:
        """A file with the CAs to trust, for clients that do not know the system's by themselves."""
        found = self.authority or ssl.get_default_verify_paths().cafile or ssl.get_default_verify_paths().openssl_cafile
        return str(found)

    @property
    def postgres_root(self) -> str:
        return "system" if self.authority is None else str(self.authority)


def uri(one: NativeCredential) -> str:
    """libpq's URI; for MySQL the spelling of MySQL Shell."""
    if one.subtype == POSTGRES:
        return _uri("postgresql", one, {"sslmode": "verify-full", "sslrootcert": one.postgres_root})
    return _uri("mysql", one, {"ssl-mode": "VERIFY_IDENTITY", "ssl-ca": one.authority_file})


def sqlalchemy(one: NativeCredential) -> str:
    """For psycopg 3, and for PyMySQL."""
    if one.subtype == POSTGRES:
        return _uri("postgresql+psycopg", one, {"sslmode": "verify-full", "sslrootcert": one.postgres_root})
    return _uri("mysql+pymysql", one, {"ssl_ca": one.authority_file, "ssl_check_hostname": "true"})


def jdbc(one: NativeCredential) -> str:
    """For pgJDBC, and for MariaDB Connector/J, which also speaks with MySQL; PEM files are read by both."""
    who = {"user": one.user, "password": one.password.reveal()}
    if one.subtype == POSTGRES:
        trust = {"sslmode": "verify-full"}
        if one.authority is None:
            trust["sslfactory"] = "org.postgresql.ssl.DefaultJavaSSLFactory"
        else:
            trust["sslrootcert"] = str(one.authority)
        return _jdbc("postgresql", one, who | trust)
    trust = {"sslMode": "verify-full"}
    if one.authority is not None:
        trust["serverSslCert"] = str(one.authority)
    return _jdbc("mariadb", one, who | trust)


def django(one: NativeCredential) -> str:
    """The entry of DATABASES in settings.py: text in JSON's escapes is text in Python, too."""
    if one.subtype == POSTGRES:
        engine = "django.db.backends.postgresql"
        options: Mapping[str, object] = {"sslmode": "verify-full", "sslrootcert": one.postgres_root}
    else:
        engine = "django.db.backends.mysql"
        options = {"ssl_mode": "VERIFY_IDENTITY", "ssl": {"ca": one.authority_file}}
    settings = {
        "ENGINE": engine,
        "NAME": one.database,
        "USER": one.user,
        "PASSWORD": one.password.reveal(),
        "HOST": one.host,
        "PORT": one.port,
        "OPTIONS": options,
    }
    return f"DATABASES = {json.dumps({'default': settings}, indent=4)}"


def env(one: NativeCredential) -> str:
    """Lines for a shell, quoted for it. psql reads all of them; mysql reads host, port and password."""
    values: dict[str, object]
    if one.subtype == POSTGRES:
        values = {
            "PGHOST": one.host,
            "PGPORT": one.port,
            "PGUSER": one.user,
            "PGPASSWORD": one.password.reveal(),
            "PGDATABASE": one.database,
            "PGSSLMODE": "verify-full",
            "PGSSLROOTCERT": one.postgres_root,
        }
    else:
        values = {
            "MYSQL_HOST": one.host,
            "MYSQL_TCP_PORT": one.port,
            "MYSQL_USER": one.user,
            "MYSQL_PWD": one.password.reveal(),
            "MYSQL_DATABASE": one.database,
            "MYSQL_SSL_CA": one.authority_file,
        }
    return "\n".join(f"export {name}={shlex.quote(str(value))}" for name, value in values.items())


def pgpass(one: NativeCredential) -> str:
    """The line of ~/.pgpass, for any database that the connection has."""
    if one.subtype != POSTGRES:
        raise Invalid("--format pgpass is for PostgreSQL; use --format my.cnf", field="format")
    fields = (one.host, str(one.port), None, one.user, one.password.reveal())
    return ":".join("*" if field is None else field.replace("\\", "\\\\").replace(":", "\\:") for field in fields)


def my_cnf(one: NativeCredential) -> str:
    """An option file for the clients of MySQL and MariaDB, for --defaults-file or --defaults-extra-file."""
    if one.subtype != MYSQL:
        raise Invalid("--format my.cnf is for MySQL and MariaDB; use --format pgpass", field="format")
    lines = [
        "[client]",
        f"host={_option(one.host)}",
        f"port={one.port}",
        "protocol=tcp",
        f"user={_option(one.user)}",
        f"password={_option(one.password.reveal())}",
        f"ssl-ca={_option(one.authority_file)}",
        "loose-ssl-mode=VERIFY_IDENTITY",
        "loose-ssl-verify-server-cert",
    ]
    if one.database:
        lines += ["[mysql]", f"database={_option(one.database)}"]
    return "\n".join(lines)


FORMS: Mapping[str, Callable[[NativeCredential], str]] = {
    "uri": uri,
    "jdbc": jdbc,
    "sqlalchemy": sqlalchemy,
    "django": django,
    "env": env,
    "pgpass": pgpass,
    "my.cnf": my_cnf,
}


def _uri(scheme: str, one: NativeCredential, settings: Mapping[str, str]) -> str:
    who = f"{quote(one.user, safe='')}:{quote(one.password.reveal(), safe='')}"
    query = urlencode(settings, quote_via=quote, safe="/")
    return f"{scheme}://{who}@{one.netloc}/{quote(one.database, safe='')}?{query}"


def _jdbc(scheme: str, one: NativeCredential, settings: Mapping[str, str]) -> str:
    query = urlencode(settings, quote_via=quote, safe="/")
    return f"jdbc:{scheme}://{one.netloc}/{quote(one.database, safe='')}?{query}"


def _option(value: str) -> str:
    """In double quotes, where `#` begins no comment, and a backslash and a quote are escaped."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
