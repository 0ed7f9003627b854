"""The keys of a MongoDB target's secret, and what a connection string of its own says.

A key that is set overrides that part of the connection string, so that the string can leave the password to PASS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from postern.domain.secret import Secret
from postern.errors import Unavailable
from postern.protocols.mongodb.login.mongodb_target_login import EXTERNAL, MECHANISMS, X509, MongodbTargetLogin
from postern.protocols.protocol_database_uri import SSL_MODES
from postern.protocols.scram import KeyCache

PORT: Final = 27017
Address = tuple[str, int]

# Mechanisms of MongoDB that are known, but not supported yet.
_MISSING: Final = frozenset({"MONGODB-AWS", "MONGODB-OIDC", "GSSAPI", "MONGODB-CR"})
# Options that name files or proxies of the machine on which they are read.
_REFUSED_OPTIONS: Final[Mapping[str, str]] = {
    "tlscertificatekeyfile": "put the certificate and its key into the keys SSLCERT and SSLKEY",
    "tlscertificatekeyfilepassword": "put the certificate and its key into the keys SSLCERT and SSLKEY",
    "tlscafile": "put the certificate authorities into the key SSLROOTCERT",
    "tlscrlfile": "lists of revoked certificates are not supported",
    "proxyhost": "proxies are not supported",
}


@dataclass(frozen=True, slots=True)
class ConnectionString:
    """A parsed connection string. `options` have lower-case names."""

    seeds: tuple[Address, ...] = ()
    user: str = ""
    password: str = field(default="", repr=False)
    database: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, parsed: Mapping[str, Any]) -> ConnectionString:
        """Return the parts of what PyMongo parsed."""
        options = {str(name).lower(): _option_text(value) for name, value in dict(parsed["options"]).items()}
        return cls(
            tuple((str(host), int(port)) for host, port in parsed["nodelist"] if port is not None),
            parsed.get("username") or "",
            parsed.get("password") or "",
            parsed.get("database") or "",
            options,
        )


@dataclass(frozen=True, slots=True)
class MongodbTargetOptions:
    """How a target is reached. `set_name` is the replica set that it must be, if it was given; `direct`: the first seed
    is the target, whatever it is. `certificate` and `key` are PEM texts."""

    seeds: tuple[Address, ...]
    login: MongodbTargetLogin
    sslmode: str
    root: str = ""
    certificate: str = ""
    key: Secret = field(default_factory=lambda: Secret(""))
    set_name: str = ""
    direct: bool = False

    @property
    def is_verified(self) -> bool:
        return self.sslmode in ("verify-ca", "verify-full")


def parse_address(text: str, port: int = PORT) -> Address:
    """Return host and port of `host`, `host:port`, `[::1]:port` or `::1`. Raises ValueError."""
    text = text.strip()
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        host = host if bracket else ""
    elif text.count(":") > 1:
        host, rest = text, ""
    else:
        host, colon, number = text.partition(":")
        rest = colon + number
    if not host or host.startswith("/") or any(character.isspace() for character in host):
        raise ValueError("no host")
    if not rest:
        return host, port
    number = rest.removeprefix(":")
    if number == rest or not number.isascii() or not number.isdecimal() or not 0 < int(number[:6]) < 65536:
        raise ValueError("no port")
    return host, int(number)


def read_options(
    connection: str, env: Mapping[str, Secret], uri: ConnectionString, application: str, keys: KeyCache
) -> MongodbTargetOptions:
    """Return the options from the keys and the connection string, which is empty without one. Raises Unavailable."""
    return _Reader(connection, env, uri).read(application, keys)


@dataclass(frozen=True, slots=True)
class _Reader:
    connection: str
    env: Mapping[str, Secret]
    uri: ConnectionString

    def read(self, application: str, keys: KeyCache) -> MongodbTargetOptions:
        self._check_options()
        sslmode = self._sslmode()
        user, password = self._text("USER") or self.uri.user, self._text("PASS") or self.uri.password
        certificate = self._text("SSLCERT")
        mechanism = self._mechanism()
        if mechanism == X509 and (sslmode in ("disable", "prefer") or not certificate):
            raise self._wrong(f"{X509} needs SSLCERT, SSLKEY, and an SSLMODE of require, verify-ca or verify-full")
        if mechanism not in ("", X509) and not user:
            raise self._wrong(f"the mechanism {mechanism} needs a USER")
        login = MongodbTargetLogin(user, Secret(password), self._source(mechanism), mechanism, application, keys)
        return MongodbTargetOptions(
            self.uri.seeds or self._seeds(),
            login,
            sslmode,
            self._text("SSLROOTCERT"),
            certificate,
            Secret(self._text("SSLKEY")),
            self.uri.options.get("replicaset", ""),
            self._flag("directconnection"),
        )

    def _check_options(self) -> None:
        for name, advice in _REFUSED_OPTIONS.items():
            if name in self.uri.options:
                raise self._wrong(f"the connection string has the option {name}; {advice}")

    def _seeds(self) -> tuple[Address, ...]:
        text = self._text("HOST")
        if not text:
            raise self._wrong("it has no secret 'envvar:HOST'; an administrator must set it")
        port = self._text("PORT") or str(PORT)
        try:
            default = parse_address(f"host:{port}")[1]
        except ValueError:
            raise self._wrong("secret PORT is not a port number") from None
        try:
            return tuple(parse_address(part, default) for part in text.split(","))
        except ValueError:
            raise self._wrong(
                "secret HOST must be one or several HOST or HOST:PORT, with commas between them"
            ) from None

    def _sslmode(self) -> str:
        sslmode = self._text("SSLMODE") or self._uri_sslmode()
        if sslmode not in SSL_MODES:
            raise self._wrong(f"secret SSLMODE must be one of {', '.join(SSL_MODES)}")
        if sslmode == "disable" and self._text("SSLCERT"):
            raise self._wrong("SSLCERT is set, and TLS is disabled; set SSLMODE to verify-full")
        return sslmode

    def _uri_sslmode(self) -> str:
        """Return what the connection string means. Without one, use TLS if the server has it."""
        options = self.uri.options
        if not self.uri.seeds:
            return "prefer"
        if options.get("tls", options.get("ssl", "false")) != "true":
            return "disable"
        if self._flag("tlsinsecure") or self._flag("tlsallowinvalidcertificates"):
            return "require"
        return "verify-ca" if self._flag("tlsallowinvalidhostnames") else "verify-full"

    def _mechanism(self) -> str:
        mechanism = self._text("MECHANISM").upper() or self.uri.options.get("authmechanism", "").upper()
        if mechanism in _MISSING:
            raise self._wrong(f"the mechanism {mechanism} is not supported yet; use one of {', '.join(MECHANISMS)}")
        if mechanism and mechanism not in MECHANISMS:
            raise self._wrong(f"secret MECHANISM must be one of {', '.join(MECHANISMS)}")
        return mechanism

    def _source(self, mechanism: str) -> str:
        given = self._text("AUTHSOURCE") or self.uri.options.get("authsource", "")
        if given or mechanism in EXTERNAL:
            return given or "$external"
        return self.uri.database or "admin"

    def _text(self, name: str) -> str:
        value = self.env.get(name)
        return value.reveal() if value else ""

    def _flag(self, name: str) -> bool:
        return self.uri.options.get(name, "false") == "true"

    def _wrong(self, text: str) -> Unavailable:
        return Unavailable(f"connection {self.connection!r}: {text}")


def _option_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value)
