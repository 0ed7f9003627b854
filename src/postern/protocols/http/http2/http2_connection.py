"""What both ends of an HTTP/2 connection have in common: states of streams, flow control, the end of the connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded, StreamReset, TrailersReceived, WindowUpdated
from h2.events import Event as LibraryEvent
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from h2.stream import StreamInputs, StreamState
from h2.stream import _transitions as stream_transitions

from postern.protocols.http.http2.http2_events import (
    CONNECTION,
    Http2Code,
    Http2Data,
    Http2End,
    Http2Error,
    Http2Event,
    Http2Failed,
    Http2GoingAway,
    Http2Limits,
    Http2Reset,
    Http2WindowOpened,
)
from postern.protocols.http.http2.http2_guard import (
    ACK,
    COST,
    COST_OF_RESET,
    DATA,
    EARNED_BY_REQUEST,
    GOAWAY,
    MAX_FRAME,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    Http2Budget,
    Http2Frame,
    Http2FrameGuard,
    going_away_frame,
    read_going_away,
    read_known_settings,
)
from postern.protocols.http.http2.http2_heads import MalformedHttp2, Pair, read_http2_trailers, trailer_pairs
from postern.protocols.http.http_heads import Headers

_DEFAULT_WINDOW: Final = 65535
_BARE_GOAWAY: Final = 17  # bytes of a GOAWAY frame without a message
_MAX_MESSAGE: Final = 200
_COMPRESSION: Final = "decoding header block"  # in h2's message of an error of HPACK
_ANY_STREAMS: Final = 1 << 30  # our own limit is stricter

# h2 4.4 ends the connection for an interim response that was on its way when its stream was reset. As for other heads,
# only the stream is to end.
stream_transitions.setdefault(
    (StreamState.CLOSED, StreamInputs.RECV_INFORMATIONAL_HEADERS),
    stream_transitions[(StreamState.CLOSED, StreamInputs.RECV_HEADERS)],
)


@dataclass(slots=True)
class Http2Stream:
    """An exchange that has not ended in both directions.

    - `left`: bytes of the peer's body that its content-length announces and that did not arrive; None if unknown.
    - `is_ignored`: what the peer still sends is dropped, as its request was refused.
    """

    method: str = ""
    left: int | None = None
    has_ended_in: bool = False
    has_ended_out: bool = False
    is_ignored: bool = False
    interim: int = 0
    trailers: Headers = ()


class Http2Connection:
    """One end of a connection. Base of both roles.

    Feed it with `receive`, and send what `data_to_send` returns after each call. It never raises for what a peer sends:
    the last event is Http2Failed then. Methods that send raise ValueError for values that cannot be sent. On a stream
    that was reset they do nothing, since its caller may not know that yet.
    """

    def __init__(self, limits: Http2Limits, *, is_client: bool) -> None:
        self._limits = limits
        self._budget = Http2Budget(limits)
        self._guard = Http2FrameGuard(limits, self._budget, expects_preface=not is_client)
        self._streams: dict[int, Http2Stream] = {}
        self._unacknowledged: dict[int, int] = {}
        self._frames = b""  # of our own, to be sent before what h2 has
        self._has_failed = False
        self.is_going_away = False  # no more requests begin here
        self._library = H2Connection(
            H2Configuration(
                client_side=is_client,
                header_encoding=None,
                validate_inbound_headers=False,
                normalize_inbound_headers=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self._greet(is_client)

    def _greet(self, is_client: bool) -> None:
        settings = {
            SettingCodes.MAX_CONCURRENT_STREAMS: 0 if is_client else self._limits.streams,
            SettingCodes.MAX_HEADER_LIST_SIZE: self._limits.head,
            SettingCodes.INITIAL_WINDOW_SIZE: self._limits.stream_window,
            SettingCodes.MAX_FRAME_SIZE: MAX_FRAME,
            SettingCodes.ENABLE_PUSH: 0,
            SettingCodes.ENABLE_CONNECT_PROTOCOL: 0,
        }
        self._library.local_settings = Settings(client=is_client, initial_values=settings)
        self._library.decoder.max_header_list_size = self._limits.head
        self._library.initiate_connection()
        # A client that did not read the settings yet may open more: they are refused one by one, and not all together.
        settings[SettingCodes.MAX_CONCURRENT_STREAMS] = _ANY_STREAMS
        self._library.local_settings = Settings(client=is_client, initial_values=settings)
        if not is_client:
            self._library.receive_data(PREFACE)  # which the guard checks
        self._library.increment_flow_control_window(max(1, self._limits.connection_window - _DEFAULT_WINDOW))

    # What the peer sends

    def receive(self, data: bytes, now: float = 0.0) -> list[Http2Event]:
        """Return the events of these bytes. `now` is the time in seconds, by which the limits are relaxed."""
        events: list[Http2Event] = []
        if self._has_failed:
            return events
        self._budget.refill(now)
        self._guard.feed(data)
        try:
            while (frame := self._guard.next_frame()) is not None:
                self._receive_frame(frame, events)
        except Http2Error as error:
            self._fail(error.code, error.message, events)
        except ProtocolError as error:
            code = error.error_code if str(error).find(_COMPRESSION) < 0 else Http2Code.COMPRESSION_ERROR
            self._fail(int(code), str(error), events)
        return events

    def _receive_frame(self, frame: Http2Frame, events: list[Http2Event]) -> None:
        data = frame.data
        if frame.kind == GOAWAY:
            self._note_going_away(*read_going_away(frame), events)
            return
        if frame.kind == SETTINGS and not frame.flags & ACK and not frame.stream_id:
            data = read_known_settings(frame)
        library_events = self._library.receive_data(data)
        if frame.kind == RST_STREAM and not library_events:
            self._budget.spend(COST)  # of a stream that has ended
        if frame.kind == DATA and not library_events:
            self._budget.spend(COST_OF_RESET)  # h2 resets the stream once more
        for event in library_events:
            self._receive_event(event, events)
        if frame.kind == SETTINGS and not frame.flags & ACK:
            events.append(Http2WindowOpened(CONNECTION))  # the windows of all streams can be larger now

    def _note_going_away(self, last_stream_id: int, code: int, events: list[Http2Event]) -> None:
        self.is_going_away = True
        events.append(Http2GoingAway(code))

    def _receive_event(self, event: LibraryEvent, events: list[Http2Event]) -> None:
        if isinstance(event, DataReceived):
            self._receive_body(event, events)
        elif isinstance(event, StreamEnded):
            self._receive_end(event.stream_id, events)
        elif isinstance(event, TrailersReceived):
            self._receive_trailers(event, events)
        elif isinstance(event, StreamReset):
            self._receive_reset(event, events)
        elif isinstance(event, WindowUpdated):
            events.append(Http2WindowOpened(event.stream_id))

    def _receive_body(self, event: DataReceived, events: list[Http2Event]) -> None:
        stream = self._streams.get(event.stream_id)
        size, data = event.flow_controlled_length, event.data
        if stream is None or stream.is_ignored or not data:
            self._library.acknowledge_received_data(size, event.stream_id)
            return
        self._unacknowledged[event.stream_id] = self._unacknowledged.get(event.stream_id, 0) + size
        if stream.left is not None:
            stream.left -= len(data)
            if stream.left < 0:
                self._abort(event.stream_id, "the body is longer than its content-length", events)
                return
        last = events[-1] if events else None
        if isinstance(last, Http2Data) and last.stream_id == event.stream_id:  # many small frames are one event
            events[-1] = Http2Data(event.stream_id, last.data + data, last.size + size)
        else:
            events.append(Http2Data(event.stream_id, data, size))

    def _receive_trailers(self, event: TrailersReceived, events: list[Http2Event]) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None or stream.is_ignored:
            return
        try:
            stream.trailers = read_http2_trailers(pairs_of(event.headers), self._limits.fields)
        except MalformedHttp2 as error:
            self._abort(event.stream_id, error.message, events)

    def _receive_end(self, stream_id: int, events: list[Http2Event]) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        stream.has_ended_in = True
        if stream.left and not stream.is_ignored:
            self._abort(stream_id, "the body is shorter than its content-length", events)
            return
        if not stream.is_ignored:
            events.append(Http2End(stream_id, stream.trailers))
        self._forget_ended(stream_id, stream)

    def _receive_reset(self, event: StreamReset, events: list[Http2Event]) -> None:
        self._budget.spend(COST_OF_RESET)
        stream = self._streams.pop(event.stream_id, None)
        self._release(event.stream_id)
        if stream is not None and not stream.is_ignored:
            code = int(event.error_code)
            message = "the peer ended the stream" if event.remote_reset else "the stream broke the protocol"
            events.append(Http2Reset(event.stream_id, code, message, code == Http2Code.REFUSED_STREAM))

    def _abort(self, stream_id: int, message: str, events: list[Http2Event]) -> None:
        """Reset a stream because of what the peer sent on it."""
        self._reset(stream_id, Http2Code.PROTOCOL_ERROR)
        events.append(Http2Reset(stream_id, Http2Code.PROTOCOL_ERROR, message))
        self._budget.spend(COST_OF_RESET)

    def _fail(self, code: int, message: str, events: list[Http2Event]) -> None:
        self._has_failed = True
        self.is_going_away = True
        self._streams.clear()
        self._unacknowledged.clear()
        self._frames += self._library.data_to_send()
        if self._frames[-_BARE_GOAWAY : -_BARE_GOAWAY + 4] == b"\0\0\x08\x07":  # h2 has prepared one: ours says why
            self._frames = self._frames[:-_BARE_GOAWAY]
        message = message[:_MAX_MESSAGE]
        self._frames += going_away_frame(self._library.highest_inbound_stream_id, code, message)
        events.append(Http2Failed(code, message))

    # What we send

    @property
    def has_failed(self) -> bool:
        return self._has_failed

    @property
    def open_streams(self) -> int:
        """Return the number of exchanges that have not ended in both directions."""
        return len(self._streams)

    def data_to_send(self) -> bytes:
        """Return the bytes to send now."""
        data = self._frames + self._library.data_to_send() if not self._has_failed else self._frames
        self._frames = b""
        return data

    def sendable(self, stream_id: int) -> int:
        """Return how many bytes of a body can be sent on a stream now. 0: wait for Http2WindowOpened."""
        if stream_id not in self._streams:
            return MAX_FRAME  # they are dropped
        return max(0, self._library.local_flow_control_window(stream_id))

    def send_data(self, stream_id: int, data: bytes, *, end: bool = False) -> None:
        """Send bytes of a body, at most `sendable`; and its end. Raises ValueError."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        if stream.has_ended_out:
            raise ValueError("bytes of a body after its end")
        if len(data) > self.sendable(stream_id):
            raise ValueError(f"{len(data)} bytes of a body exceed what the peer accepts now")
        frame_size = min(self._library.max_outbound_frame_size, MAX_FRAME)
        for at in range(0, len(data), frame_size):
            is_last = end and at + frame_size >= len(data)
            self._library.send_data(stream_id, data[at : at + frame_size], end_stream=is_last)
        self._budget.earn_by_bytes(len(data))
        if end and data:
            self._note_end_out(stream_id, stream)
        elif end:
            self.send_end(stream_id)

    def send_end(self, stream_id: int, trailers: Headers = ()) -> None:
        """End what we send on a stream. Raises ValueError."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.has_ended_out:
            return
        if trailers:
            self._library.send_headers(stream_id, trailer_pairs(trailers), end_stream=True)
        else:
            self._library.end_stream(stream_id)
        self._note_end_out(stream_id, stream)

    def reset(self, stream_id: int, code: int = Http2Code.NO_ERROR) -> None:
        """End a stream in both directions: CANCEL, INTERNAL_ERROR, or NO_ERROR after a response that did not need the
        rest of its request."""
        self._reset(stream_id, code)

    def acknowledge(self, stream_id: int, size: int) -> None:
        """Note that `size` of an Http2Data was passed on, so that the peer can send as much again."""
        unacknowledged = self._unacknowledged.get(stream_id, 0)
        size = min(size, unacknowledged)
        if not size:
            return
        if size == unacknowledged:
            del self._unacknowledged[stream_id]
        else:
            self._unacknowledged[stream_id] = unacknowledged - size
        self._library.acknowledge_received_data(size, stream_id)

    def go_away(self, code: int = Http2Code.NO_ERROR) -> None:
        """Accept no more streams; those that are open continue. Close the connection when `open_streams` is 0."""
        if self._has_failed:
            return
        self.is_going_away = True
        self._frames += self._library.data_to_send()
        self._frames += going_away_frame(self._library.highest_inbound_stream_id, code)

    def _note_end_out(self, stream_id: int, stream: Http2Stream) -> None:
        stream.has_ended_out = True
        self._forget_ended(stream_id, stream)

    def _forget_ended(self, stream_id: int, stream: Http2Stream) -> None:
        if stream.has_ended_in and stream.has_ended_out:
            self._streams.pop(stream_id, None)
            self._budget.earn(EARNED_BY_REQUEST)

    def _ignore_content_length(self, stream_id: int) -> None:
        """Turn off h2's own check: it would end the connection, and is not done where trailers follow the body."""
        self._library.streams[stream_id]._expected_content_length = None

    def _reset(self, stream_id: int, code: int) -> None:
        stream = self._library.streams.get(stream_id) if self._streams.pop(stream_id, None) is not None else None
        if stream is not None and not stream.closed:
            self._library.reset_stream(stream_id, code)
        self._release(stream_id)

    def _release(self, stream_id: int) -> None:
        """Acknowledge all data of a stream that has ended: the connection's window is for the others."""
        size = self._unacknowledged.pop(stream_id, 0)
        if size:
            self._library.acknowledge_received_data(size, stream_id)


def pairs_of(headers: object) -> list[Pair]:
    """Return headers of h2, which are bytes as `header_encoding` is None."""
    return cast("list[Pair]", headers)
