"""A `postgres://` URI as applications have it in their environment, taken apart by the rules of libpq (PostgreSQL's
documentation, "Connection URIs"), into the secrets of a connection.

    postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full&sslrootcert=/etc/ca.pem
"""

from __future__ import annotations

import logging
import re
import ssl
from pathlib import Path
from urllib.parse import unquote

from postern.agent.postgres import SSL_MODES
from postern.domain.secret import Secret
from postern.errors import Misconfigured

log = logging.getLogger(__name__)

# A user ends at the first ':' or '@', a password at the '@'; neither holds a '/', unless it is encoded.
_URI = re.compile(
    r"postgres(?:ql)?://"
    r"(?:(?P<user>[^:@/]*)(?::(?P<password>[^@/]*))?@|(?![^/]*@))"
    r"(?P<host>\[[^\]/?]+\]|(?!\[)[^:/?,]*)(?::(?P<port>[^/?,]*))?"
    r"(?:/(?P<dbname>[^?]*))?(?:\?(?P<settings>.*))?",
    re.DOTALL,
)
_SCHEMES = ("postgres://", "postgresql://")
_NO_URI = "holds no URI such as postgres://USER:PASSWORD@HOST:PORT/DATABASE"
_SEVERAL = re.compile(r"postgres(?:ql)?://(?:[^@/]*@)?[^/?]*,")
_BLANK = re.compile(r"\s")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
_USED = frozenset({"user", "password", "host", "port", "dbname", "sslmode", "sslrootcert"})
# What changes nothing of who is logged in to what, and how that is kept safe.
_PASSED_OVER = frozenset(
    {
        *("application_name", "fallback_application_name", "client_encoding", "connect_timeout", "tcp_user_timeout"),
        *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "sslsni", "sslcompression"),
    }
)
_SYSTEM = "system"  # as sslrootcert: the certificate authorities that the system trusts


def read(variable: str, uri: Secret) -> dict[str, Secret]:
    """HOST, PORT, USER, DB and SSLMODE, and PASS and SSLROOTCERT where there are any. `variable` is where the URI
    comes from. Raises Misconfigured, without a word of the URI."""
    parts = _parts(variable, uri.reveal().strip())
    sslmode, root = _security(variable, parts)
    if not parts.get("user"):
        raise _wrong(variable, "names no user; write postgres://USER:PASSWORD@HOST:PORT/DATABASE")
    host, port = parts.get("host", ""), parts.get("port") or "5432"
    if not host or host.startswith(("/", "@")) or "," in host:
        raise _wrong(variable, "must name one host to dial, and no Unix socket")
    if not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
        raise _wrong(variable, "names a port that is none")
    values = {
        "HOST": host,
        "PORT": port,
        "USER": parts["user"],
        "PASS": parts.get("password", ""),
        "DB": parts.get("dbname") or parts["user"],
        "SSLMODE": sslmode,
        "SSLROOTCERT": root,
    }
    return {name: Secret(value) for name, value in values.items() if value}


def _parts(variable: str, text: str) -> dict[str, str]:
    if not text.startswith(_SCHEMES):
        raise _wrong(variable, _NO_URI)
    if _BLANK.search(text):  # libpq's versions do not agree on what that means
        raise _wrong(variable, "has a blank in it; write %20")
    found = _URI.fullmatch(text)
    if found is None and _SEVERAL.match(text):
        raise _wrong(variable, "names several hosts, and an agent dials one; give it a variable that names one")
    if found is None:
        raise _wrong(variable, _NO_URI)
    given = {name: value for name, value in found.groupdict().items() if value and name != "settings"}
    if given.get("host", "").startswith("["):
        given["host"] = given["host"][1:-1]
    parts = {name: _decoded(variable, value) for name, value in given.items()}
    for setting in (found["settings"] or "").split("&") if found["settings"] else ():
        name, equals, value = (_decoded(variable, part) for part in setting.partition("="))
        if not equals or "=" in setting.partition("=")[2]:
            raise _wrong(variable, "has a setting behind its ? that is not NAME=VALUE; write %3D for an = in a value")
        if (name, value) == ("ssl", "true"):  # as other drivers have it
            name, value = "sslmode", "require"
        parts[name] = value
    return parts


def _security(variable: str, parts: dict[str, str]) -> tuple[str, str]:
    """(sslmode, PEM of the authorities to trust, empty for the system's)"""
    if parts.keys() - _USED - _PASSED_OVER:  # they are not named: behind a '/' or '?' in a password it would be cited
        raise _wrong(
            variable,
            "has settings behind its ? that an agent cannot follow, which knows only "
            f"{', '.join(sorted(_USED))}; give it a variable whose URI has no others",
        )
    passed_over = sorted(parts.keys() & _PASSED_OVER)
    if passed_over:
        log.info("of the URI in %s the agent does not use %s: clients say it themselves", variable, passed_over)
    file = parts.get("sslrootcert", "")
    mode = parts.get("sslmode") or ("verify-full" if file == _SYSTEM else "prefer")
    if mode not in SSL_MODES:
        raise _wrong(variable, f"needs an sslmode of {', '.join(SSL_MODES)}")
    if file == _SYSTEM:
        if mode != "verify-full":
            raise _wrong(variable, "needs sslmode=verify-full with sslrootcert=system")
        return mode, ""
    if not file:
        return mode, ""
    return ("verify-ca" if mode == "require" else mode), _authorities(variable, file)


def _authorities(variable: str, file: str) -> str:
    try:
        text = Path(file).read_text()
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise _wrong(variable, f"names the sslrootcert {file!r}, which holds no certificates in PEM") from None
    except OSError as error:
        raise _wrong(variable, f"names the sslrootcert {file!r}, which cannot be read: {error.strerror}") from None
    return text


def _decoded(variable: str, text: str) -> str:
    """`%41` is `A`; `+` is itself."""
    try:
        if _ESCAPE.search(text) is None:
            return unquote(text, errors="strict")
    except UnicodeDecodeError:
        pass  # its context would be a part of the URI
    raise _wrong(variable, "has a % that no two digits follow; write %25 for a % in a password")


def _wrong(variable: str, what: str) -> Misconfigured:
    return Misconfigured(f"variable {variable} {what}", field="postgres")
