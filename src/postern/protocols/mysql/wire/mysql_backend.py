"""The target's half of the wire: matches responses with pending commands, and cuts them into pieces for inspection and
recording.

It makes one pass over each read, from header to header. Packets that no interceptor needs stay part of one run of
bytes. A run ends where a packet must be evaluated, replaced, discarded or preceded by an error of ours. Rows that no
interceptor needs are not buffered. `mysql_result_state` tracks the response at the head.

Sequence ids run through all packets of a response. If the gateway has dropped or inserted packets, later ones get other
ids (`MysqlResponseQueue.shift`), and pass one by one.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.protocols.framing import Intake
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_headings import ColumnHeading
from postern.protocols.mysql.wire.mysql_output import ErrorText, StatementSummary
from postern.protocols.mysql.wire.mysql_response_queue import (
    NAMES,
    QUERY,
    REFUSED,
    MysqlPendingResponse,
    MysqlResponseQueue,
)
from postern.protocols.mysql.wire.mysql_result_state import ROWS, START, ResultState
from postern.protocols.mysql.wire.mysql_rows import MysqlLayout, MysqlRows, layout_of
from postern.protocols.wire_base import Piece, Wants

# Maximum size of packets other than rows: definitions, errors, file names. Servers send a few hundred bytes.
MAX_CONTROL: Final = 1 << 20
# Within a payload that continues in another packet, the client could not be sent an error.
_ENDLESS: Final = 1 << 40
_PHASES: Final = ("its start", "its columns", "its rows")


class MysqlBackend(ResultState):
    """The target's half of the wire. `local_files`: the target can request files from clients."""

    def __init__(self, ledger: MysqlResponseQueue, wants: Wants, max_message: int, local_files: bool) -> None:
        super().__init__(ledger, wants, max_message, local_files)
        self._intake = Intake()
        self._passing: i64 = 0
        self._goes_on = False  # the payload continues in the next packet
        self._swallowing = False  # the packet that is passing is discarded
        self._start: i64 = 0  # of the run of forwarded bytes, while `_scan` runs
        self._pos: i64 = 0  # … and the next position to parse
        self._need: i64 = 0
        self._violation: ProtocolViolation | None = None
        self._given: MysqlRows | None = None  # rows that are being evaluated: the client does not have them yet

    @property
    def _target_position(self) -> str:
        buf, at = self._intake.buf, int(self._intake.pos)
        where = f"packet number {buf[at + 3]} of {m.uint24(buf, at)} bytes " if len(buf) - at >= m.HEAD else ""
        slots = self.ledger.slots
        if not slots:
            return f"{where}at byte {self._intake.first + at}, with no pending response"
        phase = _PHASES[int(self._phase)]
        return f"{where}at byte {self._intake.first + at}, in the response to {NAMES[slots[0].kind]} ({phase})"

    def feed_target(self, data: bytes) -> None:
        self._intake.feed(data)

    @property
    def partial_message_bytes(self) -> int:
        """Return the bytes that the client lacks of the payload that is passing."""
        if self._swallowing:
            return 0
        return _ENDLESS if self._goes_on else int(self._passing)

    @property
    def next_sequence(self) -> int:
        """Return the sequence id that the client expects next: of the pending response, or of its next command."""
        if self._given is not None:
            return self._given.sequence & 0xFF
        if self._held_at >= 0 and not self.cutting:
            return int(self._held_at)
        is_head = True
        for slot in self.ledger.slots:
            is_skipped = slot.hidden or (is_head and self.cutting)  # the client waits for the response after that one
            if not is_skipped:
                if not is_head:
                    return slot.first & 0xFF
                return (self._next_of(slot) + self.ledger.shift) & 0xFF
            is_head = False
        return 1

    def _next_of(self, head: MysqlPendingResponse) -> int:
        if not self._begun:
            return head.first
        return self.ledger.behind_file if self._any_number else int(self._sequence)

    def poll_target(self) -> list[Piece]:
        if self._violation is not None:
            raise self._violation
        self._given = None
        pieces: list[Piece] = []
        if self._judged is not None:
            self._continue_after_decision(self._judged, pieces)
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

    def _continue_after_decision(
        self, judged: ErrorText | ColumnHeading | StatementSummary, pieces: list[Piece]
    ) -> None:
        """Continue after the evaluation of a response without rows."""
        if isinstance(judged, ErrorText):
            pieces.append(judged.make_completed_event())
        elif isinstance(judged, ColumnHeading):
            self._as_text = judged.as_text
            self._held_at = -1
        pieces.extend(self._pieces)
        self._pieces.clear()

    def _speak(self, pieces: list[Piece]) -> None:
        """Add errors of refusals whose turn has come, and packets that precede the next response."""
        ledger = self.ledger
        slots = ledger.slots
        while slots and (slots[0].kind == REFUSED or slots[0].data):
            slot = slots[0]
            pieces.append(slot.data)
            if slot.kind != REFUSED:
                slot.data = b""
                ledger.shift = slot.shift
                return
            ledger.over()

    def _scan(self, pieces: list[Piece]) -> None:
        """Cut the buffer into pieces, up to the first event that must be evaluated, which comes last."""
        intake = self._intake
        buf = intake.buf
        end: i64 = len(buf)
        self._start = self._pos = intake.pos
        self._need = 0
        try:
            while end > self._pos and self._step(pieces, buf, end):
                pass
        finally:
            _flush(pieces, buf, self._start, self._pos, self._pos)
            intake.pos = self._pos
        if self._need:
            intake.wait(self._need)

    def _step(self, pieces: list[Piece], buf: bytes, end: i64) -> bool:
        """Process a packet, or the rest of one, or rows. Return False if an event must be evaluated first, or bytes are
        missing."""
        if self._passing:
            self._pos = self._pass(self._pos, end)
            if self._swallowing:
                self._start = self._pos
            return True
        if end - self._pos < m.HEAD:
            return False
        slots = self.ledger.slots
        if self._phase == START and slots and not self._goes_on:
            self._begin(slots[0])
        if self._phase == ROWS or self._goes_on:
            if self._quiet:
                self._pos = self._skip(buf, self._pos, end)
                if self._passing or self._goes_on:
                    return True
            elif self._goes_on or self._is_row(buf, self._pos, end):
                return self._take_rows(pieces, buf, end)
            # The first byte of a packet tells whether it is a row.
            if end - self._pos < m.HEAD or (end - self._pos == m.HEAD and m.uint24(buf, self._pos)):
                return False
        return self._take_packet(pieces, buf, end)

    def _take_rows(self, pieces: list[Piece], buf: bytes, end: i64) -> bool:
        """Take all complete rows for evaluation, or the header of an incomplete one. Returns as `_step`."""
        pos = self._pos
        if not self.wants.rows or self.cutting or self._goes_on:
            self._start = self._open(pieces, buf, self._start, pos)
            self._pos = pos + m.HEAD
            return True
        event, after = self._events(buf, pos, end)
        self._start = _flush(pieces, buf, self._start, pos, after)
        self._pos = after
        if event is not None:
            self._given = event
            pieces.append(event)
            return False
        if not self.cutting:
            return False
        pieces.extend(self._pieces)
        self._pieces.clear()
        return True

    def _take_packet(self, pieces: list[Piece], buf: bytes, end: i64) -> bool:
        """Process a packet that is not a row. Returns as `_step`."""
        pos = self._pos
        size = m.uint24(buf, pos)
        if size > MAX_CONTROL:
            raise ProtocolViolation(f"the target sent a packet of {size} bytes that is not a row")
        after = pos + m.HEAD + size
        if after > end:
            self._need = m.HEAD + size
            return False
        self._show(pieces, buf, pos, after)
        self._pos = after
        slots = self.ledger.slots
        if self._judged is not None:
            self._start = _flush(pieces, buf, self._start, after, after)
            pieces.append(self._judged)
            return False
        if self._pieces or (slots and (slots[0].kind == REFUSED or slots[0].data)):
            self._start = _flush(pieces, buf, self._start, after, after)
            pieces.extend(self._pieces)
            self._pieces.clear()
            self._speak(pieces)
        return True

    def _show(self, pieces: list[Piece], buf: bytes, pos: i64, after: i64) -> None:
        """Forward the packet as part of the run, or drop it, or replace it."""
        shift = self.ledger.shift
        self._defines = False
        is_shown = self._control_with_rollback(buf, pos, after)
        if is_shown and self._defines and self.adds_metadata:
            self._start = _flush(pieces, buf, self._start, pos, after)
            number = int(buf[pos + 3]) + shift
            pieces.append(m.packet(number, m.with_no_metadata(buf[pos + m.HEAD : after])))
        elif not is_shown:
            self._start = _flush(pieces, buf, self._start, pos, after)
        elif shift:
            self._start = _flush(pieces, buf, self._start, pos, pos + m.HEAD)
            pieces.append(_renumber_header(buf, pos, shift))

    def _control_with_rollback(self, buf: bytes, pos: i64, after: i64) -> bool:
        """Process as `_control` does. A packet that violates the protocol is not forwarded, so its id stays the next
        one."""
        sequence: i64 = self._sequence
        any_number = self._any_number
        try:
            return self._control(buf, pos, after)
        except ProtocolViolation:
            self._sequence = sequence
            self._any_number = any_number
            raise

    # Rows

    @property
    def _quiet(self) -> bool:
        """Return True if rows pass unchanged."""
        return not (self.wants.rows or self.cutting or self.ledger.shift or self._goes_on)

    def _pass(self, pos: i64, end: i64) -> i64:
        """Forward the rest of a packet that is passing, as far as it has arrived."""
        size: i64 = min(self._passing, end - pos)
        self._passing -= size
        return pos + size

    def _skip(self, buf: bytes, pos: i64, end: i64) -> i64:
        """Skip rows by their headers alone, up to a packet that is not a row."""
        sequence: i64 = self._sequence
        seen: i64 = 0
        while end - pos > m.HEAD:
            size = m.uint24(buf, pos)
            first: i64 = buf[pos + 4]
            number: i64 = buf[pos + 3]
            if not size or number != sequence & 0xFF or (first >= m.EOF and (first == m.ERR or size < 9)):
                break
            sequence += 1
            seen += 1
            pos += m.HEAD + size
            if pos > end or size == m.MAX_PAYLOAD:
                self._goes_on = size == m.MAX_PAYLOAD
                if pos > end:
                    self._passing = pos - end
                    pos = end
                break
        self._sequence = sequence
        self._seen += seen
        self._swallowing = False
        return pos

    def _is_row(self, buf: bytes, pos: i64, end: i64) -> bool:
        """Return True if a row begins here, as far as the buffer shows."""
        if end - pos <= m.HEAD:
            return False
        first: i64 = buf[pos + m.HEAD]
        size = m.uint24(buf, pos)
        return size > 0 and (first < m.EOF or (first == m.EOF and size >= 9))

    def _open(self, pieces: list[Piece], buf: bytes, start: i64, pos: i64) -> i64:
        """Process the header of a packet that passes or is discarded. Return the start of the run of forwarded
        bytes."""
        size = m.uint24(buf, pos)
        self._count(buf[pos + 3])
        if not self._goes_on:
            self._seen += 1
        self._goes_on = size == m.MAX_PAYLOAD
        self._passing = size
        self._swallowing = self.cutting
        if self.cutting:
            return _flush(pieces, buf, start, pos, pos + m.HEAD)
        if self.ledger.shift:
            start = _flush(pieces, buf, start, pos, pos + m.HEAD)
            pieces.append(_renumber_header(buf, pos, self.ledger.shift))
        return start

    def _events(self, buf: bytes, pos: i64, end: i64) -> tuple[MysqlRows | None, i64]:
        """Return all complete rows from `pos` on. None if the first is incomplete, and `_need` is the number of bytes
        required; or if it is too large, and an error has replaced it."""
        slot = self.ledger.slots[0]
        layout = self._layout_of(slot)
        first = pos
        number = (int(self._sequence) + self.ledger.shift) & 0xFF
        count: i64 = 0
        while end - pos > m.HEAD:
            size = m.uint24(buf, pos)
            begins: i64 = buf[pos + m.HEAD]
            if not size or size == m.MAX_PAYLOAD or end - pos < m.HEAD + size:
                break
            if begins >= m.EOF and (begins == m.ERR or size < 9):
                break
            if self._any_number or buf[pos + 3] != (self._sequence + count) & 0xFF:
                break
            count += 1
            pos += m.HEAD + size
        if count:
            self._sequence += count
            self._seen += count
            raw = buf[first:pos]
            return MysqlRows(
                slot.exchange, layout, raw, int(count), number, slot.began, whole=None, as_text=self._as_text
            ), pos
        whole = self._long_row(buf, pos, end)
        if not whole:
            return None, pos
        if whole < 0:
            self._withhold(
                number,
                f"a row is larger than the {self.max_message} bytes that can be inspected",
                "Request less at once, or ask an administrator to raise POSTERN_MAX_STATEMENT.",
            )
            return None, pos
        raw = buf[first : first + whole]
        while pos < first + whole:
            self._count(buf[pos + 3])
            pos += m.HEAD + m.uint24(buf, pos)
        (packet,) = m.MysqlPackets(len(raw)).feed(raw)
        self._seen += 1
        packets = m.packets_of(len(packet.payload))
        return MysqlRows(
            slot.exchange, layout, raw, packets, number, slot.began, whole=packet.payload, as_text=self._as_text
        ), pos

    def _layout_of(self, slot: MysqlPendingResponse) -> MysqlLayout:
        if self._layout is None:
            self._layout = layout_of(tuple(self._definitions), slot.kind != QUERY, self.ledger.codec)
        return self._layout

    def _long_row(self, buf: bytes, pos: i64, end: i64) -> i64:
        """Return the length of a row with all its packets; 0 if it is incomplete, -1 if it is too large."""
        whole: i64 = 0
        while True:
            if end - pos < whole + m.HEAD:
                self._need = whole + m.HEAD
                return 0
            size = m.uint24(buf, pos + whole)
            whole += m.HEAD + size
            if whole > self.max_message:
                return -1
            if size != m.MAX_PAYLOAD:
                break
        if end - pos < whole:
            self._need = whole
            return 0
        return whole


def _renumber_header(buf: bytes, pos: i64, shift: int) -> bytes:
    """Return a header with the sequence id that the client expects."""
    return buf[pos : pos + 3] + ((buf[pos + 3] + shift) & 0xFF).to_bytes(1, "little")


def _flush(pieces: list[Piece], buf: bytes, start: i64, stop: i64, resume: i64) -> i64:
    """End a run of forwarded bytes at `stop`; the next one starts at `resume`."""
    if stop > start:
        pieces.append(buf[start:stop])
    return resume
