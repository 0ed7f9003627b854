"""PostgreSQL clients: startup, authentication and errors. `gateway/clients/session_setup.py` does the rest."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Mapping
from typing import Final

from postern.domain.rules.permit import Permit
from postern.errors import Denied, Invalid, PosternError, ProtocolViolation, TooMany, Unauthenticated, Unavailable
from postern.gateway.clients.database_client import DatabaseClient
from postern.gateway.clients.session_setup import SessionSetup, log_rejection
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.gateway.gateway_protocols import OpenWire, WireParts
from postern.gateway.session_opening import SessionAborted
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.postgres.login import postgres_login as login
from postern.protocols.postgres.wire.postgres_messages import PROTOCOL_3_2
from postern.protocols.postgres.wire.postgres_wire import PostgresWire
from postern.protocols.wire_base import Wire
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start, Target
from postern.store.ports.common_ports import Signals, Topic

SUBTYPE = "postgres"

# Bytes of the secret in a cancel key: four in protocol 3.0, more in 3.2.
SHORT_SECRET: Final = 4
LONG_SECRET: Final = 32


def wires(parts: WireParts) -> OpenWire:
    """Return the factory of wires, which takes the target's login parameters."""

    def open_wire(permit: Permit, start: Start, parameters: Mapping[str, str]) -> Wire:
        encoding = parameters.get("client_encoding", "UTF8")
        return PostgresWire(max_message=parts.settings.max_statement, client_encoding=encoding, parameters=parameters)

    return open_wire


class PostgresGate:
    """Serves PostgreSQL clients. `decoy_secret` makes unknown user names look like wrong passwords, also after a
    restart."""

    def __init__(self, fronts: SessionSetup, signals: Signals, *, decoy_secret: bytes) -> None:
        self._fronts = fronts
        self._signals = signals
        self._decoy_secret = decoy_secret

    async def native(self, stream: StreamHandshake, *, require_tls: bool) -> Awaitable[None] | None:
        """Serve a client on the PostgreSQL port, which logs in with a connection credential."""
        try:
            startup = await self._greet(stream, require_tls)
            if startup is None:
                return None
            since = self._fronts.engine.links.changes
            grant = await self._fronts.find_grant(startup.user)
            verifier = grant.verifier if grant else login.decoy(startup.user, self._decoy_secret)
            await login.authenticate(stream, verifier)
        except PosternError as error:
            self._turned_away(stream, error)
            return None
        return await self._fronts.by_credential(_Client(stream, startup, since), grant)

    async def reject(self, stream: StreamHandshake, error: PosternError) -> None:
        """Tell a client on the PostgreSQL port why it cannot log in.

        A client reads errors only after its startup message, and may start TLS first. A cancel request is served,
        because it needs nothing else. The listener has already logged the error.
        """
        if await self._greet(stream, False) is not None:
            self._fronts.engine.turned_away(error)
            _turn_away(stream, error, level=logging.DEBUG)

    async def serve_tunnel(self, stream: StreamHandshake, request: TunnelRequest) -> Awaitable[None] | None:
        """Serve a tunnel client. It has no deadline for its first message."""
        try:
            startup = await self._greet(stream, False)
        except PosternError as error:
            self._turned_away(stream, error)
            return None
        if startup is None:
            return None
        return await self._fronts.by_tunnel(_Client(stream, startup, request.since, request), request)

    async def _greet(self, stream: StreamHandshake, require_tls: bool) -> login.PostgresStartup | None:
        """Read the startup phase. Return None for a cancel request, which was handled."""
        opening = await login.greet(stream, require_tls=require_tls)
        if isinstance(opening, login.PostgresStartup):
            return opening
        key = opening.pid.to_bytes(4, "big") + opening.key
        if not self._fronts.engine.links.cancel(key, stream.peer):
            await self._signals.publish(Topic.CANCEL, key=key.hex(), address=stream.peer)
        return None

    def _turned_away(self, stream: StreamHandshake, error: PosternError) -> None:
        self._fronts.engine.turned_away(error)
        _turn_away(stream, error)


class _Client(DatabaseClient):
    subtype = SUBTYPE

    def __init__(
        self, stream: StreamHandshake, startup: login.PostgresStartup, since: int, request: TunnelRequest | None = None
    ) -> None:
        self._startup = startup
        # libpq sends the user name as the database when none was given.
        self._database = None if startup.database == startup.user else startup.database
        super().__init__(stream, since, _metadata(startup, stream.peer, self._database), request)
        self._was_told = False

    def send_notice(self, text: str, hint: str) -> None:
        login.keep_waiting(self.stream, text, hint, first=not self._was_told)
        self._was_told = True

    def check(self) -> None:
        if self.stream.unread()[:1] == b"X":
            raise ConnectionResetError("the client closed the connection")
        if self.stream.is_full:
            raise ProtocolViolation("the client sent requests before its login was complete")

    def start(self, permit: Permit) -> Start:
        """Return the start parameters. `application_name` is the client's: libpq sends no empty one, so a name of the
        gateway's would hide a missing one."""
        return Start(self._database, self._startup.parameters)

    def welcome(self, target: Target) -> bytes:
        """Finish the client's login. The process id is the target's, so that clients recognise their own backend. The
        secret is the gateway's."""
        pid = target.process if 0 < target.process < 1 << 32 else _made_up_pid()
        secret = secrets.token_bytes(LONG_SECRET if self._startup.protocol >= PROTOCOL_3_2 else SHORT_SECRET)
        login.welcome(self.stream, target.parameters, pid, secret, kept_waiting=self._was_told)
        return pid.to_bytes(4, "big") + secret

    def turn_away(self, error: PosternError) -> None:
        _turn_away(self.stream, error)


def _made_up_pid() -> int:
    """Return a random process id, for a target that sends none, such as some poolers. It is positive, because some
    drivers read it as a signed number."""
    return 1 + secrets.randbelow((1 << 31) - 1)


def _metadata(startup: login.PostgresStartup, peer: str, database: str | None) -> Mapping[str, str]:
    return {
        "client_address": peer,
        "client_tls": "yes" if startup.encrypted else "no",
        "application_name": startup.parameters.get("application_name", ""),
        "database": database or "",
    }


# SQLSTATE for errors of the gateway itself (PostgreSQL, appendix A).
_CODES: Final[Mapping[type[PosternError], str]] = {
    SessionAborted: "57P01",
    Unauthenticated: "28P01",
    Denied: "28000",
    Invalid: "22023",
    Unavailable: "08006",
    TooMany: "53300",
    ProtocolViolation: "08P01",
}


def _turn_away(stream: StreamHandshake, error: PosternError, *, level: int = logging.INFO) -> None:
    """Send the client an error in its own protocol, and log it in one line."""
    text, hint = log_rejection(stream, error, level=level)
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), "58000")
    if isinstance(error, TargetRefused) and not error.refuses_login:
        code = error.code
    login.turn_away(stream, code, text, hint)
