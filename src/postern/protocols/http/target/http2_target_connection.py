"""A connection to an application that speaks HTTP/2, and its streams, each of which carries the exchanges of a link.

Flow control: what an application sends on a stream waits here while its link is paused, and is acknowledged when it was
passed on; so at most a stream's window waits. The connection's window has room for all of them, or paused links would
stop the others. What a link sends waits here while the application accepts no more, and the link is told to pause.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Final, cast

from postern.domain.text import one_line
from postern.errors import Unavailable
from postern.protocols.http.http2.http2_client import Http2ClientConnection
from postern.protocols.http.http2.http2_events import (
    CONNECTION,
    Http2Code,
    Http2Continue,
    Http2Data,
    Http2End,
    Http2Event,
    Http2Failed,
    Http2Limits,
    Http2Request,
    Http2RequestRefused,
    Http2Reset,
    Http2Response,
    Http2WindowOpened,
)
from postern.protocols.http.http_frames import TargetFailure
from postern.protocols.http.http_heads import Headers, RequestHead
from postern.protocols.http.target.http_upstream import Retry, Upstream, UpstreamUser

MAX_UNSENT: Final = 64 * 1024  # bytes that wait on a stream before its link is told to pause
_LIMITS: Final = Http2Limits()
LIMITS: Final = Http2Limits(connection_window=_LIMITS.streams * _LIMITS.stream_window)


class Http2TargetConnection(asyncio.Protocol):
    """The connection. `address` is the application's, for messages."""

    def __init__(self, scheme: str, address: str) -> None:
        self.codec = Http2ClientConnection(LIMITS)
        self.scheme = scheme
        self.loop = asyncio.get_running_loop()
        self.is_closed = False
        self.is_full = False
        self.is_used = False  # it has carried an exchange
        self.streams: dict[int, Http2Upstream] = {}  # those with an exchange
        self._address = address
        self._links: set[Http2Upstream] = set()
        self._settings: asyncio.Future[None] = self.loop.create_future()
        self._transport: asyncio.Transport | None = None

    async def wait_for_settings(self) -> None:
        """Wait for the application's settings. Raises Unavailable if it does not speak HTTP/2."""
        await self._settings

    @property
    def has_room(self) -> bool:
        """Return whether another link can begin a request now."""
        return not self.is_closed and self.codec.can_send_request and len(self._links) < LIMITS.streams

    def upstream(self) -> Http2Upstream:
        """Return a place for another link."""
        upstream = Http2Upstream(self)
        self._links.add(upstream)
        return upstream

    def leave(self, upstream: Http2Upstream) -> None:
        """Remove a link. A connection that the application does not want to use any more closes with its last one."""
        self._links.discard(upstream)
        if not self._links and self.codec.is_going_away:
            self.close()

    def write(self) -> None:
        """Send what the codec has to send."""
        data = self.codec.data_to_send()
        if data and not self.is_closed:
            assert self._transport is not None
            self._transport.write(data)

    def unsent(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def close(self) -> None:
        if self.is_closed:
            return
        self.codec.go_away()
        self.write()
        self.is_closed = True
        if self._transport is not None:
            self._transport.close()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.write()

    def data_received(self, data: bytes) -> None:
        if self.is_closed:
            return
        touched: set[Http2Upstream] = set()
        for event in self.codec.receive(data, self.loop.time()):
            self._take(event, touched)
        self.write()
        for upstream in touched:
            upstream.flush_user()
        self.write()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed = True
        words = f"broke: {one_line(str(error))[:200]}" if error is not None else "was closed by the target"
        self._end_all(TargetFailure("unavailable", f"the connection {words}"))

    def pause_writing(self) -> None:
        self._set_full(True)

    def resume_writing(self) -> None:
        self._set_full(False)

    def _set_full(self, full: bool) -> None:
        self.is_full = full
        for upstream in list(self.streams.values()):
            upstream.report_full()

    def _take(self, event: Http2Event, touched: set[Http2Upstream]) -> None:
        if isinstance(event, Http2WindowOpened):
            self._open_window(event.stream_id)
        elif isinstance(event, Http2Failed):
            self._end_all(TargetFailure("invalid", f"the target's response is not valid: {event.message}"))
            self.close()
        elif isinstance(event, Http2Response | Http2Data | Http2End | Http2Reset):
            upstream = self.streams.get(event.stream_id)
            if upstream is not None:
                upstream.take(event)
                touched.add(upstream)
        elif isinstance(event, Http2Request | Http2RequestRefused | Http2Continue):
            pass  # 100: bodies are not held back

    def _open_window(self, stream_id: int) -> None:
        if stream_id != CONNECTION:
            if (upstream := self.streams.get(stream_id)) is not None:
                upstream.pump()
            return
        if not self._settings.done():
            self._settings.set_result(None)
        for upstream in list(self.streams.values()):
            upstream.pump()

    def _end_all(self, failure: TargetFailure) -> None:
        if not self._settings.done():
            self._settings.set_exception(
                Unavailable(f"the target at {self._address} does not speak HTTP/2: {failure.message}")
            )
            with suppress(BaseException):
                self._settings.exception()  # marks it as retrieved: there may be no waiter left
        for upstream in list(self.streams.values()):
            upstream.fail(failure)
            upstream.flush_user()


class Http2Upstream(Upstream):
    """A link's place on a connection: one stream after another."""

    def __init__(self, connection: Http2TargetConnection) -> None:
        super().__init__(is_http2=True)
        self._connection = connection
        self._user: UpstreamUser | None = None
        self._stream_id = 0  # of the exchange
        self._unsent: deque[bytes] = deque()
        self._unsent_size = 0
        self._end: Headers | None = None  # trailers, while the end waits
        self._sent_all = False
        self._paused = False
        self._held: deque[Http2Response | Http2Data | Http2End | Http2Reset | TargetFailure] = deque()
        self._was_full = False
        self._answered = False

    # Upstream

    @property
    def is_full(self) -> bool:
        return self._unsent_size > MAX_UNSENT or self._connection.is_full

    def is_reusable(self, *, repeatable: bool) -> bool:
        connection = self._connection
        return self._user is None and not connection.is_closed and connection.codec.can_send_request

    def begin(self, user: UpstreamUser, head: RequestHead) -> None:
        connection = self._connection
        self._stream_id = connection.codec.send_request(head, connection.scheme, end=head.length == 0)
        connection.streams[self._stream_id] = self
        self._user = user
        self._sent_all = head.length == 0
        self._answered = self._paused = self._was_full = False

    def send(self, data: bytes) -> None:
        self._unsent.append(data)
        self._unsent_size += len(data)
        self.pump()

    def end(self, trailers: Headers) -> None:
        self._end = trailers
        self.pump()

    def flush(self) -> None:
        self._connection.write()

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            if self._held:
                self._connection.loop.call_soon(self._release)

    def unsent(self) -> int:
        return self._unsent_size + self._connection.unsent()

    def close(self) -> None:
        self._user = None
        self._forget(Http2Code.CANCEL)
        self._connection.write()
        self._connection.leave(self)

    # What the application sends

    def take(self, event: Http2Response | Http2Data | Http2End | Http2Reset | TargetFailure) -> None:
        """Report an event to the link, or hold it while the link is paused."""
        if self._paused or self._held:
            self._held.append(event)
        else:
            self._report(event)

    def fail(self, failure: TargetFailure) -> None:
        """End the exchange: the connection is gone."""
        self.take(failure)

    def flush_user(self) -> None:
        if self._user is not None:
            self._user.flush_output()

    def _release(self) -> None:
        """Report what was held."""
        user = self._user
        while self._held and not self._paused and self._user is not None:
            self._report(self._held.popleft())
        if user is not None:
            user.flush_output()
        self._connection.write()

    def _report(self, event: Http2Response | Http2Data | Http2End | Http2Reset | TargetFailure) -> None:
        user = self._user
        if user is None:
            return
        if isinstance(event, Http2Data):
            user.response_data(event.data)
            self._connection.codec.acknowledge(event.stream_id, event.size)
        elif isinstance(event, Http2Response):
            self._answered = True
            user.response_started(event.head)
        elif isinstance(event, Http2End):
            self._finish()
            user.response_ended(event.trailers)
            user.flush_output()
        else:
            self._report_failure(user, event)

    def _report_failure(self, user: UpstreamUser, event: Http2Reset | TargetFailure) -> None:
        retry = Retry.UNANSWERED if self._connection.is_used and not self._answered else Retry.NEVER
        if isinstance(event, TargetFailure):
            failure = event
        else:
            failure = _failure(event)
            retry = Retry.UNPROCESSED if event.is_unprocessed else Retry.NEVER
        self._user = None
        self._forget(Http2Code.CANCEL)
        user.exchange_failed(failure, retry)
        user.flush_output()

    def _finish(self) -> None:
        """End the exchange after its response. The application does not get the rest of the request."""
        self._user = None
        self._connection.is_used = True
        self._forget(Http2Code.NO_ERROR if self._sent_all else Http2Code.CANCEL)

    def _forget(self, code: int) -> None:
        """Leave the stream. One that is still open is reset."""
        if self._stream_id:
            self._connection.streams.pop(self._stream_id, None)
            self._connection.codec.reset(self._stream_id, code)
        self._stream_id = 0
        self._unsent.clear()
        self._held.clear()
        self._unsent_size = 0
        self._end = None

    # What the link sends

    def pump(self) -> None:
        """Send as much as the application accepts. Raises ValueError for trailers that cannot be sent."""
        codec, stream_id = self._connection.codec, self._stream_id
        while self._unsent and (size := codec.sendable(stream_id)):
            data = self._unsent.popleft()
            if len(data) > size:
                self._unsent.appendleft(data[size:])
                data = data[:size]
            self._unsent_size -= len(data)
            codec.send_data(stream_id, data)
        if self._end is not None and not self._unsent:
            trailers, self._end = self._end, None
            self._sent_all = True
            codec.send_end(stream_id, trailers)
        self.report_full()

    def report_full(self) -> None:
        if self._user is not None and self.is_full is not self._was_full:
            self._was_full = self.is_full
            self._user.upstream_full(self._was_full)


def _failure(event: Http2Reset) -> TargetFailure:
    try:
        name = Http2Code(event.code).name
    except ValueError:
        name = str(event.code)
    if event.code == Http2Code.HTTP_1_1_REQUIRED:
        return TargetFailure(
            "invalid", "the target wants HTTP/1.1 for this request; set the connection's secret HTTP_VERSION to 1.1"
        )
    code = "invalid" if event.code == Http2Code.PROTOCOL_ERROR else "unavailable"
    return TargetFailure(code, f"the target did not complete its response: {event.message} ({name})")
