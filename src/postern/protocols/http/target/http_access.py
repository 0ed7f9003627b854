"""The secrets of an HTTP connection: where the application is, how it is verified, and which headers are added.

    REMOTE_URL      http://HOST[:PORT][/BASE] or https://…
    HEADER_<NAME>   a header of every request: HEADER_AUTHORIZATION, HEADER_X_API_KEY (underscores become dashes).
                    HEADER_HOST is the name that the application is addressed by, if it is not the one of REMOTE_URL
    SSLMODE         https only: verify-full (default), verify-ca, require; as for databases
    SSLROOTCERT     PEM certificates of the authorities to trust instead of the system's
    INSECURE        true: the certificate is not verified, as with SSLMODE=require
    HTTP_VERSION    1.1 or 2. Without it https uses what the application offers (ALPN), and http is 1.1

The base path is put before the path of every request and taken away from answers (`http_base_path.py`), so that rules
and recordings see the paths below it.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from postern.agent.dialling import required_secret, text, tls_context
from postern.agent.secrets import ResolvedSecrets
from postern.domain.secret import Secret
from postern.errors import Unavailable
from postern.protocols.http.http_heads import HOP_BY_HOP, Headers
from postern.protocols.http.http_rewriting import HttpOrigin
from postern.protocols.http.target.http_base_path import is_base_path
from postern.relay.orders import Order

SSL_MODES: Final = ("verify-full", "verify-ca", "require")
HTTP_VERSIONS: Final = ("1.1", "2")
HEADER_PREFIX: Final = "HEADER_"
H2: Final = "h2"  # the names of ALPN
HTTP1: Final = "http/1.1"

_YES, _NO = ("true", "1", "yes", "on"), ("", "false", "0", "no", "off")
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?\.?")
_AUTHORITY = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")
# What the agent writes itself, besides HOP_BY_HOP.
_OWN_HEADERS: Final = frozenset({b"content-length", b"expect"})


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """How an application is reached.

    `authority` is the `Host` of requests. `origin` is the application's own origin, as it believes it to be.
    `versions` are the names of ALPN that are offered, best first. `base_path` is empty or begins with a slash.
    """

    scheme: str
    host: str
    port: int
    authority: str
    origin: HttpOrigin
    base_path: str = ""
    sslmode: str = "verify-full"
    root: str = ""
    versions: tuple[str, ...] = (H2, HTTP1)

    @property
    def address(self) -> str:
        """Return host and port, for messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def tls(self, versions: tuple[str, ...]) -> ssl.SSLContext | None:
        """Return the TLS context that offers these versions; None without TLS. Raises ssl.SSLError if the authorities
        to trust cannot be read."""
        return tls_context(self.sslmode, self.root, versions) if self.scheme == "https" else None


def read_access(order: Order, secrets: ResolvedSecrets) -> HttpAccess:
    """Read where an application is from the secrets of its connection. Raises Unavailable."""
    reader = _SecretReader(order.connection, secrets.values)
    return reader.access(reader.headers())


def read_headers(order: Order, secrets: ResolvedSecrets) -> Headers:
    """Return the headers to add to each request, in the order of their names. Raises Unavailable."""
    headers = _SecretReader(order.connection, secrets.values).headers()
    return tuple((name, value) for name, value in headers if name != b"host")


class _SecretReader:
    def __init__(self, connection: str, env: Mapping[str, Secret]) -> None:
        self._connection = connection
        self._env = env

    def access(self, headers: Headers) -> HttpAccess:
        scheme, host, port, base_path = self._address()
        names = dict(headers)
        authority = HttpOrigin(scheme, f"[{host}]" if ":" in host else host, port).authority
        if b"host" in names:
            authority = self._authority("HEADER_HOST", names[b"host"])
        sslmode, root = self._verification(scheme)
        return HttpAccess(
            scheme=scheme,
            host=host,
            port=port,
            authority=authority,
            origin=self._origin(scheme, authority, names),
            base_path=base_path,
            sslmode=sslmode,
            root=root,
            versions=self._versions(scheme),
        )

    def headers(self) -> Headers:
        """Return the headers of secrets, with HEADER_HOST."""
        headers = []
        for key in sorted(self._env):
            if not key.startswith(HEADER_PREFIX):
                continue
            name = key[len(HEADER_PREFIX) :].lower().replace("_", "-").encode()
            value = self._env[key].reveal().strip().encode()
            if not name:
                raise self._wrong(f"secret {key} names no header; use a name such as HEADER_X_API_KEY")
            if name in HOP_BY_HOP or name in _OWN_HEADERS:
                raise self._wrong(f"secret {key} is a header that the agent writes itself; remove it")
            if any((byte < 0x20 and byte != 0x09) or byte == 0x7F for byte in value):
                raise self._wrong(f"secret {key} contains a line break or another control character")
            headers.append((name, value))
        return tuple(headers)

    def _address(self) -> tuple[str, str, int, str]:
        """Return scheme, host, port and base path."""
        url = required_secret(self._connection, self._env, "REMOTE_URL").reveal().strip()
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise self._wrong("REMOTE_URL is not a URL, such as https://app.internal:8443") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise self._wrong("REMOTE_URL must begin with http:// or https:// and name a host")
        if "@" in parts.netloc:
            raise self._wrong("REMOTE_URL must not contain a user name or password; set HEADER_AUTHORIZATION instead")
        if "?" in url or "#" in url:
            raise self._wrong("REMOTE_URL must not contain a query or a fragment")
        base_path = parts.path.rstrip("/")
        if not is_base_path(base_path):
            raise self._wrong("the path in REMOTE_URL is not valid; encode other characters as %XX")
        if port == 0:
            raise self._wrong("REMOTE_URL names port 0; use a number from 1 to 65535")
        return parts.scheme, self._host(parts.hostname), port or (443 if parts.scheme == "https" else 80), base_path

    def _host(self, host: str) -> str:
        """Return a host as it is dialled and written: international names in their ASCII form."""
        try:
            ascii_host = host if host.isascii() else host.encode("idna").decode()
        except UnicodeError:
            ascii_host = ""
        if ":" not in ascii_host and not _HOST.fullmatch(ascii_host):
            raise self._wrong("the host in REMOTE_URL is not a valid name or address")
        return ascii_host

    def _origin(self, scheme: str, authority: str, headers: Mapping[bytes, bytes]) -> HttpOrigin:
        """Return the application's own origin: what HEADER_X_FORWARDED_PROTO and HEADER_X_FORWARDED_HOST tell it."""
        if b"x-forwarded-proto" in headers:
            scheme = headers[b"x-forwarded-proto"].decode(errors="replace").lower()
            if scheme not in ("http", "https"):
                raise self._wrong("secret HEADER_X_FORWARDED_PROTO must be http or https")
        if b"x-forwarded-host" in headers:
            authority = self._authority("HEADER_X_FORWARDED_HOST", headers[b"x-forwarded-host"])
        try:
            return HttpOrigin.read(f"{scheme}://{authority}")
        except ValueError:
            raise self._wrong("REMOTE_URL, HEADER_HOST or HEADER_X_FORWARDED_HOST has no valid host and port") from None

    def _authority(self, key: str, value: bytes) -> str:
        authority = value.decode(errors="replace")
        if not _AUTHORITY.fullmatch(authority):
            raise self._wrong(f"secret {key} must be a host, with :port if needed")
        return authority

    def _verification(self, scheme: str) -> tuple[str, str]:
        """Return the mode of TLS and the authorities to trust."""
        mode, root = text(self._env, "SSLMODE").strip(), text(self._env, "SSLROOTCERT")
        insecure = text(self._env, "INSECURE").strip().lower()
        if insecure not in _YES + _NO:
            raise self._wrong("secret INSECURE must be true or false")
        if scheme == "http":
            if mode not in ("", "disable"):
                raise self._wrong(f"secret SSLMODE is {mode!r}, but REMOTE_URL begins with http://; use https://")
            return "disable", ""
        if mode not in ("", *SSL_MODES):
            raise self._wrong(f"secret SSLMODE must be one of {', '.join(SSL_MODES)} for https")
        if insecure in _YES:
            if mode in ("verify-full", "verify-ca"):
                raise self._wrong(f"secrets INSECURE and SSLMODE={mode} contradict each other; remove one of them")
            return "require", ""
        return mode or "verify-full", root

    def _versions(self, scheme: str) -> tuple[str, ...]:
        version = text(self._env, "HTTP_VERSION").strip()
        if version not in ("", *HTTP_VERSIONS):
            raise self._wrong(f"secret HTTP_VERSION must be one of {', '.join(HTTP_VERSIONS)}")
        if not version:
            return (H2, HTTP1) if scheme == "https" else (HTTP1,)
        return (H2,) if version == "2" else (HTTP1,)

    def _wrong(self, why: str) -> Unavailable:
        return Unavailable(f"connection {self._connection!r}: {why}")
