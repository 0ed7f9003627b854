"""The TCP connection below SSH. asyncssh writes to it without asking whether it is full, so that is asked here.

A target that grants large windows and reads nothing fills what waits to be sent: its channels are told to stop at the
transport's own mark. What is still written, such as answers to its requests, ends the connection at MOST_UNSENT.

While keys are exchanged asyncssh keeps all that is written. So channels are told to stop for that long, the target has
EXCHANGE seconds, and answers to its requests end the connection at MOST_DEFERRED. asyncssh makes the connection
itself, so two methods that are private to it are put around here; a test fails when they move. Requests that wait for
an earlier one's answer end the connection at MOST_REQUESTS.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from asyncssh.constants import MSG_IGNORE

from postern.agent.dialling import notice_death
from postern.transport.ssh_bounds import EXCHANGE, MOST_UNSENT, is_flooded
from postern.transport.ssh_windows import check_opened

log = logging.getLogger(__name__)


class Wire(asyncio.Protocol):
    """Between the transport and asyncssh's connection. `on_full` is called when nothing more should be written, and
    when it may be again."""

    def __init__(self, inner: Any, on_full: Callable[[bool], None]) -> None:
        self._inner = inner
        self._on_full = on_full
        self._transport: asyncio.Transport | None = None
        self._full = False
        self._exchange: asyncio.TimerHandle | None = None
        self._send_kexinit, inner._send_kexinit = inner._send_kexinit, self._exchange_begins
        self._send_newkeys, inner.send_newkeys = inner.send_newkeys, self._exchange_ends

    def _exchange_begins(self) -> None:
        self._stop_exchange()
        self._exchange = asyncio.get_running_loop().call_later(EXCHANGE, self._give_up)
        self._send_kexinit()
        self._tell()

    def _exchange_ends(self, k: bytes, h: bytes) -> None:
        self._send_newkeys(k, h)
        if self._inner._kex_complete:  # what had waited may have begun the next one
            self._stop_exchange()
            self._tell()

    def _stop_exchange(self) -> None:
        if self._exchange is not None:
            self._exchange.cancel()
            self._exchange = None

    def _give_up(self) -> None:
        log.warning("a server of SSH is given up: it did not end a key exchange within %g seconds", EXCHANGE)
        if self._transport is not None:
            self._transport.abort()

    def _tell(self) -> None:
        self._on_full(self._full or self._exchange is not None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._inner.connection_made(transport)
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            notice_death(connected)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)
        if self._transport is None:
            return
        if is_flooded(self._inner) or (self._full and self._transport.get_write_buffer_size() > MOST_UNSENT):
            log.warning("a server of SSH is given up: it sends more than is kept for it, or reads no answers")
            self._transport.abort()

    def eof_received(self) -> bool | None:
        self._inner.eof_received()
        return None

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_exchange()
        self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        self._full = True
        self._tell()

    def resume_writing(self) -> None:
        self._full = False
        self._tell()


class Dialling:
    """What asyncssh takes for a tunnel: it makes the connection that SSH is spoken on."""

    def __init__(self, on_full: Callable[[bool], None]) -> None:
        self._on_full = on_full

    async def create_connection(self, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        """Raises OSError."""
        inner = factory()
        inner.send_packet = partial(_send_packet, inner.send_packet)
        inner.process_packet = partial(_process_packet, inner.process_packet)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: Wire(inner, self._on_full), host, port)
        return transport, inner

    def close(self) -> None:
        """The connection closes itself."""


def _send_packet(send: Callable[..., None], kind: int, *parts: bytes, handler: Any = None) -> None:
    """asyncssh sends an empty packet before each one, which is for CBC: nobody speaks that here."""
    if kind != MSG_IGNORE:
        send(kind, *parts, handler=handler)


def _process_packet(process: Callable[..., Any], kind: int, number: int, packet: Any) -> Any:
    check_opened(kind, packet)
    return process(kind, number, packet)
