"""The connection below a tunnel: a WebSocket (RFC 6455), so that it passes proxies and load balancers.

The payloads of binary messages form one stream of bytes; message boundaries have no meaning. Both ends look like
asyncio transports. The dialler authenticates by a bearer token; it always uses TLS, and verifies the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlsplit

from picows import (
    WSCloseCode,
    WSFrame,
    WSListener,
    WSMsgType,
    WSTransport,
    WSUpgradeRequest,
    WSUpgradeResponse,
    WSUpgradeResponseWithListener,
    ws_connect,
    ws_create_server,
)

from postern.domain.identity.validity import refused_for_its_dates
from postern.errors import Unavailable
from postern.transport.carrier import Carrier
from postern.transport.send_queue import HEADROOM

log = logging.getLogger(__name__)

PATH = "/tunnel"
CONNECT = 15.0  # seconds to establish the WebSocket
FLUSH = 5.0  # seconds that a peer has to read the rest after the WebSocket is closed
_MAX_FRAME = 1 << 20  # bytes; larger than `send_queue.MESSAGE`
_CHUNK = 512 * 1024
# Unsent bytes in the kernel. The rest waits in this process, where small frames can overtake large ones.
_UNSENT = 256 * 1024
_HIGH, _LOW = 128 * 1024, 32 * 1024


_BINARY, _CONTINUATION = WSMsgType.BINARY, WSMsgType.CONTINUATION


class WebSocketTransport(Carrier):
    """One end. `set_protocol` sets the receiver of bytes, which come as memory that is valid until `data_received`
    returns. Before that they wait, bounded by pausing."""

    def __init__(self, wire: WSTransport) -> None:
        super().__init__()
        self._wire = wire
        self._send = wire.send_reuse_external_bytearray
        self._protocol: asyncio.Protocol | None = None
        self._waiting: list[bytes] = []
        self._closing = False
        self._full = False
        self._ping: bytes | None = None  # to be answered when there is room
        self._cut: asyncio.TimerHandle | None = None
        self.refusal = ""  # the peer's reason for closing
        under = wire.underlying_transport
        under.set_write_buffer_limits(_HIGH, _LOW)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            with contextlib.suppress(OSError):
                under.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)

    # asyncio.Transport

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast("asyncio.Protocol", protocol)
        if self._full:
            self._protocol.pause_writing()
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for data in waiting:
                self._protocol.data_received(data)
            self.resume_reading()

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._wire.underlying_transport.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        for start in range(0, len(view), _CHUNK):
            if not self._closing:
                self._wire.send(_BINARY, view[start : start + _CHUNK])

    def write_message(self, message: bytearray) -> None:
        if not self._closing:
            self._send(_BINARY, message, HEADROOM)

    def can_write_eof(self) -> bool:
        return False

    def is_reading(self) -> bool:
        return self._wire.underlying_transport.is_reading()

    def pause_reading(self) -> None:
        if not self._closing and self.is_reading():
            self._wire.underlying_transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._closing and not self.is_reading():
            self._wire.underlying_transport.resume_reading()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._close(WSCloseCode.OK, "")

    def refuse(self, reason: str) -> None:
        """Close, and send the peer the reason."""
        self._close(WSCloseCode.POLICY_VIOLATION, reason)

    def abort(self) -> None:
        self._closing = True
        self._wire.disconnect(graceful=False)

    # Callbacks of the WebSocket

    def handle_frame(self, frame: WSFrame) -> None:
        kind = frame.msg_type
        if self._closing:
            return
        if kind is _BINARY or kind is _CONTINUATION:
            if self._protocol is not None:
                self._protocol.data_received(frame.get_payload_as_memoryview())  # type: ignore[arg-type]
            else:
                self._waiting.append(frame.get_payload_as_bytes())
                self.pause_reading()
        elif kind is WSMsgType.CLOSE:
            if frame.get_close_code() is WSCloseCode.POLICY_VIOLATION:
                self.refusal = frame.get_close_reason() or "no reason given"
            self._close(WSCloseCode.OK, "")
        elif kind is WSMsgType.PING:
            self._answer(frame.get_payload_as_bytes())
        elif kind is WSMsgType.TEXT:
            self._close(WSCloseCode.UNSUPPORTED_DATA, "a tunnel carries binary messages only")

    def handle_backpressure(self, full: bool) -> None:
        self._full = full
        if not full and self._ping is not None:
            self._answer(self._ping)
        if self._protocol is not None:
            (self._protocol.pause_writing if full else self._protocol.resume_writing)()

    def handle_disconnect(self) -> None:
        self._closing = True
        if self._cut is not None:
            self._cut.cancel()
        if self._protocol is not None:
            self._protocol.connection_lost(ConnectionAbortedError(self.refusal) if self.refusal else None)

    def _answer(self, ping: bytes) -> None:
        """Answer a ping. While there is no room, only the newest one is answered later (RFC 6455, section 5.5.3), so
        that a peer that sends many and reads nothing fills no memory."""
        self._ping = ping if self._full else None
        if not self._full:
            self._wire.send_pong(ping)

    def _close(self, code: WSCloseCode, reason: str) -> None:
        if self._closing:
            return
        self._closing = True
        if not self._wire.is_disconnected:
            # RFC 6455, section 5.5: a control frame has at most 125 bytes, two of them for the code.
            self._wire.send_close(code, reason.encode()[:123].decode(errors="ignore"))
            self._cut = asyncio.get_running_loop().call_later(FLUSH, self._wire.disconnect, False)
            self._wire.disconnect()


class _Listener(WSListener):
    """Passes the callbacks of one WebSocket to its transport."""

    def __init__(self, opened: Callable[[WebSocketTransport], None]) -> None:
        self._opened = opened
        self.transport: WebSocketTransport | None = None
        self.abandoned = False  # the dialler waits no longer

    def on_ws_connected(self, transport: WSTransport) -> None:
        if self.abandoned:
            transport.disconnect(graceful=False)
            return
        self.transport = WebSocketTransport(transport)
        # Bound directly, to save a call for each message.
        self._opened(self.transport)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if self.transport is not None:
            self.transport.handle_frame(frame)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        if self.transport is not None:
            self.transport.handle_disconnect()

    def pause_writing(self) -> None:
        if self.transport is not None:
            self.transport.handle_backpressure(True)

    def resume_writing(self) -> None:
        if self.transport is not None:
            self.transport.handle_backpressure(False)


def _hush_strangers() -> None:
    """Log a failed TLS handshake in one line instead of a traceback.

    aiofastnet (1.2) reports it to the loop's handler with an exception's class instead of an exception, which the
    handler of asyncio fails to print.
    """
    loop = asyncio.get_running_loop()
    others = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if context.get("message") == "SSL handshake failed":
            log.info("the TLS handshake of a tunnel failed: %s", context.get("exception"))
        elif others is not None:
            others(loop, context)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)


async def serve(
    opened: Callable[[WebSocketTransport, str], None],
    host: str,
    port: int,
    context: ssl.SSLContext,
    *,
    why_not: Callable[[], str] = lambda: "",
) -> asyncio.Server:
    """Serve WebSockets: call `opened(transport, token)` for each; the callback verifies the token. If `why_not` returns
    a reason against more connections, the response is 503 with that reason."""

    def upgrade(request: WSUpgradeRequest) -> WSUpgradeResponseWithListener | None:
        if reason := why_not():
            answer = WSUpgradeResponse.create_error_response(
                HTTPStatus.SERVICE_UNAVAILABLE, f"{reason}\n".encode(), [("Retry-After", "10")]
            )
            return WSUpgradeResponseWithListener(answer, None)
        scheme, _, token = str(request.headers.get("Authorization", "")).partition(" ")
        if urlsplit(request.path.decode("latin-1")).path != PATH or scheme.lower() != "bearer" or not token.strip():
            return None
        # The date is for `postern doctor`, which may only have this connection to compare clocks.
        answer = WSUpgradeResponse.create_101_response([("Date", formatdate(usegmt=True))])
        return WSUpgradeResponseWithListener(answer, _Listener(lambda transport: opened(transport, token.strip())))

    _hush_strangers()
    return await ws_create_server(
        upgrade,
        host,
        port,
        ssl=context,
        max_frame_size=_MAX_FRAME,
        websocket_handshake_timeout=10,
        enable_auto_pong=False,
        reuse_port=True,
    )


async def connect(
    url: str,
    *,
    token: str,
    ca: str | bytes | None,
    protocol: Callable[[], asyncio.Protocol],
    server_name: str | None = None,
) -> tuple[WebSocketTransport, asyncio.Protocol]:
    """Open a tunnel's connection. `url` is `wss://HOST:PORT`; `ca` is trusted instead of the system's CAs, as PEM text
    or DER. The certificate must be valid for `server_name`, or without it for the URL's host. Raises Unavailable.

    `protocol().connection_made` is called with the transport, as for any asyncio transport.
    """
    if urlsplit(url).scheme != "wss":
        raise Unavailable(f"the gateway's tunnel at {url} cannot be reached: a token is only sent over TLS (wss://…)")
    context = ssl.create_default_context(cadata=ca or None)
    protocols: list[asyncio.Protocol] = []

    def handle_open(transport: WebSocketTransport) -> None:
        protocols.append(protocol())
        transport.set_protocol(protocols[0])
        protocols[0].connection_made(transport)

    listener = _Listener(handle_open)
    options: dict[str, Any] = {} if server_name is None else {"server_hostname": server_name}
    try:
        async with asyncio.timeout(CONNECT):
            await ws_connect(
                lambda: listener,
                url.rstrip("/") + PATH,
                ssl_context=context,
                extra_headers=[("Authorization", f"Bearer {token}")],
                max_frame_size=_MAX_FRAME,
                websocket_handshake_timeout=10,
                enable_auto_pong=False,
                max_redirects=0,
                **options,
            )
        if listener.transport is None:
            raise ConnectionResetError("the other side closed the connection during the handshake")
    except Exception as error:
        words = "it did not answer in time" if isinstance(error, TimeoutError) else str(error)
        words = refused_for_its_dates(words, datetime.now(UTC)) or words
        raise Unavailable(f"the gateway's tunnel at {url} cannot be reached: {words}") from error
    finally:
        # A caller that got an error, or stopped waiting, must not get a connection afterwards.
        listener.abandoned = listener.transport is None
    return listener.transport, protocols[0]
