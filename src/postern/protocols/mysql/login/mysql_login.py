"""Both logins: a client's at the gateway, and the gateway's at the target.

    client                                  gateway                                target
      │ ◀── Greeting ──────────────────────────│ ◀── Greeting ────────────────────────│
      ├─ SSLRequest ──▶ TLS                    ├─ SSLRequest ──▶ TLS                  │
      ├─ HandshakeResponse ──────────────────▶ ├─ HandshakeResponse ────────────────▶ │
      │ ◀── AuthSwitchRequest … AuthMoreData   │ ◀── AuthSwitchRequest … AuthMoreData │
      │     (admission, dial, target's login)  │                                      │
      │ ◀── OK ────────────────────────────────│ ◀── OK ──────────────────────────────│

The client is greeted before the target is known. So it is offered what every target supports, and the gateway logs in
at the target with the options that the client chose. Every packet of a login has the next sequence id. Bytes of a
target before TLS starts are rejected. Every length is checked before its bytes are awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from postern.domain.identity.credential import Verifier
from postern.domain.secret import Secret
from postern.errors import Denied, ProtocolViolation, Unauthenticated, Unavailable
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.mysql.login import mysql_auth as auth
from postern.protocols.mysql.login import mysql_ed25519 as ed25519
from postern.protocols.mysql.login import mysql_greetings as g
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_charsets import charset_of
from postern.protocols.verifiers import decoy as decoy
from postern.protocols.verifiers import fits
from postern.protocols.wire_base import Handshake

# Maximum bytes of a packet during login: from an unknown client, and from a target. Servers themselves accept 64 KiB or
# less.
MAX_CLIENT: Final = 64 * 1024 + 1024
MAX_TARGET: Final = 64 * 1024
# Maximum rounds of a target's authentication: a hostile one could continue forever.
MAX_ROUNDS: Final = 8
# Connection ids of clients from here on are the gateway's own; lower ones are those of targets.
FIRST_OWN: Final = 1 << 31

# The server version in the greeting, before the target is known. Drivers use no feature with this version that an older
# target lacks.
VERSION: Final = "8.0.11-Postern"

_REFUSED: Final = "the user name or password is wrong, or the credential is no longer valid"


@dataclass(frozen=True, slots=True)
class MysqlStartup:
    """The client's start-up request. Names are UTF-8; any other byte is a surrogate."""

    user: str
    database: str | None
    capabilities: int
    collation: int
    attributes: Mapping[bytes, bytes]
    encrypted: bool


class _Line:
    """The packets of a login on one stream. Each has the next sequence id, whichever side sends it."""

    def __init__(self, stream: Handshake, peer: str, most: int) -> None:
        self.stream = stream
        self.sequence = 0
        self._peer = peer
        self._most = most

    async def read(self) -> bytes:
        """Return the next payload."""
        head = await self.stream.read(m.HEAD)
        size = int.from_bytes(head[:3], "little")
        expected = self.sequence & 0xFF
        self.sequence = head[3] + 1  # an error that responds to this packet has the next number
        if size > self._most:
            raise ProtocolViolation(
                f"the {self._peer} sent a packet of {size} bytes at login: it probably does not speak MySQL"
            )
        if head[3] != expected:
            raise ProtocolViolation(f"the {self._peer} sent its packets out of order during login")
        return await self.stream.read(size)

    def write(self, data: bytes) -> None:
        """Send a packet that was made with `sequence`."""
        self.stream.write(data)
        self.sequence += 1


class ClientLogin:
    """One client's login: `greet`, then `authenticate` or `let_in`, then `welcome`; `turn_away` at any time.

    `thread` is the connection id that the client gets; `key` creates the RSA key for clients without TLS.
    """

    def __init__(self, stream: Handshake, thread: int, *, version: str = VERSION) -> None:
        self._line = _Line(stream, "client", MAX_CLIENT)
        self._thread = thread
        self._version = version
        self._salt = auth.new_salt()
        self._plugin = ""
        self._proof = b""
        self._encrypted = False

    async def greet(self, *, require_tls: bool) -> MysqlStartup:
        """Greet the client, and read its response."""
        line, stream = self._line, self._line.stream
        offered = g.CLIENTS | (g.SSL if stream.tls_offered else 0)
        line.write(g.greeting(g.Greeting(self._version, self._thread, self._salt, offered, auth.CACHING)))
        payload = await line.read()
        if g.is_ssl_request(payload):
            if not stream.tls_offered:
                raise ProtocolViolation("the client requested TLS, which was not offered")
            # Clients do not wait here: the bytes after the request are their TLS handshake, which is not read here.
            await stream.start_tls()
            self._encrypted = True
            payload = await line.read()
            if g.is_ssl_request(payload):
                raise ProtocolViolation("the client requested TLS twice")
        answer = g.parse_response(payload, offered)
        if require_tls and not self._encrypted:
            raise Denied("this gateway accepts only TLS connections; connect with --ssl-mode=REQUIRED, or --ssl")
        if not answer.capabilities & g.PLUGIN_AUTH:
            raise Denied(
                "this client is too old: it does not support authentication plug-ins (MySQL 5.5.7, MariaDB 5.2)"
            )
        if not charset_of(answer.collation):
            raise Denied(
                f"the character set of collation {answer.collation} is not accepted, because the connection's rules "
                "can be bypassed in it; connect with utf8mb4"
            )
        try:
            user = answer.user.decode()
        except UnicodeDecodeError:
            raise Unauthenticated(
                "the user name is not valid UTF-8; use the one of your connection credential"
            ) from None
        if not user:
            raise Unauthenticated("no user name was given; use the one of your connection credential")
        self._plugin, self._proof = answer.plugin, answer.proof
        database = None if answer.database is None else answer.database.decode("utf-8", "surrogateescape")
        capabilities = answer.capabilities & ~g.SSL | g.LONG_PASSWORD
        return MysqlStartup(user, database, capabilities, answer.collation, answer.attributes, self._encrypted)

    async def authenticate(
        self, verifier: Verifier, digests: auth.PasswordDigests, key: Callable[[], auth.ExchangeKey] | None
    ) -> None:
        """Authenticate the client by caching SHA-2. Raises Unauthenticated when its password is wrong.

        `digests` make the next login with the same password fast; `key` is set where clients without TLS are allowed.
        """
        line = self._line
        if self._plugin != auth.CACHING:
            self._salt = auth.new_salt()
            line.write(g.auth_switch(line.sequence, auth.CACHING, self._salt))
            self._proof = await line.read()
        if self._proof in (b"", b"\0"):
            raise Unauthenticated("no password was given; use the one of your connection credential")
        data = digests.find(verifier)
        if data is not None and auth.proves(self._proof, self._salt, data):
            line.write(g.auth_more(line.sequence, auth.FAST_OK))
            return
        line.write(g.auth_more(line.sequence, auth.FULL))
        password = await self._password(key)
        if not await line.stream.offload(lambda: fits(password, verifier)):
            raise Unauthenticated(_REFUSED)
        digests.keep(verifier, password)

    async def _password(self, key: Callable[[], auth.ExchangeKey] | None) -> Secret:
        line = self._line
        data = await line.read()
        if not self._encrypted:
            if key is None:
                raise Denied("a password is accepted over TLS only; connect with --ssl-mode=REQUIRED, or --ssl")
            exchange_key = await line.stream.offload(key)
            if data == auth.WANTS_KEY:
                line.write(g.auth_more(line.sequence, exchange_key.pem))
                data = await line.read()
            opened = exchange_key.open(data, self._salt) if len(data) == exchange_key.size else None
            if opened is None:
                raise Unauthenticated("the password was not encrypted for this gateway; connect with TLS")
            data = opened
        if not data.endswith(b"\0") or len(data) > auth.MAX_PASSWORD:
            raise Unauthenticated(_REFUSED)
        return Secret(data[:-1].decode("utf-8", "surrogateescape"))

    def let_in(self) -> None:
        """Accept a client that is authenticated already, with any password."""
        if self._plugin == auth.CACHING and self._proof not in (b"", b"\0"):
            self._line.write(g.auth_more(self._line.sequence, auth.FAST_OK))

    def welcome(self, status: int = m.AUTOCOMMIT) -> bytes:
        """End the login. Return the bytes that were written."""
        data = m.ok(self._line.sequence, m.Done(status=status))
        self._line.write(data)
        return data

    def turn_away(self, code: int, state: str, text: str, hint: str = "") -> None:
        """Send an ERR packet, which can end a login at any time, or replace the greeting."""
        self._line.write(m.err(self._line.sequence, code, state, text, hint))


def reject(stream: Handshake, code: int, text: str) -> None:
    """Send an ERR packet instead of the greeting."""
    stream.write(m.early_err(code, text))


@dataclass(frozen=True, slots=True)
class MysqlTargetLogin:
    """The gateway's parameters for a login. `sslmode` has the values of libpq: disable, prefer, require, verify-ca,
    verify-full.

    `capabilities` are those that the client chose; they determine the layout of the target's messages.
    """

    user: str
    password: Secret
    database: str | None = None
    sslmode: str = "prefer"
    capabilities: int = g.OFFERED
    collation: int = g.UTF8MB4
    attributes: Mapping[bytes, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MysqlTargetGreeting:
    """The result of a login. `thread` is the target's connection id, `status` the flags after the login; `extended`:
    its column definitions have extended metadata."""

    version: str
    thread: int
    is_mariadb: bool
    status: int
    extended: bool = False


# Clients parse messages by these; without them at the target, they would misread it.
_SHAPING: Final = g.TRANSACTIONS | g.MULTI_RESULTS | g.PS_MULTI_RESULTS


async def connect(stream: Handshake, login: MysqlTargetLogin) -> MysqlTargetGreeting:
    """Log in to the target. Raises TargetRefused, Unavailable or ProtocolViolation."""
    line = _Line(stream, "target", MAX_TARGET)
    greeted = g.parse_greeting(_require_no_error(await line.read()))
    lacking = login.capabilities & _SHAPING & ~greeted.capabilities
    if lacking:
        raise Unavailable(
            f"the target ({greeted.shown_version}) lacks capabilities that the client requested ({lacking:#x}); "
            "upgrade the target to MySQL 5.7, MariaDB 10.2 or later"
        )
    capabilities = login.capabilities & greeted.capabilities & (g.OFFERED | g.EXTENDED_METADATA) | g.NEEDED
    answer = g.Response(
        login.user.encode("utf-8", "surrogateescape"),
        b"",
        capabilities,
        None if login.database is None else login.database.encode("utf-8", "surrogateescape"),
        "",
        login.attributes if greeted.capabilities & g.CONNECT_ATTRS else {},
        _known_there(login.collation, greeted),
    )
    encrypted = await _encrypt(line, login.sslmode, greeted, answer)
    prover = _Prover(line, login, encrypted)
    plugin = greeted.plugin if greeted.plugin in _KNOWN else auth.NATIVE
    proof = b"" if plugin == auth.CLEAR else await prover.prove(plugin, greeted.salt)
    line.write(g.response(line.sequence, replace(answer, proof=proof, plugin=plugin), encrypted=encrypted))
    done = await prover.run(plugin, greeted.salt)
    extended = bool(capabilities & g.EXTENDED_METADATA)
    return MysqlTargetGreeting(greeted.shown_version, greeted.thread, greeted.is_mariadb, done.status, extended)


def _known_there(collation: int, greeted: g.Greeting) -> int:
    """Return a collation that the target has. Clients of MySQL 8 request one that no other server has, and that others
    treat as their own default."""
    is_new = not greeted.is_mariadb and not greeted.version.startswith("5.")
    return collation if is_new or collation != g.UTF8MB4_0900 else g.UTF8MB4


_KNOWN: Final = (auth.NATIVE, auth.CACHING, auth.ED25519, auth.CLEAR)


def _require_no_error(payload: bytes) -> bytes:
    """Return the payload. Raises TargetRefused for an ERR packet."""
    if not payload:
        raise ProtocolViolation("the target sent an empty packet during login")
    if payload[0] == m.ERR:
        failed = m.parse_err(payload)
        raise TargetRefused(failed.text, f"{failed.state}/{failed.code}")
    return payload


async def _encrypt(line: _Line, sslmode: str, greeted: g.Greeting, answer: g.Response) -> bool:
    """Start TLS. Return False if the target has none and `sslmode` allows that."""
    if sslmode == "disable":
        return False
    if not greeted.capabilities & g.SSL:
        if sslmode != "prefer":
            raise Unavailable(f"the target offers no TLS, and the connection's SSLMODE is {sslmode}")
        return False
    if line.stream.buffered:
        raise ProtocolViolation("the target sent bytes between its greeting and the TLS handshake")
    line.write(g.ssl_request(line.sequence, answer))
    await line.stream.start_tls()
    return True


class _Prover:
    """Authenticates the gateway to the target, by the method that the target requests."""

    def __init__(self, line: _Line, login: MysqlTargetLogin, encrypted: bool) -> None:
        self._line = line
        self._encrypted = encrypted
        self._password = login.password.reveal().encode("utf-8", "surrogateescape")

    async def prove(self, plugin: str, salt: bytes) -> bytes:
        """Return the plug-in's first message. Raises Unavailable if the password would be readable in transit."""
        password = self._password
        if plugin in (auth.NATIVE, auth.CACHING) and len(salt) < g.SALT:
            raise ProtocolViolation("the target sent a salt that is too short")
        if plugin == auth.NATIVE:
            return auth.native(password, salt)
        if plugin == auth.CACHING:
            return auth.caching(password, salt)
        if plugin == auth.ED25519:
            if len(salt) < ed25519.NONCE:
                raise ProtocolViolation("the target sent a salt that is too short")
            return await self._line.stream.offload(lambda: ed25519.sign(password, salt[: ed25519.NONCE]))
        if plugin != auth.CLEAR:
            raise Unavailable(
                f"the target requests the authentication plug-in {plugin!r}, which is not supported; "
                f"set the plug-in of the gateway's account there to one of {', '.join(_KNOWN)}"
            )
        if not self._encrypted:
            raise Unavailable("the target requests the password in clear text without TLS; enable TLS at the target")
        return password + b"\0"

    async def run(self, plugin: str, salt: bytes) -> m.Done:
        """Run the authentication, from the gateway's response to the greeting to the target's OK."""
        line = self._line
        for _ in range(MAX_ROUNDS):
            payload = _require_no_error(await line.read())
            if payload[0] == m.OK:
                return m.parse_ok(payload)
            if payload[0] == m.EOF:
                plugin, salt = g.parse_auth_switch(payload)
                proof = await self.prove(plugin, salt)
                line.write(m.packet(line.sequence, proof))
            elif payload[0] == 1 and plugin == auth.CACHING:
                await self._more(payload[1:], salt)
            else:
                raise ProtocolViolation("the target aborted its authentication")
        raise ProtocolViolation("the target's authentication has too many messages")

    async def _more(self, data: bytes, salt: bytes) -> None:
        """Handle AuthMoreData: the target has verified the password, or requests all of it."""
        line = self._line
        if data == auth.FAST_OK:
            return
        if data != auth.FULL:
            raise ProtocolViolation("the target aborted its authentication")
        if self._encrypted:
            line.write(m.packet(line.sequence, self._password + b"\0"))
            return
        line.write(m.packet(line.sequence, auth.WANTS_KEY))
        payload = _require_no_error(await line.read())
        if payload[0] != 1:
            raise ProtocolViolation("the target did not send the requested public key")
        line.write(m.packet(line.sequence, auth.encrypt_password(self._password, salt, payload[1:])))
