"""A client's login at the gateway.

    client                                          gateway
      ├─ TLS handshake, without a request for it ──▶ │
      ├─ hello, isMaster ──────────────────────────▶ │   a monitor asks again and again, and never logs in
      │ ◀── reply ────────────────────────────────── │
      ├─ saslStart, which can be part of the hello ▶ │
      │ ◀── challenge ────────────────────────────── │
      ├─ saslContinue ─────────────────────────────▶ │
      │     (admission, dial, target's login)        │
      │ ◀── reply, done ──────────────────────────── │

The method is SCRAM-SHA-256 (RFC 7677), which the stored verifiers fit. The last reply is sent once the target has been
reached: until then the client waits, and an error takes the reply's place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from postern.domain.identity.credential import Verifier
from postern.errors import Denied, ProtocolViolation, Unauthenticated
from postern.protocols.mongodb.login import mongodb_login_messages as m
from postern.protocols.mongodb.login.mongodb_hello import HELLO, HelloFacts, hello_reply
from postern.protocols.scram import Rejected, ScramChallenge, user_of
from postern.protocols.verifiers import decoy as decoy
from postern.protocols.wire_base import Handshake

MECHANISM: Final = "SCRAM-SHA-256"

# Codes of MongoDB's server (mongodb/mongo: src/mongo/base/error_codes.yml).
UNAUTHORIZED: Final = (13, "Unauthorized")
AUTHENTICATION_FAILED: Final = (18, "AuthenticationFailed")

# Commands of a login, and those that a server runs without one.
SASL: Final = frozenset({"saslStart", "saslContinue", "authenticate", "getnonce"})
_PING: Final = "ping"

# Maximum commands of a client that is not logged in, besides those of its login.
MAX_REJECTED: Final = 10
_CONVERSATION: Final = 1
_MAX_NAME: Final = 200  # characters of what a client says about itself

_REFUSED: Final = "the user name or password is wrong, or the credential is no longer valid"
_PEER: Final = "client"


@dataclass(frozen=True, slots=True)
class ClientMetadata:
    """What a client says about itself in its first hello. `application` is the name that its user gave it."""

    application: str = ""
    driver: str = ""
    load_balanced: bool = False
    encrypted: bool = False


@dataclass(frozen=True, slots=True)
class SaslAttempt:
    """A login that has begun. `first` is the client's first message of SCRAM, `skips_empty` says that it expects no
    empty last round."""

    user: str
    first: str
    skips_empty: bool


class MongodbClientLogin:
    """One client's login: `encrypt`, `answer_next` until it begins, `authenticate`, then `welcome`; `turn_away` at any
    time. `offers_login`: a client can log in with its hello."""

    def __init__(self, stream: Handshake, facts: HelloFacts, *, offers_login: bool = True) -> None:
        self._stream = stream
        self._facts = facts
        self._offers_login = offers_login
        self._metadata: ClientMetadata | None = None
        self._encrypted = False
        self._requests = 0  # ids of our own messages
        self._rejected = 0
        self._pending: m.LoginMessage | None = None  # the command that has no reply yet
        self._hello: dict[str, Any] | None = None  # the reply to a hello, with which the login has begun
        self._last: dict[str, Any] = {}  # the last reply of the login

    @property
    def metadata(self) -> ClientMetadata:
        return self._metadata or ClientMetadata(encrypted=self._encrypted)

    async def encrypt(self, *, require_tls: bool) -> None:
        """Start TLS if the client begins with it. Raises Denied, once the client's first command can be answered."""
        # A message of this length would be longer than any of a login.
        head = await self._stream.peek(3)
        if head[:2] == b"\x16\x03" and head[2]:
            if not self._stream.tls_offered:
                raise ProtocolViolation(
                    "the client began with TLS, which is not offered here; connect without tls=true"
                )
            await self._stream.start_tls()
            self._encrypted = True
        elif require_tls:
            self._pending = await m.read_message(self._stream, _PEER)
            raise Denied("this gateway accepts only TLS connections; add tls=true to the connection string")

    async def peek_login(self) -> bool:
        """Return True if the client's next command begins a login. It stays unread, and `turn_away` then replies to it.
        Raises ProtocolViolation."""
        message = await m.peek_message(self._stream, _PEER)
        self._pending = message if message.is_answered else None
        if message.command in HELLO:
            return self._offers_login and _is_supported(message.document.get("speculativeAuthenticate"))
        return message.command == "saslStart"

    async def peek_command(self) -> str:
        """Return the name of the next command, which stays unread; empty for one that is too large for a login.
        `turn_away` then replies to it. Raises ProtocolViolation."""
        length, request_id, opcode = await m.peek_header(self._stream, _PEER)
        if length > m.MAX_MESSAGE:
            self._pending = m.LoginMessage(request_id, 0, opcode, 0, {})
            return ""
        message = await m.peek_message(self._stream, _PEER)
        self._pending = message if message.is_answered else None
        return message.command

    async def answer_next(self) -> SaslAttempt | None:
        """Read the next command, and answer it unless a login begins with it. Raises Unauthenticated,
        ProtocolViolation.

        A wait that is cancelled loses nothing.
        """
        message = await self._read()
        name = message.command
        if name in HELLO:
            return self._answer_hello(message)
        if message.opcode == m.OP_QUERY:
            raise ProtocolViolation("the client uses commands of MongoDB before 3.6, which are not supported")
        if name == "saslStart":
            return self._begin(message.document)
        if name in SASL:
            raise Unauthenticated(f"the login did not begin with saslStart; connect with authMechanism={MECHANISM}")
        if name == _PING:
            self._reply({"ok": 1.0})
        else:
            self._reply(m.error_document(*UNAUTHORIZED, f"Command {name} requires authentication"))
        self._count_rejected()
        return None

    async def authenticate(self, attempt: SaslAttempt, verifier: Verifier) -> None:
        """Authenticate the client by SCRAM, up to its last message. Raises Unauthenticated when its proof is wrong."""
        challenge = ScramChallenge(verifier, binding=None, plus=False)
        try:
            self._reply_sasl(challenge.first(attempt.first), done=False)
            proof = await self._continue()
            signature = challenge.final(proof)
        except Rejected as error:
            raise Unauthenticated(_REFUSED) from error
        if not attempt.skips_empty:
            self._reply_sasl(signature, done=False)
            if await self._continue():
                raise ProtocolViolation("the client's login did not end with an empty message")
            signature = ""
        self._last = _sasl_document(signature, done=True)

    def welcome(self) -> None:
        """End the login."""
        self._reply(self._last)

    def turn_away(self, code: int, name: str, text: str) -> None:
        """Reply to the pending command with an error, if there is one: a client that waits for no reply reads none."""
        if self._pending is not None:
            self._reply(m.error_document(code, name, text))

    async def _read(self) -> m.LoginMessage:
        message = self._pending = await m.read_message(self._stream, _PEER)
        if not message.is_answered:
            self._pending = None
            raise ProtocolViolation("the client sent a message before its login to which there is no reply")
        return message

    def _answer_hello(self, message: m.LoginMessage) -> SaslAttempt | None:
        request = message.document
        if self._metadata is None:
            self._metadata = _read_metadata(request, encrypted=self._encrypted)
        answer = hello_reply(request, self._facts)
        if self._offers_login:
            if isinstance(request.get("saslSupportedMechs"), str):
                answer["saslSupportedMechs"] = [MECHANISM]  # of every name, whether there is one or not
            speculative = request.get("speculativeAuthenticate")
            if _is_supported(speculative):
                self._hello = answer
                return self._begin(speculative)
        self._reply(answer)
        return None

    def _begin(self, request: Mapping[str, Any]) -> SaslAttempt:
        mechanism, payload, options = (request.get(name) for name in ("mechanism", "payload", "options"))
        if mechanism != MECHANISM:
            # Any text of a client can be here, so only the name of a mechanism is repeated.
            shown = mechanism if isinstance(mechanism, str) and len(mechanism) <= 30 else "given"
            raise Unauthenticated(
                f"the authentication mechanism {shown!r} is not supported; connect with authMechanism={MECHANISM}"
            )
        first = _text(payload)
        try:
            user = user_of(first)
        except Rejected as error:
            raise Unauthenticated(_REFUSED) from error
        if not user:
            raise Unauthenticated("no user name was given; use the one of your connection credential")
        skips = isinstance(options, Mapping) and options.get("skipEmptyExchange") is True
        return SaslAttempt(user, first, skips)

    async def _continue(self) -> str:
        """Return the client's next message of SCRAM."""
        request = (await self._read()).document
        if next(iter(request), "") != "saslContinue" or request.get("conversationId") != _CONVERSATION:
            raise ProtocolViolation("the client sent another command in the middle of its login")
        return _text(request.get("payload"))

    def _reply_sasl(self, payload: str, *, done: bool) -> None:
        document = _sasl_document(payload, done=done)
        hello, self._hello = self._hello, None
        if hello is None:
            self._reply(document)
        else:
            del document["ok"]
            self._reply({**hello, "speculativeAuthenticate": document})

    def _reply(self, document: Mapping[str, Any]) -> None:
        pending, self._pending = self._pending, None
        assert pending is not None
        self._requests += 1
        self._stream.write(m.reply(self._requests, pending, document))

    def _count_rejected(self) -> None:
        self._rejected += 1
        if self._rejected > MAX_REJECTED:
            raise Unauthenticated("the client sent too many commands before its login")


def _is_supported(speculative: object) -> TypeGuard[Mapping[str, Any]]:
    """Return True if a login begins with a hello. As a server does, ignore one that cannot succeed: the client then
    logs in by itself, and is told why not."""
    return isinstance(speculative, Mapping) and speculative.get("mechanism") == MECHANISM and "saslStart" in speculative


def _sasl_document(payload: str, *, done: bool) -> dict[str, Any]:
    return {"conversationId": _CONVERSATION, "done": done, "payload": payload.encode(), "ok": 1.0}


def _text(payload: object) -> str:
    """Return a client's message of SCRAM. Older drivers send it as text."""
    if isinstance(payload, str):
        return payload
    if not isinstance(payload, bytes):
        raise ProtocolViolation("the client's login has no payload")
    try:
        return payload.decode()
    except UnicodeDecodeError:
        raise Unauthenticated("the user name is not valid UTF-8; use the one of your connection credential") from None


def _read_metadata(hello: Mapping[str, Any], *, encrypted: bool) -> ClientMetadata:
    """Read what a client says about itself; anything in it can be missing, or be of another type."""
    client = hello.get("client")
    parts = (_name(client, "driver", name).rstrip("|") for name in ("name", "version"))  # PyMongo joins several by |
    driver = " ".join(filter(None, parts))
    return ClientMetadata(_name(client, "application", "name"), driver, hello.get("loadBalanced") is True, encrypted)


def _name(document: object, *path: str) -> str:
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    # Not every store accepts a NUL.
    return document[:_MAX_NAME].replace("\0", "\ufffd") if isinstance(document, str) else ""
