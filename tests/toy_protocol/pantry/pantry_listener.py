"""Clients of the protocol: login, authentication and errors; `gateway/clients/session_setup.py` does the rest."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping

from postern.domain.rules.permit import Permit
from postern.errors import PosternError
from postern.gateway.clients.database_client import DatabaseClient
from postern.gateway.clients.session_setup import SessionSetup, log_rejection
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.gateway.gateway_protocols import OpenWire, WireParts
from postern.protocols.pantry.pantry_lines import OK, error_line
from postern.protocols.pantry.pantry_login import PantryLogin, authenticate, greet
from postern.protocols.pantry.pantry_wire import PantryWire
from postern.protocols.verifiers import decoy
from postern.protocols.wire_base import Wire
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start, Target

SUBTYPE = "pantry"


def wires(parts: WireParts) -> OpenWire:
    """Return what makes the wire of each link."""

    def open_wire(permit: Permit, start: Start, parameters: Mapping[str, str]) -> Wire:
        return PantryWire(max_message=parts.settings.max_statement)

    return open_wire


class PantryGate:
    """`decoy_secret` makes unknown user names look like wrong passwords."""

    def __init__(self, fronts: SessionSetup, *, decoy_secret: bytes) -> None:
        self._fronts = fronts
        self._decoy_secret = decoy_secret

    async def native(self, stream: StreamHandshake, *, require_tls: bool) -> Awaitable[None] | None:
        """Log a client of the listener in, by a connection credential."""
        try:
            said = await greet(stream, require_tls=require_tls)
            since = self._fronts.engine.links.changes
            grant = await self._fronts.find_grant(said.user)
            verifier = grant.verifier if grant else decoy(said.user, self._decoy_secret)
            await authenticate(stream, said, verifier)
        except PosternError as error:
            self._turned_away(stream, error)
            return None
        return await self._fronts.by_credential(_Client(stream, said, since), grant)

    async def reject(self, stream: StreamHandshake, error: PosternError) -> None:
        """Tell a client why it cannot log in. The listener has told the log."""
        self._fronts.engine.turned_away(error)
        stream.write(error_line(*log_rejection(stream, error, level=logging.DEBUG)))

    async def serve_tunnel(self, stream: StreamHandshake, wanted: TunnelRequest) -> Awaitable[None] | None:
        """Log a client behind the tunnel in, of whom any password is good."""
        try:
            said = await greet(stream, require_tls=False)
        except PosternError as error:
            self._turned_away(stream, error)
            return None
        return await self._fronts.by_tunnel(_Client(stream, said, wanted.since, wanted), wanted)

    def _turned_away(self, stream: StreamHandshake, error: PosternError) -> None:
        self._fronts.engine.turned_away(error)
        stream.write(error_line(*log_rejection(stream, error)))


class _Client(DatabaseClient):
    subtype = SUBTYPE

    def __init__(
        self, stream: StreamHandshake, said: PantryLogin, since: int, wanted: TunnelRequest | None = None
    ) -> None:
        metadata = {"client_address": stream.peer, "client_tls": "yes" if said.is_encrypted else "no"}
        super().__init__(stream, since, metadata, wanted)

    def start(self, permit: Permit) -> Start:
        return Start()

    def welcome(self, target: Target) -> bytes:
        self.stream.write(OK)
        return b""  # no key cancels anything

    def turn_away(self, error: PosternError) -> None:
        self.stream.write(error_line(*log_rejection(self.stream, error)))
