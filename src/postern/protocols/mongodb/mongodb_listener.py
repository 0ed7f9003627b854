"""MongoDB clients: hello, monitors, authentication and errors. `gateway/clients/session_setup.py` does the rest.

One program opens connections of two kinds. Those of its pool log in, run commands and are sessions here. Its monitors
ask `hello` every ten seconds, and never log in: the gateway answers them itself, bounded in number, silence and age,
and outside of the limits of logins. With `loadBalanced=true` a program has no monitors.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

from postern.domain.rules.permit import Permit
from postern.errors import Denied, Invalid, PosternError, ProtocolViolation, TooMany, Unauthenticated, Unavailable
from postern.gateway.clients.database_client import DatabaseClient
from postern.gateway.clients.listener import ConnectionLimiter
from postern.gateway.clients.session_setup import SessionSetup, log_rejection
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.gateway.session_opening import SessionAborted
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.mongodb.login import mongodb_client_login as login
from postern.protocols.mongodb.login.mongodb_hello import HELLO, MAX_MESSAGE, HelloFacts
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start, Target

log = logging.getLogger(__name__)

SUBTYPE = "mongodb"

# Connections of one worker that have not logged in and may never do so, in total and for each address. Tunnels have
# limits of their own, as their users are known.
MOST_MONITORS: Final = 2_000
MOST_MONITORS_PER_ADDRESS: Final = 500
LOGIN_GRACE: Final = 30.0  # seconds after its first hello in which a client can log in
LONGEST_SILENCE: Final = 60.0  # seconds; drivers ask every ten, unless `heartbeatFrequencyMS` says otherwise
LONGEST_MONITOR: Final = 12 * 3600.0  # seconds; then the driver connects again
# Commands at once, and then for each second. Drivers ask twice a second at most.
_BURST: Final = 50
_RATE: Final = 4.0
_MAX_UNREAD: Final = 64 * 1024  # bytes of replies that a client has not read


class MongodbGate:
    """Serves MongoDB clients. `version` is the server's version that they are told, because the connection is not known
    yet. `decoy_secret` makes unknown user names look like wrong passwords. Messages of more than `max_message` bytes
    are not evaluated, so clients are asked to send smaller ones."""

    def __init__(
        self,
        fronts: SessionSetup,
        *,
        version: str,
        decoy_secret: bytes,
        max_message: int = MAX_MESSAGE,
        monitors: ConnectionLimiter | None = None,
    ) -> None:
        self._fronts = fronts
        self._facts = HelloFacts.of_version(version).limit_messages(max_message)
        self._decoy_secret = decoy_secret
        self._monitors = monitors or _limiter()
        self._tunnels = _limiter()

    async def native(self, stream: StreamHandshake, *, require_tls: bool) -> Awaitable[None] | None:
        """Serve a client on the MongoDB port, which logs in with a connection credential."""
        client = self._login(stream)
        try:
            await client.encrypt(require_tls=require_tls)
            if not await client.peek_login():
                return await self._serve_waiting(stream, client)
            attempt = await client.answer_next()
            assert attempt is not None
            return await self._authenticate(stream, client, attempt)
        except PosternError as error:
            self._turned_away(stream, client, error)
            return None

    async def reject(self, stream: StreamHandshake, error: PosternError) -> None:
        """Tell a client on the MongoDB port why it cannot log in, in place of the reply to its first command. The
        listener has already logged the error."""
        client = self._login(stream)
        await client.encrypt(require_tls=False)
        await client.peek_command()
        self._fronts.engine.turned_away(error)
        _turn_away(stream, client, error, level=logging.DEBUG)

    async def serve_tunnel(self, stream: StreamHandshake, request: TunnelRequest) -> Awaitable[None] | None:
        """Serve a tunnel client, which needs no password. Its session begins with its first command but hello, which
        stays unread: a monitor never has one."""
        client = self._login(stream, offers_login=False)
        try:
            await client.encrypt(require_tls=False)
            if await client.peek_command() in HELLO:
                with self._waiting(self._tunnels, stream):
                    await self._answer_hellos(stream, client)
                # Its login may have ended in the meantime.
                since = self._fronts.engine.links.changes
                request = replace(request, since=since, principal=await request.standing())
            if await client.peek_command() in login.SASL:
                raise Unauthenticated(
                    "this connection is logged in already, by its tunnel; leave the user name, the password and "
                    "authMechanism out of the connection string"
                )
        except PosternError as error:
            self._turned_away(stream, client, error)
            return None
        return await self._fronts.by_tunnel(_Client(stream, client, request.since, request), request)

    async def _authenticate(
        self, stream: StreamHandshake, client: login.MongodbClientLogin, attempt: login.SaslAttempt
    ) -> Awaitable[None] | None:
        since = self._fronts.engine.links.changes
        grant = await self._fronts.find_grant(attempt.user)
        verifier = grant.verifier if grant else login.decoy(attempt.user, self._decoy_secret)
        await client.authenticate(attempt, verifier)
        return await self._fronts.by_credential(_Client(stream, client, since), grant)

    async def _serve_waiting(self, stream: StreamHandshake, client: login.MongodbClientLogin) -> Awaitable[None] | None:
        """Serve a client whose hello has no credentials: it logs in soon, or is a monitor. It no longer counts as a
        login, so that no flood of monitors keeps others from logging in."""
        with self._waiting(self._monitors, stream):
            loop = asyncio.get_running_loop()
            began = loop.time()
            pace = _Pace(stream, began)
            while True:
                try:
                    async with asyncio.timeout(LONGEST_SILENCE):
                        attempt = await client.answer_next()
                except TimeoutError:
                    log.debug("client %s did not log in, and was silent for %g seconds", stream.peer, LONGEST_SILENCE)
                    return None
                now = loop.time()
                if attempt is not None:
                    return await self._authenticate_late(stream, client, attempt, now - began)
                pace.check(now)
                if now - began > LONGEST_MONITOR:
                    return None

    async def _authenticate_late(
        self, stream: StreamHandshake, client: login.MongodbClientLogin, attempt: login.SaslAttempt, waited: float
    ) -> Awaitable[None] | None:
        if waited > LOGIN_GRACE:
            raise Denied(f"the client did not log in within {LOGIN_GRACE:g} seconds; connect again")
        # The deadline of logins was lifted, as its first hello could have been a monitor's.
        deadline = asyncio.timeout(LOGIN_GRACE)
        stream.on_known = lambda: deadline.reschedule(None)
        try:
            async with deadline:
                return await self._authenticate(stream, client, attempt)
        except TimeoutError:
            log.info("client %s did not finish its login within %g seconds", stream.peer, LOGIN_GRACE)
            return None

    async def _answer_hellos(self, stream: StreamHandshake, client: login.MongodbClientLogin) -> None:
        """Answer a tunnel client until its next command is not a hello."""
        loop = asyncio.get_running_loop()
        pace = _Pace(stream, loop.time())
        while await client.peek_command() in HELLO:
            await client.answer_next()
            pace.check(loop.time())

    @contextmanager
    def _waiting(self, limiter: ConnectionLimiter, stream: StreamHandshake) -> Iterator[None]:
        """Count a client that is not logged in as one that waits, and no longer as a login. Raises TooMany."""
        address = stream.peer
        if not limiter.take(address):
            raise TooMany(
                "the gateway accepts no more connections of monitors now; add loadBalanced=true to connection strings, "
                "which then need none"
            )
        try:
            stream.on_known()
            stream.on_held()
            yield
        finally:
            limiter.leave(address)

    def _login(self, stream: StreamHandshake, *, offers_login: bool = True) -> login.MongodbClientLogin:
        facts = self._facts.with_connection(1 + secrets.randbelow((1 << 31) - 1))
        return login.MongodbClientLogin(stream, facts, offers_login=offers_login)

    def _turned_away(self, stream: StreamHandshake, client: login.MongodbClientLogin, error: PosternError) -> None:
        self._fronts.engine.turned_away(error)
        _turn_away(stream, client, error)


def _limiter() -> ConnectionLimiter:
    return ConnectionLimiter(most=MOST_MONITORS, most_per_address=MOST_MONITORS_PER_ADDRESS)


class _Pace:
    """How often a client asks that is not logged in, and whether it reads the replies."""

    def __init__(self, stream: StreamHandshake, now: float) -> None:
        self._stream = stream
        self._began = now
        self._commands = 0

    def check(self, now: float) -> None:
        """Count one command. Raises ProtocolViolation if there were too many."""
        self._commands += 1
        if self._commands > _BURST + _RATE * (now - self._began):
            raise ProtocolViolation("the client sent too many commands without a login")
        transport = self._stream.transport
        if transport is not None and transport.get_write_buffer_size() > _MAX_UNREAD:
            raise ProtocolViolation("the client does not read the replies to its commands")


class _Client(DatabaseClient):
    subtype = SUBTYPE

    def __init__(
        self,
        stream: StreamHandshake,
        client: login.MongodbClientLogin,
        since: int,
        request: TunnelRequest | None = None,
    ) -> None:
        super().__init__(stream, since, _metadata(client.metadata, stream.peer), request)
        self._client = client
        self._is_tunnel = request is not None

    def check(self) -> None:
        """A tunnel client has sent its first command, which waits with it."""
        if self.stream.unread() and not self._is_tunnel:
            raise ProtocolViolation("the client sent requests before its login was complete")

    def start(self, permit: Permit) -> Start:
        metadata = self._client.metadata
        parameters = {
            "application": metadata.application or f"postern {permit.principal.email}",
            "load_balanced": "yes" if metadata.load_balanced else "",
        }
        return Start(parameters=parameters)

    def welcome(self, target: Target) -> bytes:
        """End the client's login; one in a tunnel waits for the reply to its first command."""
        if not self._is_tunnel:
            self._client.welcome()
        return b""

    def turn_away(self, error: PosternError) -> None:
        _turn_away(self.stream, self._client, error)


def _metadata(client: login.ClientMetadata, peer: str) -> Mapping[str, str]:
    return {
        "client_address": peer,
        "client_tls": "yes" if client.encrypted else "no",
        "application_name": client.application or client.driver,
    }


# Codes and names of MongoDB's server for such errors (src/mongo/base/error_codes.yml). None of them makes a driver try
# the same again.
_CODES: Final[Mapping[type[PosternError], tuple[int, str]]] = {
    SessionAborted: (11601, "Interrupted"),
    Unauthenticated: login.AUTHENTICATION_FAILED,
    Denied: login.UNAUTHORIZED,
    Invalid: (2, "BadValue"),
    TooMany: (96, "OperationFailed"),
    ProtocolViolation: (17, "ProtocolError"),
    Unavailable: (96, "OperationFailed"),
}


def _turn_away(
    stream: StreamHandshake, client: login.MongodbClientLogin, error: PosternError, *, level: int = logging.INFO
) -> None:
    """Send the client an error in its own protocol, and log it in one line."""
    text, hint = log_rejection(stream, error, level=level)
    code, name = next((codes for kind, codes in _CODES.items() if isinstance(error, kind)), (1, "InternalError"))
    if isinstance(error, TargetRefused) and not error.refuses_login:
        named, _, number = error.code.partition("/")
        code, name = (int(number), named) if number.isdecimal() else (code, name)
    with suppress(ConnectionError):
        client.turn_away(code, name, f"{text}. {hint}" if hint else text)
