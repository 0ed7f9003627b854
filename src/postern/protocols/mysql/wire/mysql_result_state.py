"""The state of the response at the head of the queue, and the meaning of its packets that are not rows.

QUERY EXECUTE   START ─ OK, ERR ──────────────────────────▶ done      done: with MORE_RESULTS back to START
                  │ └── request for a file ─▶ START (once the client has sent it, or at once if it is not allowed)
                  └── count ─▶ COLUMNS ─ EOF ─▶ ROWS ─ EOF, ERR ─▶ done
                                        └─ EOF, and a cursor is open ─▶ done
FETCH           ROWS
FIELDS          COLUMNS ─ EOF ─▶ done
PREPARE         START ─ OK ─▶ COLUMNS (parameters) ─ EOF ─▶ COLUMNS ─ EOF ─▶ done
SIMPLE          START ─ OK, EOF, ERR ─▶ done
STATISTICS      START ─ any ─▶ done
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.interception.events import MAX_ROWS, Completed
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_charsets import UNKNOWN
from postern.protocols.mysql.wire.mysql_headings import ColumnHeading
from postern.protocols.mysql.wire.mysql_output import (
    OF_EOF,
    OF_OK,
    OF_PREPARE,
    ErrorText,
    StatementSummary,
    reports_something,
)
from postern.protocols.mysql.wire.mysql_response_queue import (
    FETCH,
    FIELDS,
    PREPARE,
    QUERY,
    SIMPLE,
    STATISTICS,
    MysqlPendingResponse,
    MysqlResponseQueue,
)
from postern.protocols.mysql.wire.mysql_rows import MysqlLayout, layout_of
from postern.protocols.wire_base import Piece, Reply, Wants, Wire

START: Final = 0
COLUMNS: Final = 1
ROWS: Final = 2

MAX_COLUMNS: Final = 65_536
MAX_DEFINITIONS: Final = 16 << 20  # bytes of one result's definitions; servers have up to 4,096 columns
_UNTIL_EOF: Final = -1  # the number of definitions is unknown until their end


class ResultState(Wire):
    """The state of the response at the head. `local_files`: the target can request files from clients."""

    def __init__(self, ledger: MysqlResponseQueue, wants: Wants, max_message: int, local_files: bool) -> None:
        self.ledger = ledger
        self.wants = wants
        self.max_message = max_message
        self.local_files = local_files
        self.fatal = False  # the target has sent the client an error outside of any response
        self.cutting = False  # the rest of this response is discarded
        self.lets_end = False  # … and ends by itself soon
        self._phase: i64 = START
        self._begun = False  # the response at the head has begun
        self._sequence: i64 = 1  # of the next packet of the target
        self._left: i64 = 0  # column definitions still to come
        self._definitions: list[bytes] = []
        self._defined: i64 = 0  # their bytes
        self._layout: MysqlLayout | None = None  # of these
        self._later: i64 = 0  # PREPARE: definitions of columns after those of parameters
        self._describes_result = False  # PREPARE: the definitions of parameters have arrived
        self._seen: i64 = 0  # rows of this response
        self._affected = 0  # … and the number of affected rows
        self._any_number = False  # the client's own packets precede the next one
        self._tag = ""
        self._pieces: list[Piece] = []
        self.adds_metadata = False  # clients read extended metadata, and the target sends none
        self._defines = False  # the last packet is a column definition
        # The error that is being evaluated; the recorded completion contains what the client gets.
        self._judged: ErrorText | ColumnHeading | StatementSummary | None = None
        self._holds = False  # column definitions are buffered until the last has arrived
        self._held_head = b""  # … and the payload with their number
        self._held_at: i64 = -1  # the id of the first buffered packet, which the client does not have yet
        self._as_text: frozenset[int] = frozenset()  # the columns of this result that the client gets as texts
        self._reports: i64 = 0  # what the last packet may report: see `StatementSummary`

    def _count(self, number: int) -> None:
        """Check the sequence id: each packet of a response has the next one."""
        if self._any_number:
            self._any_number = False
            self._sequence = number
        if number != self._sequence & 0xFF:
            raise ProtocolViolation(f"the target sent a packet with number {number} out of order")
        self._sequence += 1

    def _begin(self, head: MysqlPendingResponse) -> None:
        """Start the response at the head."""
        if not self._begun:
            self._begun = True
            self._sequence = head.first
        if head.kind == FETCH and head.statement is not None:
            self._phase = ROWS
            self._definitions = list(head.statement.definitions)
            self._as_text = head.statement.as_text
            self._layout = None
        elif head.kind == FIELDS:
            self._phase = COLUMNS
            self._left = _UNTIL_EOF

    def _withhold(self, number: int, text: str, hint: str) -> None:
        """Send an error instead of a response that cannot be evaluated, and discard the rest of the response."""
        exchange = self.ledger.slots[0].exchange
        self._pieces.append(m.err(number, m.ER_NET_PACKET_TOO_LARGE, "08S01", text, hint))
        self._pieces.append(Completed(exchange, error_code="08S01", error=text))
        self.cutting = True

    def _control(self, buf: bytes, pos: i64, end: i64) -> bool:
        """Process a packet that is not a row. Return False when the client must not see it."""
        slots = self.ledger.slots
        number: i64 = buf[pos + 3]
        pos += m.HEAD
        if not slots:
            self._handle_unsolicited(buf, pos, end)
            return True
        self._count(number)
        if pos == end:
            raise ProtocolViolation("the target sent an empty packet")
        head = slots[0]
        exchange = head.exchange
        first_number = number + self.ledger.shift
        self._reports = 0
        is_shown = self._take(head, buf, pos, end, number)
        if is_shown and self._reports and self.wants.summaries and reports_something(buf[pos:end], int(self._reports)):
            sequence = int(first_number) & 0xFF
            self._judged = StatementSummary(exchange, buf[pos:end], int(self._reports), sequence, not self._begun)
            return False
        return is_shown

    def _take(self, head: MysqlPendingResponse, buf: bytes, pos: i64, end: i64, number: i64) -> bool:
        """Process a packet of the response at the head. Return False when the client must not see it, or not yet."""
        is_shown = not (self.cutting or head.hidden)
        first: i64 = buf[pos]
        if head.types and first != m.ERR and head.statement is not None and head.types is head.statement.types:
            head.statement.sure = True
        if first == m.ERR and not (self._phase == COLUMNS and self._left > 0):
            return self._handle_error(head, buf[pos:end], number) and is_shown
        if self._phase == ROWS:
            self._reports = OF_EOF
            self._end_result(head, _eof_status(buf, pos, end))
        elif self._phase == COLUMNS:
            return self._column(head, buf, pos, end, number, is_shown)
        elif head.kind == PREPARE:
            self._reports = OF_PREPARE
            self._handle_prepare_ok(head, buf, pos, end)
        elif head.kind == STATISTICS:
            self._finish_response(head)
        elif head.kind == SIMPLE:
            return self._simple(head, buf, pos, end, number) and is_shown
        elif first == m.OK:
            self._affected += m.read_number(buf, pos + 1, end)[0]
            self._reports = OF_OK
            self._end_result(head, m.ok_status(buf, pos, end))
        elif first == m.LOCAL_INFILE:
            return self._file(head, number) and is_shown
        else:
            self._results(buf, pos, end)
            if is_shown and self.wants.headings:
                self._hold(number, buf[pos:end])
                return False
        return is_shown

    def _hold(self, number: i64, head: bytes) -> None:
        """Start to buffer the description of columns, from the packet with this number on."""
        self._holds = True
        self._held_head = head
        self._held_at = (number + self.ledger.shift) & 0xFF

    def _handle_unsolicited(self, buf: bytes, pos: i64, end: i64) -> None:
        """Handle a packet without a pending command: a server that closes a connection can send the reason."""
        if self.fatal or end - pos < 3 or buf[pos] != m.ERR:
            raise ProtocolViolation("the target sent a response without a pending command")
        self.fatal = True

    def _handle_error(self, head: MysqlPendingResponse, payload: bytes, number: i64) -> bool:
        """Handle an ERR packet, which ends the whole response: some of several statements have run."""
        if len(payload) < 3:
            raise ProtocolViolation("the target sent an error without a number")
        ledger = self.ledger
        if head.charset and head.charset != ledger.spoken.now and head.several:
            ledger.speak(UNKNOWN)
        text = ErrorText(head.exchange, payload, int(number + ledger.shift) & 0xFF, ledger.codec)
        if head.hidden:
            if len(ledger.slots) > 1:
                ledger.slots[1].failed = payload
        elif self.cutting:
            # The client got another error. This one was not evaluated, so its text is not recorded either.
            self._pieces.append(Completed(head.exchange, error_code=text.make_completed_event().error_code))
        elif self.wants.output:
            self._judged = text
        else:
            self._pieces.append(text.make_completed_event())
        self._over()
        return not self.wants.output

    def _simple(self, head: MysqlPendingResponse, buf: bytes, pos: i64, end: i64, number: i64) -> bool:
        """Process a simple response. Return False if another packet replaces it."""
        first: i64 = buf[pos]
        if first == m.OK:
            self._reports = OF_OK
            self.ledger.status = m.ok_status(buf, pos, end)
        elif first == m.EOF:
            self._reports = OF_EOF
            self.ledger.status = _eof_status(buf, pos, end)
        else:
            raise ProtocolViolation("the target sent an invalid response to a simple command")
        if head.failed and not head.hidden:
            text = ErrorText(head.exchange, head.failed, int(number + self.ledger.shift) & 0xFF, self.ledger.codec)
            self._pieces += [text.encode(), text.make_completed_event()]
            self._over()
            return False
        self._finish_response(head)
        return True

    def _results(self, buf: bytes, pos: i64, end: i64) -> None:
        count, after = m.read_lenenc(buf, pos, end)
        if after != end or not 0 < count <= MAX_COLUMNS:
            raise ProtocolViolation("the target sent a result without its number of columns")
        self._left = count
        self._definitions = []
        self._defined = 0
        self._layout = None
        self._phase = COLUMNS

    def _handle_prepare_ok(self, head: MysqlPendingResponse, buf: bytes, pos: i64, end: i64) -> None:
        if end - pos < 12 or buf[pos] != m.OK or head.statement is None:
            raise ProtocolViolation("the target sent an invalid response to COM_STMT_PREPARE")
        columns = m.uint16(buf, pos + 5)
        head.statement.count = int(m.uint16(buf, pos + 7))
        if not self.ledger.resets:  # otherwise the target has forgotten it by then
            self.ledger.remember(int(m.uint32(buf, pos + 1)), head.statement)
        self._later = columns
        self._left = head.statement.count
        self._phase = COLUMNS
        self._describes_result = False
        self._defined = 0
        if not self._left:
            self._next_columns(head)

    def _next_columns(self, head: MysqlPendingResponse) -> None:
        """Start the definitions of columns of a prepared statement, which follow those of parameters, if there
        are any."""
        self._left, self._later = self._later, 0
        self._describes_result = True
        if not self._left:
            self._tag = "PREPARE"
            self._finish_response(head)

    def _column(self, head: MysqlPendingResponse, buf: bytes, pos: i64, end: i64, number: i64, is_shown: bool) -> bool:
        """Process a column definition, or the end of them. Return False when the client must not see it, or not yet."""
        self._defines = self._left > 0 or (self._left == _UNTIL_EOF and not (buf[pos] == m.EOF and end - pos < 9))
        if self._left > 0:
            self._left -= 1
            if head.kind == PREPARE and not self._holds and self._describes_result and is_shown and self.wants.headings:
                self._hold(number, b"")
            if head.kind != PREPARE or self._holds:
                self._defined += end - pos
                if self._defined > MAX_DEFINITIONS:
                    raise ProtocolViolation(f"the target describes its columns in more than {MAX_DEFINITIONS} bytes")
                self._definitions.append(buf[pos:end])
            if not self._holds:
                return is_shown
            if not self._left:
                self._judged = self._heading(head)
            return False
        if self._defines:
            return is_shown
        self._reports = OF_EOF
        status = _eof_status(buf, pos, end)
        if head.kind == PREPARE:
            self._next_columns(head)
            return is_shown
        self.ledger.status = status
        if head.kind == FIELDS:
            self._finish_response(head)
            return is_shown
        if head.cursor and status & m.CURSOR_EXISTS and head.statement is not None:
            self.ledger.describe(head.statement, tuple(self._definitions))
            head.statement.as_text = self._as_text
            self._end_result(head, status)
            return is_shown
        self._phase = ROWS
        return is_shown

    def _heading(self, head: MysqlPendingResponse) -> ColumnHeading:
        """Return the description of a result, which is complete now."""
        self._holds = False
        prepared = head.statement.text if head.kind == PREPARE and head.statement is not None else ""
        layout = layout_of(tuple(self._definitions), head.kind != QUERY, self.ledger.codec)
        return ColumnHeading(
            head.exchange,
            layout,
            self._held_head,
            self._definitions.copy(),
            int(self._held_at),
            prepared,
            may_fetch=head.cursor,
            adds_metadata=self.adds_metadata,
        )

    def _file(self, head: MysqlPendingResponse, number: i64) -> bool:
        """Handle the target's request for a file. It gets an empty one if files are not allowed."""
        slots = self.ledger.slots
        if len(slots) > 1 and self.ledger.owes_behind:
            raise ProtocolViolation("the target requested a file, but the client has already sent further commands")
        if self.local_files and not self.cutting and not head.hidden:
            self.ledger.file_wanted = True
            self.ledger.behind_file = int(self._sequence)
            self._any_number = True
            return True
        self._pieces.append(Reply(m.packet(int(number) + 1, b"")))
        self._sequence += 1
        self.lets_end = True
        if not self.cutting:
            text = "loading files of the client is disabled on this connection"
            hint = "Send the rows as statements, or ask an administrator to set POSTERN_MYSQL_LOCAL_FILES."
            data = m.err(int(number + self.ledger.shift) & 0xFF, m.ER_LOCAL_REFUSED, m.LOCAL_STATE, text, hint)
            self._pieces += [data, Completed(head.exchange, error_code=m.LOCAL_STATE, error=text)]
            self.cutting = True
        return False

    def _end_result(self, head: MysqlPendingResponse, status: i64) -> None:
        """Handle the end of a result; others may follow."""
        self.ledger.status = int(status)
        if status & m.MORE_RESULTS and head.kind != FETCH:
            self._phase = START
            self._definitions = []
            self._as_text = frozenset()
            return
        self._finish_response(head)

    def _finish_response(self, head: MysqlPendingResponse) -> None:
        """Finish a successful response."""
        if head.exchange and not head.hidden and not self.lets_end:
            rows = int(self._seen) if self._phase == ROWS or self._seen else min(self._affected, MAX_ROWS)
            self._pieces.append(Completed(head.exchange, self._tag or "OK", rows))
        ledger = self.ledger
        if head.charset:
            ledger.speak(head.charset)
        if head.keeps and not ledger.owes_behind:  # which may have changed it already
            ledger.spoken.keep(head.keeps)
        if head.resets:
            ledger.spoken.kept.clear()
            ledger.speak(ledger.spoken.first)
            ledger.forget_statements()
        self._over()

    def _over(self) -> None:
        """Start the next response."""
        self.ledger.over()
        self.ledger.shift = 0
        self.cutting = self.lets_end = False
        self._phase = START
        self._begun = False
        self._sequence = 1
        self._seen = 0
        self._affected = 0
        self._tag = ""
        self._definitions = []
        self._as_text = frozenset()


def _eof_status(buf: bytes, pos: i64, end: i64) -> i64:
    if buf[pos] != m.EOF or end - pos != 5:
        raise ProtocolViolation("the target did not end the result")
    return m.uint16(buf, pos + 3)
