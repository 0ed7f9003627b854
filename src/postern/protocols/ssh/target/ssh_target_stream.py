"""The TCP connection below a target's SSH, with a bounded key exchange.

While keys are exchanged asyncssh buffers all that is written. So channels are told to stop for that long, and the
target has EXCHANGE seconds. asyncssh makes the connection itself, so this module wraps two methods that are private to
it. A test fails when they move.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from asyncssh.constants import MSG_IGNORE

from postern.agent.dialling import notice_death
from postern.protocols.ssh import ssh_transport
from postern.protocols.ssh.ssh_transport import ExchangeTimer, SshStream, check_packet_size


class TargetStream(SshStream):
    """`on_full` is also called when a key exchange begins and ends."""

    def __init__(self, inner: Any, on_full: Callable[[bool], None]) -> None:
        super().__init__(inner, on_full, "an SSH server", logging.WARNING)
        self._exchange = ExchangeTimer(self._expire)
        self._send_kexinit, inner._send_kexinit = inner._send_kexinit, self._begin_exchange
        self._send_newkeys, inner.send_newkeys = inner.send_newkeys, self._end_exchange

    def _begin_exchange(self) -> None:
        self._exchange.start()
        self._send_kexinit()
        self._report_full()

    def _end_exchange(self, k: bytes, h: bytes) -> None:
        self._send_newkeys(k, h)
        if self._inner._kex_complete:  # what had waited may have begun the next one
            self._exchange.stop()
            self._report_full()

    def _expire(self) -> None:
        self.give_up(f"its key exchange took over {ssh_transport.EXCHANGE:g} seconds")

    def _report_full(self) -> None:
        self._on_full(self._full or self._exchange.is_running)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            notice_death(connected)

    def connection_lost(self, exc: Exception | None) -> None:
        self._exchange.stop()
        super().connection_lost(exc)


class SshDialling:
    """What asyncssh takes for a tunnel: it makes the connection that SSH is spoken on."""

    def __init__(self, on_full: Callable[[bool], None]) -> None:
        self._on_full = on_full

    async def create_connection(self, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        """Raises OSError."""
        inner = factory()
        inner.send_packet = partial(_send_packet, inner.send_packet)
        inner.process_packet = partial(_process_packet, inner.process_packet)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: TargetStream(inner, self._on_full), host, port)
        return transport, inner

    def close(self) -> None:
        """The connection closes itself."""


def _send_packet(send: Callable[..., None], kind: int, *parts: bytes, handler: Any = None) -> None:
    """asyncssh sends an empty packet before each one, which is for CBC: nobody speaks that here."""
    if kind != MSG_IGNORE:
        send(kind, *parts, handler=handler)


def _process_packet(process: Callable[..., Any], kind: int, number: int, packet: Any) -> Any:
    check_packet_size(kind, packet)
    return process(kind, number, packet)
