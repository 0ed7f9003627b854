"""Shells of SSH servers for terminals in browsers.

The browser's stream has the frames that a channel of a native client is turned into (ssh_client_channel.py), so a link
needs no SSH connection at the client's side: the same wire judges and records it, and the agent logs in to the target
as for a shell of `ssh`, on a connection of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from uuid import uuid4

from postern.domain.rules.permit import Permit
from postern.domain.targets.connection import SSH, Connection
from postern.errors import Denied, Invalid, PosternError
from postern.gateway.clients.session_setup import SessionSetup
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.protocols.ssh.listener.ssh_rule_text import modes_of
from postern.protocols.terminal.terminal_listener import ProgramClient
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import ChannelKind, ChannelRequest, Start


class WebTerminalGate:
    """Admits terminals in browsers to the shell of a connection's server."""

    def __init__(self, fronts: SessionSetup) -> None:
        self._fronts = fronts

    async def serve_tunnel(
        self, stream: StreamHandshake, request: TunnelRequest, start: Start
    ) -> Awaitable[None] | None:
        """Admit a client whose principal is known, and start its shell."""
        client = ShellClient(stream, request.since, start, request)
        if start.terminal is None or start.arguments or start.environment:
            self._fronts.turned_away(
                client, Invalid("a terminal of an SSH server is its shell; it takes no arguments and no variables")
            )
            return None
        return await self._fronts.by_tunnel(client, request)

    async def reject(self, stream: StreamHandshake, error: PosternError, *, start: Start) -> None:
        """Tell a client why its shell cannot be started."""
        self._fronts.turned_away(ShellClient(stream, 0, start), error)


class ShellClient(ProgramClient):
    """A browser's terminal as one channel of SSH: a shell."""

    def __init__(self, stream: StreamHandshake, since: int, start: Start, request: TunnelRequest | None = None) -> None:
        super().__init__(stream, since, start, request, channel=ChannelKind.SHELL)
        self._channel = ChannelRequest(ChannelKind.SHELL, "", str(uuid4()))
        self.modes = modes_of(self._channel, terminal=True)

    def fits(self, connection: Connection) -> None:
        if connection.protocol != SSH:
            raise Denied(f"connection {connection.name!r} is of subtype {connection.subtype!r}, not 'ssh'")

    def start(self, permit: Permit) -> Start:
        return replace(super().start(permit), channel=self._channel)
