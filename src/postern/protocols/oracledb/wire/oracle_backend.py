"""The target's half of the wire: reads answers message by message, and cuts them into pieces for inspection and
recording.

The bodies of DATA packets are joined to a stream of TTC. What is passed on goes into packets of the gateway's own, so a
client gets no packet of the target. A message is passed on once it has arrived as a whole; only data of LOBs that no
interceptor needs is passed on in parts.

    markers:   target ─ break ▶ client ─ reset ▶ target ─ reset ▶ client, then the answer ends with an error
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.interception.events import MAX_ROWS, Completed, Paused
from postern.interception.verdicts import Refuse
from postern.protocols.oracledb.native_encryption.native_failures import failure_text
from postern.protocols.oracledb.wire import tns_packets as tns
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.oracle_answers import (
    OraclePendingAnswer,
    described_columns,
    read_answer_message,
    read_bit_vector,
    read_out_values,
    read_row_header,
    store_nested,
)
from postern.protocols.oracledb.wire.oracle_cursors import OracleCursors
from postern.protocols.oracledb.wire.oracle_headings import OracleHeading
from postern.protocols.oracledb.wire.oracle_lobs import (
    LobOrigin,
    LobRows,
    LobValue,
    OracleLocators,
    codec_of_lob,
)
from postern.protocols.oracledb.wire.oracle_notes import AnswerNote
from postern.protocols.oracledb.wire.oracle_output import (
    LobText,
    OracleErrorText,
    OracleWarning,
    read_error,
    refusal_error,
)
from postern.protocols.oracledb.wire.oracle_rows import OracleRows, RowLayout, complete_row, walk_row
from postern.protocols.oracledb.wire.ttc_buffers import LONG, TtcIncomplete, TtcReader
from postern.protocols.oracledb.wire.ttc_calls import LobCall, OracleCall
from postern.protocols.oracledb.wire.ttc_columns import NestedCursor
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout
from postern.protocols.wire_base import Piece, RedactedOutput, Wants, Wire

_MAX_CONTROL: Final = 64  # bytes of a CONTROL packet
# Within data of a LOB that passes in parts, the client could not be sent an error.
_ENDLESS: Final = 1 << 40
_MAX_COMPLETED: Final = 1 << 20  # bytes: few bytes of a target can stand for many
_ROW: Final = bytes((c.ROW_DATA,))


class OpenResult:
    """A result that the client can read on, all of which is one exchange. `stays`: it has large objects or cursors, so
    it stays open until the client does something else."""

    __slots__ = ("exchange", "rows", "stays", "tag")

    def __init__(self, exchange: int, tag: str) -> None:
        self.exchange = exchange
        self.tag = tag
        self.rows: int | None = None
        self.stays = False


class OracleBackend(Wire):
    """The target's half. `sdu` is the size of packets for the client."""

    def __init__(self, layout: TtcLayout, wants: Wants, max_message: int, sdu: int) -> None:
        self.layout = layout
        self.wants = wants
        self.max_message = max_message
        self.sdu = sdu
        self.cursors = OracleCursors()
        self.locators = OracleLocators()
        self.open_result: OpenResult | None = None
        self.answer: OraclePendingAnswer | None = None
        self.status = 0  # the flags of the last call
        self.sequence = 0  # the number of the last call
        self.cutting = False  # the rest of this answer is discarded
        self.refusal: Refuse | None = None  # the client gets it as an error at the end of the answer that is discarded
        self.has_more_rows = False  # of the last query, as its last answer said
        self.interrupts = 0  # breaks of the client that reached the target, and have had no effect yet
        self.resets_owed = 0  # markers of the target that the client answers
        self.pieces: list[Piece] = []  # the gateway's own output
        self._packets = tns.TnsReader("target", True, tns.MAX_SDU)
        self._waiting: tns.TnsPacket | None = None  # a packet behind data that is read first
        self._buf = b""
        self._pos = 0
        self._need = 1  # bytes of `_buf` behind `_pos` without which there is nothing to read
        self._out: list[bytes] = []
        self._kept: list[bytes] = []  # what the recording has of it
        self._preface = b""  # what the recording has before the event that is judged
        self._resetting = False  # data is discarded up to the target's reset
        self._chunk_left = 0  # bytes of a chunk of a LOB that passes
        self._in_chunks = False
        self._lob: list[bytes] | None = None  # its chunks, where they are collected
        self._lob_size = 0
        self._judged: OracleErrorText | None = None
        self._headed = False  # the description in the next message has been judged
        self._violation: ProtocolViolation | None = None

    def feed_target(self, data: bytes) -> None:
        self._packets.feed(data)

    @property
    def partial_message_bytes(self) -> int:
        return _ENDLESS if self._in_chunks and self._lob is None and not self.cutting else 0

    @property
    def target_position(self) -> str:
        function = 0 if self.answer is None else self.answer.call.function
        name = c.FUNCTION_NAMES.get(function, str(function))
        owed = f"in the answer to {name}" if self.answer is not None else "with no pending answer"
        kind = self._buf[self._pos] if self._pos < len(self._buf) else -1
        return f"{self._packets.position}, {owed}, at a message of type {kind}"

    @property
    def next_sequence(self) -> int:
        """Return the number of the call that is pending, or the next one of the client."""
        if self.answer is not None:
            return self.answer.call.sequence
        return self.sequence % 255 + 1 if self.sequence else 0

    def expect_answer(self, call: OracleCall) -> None:
        """The target owes the answer to this call."""
        cursor = call.statement
        self.sequence = call.sequence
        lob = call.lob
        if lob is not None and lob.operation & ~c.LOB_ARRAY == c.LOB_FREE_TEMPORARY:
            self.locators.forget(lob.source)
        if call.executes and not call.continues:
            self.locators.forget_temporary()
            for locator in call.locators:
                self.locators.forget(locator)
        if cursor is not None:
            if (call.executes and call.exchange and call.options & c.OPTION_EXECUTE) or call.function == c.REEXECUTE:
                cursor.began = call.exchange
            if call.binds is not None:
                cursor.binds = call.binds
            if call.defines is not None and cursor.described:
                cursor.define(call.defines)
        self.answer = OraclePendingAnswer(call, self.layout)

    def poll_target(self) -> list[Piece]:
        pieces = self.pieces
        self.pieces = []
        if self._judged is not None:
            assert self.answer is not None
            self._report_error(self.answer, self._judged, pieces)
            self._judged = None
            self._finish()
        if self._violation is not None:
            if pieces:
                return pieces
            raise self._violation
        try:
            while self._step(pieces):
                pass
        except ProtocolViolation as error:
            # Everything before the violation was valid and is passed on first.
            self._flush(pieces)
            if not pieces:
                raise
            self._violation = error
        if not pieces:
            pieces, self.pieces = self.pieces, pieces
        return pieces

    def cut(self, refusal: Refuse) -> None:
        """Discard the rest of the answer. The client gets the error at its end, so that it sends no call before."""
        self.cutting = True
        self.refusal = refusal
        if self.answer is not None and self.answer.call.continues:
            self.open_result = None

    def _step(self, pieces: list[Piece]) -> bool:
        """Read one message, or a block of rows. Return False if an event must be evaluated first, or bytes are
        missing."""
        if len(self._buf) - self._pos < self._need and not self._fill(pieces):
            self._flush(pieces)
            return False
        if self._resetting:
            self._pos = len(self._buf)
            return True
        try:
            return self._read(pieces)
        except TtcIncomplete as missing:
            self._need = max(missing.size - self._pos, len(self._buf) - self._pos + 1)
            if self._need > self.max_message:
                raise ProtocolViolation(
                    f"the target sent a message of more than {self.max_message} bytes, which cannot be inspected"
                ) from None
            return True

    def _fill(self, pieces: list[Piece]) -> bool:
        """Take what packets have arrived, up to one that is not data. Return False if that is nothing."""
        bodies: list[bytes] = []
        while True:
            packet = self._waiting or self._packets.read()
            self._waiting = None
            if packet is None:
                break
            if packet.type == tns.DATA:
                bodies.append(packet.body)
                continue
            if bodies:
                self._waiting = packet
                break
            self._take_packet(packet, pieces)
        if not bodies:
            return False
        self._buf = b"".join([self._buf[self._pos :], *bodies])
        self._pos = 0
        return len(self._buf) >= self._need or self._waiting is not None

    def _take_packet(self, packet: tns.TnsPacket, pieces: list[Piece]) -> None:
        """Process a packet other than DATA."""
        self._flush(pieces)
        if packet.type == tns.CONTROL and len(packet.body) <= _MAX_CONTROL:
            pieces.append(tns.packet(tns.CONTROL, packet.body, large=True))
            return
        if packet.type == tns.FAILURE:
            raise ProtocolViolation(failure_text(packet.body))
        if packet.type != tns.MARKER or not packet.marker:
            raise ProtocolViolation(f"the target sent a packet of type {packet.type} in the middle of a session")
        self._buf = b""  # what had arrived of a message is void
        self._pos = 0
        self._need = 1
        self._in_chunks = False
        self._lob = None
        self._resetting = packet.marker != tns.RESET
        if self.answer is None:
            if not self.interrupts:
                raise ProtocolViolation("the target sent a marker without a call")
            self.answer = OraclePendingAnswer(OracleCall(c.PING), self.layout)
        self.interrupts = 0
        # After a break, the answer has an error alone.
        self.cutting = False
        self.refusal = None
        if self._resetting:
            self.resets_owed += 1
        pieces.append(tns.marker(packet.marker))

    def _emit(self, data: bytes) -> None:
        """Pass on what the recording does not need."""
        if not self.cutting:
            self._out.append(data)

    def _emit_recorded(self, data: bytes, answer: OraclePendingAnswer) -> None:
        if not self.cutting:
            self._out.append(data)
            self._keep(self._note(answer), data)

    def _keep(self, note: bytes, data: bytes) -> None:
        if note:
            self._kept.append(note)
        self._kept.append(tns.data_packets(data, self.sdu))

    def _note(self, answer: OraclePendingAnswer) -> bytes:
        """Return the note for the recording, if the answer has none for these columns yet."""
        layout = answer.row_layout if answer.fetches else None
        if answer.is_noted and answer.noted is layout:
            return b""
        answer.is_noted = True
        answer.noted = layout
        lob = answer.call.lob
        note = AnswerNote(
            self.layout,
            answer.tag,
            () if layout is None else layout.oracle,
            (),
            "" if lob is None else codec_of_lob(lob.source),
            answer.call.function == c.FETCH,
        )
        return note.encode()

    def take_preface(self) -> RedactedOutput | None:
        data = self._preface
        self._preface = b""
        return RedactedOutput(b"", data) if data else None

    def _flush(self, pieces: list[Piece]) -> None:
        if self._out:
            pieces.append(RedactedOutput(tns.data_packets(b"".join(self._out), self.sdu), b"".join(self._kept)))
            self._out = []
            self._kept = []

    def _read(self, pieces: list[Piece]) -> bool:
        buf, start = self._buf, self._pos
        answer = self.answer
        if answer is None:
            raise ProtocolViolation("the target sent an answer without a call")
        if self._in_chunks:
            return self._read_chunk(answer, pieces)
        kind = buf[start]
        headed = self._headed
        self._headed = False
        if self.wants.headings and not headed and not self.cutting and self._judge_heading(kind, answer, pieces):
            return False
        if kind == c.ROW_DATA:
            return self._read_rows(answer, pieces)
        reader = TtcReader(buf, start + 1)
        if kind == c.ERROR:
            return self._read_error(reader, answer, pieces)
        if kind == c.LOB_DATA:
            return self._read_lob(reader, answer, pieces)
        if kind == c.STATUS:
            status = reader.ub4()
            reader.ub2()
            self.status = status
            self._pass_recorded(reader, answer)
            self._flush(pieces)
            self._report_end(answer, self._rows_of(answer, 0), pieces, has_more=False)
            self._finish()
            return True
        if kind == c.WARNING:
            return self._read_warning(reader, answer, pieces)
        if kind == c.ROW_HEADER:
            vector, after = read_row_header(reader, answer)
            # The gateway sends all values of each row, so there is no bit vector for the client.
            self._emit(b"".join([buf[start:vector], b"\0", buf[after : reader.pos]]))
            self._move_on(reader)
            return True
        read_answer_message(kind, reader, answer, self.layout, self.cursors)
        lob = answer.call.lob
        if kind == c.PARAMETER and lob is not None:
            self.locators.replace(lob.source, lob.returned)
            if lob.operation == c.LOB_GET_LENGTH and self.wants.output and not headed and not self.cutting:
                return self._judge_length(answer, lob, pieces)
        if kind == c.BIT_VECTOR:
            self._move_on(reader)
        else:
            self._pass(reader)
        return True

    def _judge_heading(self, kind: int, answer: OraclePendingAnswer, pieces: list[Piece]) -> bool:
        """Have the columns judged that the next message describes. Return False if it describes none."""
        columns = described_columns(kind, TtcReader(self._buf, self._pos + 1), answer, self.layout)
        if columns is None:
            return False
        self._headed = answer.is_headed = True
        call = answer.call
        runs = call.function != c.EXECUTE or bool(call.options & c.OPTION_EXECUTE)
        prepared = "" if runs or call.statement is None else call.statement.text
        self._flush(pieces)
        pieces.append(OracleHeading(answer.exchange, columns, prepared))
        return True

    def _pass(self, reader: TtcReader) -> None:
        """Pass on the message that was read."""
        self._emit(self._buf[self._pos : reader.pos])
        self._move_on(reader)

    def _pass_recorded(self, reader: TtcReader, answer: OraclePendingAnswer) -> None:
        self._emit_recorded(self._buf[self._pos : reader.pos], answer)
        self._move_on(reader)

    def _move_on(self, reader: TtcReader) -> None:
        self._pos = int(reader.pos)
        self._need = 1

    def _finish(self) -> None:
        """The answer has ended."""
        answer = self.answer
        if answer is not None and answer.cursor is not None:
            answer.cursor.keep_last(answer.last_row)
        if self.refusal is not None:
            error = tns.data_packets(refusal_error(self.refusal, self.next_sequence, self.status), self.sdu)
            self.pieces.append(error)
            self.refusal = None
        self.answer = None
        self.cutting = False
        if self._pos < len(self._buf):
            raise ProtocolViolation(f"the target sent {len(self._buf) - self._pos} bytes after its answer")
        self._buf = b""
        self._pos = 0

    def _report_end(
        self, answer: OraclePendingAnswer, rows: int | None, pieces: list[Piece], *, has_more: bool
    ) -> None:
        """Report the end of an answer without an error. A result that the client can read on is not complete yet."""
        if not answer.exchange or self.cutting:
            return
        call = answer.call
        result = self.open_result
        if result is None or not call.continues:
            result = OpenResult(answer.exchange, answer.tag)
        if rows is not None:
            result.rows = rows + (result.rows or 0)
        result.stays = result.stays or answer.stays_open
        runs = call.continues or call.function != c.EXECUTE or bool(call.options & c.OPTION_EXECUTE)
        if (has_more and runs) or result.stays:
            self.open_result = result
            pieces.append(Paused(answer.exchange))
        else:
            self.open_result = None
            pieces.append(Completed(result.exchange, result.tag, result.rows))

    def close_result(self) -> Completed | None:
        """Return the end of the open result: the client does something else."""
        result, self.open_result = self.open_result, None
        return None if result is None else Completed(result.exchange, result.tag, result.rows)

    def _report_error(self, answer: OraclePendingAnswer, event: OracleErrorText, pieces: list[Piece]) -> None:
        """Report the end of an answer with an error."""
        result, tag = self.open_result, answer.tag
        if answer.call.continues and result is not None:
            tag = result.tag
            self.open_result = None
        pieces.append(event.make_completed_event(tag))

    def _rows_of(self, answer: OraclePendingAnswer, reported: int) -> int | None:
        if answer.fetches:
            return answer.rows
        return min(reported, MAX_ROWS) if answer.call.executes else None

    def _read_error(self, reader: TtcReader, answer: OraclePendingAnswer, pieces: list[Piece]) -> bool:
        error = read_error(reader, self.layout)
        self.status = error.status
        if error.cursor and answer.cursor is not None and answer.call.executes:
            self.cursors.store(error.cursor, answer.cursor)
        data = self._buf[self._pos : reader.pos]
        is_end = error.number == c.NO_DATA_FOUND and answer.fetches
        self.has_more_rows = answer.fetches and not error.number
        if not error.texts or is_end:
            self._pass_recorded(reader, answer)
            self._flush(pieces)
            self._report_end(answer, self._rows_of(answer, error.rows), pieces, has_more=self.has_more_rows)
            self._finish()
            return True
        error.spans = [(start - self._pos, end - self._pos) for start, end in error.spans]
        event = OracleErrorText(answer.exchange, data, error)
        if self.wants.output and not self.cutting:
            self._move_on(reader)
            self._flush(pieces)
            self._judged = event
            self._preface = self._note(answer)
            pieces.append(event)
            return False
        self._pass_recorded(reader, answer)
        self._flush(pieces)
        if answer.exchange and not self.cutting:
            self._report_error(answer, event, pieces)
        self._finish()
        return True

    def _read_warning(self, reader: TtcReader, answer: OraclePendingAnswer, pieces: list[Piece]) -> bool:
        number = reader.ub2()
        size = reader.ub2()
        flags = reader.ub2()
        text = reader.text(size, self.layout.counts_texts) if number and size else b""
        if not (text and self.wants.output) or self.cutting:
            self._pass_recorded(reader, answer)
            return True
        self._move_on(reader)
        self._flush(pieces)
        self._preface = self._note(answer)
        pieces.append(OracleWarning(answer.exchange, number, flags, text, is_counted=self.layout.counts_texts))
        return False

    def _read_rows(self, answer: OraclePendingAnswer, pieces: list[Piece]) -> bool:
        if not answer.fetches:
            return self._read_outs(answer, pieces)
        layout = answer.row_layout
        if layout is None:
            raise ProtocolViolation("the target sent a row before the description of its columns")
        if answer.bits is not None:
            return self._read_partial_rows(answer, layout, pieces)
        buf = self._buf
        end: i64 = len(buf)
        first: i64 = self._pos
        pos: i64 = first
        count = 0
        spans: list[int] = []
        nested: list[NestedCursor] = []
        while pos < end and buf[pos] == c.ROW_DATA:
            whole, found = len(spans), len(nested)
            try:
                pos = walk_row(buf, pos + 1, layout, spans, nested)
            except TtcIncomplete:
                if not count:
                    raise
                del spans[whole:]
                del nested[found:]
                break
            count += 1
        if nested:
            store_nested(nested, answer, self.cursors)
        self._pos = int(pos)
        self._need = 1
        self._remember_row(answer, layout, buf, spans, int(pos))
        answer.rows += count
        return self._show(answer, layout, buf, int(first), int(pos), spans, count, pieces)

    def _remember_row(
        self, answer: OraclePendingAnswer, layout: RowLayout, buf: bytes, spans: list[int], end: int
    ) -> None:
        """Store the values of the last row, with what follows them, for a next one that refers to it."""
        starts = spans[len(spans) - 2 * len(layout.columns) :: 2]
        answer.last_row = tuple([buf[start:after] for start, after in zip(starts, [*starts[1:], end], strict=False)])

    def _read_partial_rows(self, answer: OraclePendingAnswer, layout: RowLayout, pieces: list[Piece]) -> bool:
        """Read rows without the values that are those of the row before, and complete them."""
        buf = self._buf
        end: i64 = len(buf)
        pos: i64 = self._pos
        values = list(answer.last_row)
        rows: list[bytes] = []
        size = 0
        nested: list[NestedCursor] = []
        while pos < end and buf[pos] == c.ROW_DATA and size < _MAX_COMPLETED:
            found = len(nested)
            try:
                pos = complete_row(buf, pos + 1, layout, answer.bits, values, nested)
            except TtcIncomplete:
                if not rows:
                    raise
                del nested[found:]
                break
            rows.append(_ROW + b"".join(values))
            size += len(rows[-1])
            answer.bits = None
            if pos < end and buf[pos] == c.BIT_VECTOR:
                reader = TtcReader(buf, int(pos) + 1)
                try:
                    read_bit_vector(reader, answer)
                except TtcIncomplete:
                    break
                pos = reader.pos
        if nested:
            store_nested(nested, answer, self.cursors)
        self._pos = int(pos)
        self._need = 1
        answer.rows += len(rows)
        completed = b"".join(rows)
        spans: list[int] = []
        pos = 0
        for _ in rows:
            pos = walk_row(completed, pos + 1, layout, spans, [])
        self._remember_row(answer, layout, completed, spans, len(completed))
        return self._show(answer, layout, completed, 0, len(completed), spans, len(rows), pieces)

    def _show(
        self,
        answer: OraclePendingAnswer,
        layout: RowLayout,
        buf: bytes,
        first: int,
        last: int,
        spans: list[int],
        count: int,
        pieces: list[Piece],
    ) -> bool:
        """Pass rows on, or have them evaluated."""
        if layout.lobs:
            answer.stays_open = True
            self._store_locators(answer, layout, buf, spans)
        note = self._note(answer) if answer.fetches else self._note_of_binds(answer, layout, spans, first, last)
        if not self.wants.rows or self.cutting:
            self._emit(buf[first:last])
            if not self.cutting:
                self._keep(note, buf[first:last])
            return True
        began = answer.cursor.began if answer.cursor is not None else 0
        self._flush(pieces)
        self._preface = note
        rows = OracleRows(answer.exchange, began, layout, buf, first=first, last=last, spans=spans, count=count)
        pieces.append(rows)
        return False

    def _store_locators(self, answer: OraclePendingAnswer, layout: RowLayout, buf: bytes, spans: list[int]) -> None:
        """Remember where the locators in rows came from, also those in columns that are masked."""
        cursor = answer.cursor
        if cursor is None:
            return
        width = 2 * len(layout.columns)
        for place in layout.lobs:
            origin = LobOrigin(cursor.text, cursor.began or answer.exchange, layout.columns, place)
            column = layout.oracle[place]
            for at in range(2 * place, len(spans), width):
                locator = LobValue(buf[spans[at] : spans[at + 1]], column).locator
                if locator:
                    self.locators.store(locator, origin)

    def _note_of_binds(
        self, answer: OraclePendingAnswer, layout: RowLayout, spans: list[int], first: int, last: int
    ) -> bytes:
        """Return the note for a row of binds that come back: where each value is depends on the call."""
        starts, ends = spans[::2], spans[1::2]
        gaps = tuple([start - end for start, end in zip([*starts, last], [first + 1, *ends], strict=True)])
        answer.is_noted = True
        answer.noted = layout
        return AnswerNote(self.layout, answer.tag, layout.oracle, gaps).encode()

    def _read_outs(self, answer: OraclePendingAnswer, pieces: list[Piece]) -> bool:
        """Read the values of binds that come back."""
        start = self._pos
        reader = TtcReader(self._buf, start + 1)
        values = read_out_values(reader, answer, self.layout)
        if values.nested:
            store_nested(values.nested, answer, self.cursors)
        self._move_on(reader)
        layout = RowLayout(tuple(values.columns), self.layout)
        return self._show(answer, layout, self._buf, start, self._pos, values.spans, 1, pieces)

    def _read_lob(self, reader: TtcReader, answer: OraclePendingAnswer, pieces: list[Piece]) -> bool:
        """Read data of a LOB. In chunks it is collected, or passes chunk by chunk if no interceptor needs it."""
        lob = answer.call.lob
        if lob is None:
            raise ProtocolViolation("the target sent data of a LOB that was not asked for")
        if reader.end - reader.pos < 1:
            raise TtcIncomplete(int(reader.pos) + 1)
        is_wanted = self.wants.output and not self.cutting
        if self._buf[int(reader.pos)] == LONG:
            reader.skip(1)
            self._in_chunks = True
            self._chunk_left = 0
            self._lob_size = 0
            self._lob = [] if is_wanted else None
            if is_wanted:
                self._move_on(reader)
            else:
                self._pass_recorded(reader, answer)
            return True
        data = reader.clr() or b""
        if not is_wanted:
            self._pass_recorded(reader, answer)
            return True
        self._move_on(reader)
        return self._show_lob(answer, lob, data, pieces)

    def _show_lob(self, answer: OraclePendingAnswer, lob: LobCall, data: bytes, pieces: list[Piece]) -> bool:
        origin = self.locators.find(lob.source)
        codec = codec_of_lob(lob.source)
        self._flush(pieces)
        self._preface = self._note(answer)
        if origin is None:
            pieces.append(LobText(answer.exchange, data, codec))
        else:
            pieces.append(LobRows(answer.exchange, origin, data, codec))
        return False

    def _judge_length(self, answer: OraclePendingAnswer, lob: LobCall, pieces: list[Piece]) -> bool:
        """Have the length of a LOB judged like its data, before the message with it passes."""
        self._headed = True
        self._flush(pieces)
        origin = self.locators.find(lob.source)
        length = b"%d" % lob.amount
        if origin is None:
            pieces.append(LobText(answer.exchange, length, "", is_length=True))
        else:
            pieces.append(LobRows(answer.exchange, origin, length, "", is_length=True))
        return False

    def _read_chunk(self, answer: OraclePendingAnswer, pieces: list[Piece]) -> bool:
        """Read the length of the next chunk of a LOB, or as much of a chunk as has arrived."""
        start = self._pos
        if self._chunk_left:
            count = min(self._chunk_left, len(self._buf) - start)
            self._chunk_left -= count
            self._pos += count
            part = self._buf[start : self._pos]
            if self._lob is None:
                self._emit_recorded(part, answer)
            else:
                self._lob.append(part)
            return True
        reader = TtcReader(self._buf, start)
        self._chunk_left = reader.ub4()
        self._lob_size += self._chunk_left
        collected = self._lob
        if collected is None:
            self._pass_recorded(reader, answer)
        else:
            self._move_on(reader)
            if self._lob_size > self.max_message:
                self._withhold(
                    pieces,
                    f"a LOB has more than the {self.max_message} bytes that can be inspected",
                    "Read less of it at once, or ask an administrator to raise POSTERN_MAX_STATEMENT.",
                )
        if self._chunk_left:
            return True
        self._in_chunks = False
        if collected is None or self._lob is None or answer.call.lob is None:
            return True
        self._lob = None
        return self._show_lob(answer, answer.call.lob, b"".join(collected), pieces)

    def _withhold(self, pieces: list[Piece], text: str, hint: str) -> None:
        """Send an error instead of an answer that cannot be inspected, and discard the rest of it."""
        number = c.INSUFFICIENT_PRIVILEGES
        self._flush(pieces)
        if self.answer is not None and self.answer.exchange:
            pieces.append(Completed(self.answer.exchange, self.answer.tag, None, f"ORA-{number:05d}", text))
        self._lob = None
        self.cut(Refuse("size", text, hint))
