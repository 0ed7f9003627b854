"""The steady state of a link: requests of the client, answers of the target, and refusals between them.

Answers come in the order of requests, so that what the client waits for is a queue. The target never hears of a
request that was refused: its answer is a line of the gateway's own, which waits in the same queue for its turn.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

from postern.errors import ProtocolViolation
from postern.interception.events import Channel, Completed, Operation, Output, Rows
from postern.interception.verdicts import Refuse, Warn
from postern.protocols.pantry.pantry_lines import QUIT, Lines, error_line, note_line
from postern.protocols.wire_base import Piece, Request, Wants, Wire

_REQUEST = re.compile(rb"(GET [^ \n]+|SET [^ \n]+ [^\n]*)\n")
_ANSWER = re.compile(rb"(OK|NONE|(VALUE|ERROR|NOTE) [^\n]*)\n")


class PantryRequest(Request):
    __slots__ = ("exchange", "line")

    def __init__(self, exchange: int, line: bytes) -> None:
        super().__init__()
        self.exchange = exchange
        self.line = line
        self.operations.append(Operation(exchange, line[:-1].decode("utf-8", "surrogateescape")))


class AnswerText(Output):
    """An answer that holds text: of a value, an error or a note."""

    def __init__(self, exchange: int, line: bytes) -> None:
        self.exchange = exchange
        self._word, _, self._text = line[:-1].partition(b" ")
        self.channel = Channel.STDOUT if self._word == b"VALUE" else Channel.ERROR

    @property
    def is_note(self) -> bool:
        return self._word == b"NOTE"

    def texts(self) -> list[bytes]:
        return [self._text]

    def replace(self, texts: list[bytes]) -> None:
        (text,) = texts
        self._text = text.replace(b"\n", b" ")

    def become(self, refusal: Refuse) -> None:
        """Say from now on that it was refused."""
        self._word, _, self._text = error_line(refusal.message, refusal.hint)[:-1].partition(b" ")

    def encode(self) -> bytes:
        return self._word + b" " + self._text + b"\n"

    def completed(self) -> Completed:
        """Return the end of the exchange, as the client was told of it."""
        if self._word == b"ERROR":
            return Completed(self.exchange, error_code="ERROR", error=self._text.decode("utf-8", "replace"))
        return Completed(self.exchange, tag=self._word.decode())


@dataclass(frozen=True, slots=True)
class PendingReply:
    """What the client waits for: the target's answer, or a line of the gateway's own."""

    exchange: int
    line: bytes = b""


class PantryWire(Wire):
    """Sizes in bytes."""

    def __init__(self, *, max_message: int) -> None:
        self.wants = Wants()
        self._requests = Lines(max_message)
        self._answers = Lines(max_message)
        self._pending: deque[PendingReply] = deque()
        self._last_text: AnswerText | None = None  # whose end is not told yet
        self._exchange = 0
        self._has_quit = False

    # The client's side

    def feed_client(self, data: bytes) -> None:
        self._requests.feed(data)

    def poll_client(self) -> bytes | Request | None:
        line = self._requests.next()
        if line is None:
            return None
        if self._has_quit:
            raise ProtocolViolation("a request behind QUIT")
        if line == QUIT:
            self._has_quit = True
            return line
        if not _REQUEST.fullmatch(line):
            raise ProtocolViolation("a request that is neither GET, SET nor QUIT")
        self._exchange += 1
        return PantryRequest(self._exchange, line)

    def forward(self, request: Request) -> bytes:
        assert isinstance(request, PantryRequest)
        self._pending.append(PendingReply(request.exchange))
        return request.line

    def reject(self, request: Request, refusal: Refuse) -> bytes:
        assert isinstance(request, PantryRequest)
        self._pending.append(PendingReply(request.exchange, error_line(refusal.message, refusal.hint)))
        return b""

    def queue_warning(self, warning: Warn) -> None:
        self._pending.append(PendingReply(self._exchange, self.warning_bytes(warning)))

    def client_finished(self) -> bytes:
        if self._has_quit or self._requests.rest:  # in the middle of a line it would be read as a part of that
            return b""
        self._has_quit = True
        return QUIT

    # The target's side

    def feed_target(self, data: bytes) -> None:
        self._answers.feed(data)

    def poll_target(self) -> list[Piece]:
        if self._last_text is not None:
            ended, self._last_text = self._last_text.completed(), None
            return [ended]
        pieces: list[Piece] = []
        while not (pieces and isinstance(pieces[-1], Output)):  # it is judged before anything behind it
            if self.has_pending_output:
                pieces.append(self._pending.popleft().line)
            elif (line := self._answers.next()) is not None:
                pieces += self._answer(line)
            else:
                break
        return pieces

    def _answer(self, line: bytes) -> list[Piece]:
        if not _ANSWER.fullmatch(line):
            raise ProtocolViolation("an answer that is neither OK, NONE, VALUE, ERROR nor NOTE")
        if not self._pending:
            raise ProtocolViolation("an answer to nothing")
        text = AnswerText(self._pending[0].exchange, line)
        if not text.is_note:
            self._pending.popleft()
        if not text.texts()[0] or not self.wants.output:
            return [line] if text.is_note else [line, text.completed()]
        if not text.is_note:
            self._last_text = text
        return [text]

    @property
    def has_pending_output(self) -> bool:
        return bool(self._pending) and bool(self._pending[0].line)

    def render(self, event: Rows | Output) -> bytes:
        assert isinstance(event, AnswerText)
        return event.encode()

    def abort_response(self, event: Rows | Output, refusal: Refuse) -> bytes:
        assert isinstance(event, AnswerText)
        if event.is_note:
            return note_line(refusal.message)
        event.become(refusal)
        return event.encode()

    def warning_bytes(self, warning: Warn) -> bytes:
        return note_line(warning.message)

    # The link

    @property
    def awaiting_response(self) -> bool:
        return bool(self._pending)

    def fatal_error(self, message: str, code: str, hint: str = "") -> bytes:
        return error_line(message, hint)

    @property
    def client_terminated(self) -> bool:
        return self._has_quit

    @property
    def partial_message_bytes(self) -> int:
        return 0  # the client is sent whole lines

    @property
    def needs_fatal_error(self) -> bool:
        return not self._has_quit
