"""Both logins: a client's at the gateway, and the gateway's at the target.

    client                                  gateway                                target
      ├─ GSSENCRequest ─▶ N                    ├─ SSLRequest ─▶ S, then TLS           │
      ├─ SSLRequest ────▶ S, then TLS          ├─ StartupMessage ───────────────────▶ │
      ├─ StartupMessage ─────────────────────▶ │                                      │
      │ ◀── AuthenticationSASL … SASLFinal     │ ◀── trust, cleartext, MD5 or SCRAM   │
      │     (admission, dial, target's login)  │ ◀── ParameterStatus, BackendKeyData, │
      │ ◀── Ok, ParameterStatus, our own       │     ReadyForQuery                    │
      │     BackendKeyData, ReadyForQuery      │                                      │

One StartupMessage a connection; nothing may be buffered when TLS starts; every length is checked
before it is waited for. SCRAM is RFC 5802 and 7677, channel binding `tls-server-end-point` RFC 5929.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from postern.domain.identity.credential import Verifier
from postern.domain.secret import Secret
from postern.errors import Denied, ProtocolViolation, Unauthenticated, Unavailable
from postern.protocols.postgres.wire import postgres_messages as m
from postern.protocols.scram import KeyCache, Rejected, ScramChallenge, ScramExchange, derive
from postern.protocols.verifiers import decoy as decoy
from postern.protocols.wire_base import Handshake

# Limits of the server itself: MAX_STARTUP_PACKET_LENGTH, PG_MAX_AUTH_TOKEN_LENGTH.
MAX_STARTUP = 10_000
MAX_AUTHENTICATION = 65_535
# Limits against a hostile target, which could send without end or demand hours of work. Real ones stay far below.
MAX_MESSAGE = 64 * 1024
MAX_GREETING = 1000
MAX_GREETING_BYTES = 1 << 20
MAX_ITERATIONS = 1_000_000
# With fewer iterations a stolen verifier is cheap to search.
MIN_ITERATIONS = 4096
# Length of a cancel key, since protocol 3.2.
MAX_KEY = 256

_SCRAM = "SCRAM-SHA-256"
_SCRAM_PLUS = "SCRAM-SHA-256-PLUS"
_GIVEN_UP = "the client closed the connection before login"
_OFF = frozenset({"", "0", "false", "off", "no"})


@dataclass(frozen=True, slots=True)
class PostgresStartup:
    """The client's start-up request. `parameters` are all that are forwarded to the target."""

    user: str
    database: str | None
    parameters: Mapping[str, str]
    protocol: int
    encrypted: bool


@dataclass(frozen=True, slots=True)
class Cancel:
    pid: int
    key: bytes


async def greet(stream: Handshake, *, require_tls: bool) -> PostgresStartup | Cancel:
    """Read the client's startup phase, up to its StartupMessage or CancelRequest.

    A client that probes the port may send Terminate instead, here or instead of its password. As a server does, close
    the stream: ConnectionError.
    """
    encrypted = False
    requests: set[int] = set()
    while True:
        head = await stream.read(4)
        length = int.from_bytes(head, "big")
        if head == m.TERMINATE_MESSAGE[:4] and await stream.read(1) == m.TERMINATE_MESSAGE[4:]:
            raise ConnectionResetError(_GIVEN_UP)
        if not 8 <= length <= MAX_STARTUP:
            raise ProtocolViolation(f"the first bytes are not a PostgreSQL startup message (length {length})")
        body = await stream.read(length - 4)
        code = int.from_bytes(body[:4], "big")
        if code in (m.SSL_REQUEST, m.GSSENC_REQUEST):
            if length != 8 or code in requests or encrypted:
                raise ProtocolViolation("an encryption request was sent twice or in the wrong state")
            requests.add(code)
            if code == m.GSSENC_REQUEST or not stream.tls_offered:
                stream.write(b"N")
                continue
            if stream.buffered:
                raise ProtocolViolation("bytes were sent between the TLS request and the TLS handshake")
            stream.write(b"S")
            await stream.start_tls()
            encrypted = True
            continue
        if code == m.CANCEL_REQUEST:
            if not 16 <= length <= 268:
                raise ProtocolViolation("a cancel request has the wrong length")
            return Cancel(int.from_bytes(body[4:8], "big"), body[8:])
        return _startup(stream, code, m.parse_parameters(body[4:]), encrypted, require_tls)


def _startup(
    stream: Handshake, code: int, parameters: dict[str, str], encrypted: bool, require_tls: bool
) -> PostgresStartup:
    if code >> 16 != 3:
        raise ProtocolViolation(f"protocol {code >> 16}.{code & 0xFFFF} is not supported; 3.0 to 3.2 are")
    if require_tls and not encrypted:
        raise Denied("this gateway accepts only TLS connections; connect with sslmode=require or better")
    protocol = min(code, m.PROTOCOL_3_2)
    extensions = [name for name in parameters if name.startswith("_pq_.")]
    if code > m.PROTOCOL_3_2 or extensions:
        stream.write(m.negotiate_protocol_version(protocol, extensions))
    user = parameters.pop("user", "")
    if not user:
        raise Unauthenticated("no user name was given; use the one of your connection credential")
    if any("\udc80" <= character <= "\udcff" for character in user):
        raise Unauthenticated("the user name is not valid UTF-8; use the one of your connection credential")
    database = parameters.pop("database", None)
    if parameters.pop("replication", "").lower() not in _OFF:
        raise Denied("Postern does not support replication connections")
    for name in extensions:
        del parameters[name]
    return PostgresStartup(user, database, parameters, protocol, encrypted)


async def authenticate(stream: Handshake, verifier: Verifier) -> None:
    """Authenticate the client by SCRAM. Raises Unauthenticated when its proof is wrong."""
    binding = stream.channel_binding
    offered = [_SCRAM_PLUS, _SCRAM] if binding else [_SCRAM]
    stream.write(m.authentication(m.AUTH_SASL, b"".join(map(m.cstring, offered)) + b"\0"))
    body = await _password_message(stream)
    chosen, pos = m.read_cstring(body, 0, len(body))
    size = int.from_bytes(body[pos : pos + 4], "big", signed=True)
    if chosen.decode("ascii", "replace") not in offered or size != len(body) - pos - 4:
        raise ProtocolViolation("the client's first SASL message is malformed")
    challenge = ScramChallenge(verifier, binding=binding, plus=chosen == _SCRAM_PLUS.encode())
    try:
        answer = challenge.first(body[pos + 4 :].decode())
        stream.write(m.authentication(m.AUTH_SASL_CONTINUE, answer.encode()))
        answer = challenge.final((await _password_message(stream)).decode())
        # As a server does: the client waits for what follows anyway, a welcome, a notice or an error.
        stream.write_later(m.authentication(m.AUTH_SASL_FINAL, answer.encode()))
    except (Rejected, UnicodeDecodeError) as error:
        raise Unauthenticated("the user name or password is wrong, or the credential is no longer valid") from error


async def _password_message(stream: Handshake) -> bytes:
    head = await stream.read(5)
    if head == m.TERMINATE_MESSAGE:
        raise ConnectionResetError(_GIVEN_UP)
    tag, length = m.HEADER.unpack(head)
    if tag != b"p" or not 4 <= length <= MAX_AUTHENTICATION:
        raise ProtocolViolation("the client sent another message instead of its password")
    return await stream.read(length - 4)


def keep_waiting(stream: Handshake, text: str, hint: str, *, first: bool) -> None:
    """Send a notice to a client that is still waiting. `first`: send AuthenticationOk before it, because clients accept
    no notice earlier."""
    before = m.authentication(m.AUTH_OK) if first else b""
    stream.write(before + m.report(b"N", "NOTICE", "00000", text, hint=hint))


def welcome(
    stream: Handshake, parameters: Mapping[str, str], pid: int, key: bytes, *, kept_waiting: bool = False
) -> bytes:
    """End the client's login. Return the bytes that were written."""
    data = b"".join(
        [
            b"" if kept_waiting else m.authentication(m.AUTH_OK),
            *(m.parameter_status(name, value) for name, value in parameters.items()),
            m.backend_key_data(pid, key),
            m.ready_for_query(b"I"),
        ]
    )
    stream.write(data)
    return data


def turn_away(stream: Handshake, code: str, text: str, hint: str = "") -> None:
    stream.write(m.error_response(code, text, severity="FATAL", hint=hint))


@dataclass(frozen=True, slots=True)
class PostgresTargetLogin:
    """The gateway's parameters for a login. `sslmode` has the values of libpq: disable, prefer, require, verify-ca,
    verify-full.

    `keys` caches the derived keys of earlier logins, and of this one.
    """

    user: str
    password: Secret
    database: str
    sslmode: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    keys: KeyCache = field(default_factory=KeyCache, repr=False, compare=False)


@dataclass(slots=True)
class PostgresTargetGreeting:
    """The target's messages after login."""

    parameters: dict[str, str] = field(default_factory=dict)
    pid: int = 0
    key: bytes = b""


async def connect(stream: Handshake, login: PostgresTargetLogin) -> PostgresTargetGreeting:
    """Log in to the target. Raises TargetRefused, Unavailable or ProtocolViolation."""
    encrypted = await encrypt(stream, login.sslmode)
    # These two always are the gateway's own.
    stream.write(m.startup({**login.parameters, "user": login.user, "database": login.database}))
    await _prove(stream, login, encrypted)
    greeting = PostgresTargetGreeting()
    size = 0
    for _ in range(MAX_GREETING):
        tag, body = await _message(stream)
        size += len(body)
        if size > MAX_GREETING_BYTES:
            break
        if tag == b"S":
            name, pos = m.read_cstring(body, 0, len(body))
            value = m.last_cstring(body, pos, len(body))
            greeting.parameters[_text(name)] = _text(value)
        elif tag == b"K":
            if not 8 <= len(body) <= 4 + MAX_KEY:
                raise ProtocolViolation(f"the target sent a cancel key of {len(body) - 4} bytes")
            greeting.pid, greeting.key = int.from_bytes(body[:4], "big"), body[4:]
        elif tag == b"Z":
            return greeting
        elif tag != b"N":
            raise ProtocolViolation(f"the target sent a message of type {tag!r} during its greeting")
    raise ProtocolViolation("the target's greeting has too many messages")


def _text(data: bytes) -> str:
    """Decode as `parse_parameters` does: bytes that are not UTF-8 are unchanged when they are sent on."""
    return data.decode("utf-8", "surrogateescape")


async def encrypt(stream: Handshake, sslmode: str) -> bool:
    """Ask the target for TLS. Return False if it has none and `sslmode` allows that."""
    if sslmode == "disable":
        return False
    stream.write(m.UINT32.pack(8) + m.UINT32.pack(m.SSL_REQUEST))
    answer = await stream.read(1)
    if answer == b"S":
        if stream.buffered:
            raise ProtocolViolation("the target sent bytes before the TLS handshake")
        await stream.start_tls()
        return True
    if answer != b"N":
        raise ProtocolViolation("the target does not speak the PostgreSQL protocol")
    if sslmode != "prefer":
        raise Unavailable(f"the target offers no TLS, and the connection's SSLMODE is {sslmode}")
    return False


async def _prove(stream: Handshake, login: PostgresTargetLogin, encrypted: bool) -> None:
    """Authenticate once, by the method that the target requests, and wait for its confirmation."""
    proved = False
    for _ in range(MAX_GREETING):
        tag, body = await _message(stream)
        if tag in (b"v", b"N"):
            continue
        if tag != b"R" or len(body) < 4:
            raise ProtocolViolation(f"the target sent a message of type {tag!r} during authentication")
        code = int.from_bytes(body[:4], "big")
        if code == m.AUTH_OK:
            return
        if proved:
            raise ProtocolViolation("the target requests a second authentication")
        proved = True
        if code == m.AUTH_CLEARTEXT:
            if not encrypted and login.sslmode != "disable":
                raise Unavailable(
                    "the target requests the password in clear text over an unencrypted stream; "
                    "enable TLS at the target, or set SSLMODE=disable to allow it"
                )
            stream.write(m.message(b"p", m.cstring(login.password.reveal())))
        elif code == m.AUTH_MD5:
            if len(body) != 8:
                raise ProtocolViolation("the target sent a salt of the wrong length")
            stream.write(m.message(b"p", m.cstring(_md5(login, body[4:8]))))
        elif code == m.AUTH_SASL:
            await _sasl(stream, login, body[4:])
        else:
            raise Unavailable(f"the target requests authentication method {code}, which is not supported")
    raise ProtocolViolation("the target's authentication has too many messages")


def _md5(login: PostgresTargetLogin, salt: bytes) -> str:
    inner = hashlib.md5((login.password.reveal() + login.user).encode(), usedforsecurity=False).hexdigest()
    return "md5" + hashlib.md5(inner.encode() + salt, usedforsecurity=False).hexdigest()


async def _sasl(stream: Handshake, login: PostgresTargetLogin, body: bytes) -> None:
    offered = [name.decode("ascii", "replace") for name in body.split(b"\0") if name]
    binding = stream.channel_binding
    usable = [name for name in (_SCRAM_PLUS, _SCRAM) if name in offered and (binding or name == _SCRAM)]
    if not usable:
        raise Unavailable(f"the target offers no supported authentication method: {', '.join(offered)}")
    # Known to the plain mechanism as well: it then reports that binding was possible. A target that offered it sees
    # that an attacker in between removed it from the list.
    exchange = ScramExchange(login.user, binding=binding, plus=usable[0] == _SCRAM_PLUS)
    stream.write(m.message(b"p", m.cstring(usable[0]), m.INT32.pack(len(exchange.first)), exchange.first))
    try:
        challenge = await _sasl_message(stream, m.AUTH_SASL_CONTINUE)
        _check_iterations(challenge)
        exchange.challenge(challenge)
        inputs = (login.password, exchange.salt, exchange.rounds)
        keys = login.keys.find(*inputs)
        if keys is None:
            keys = await stream.offload(lambda: derive(*inputs))
        stream.write(m.message(b"p", exchange.final(keys)))
        exchange.check(await _sasl_message(stream, m.AUTH_SASL_FINAL))
        login.keys.keep(*inputs, keys)
    except Rejected as error:
        raise Unavailable("the target could not prove that it knows the password: it may be an impostor") from error


def _check_iterations(challenge: str) -> None:
    iterations = [part[2:] for part in challenge.split(",") if part.startswith("i=")]
    if len(iterations) != 1 or not iterations[0].isdecimal() or not 1 <= int(iterations[0][:12]) <= MAX_ITERATIONS:
        raise ProtocolViolation("the target requests too many SCRAM iterations")
    if int(iterations[0]) < MIN_ITERATIONS:
        raise Unavailable(
            f"the target stores its password with {iterations[0]} SCRAM iterations; at least {MIN_ITERATIONS} are "
            "required: raise its scram_iterations, then set the password again"
        )


async def _sasl_message(stream: Handshake, expected: int) -> str:
    tag, body = await _message(stream)
    if tag != b"R" or len(body) < 4 or int.from_bytes(body[:4], "big") != expected or len(body) > 4096:
        raise ProtocolViolation("the target violated the SASL exchange")
    return body[4:].decode("utf-8", "replace")


async def _message(stream: Handshake) -> tuple[bytes, bytes]:
    tag, length = m.HEADER.unpack(stream.read_buffered(5) or await stream.read(5))
    if not 4 <= length <= MAX_MESSAGE:
        raise ProtocolViolation(f"the target sent a message of length {length} during login")
    body = stream.read_buffered(length - 4)  # most messages of a greeting arrive together
    if body is None:
        body = await stream.read(length - 4)
    if tag == b"E":
        raise m.make_target_refused(body)
    return tag, body
