"""The state of one SSH connection of a client: its user, and its open channels."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from uuid import uuid4

import asyncssh

from postern.protocols.ssh.listener.ssh_client_channel import ClientChannel
from postern.protocols.ssh.listener.ssh_client_stream import ClientStream
from postern.protocols.ssh.listener.ssh_permit_cache import CachedPermit
from postern.protocols.ssh.listener.ssh_users import Proved, SshUser
from postern.relay.relay_handshake import StreamHandshake

MOST_CHANNELS = 100  # per connection at a time


@dataclass(eq=False)
class SshClientState:
    """One connection, outer or nested. `since` is `LinkRegistry.changes` from before authentication. For a nested
    connection, `outer_user` is the user and `target` its connection name; only an outer one has a `stream`."""

    peer: str
    since: int
    stream: StreamHandshake | None = None
    outer_user: Proved | None = None
    target: str = ""
    authenticated: asyncio.Future[Proved] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    channels: set[ClientChannel] = field(default_factory=set)
    # channels with the same value share one login at the target
    login: str = field(default_factory=lambda: str(uuid4()))
    right: CachedPermit | None = None  # set after authentication
    over: asyncio.TimerHandle | None = None  # timer during and after a browser login
    listeners: set[asyncssh.SSHListener] = field(default_factory=set)
    # the target login of programs that requested agent forwarding
    lending: str = field(default_factory=lambda: str(uuid4()))
    inside: set[ClientStream] = field(default_factory=set)  # connections in channels of this one
    _full: bool = False
    _exchanging: bool = False

    @property
    def person(self) -> SshUser | None:
        """Return the authenticated user, unless the login is by a connection credential."""
        proved = self.authenticated.result()
        return proved if isinstance(proved, SshUser) else None

    def opens(self, channel: ClientChannel) -> None:
        self.channels.add(channel)
        channel.below_filled(self.is_full)

    def below_filled(self, full: bool) -> None:
        self._full = full
        self._update_channels()

    def exchanging(self, begins: bool) -> None:
        """Pause all channels during a key exchange, when writes are buffered in memory."""
        self._exchanging = begins
        self._update_channels()

    @property
    def is_full(self) -> bool:
        return self._full or self._exchanging

    @property
    def has_room(self) -> bool:
        """Return True if there is room for one more channel. Channels that are being opened count too; they may wait
        for an approval."""
        return len(self.channels) + len(self.inside) < MOST_CHANNELS

    def _update_channels(self) -> None:
        for channel in list(self.channels):
            channel.below_filled(self.is_full)
