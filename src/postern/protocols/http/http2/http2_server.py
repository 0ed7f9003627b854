"""The gateway's end of a client's HTTP/2 connection."""

from __future__ import annotations

from h2.events import Event as LibraryEvent
from h2.events import RequestReceived

from postern.protocols.http.http2.http2_connection import Http2Connection, Http2Stream, pairs_of
from postern.protocols.http.http2.http2_events import (
    DEFAULT_HTTP2_LIMITS,
    Http2Code,
    Http2Event,
    Http2Limits,
    Http2Request,
    Http2RequestRefused,
)
from postern.protocols.http.http2.http2_guard import COST_OF_RESET
from postern.protocols.http.http2.http2_heads import MalformedHttp2, read_request_head, response_pairs
from postern.protocols.http.http_heads import ResponseHead
from postern.protocols.http.http_syntax import HttpSyntaxError


class Http2ServerConnection(Http2Connection):
    """A server's end: returns Http2Request, Http2RequestRefused, Http2Data, Http2End and Http2Reset of requests.

    A request beyond the limit of concurrent ones, or after `go_away`, is refused so that its client repeats it.
    """

    def __init__(self, limits: Http2Limits = DEFAULT_HTTP2_LIMITS) -> None:
        super().__init__(limits, is_client=False)

    def _receive_event(self, event: LibraryEvent, events: list[Http2Event]) -> None:
        if isinstance(event, RequestReceived):
            self._receive_request(event, events)
        else:
            super()._receive_event(event, events)

    def _receive_request(self, event: RequestReceived, events: list[Http2Event]) -> None:
        stream_id = event.stream_id
        has_ended = event.stream_ended is not None
        if self.is_going_away or len(self._streams) >= self._limits.streams:
            self._refuse_stream(stream_id, Http2Code.REFUSED_STREAM)
            return
        try:
            head, expects_continue = read_request_head(
                pairs_of(event.headers), has_ended=has_ended, max_fields=self._limits.fields
            )
        except MalformedHttp2:
            self._refuse_stream(stream_id, Http2Code.PROTOCOL_ERROR)
        except HttpSyntaxError as error:
            self._streams[stream_id] = Http2Stream(is_ignored=True)
            self._ignore_content_length(stream_id)
            events.append(Http2RequestRefused(stream_id, error.status, error.message))
        else:
            self._streams[stream_id] = Http2Stream(head.method, head.length)
            self._ignore_content_length(stream_id)
            events.append(Http2Request(stream_id, head, expects_continue))

    def _refuse_stream(self, stream_id: int, code: int) -> None:
        self._library.reset_stream(stream_id, code)
        self._budget.spend(COST_OF_RESET)

    def send_continue(self, stream_id: int) -> None:
        """Ask the client for the body."""
        if stream_id in self._streams:
            self._library.send_headers(stream_id, [(b":status", b"100")])

    def send_response(self, stream_id: int, head: ResponseHead, *, end: bool = False) -> None:
        """Send a final response's head; with `end`, a response without body. Raises ValueError."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        self._library.send_headers(stream_id, response_pairs(head), end_stream=end)
        if end:
            self._note_end_out(stream_id, stream)
