"""The target's side of the wire: responses to the exchange that runs.

            ┌── a rule asks for the content ─▶ the dialect's reader ─▶ frames and events, the head withheld until then
  RESPONSE ─┼── nothing does ─▶ passes in frames as they came, the head redacted in the recording
            └── 101 ─▶ both directions are open, read message by message if a rule asks for them

If nothing of a response was sent, a refusal takes its place as a whole response. Otherwise FAILED breaks it off, so
that no client takes a part for the whole. A link whose target still sends what nobody gets is over: FAILED says so.
"""

from __future__ import annotations

from collections import deque
from http import HTTPStatus
from typing import cast

from postern.errors import ProtocolViolation
from postern.interception.events import Completed, Output, Rows
from postern.interception.verdicts import Refuse, Warn
from postern.protocols.http import http_frames as f
from postern.protocols.http.http_heads import ResponseHead
from postern.protocols.http.http_redaction import redact_response
from postern.protocols.http.wire import http_exchange as x
from postern.protocols.http.wire.frame_intake import FrameIntake
from postern.protocols.http.wire.http_dialect import Encoded, HttpDialect, ResponseBodyReader, UpgradedReader
from postern.protocols.http.wire.http_exchange import HttpExchange
from postern.protocols.wire_base import Piece, RedactedOutput, Wants, Wire

_WARNING_HEADER = b"postern-warning"
_MOST_WARNINGS = 8
_LONGEST_WARNING = 500  # characters


class HttpResponseSide(Wire):
    """The target's side of the wire."""

    def __init__(self, dialect: HttpDialect) -> None:
        self.wants = Wants()
        self._dialect = dialect
        self._exchange: HttpExchange | None = None
        self._from_target = FrameIntake()
        self._queue: deque[Piece] = deque()
        self._reader: ResponseBodyReader | None = None
        self._upgraded: UpgradedReader | None = None
        self._preface: RedactedOutput | None = None
        self._warnings: list[Warn] = []
        self._violation: ProtocolViolation | None = None
        self._is_over = False  # the client knows that the link is over; nothing passes any more
        self._error = ""  # recorded when the exchange ends

    def feed_target(self, data: bytes) -> None:
        if not self._is_over:
            self._from_target.feed(data)

    def poll_target(self) -> list[Piece]:
        if self._violation is not None:
            raise self._violation
        pieces: list[Piece] = []
        while True:
            while self._queue:
                piece = self._queue.popleft()
                if isinstance(piece, (Rows, Output)):
                    pieces.append(piece)
                    return pieces
                if isinstance(piece, bytes):
                    self._send_head(pieces)
                pieces.append(piece)
            try:
                if not self._take_frames(pieces):
                    return pieces
            except ProtocolViolation as error:
                # Everything before the violation was valid and is forwarded first.
                if not pieces:
                    raise
                self._violation = error
                return pieces

    def _send_head(self, pieces: list[Piece]) -> None:
        """Add the head that the reader has left to the wire, before the first frames of its body."""
        exchange = self._exchange
        if exchange is None or exchange.is_begun:
            return
        exchange.is_begun = True
        if self._reader is not None and self._reader.head is not None:
            pieces.append(self._head_piece(exchange, self._reader.head))

    def _head_piece(self, exchange: HttpExchange, head: ResponseHead) -> RedactedOutput:
        head = self._with_warnings(head)
        recorded = redact_response(head)
        data = f.response_frame(exchange.number, head)
        return RedactedOutput(data, data if recorded is head else f.recorded_response_frame(exchange.number, recorded))

    def _with_warnings(self, head: ResponseHead) -> ResponseHead:
        if not self._warnings:
            return head
        texts = [_warning_text(warning) for warning in self._warnings[:_MOST_WARNINGS]]
        self._warnings = []
        return head.with_headers((*head.headers, *[(_WARNING_HEADER, text) for text in texts]))

    # Frames of the target

    def _take_frames(self, pieces: list[Piece]) -> bool:
        """Read frames into `pieces` or the queue. Return False if none is complete."""
        exchange = self._exchange
        if self._is_over:
            return False
        if exchange is not None and exchange.response == x.BODY and self._reader is None:
            run = self._from_target.take_run(f.RESPONSE_DATA, exchange.number)
            if run:
                pieces.append(run)
                return True
        frame = self._from_target.next()
        if not frame:
            return False
        if exchange is None or exchange.response in (x.NONE, x.DROPPED):
            raise ProtocolViolation(f"the target sent a frame of kind {frame[0]} that no request waits for")
        if int.from_bytes(frame[1:5], "big") != exchange.number:
            raise ProtocolViolation("the target sent a frame of a different exchange than the running one")
        kind = frame[0]
        if kind == f.FAILED:
            self._fail(exchange, frame)
        elif exchange.response == x.UPGRADED:
            self._take_upgraded(exchange, kind, frame)
        elif exchange.response == x.AWAITED and kind == f.RESPONSE:
            self._begin(exchange, frame)
        elif exchange.response == x.BODY and kind in (f.RESPONSE_DATA, f.RESPONSE_END):
            self._take_body(exchange, kind, frame)
        else:
            raise ProtocolViolation(f"the target sent a frame of kind {kind} at the wrong place")
        return True

    def _begin(self, exchange: HttpExchange, frame: bytes) -> None:
        head = f.read_response(frame[f.HEADER :])
        exchange.status = head.status
        if head.status < 200:
            self._upgrade(exchange, head)
            return
        exchange.response = x.BODY
        read = exchange.require_read()
        try:
            reader = self._dialect.read_response(read, head, self.wants)
            if reader is not None:
                self._reader = reader
                self._queue.extend(reader.begin())
                return
        except ValueError as error:
            self._refuse_body(exchange, error)
            return
        self._queue.append(self._pass_head(exchange, head, frame))

    def _pass_head(self, exchange: HttpExchange, head: ResponseHead, frame: bytes) -> Piece:
        exchange.is_begun = True
        if not self._warnings and redact_response(head) is head:
            return frame
        return self._head_piece(exchange, head)

    def _upgrade(self, exchange: HttpExchange, head: ResponseHead) -> None:
        if head.status != HTTPStatus.SWITCHING_PROTOCOLS or not exchange.head.upgrade:
            raise ProtocolViolation(f"the target sent status {head.status}, which no request asked for")
        exchange.response = x.UPGRADED
        exchange.request = x.RAW
        self._upgraded = self._dialect.read_upgraded(exchange.require_read(), head, self.wants)
        exchange.is_begun = True
        self._queue.append(self._head_piece(exchange, head))

    def _take_body(self, exchange: HttpExchange, kind: int, frame: bytes) -> None:
        reader = self._reader
        try:
            if reader is None:
                self._queue.append(frame)
            elif kind == f.RESPONSE_DATA:
                self._queue.extend(reader.feed(frame[f.HEADER :]))
                return
            else:
                self._queue.extend(reader.finish(f.read_trailers(frame[f.HEADER :])))
        except ValueError as error:
            self._refuse_body(exchange, error)
            return
        if kind == f.RESPONSE_END:
            exchange.response = x.NONE
            self._queue.append(self._make_completed(exchange))

    def _take_upgraded(self, exchange: HttpExchange, kind: int, frame: bytes) -> None:
        if kind == f.RESPONSE_END:
            exchange.response = x.NONE
            self._queue.append(frame)
            self._complete_upgraded(exchange)
            return
        if kind != f.RESPONSE_DATA:
            raise ProtocolViolation(f"the target sent a frame of kind {kind} after 101")
        if self._upgraded is None:
            self._queue.append(frame)
            return
        for piece in self._upgraded.feed_target(frame[f.HEADER :]):
            if isinstance(piece, bytes):
                self._queue.append(f.data_frames(f.RESPONSE_DATA, exchange.number, piece))
            else:
                self._queue.append(piece)

    def _complete_upgraded(self, exchange: HttpExchange) -> None:
        """Record the end of an upgraded connection once both sides have ended it."""
        if exchange.response == x.NONE and exchange.request == x.IDLE:
            self._queue.append(self._make_completed(exchange))

    def _fail(self, exchange: HttpExchange, frame: bytes) -> None:
        failure = f.read_failure(frame[f.HEADER :])
        self._error = f"{failure.code}: {failure.message}"
        self._queue.clear()
        if exchange.is_begun:
            self._queue.append(frame)
            self._is_over = True
        else:
            self._reader = None
            exchange.is_begun = True
            head, body = self._dialect.failure(exchange.require_read(), failure)
            self._queue.append(self._whole_response(exchange, head, body))
        exchange.response = x.NONE
        self._queue.append(self._make_completed(exchange))

    def _whole_response(self, exchange: HttpExchange, head: ResponseHead, body: bytes) -> bytes:
        """Encode a response of the gateway's own."""
        exchange.status = head.status
        number = exchange.number
        data = f.data_frames(f.RESPONSE_DATA, number, body) if head.has_body else b""
        return f.response_frame(number, self._with_warnings(head)) + data + f.end_frame(f.RESPONSE_END, number)

    def _make_completed(self, exchange: HttpExchange) -> Completed:
        status = exchange.status
        code = str(status) if status else ""
        error = self._error
        if not error and status >= HTTPStatus.BAD_REQUEST:
            error = _phrase(status)
        self._error = ""
        return Completed(exchange.number, code, None, code if error else "", error)

    # Decisions

    def render(self, event: Rows | Output) -> bytes:
        data = cast("Encoded", event).encode()
        exchange = self._exchange
        if exchange is not None and exchange.status == HTTPStatus.SWITCHING_PROTOCOLS:
            return f.data_frames(f.RESPONSE_DATA, exchange.number, data)
        if data and exchange is not None and not exchange.is_begun:
            exchange.is_begun = True
            if self._reader is not None and self._reader.head is not None:
                self._preface = self._head_piece(exchange, self._reader.head)
        return data

    def take_preface(self) -> RedactedOutput | None:
        preface, self._preface = self._preface, None
        return preface

    def abort_response(self, event: Rows | Output, refusal: Refuse) -> bytes:
        exchange = self._exchange
        if exchange is None:
            return b""
        if exchange.status == HTTPStatus.SWITCHING_PROTOCOLS and self._upgraded is not None:
            farewell, _ = self._upgraded.close_for(refusal)
            self._queue.clear()
            failure = f.TargetFailure("refused", refusal.message)
            data = f.data_frames(f.RESPONSE_DATA, exchange.number, farewell)
            return data + self._break_off(exchange, failure, refusal.message)
        return self._abort(exchange, refusal)

    def _abort(self, exchange: HttpExchange, refusal: Refuse) -> bytes:
        """Return the frames that end a response which must not be sent, or not in full."""
        is_complete = exchange.response == x.NONE  # of the target; its end is in the queue
        self._queue.clear()
        failure = f.TargetFailure("refused", refusal.message)
        if exchange.is_begun:
            return self._break_off(exchange, failure, refusal.message)
        exchange.is_begun = True
        self._reader = None
        self._error = refusal.message
        head, body = self._dialect.refusal(exchange.require_read(), refusal)
        data = self._whole_response(exchange, head, body)
        if is_complete:
            self._queue.append(self._make_completed(exchange))
            return data
        return data + self._break_off(exchange, failure, refusal.message)

    def _break_off(self, exchange: HttpExchange, failure: f.TargetFailure, error: str) -> bytes:
        """Return FAILED, after which the link is over."""
        self._is_over = True
        self._error = error
        exchange.response = x.DROPPED
        self._queue.append(self._make_completed(exchange))
        return f.failed_frame(exchange.number, failure)

    def _refuse_body(self, exchange: HttpExchange, error: ValueError) -> None:
        """Send a refusal instead of a response whose body cannot be read."""
        refusal = Refuse("inspection", f"the response was blocked: {error}", _UNREADABLE_HINT)
        data = self._abort(exchange, refusal)
        self._queue.appendleft(data)

    def warning_bytes(self, warning: Warn) -> bytes:
        """Return nothing: a warning is a header, if the head was not sent yet."""
        self.queue_warning(warning)
        return b""

    def queue_warning(self, warning: Warn) -> None:
        exchange = self._exchange
        if exchange is None or not exchange.is_begun:
            self._warnings.append(warning)


_UNREADABLE_HINT = "Ask an administrator for a connection whose rules do not inspect this content."


def _warning_text(warning: Warn) -> bytes:
    text = f"{warning.message}. {warning.hint}" if warning.hint else warning.message
    printable = "".join([sign if sign.isprintable() else " " for sign in text[:_LONGEST_WARNING]])
    return printable.encode("ascii", "replace").strip()


def _phrase(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
