"""The byte stream below an SSH client's connection: TCP, or a channel of another SSH connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from postern.protocols.ssh.listener.ssh_limits import LimitedSshConnection
from postern.protocols.ssh.ssh_transport import SshStream


class ClientStream(SshStream):
    """The stream, which also is a channel's asyncssh session. `lost` is set when the connection has ended."""

    def __init__(self, inner: LimitedSshConnection, on_full: Callable[[bool], None]) -> None:
        super().__init__(inner, on_full, "an SSH client", logging.INFO)
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def session_started(self) -> None:
        """Do nothing when the channel is open: the client speaks first."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self.lost.done():
            self.lost.set_result(None)
