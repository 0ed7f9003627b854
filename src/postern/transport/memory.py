"""An in-process transport without a socket: one end of a link."""

from __future__ import annotations

import asyncio
from typing import Any


class MemoryTransport(asyncio.Transport):
    """A transport whose written data reaches `reader.data_received` in a later turn of the loop."""

    def __init__(self, reader: asyncio.Protocol) -> None:
        super().__init__()
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self._protocol: asyncio.BaseProtocol | None = None
        self._closing = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing:
            self._loop.call_soon(self._reader.data_received, bytes(data))

    def can_write_eof(self) -> bool:
        return False

    def is_reading(self) -> bool:
        return True

    def pause_reading(self) -> None:
        """Do nothing: the reader sends small and bounded data."""

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._report_loss)

    abort = close

    def _report_loss(self) -> None:
        self._reader.connection_lost(None)
        if isinstance(self._protocol, asyncio.Protocol):
            self._protocol.connection_lost(None)
