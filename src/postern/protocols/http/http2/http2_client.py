"""The agent's end of an HTTP/2 connection to a target."""

from __future__ import annotations

from typing import Final

from h2.events import Event as LibraryEvent
from h2.events import InformationalResponseReceived, ResponseReceived

from postern.protocols.http.http2.http2_connection import Http2Connection, Http2Stream, pairs_of
from postern.protocols.http.http2.http2_events import (
    DEFAULT_HTTP2_LIMITS,
    Http2Code,
    Http2Continue,
    Http2Event,
    Http2Limits,
    Http2Reset,
    Http2Response,
)
from postern.protocols.http.http2.http2_heads import MalformedHttp2, read_response_head, read_status, request_pairs
from postern.protocols.http.http_heads import RequestHead

_LAST_STREAM: Final = 2**31 - 3


class Http2ClientConnection(Http2Connection):
    """A client's end: returns Http2Response, Http2Continue, Http2Data, Http2End and Http2Reset of responses."""

    def __init__(self, limits: Http2Limits = DEFAULT_HTTP2_LIMITS) -> None:
        super().__init__(limits, is_client=True)

    @property
    def can_send_request(self) -> bool:
        """Return whether the target accepts another request now."""
        if self.is_going_away or self.has_failed:
            return False
        allowed = min(self._limits.streams, self._library.remote_settings.max_concurrent_streams)
        return len(self._streams) < allowed and self._library.highest_outbound_stream_id < _LAST_STREAM

    def send_request(self, head: RequestHead, scheme: str, *, end: bool = False) -> int:
        """Send a request's head, and return its stream; with `end`, a request without body. Raises ValueError."""
        if not self.can_send_request:
            raise ValueError("the target accepts no more requests on this connection")
        pairs = request_pairs(head, scheme)
        stream_id = self._library.get_next_available_stream_id()
        self._library.send_headers(stream_id, pairs, end_stream=end)
        stream = self._streams[stream_id] = Http2Stream(head.method)
        if end:
            self._note_end_out(stream_id, stream)
        return stream_id

    def _note_going_away(self, last_stream_id: int, code: int, events: list[Http2Event]) -> None:
        super()._note_going_away(last_stream_id, code, events)
        for stream_id in [number for number in self._streams if number > last_stream_id]:
            self._reset(stream_id, Http2Code.CANCEL)
            message = "the target closes the connection and did not process the request"
            events.append(Http2Reset(stream_id, code, message, is_unprocessed=True))

    def _receive_event(self, event: LibraryEvent, events: list[Http2Event]) -> None:
        if isinstance(event, ResponseReceived):
            self._receive_response(event, events)
        elif isinstance(event, InformationalResponseReceived):
            self._receive_interim(event, events)
        else:
            super()._receive_event(event, events)

    def _receive_response(self, event: ResponseReceived, events: list[Http2Event]) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None:
            return
        has_ended = event.stream_ended is not None
        try:
            head = read_response_head(
                pairs_of(event.headers), stream.method, has_ended=has_ended, max_fields=self._limits.fields
            )
        except MalformedHttp2 as error:
            self._abort(event.stream_id, error.message, events)
            return
        stream.left = head.length if head.has_body else 0
        self._ignore_content_length(event.stream_id)
        events.append(Http2Response(event.stream_id, head))

    def _receive_interim(self, event: InformationalResponseReceived, events: list[Http2Event]) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None:
            return
        stream.interim += 1
        try:
            status = read_status(pairs_of(event.headers))
            if stream.interim > self._limits.interim:
                raise MalformedHttp2(f"more than {self._limits.interim} interim responses")
        except MalformedHttp2 as error:
            self._abort(event.stream_id, error.message, events)
            return
        if status == 100:
            events.append(Http2Continue(event.stream_id))
