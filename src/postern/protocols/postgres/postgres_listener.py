"""PostgreSQL clients: first bytes, authentication and errors; `gateway/clients/session_setup.py` does the rest."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Mapping
from typing import Final

from postern.domain.rules.permit import Permit
from postern.domain.targets.connection import Connection
from postern.errors import Denied, Invalid, PosternError, ProtocolViolation, TooMany, Unauthenticated, Unavailable
from postern.gateway.clients.session_setup import ClientSession, SessionSetup, told
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

# Bytes of the secret in a cancel key: protocol 3.0 leaves room for four, 3.2 for more.
SHORT_SECRET: Final = 4
LONG_SECRET: Final = 32


def wires(parts: WireParts) -> OpenWire:
    """Return what makes a wire by what the target said at login."""

    def open_wire(permit: Permit, start: Start, parameters: Mapping[str, str]) -> Wire:
        encoding = parameters.get("client_encoding", "UTF8")
        return PostgresWire(max_message=parts.settings.max_statement, client_encoding=encoding, parameters=parameters)

    return open_wire


class PostgresGate:
    """`decoy_secret` makes unknown user names look like wrong passwords, the same after a restart."""

    def __init__(self, fronts: SessionSetup, signals: Signals, *, decoy_secret: bytes) -> None:
        self._fronts = fronts
        self._signals = signals
        self._decoy_secret = decoy_secret

    async def native(self, stream: StreamHandshake, *, require_tls: bool) -> Awaitable[None] | None:
        """A client on the PostgreSQL port: it logs in with a connection credential."""
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
        """Tell a client on the PostgreSQL port why it cannot log in. It listens only once it has said what it wants,
        and may want TLS first. A cancel request is served: it needs nothing more. The listener has told the log."""
        if await self._greet(stream, False) is not None:
            self._fronts.engine.turned_away(error)
            _turn_away(stream, error, level=logging.DEBUG)

    async def carried(self, stream: StreamHandshake, wanted: TunnelRequest) -> Awaitable[None] | None:
        """A client behind the tunnel. It may take its time with its first message."""
        try:
            startup = await self._greet(stream, False)
        except PosternError as error:
            self._turned_away(stream, error)
            return None
        if startup is None:
            return None
        return await self._fronts.by_tunnel(_Client(stream, startup, wanted.since, wanted), wanted)

    async def _greet(self, stream: StreamHandshake, require_tls: bool) -> login.PostgresStartup | None:
        """None: it was a cancel request, and it is dealt with."""
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


class _Client(ClientSession):
    def __init__(
        self, stream: StreamHandshake, startup: login.PostgresStartup, since: int, wanted: TunnelRequest | None = None
    ) -> None:
        self._startup = startup
        # libpq sends the user name as the database when none was given.
        self._database = None if startup.database == startup.user else startup.database
        super().__init__(stream, since, _metadata(startup, stream.peer, self._database), wanted)
        self._was_told = False

    def tell(self, text: str, hint: str) -> None:
        login.keep_waiting(self.stream, text, hint, first=not self._was_told)
        self._was_told = True

    def check(self) -> None:
        if self.stream.unread()[:1] == b"X":
            raise ConnectionResetError("the client gave it up")
        if self.stream.is_full:
            raise ProtocolViolation("the client sends requests before it was let in")

    def fits(self, connection: Connection) -> None:
        if connection.subtype != SUBTYPE:
            raise Denied(f"connection {connection.name!r} is of subtype {connection.subtype!r}, not {SUBTYPE!r}")

    def start(self, permit: Permit) -> Start:
        """`application_name` stays as the client has it: libpq sends no empty one, so a name of the gateway's in place
        of a missing one would show where a client asked for none."""
        return Start(self._database, self._startup.parameters)

    def welcome(self, target: Target) -> bytes:
        """The process id is the target's, so that clients recognise their own backend. The secret is the gateway's."""
        pid = target.process if 0 < target.process < 1 << 32 else _made_up_pid()
        secret = secrets.token_bytes(LONG_SECRET if self._startup.protocol >= PROTOCOL_3_2 else SHORT_SECRET)
        login.welcome(self.stream, target.parameters, pid, secret, kept_waiting=self._was_told)
        return pid.to_bytes(4, "big") + secret

    def turn_away(self, error: PosternError) -> None:
        _turn_away(self.stream, error)


def _made_up_pid() -> int:
    """For a target that tells none, such as some poolers. Some drivers read it as a signed number: keep it positive."""
    return 1 + secrets.randbelow((1 << 31) - 1)


def _metadata(startup: login.PostgresStartup, peer: str, database: str | None) -> Mapping[str, str]:
    found = {
        "client_address": peer,
        "client_tls": "yes" if startup.encrypted else "no",
        "application_name": startup.parameters.get("application_name", ""),
        "database": database or "",
    }
    return {name: value for name, value in found.items() if value}


# SQLSTATE of what is no target's own (PostgreSQL, appendix A).
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
    """Tells the client why, in its own protocol, and the log in one line."""
    text, hint = told(stream, error, level=level)
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), "58000")
    if isinstance(error, TargetRefused) and not error.refuses_login:
        code = error.code
    login.turn_away(stream, code, text, hint)
