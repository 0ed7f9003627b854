"""The end of a link at the target: an asyncio transport that takes frames of requests and delivers frames of responses.
It carries one exchange after another.

                          ┌──────────── both ends, or FAILED before a RESPONSE ───────────┐
                          ▼                                                               │
    IDLE ──REQUEST──▶ CONNECTING ──connected──▶ SENDING (upstream.begin, send, end) ──────┤
                          │  frames wait            │ lost, can be repeated: CONNECTING   │
                          └────── FAILED ───────────┴── FAILED after a RESPONSE ──▶ closed

A connection is kept for the next exchange. If the application closed it meanwhile, the link connects again. A request
is sent a second time, once, only if nothing can have come of the first:

- its method is idempotent, it has no body, the connection had been used before, and no byte of a response has arrived;
- or a server of HTTP/2 says that it did not process it, as when it ends a connection in an orderly way, and the body is
  short enough to be kept.

There is no deadline for a response: an application can take as long as its client waits. Connecting has one.

Back-pressure: while the upstream is full, or connects, the writer of frames is paused. While the reader of frames is
paused, nothing is read from the application.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from mypy_extensions import mypyc_attr

from postern.domain.durations import duration_text
from postern.errors import PosternError, ProtocolViolation, Unavailable
from postern.protocols.http import http_frames as m
from postern.protocols.http.http_frames import HttpFrame, TargetFailure
from postern.protocols.http.http_heads import Headers, RequestHead, ResponseHead, first_value
from postern.protocols.http.http_syntax import check_method
from postern.protocols.http.target.http_base_path import HttpBasePath
from postern.protocols.http.target.http_upstream import Retry, Upstream
from postern.protocols.http.target.request_signer import RequestSigner

log = logging.getLogger(__name__)

_IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PROPFIND", "REPORT", "SEARCH"})

MAX_KEPT: Final = 64 * 1024  # bytes of a body
_NEEDS_HTTP2: Final = (
    "the request was not sent: gRPC needs HTTP/2, and the target speaks HTTP/1.1; for an http:// target that speaks "
    "HTTP/2, set the connection's secret HTTP_VERSION to 2"
)

Connect = Callable[[RequestHead], Awaitable[Upstream]]


@mypyc_attr(allow_interpreted_subclasses=True)
class HttpTargetLink:
    """The transport: an `asyncio.Transport`, which a compiled class cannot inherit from.

    `upstream` is the connection that dialling has made. `connect` makes another one for a request, within `timeout`
    seconds. `authority` is the `Host` of each request.
    """

    def __init__(
        self,
        upstream: Upstream,
        connect: Connect,
        signer: RequestSigner,
        authority: str,
        base_path: HttpBasePath,
        *,
        timeout: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._upstream: Upstream | None = upstream
        self._connect = connect
        self._signer = signer
        self._authority = authority
        self._base_path = base_path
        self._timeout = timeout
        self._protocol: asyncio.Protocol | None = None
        self._frames = m.HttpFrameReader()
        self._connecting: asyncio.Task[None] | None = None
        self._early: list[HttpFrame] = []  # frames that arrived while connecting
        self._output: list[bytes] = []
        self._paused = False
        self._throttled = False  # the writer is paused
        self._closing = False
        self._is_gone = False  # the protocol was told that the link is closed
        # The current exchange
        self._exchange = 0
        self._head: RequestHead | None = None
        self._left: int | None = 0  # missing bytes of the body, if its length is known
        self._request_ended = True
        self._response_started = False
        self._response_ended = True
        self._failed = False
        self._raw = False
        self._repeated = False
        self._kept: list[HttpFrame] | None = []  # the frames of its body, if they are few
        self._kept_size = 0

    # asyncio.Transport

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def get_write_buffer_size(self) -> int:
        return 0 if self._upstream is None else self._upstream.unsent()

    def can_write_eof(self) -> bool:
        return False  # the end of a request is a frame; the end of the stream ends the link

    def is_reading(self) -> bool:
        return not self._paused

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._paused = True
        if self._upstream is not None and not self._response_ended:
            self._upstream.pause_reading()

    def resume_reading(self) -> None:
        self._paused = False
        if self._upstream is not None and not self._response_ended:
            self._upstream.resume_reading()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        try:
            for frame in self._frames.feed(bytes(data)):
                self._take(frame)
        except ProtocolViolation as error:
            log.warning("a link of HTTP was closed: %s", error.message)
            self.close()
            return
        if self._upstream is not None:
            self._upstream.flush()
        self._throttle()
        if self._output:
            self._loop.call_soon(self.flush_output)  # the caller may be in the middle of its own writes

    def close(self) -> None:
        """Close the link. A request that is under way is given up."""
        if self._closing:
            return
        self._closing = True
        if self._connecting is not None:
            self._connecting.cancel()
        self._drop_upstream()
        self._early.clear()
        self._loop.call_soon(self._tell_gone)

    def abort(self) -> None:
        self.close()

    # Frames

    def _take(self, frame: HttpFrame) -> None:
        """Process a frame of the client. Raises ProtocolViolation."""
        if frame.kind == m.REQUEST:
            self._begin(frame)
            return
        if frame.kind not in (m.REQUEST_DATA, m.REQUEST_END):
            raise ProtocolViolation(f"a target got a frame of kind {frame.kind}")
        if frame.exchange != self._exchange or self._request_ended:
            raise ProtocolViolation("a request frame belongs to no open request")
        if self._connecting is not None:
            self._early.append(frame)
            return
        self._keep(frame)
        if frame.kind == m.REQUEST_DATA:
            self._send(frame.payload)
        else:
            self._end_request(frame.payload)

    def _begin(self, frame: HttpFrame) -> None:
        """Begin an exchange. Raises ProtocolViolation if another one is under way."""
        if not (self._response_ended and (self._request_ended or self._failed)):
            raise ProtocolViolation("a request began before the last one had ended")
        self._exchange = frame.exchange
        self._request_ended = self._response_started = self._response_ended = False
        self._failed = self._raw = self._repeated = False
        self._kept, self._kept_size = [], 0
        try:
            head = self._prepare(m.read_request(frame.payload))
        except (PosternError, ValueError) as error:
            self._head, self._left = None, None
            self._fail(_not_sent(error))
            return
        self._head, self._left = head, head.length
        self._dispatch(head)

    def _prepare(self, head: RequestHead) -> RequestHead:
        """Return the request as the application gets it, with the credential. Raises PosternError, ValueError."""
        check_method(head.method)
        if head.upgrade and head.length != 0:
            head = replace(head, upgrade="")  # no client that wants to change protocols sends a body
        if head.authority != self._authority:
            head = replace(head, authority=self._authority)
        return self._signer.sign(self._base_path.request(head))

    def _dispatch(self, head: RequestHead) -> None:
        """Send a head on the connection that there is, or on a new one."""
        upstream = self._upstream
        is_wrong_version = upstream is not None and upstream.is_http2 and head.upgrade
        if upstream is None or is_wrong_version or not upstream.is_reusable(repeatable=_is_repeatable(head)):
            self._drop_upstream()
            self._connecting = self._loop.create_task(self._reconnect(head))
            self._throttle()
            return
        self._start(upstream, head)

    def _start(self, upstream: Upstream, head: RequestHead) -> None:
        if not upstream.is_http2 and _needs_http2(head):
            self._fail(TargetFailure("invalid", _NEEDS_HTTP2))
            return
        try:
            upstream.begin(self, head)
        except ValueError as error:
            self._fail(_not_sent(error))
            return
        if self._paused:
            upstream.pause_reading()

    def _keep(self, frame: HttpFrame) -> None:
        """Keep a frame of a short request, which may have to be sent again."""
        if self._kept is not None and not self._response_started:
            self._kept.append(frame)
            self._kept_size += len(frame.payload)
            if self._kept_size > MAX_KEPT:
                self._kept = None

    async def _reconnect(self, head: RequestHead) -> None:
        failure = None
        try:
            async with asyncio.timeout(self._timeout):
                upstream = await self._connect(head)
        except PosternError as error:
            failure = TargetFailure("unavailable", error.message)
        except TimeoutError:
            failure = TargetFailure("timeout", f"the target did not answer within {duration_text(self._timeout)}")
        except Exception as error:
            log.warning("connecting to an application failed", exc_info=True)
            failure = TargetFailure("unavailable", f"connecting to the target failed: {type(error).__name__}")
        self._connecting = None
        if failure is not None:
            self._fail(failure)
        elif self._closing:
            upstream.close()
        else:
            self._upstream = upstream
            self._start(upstream, head)
        self._take_early()

    def _take_early(self) -> None:
        """Process the frames that arrived while connecting."""
        early, self._early = self._early, []
        try:
            for frame in early:
                self._take(frame)
        except ProtocolViolation as error:
            log.warning("a link of HTTP was closed: %s", error.message)
            self.close()
        if self._upstream is not None:
            self._upstream.flush()
        self._throttle()
        self.flush_output()

    def _send(self, data: bytes) -> None:
        if self._left is not None and not self._raw:
            self._left -= len(data)
            if self._left < 0:
                raise ProtocolViolation("a request has more bytes than its head says")
        if self._upstream is not None and not self._is_abandoned:
            self._upstream.send(data)

    def _end_request(self, payload: bytes) -> None:
        trailers = m.read_trailers(payload)
        if self._left and not self._raw and not self._is_abandoned:
            raise ProtocolViolation("a request has fewer bytes than its head says")
        self._request_ended = True
        upstream = self._upstream
        if upstream is None or self._is_abandoned or (self._is_bodiless and not self._raw):
            return
        try:
            upstream.end(trailers)
        except ValueError as error:
            self._fail(TargetFailure("invalid", f"the request was not sent completely: {error}"))
            return
        if self._raw and self._response_ended:
            self._drop_upstream()

    @property
    def _is_bodiless(self) -> bool:
        """Return whether the head was the whole request."""
        return self._head is not None and self._head.length == 0

    @property
    def _is_abandoned(self) -> bool:
        """Return whether the rest of the request is discarded: the response has ended."""
        return self._failed or (self._response_ended and not self._raw)

    # UpstreamUser

    def response_started(self, head: ResponseHead) -> None:
        self._response_started = True
        self._kept = None
        self._raw = head.status == 101
        self._output.append(m.response_frame(self._exchange, self._base_path.response(head)))
        if self._raw and self._request_ended and self._upstream is not None:
            self._upstream.end(())

    def response_data(self, data: bytes) -> None:
        self._output.append(m.data_frames(m.RESPONSE_DATA, self._exchange, data))

    def response_ended(self, trailers: Headers) -> None:
        self._response_ended = True
        self._output.append(m.end_frame(m.RESPONSE_END, self._exchange, trailers))
        self._finish_exchange()

    def exchange_failed(self, failure: TargetFailure, retry: Retry = Retry.NEVER) -> None:
        head = self._head
        if head is None or self._repeated or not self._can_repeat(head, retry):
            self._fail(failure)
            return
        self._repeated = True
        self._drop_upstream()
        self._early, self._kept = self._kept or [], None
        self._left, self._request_ended = head.length, False
        self._connecting = self._loop.create_task(self._reconnect(head))
        self._throttle()

    def _can_repeat(self, head: RequestHead, retry: Retry) -> bool:
        if retry is Retry.UNPROCESSED:
            return self._kept is not None
        return retry is Retry.UNANSWERED and _is_repeatable(head)

    def upstream_full(self, full: bool) -> None:
        self._throttle()

    def flush_output(self) -> None:
        if not self._output or self._is_gone:
            return
        output, self._output = self._output, []
        assert self._protocol is not None
        self._protocol.data_received(output[0] if len(output) == 1 else b"".join(output))
        if self._failed and self._response_started:
            self.close()

    def _fail(self, failure: TargetFailure) -> None:
        """End the exchange with a failure. The link ends too if the client has a part of a response."""
        self._failed = self._response_ended = True
        self._output.append(m.failed_frame(self._exchange, failure))
        self._finish_exchange()

    def _finish_exchange(self) -> None:
        """Give up the connection if the request has not ended yet."""
        if self._failed or not (self._request_ended or self._is_bodiless or self._raw):
            self._drop_upstream()
        self._throttle()

    def _drop_upstream(self) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.close()

    # The other end

    def _throttle(self) -> None:
        """Pause or resume the writer, if that changes."""
        upstream = self._upstream
        is_sending = upstream is not None and upstream.is_full and not self._is_abandoned
        full = self._connecting is not None or is_sending
        if full is self._throttled or self._protocol is None or self._closing:
            return
        self._throttled = full
        if full:
            self._protocol.pause_writing()
        else:
            self._protocol.resume_writing()

    def _tell_gone(self) -> None:
        if self._is_gone:
            return
        self._is_gone = True
        if self._protocol is not None:
            self._protocol.connection_lost(None)


def _is_repeatable(head: RequestHead) -> bool:
    return head.method in _IDEMPOTENT and head.length == 0


def _needs_http2(head: RequestHead) -> bool:
    """Return whether it is gRPC. gRPC for browsers (`application/grpc-web`) uses HTTP/1.1 as well."""
    kind = first_value(head.headers, b"content-type")
    return kind.startswith(b"application/grpc") and not kind.startswith(b"application/grpc-web")


def _not_sent(error: PosternError | ValueError) -> TargetFailure:
    words = error.message if isinstance(error, PosternError) else str(error)
    code = "unavailable" if isinstance(error, Unavailable) else "invalid"
    return TargetFailure(code, f"the request was not sent: {words}")
