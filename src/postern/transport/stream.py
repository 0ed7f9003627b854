"""One stream of a tunnel as an asyncio transport: logins, links and pipes use it unchanged.

It is separate from `stream_state.py` because that module is compiled, and a compiled class cannot inherit from
asyncio's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from postern.transport.stream_state import StreamState

_NOBODY = asyncio.Protocol()


class Stream(asyncio.Transport):
    """The transport. `number` is unique on its tunnel. `connection_made` is called once the stream is open.

    `about` is `get_extra_info` of the tunnel's connection.
    """

    def __init__(self, lane: StreamState, about: Callable[[str, Any], Any]) -> None:
        super().__init__()
        self.number = lane.number
        self._lane = lane
        self._about = about
        # Called for every read and write, so bind the methods directly and save one call.
        self.write = lane.write  # type: ignore[method-assign]
        self.is_reading = lane.is_reading  # type: ignore[method-assign]
        self.is_closing = lane.is_closing  # type: ignore[method-assign]
        self.pause_reading = lane.pause_reading  # type: ignore[method-assign]
        self.resume_reading = lane.resume_reading  # type: ignore[method-assign]

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        # Not checked: compiled protocols cannot inherit from asyncio's.
        self._lane.set_protocol(cast("asyncio.Protocol", protocol))

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._lane.protocol() or _NOBODY

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        # The socket and its TLS belong to all streams of the tunnel.
        return default if name in ("socket", "ssl_object", "sslcontext") else self._about(name, default)

    def get_write_buffer_size(self) -> int:
        return self._lane.queued_bytes()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._lane.limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = 64 * 1024 if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high}) must be at least low ({low}), and low at least 0")
        self._lane.set_limits(low, high)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._lane.write_eof()

    def close(self) -> None:
        """Close after everything written was sent; nothing more is received."""
        self._lane.close()

    def abort(self) -> None:
        self.reset("the other side aborted it")

    def reset(self, reason: str) -> None:
        """Abort at once: unsent data is dropped, and the peer gets the reason."""
        self._lane.reset(reason)
