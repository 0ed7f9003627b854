"""The steady state of a link that carries HTTP: one exchange after another.

                    ┌── its body is needed ─▶ gathered ──┐
  REQUEST ──────────┤                                    ├─▶ judged ─┬─▶ REQUEST, what was gathered; the rest passes
                    └── it is not ───────────────────────┘           └─▶ a response that refuses it; the rest is dropped

A body without a length can be one side of a conversation: its client can wait for an answer before it sends more. So
where such a body is gathered and pauses, `flush` ends the wait: the request is judged by its beginning. If the whole
body is needed, the request is refused after `PAUSES` pauses in a row.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Final

from postern.errors import ProtocolViolation
from postern.interception.events import Completed
from postern.interception.verdicts import Refuse
from postern.protocols.http import http_frames as f
from postern.protocols.http.wire import http_exchange as x
from postern.protocols.http.wire.frame_intake import FrameIntake
from postern.protocols.http.wire.http_dialect import BodyNeed, ClientMessage, HttpDialect
from postern.protocols.http.wire.http_exchange import HttpExchange, HttpRequest
from postern.protocols.http.wire.http_response_side import HttpResponseSide
from postern.protocols.wire_base import ACCESS_ENDED, KILLED, TARGET_GONE, Request, Side

PAUSES: Final = 120  # calls of `flush` while nothing of a body arrives: 6 s to 2 min
BEGINNING: Final = 64 * 1024
"""Bytes of a body that is too large which are read: they are recorded as evidence."""

# What a failure says of the end of a session.
_ENDS: Final = {KILLED: "killed", ACCESS_ENDED: "expired", TARGET_GONE: "unavailable"}

TOO_LARGE: Final = "size"
"""The rule of a refusal because of the size of a request's body."""


class HttpWire(HttpResponseSide):
    """Both sides, and the decisions between them. `authority` is the target's, for requests that name none: scripts."""

    def __init__(self, dialect: HttpDialect, authority: str = "") -> None:
        super().__init__(dialect)
        self._authority = authority
        self._from_client = FrameIntake()
        self._last = 0  # number of the last exchange
        self._need = BodyNeed()
        self._gathered: list[bytes] = []  # frames
        self._body: list[bytes] = []  # … and the bytes in them
        self._size = 0
        self._has_end = False  # the end of the request is among the gathered frames
        self._batch = 0  # changes when more of a body arrives
        self._pauses = 0
        self._is_released = False
        self._messages: deque[ClientMessage] = deque()  # after 101

    # The client's side

    def feed_client(self, data: bytes) -> None:
        if not self._is_over:
            self._from_client.feed(data)

    def poll_client(self) -> bytes | Request | None:
        while not self._is_over:
            exchange = self._exchange
            state = x.IDLE if exchange is None else exchange.request
            if state == x.UNDECIDED:
                return None
            if exchange is not None and (self._messages or state == x.RAW):
                return self._poll_upgraded(exchange)
            if exchange is not None and state == x.PASSING:
                run = self._from_client.take_run(f.REQUEST_DATA, exchange.number)
                if run:
                    return run
            if state == x.GATHERING and self._is_released:
                return self._judge(is_complete=False)
            frame = self._from_client.next()
            if not frame:
                return None
            polled = self._take_frame(frame)
            if polled is not None:
                return polled
        return None

    def _take_frame(self, frame: bytes) -> bytes | Request | None:
        kind, number = frame[0], int.from_bytes(frame[1:5], "big")
        exchange = self._exchange
        if kind == f.REQUEST:
            return self._begin_request(frame, number)
        if exchange is None or exchange.request == x.IDLE or number != exchange.number:
            raise ProtocolViolation(f"the client sent a frame of kind {kind} without a request")
        if kind not in (f.REQUEST_DATA, f.REQUEST_END):
            raise ProtocolViolation(f"the client sent a frame of unknown kind {kind}")
        state, is_end = exchange.request, kind == f.REQUEST_END
        if state == x.GATHERING:
            return self._gather(frame, is_end=is_end)
        if is_end:
            exchange.request = x.IDLE
            frame = self._without_trailers(frame, number)
        return frame if state == x.PASSING else None

    def _begin_request(self, frame: bytes, number: int) -> Request | None:
        exchange = self._exchange
        if exchange is not None and (exchange.request != x.IDLE or exchange.response != x.NONE):
            raise ProtocolViolation("the client sent a request before the end of the last exchange")
        if number <= self._last:
            raise ProtocolViolation("the client sent a request whose number is not new")
        self._last = number
        head = f.read_request(frame[f.HEADER :])
        if not head.authority:
            head = replace(head, authority=self._authority)
        self._exchange = exchange = HttpExchange(number, head)
        exchange.request = x.GATHERING
        self._reader = self._upgraded = None
        self._gathered, self._body, self._size = [], [], 0
        self._has_end = self._is_released = False
        self._need = self._dialect.body_need(head, self.wants)
        limit = self._need.limit
        if head.length == 0 or not limit:
            return self._judge(is_complete=head.length == 0)
        if self._need.must_fit and head.length is not None and head.length > limit:
            return self._judge(is_complete=False)
        self._note_progress()
        return None

    def _note_progress(self) -> None:
        self._batch += 1
        self._pauses = 0

    def _gather(self, frame: bytes, *, is_end: bool) -> Request | None:
        self._note_progress()
        if is_end:
            self._gathered.append(self._without_trailers(frame, self._last))
            self._has_end = True
            return self._judge(is_complete=True)
        self._gathered.append(frame)
        self._body.append(frame[f.HEADER :])
        self._size += len(frame) - f.HEADER
        limit = self._need.limit
        if self._size > limit or (self._size == limit and not self._need.must_fit):
            return self._judge(is_complete=False)
        return None

    def _without_trailers(self, frame: bytes, number: int) -> bytes:
        """Return the end of a request without its trailers where requests are judged: they come too late for that."""
        if len(frame) == f.HEADER or not self.wants.operations:
            return frame
        return f.end_frame(f.REQUEST_END, number)

    def _judge(self, *, is_complete: bool) -> Request:
        """Return the request with as much of its body as is known."""
        exchange = self._exchange
        assert exchange is not None
        need = self._need
        body = b"".join(self._body)
        self._body = []
        limit = BEGINNING if need.must_fit and not is_complete else need.limit
        read = self._dialect.read_request(exchange.number, exchange.head, body[:limit], is_complete=is_complete)
        exchange.read = read
        exchange.request = x.UNDECIDED
        request = HttpRequest(read, self._gathered)
        self._gathered = []
        request.operations = read.operations
        request.forced = read.forced
        if request.forced is None and need.must_fit and not is_complete:
            request.forced = _too_large(need.limit) if self._size > need.limit or exchange.head.length else _PAUSED
        return request

    # After 101

    def _poll_upgraded(self, exchange: HttpExchange) -> bytes | Request | None:
        while not self._messages:
            frame = self._from_client.next()
            if not frame:
                return None
            kind = frame[0]
            is_known = kind in (f.REQUEST_DATA, f.REQUEST_END)
            if not is_known or int.from_bytes(frame[1:5], "big") != exchange.number:
                raise ProtocolViolation(f"the client sent a frame of kind {kind} after 101")
            if kind == f.REQUEST_END:
                exchange.request = x.IDLE
                self._complete_upgraded(exchange)
                return f.end_frame(f.REQUEST_END, exchange.number)
            if self._upgraded is None:
                return frame
            self._messages.extend(self._upgraded.feed_client(frame[f.HEADER :]))
        message = self._messages.popleft()
        data = f.data_frames(f.REQUEST_DATA, exchange.number, message.data)
        if message.operation is None and message.forced is None:
            return data
        exchange.request = x.UNDECIDED
        request = HttpRequest(None, [data])
        if message.operation is not None:
            request.operations = [message.operation]
        request.forced = message.forced
        return request

    # Decisions

    def forward(self, request: Request) -> bytes:
        assert isinstance(request, HttpRequest)
        exchange = self._exchange
        assert exchange is not None
        if request.read is None:
            exchange.request = x.RAW
            return request.frames[0]
        exchange.request = x.IDLE if self._has_end else x.PASSING
        self._has_end = False
        exchange.response = x.AWAITED
        frames = request.frames
        if request.read.body is not None:  # it was read whole
            frames = [
                f.data_frames(f.REQUEST_DATA, exchange.number, request.read.body),
                f.end_frame(f.REQUEST_END, exchange.number),
            ]
        return b"".join([f.request_frame(exchange.number, request.read.head), *frames])

    def reject(self, request: Request, refusal: Refuse) -> bytes:
        assert isinstance(request, HttpRequest)
        exchange = self._exchange
        assert exchange is not None
        if request.read is None:
            return self._close_upgraded(exchange, refusal)
        exchange.request = x.IDLE if self._has_end else x.SWALLOWING
        self._has_end = False
        exchange.is_begun = True
        head, body = self._dialect.refusal(request.read, refusal)
        self._queue.append(self._whole_response(exchange, head, body))
        return b""

    def _close_upgraded(self, exchange: HttpExchange, refusal: Refuse) -> bytes:
        """End a connection after 101 because of a message that was refused."""
        assert self._upgraded is not None
        self._messages.clear()
        for_client, for_target = self._upgraded.close_for(refusal)
        self._queue.clear()
        if for_client:
            self._queue.append(f.data_frames(f.RESPONSE_DATA, exchange.number, for_client))
        exchange.request = x.IDLE
        failure = f.TargetFailure("refused", refusal.message)
        self._queue.append(self._break_off_later(exchange, failure))
        self._queue.append(self._make_completed(exchange))
        end = f.end_frame(f.REQUEST_END, exchange.number)
        return f.data_frames(f.REQUEST_DATA, exchange.number, for_target) + end

    def _break_off_later(self, exchange: HttpExchange, failure: f.TargetFailure) -> bytes:
        self._is_over = True
        self._error = failure.message
        exchange.response = x.DROPPED
        return f.failed_frame(exchange.number, failure)

    # State

    @property
    def open_batch(self) -> int:
        exchange = self._exchange
        if exchange is None or exchange.request != x.GATHERING or exchange.head.length is not None:
            return 0
        return self._batch

    def flush(self) -> None:
        if not self.open_batch:
            return
        self._pauses += 1
        self._batch += 1
        self._is_released = not self._need.must_fit or self._pauses >= PAUSES

    @property
    def has_pending_output(self) -> bool:
        return bool(self._queue)

    @property
    def awaiting_response(self) -> bool:
        exchange = self._exchange
        return exchange is not None and exchange.response in (x.AWAITED, x.BODY, x.UPGRADED)

    def position(self, side: Side) -> str:
        intake = self._from_client if side is Side.CLIENT else self._from_target
        owed = f", exchange {self._last} waits for its response" if self.awaiting_response else ""
        return f"a frame at {intake.position}{owed}"

    def client_finished(self) -> bytes:
        """Return nothing: a client that gives up closes the link."""
        return b""

    def unfinished_exchanges(self) -> list[Completed]:
        exchange = self._exchange
        if exchange is None or not self.awaiting_response:
            return []
        status = str(exchange.status) if exchange.status else ""
        if exchange.response == x.UPGRADED:
            return [Completed(exchange.number, status)]
        return [Completed(exchange.number, status, error="the link ended before the response was complete")]

    def fatal_error(self, message: str, code: str, hint: str = "") -> bytes:
        """Break off the response that has begun, or answer the request that waits for one."""
        exchange = self._exchange
        if exchange is None or self._is_over:
            return b""
        is_waiting = exchange.request in (x.GATHERING, x.UNDECIDED) or exchange.response != x.NONE
        if not is_waiting:
            return b""
        self._is_over = True
        failure = f.TargetFailure(_ENDS.get(code, "ended"), f"{message}. {hint}" if hint else message)
        if exchange.is_begun:
            return f.failed_frame(exchange.number, failure)
        exchange.is_begun = True
        head, body = self._dialect.failure(exchange.require_read(), failure)
        return self._whole_response(exchange, head, body)

    @property
    def client_terminated(self) -> bool:
        return False

    @property
    def partial_message_bytes(self) -> int:
        """Return 0: frames are sent whole."""
        return 0

    @property
    def needs_fatal_error(self) -> bool:
        return not self._is_over


_PAUSED: Final = Refuse(
    TOO_LARGE,
    "the request's body stopped before its end, and rules of this connection inspect whole bodies",
    "Send a Content-Length, or the whole body without a long pause.",
)


def _too_large(limit: int) -> Refuse:
    return Refuse(
        TOO_LARGE,
        f"the request's body is larger than the {limit} bytes that can be inspected",
        "Send less at once, or ask an administrator to raise POSTERN_MAX_STATEMENT.",
    )
