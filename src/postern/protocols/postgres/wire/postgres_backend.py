"""The target's half of the wire: matches responses with pending requests, and cuts them into pieces for inspection and
recording.

It makes one pass over each read. Messages that no interceptor needs stay part of one run of bytes. A run ends where a
message must be evaluated, replaced, discarded or preceded by an error of ours. DataRow and CopyData messages that no
interceptor needs are not buffered: their rest passes as it arrives.

    pending request  expected responses
    QUERY           T D C I G H E, then Z
    PARSE BIND CLOSE 1 2 3
    DESCRIBE        t, then T or n
    EXECUTE         D, then C s I E; G or H for COPY
    SYNC            Z
    FUNCTION        V, then Z
    POISON          E (ours, discarded)
    REFUSED         none: we respond
    any, or none    N A S (asynchronous)
"""

from __future__ import annotations

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.interception.events import Completed, Output
from postern.protocols.framing import Intake, uint32
from postern.protocols.postgres.wire import postgres_messages as m
from postern.protocols.postgres.wire.postgres_output import CHANNELS, CopiedLines, PostgresText
from postern.protocols.postgres.wire.postgres_response_queue import (
    ANSWERS,
    EXECUTE,
    FUNCTION,
    POISON,
    QUERY,
    REFUSED,
    REPORTED,
    SYNC,
    PostgresPendingResponse,
    PostgresResponseQueue,
)
from postern.protocols.postgres.wire.postgres_rows import PostgresLayout, PostgresRows, layout_of
from postern.protocols.wire_base import Piece, Wants, Wire

_NO_COLUMNS = b"\0\0"


class PostgresBackend(Wire):
    """The target's half of the wire."""

    def __init__(self, ledger: PostgresResponseQueue, wants: Wants, max_message: int) -> None:
        self.ledger = ledger
        self.wants = wants
        self.max_message = max_message
        self.fatal = False  # the target has sent the client a fatal error
        self.cutting = False  # the rest of this response is discarded
        self._intake = Intake()
        self._start: i64 = 0  # of the run of forwarded bytes, while `_scan` runs
        self._pos: i64 = 0  # … and the next position to parse
        self._need: i64 = 0
        self._passing = 0
        self._swallowing = False  # … and so is the message that is passing
        self._described: bytes | None = None  # the RowDescription of the current simple query's result
        self._layout: PostgresLayout | None = None
        self._layout_of: PostgresPendingResponse | None = None
        self._copy_binary = False
        self._copy_begins = False  # a copy has begun, and no data has arrived
        self._pieces: list[Piece] = []
        # An error that is being evaluated; the recorded completion contains what the client gets.
        self._judged: PostgresText | None = None
        self._violation: ProtocolViolation | None = None
        self._poisoned = False  # the last error was the response to our own POISON

    @property
    def _target_position(self) -> str:
        return m.position(self._intake, self._intake.pos)

    def feed_target(self, data: bytes) -> None:
        self._intake.feed(data)

    @property
    def partial_message_bytes(self) -> int:
        """Return the bytes that the client lacks of the message that is passing."""
        return 0 if self._swallowing else int(self._passing)

    def poll_target(self) -> list[Piece]:
        if self._violation is not None:
            raise self._violation
        pieces: list[Piece] = []
        if self._judged is not None:
            pieces.append(self._judged.make_completed_event())
            self._judged = None
        self._speak(pieces)
        if self._intake.pos == len(self._intake.buf):
            return pieces
        try:
            self._scan(pieces)
        except ProtocolViolation as error:
            # Everything before the violation was valid and is forwarded first.
            if not pieces:
                raise
            self._violation = error
        return pieces

    def _scan(self, pieces: list[Piece]) -> None:
        """Cut the buffer into pieces, up to the first event that must be evaluated, which comes last."""
        intake = self._intake
        buf = intake.buf
        end: i64 = len(buf)
        self._start = intake.pos
        self._pos = self._pass(self._start, end)
        if self._swallowing:
            self._start = self._pos
        self._need = 0
        try:
            while end - self._pos >= 5:
                tag = buf[self._pos]
                if tag in (m.DATA_ROW, m.COPY_DATA, m.FUNCTION_CALL_RESPONSE) and not self._is_evaluated(tag):
                    self._skip(tag, pieces, buf, end)
                elif not self._step(tag, pieces, buf, end):
                    break
        finally:
            _flush(pieces, buf, self._start, self._pos, self._pos)
            intake.pos = self._pos
        if self._need:
            intake.wait(self._need)

    def _pass(self, pos: i64, end: i64) -> i64:
        """Forward the rest of a message that is passing, as far as it has arrived."""
        if not self._passing:
            self._swallowing = False
            return pos
        size = min(self._passing, end - pos)
        self._passing -= size
        return pos + size

    def _skip(self, tag: int, pieces: list[Piece], buf: bytes, end: i64) -> None:
        """Forward data messages of one kind that no interceptor needs, by their headers, without buffering them."""
        pos: i64 = self._pos
        try:
            while end - pos >= 5 and buf[pos] == tag:
                length = uint32(buf, pos + 1)
                if length < 4 or length > 0x7FFFFFFF:
                    raise _offence(tag, f"of length {length}")
                if self.ledger.slots.head is None:
                    raise _offence(tag, "without a pending request")
                after = pos + 1 + length
                if after > end:
                    self._passing = after - end
                    self._swallowing = self.cutting
                    after = end
                if self.cutting:
                    self._start = _flush(pieces, buf, self._start, pos, after)
                pos = after
        finally:
            self._pos = pos
        if tag == m.COPY_DATA:
            self._copy_begins = False

    def _step(self, tag: int, pieces: list[Piece], buf: bytes, end: i64) -> bool:
        """Process a message, or adjacent rows or lines together. Return False if an event must be evaluated first, or
        bytes are missing."""
        pos = self._pos
        length = uint32(buf, pos + 1)
        if length < 4 or length > 0x7FFFFFFF:
            raise _offence(tag, f"of length {length}")
        after = pos + 1 + length
        if length > self.max_message:
            self._too_large(tag, length)
            self._start = _flush(pieces, buf, self._start, pos, pos)
            self._say(pieces)
            return True
        if after > end:
            self._need = 1 + length
            return False
        if not ANSWERS[tag] and (tag == m.DATA_ROW or tag in CHANNELS):
            event, after, is_shown = self._event(tag, buf, pos, after, end)
            if event is not None:
                self._start = _flush(pieces, buf, self._start, pos, after)
                pieces.append(event)
                self._pos = after
                return False
        else:
            is_shown = self._control(tag, buf, pos + 5, after)
        head = self.ledger.slots.head
        if self._pieces or not is_shown or (head is not None and head.kind == REFUSED):
            # Something must be inserted or dropped between this message and the next one.
            self._start = _flush(pieces, buf, self._start, after if is_shown else pos, after)
            self._say(pieces)
        self._pos = after
        return True

    def _say(self, pieces: list[Piece]) -> None:
        """Add what was held for this position, and errors of refusals whose turn has come."""
        pieces.extend(self._pieces)
        self._pieces.clear()
        self._speak(pieces)

    def _too_large(self, tag: int, length: int) -> None:
        """Withhold a value that is too large to be inspected whole."""
        if tag not in (m.DATA_ROW, m.COPY_DATA, m.FUNCTION_CALL_RESPONSE):
            raise _offence(tag, f"of length {length}")
        self._withhold(
            "54000",
            f"a value of {length} bytes is larger than the {self.max_message} bytes that can be inspected",
            "Request less at once, or ask an administrator to raise POSTERN_MAX_STATEMENT.",
        )

    def _withhold(self, code: str, text: str, hint: str) -> None:
        """Send an error instead of a response that cannot be evaluated, and discard the rest of the response."""
        head = self.ledger.slots.head
        self._pieces.append(m.error_response(code, text, hint=hint))
        self._pieces.append(Completed(0 if head is None else head.exchange, error_code=code, error=text))
        self.cutting = True

    def _is_evaluated(self, tag: int) -> bool:
        if self.cutting:
            return False
        return self.wants.rows if tag == m.DATA_ROW else self.wants.output

    def _speak(self, pieces: list[Piece]) -> None:
        """Add the errors of refusals whose turn has come."""
        ledger = self.ledger
        slots = ledger.slots
        slot = slots.head
        while slot is not None and slot.kind == REFUSED:
            slots.popleft()
            if slot.data:
                pieces.append(slot.data)
            if slot.ready:
                pieces.append(m.ready_for_query(ledger.status))
            slot = slots.head

    def _event(
        self, tag: int, buf: bytes, pos: int, after: int, end: int
    ) -> tuple[Output | PostgresRows | None, int, bool]:
        """Parse a message with text. Return the event to evaluate if an interceptor needs it, the end of the message,
        and whether it is forwarded."""
        head = self.ledger.slots.head
        exchange = 0 if head is None else head.exchange
        if tag == m.DATA_ROW:
            return self._rows(buf, pos, end)
        if tag == m.COPY_DATA and not self._copy_binary:
            return self._lines(buf, pos, end)
        text = PostgresText(exchange, tag, buf[pos + 5 : after], self._copy_binary)
        if text.aside:
            # Not part of the response, so it is evaluated even while the response's rest is discarded.
            if tag == m.PARAMETER_STATUS:
                self._parameter(buf, pos + 5, after)
            return text if self.wants.output else None, after, True
        if tag == m.ERROR_RESPONSE:
            return (
                self._error(text) if self._handle_error_response(text) else None,
                after,
                not (self.cutting or self._poisoned),
            )
        if head is None or (tag == m.FUNCTION_CALL_RESPONSE) != (head.kind == FUNCTION):
            raise _offence(tag, "out of order")
        return text, after, True

    def _error(self, text: PostgresText) -> PostgresText | None:
        """Return the error as an event if it is to be evaluated; otherwise record its completion."""
        if self.cutting:
            # The client got another error. This one was not evaluated, so its text is not recorded either.
            self._pieces.append(Completed(text.exchange, error_code=text.make_completed_event().error_code))
        elif self.wants.output:
            self._judged = text
            return text
        else:
            self._pieces.append(text.make_completed_event())
        return None

    def _rows(self, buf: bytes, pos: int, end: int) -> tuple[PostgresRows | None, int, bool]:
        """Return all complete DataRows from `pos` on."""
        slot = self.ledger.slots.head
        if slot is None or slot.kind not in (QUERY, EXECUTE):
            raise ProtocolViolation("the target sent a row without a pending query")
        first, count = pos, 0
        while end - pos >= 5 and buf[pos] == m.DATA_ROW:
            length = uint32(buf, pos + 1)
            if length < 6:
                raise ProtocolViolation(f"the target sent a row of length {length}")
            after = pos + 1 + length
            if after > end or length > self.max_message:
                break
            pos = after
            count += 1
        layout = self._layout_for(slot)
        if layout is None:
            self._withhold(
                "55000",
                "the rules of this connection changed while the response was being sent, so it is withheld",
                "Run the statement again.",
            )
            return None, pos, False
        return PostgresRows(slot.exchange, layout, buf[first:pos], count, slot.began), pos, True

    def _lines(self, buf: bytes, pos: int, end: int) -> tuple[CopiedLines, int, bool]:
        """Return all complete CopyData messages from `pos` on."""
        head = self.ledger.slots.head
        if head is None or head.kind not in (QUERY, EXECUTE):
            raise _offence(m.COPY_DATA, "out of order")
        lines: list[bytes] = []
        while end - pos >= 5 and buf[pos] == m.COPY_DATA:
            length = uint32(buf, pos + 1)
            after = pos + 1 + length
            if length < 4 or after > end or length > self.max_message:
                break
            lines.append(buf[pos + 5 : after])
            pos = after
        first, self._copy_begins = self._copy_begins, False
        return CopiedLines(head.exchange, lines, first, bool(self.ledger.unread)), pos, True

    def _layout_for(self, slot: PostgresPendingResponse) -> PostgresLayout | None:
        """Return the columns of the current rows; None if they were requested before an interceptor needed them."""
        if self._layout is None or self._layout_of is not slot:
            described = self._described if slot.kind == QUERY else slot.described
            if described is None:
                if slot.kind == QUERY:
                    raise ProtocolViolation("the target sent rows without a description")
                return None
            self._layout, self._layout_of = layout_of(described, self.ledger.encoding), slot
        return self._layout

    def _handle_error_response(self, text: PostgresText) -> bool:
        """Handle an ErrorResponse. Return False when it responds to our own POISON."""
        ledger = self.ledger
        slots = ledger.slots
        severity = text.severity
        head = slots.head
        self._poisoned = head is not None and head.kind == POISON and severity == "ERROR"
        if self._poisoned:
            slots.popleft()
            return False
        ledger.copy_in = False
        if severity in ("FATAL", "PANIC") and not self.cutting:
            self.fatal = True
        ledger.fail()
        return True

    def _control(self, tag: int, buf: bytes, pos: int, end: int) -> bool:
        """Handle a message without data of the target. Return False when the client must not see it."""
        ledger = self.ledger
        slots = ledger.slots
        head = slots.head
        is_shown = not self.cutting
        if tag == m.READY_FOR_QUERY:
            self._ready(buf[pos:end], head)
            return True
        if head is None or not ANSWERS[tag] >> head.kind & 1:
            raise _offence(tag, "out of order")
        if tag == m.COMMAND_COMPLETE or tag == m.EMPTY_QUERY_RESPONSE:
            text, rows = m.parse_completion(buf[pos:end]) if tag == m.COMMAND_COMPLETE else ("", None)
            self._pieces.append(Completed(head.exchange, text, rows))
            ledger.doubtful_syncs = 0
            if head.kind == EXECUTE:
                slots.popleft()
        elif tag == m.BIND_COMPLETE or tag == m.PARSE_COMPLETE or tag == m.CLOSE_COMPLETE:
            ledger.complete(slots.popleft())
        elif tag == m.PORTAL_SUSPENDED:
            self._pieces.append(Completed(head.exchange, "PORTAL SUSPENDED"))
            slots.popleft()
        elif tag == m.ROW_DESCRIPTION:
            is_shown = self._describe(head, buf[pos:end]) and is_shown
        elif tag == m.NO_DATA:
            is_shown = self._describe(head, _NO_COLUMNS) and is_shown
        elif tag == m.PARAMETER_DESCRIPTION:
            oids = m.parse_parameter_types(buf, pos, end)
            if head.statement is not None:
                head.statement.types = oids
        elif tag == m.COPY_IN_RESPONSE:
            if self.cutting:
                # The client waits for the end of a response that was refused, while the target waits for data.
                raise ProtocolViolation("the target requested COPY data after a response that was denied")
            ledger.begin_copy_in(head)
        elif tag == m.COPY_OUT_RESPONSE:
            self._copy_binary = end > pos and buf[pos] == 1
            self._copy_begins = True
        return is_shown

    def _parameter(self, buf: bytes, pos: int, end: int) -> None:
        name, pos = m.read_cstring(buf, pos, end)
        if name == b"client_encoding":
            self.ledger.encode(buf[pos : end - 1].decode("ascii", "replace"))
            return
        setting = name.decode("ascii", "replace")
        if setting in REPORTED:
            self.ledger.reported[setting] = buf[pos : end - 1].decode("utf-8", "replace")

    def _describe(self, head: PostgresPendingResponse, body: bytes) -> bool:
        """Store the description for later use; most results are never inspected."""
        if head.kind == QUERY:
            self._described, self._layout = body, None
            return True
        head.described = body
        if head.informs is not None:
            head.informs.described = body
        self.ledger.slots.popleft()
        return not head.hidden

    def _ready(self, status: bytes, head: PostgresPendingResponse | None) -> None:
        ledger = self.ledger
        if head is None and ledger.doubtful_syncs:
            ledger.doubtful_syncs -= 1
            ledger.skipping = False
            ledger.status = status
            return
        if head is None or head.kind not in (QUERY, SYNC, FUNCTION) or len(status) != 1:
            raise ProtocolViolation("the target sent an unexpected ReadyForQuery")
        ledger.slots.popleft()
        ledger.status = status
        ledger.copy_in = False
        self.cutting = False
        self._described = self._layout = self._layout_of = None
        if head.kind == FUNCTION:
            self._pieces.append(Completed(head.exchange, tag="FUNCTION CALL"))
        if status == b"I" and ledger.slots.head is None:
            ledger.portals.clear()


def _offence(tag: int, what: str) -> ProtocolViolation:
    return ProtocolViolation(f"the target sent a message of type {tag:#04x} {what}")


def _flush(pieces: list[Piece], buf: bytes, start: i64, stop: i64, resume: i64) -> i64:
    """End a run of forwarded bytes at `stop`; the next one starts at `resume`."""
    if stop > start:
        pieces.append(buf[start:stop])
    return resume
