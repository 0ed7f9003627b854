"""The target's side of frames: an asyncio transport without a socket, for commands and for SSH channels."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from postern.errors import ProtocolViolation
from postern.protocols.terminal import terminal_frames as m

log = logging.getLogger(__name__)


class FramedTransport(asyncio.Transport):
    """An asyncio transport of frames. `what` names it in the log. Invalid frames close it."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what
        self._loop = asyncio.get_running_loop()
        self._protocol: asyncio.Protocol | None = None
        self._frames = m.TerminalFrameReader()
        self._paused = False
        self._closing = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        try:
            for kind, payload in self._frames.feed(bytes(data)):
                self._take(kind, payload)
        except ProtocolViolation as error:
            log.warning("%s was closed: %s", self._what, error.message)
            self.close()

    def can_write_eof(self) -> bool:
        return False  # the end of input is a frame; the end of the stream ends the program

    def is_reading(self) -> bool:
        return not self._paused

    def is_closing(self) -> bool:
        return self._closing

    def _take(self, kind: int, payload: bytes) -> None:
        """Process one frame of the client. Raises ProtocolViolation."""
        raise NotImplementedError
