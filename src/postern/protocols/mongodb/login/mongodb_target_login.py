"""The gateway's login at a target: hello, which tells what the server is, then one of MongoDB's mechanisms.

    gateway                                          target
      ├─ isMaster, with our metadata ──────────────▶ │
      │ ◀── what it is, who the primary is ───────── │
      ├─ saslStart, saslContinue … (or authenticate) │
      │ ◀── done, with the server's signature ────── │
      ├─ buildInfo ────────────────────────────────▶ │
      │ ◀── version ──────────────────────────────── │

Compression is never offered, so that all messages stay readable.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from postern import __version__
from postern.domain.secret import Secret
from postern.errors import ProtocolViolation, Unavailable
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.mongodb.login import mongodb_login_messages as m
from postern.protocols.mongodb.login.mongodb_hello import MAX_DOCUMENT, MAX_MESSAGE, MAX_WRITE_BATCH
from postern.protocols.scram import SHA_1, SHA_256, KeyCache, Rejected, ScramExchange, derive
from postern.protocols.wire_base import Handshake

SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_1: Final = "SCRAM-SHA-1"
X509: Final = "MONGODB-X509"
PLAIN: Final = "PLAIN"
MECHANISMS: Final = (SCRAM_SHA_256, SCRAM_SHA_1, X509, PLAIN)
# Those that have their users outside of the server.
EXTERNAL: Final = frozenset({X509, PLAIN})

# OP_MSG is understood from here on (MongoDB 3.6).
_MIN_WIRE_VERSION: Final = 6
# Limits of SCRAM's rounds: RFC 7677 and drivers want 4096, and a hostile target could demand hours of work.
_MIN_ROUNDS: Final = 4096
_MAX_ROUNDS: Final = 1_000_000
_MAX_APPLICATION: Final = 128  # bytes, as servers allow
_MAX_HOSTS: Final = 50  # members of a replica set
_AUTHENTICATION_FAILED: Final = 18
# ShutdownInProgress, PrimarySteppedDown, NotWritablePrimary, InterruptedAtShutdown, InterruptedDueToReplStateChange,
# NotPrimaryNoSecondaryOk, NotPrimaryOrSecondary (mongodb/specifications: retryable writes).
_TRANSIENT: Final = frozenset({"91", "189", "10107", "11600", "11602", "13435", "13436"})
_PEER: Final = "target"
_DIGESTS: Final[Mapping[str, str]] = {SCRAM_SHA_256: SHA_256, SCRAM_SHA_1: SHA_1}


@dataclass(frozen=True, slots=True)
class MongodbTargetLogin:
    """The gateway's parameters for a login. Without a `user` it does not log in, except by a certificate. With no
    `mechanism` the server's best one is used. `application` is shown in the server's log.

    `keys` caches the derived keys of earlier logins, and of this one.
    """

    user: str
    password: Secret
    source: str = "admin"
    mechanism: str = ""
    application: str = ""
    keys: KeyCache = field(default_factory=KeyCache, repr=False, compare=False)

    @property
    def has_credentials(self) -> bool:
        return bool(self.user) or self.mechanism == X509


@dataclass(frozen=True, slots=True)
class ServerDescription:
    """What a server says about itself. `kind` is `standalone`, `replica_set` or `mongos`; `primary` and `hosts` are
    addresses of its replica set. `mechanisms` are those of the user; None if the server did not tell."""

    kind: str
    is_writable: bool
    set_name: str
    primary: str
    hosts: tuple[str, ...]
    mechanisms: tuple[str, ...] | None
    parameters: Mapping[str, str]


class MongodbTargetConversation:
    """One connection to a server: `hello`, `authenticate`, `read_parameters`. Raises TargetRefused, Unavailable,
    ProtocolViolation."""

    def __init__(self, stream: Handshake) -> None:
        self._stream = stream
        self._requests = 0

    async def hello(self, login: MongodbTargetLogin) -> ServerDescription:
        request: dict[str, Any] = {"ismaster": 1, "helloOk": True, "client": _client(login.application)}
        if login.user and not login.mechanism:
            request["saslSupportedMechs"] = f"{login.source}.{login.user}"
        self._requests += 1
        self._stream.write(m.op_query(self._requests, request))
        return _describe(_require_ok(await self._reply()))

    async def authenticate(self, login: MongodbTargetLogin, server: ServerDescription, *, verified: bool) -> None:
        """Log in, if there are credentials. `verified`: the stream is encrypted, and the server's certificate was
        verified."""
        if not login.has_credentials:
            return
        mechanism = login.mechanism or _choose(server)
        if mechanism == X509:
            await self._by_certificate(login)
        elif mechanism == PLAIN:
            await self._plain(login, verified)
        else:
            await self._scram(login, mechanism)

    async def read_parameters(self, server: ServerDescription) -> dict[str, str]:
        """Return what the gateway is told about the server."""
        parameters = {**server.parameters, "version": await self._version()}
        if self._stream.buffered:
            raise ProtocolViolation("the target sent bytes behind the replies of the login")
        return parameters

    async def _by_certificate(self, login: MongodbTargetLogin) -> None:
        request: dict[str, Any] = {"authenticate": 1, "mechanism": X509}
        if login.user:
            request["user"] = login.user  # else the subject of the certificate
        await self._run(request, "$external")

    async def _plain(self, login: MongodbTargetLogin, verified: bool) -> None:
        if not verified:
            raise Unavailable(f"{PLAIN} sends the password itself; set SSLMODE to verify-full (or verify-ca)")
        payload = f"\0{login.user}\0{login.password.reveal()}".encode()
        request = {"saslStart": 1, "mechanism": PLAIN, "payload": payload, "autoAuthorize": 1}
        if (await self._run(request, login.source)).get("done") is not True:
            raise ProtocolViolation("the target did not end the login")

    async def _scram(self, login: MongodbTargetLogin, mechanism: str) -> None:
        digest = _DIGESTS[mechanism]
        exchange = ScramExchange(login.user, binding=None, plus=False, digest=digest)
        request = {
            "saslStart": 1,
            "mechanism": mechanism,
            "payload": exchange.first,
            "autoAuthorize": 1,
            "options": {"skipEmptyExchange": True},
        }
        answer = await self._run(request, login.source)
        try:
            exchange.challenge(_payload(answer))
            _check_rounds(exchange.rounds)
            password = login.password if digest == SHA_256 else _hash_password(login)
            inputs = (password, exchange.salt, exchange.rounds)
            keys = login.keys.find(*inputs, digest)
            if keys is None:
                keys = await self._stream.offload(lambda: derive(*inputs, digest))
            answer = await self._continue(answer, exchange.final(keys), login.source)
            exchange.check(_payload(answer))
            login.keys.keep(*inputs, keys, digest)
        except Rejected as error:
            raise Unavailable("the target could not prove that it knows the password: it may be an impostor") from error
        if answer.get("done") is not True:  # it does not know the option, and waits for an empty message
            answer = await self._continue(answer, b"", login.source)
        if answer.get("done") is not True:
            raise ProtocolViolation("the target did not end the login")

    async def _continue(self, answer: Mapping[str, Any], payload: bytes, source: str) -> dict[str, Any]:
        conversation = answer.get("conversationId")
        if not isinstance(conversation, int):
            raise ProtocolViolation("the target's login has no conversationId")
        return await self._run({"saslContinue": 1, "conversationId": conversation, "payload": payload}, source)

    async def _version(self) -> str:
        """Return the server's version; empty if it does not tell."""
        try:
            version = (await self._run({"buildInfo": 1}, "admin")).get("version")
        except TargetRefused:
            return ""
        return version if isinstance(version, str) else ""

    async def _run(self, command: Mapping[str, Any], database: str) -> dict[str, Any]:
        self._requests += 1
        self._stream.write(m.op_msg(self._requests, 0, {**command, "$db": database}))
        return _require_ok(await self._reply())

    async def _reply(self) -> Mapping[str, Any]:
        message = await m.read_message(self._stream, _PEER)
        if message.opcode == m.OP_QUERY or message.response_to != self._requests or message.flags & m.MORE_TO_COME:
            raise ProtocolViolation("the target sent a message that is no reply to the gateway's")
        return message.document


def _client(application: str) -> dict[str, Any]:
    """Return our metadata. The name of the application is cut as servers demand."""
    name = application.encode()[:_MAX_APPLICATION].decode(errors="ignore")
    return {
        **({"application": {"name": name}} if name else {}),
        "driver": {"name": "postern", "version": __version__},
        "os": {"type": platform.system()},
    }


def is_transient(error: TargetRefused) -> bool:
    """Return whether the server refused a login because it is shutting down, or its replica set has a new primary."""
    return error.code.rpartition("/")[2] in _TRANSIENT


def _require_ok(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reply. Raises TargetRefused for an error: with SQLSTATE 28000 when the login is wrong, else with the
    name of the error, and with its number in both cases."""
    if document.get("ok") == 1:
        return dict(document)
    code, name, text = (document.get(key) for key in ("code", "codeName", "errmsg"))
    number = code if isinstance(code, int) else 0
    state = "28000" if number == _AUTHENTICATION_FAILED else name if isinstance(name, str) else "UnknownError"
    raise TargetRefused(text if isinstance(text, str) and text else "unknown error", f"{state}/{number}")


def _describe(hello: Mapping[str, Any]) -> ServerDescription:
    wire_version = _number(hello, "maxWireVersion", 0)
    if wire_version < _MIN_WIRE_VERSION:
        raise Unavailable(
            f"the target's server is too old (wire version {wire_version}); upgrade it to MongoDB 3.6 or later"
        )
    set_name = _text(hello, "setName")
    kind = "mongos" if hello.get("msg") == "isdbgrid" else "standalone"
    if set_name or hello.get("isreplicaset") is True:
        kind = "replica_set"
    writable = hello.get("isWritablePrimary", hello.get("ismaster")) is True
    hosts, mechanisms = hello.get("hosts"), hello.get("saslSupportedMechs")
    timeout = hello.get("logicalSessionTimeoutMinutes")
    return ServerDescription(
        kind,
        writable,
        set_name,
        _text(hello, "primary"),
        tuple(host for host in hosts[:_MAX_HOSTS] if isinstance(host, str)) if isinstance(hosts, list) else (),
        tuple(filter(_is_text, mechanisms)) if isinstance(mechanisms, list) else None,
        {
            "kind": kind,
            "min_wire_version": str(_number(hello, "minWireVersion", 0)),
            "max_wire_version": str(wire_version),
            "max_document": str(_number(hello, "maxBsonObjectSize", MAX_DOCUMENT)),
            "max_message": str(_number(hello, "maxMessageSizeBytes", MAX_MESSAGE)),
            "max_write_batch": str(_number(hello, "maxWriteBatchSize", MAX_WRITE_BATCH)),
            "logical_session_timeout": str(timeout) if isinstance(timeout, int) and timeout >= 0 else "",
        },
    )


def _choose(server: ServerDescription) -> str:
    """Return the best mechanism of the user. A server that tells none is older than SCRAM-SHA-256."""
    offered = server.mechanisms
    if offered is None:
        return SCRAM_SHA_1
    for mechanism in (SCRAM_SHA_256, SCRAM_SHA_1):
        if mechanism in offered:
            return mechanism
    # It tells no mechanism of a user that it does not know, and then rejects the login.
    if not offered:
        return SCRAM_SHA_256
    raise Unavailable(f"the target offers no supported authentication mechanism: {', '.join(offered)}")


def _check_rounds(rounds: int) -> None:
    if rounds > _MAX_ROUNDS:
        raise ProtocolViolation("the target requests too many SCRAM iterations")
    if rounds < _MIN_ROUNDS:
        raise Unavailable(
            f"the target stores its password with {rounds} SCRAM iterations; at least {_MIN_ROUNDS} are required: "
            "raise its scramSHA256IterationCount or scramIterationCount, then set the password again"
        )


def _hash_password(login: MongodbTargetLogin) -> Secret:
    """Return the password as SCRAM-SHA-1 takes it, for the sake of servers that had only its hash."""
    text = f"{login.user}:mongo:{login.password.reveal()}"
    return Secret(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest())


def _payload(answer: Mapping[str, Any]) -> str:
    payload = answer.get("payload")
    return payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""


def _text(document: Mapping[str, Any], key: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else ""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _number(document: Mapping[str, Any], key: str, usual: int) -> int:
    value = document.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else usual
