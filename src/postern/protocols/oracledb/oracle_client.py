"""Clients of Oracle Database: the command line, and credentials in the formats of drivers.

Each verifies the certificate. SQLcl is a program of Java and reads PEM files since version 23 of its driver. SQL*Plus
and all programs with Oracle's client libraries in thick mode cannot log in: they want numbers in the format of their
machine.
"""

from __future__ import annotations

import json
import shlex
from typing import Final
from urllib.parse import quote, urlencode

from postern.protocols.clients import CredentialForm, NativeClient, NativeCredential, PasswordSource

_PATIENCE: Final = 600  # seconds that a client can wait at login, for a review
_LOCAL_USER: Final = "me"
_LOCAL_PASSWORD: Final = "postern"  # noqa: S105 - of a local port, which needs none


def sqlcl_line(credential: NativeCredential) -> str:
    """Return a command with a credential, quoted for a shell. Without a password it asks for it."""
    password = f"/{_quote_name(credential.password.reveal())}" if credential.password else ""
    login = f"{_quote_name(credential.user)}{password}@{_easy(credential)}"
    return f"JAVA_TOOL_OPTIONS={shlex.quote(_trust(credential))} {shlex.join(['sql', '-L', login])}"


def carried_line(host: str, port: int, database: str) -> str:
    """Return a command for a port that is on this machine. Its password is a fixed word, as its login needs one."""
    return shlex.join(["sql", "-L", f"{_LOCAL_USER}/{_LOCAL_PASSWORD}@//{host}:{port}/{database}"])


def _quote_name(text: str) -> str:
    """Quote a user name or password, which otherwise would end at a hyphen or an @."""
    return f'"{text}"'


def _trust(credential: NativeCredential) -> str:
    """Return the options of Java by which its driver trusts the gateway's authority."""
    return f"-Djavax.net.ssl.trustStore={credential.authority_file} -Djavax.net.ssl.trustStoreType=PEM"


def _easy(credential: NativeCredential) -> str:
    """Return the address, as Oracle's Easy Connect spells it."""
    return f"tcps://{credential.netloc}/{credential.database}"


def _jdbc(credential: NativeCredential) -> str:
    """Return the URL for Oracle's JDBC driver in thin mode, from version 23 on. User and password are settings."""
    settings = {
        "javax.net.ssl.trustStore": credential.authority_file,
        "javax.net.ssl.trustStoreType": "PEM",
        "oracle.net.CONNECT_TIMEOUT": str(_PATIENCE * 1000),
    }
    listed = "&".join([f"{name}={value}" for name, value in settings.items()])
    return f"jdbc:oracle:thin:@{_easy(credential)}?{listed}"


def _descriptor(credential: NativeCredential) -> str:
    """Return the connect descriptor, as in tnsnames.ora."""
    service = f"(SERVICE_NAME={credential.database})" if credential.database else ""
    address = f"(ADDRESS=(PROTOCOL=tcps)(HOST={credential.host})(PORT={credential.port}))"
    return f"(DESCRIPTION={address}(CONNECT_DATA={service})(SECURITY=(SSL_SERVER_DN_MATCH=yes)))"


def _python(credential: NativeCredential) -> str:
    """Return the call of python-oracledb, in thin mode, which is its default. Text in JSON's escapes is valid in
    Python."""
    settings = {
        "user": credential.user,
        **({"password": credential.password.reveal()} if credential.password else {}),
        "dsn": _easy(credential),
    }
    lines = [f"    {name}={json.dumps(value)}," for name, value in settings.items()]
    lines.append(f"    ssl_context=ssl.create_default_context(cafile={json.dumps(credential.authority_file)}),")
    return "\n".join(["oracledb.connect(", *lines, ")"])


def _go(credential: NativeCredential) -> str:
    """Return the URL for go-ora. It verifies the certificate by the authorities that the system trusts, or that the
    environment variable SSL_CERT_FILE names."""
    password = f":{quote(credential.password.reveal(), safe='')}" if credential.password else ""
    query = urlencode({"SSL": "true", "SSL VERIFY": "true", "CONNECTION TIMEOUT": str(_PATIENCE)}, quote_via=quote)
    user = quote(credential.user, safe="")
    return f"oracle://{user}{password}@{credential.netloc}/{quote(credential.database, safe='')}?{query}"


CLIENT: Final = NativeClient(
    names=("sql",),
    package="",
    elsewhere="sqlcl",
    shows_waiting=False,
    line=sqlcl_line,
    carried_line=carried_line,
    forms={
        "jdbc": CredentialForm(_jdbc, PasswordSource.SETTING),
        "descriptor": CredentialForm(_descriptor, PasswordSource.SETTING),
        "python-oracledb": CredentialForm(_python, PasswordSource.SETTING),
        "go-ora": CredentialForm(_go, PasswordSource.SETTING),
    },
    examples=("postern connect orders --native --format jdbc",),
)
