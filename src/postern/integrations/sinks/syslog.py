"""Syslog: RFC 5424, over TLS (RFC 5425), over TCP with octet counting (RFC 6587), or over UDP (RFC 5426)."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from urllib.parse import urlsplit

from postern.domain.event import EventKind
from postern.domain.sink import Delivery, Sink
from postern.errors import Denied, Unavailable
from postern.integrations.sinks.receivers import DEADLINE, Receivers, trust

MAX_DATAGRAM = 65_507
_FACILITY = 13  # log audit
_NOTICE, _WARNING, _INFORMATIONAL = 5, 4, 6
_SEVERITY = {
    EventKind.SESSION_KILL: _WARNING,
    EventKind.GUARDRAIL_VIOLATION: _WARNING,
    EventKind.SCHEDULE_FAILED: _WARNING,
    EventKind.AUDIT_ENTRY: _NOTICE,
}
_UNPRINTABLE = re.compile(r"[^\x21-\x7e]")
_FAREWELL = 2.0  # seconds for the receiver to confirm that it has read everything


class SyslogSender:
    """The sender. `host` is this machine's name in messages."""

    def __init__(self, receivers: Receivers, host: str) -> None:
        self._receivers = receivers
        self._host = _UNPRINTABLE.sub("-", host)[:255] or "-"

    async def send(self, sink: Sink, deliveries: Sequence[Delivery], now: datetime) -> None:
        """Send over a new connection. Syslog has no answer: a stream that was read to its end counts as delivered."""
        parts = urlsplit(sink.address)
        host, port = parts.hostname or "", parts.port or 0
        messages = [message(delivery, self._host) for delivery in deliveries]
        address = await self._receivers.address_of(host, port, private=parts.scheme != "syslog+tls")
        try:
            async with asyncio.timeout(DEADLINE):
                if parts.scheme == "syslog+udp":
                    await _datagrams(address, port, messages)
                else:
                    context = trust(sink.authority) if parts.scheme == "syslog+tls" else None
                    await _stream(address, port, host, context, messages)
        except TimeoutError:
            raise Unavailable(f"{host} did not accept the events within {DEADLINE:g} seconds") from None
        except (OSError, ssl.SSLError) as error:
            raise Unavailable(f"{host} cannot be reached: {error}") from None


def message(delivery: Delivery, host: str) -> bytes:
    """Return a message. The event is JSON in ASCII, so that no name in it ends the line or controls a terminal."""
    priority = _FACILITY * 8 + _SEVERITY.get(delivery.event, _INFORMATIONAL)
    return f"<{priority}>1 {delivery.at.isoformat()} {host} postern - {delivery.event} - {delivery.body}".encode()


async def _stream(address: str, port: int, host: str, context: ssl.SSLContext | None, messages: list[bytes]) -> None:
    name = host if context is not None else None
    reader, writer = await asyncio.open_connection(address, port, ssl=context, server_hostname=name)
    try:
        for data in messages:
            writer.write(b"%d %b" % (len(data), data))
        await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
            with suppress(TimeoutError):
                async with asyncio.timeout(_FAREWELL):
                    await reader.read(1)
    finally:
        writer.close()
        with suppress(TimeoutError, OSError, ssl.SSLError):
            async with asyncio.timeout(_FAREWELL):
                await writer.wait_closed()


async def _datagrams(address: str, port: int, messages: list[bytes]) -> None:
    for data in messages:
        if len(data) > MAX_DATAGRAM:
            raise Denied("this event is larger than a datagram; use syslog+tls")
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=(address, port))
    try:
        for data in messages:
            transport.sendto(data)
    finally:
        transport.close()
