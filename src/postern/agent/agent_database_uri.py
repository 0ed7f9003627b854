"""Parsing of a database URI from an application's environment into the secrets of a connection.

    SCHEME://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full&sslrootcert=/etc/ca.pem

A protocol's `DatabaseUri` defines the syntax of its URI.
"""

from __future__ import annotations

import logging
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from postern.domain.secret import Secret
from postern.errors import Misconfigured
from postern.protocols.protocol_database_uri import SSL_MODES, DatabaseUri

log = logging.getLogger(__name__)


# A user ends at the first ':' or '@', a password at the '@'; neither contains a '/', unless it is encoded.
_REST = (
    r"://(?:(?P<user>[^:@/]*)(?::(?P<password>[^@/]*))?@|(?![^/]*@))"
    r"(?P<host>\[[^\]/?]+\]|(?!\[)[^:/?,]*)(?::(?P<port>[^/?,]*))?"
    r"(?:/(?P<dbname>[^?]*))?(?:\?(?P<settings>.*))?"
)
_SEVERAL = r"://(?:[^@/]*@)?[^/?]*,"
_BLANK = re.compile(r"\s")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
_USED = frozenset({"user", "password", "host", "port", "dbname", "sslmode", "sslrootcert"})
_WHOLE_DATABASE = r"://[^/?]+(?:/(?P<dbname>[^?]*))?(?:\?.*)?"
_SYSTEM = "system"  # as sslrootcert: the certificate authorities that the system trusts


def read(kind: DatabaseUri, variable: str, uri: Secret) -> dict[str, Secret]:
    """Return HOST, PORT, USER and SSLMODE, and DB, PASS and SSLROOTCERT if present. `variable` is the source of the
    URI. Raises Misconfigured, without a quote of the URI."""
    return _Reader(kind, variable).read(uri.reveal().strip())


@dataclass(frozen=True, slots=True)
class _Reader:
    kind: DatabaseUri
    variable: str

    def read(self, uri: str) -> dict[str, Secret]:
        if self.kind.whole_key:
            return self._whole(uri)
        parts = self._parts(uri)
        sslmode, root = self._security(parts)
        if not parts.get("user"):
            raise self._wrong(f"names no user; write {self.kind.example}")
        host, port = parts.get("host", ""), parts.get("port") or str(self.kind.port)
        if not host or host.startswith(("/", "@")) or "," in host:
            raise self._wrong("must name one host to dial, not a Unix socket")
        if not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
            raise self._wrong("has an invalid port")
        values = {
            "HOST": host,
            "PORT": port,
            "USER": parts["user"],
            "PASS": parts.get("password", ""),
            "DB": parts.get("dbname") or (parts["user"] if self.kind.user_database else ""),
            "SSLMODE": sslmode,
            "SSLROOTCERT": root,
            **{key: parts[name] for name, key in self.kind.keys.items() if name in parts},
        }
        return {name: Secret(value) for name, value in values.items() if value}

    def _whole(self, uri: str) -> dict[str, Secret]:
        match = re.fullmatch(self.kind.schemes + _WHOLE_DATABASE, uri, re.DOTALL)
        if match is None or _BLANK.search(uri):
            raise self._wrong(f"does not contain a URI such as {self.kind.example}")
        database = self._decode_percent(match["dbname"] or "")
        return {self.kind.whole_key: Secret(uri), **({"DB": Secret(database)} if database else {})}

    def _parts(self, text: str) -> dict[str, str]:
        schemes = self.kind.schemes
        no_uri = f"does not contain a URI such as {self.kind.example}"
        if not re.match(f"{schemes}://", text):
            raise self._wrong(no_uri)
        if _BLANK.search(text):  # libpq's versions disagree on its meaning
            raise self._wrong("contains a space; write %20")
        match = re.fullmatch(schemes + _REST, text, re.DOTALL)
        if match is None and re.match(schemes + _SEVERAL, text):
            raise self._wrong("names several hosts, but an agent dials only one; use a variable that names one")
        if match is None:
            raise self._wrong(no_uri)
        groups = {name: value for name, value in match.groupdict().items() if value and name != "settings"}
        if groups.get("host", "").startswith("["):
            groups["host"] = groups["host"][1:-1]
        parts = {name: self._decode_percent(value) for name, value in groups.items()}
        for setting in (match["settings"] or "").split("&") if match["settings"] else ():
            name, equals, value = (self._decode_percent(part) for part in setting.partition("="))
            if not equals or "=" in setting.partition("=")[2]:
                raise self._wrong("has a setting after the ? that is not NAME=VALUE; write %3D for an = in a value")
            name, value = self.kind.setting(name, value)
            parts[name] = value
        return parts

    def _security(self, parts: dict[str, str]) -> tuple[str, str]:
        """Return (sslmode, PEM of the authorities to trust, empty for the system's)."""
        used = _USED | self.kind.keys.keys()
        passed_over = {name for name in parts.keys() - used if name.lower() in self.kind.passed_over}
        if (
            parts.keys() - used - passed_over
        ):  # the names are not quoted: after a '/' or '?' in a password they would reveal it
            raise self._wrong(
                "has settings after the ? that the agent does not support; use a variable whose URI has only these: "
                f"{', '.join(sorted(used))}"
            )
        if passed_over:
            log.info(
                "the agent ignores settings of the URI in %s: %s. Clients set these themselves",
                self.variable,
                sorted(passed_over),
            )
        file = parts.get("sslrootcert", "")
        mode = parts.get("sslmode") or self._default_mode(file)
        if mode not in SSL_MODES:
            raise self._wrong(f"needs an sslmode of {', '.join(self.kind.all_modes)}")
        if file == _SYSTEM:
            if mode != "verify-full":
                raise self._wrong("needs sslmode=verify-full with sslrootcert=system")
            return mode, ""
        if not file:
            return mode, ""
        return ("verify-ca" if mode == "require" else mode), self._authorities(file)

    def _default_mode(self, file: str) -> str:
        if file == _SYSTEM:
            return "verify-full"
        return self.kind.mode_with_root if file else "prefer"

    def _authorities(self, file: str) -> str:
        try:
            text = Path(file).read_text()
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
        except (ssl.SSLError, ValueError):
            raise self._wrong(f"names the sslrootcert {file!r}, which does not contain PEM certificates") from None
        except OSError as error:
            raise self._wrong(f"names the sslrootcert {file!r}, which cannot be read: {error.strerror}") from None
        return text

    def _decode_percent(self, text: str) -> str:
        """Decode percent-encoding: `%41` is `A`; `+` is itself."""
        try:
            if _ESCAPE.search(text) is None:
                return unquote(text, errors="strict")
        except UnicodeDecodeError:
            pass  # its context would be a part of the URI
        raise self._wrong("has a % without two hexadecimal digits; write %25 for a % in a password")

    def _wrong(self, what: str) -> Misconfigured:
        return Misconfigured(f"variable {self.variable} {what}", field=self.kind.subtype)
