"""Clients of commands: from the stream that a command line opened to a running link.

    OPEN {"connect": name, "terminal": {"columns", "rows", "name"} or null, "arguments": […], "environment": {…}}
          ─▶ authenticate: the tunnel's token ─▶ authorise: services.access → Permit, at once or after approval
          ─▶ session row, recording ─▶ link

From there on the stream has frames of protocols.terminal. A rejected client gets its error in frames as well.
"""

from __future__ import annotations

from collections.abc import Awaitable

from postern.domain.targets.connection import TERMINAL, Connection
from postern.errors import Denied, PosternError
from postern.gateway.clients.session_setup import SessionSetup
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.protocols.terminal.terminal_listener import ProgramClient
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start


class CommandGate:
    """Admits tunnel clients to a connection's command."""

    def __init__(self, fronts: SessionSetup) -> None:
        self._fronts = fronts

    async def serve_tunnel(
        self, stream: StreamHandshake, request: TunnelRequest, start: Start
    ) -> Awaitable[None] | None:
        """Admit a client whose principal is known, and start its command."""
        return await self._fronts.by_tunnel(CommandClient(stream, request.since, start, request), request)

    async def reject(self, stream: StreamHandshake, error: PosternError, *, start: Start) -> None:
        """Tell a client why its command cannot be started."""
        self._fronts.turned_away(CommandClient(stream, 0, start), error)


class CommandClient(ProgramClient):
    def fits(self, connection: Connection) -> None:
        if connection.protocol != TERMINAL:
            raise Denied(f"connection {connection.name!r} has no command; connect to it with its own client")
