"""A connection to an application that speaks HTTP/1.1 or 1.0.

    idle ──begin──▶ exchange ──response complete, keep-alive, request complete──▶ idle
      │                ├── response complete otherwise ──▶ closed
      │                └── 101 ──▶ raw, each direction ends alone ──▶ closed
      └── unexpected bytes, or an unexpected end ──▶ closed

A response that ends before its request does closes the connection: the application may not want the rest, and what it
would make of half a body is unknown.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from postern.domain.text import one_line
from postern.protocols.http.http1 import http1_writer as writer
from postern.protocols.http.http1.http1_events import BodyData
from postern.protocols.http.http1.http1_response_reader import Http1ResponseReader
from postern.protocols.http.http_frames import TargetFailure
from postern.protocols.http.http_heads import Headers, RequestHead, ResponseHead
from postern.protocols.http.http_syntax import HttpSyntaxError
from postern.protocols.http.target.http_upstream import Retry, Upstream, UpstreamUser
from postern.transport.resets import reset_when_closed

# A request that cannot be repeated does not use a connection that was idle for longer than this: applications close
# idle connections, many after two to five seconds, and a request that crosses the end would be lost.
FRESH = 1.0
# Seconds that the application can still send after the client has ended its direction of an upgraded TLS connection,
# which cannot be ended in one direction only.
LAST_WORDS = 5.0
# Requests whose body some applications do not read. Such an application would take the body for its next request, which
# was not judged, so the connection carries no other.
_OFTEN_WITHOUT_BODY: Final = frozenset({"GET", "HEAD", "DELETE", "OPTIONS", "TRACE"})


class Http1Upstream(Upstream):
    """The connection; also an `asyncio.Protocol`, which a compiled class cannot inherit from."""

    def __init__(self) -> None:
        super().__init__(is_http2=False)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = Http1ResponseReader()
        self._user: UpstreamUser | None = None
        self._unwritten: list[bytes] = []
        self._full = False
        self._paused = False
        self._is_paused = False  # the transport is
        self._is_closed = False
        self._idle_since = self._loop.time()
        self._used = False  # it has carried an exchange before
        self._may_have_ended = False  # the application can have closed it before the request came
        self._requested = ""  # the protocol that the request asks to change to
        self._chunked = False
        self._is_last = False  # no other exchange follows
        self._sent_all = False
        self._answered = False  # bytes of the response have arrived
        self._raw = False
        self._raw_ended = False  # the application has ended its direction
        self._last_words: asyncio.TimerHandle | None = None

    # Upstream

    @property
    def is_full(self) -> bool:
        return self._full

    def is_reusable(self, *, repeatable: bool) -> bool:
        if self._is_closed or self._user is not None or self._transport is None or self._transport.is_closing():
            return False
        return repeatable or self._loop.time() - self._idle_since < FRESH

    def begin(self, user: UpstreamUser, head: RequestHead) -> None:
        written = writer.request_head_bytes(head)
        self._reader.begin(head.method, upgrade=bool(head.upgrade))
        self._may_have_ended = self._used or self._loop.time() - self._idle_since > FRESH
        self._user = user
        self._requested = head.upgrade.lower()
        self._chunked = head.length is None
        self._sent_all = head.length == 0
        self._is_last = head.length != 0 and head.method in _OFTEN_WITHOUT_BODY
        self._answered = False
        self._unwritten.append(written)

    def send(self, data: bytes) -> None:
        self._unwritten.append(writer.chunk(data) if self._chunked and not self._raw else data)

    def end(self, trailers: Headers) -> None:
        if self._raw:
            self._end_raw()
            return
        if self._chunked:
            self._unwritten.append(writer.last_chunk(trailers))
        self._sent_all = True

    def flush(self) -> None:
        parts, self._unwritten = self._unwritten, []
        if parts and not self._is_closed:
            self._stream().write(parts[0] if len(parts) == 1 else b"".join(parts))

    def pause_reading(self) -> None:
        self._paused = True
        self._apply_pause()

    def resume_reading(self) -> None:
        self._paused = False
        self._apply_pause()

    def unsent(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Close. A request that is given up ends with a reset, so that what was sent does not pass for complete."""
        if self._is_closed:
            return
        transport, aborted = self._stream(), self._user is not None and not self._sent_all
        self._user = None
        self._is_closed = True
        self._unwritten.clear()
        if self._last_words is not None:
            self._last_words.cancel()
        if aborted:
            reset_when_closed(transport)
        if aborted or transport.get_write_buffer_size():
            transport.abort()
        else:
            transport.close()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        user = self._user
        if user is None:
            self.close()  # such as a 408 before the application closes an idle connection
            return
        self._answered = True
        if self._raw:
            user.response_data(data)
        else:
            self._read(user, data)
        user.flush_output()

    def eof_received(self) -> bool:
        """Return True to keep this direction open."""
        user = self._user
        if user is None:
            self.close()
            return False
        if self._raw:
            self._end_raw_response(user)
            return not self._sent_all and self._stream().can_write_eof()
        self._end_of_stream(user)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        user, self._user = self._user, None
        self._is_closed = True
        if self._last_words is not None:
            self._last_words.cancel()
        if user is None:
            return
        if self._raw_ended:
            user.upstream_full(False)  # what follows is dropped
        elif error is not None:
            self._fail(user, f"the connection to the target broke: {_words(error)}")
            user.flush_output()
        elif self._raw:
            self._end_raw_response(user)
        else:
            self._end_of_stream(user)

    def pause_writing(self) -> None:
        self._full = True
        if self._user is not None:
            self._user.upstream_full(True)

    def resume_writing(self) -> None:
        self._full = False
        if self._user is not None:
            self._user.upstream_full(False)

    # Reading

    def _read(self, user: UpstreamUser, data: bytes) -> None:
        try:
            self._reader.feed(data)
            self._take_events(user)
        except HttpSyntaxError as error:
            self._fail(user, error.message, "invalid")

    def _take_events(self, user: UpstreamUser) -> None:
        """Report what the reader has understood. Raises HttpSyntaxError."""
        reader = self._reader
        while (event := reader.next_event()) is not None:
            if isinstance(event, BodyData):
                user.response_data(event.data)
            elif isinstance(event, ResponseHead):
                self._take_head(user, event)
            else:
                self._finish(user, event.trailers)
                return

    def _take_head(self, user: UpstreamUser, head: ResponseHead) -> None:
        if head.status != 101:
            user.response_started(head)
            return
        if self._reader.upgraded_to != self._requested:
            raise HttpSyntaxError(502, f"the target changed to another protocol than {self._requested!r}")
        self._raw = True
        self._sent_all = False
        user.response_started(head)
        rest = self._reader.take_rest()
        if rest:
            user.response_data(rest)

    def _finish(self, user: UpstreamUser, trailers: Headers) -> None:
        """End the exchange, and keep the connection if another can follow."""
        self._user = None
        self._used = True
        if self._reader.keep_alive and self._sent_all and not self._full and not self._is_last:
            self._idle_since = self._loop.time()
            self.resume_reading()  # to notice when the application closes it
        else:
            self.close()
        user.response_ended(trailers)

    def _end_of_stream(self, user: UpstreamUser) -> None:
        if not self._answered:
            self._fail(user, "the target closed the connection without a response")
        else:
            try:
                self._reader.end_of_stream()
                self._take_events(user)
            except HttpSyntaxError:
                self._fail(user, "the target closed the connection in the middle of its response")
        user.flush_output()

    def _fail(self, user: UpstreamUser, message: str, code: str = "unavailable") -> None:
        self._user = user  # so that it is aborted
        self.close()
        retry = Retry.UNANSWERED if self._may_have_ended and not self._answered else Retry.NEVER
        user.exchange_failed(TargetFailure(code, message), retry)

    # After 101

    def _end_raw(self) -> None:
        """End the client's direction."""
        self._sent_all = True
        self.flush()
        transport = self._stream()
        if self._is_closed or transport.is_closing():
            return
        if self._raw_ended:
            self.close()
        elif transport.can_write_eof():
            transport.write_eof()
        else:
            self._last_words = self._loop.call_later(LAST_WORDS, transport.close)

    def _end_raw_response(self, user: UpstreamUser) -> None:
        """End the application's direction. The client's stays open, where the transport can do that."""
        self._raw_ended = True
        user.response_ended(())
        user.flush_output()

    def _apply_pause(self) -> None:
        transport = self._stream()
        if self._is_paused is self._paused or transport.is_closing():
            return
        self._is_paused = self._paused
        (transport.pause_reading if self._paused else transport.resume_reading)()

    def _stream(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport


def _words(error: Exception) -> str:
    return one_line(getattr(error, "strerror", None) or str(error) or type(error).__name__)[:200]
