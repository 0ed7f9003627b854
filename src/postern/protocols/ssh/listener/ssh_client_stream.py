"""What is below an SSH connection: TCP, or a channel of another SSH connection. asyncssh writes to it without asking
whether it is full, so that is asked here.

A client that grants large windows and reads nothing fills what waits to be sent: its channels are told to stop at the
transport's own mark. What is still written, such as answers to its requests, ends the connection at MOST_UNSENT; what
it makes wait in another place, at the bounds of `bounds`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from postern.protocols.ssh.listener.ssh_limits import Bounded
from postern.transport.ssh_bounds import MOST_UNSENT, is_flooded

log = logging.getLogger(__name__)


class Wire(asyncio.Protocol):
    """Between a transport and asyncssh; for a channel of another connection, what asyncssh takes for its session.
    `on_full` is called when the transport has enough to send, and when it has room again; `lost` is set when it is
    gone."""

    def __init__(self, inner: Bounded, on_full: Callable[[bool], None]) -> None:
        self._inner = inner
        self._on_full = on_full
        self._below: asyncio.Transport | None = None
        self._full = False
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = cast("asyncio.Transport", transport)
        self._inner.connection_made(transport)

    def session_started(self) -> None:
        """Of a channel: nothing else begins."""

    def data_received(self, data: bytes, datatype: int | None = None) -> None:
        self._inner.data_received(data)
        if self._below is None:
            return
        if is_flooded(self._inner) or (self._full and self._below.get_write_buffer_size() > MOST_UNSENT):
            log.info("an SSH client is given up: it sends more than is kept for it, or reads no answers")
            self._below.abort()

    def eof_received(self) -> bool:
        self._inner.eof_received()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)
        if not self.lost.done():
            self.lost.set_result(None)

    def pause_writing(self) -> None:
        self._full = True
        self._on_full(True)

    def resume_writing(self) -> None:
        self._full = False
        self._on_full(False)
