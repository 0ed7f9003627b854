"""Resets of TCP connections, for byte streams that have no other sign of being incomplete."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Final

_AT_ONCE: Final = struct.pack("ii", 1, 0)  # struct linger: on, 0 seconds


def reset_when_closed(transport: asyncio.Transport) -> None:
    """Let the peer see a reset instead of an end when the transport is closed. A stream of a tunnel is left as it is:
    the other end of the tunnel sees that it was closed before its end."""
    connected = transport.get_extra_info("socket")
    if connected is not None:
        with suppress(OSError):  # it is closed already
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
