"""Both logins: a client's at the gateway, and the gateway's at the target.

    client                                  gateway                                target
      ├─ PRELOGIN ───────────────────────────▶ ├─ PRELOGIN ────────────────────────▶ │
      │ ◀── PRELOGIN ──────────────────────────│ ◀── PRELOGIN ───────────────────────│
      ├─ TLS in PRELOGIN messages ───────────▶ ├─ TLS in PRELOGIN messages ────────▶ │
      ├─ LOGIN7 ─────────────────────────────▶ ├─ LOGIN7 ──────────────────────────▶ │
      │     (admission, dial, target's login)  │ ◀── LOGINACK, ENVCHANGE … ──────────│
      │ ◀── what the target answered ──────────│                                     │

With TDS 8.0, TLS comes first, at either side. Until then, a client that asks for encryption of its login alone gets
just that where clients need no TLS: the first packet of LOGIN7 is encrypted, and nothing else. The client is answered
what the target has answered, except for what would lead it to another server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from postern.domain.identity.credential import Verifier
from postern.domain.secret import Secret
from postern.errors import Denied, ProtocolViolation, Unauthenticated, Unavailable
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.mssql.login import mssql_prelogin as pre
from postern.protocols.mssql.login.mssql_login7 import MssqlClientOptions, MssqlStartup, encode_login7, parse_login7
from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_token_reader import TokenReader
from postern.protocols.mssql.wire.mssql_types import UTF16
from postern.protocols.tls_cipher import RECORD_HEAD, TlsCipher, record_size
from postern.protocols.verifiers import decoy as decoy
from postern.protocols.verifiers import fits
from postern.protocols.wire_base import Handshake

MAX_PRELOGIN: Final = 4096  # bytes from an unknown client
MAX_LOGIN: Final = 128 * 1024  # as servers accept; with extensions
MAX_TARGET: Final = 256 * 1024
MAX_HANDSHAKE: Final = 64  # messages of a TLS handshake
TLS_FIRST: Final = 0x16  # the first byte of a client with TDS 8.0
TDS_5: Final = 0x02
ALPN: Final = "tds/8.0"

LOGIN_FAILED: Final = 18456
_LOGIN_ERRORS: Final = frozenset({18450, 18451, 18452, LOGIN_FAILED, 18458, 18461, 18470, 18486, 18487, 18488})
_REFUSED: Final = "the user name or password is wrong, or the credential is no longer valid"
_OLD: Final = (
    "the client logs in by TDS 5.0, which is that of Sybase; set its version to 7.4 (TDSVER=7.4, or tds_version='7.4')"
)


class MssqlHandshake(Handshake, Protocol):
    """A stream on which TLS can be started in messages."""

    async def framed_tls_handshake(
        self,
        wrap: Callable[[bytes], bytes],
        read: Callable[[], Awaitable[bytes]],
    ) -> TlsCipher: ...

    def encrypt_stream(self, cipher: TlsCipher) -> None: ...


FramedTls = Callable[[Callable[[bytes], bytes], Callable[[], Awaitable[bytes]]], Awaitable[TlsCipher]]


class _Messages:
    """The messages of a login on one stream."""

    def __init__(self, stream: MssqlHandshake, peer: str) -> None:
        self.stream = stream
        self._peer = peer

    async def read(self, kind: int, most: int, cipher: TlsCipher | None = None) -> bytes:
        """Read a message of that type. With a cipher, its first packet is encrypted."""
        parts: list[bytes] = []
        total = 0
        while True:
            first = cipher if not parts else None
            packet = await self._read_encrypted(first, kind) if first else await self._read_packet(kind)
            total += len(packet)
            if total > most:
                raise ProtocolViolation(f"the {self._peer} sent more than {most} bytes at login")
            parts.append(packet[p.HEAD :])
            if packet[1] & p.EOM:
                return b"".join(parts)

    async def _read_packet(self, kind: int) -> bytes:
        first = await self.stream.peek(1)
        if first[0] != kind:
            raise ProtocolViolation(self._describe_unexpected(first[0]))
        head = await self.stream.read(p.HEAD)
        return head + await self.stream.read(int(p.packet_size(head, 0)) - p.HEAD)

    async def _read_encrypted(self, cipher: TlsCipher, kind: int) -> bytes:
        data = b""
        while len(data) < p.HEAD or len(data) < p.packet_size(data, 0):
            head = await self.stream.read(RECORD_HEAD)
            record = await self.stream.read(record_size(head))
            data += cipher.decrypt(head + record)
            if data[:1] and data[0] != kind:
                raise ProtocolViolation(self._describe_unexpected(data[0]))
            if cipher.has_ended:
                raise ConnectionResetError("the peer ended TLS during login")
        if len(data) != p.packet_size(data, 0):
            raise ProtocolViolation(f"the {self._peer} encrypted more than the first packet of its login")
        return data

    def _describe_unexpected(self, kind: int) -> str:
        if kind == TDS_5:
            return _OLD
        return f"the {self._peer} sent a packet of type {kind:#04x} at login: it probably does not speak TDS"

    async def tls(self, handshake: FramedTls) -> TlsCipher:
        """Do the handshake of TLS in messages."""
        left = MAX_HANDSHAKE

        async def read() -> bytes:
            nonlocal left
            left -= 1
            if not left:
                raise ProtocolViolation(f"the {self._peer} does not end its TLS handshake")
            return await self.read(p.PRELOGIN, MAX_LOGIN)

        return await handshake(lambda data: p.message(p.PRELOGIN, data), read)


class MssqlClientLogin:
    """One client's login: `greet`, then `authenticate`, then `welcome`; `turn_away` at any time after PRELOGIN.

    `framed` does the handshake of TLS inside of messages, and `strict` the one of TDS 8.0.
    """

    def __init__(
        self,
        stream: MssqlHandshake,
        *,
        framed: FramedTls | None = None,
        strict: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._stream = stream
        self._messages = _Messages(stream, "client")
        self._framed = framed or stream.framed_tls_handshake
        self._strict = strict
        self._wide = True
        self._startup: MssqlStartup | None = None
        self._is_ready = False  # the client waits for the response to its login
        self.is_strict = False
        self.encrypted = False

    async def greet(self, *, require_tls: bool) -> MssqlStartup:
        """Agree with the client, and read its login."""
        first = (await self._stream.peek(1))[0]
        if first == TLS_FIRST:
            if self._strict is None or not self._stream.tls_offered:
                raise ProtocolViolation("the client began with TLS, which is not configured for this connection")
            await self._strict()
            self.is_strict = self.encrypted = True
        cipher = await self._agree(require_tls)
        data = await self._messages.read(p.LOGIN, MAX_LOGIN, cipher)
        self._is_ready = True
        if len(data) >= 8:
            self._wide = k.is_wide(int.from_bytes(data[4:8], "little"))
        if require_tls and not self.encrypted:
            raise Denied("this gateway accepts only TLS connections; connect with Encrypt=yes (encrypt=true)")
        self._startup = parse_login7(data)
        return self._startup

    async def _agree(self, require_tls: bool) -> TlsCipher | None:
        """Answer the client's PRELOGIN. Return the cipher for the first packet of its login, if only that is
        encrypted."""
        asked = pre.parse_prelogin(await self._messages.read(p.PRELOGIN, MAX_PRELOGIN))
        wish = pre.NOT_SUPPORTED if self.is_strict else pre.encryption_of(asked)
        answer = self._choose(wish, require_tls)
        options = {
            pre.VERSION: pre.OWN_VERSION,
            pre.ENCRYPTION: bytes((answer,)),
            pre.INSTANCE: b"\0",
            pre.THREAD: b"",
            pre.MARS: b"\0",
        }
        if asked.get(pre.FEDERATED):
            options[pre.FEDERATED] = b"\0"
        self._stream.write(p.packet(p.REPLY, pre.encode_prelogin(options)))
        if answer == pre.NOT_SUPPORTED:
            return None
        if wish == pre.NOT_SUPPORTED:
            raise Denied("this gateway accepts only TLS connections; connect with Encrypt=yes (encrypt=true)")
        cipher = await self._messages.tls(self._framed)
        if answer == pre.OFF:
            return cipher
        self.encrypted = True
        self._stream.encrypt_stream(cipher)
        return None

    def _choose(self, wish: int, require_tls: bool) -> int:
        """Return the answer about encryption."""
        if self.is_strict or not self._stream.tls_offered:
            return pre.NOT_SUPPORTED
        if require_tls:
            return pre.ON if wish == pre.ON else pre.REQUIRED
        return {pre.OFF: pre.OFF, pre.NOT_SUPPORTED: pre.NOT_SUPPORTED}.get(wish, pre.ON)

    async def authenticate(self, verifier: Verifier) -> None:
        """Check the client's password. Raises Unauthenticated."""
        assert self._startup is not None
        password = self._startup.password
        if not password:
            raise Unauthenticated("no password was given; use the one of your connection credential")
        if not await self._stream.offload(lambda: fits(password, verifier)):
            raise Unauthenticated(_REFUSED)

    def welcome(self, tokens: bytes) -> None:
        """End the login with what the target has answered."""
        version = k.TDS_74 if self._startup is None else self._startup.options.version
        if not tokens:
            tokens = k.encode_login_ack(version, k.SERVER, (16, 0, 0)) + k.encode_done(0, self._wide)
        if self.is_strict:
            tokens = _with_version(tokens, k.TDS_80)
        elif version != k.TDS_80:
            tokens = _with_version(tokens, version, instead_of=k.TDS_80)
        self._stream.write(p.message(p.REPLY, tokens))

    def turn_away(self, number: int, text: str, hint: str = "", severity: int = 14) -> None:
        """Send an error, which ends the login. Before the client's login was read, it could not read one."""
        if not self._is_ready:
            return
        whole = f"{text}. {hint}" if hint else text
        error = k.encode_message(k.ERROR, number, severity, whole, self._wide)
        self._stream.write(p.message(p.REPLY, error + k.encode_done(k.DONE_ERROR, self._wide)))


def _with_version(tokens: bytes, version: int, instead_of: int = 0) -> bytes:
    """Return the tokens of a login with another version in LOGINACK; `instead_of` is the only one that is replaced."""
    pos = 0
    while pos < len(tokens):
        after = int(k.token_end(tokens, pos, len(tokens), True))
        if tokens[pos] == k.LOGINACK and after > 0:
            if instead_of not in (0, int.from_bytes(tokens[pos + 4 : pos + 8], "big")):
                return tokens
            return tokens[: pos + 4] + version.to_bytes(4, "big") + tokens[pos + 8 :]
        pos = after if after > 0 else len(tokens)
    return tokens


@dataclass(frozen=True, slots=True)
class MssqlTargetLogin:
    """The gateway's parameters for a login. `sslmode` has the values of libpq: disable, prefer, require, verify-ca,
    verify-full. With `disable`, the password alone is encrypted, where the target can do that. `strict`: by TDS 8.0."""

    user: str
    password: Secret
    database: str = ""
    sslmode: str = "prefer"
    server: str = ""
    options: MssqlClientOptions = field(default_factory=MssqlClientOptions)
    strict: bool = False


@dataclass(frozen=True, slots=True)
class MssqlTargetGreeting:
    """The result of a login. `tokens` are the target's answer for the client. `routed_to` is the server that the target
    names instead of itself."""

    version: int
    program: str
    program_version: tuple[int, int, int]
    packet_size: int
    tokens: bytes
    routed_to: tuple[str, int] | None = None


async def connect(stream: MssqlHandshake, login: MssqlTargetLogin) -> MssqlTargetGreeting:
    """Log in to the target. Raises TargetRefused, Unavailable or ProtocolViolation."""
    messages = _Messages(stream, "target")
    version = _version_of(login)
    if login.strict:
        await stream.start_tls()
    wish = pre.NOT_SUPPORTED if login.strict else pre.OFF if login.sslmode == "disable" else pre.ON
    options = {
        pre.VERSION: pre.OWN_VERSION,
        pre.ENCRYPTION: bytes((wish,)),
        pre.INSTANCE: b"\0",
        pre.THREAD: bytes(4),
        pre.MARS: b"\0",
    }
    stream.write(p.packet(p.PRELOGIN, pre.encode_prelogin(options)))
    answered = pre.parse_prelogin(await messages.read(p.REPLY, MAX_TARGET))
    cipher = None if login.strict else await _encrypt(messages, login.sslmode, pre.encryption_of(answered))
    startup = MssqlStartup(login.user, login.password, login.database, replace(login.options, version=version))
    data = p.message(p.LOGIN, encode_login7(startup, login.server))
    if cipher is not None:
        size = int(p.packet_size(data, 0))
        data = cipher.encrypt(data[:size]) + data[size:]
    stream.write(data)
    return _read_answer(await messages.read(p.REPLY, MAX_TARGET), version, login.options.packet_size)


def _version_of(login: MssqlTargetLogin) -> int:
    """Return the version of TDS for the target: the client's, unless encryption decides. Raises Denied for a client
    that could not read a target of TDS 8.0, which has the types of 7.4."""
    version = login.options.version
    if not login.strict:
        return k.TDS_74 if version == k.TDS_80 else version
    if version not in (k.TDS_74, k.TDS_80):
        raise Denied(
            "this connection's target speaks TDS 8.0 alone, and the client is older than TDS 7.4; set its version to "
            "7.4 (TDSVER=7.4, or tds_version='7.4')"
        )
    return k.TDS_80


async def _encrypt(messages: _Messages, sslmode: str, answer: int) -> TlsCipher | None:
    """Start TLS. Return the cipher for the first packet of the login, if only that is encrypted."""
    if answer == pre.NOT_SUPPORTED:
        if sslmode == "disable":
            return None
        raise Unavailable(
            f"the target offers no TLS, and the connection's SSLMODE is {sslmode}; set SSLMODE to disable to send the "
            "password in clear text"
        )
    if sslmode != "disable" and answer == pre.OFF:
        raise Unavailable(f"the target encrypts logins only, and the connection's SSLMODE is {sslmode}")
    if messages.stream.buffered:
        raise ProtocolViolation("the target sent bytes between its PRELOGIN and the TLS handshake")
    cipher = await messages.tls(messages.stream.framed_tls_handshake)
    if answer == pre.OFF:
        return cipher
    messages.stream.encrypt_stream(cipher)
    return None


_HIDDEN: Final = frozenset({k.ENV_ROUTING, k.ENV_PARTNER, k.ENV_USER_INSTANCE})
_DNS_CACHING: Final = 0x0B


def _read_answer(payload: bytes, version: int, packet_size: int) -> MssqlTargetGreeting:
    """Read the target's answer to a login."""
    reader = TokenReader(k.is_wide(version))
    ack: k.LoginAck | None = None
    routed: tuple[str, int] | None = None
    error: k.MessageToken | None = None
    parts: list[bytes] = []
    pos = 0
    while pos < len(payload):
        after = int(k.token_end(payload, pos, len(payload), reader.wide))
        if after < 0:
            raise ProtocolViolation("the target's answer to the login is truncated")
        data = payload[pos:after]
        pos = after
        if data[0] in (k.SSPI, k.FEDAUTHINFO):
            raise Unavailable("the target requests another method than SQL authentication; allow that for this login")
        is_shown = data[0] != k.FEATUREEXTACK
        for token in reader.feed(data):
            if isinstance(token, k.LoginAck):
                ack = token
                reader.wide = k.is_wide(token.version)
            elif isinstance(token, k.MessageToken) and token.code == k.ERROR:
                error = error or token
            elif isinstance(token, k.EnvironmentToken):
                if token.kind == k.ENV_ROUTING:
                    routed = _routing(token.new)
                elif token.kind == k.ENV_PACKET_SIZE and token.new.isdigit():
                    packet_size = int(token.new)
                is_shown = token.kind not in _HIDDEN
        parts.append(data if is_shown else _features(data) if data[0] == k.FEATUREEXTACK else b"")
    if ack is None:
        if error is None:
            raise ProtocolViolation("the target neither accepted nor refused the login")
        raise TargetRefused(error.text, f"{'28000' if error.number in _LOGIN_ERRORS else 'HY000'}/{error.number}")
    if ack.version < k.TDS_71 and ack.version != k.TDS_80:
        raise Unavailable("the target is too old: it does not speak TDS 7.1 (SQL Server 2000) or later")
    return MssqlTargetGreeting(ack.version, ack.program, ack.program_version, packet_size, b"".join(parts), routed)


def _features(data: bytes) -> bytes:
    """Return a FEATUREEXTACK without what names other servers."""
    pos = 1
    parts = [data[:1]]
    while data[pos] != 0xFF:
        after = pos + 5 + int.from_bytes(data[pos + 1 : pos + 5], "little")
        if data[pos] != _DNS_CACHING:
            parts.append(data[pos:after])
        pos = after
    return b"".join(parts) + b"\xff"


def _routing(data: bytes) -> tuple[str, int]:
    """Read the address in an ENVCHANGE of routing."""
    size = 2 * int.from_bytes(data[3:5], "little")
    if len(data) < 5 or data[0] or len(data) < 5 + size:
        raise ProtocolViolation("the target routes to an address that cannot be read")
    return data[5 : 5 + size].decode(UTF16, "replace"), int.from_bytes(data[1:3], "little")
