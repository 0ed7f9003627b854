"""WebSockets of browsers, as uvicorn serves them, with limits for hostile peers.

uvicorn's own protocol bounds a message, answers pings and closes silent connections. These limits are added: the
fragments of a message, also empty ones, which no limit of bytes counts; the answers to pings of a peer that reads
nothing; the time that a peer has to read; and requests that are not a valid handshake are answered. The event `lost` in
the scope's state tells an application of the end that takes no messages at the time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request

log = logging.getLogger(__name__)

MAX_MESSAGE = 128 * 1024  # bytes
MAX_FRAGMENTS = 64  # of one message
READING = 60.0  # seconds that a peer has to read what was sent


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """One WebSocket of uvicorn with limits."""

    _stuck: asyncio.TimerHandle | None = None
    _lost: asyncio.Event | None = None

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.handshake_complete:  # it was denied
            return
        self._lost = asyncio.Event()
        self.scope["state"]["lost"] = self._lost

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.transport.is_closing():
            self.transport.write(b"".join(self.conn.data_to_send()))  # the library's answer to an invalid request
            self.transport.close()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= MAX_FRAGMENTS:
            self._fail(CloseCode.MESSAGE_TOO_BIG, f"a message has more than {MAX_FRAGMENTS} fragments")
            return
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text":
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:  # uvicorn would log a traceback for each
                self._fail(CloseCode.INVALID_DATA, "text is not valid UTF-8")
                return
        super().send_receive_event_to_app()

    def handle_ping(self) -> None:
        pongs = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(pongs)

    def handle_parser_exception(self) -> None:
        if self.conn.close_sent is None:  # it was sent before the handshake was complete
            self.transport.abort()
            return
        super().handle_parser_exception()

    def keepalive_timeout(self) -> None:
        """While the application takes no messages, nothing is read, also no pongs. A peer that has left resets the
        connection at one of the next pings."""
        if self.read_paused:
            self.pong_timer = self.pending_ping_payload = None
            self.schedule_ping()
            return
        super().keepalive_timeout()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stuck is None:
            self._stuck = self.loop.call_later(READING, self._on_stuck)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unstick()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unstick()
        if self._lost is not None:
            self._lost.set()
        super().connection_lost(exc)

    def _fail(self, code: int, reason: str) -> None:
        """Close the connection because of what the peer sent."""
        self.conn.fail(code, reason)
        self.handle_parser_exception()

    def _on_stuck(self) -> None:
        log.info("a browser does not read its WebSocket and was disconnected")
        self.transport.abort()

    def _unstick(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None


# Of uvicorn's configuration. Compression would cost memory for each connection, and could reveal a secret by its size.
WEBSOCKET_OPTIONS: dict[str, Any] = {
    "ws": BoundedWebSocket,
    "ws_max_size": MAX_MESSAGE,
    "ws_per_message_deflate": False,
    "ws_ping_interval": 20.0,
    "ws_ping_timeout": 20.0,
}
