"""Clients of MySQL and MariaDB: the command line, and credentials in the formats of drivers.

MySQL and MariaDB have different options for the same program. Each ignores, with a warning, an unknown option that
begins with `loose`. Every format escapes user, password and database by its own rules, and demands a verified
certificate.
"""

from __future__ import annotations

import json
import shlex
import ssl
from pathlib import Path
from typing import Final

from postern.protocols.clients import CredentialForm, NativeClient, NativeCredential, PasswordSource, jdbc, uri

# Each client has one of them: they verify the server's certificate and its name.
_VERIFY: Final = ("--loose-ssl-mode=VERIFY_IDENTITY", "--loose-ssl-verify-server-cert")
_PATIENCE: Final = 600  # seconds that a client can wait at login, for a review
_SOCKET: Final = "mysql.sock"


def mysql_line(credential: NativeCredential) -> str:
    """Return a command with a credential, quoted for a shell. Without a database it names none; without a password it
    asks for it."""
    password = f"--password={credential.password.reveal()}" if credential.password else "--password"
    who = (f"--user={credential.user}", password)
    return _line(credential.host, credential.port, credential.database, *who, _trust(credential.authority), *_VERIFY)


def carried_line(host: str, port: int, database: str) -> str:
    """Return a command for a port that needs no password."""
    return _line(host, port, database, "--user=me")


def _line(host: str, port: int, database: str, *options: str) -> str:
    words = ["mysql", f"--host={host}", f"--port={port}", "--protocol=tcp", *options]
    return shlex.join([*words, f"--database={database}"] if database else words)


def _trust(authority: Path | None) -> str:
    if authority is not None:
        return f"--ssl-ca={authority}"
    paths = ssl.get_default_verify_paths()
    return f"--ssl-ca={paths.cafile}" if paths.cafile else f"--ssl-capath={paths.capath or paths.openssl_capath}"


def _shell(credential: NativeCredential) -> str:
    """Return the URI for MySQL Shell."""
    return uri("mysql", credential, {"ssl-mode": "VERIFY_IDENTITY", "ssl-ca": credential.authority_file})


def _pymysql(credential: NativeCredential) -> str:
    return uri("mysql+pymysql", credential, {"ssl_ca": credential.authority_file, "ssl_check_hostname": "true"})


def _connector(credential: NativeCredential) -> str:
    """Return the URL for MariaDB Connector/J, which also works with MySQL."""
    trust = {"sslMode": "verify-full"}
    if credential.authority is not None:
        trust["serverSslCert"] = str(credential.authority)
    return jdbc("mariadb", credential, trust)


def _django(credential: NativeCredential) -> str:
    """Return the entry of DATABASES in settings.py. Text in JSON's escapes is valid in Python."""
    settings = {
        "ENGINE": "django.db.backends.mysql",
        "NAME": credential.database,
        "USER": credential.user,
        **({"PASSWORD": credential.password.reveal()} if credential.password else {}),
        "HOST": credential.host,
        "PORT": credential.port,
        "OPTIONS": {"ssl_mode": "VERIFY_IDENTITY", "ssl": {"ca": credential.authority_file}},
    }
    return f"DATABASES = {json.dumps({'default': settings}, indent=4)}"


def _env(credential: NativeCredential) -> str:
    """Return lines for a shell, quoted for it. The client reads host, port and password."""
    values = {
        "MYSQL_HOST": credential.host,
        "MYSQL_TCP_PORT": credential.port,
        "MYSQL_USER": credential.user,
        **({"MYSQL_PWD": credential.password.reveal()} if credential.password else {}),
        "MYSQL_DATABASE": credential.database,
        "MYSQL_SSL_CA": credential.authority_file,
    }
    return "\n".join(f"export {name}={shlex.quote(str(value))}" for name, value in values.items())


def _my_cnf(credential: NativeCredential) -> str:
    """Return an option file, for --defaults-file or --defaults-extra-file."""
    lines = [
        "[client]",
        f"host={_option(credential.host)}",
        f"port={credential.port}",
        "protocol=tcp",
        f"user={_option(credential.user)}",
        *([f"password={_option(credential.password.reveal())}"] if credential.password else []),
        f"ssl-ca={_option(credential.authority_file)}",
        "loose-ssl-mode=VERIFY_IDENTITY",
        "loose-ssl-verify-server-cert",
    ]
    if credential.database:
        lines += ["[mysql]", f"database={_option(credential.database)}"]
    return "\n".join(lines)


def _option(value: str) -> str:
    """Quote in double quotes, where `#` begins no comment; backslashes and quotes are escaped."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def mysql_words(folder: Path, database: str) -> list[str]:
    """Return the arguments of the client for the socket in `folder`."""
    words = [f"--socket={folder / _SOCKET}", "--protocol=socket", "--user=me", "--skip-password"]
    words.append(f"--connect-timeout={_PATIENCE}")
    return [*words, f"--database={database}"] if database else words


CLIENT: Final = NativeClient(
    names=("mysql", "mariadb"),
    package="mariadb-client",
    elsewhere="mysql-client",
    shows_waiting=False,
    line=mysql_line,
    carried_line=carried_line,
    socket=_SOCKET,
    socket_arguments=mysql_words,
    forms={
        "uri": CredentialForm(_shell, PasswordSource.PROMPT),
        "jdbc": CredentialForm(_connector, PasswordSource.SETTING),
        "sqlalchemy": CredentialForm(_pymysql, PasswordSource.SETTING),
        "django": CredentialForm(_django, PasswordSource.SETTING),
        "env": CredentialForm(_env, PasswordSource.LINE),
        "my.cnf": CredentialForm(_my_cnf, PasswordSource.LINE),
    },
    examples=("postern connect stock --native --format my.cnf > stock.cnf && mysql --defaults-file=stock.cnf",),
    dropped_variables=("MYSQL_PWD",),
)
