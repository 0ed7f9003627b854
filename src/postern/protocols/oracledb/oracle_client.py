"""Clients of Oracle Database: the command line, and credentials in the formats of drivers.

Each verifies the certificate. Oracle's driver for Java, and so SQLcl, reads no PEM file: a certificate authority of the
gateway's own must be put into a trust store with `keytool`, which docs/how-to/oracle-clients.md shows. SQL*Plus and all
programs with Oracle's client libraries in thick mode cannot log in: they want numbers in the format of their machine.
"""

from __future__ import annotations

import json
import shlex
from typing import Final
from urllib.parse import quote, urlencode

from postern.protocols.clients import CredentialForm, NativeClient, NativeCredential, PasswordSource

_PATIENCE: Final = 600  # seconds that a client can wait at login, for a review
_TRUST_STORE: Final = "postern.p12"  # made with keytool, as is its password
_TRUST_PASSWORD: Final = "changeit"  # noqa: S105 - Java's own default; there is no secret in it
_LOCAL_USER: Final = "me"
_LOCAL_PASSWORD: Final = "postern"  # noqa: S105 - of a local port, which needs none


def sqlcl_line(credential: NativeCredential) -> str:
    """Return a command with a credential, quoted for a shell. Without a password it asks for it."""
    password = f"/{_quote_name(credential.password.reveal())}" if credential.password else ""
    login = f"{_quote_name(credential.user)}{password}@{_easy(credential)}"
    words = shlex.join(["sql", "-L", login])
    options = " ".join([f"-D{name}={value}" for name, value in _trust(credential).items()])
    return f"JAVA_TOOL_OPTIONS={shlex.quote(options)} {words}" if options else words


def carried_line(host: str, port: int, database: str) -> str:
    """Return a command for a port that is on this machine. Its password is a fixed word, as its login needs one."""
    return shlex.join(["sql", "-L", f"{_LOCAL_USER}/{_LOCAL_PASSWORD}@//{host}:{port}/{database}"])


def _quote_name(text: str) -> str:
    """Quote a user name or password, which otherwise would end at a hyphen or an @."""
    return f'"{text}"'


def _trust(credential: NativeCredential) -> dict[str, str]:
    """Return the properties of Java by which its driver trusts the gateway's own authority; none for the system's."""
    if credential.authority is None:
        return {}
    return {
        "javax.net.ssl.trustStore": _TRUST_STORE,
        "javax.net.ssl.trustStoreType": "PKCS12",
        "javax.net.ssl.trustStorePassword": _TRUST_PASSWORD,
    }


def _easy(credential: NativeCredential) -> str:
    """Return the address, as Oracle's Easy Connect spells it."""
    return f"tcps://{credential.netloc}/{credential.database}"


def _jdbc(credential: NativeCredential) -> str:
    """Return the URL for Oracle's JDBC driver in thin mode, from version 23 on. User and password are settings."""
    listed = "&".join([f"{name}={value}" for name, value in _trust(credential).items()])
    return f"jdbc:oracle:thin:@{_easy(credential)}" + (f"?{listed}" if listed else "")


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
    lines.append(f"    tcp_connect_timeout={_PATIENCE},")
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
