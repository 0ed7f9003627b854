"""Both logins: a client's at the gateway, and the gateway's at the target.

    client                                  gateway                                target
      │ ◀── Greeting ──────────────────────────│ ◀── Greeting ────────────────────────│
      ├─ SSLRequest ──▶ TLS                    ├─ SSLRequest ──▶ TLS                  │
      ├─ HandshakeResponse ──────────────────▶ ├─ HandshakeResponse ────────────────▶ │
      │ ◀── AuthSwitchRequest … AuthMoreData   │ ◀── AuthSwitchRequest … AuthMoreData │
      │     (admission, dial, target's login)  │                                      │
      │ ◀── OK ────────────────────────────────│ ◀── OK ──────────────────────────────│

The client is greeted before the target is known, so it is offered what every target can do, and the gateway logs in at
the target with what the client chose. Every packet of a login has the next sequence id; what a target
sends before TLS starts is refused; every length is checked before it is waited for.
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

# Bytes of a packet during login: of a client not known yet, and of a target. Servers themselves take 64 KiB and less.
MAX_CLIENT: Final = 64 * 1024 + 1024
MAX_TARGET: Final = 64 * 1024
# Rounds of a target's authentication: a hostile one could go on forever.
MAX_ROUNDS: Final = 8
# Connection ids of clients are the gateway's own from here on; below are those of targets.
FIRST_OWN: Final = 1 << 31

# What clients are told they talk to, before the target is known. Drivers ask targets of this version for nothing that
# an older one lacks.
VERSION: Final = "8.0.11-Postern"

_REFUSED: Final = "the user name or password is wrong, or the credential is no longer valid"


@dataclass(frozen=True, slots=True)
class MysqlStartup:
    """What the client asked for. Names are in UTF-8, with every other byte kept by surrogates."""

    user: str
    database: str | None
    capabilities: int
    collation: int
    attributes: Mapping[bytes, bytes]
    encrypted: bool


class _Line:
    """Packets of a login on one stream. Each has the sequence id behind that of the last one, whoever sent it."""

    def __init__(self, stream: Handshake, peer: str, most: int) -> None:
        self.stream = stream
        self.sequence = 0
        self._peer = peer
        self._most = most

    async def read(self) -> bytes:
        """The next payload."""
        head = await self.stream.read(m.HEAD)
        size = int.from_bytes(head[:3], "little")
        expected = self.sequence & 0xFF
        self.sequence = head[3] + 1  # an error that answers this packet has the number behind it
        if size > self._most:
            raise ProtocolViolation(f"the {self._peer} sent a packet of {size} bytes at login: it may not speak MySQL")
        if head[3] != expected:
            raise ProtocolViolation(f"the {self._peer} sent its packets out of order during login")
        return await self.stream.read(size)

    def write(self, data: bytes) -> None:
        """A packet that was made with `sequence`."""
        self.stream.write(data)
        self.sequence += 1


class ClientLogin:
    """One client's login: `greet`, then `authenticate` or `let_in`, then `welcome`; `turn_away` at any time.

    `thread` is what the client is told is its connection id; `key` makes the RSA key for clients without TLS.
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
        """The client's login up to what it answers to the greeting."""
        line, stream = self._line, self._line.stream
        offered = g.CLIENTS | (g.SSL if stream.tls_offered else 0)
        line.write(g.greeting(g.Greeting(self._version, self._thread, self._salt, offered, auth.CACHING)))
        payload = await line.read()
        if g.is_ssl_request(payload):
            if not stream.tls_offered:
                raise ProtocolViolation("the client asks for TLS, which was not offered")
            # Clients wait for nothing here: what came behind the request is their TLS handshake, and never read here.
            await stream.start_tls()
            self._encrypted = True
            payload = await line.read()
            if g.is_ssl_request(payload):
                raise ProtocolViolation("the client asks for TLS twice")
        answer = g.parse_response(payload, offered)
        if require_tls and not self._encrypted:
            raise Denied("this gateway takes TLS connections only; connect with --ssl-mode=REQUIRED, or --ssl")
        if not answer.capabilities & g.PLUGIN_AUTH:
            raise Denied("this client is too old: it knows no authentication plug-ins (MySQL 5.5.7, MariaDB 5.2)")
        if not charset_of(answer.collation):
            raise Denied(
                f"the character set of collation {answer.collation} is not taken here, since a text in it may mean "
                "something else than it seems; connect with utf8mb4"
            )
        try:
            user = answer.user.decode()
        except UnicodeDecodeError:
            raise Unauthenticated(
                "the user name is no valid UTF-8; use the one of your connection credential"
            ) from None
        if not user:
            raise Unauthenticated("no user name was given; use the one of your connection credential")
        self._plugin, self._proof = answer.plugin, answer.proof
        database = None if answer.database is None else answer.database.decode("utf-8", "surrogateescape")
        capabilities = answer.capabilities & ~g.SSL | g.LONG_PASSWORD
        return MysqlStartup(user, database, capabilities, answer.collation, answer.attributes, self._encrypted)

    async def authenticate(
        self, verifier: Verifier, digests: auth.Digests, key: Callable[[], auth.ExchangeKey] | None
    ) -> None:
        """Caching SHA-2 with the client. Raises Unauthenticated when its password is wrong.

        `digests` make the next login with the same password quick; `key` is where clients without TLS are taken.
        """
        line = self._line
        if self._plugin != auth.CACHING:
            self._salt = auth.new_salt()
            line.write(g.auth_switch(line.sequence, auth.CACHING, self._salt))
            self._proof = await line.read()
        if self._proof in (b"", b"\0"):
            raise Unauthenticated("no password was given; use the one of your connection credential")
        kept = digests.find(verifier)
        if kept is not None and auth.proves(self._proof, self._salt, kept):
            line.write(g.auth_more(line.sequence, auth.FAST_OK))
            return
        line.write(g.auth_more(line.sequence, auth.FULL))
        password = await self._password(key)
        if not await line.stream.offload(lambda: fits(password, verifier)):
            raise Unauthenticated(_REFUSED)
        digests.keep(verifier, password)

    async def _password(self, key: Callable[[], auth.ExchangeKey] | None) -> Secret:
        line = self._line
        given = await line.read()
        if not self._encrypted:
            if key is None:
                raise Denied("a password is taken over TLS only; connect with --ssl-mode=REQUIRED, or --ssl")
            own = await line.stream.offload(key)
            if given == auth.WANTS_KEY:
                line.write(g.auth_more(line.sequence, own.pem))
                given = await line.read()
            opened = own.open(given, self._salt) if len(given) == own.size else None
            if opened is None:
                raise Unauthenticated("the password was not encrypted for this gateway; connect with TLS")
            given = opened
        if not given.endswith(b"\0") or len(given) > auth.MAX_PASSWORD:
            raise Unauthenticated(_REFUSED)
        return Secret(given[:-1].decode("utf-8", "surrogateescape"))

    def let_in(self) -> None:
        """Of a client that is known already: whatever password it has is taken."""
        if self._plugin == auth.CACHING and self._proof not in (b"", b"\0"):
            self._line.write(g.auth_more(self._line.sequence, auth.FAST_OK))

    def welcome(self, status: int = m.AUTOCOMMIT) -> bytes:
        """Ends the login; answers what was written."""
        data = m.ok(self._line.sequence, m.Done(status=status))
        self._line.write(data)
        return data

    def turn_away(self, code: int, state: str, text: str, hint: str = "") -> None:
        """An ERR packet, with which a login may end at any time, or even begin."""
        self._line.write(m.err(self._line.sequence, code, state, text, hint))


def reject(stream: Handshake, code: int, text: str) -> None:
    """Write an ERR packet in place of the greeting."""
    stream.write(m.early_err(code, text))


@dataclass(frozen=True, slots=True)
class MysqlTargetLogin:
    """What the gateway needs to log in. `sslmode` as libpq's: disable, prefer, require, verify-ca, verify-full.

    `capabilities` are those that the client chose: what the target says is laid out by them.
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
    """What the target said. `thread` is its name for the connection, `status` the flags behind the login; `extended`:
    its column definitions have extended metadata."""

    version: str
    thread: int
    is_mariadb: bool
    status: int
    extended: bool = False


# A client reads by these what it is sent; without them at the target, it would misread it.
_SHAPING: Final = g.TRANSACTIONS | g.MULTI_RESULTS | g.PS_MULTI_RESULTS


async def connect(stream: Handshake, login: MysqlTargetLogin) -> MysqlTargetGreeting:
    """Logs in to the target. Raises TargetRefused, Unavailable or ProtocolViolation."""
    line = _Line(stream, "target", MAX_TARGET)
    greeted = g.parse_greeting(_accepted(await line.read()))
    lacking = login.capabilities & _SHAPING & ~greeted.capabilities
    if lacking:
        raise Unavailable(
            f"the target ({greeted.shown_version}) cannot do what the client asked for (capabilities {lacking:#x}); "
            "MySQL 5.7 and MariaDB 10.2 and newer can"
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
    """Clients of MySQL 8 ask for a collation that no other server has, and that others take for their own default."""
    is_new = not greeted.is_mariadb and not greeted.version.startswith("5.")
    return collation if is_new or collation != g.UTF8MB4_0900 else g.UTF8MB4


_KNOWN: Final = (auth.NATIVE, auth.CACHING, auth.ED25519, auth.CLEAR)


def _accepted(payload: bytes) -> bytes:
    """The payload, unless it is an error."""
    if not payload:
        raise ProtocolViolation("the target sent an empty packet during login")
    if payload[0] == m.ERR:
        failed = m.parse_err(payload)
        raise TargetRefused(failed.text, f"{failed.state}/{failed.code}")
    return payload


async def _encrypt(line: _Line, sslmode: str, greeted: g.Greeting, answer: g.Response) -> bool:
    """Starts TLS. False: the target offers none, and `sslmode` allows to go on without."""
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
    """Proves to the target who the gateway is, in the way that the target asks for."""

    def __init__(self, line: _Line, login: MysqlTargetLogin, encrypted: bool) -> None:
        self._line = line
        self._encrypted = encrypted
        self._password = login.password.reveal().encode("utf-8", "surrogateescape")

    async def prove(self, plugin: str, salt: bytes) -> bytes:
        """What the plug-in sends first. Raises Unavailable where the password would be readable on its way."""
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
                f"the target asks for authentication by {plugin!r}, which is not supported; "
                f"{', '.join(_KNOWN)} are: change the plug-in of the gateway's account there"
            )
        if not self._encrypted:
            raise Unavailable("the target asks for the password in clear text without TLS; enable TLS there")
        return password + b"\0"

    async def run(self, plugin: str, salt: bytes) -> m.Done:
        """From the gateway's answer to the greeting to the target's OK."""
        line = self._line
        for _ in range(MAX_ROUNDS):
            payload = _accepted(await line.read())
            if payload[0] == m.OK:
                return m.parse_ok(payload)
            if payload[0] == m.EOF:
                plugin, salt = g.parse_auth_switch(payload)
                proof = await self.prove(plugin, salt)
                line.write(m.packet(line.sequence, proof))
            elif payload[0] == 1 and plugin == auth.CACHING:
                await self._more(payload[1:], salt)
            else:
                raise ProtocolViolation("the target broke off its authentication")
        raise ProtocolViolation("the target's authentication does not end")

    async def _more(self, said: bytes, salt: bytes) -> None:
        """The target knows the password, or wants all of it."""
        line = self._line
        if said == auth.FAST_OK:
            return
        if said != auth.FULL:
            raise ProtocolViolation("the target broke off its authentication")
        if self._encrypted:
            line.write(m.packet(line.sequence, self._password + b"\0"))
            return
        line.write(m.packet(line.sequence, auth.WANTS_KEY))
        payload = _accepted(await line.read())
        if payload[0] != 1:
            raise ProtocolViolation("the target sent no public key when it was asked for one")
        line.write(m.packet(line.sequence, auth.sealed(self._password, salt, payload[1:])))
