"""One SSH connection of a client: who it is of, and what it has open."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from uuid import uuid4

import asyncssh

from postern.protocols.ssh.listener.ssh_client_channel import ClientChannel
from postern.protocols.ssh.listener.ssh_client_stream import ClientStream
from postern.protocols.ssh.listener.ssh_permit_cache import Right
from postern.protocols.ssh.listener.ssh_users import Proved, SshUser
from postern.relay.relay_handshake import StreamHandshake

MOST_CHANNELS = 100  # of one connection, at a time


@dataclass(eq=False)
class Visit:
    """One connection, outer or inner. `since` is `LiveLinks.changes` from before it is known who it is. `known` is who
    a connection inside another one is of; then `target` is what that was opened to. `stream` is its login, which one
    inside has none of."""

    peer: str
    since: int
    stream: StreamHandshake | None = None
    known: Proved | None = None
    target: str = ""
    authenticated: asyncio.Future[Proved] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    channels: set[ClientChannel] = field(default_factory=set)
    login: str = field(default_factory=lambda: str(uuid4()))  # which channels share one login at the target
    right: Right | None = None  # once it is known who it is
    over: asyncio.TimerHandle | None = None  # while it waits for a browser, or has done
    listeners: set[asyncssh.SSHListener] = field(default_factory=set)
    lending: str = field(default_factory=lambda: str(uuid4()))  # the login of those who asked for the client's agent
    inside: set[ClientStream] = field(default_factory=set)  # connections in channels of this one
    _full: bool = False
    _exchanging: bool = False

    @property
    def person(self) -> SshUser | None:
        """Who it is of, where that is nobody by a credential."""
        proved = self.authenticated.result()
        return proved if isinstance(proved, SshUser) else None

    def opens(self, channel: ClientChannel) -> None:
        self.channels.add(channel)
        channel.below_filled(self.is_full)

    def below_filled(self, full: bool) -> None:
        self._full = full
        self._tell()

    def exchanging(self, begins: bool) -> None:
        """Nothing is sent while keys are exchanged: what is written waits in memory."""
        self._exchanging = begins
        self._tell()

    @property
    def is_full(self) -> bool:
        return self._full or self._exchanging

    @property
    def has_room(self) -> bool:
        """For one more channel. Those count too that are being opened, which may wait for people."""
        return len(self.channels) + len(self.inside) < MOST_CHANNELS

    def _tell(self) -> None:
        for channel in list(self.channels):
            channel.below_filled(self.is_full)
