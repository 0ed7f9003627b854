"""A byte stream in a WebSocket (RFC 6455): one binary message is one write, message borders mean nothing.

Both ends look like asyncio transports. The client says who it is by a bearer token; it always verifies TLS.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlsplit

from picows import (
    WSCloseCode,
    WSFrame,
    WSListener,
    WSMsgType,
    WSTransport,
    WSUpgradeRequest,
    ws_connect,
    ws_create_server,
)

from postern.errors import Unavailable

PATH = "/tunnel"
_MAX_FRAME = 4 << 20
_CHUNK = 1 << 20


class WebSocketTransport(asyncio.Transport):
    """One end. `set_protocol` decides who gets the bytes; until then they wait, bounded by pausing."""

    def __init__(self, wire: WSTransport) -> None:
        super().__init__()
        self._wire = wire
        self._protocol: asyncio.BaseProtocol | None = None
        self._waiting: list[bytes] = []
        self._closing = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            cast("asyncio.Protocol", protocol).data_received(data)

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def received(self, data: bytes) -> None:
        if isinstance(self._protocol, asyncio.Protocol):
            self._protocol.data_received(data)
        else:
            self._waiting.append(data)
            self.pause_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._wire.underlying_transport.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._wire.is_disconnected:
            return
        if len(data) <= _CHUNK:
            self._wire.send(WSMsgType.BINARY, data)
            return
        view = memoryview(data)
        for start in range(0, len(data), _CHUNK):
            self._wire.send(WSMsgType.BINARY, view[start : start + _CHUNK])

    def can_write_eof(self) -> bool:
        return False

    def is_reading(self) -> bool:
        return self._wire.underlying_transport.is_reading()

    def pause_reading(self) -> None:
        if self.is_reading():
            self._wire.underlying_transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._closing and not self.is_reading():
            self._wire.underlying_transport.resume_reading()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._close(WSCloseCode.OK, "")

    def refuse(self, reason: str) -> None:
        """Closes, and tells the peer why."""
        self._close(WSCloseCode.POLICY_VIOLATION, reason)

    def _close(self, code: WSCloseCode, reason: str) -> None:
        if not self._closing:
            self._closing = True
            if not self._wire.is_disconnected:
                # RFC 6455, section 5.5: a control frame has at most 125 bytes, two of them for the code.
                self._wire.send_close(code, reason.encode()[:123])
                self._wire.disconnect()

    def abort(self) -> None:
        self._closing = True
        self._wire.disconnect(graceful=False)


class _Listener(WSListener):
    """Passes the callbacks of one WebSocket to the stream's protocol."""

    def __init__(self, opened: Callable[[WebSocketTransport], None]) -> None:
        self._opened = opened
        self.stream: WebSocketTransport | None = None
        self._refusal = ""  # why the peer would not go on

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.stream = WebSocketTransport(transport)
        self._opened(self.stream)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type in (WSMsgType.BINARY, WSMsgType.CONTINUATION):
            if self.stream is not None and frame.payload_size:
                self.stream.received(frame.get_payload_as_bytes())
        elif frame.msg_type is WSMsgType.CLOSE:
            if frame.get_close_code() is WSCloseCode.POLICY_VIOLATION:
                self._refusal = frame.get_close_reason() or "no reason given"
            transport.disconnect()

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        if self.stream is not None:
            protocol = self.stream._protocol
            self.stream._closing = True
            if isinstance(protocol, asyncio.Protocol):
                protocol.connection_lost(ConnectionAbortedError(self._refusal) if self._refusal else None)

    def pause_writing(self) -> None:
        if self.stream is not None and isinstance(self.stream._protocol, asyncio.Protocol):
            self.stream._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self.stream is not None and isinstance(self.stream._protocol, asyncio.Protocol):
            self.stream._protocol.resume_writing()


async def serve(
    opened: Callable[[WebSocketTransport, str], None], host: str, port: int, context: ssl.SSLContext
) -> asyncio.Server:
    """Calls `opened(stream, token)` for each WebSocket; whether the token holds is its business."""

    def upgrade(request: WSUpgradeRequest) -> _Listener | None:
        scheme, _, token = str(request.headers.get("Authorization", "")).partition(" ")
        if urlsplit(request.path.decode("latin-1")).path != PATH or scheme.lower() != "bearer":
            return None
        return _Listener(lambda stream: opened(stream, token))

    return await ws_create_server(
        upgrade, host, port, ssl=context, max_frame_size=_MAX_FRAME, websocket_handshake_timeout=10, reuse_port=True
    )


async def connect(
    url: str, *, token: str, ca: str | bytes | None, protocol: Callable[[], asyncio.Protocol]
) -> tuple[WebSocketTransport, asyncio.Protocol]:
    """Opens a tunnel. `ca` is what to trust instead of the system's CAs, PEM text or DER. Raises Unavailable.

    `protocol().connection_made` is called with the stream, as for any asyncio transport.
    """
    context = ssl.create_default_context(cadata=ca or None)
    made: list[asyncio.Protocol] = []

    def opened(stream: WebSocketTransport) -> None:
        made.append(protocol())
        stream.set_protocol(made[0])
        made[0].connection_made(stream)

    try:
        _, listener = await ws_connect(
            lambda: _Listener(opened),
            url.rstrip("/") + PATH,
            ssl_context=context,
            extra_headers=[("Authorization", f"Bearer {token}")],
            max_frame_size=_MAX_FRAME,
            websocket_handshake_timeout=10,
            max_redirects=0,
        )
    except Exception as error:
        raise Unavailable(f"the gateway's tunnel at {url} cannot be reached: {error}") from error
    return cast("_Listener", listener).stream, made[0]  # type: ignore[return-value]
