"""The target's half of the wire: reads answers message by message, and cuts them into pieces for inspection and
recording.

    packets ─▶ messages ─▶ rows (`oracle_row_blocks`), LOBs (`oracle_lobs`), errors, ends (`oracle_open_results`)
                                   └─▶ packets for the client, and for the recording (`oracle_answer_output`)

The bodies of DATA packets are joined to a stream of TTC. What is passed on goes into packets of the gateway's own, so a
client gets no packet of the target. A message is passed on once it has arrived as a whole; only data of LOBs that no
interceptor needs is passed on in parts.

    markers:   target ─ break ▶ client ─ reset ▶ target ─ reset ▶ client, then the answer ends with an error
"""

from __future__ import annotations

from typing import Final

from postern.errors import ProtocolViolation
from postern.interception.events import Completed
from postern.interception.verdicts import Refuse
from postern.protocols.oracledb.native_encryption.native_failures import failure_text
from postern.protocols.oracledb.wire import tns_packets as tns
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.oracle_answer_output import AnswerOutput, note_answer, note_outs
from postern.protocols.oracledb.wire.oracle_answers import (
    OraclePendingAnswer,
    described_columns,
    read_answer_message,
    read_row_header,
    store_nested,
)
from postern.protocols.oracledb.wire.oracle_cursors import OracleCursors
from postern.protocols.oracledb.wire.oracle_headings import OracleHeading
from postern.protocols.oracledb.wire.oracle_lobs import (
    LobChunks,
    LobOrigin,
    LobRows,
    LobValue,
    OracleLocators,
    codec_of_lob,
)
from postern.protocols.oracledb.wire.oracle_open_results import OpenResults
from postern.protocols.oracledb.wire.oracle_output import (
    LobText,
    OracleErrorText,
    OracleWarning,
    read_error,
    refusal_error,
)
from postern.protocols.oracledb.wire.oracle_row_blocks import RowBlock, complete_rows, read_outs, read_rows
from postern.protocols.oracledb.wire.oracle_rows import OracleRows
from postern.protocols.oracledb.wire.ttc_buffers import LONG, TtcIncomplete, TtcReader
from postern.protocols.oracledb.wire.ttc_calls import LobCall, OracleCall
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout
from postern.protocols.wire_base import Piece, RedactedOutput, Wants, Wire

_MAX_CONTROL: Final = 64  # bytes of a CONTROL packet
# Within data of a LOB that passes in parts, the client could not be sent an error.
_ENDLESS: Final = 1 << 40


class OracleBackend(Wire):
    """The target's half. `sdu` is the size of packets for the client."""

    def __init__(self, layout: TtcLayout, wants: Wants, max_message: int, sdu: int) -> None:
        self.layout = layout
        self.wants = wants
        self.max_message = max_message
        self.sdu = sdu
        self.cursors = OracleCursors()
        self.locators = OracleLocators()
        self.results = OpenResults()
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
        self._output = AnswerOutput(sdu)
        self._preface = b""  # what the recording has before the event that is judged
        self._resetting = False  # data is discarded up to the target's reset
        self._chunks = LobChunks()
        self._judged: OracleErrorText | None = None
        self._headed = False  # the description in the next message has been judged
        self._violation: ProtocolViolation | None = None

    def feed_target(self, data: bytes) -> None:
        self._packets.feed(data)

    @property
    def partial_message_bytes(self) -> int:
        return _ENDLESS if self._chunks.is_open and not self._chunks.is_collected and not self.cutting else 0

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
            pieces.append(self.results.fail(self.answer, self._judged))
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
        if self.answer is not None:
            self.results.drop(self.answer)

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
        self._chunks.close()
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
            self._output.add(data)

    def _emit_recorded(self, data: bytes, answer: OraclePendingAnswer) -> None:
        if not self.cutting:
            self._output.add_recorded(data, note_answer(answer, self.layout))

    def take_preface(self) -> RedactedOutput | None:
        data = self._preface
        self._preface = b""
        return RedactedOutput(b"", data) if data else None

    def _flush(self, pieces: list[Piece]) -> None:
        output = self._output.take()
        if output is not None:
            pieces.append(output)

    def _read(self, pieces: list[Piece]) -> bool:
        buf, start = self._buf, self._pos
        answer = self.answer
        if answer is None:
            raise ProtocolViolation("the target sent an answer without a call")
        if self._chunks.is_open:
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
            self._report_end(answer, 0, pieces, has_more=False)
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

    def _report_end(self, answer: OraclePendingAnswer, rows: int, pieces: list[Piece], *, has_more: bool) -> None:
        """Report the end of an answer without an error, and with the number of rows that the target reports."""
        if answer.exchange and not self.cutting:
            pieces.append(self.results.end(answer, rows, has_more=has_more))

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
            self._report_end(answer, error.rows, pieces, has_more=self.has_more_rows)
            self._finish()
            return True
        error.spans = [(start - self._pos, end - self._pos) for start, end in error.spans]
        event = OracleErrorText(answer.exchange, data, error)
        if self.wants.output and not self.cutting:
            self._move_on(reader)
            self._flush(pieces)
            self._judged = event
            self._preface = note_answer(answer, self.layout)
            pieces.append(event)
            return False
        self._pass_recorded(reader, answer)
        self._flush(pieces)
        if answer.exchange and not self.cutting:
            pieces.append(self.results.fail(answer, event))
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
        self._preface = note_answer(answer, self.layout)
        pieces.append(OracleWarning(answer.exchange, number, flags, text, is_counted=self.layout.counts_texts))
        return False

    def _read_rows(self, answer: OraclePendingAnswer, pieces: list[Piece]) -> bool:
        """Read rows, or the values of binds that come back."""
        if not answer.fetches:
            block = read_outs(self._buf, self._pos, answer, self.layout)
        elif answer.row_layout is None:
            raise ProtocolViolation("the target sent a row before the description of its columns")
        elif answer.bits is not None:
            block = complete_rows(self._buf, self._pos, answer.row_layout, answer)
        else:
            block = read_rows(self._buf, self._pos, answer.row_layout)
        if block.nested:
            store_nested(block.nested, answer, self.cursors)
        self._pos = block.after
        self._need = 1
        if answer.fetches:
            answer.last_row = block.last_row()
            answer.rows += block.count
        return self._show(answer, block, pieces)

    def _show(self, answer: OraclePendingAnswer, block: RowBlock, pieces: list[Piece]) -> bool:
        """Pass rows on, or have them evaluated."""
        if block.layout.lobs:
            answer.stays_open = True
            self._store_locators(answer, block)
        note = note_answer(answer, self.layout) if answer.fetches else note_outs(answer, block, self.layout)
        if self.cutting:
            return True
        if not self.wants.rows:
            self._output.add_recorded(block.data[block.first : block.last], note)
            return True
        began = answer.cursor.began if answer.cursor is not None else 0
        self._flush(pieces)
        self._preface = note
        pieces.append(
            OracleRows(
                answer.exchange,
                began,
                block.layout,
                block.data,
                first=block.first,
                last=block.last,
                spans=block.spans,
                count=block.count,
            )
        )
        return False

    def _store_locators(self, answer: OraclePendingAnswer, block: RowBlock) -> None:
        """Remember where the locators in rows came from, also those in columns that are masked."""
        cursor = answer.cursor
        if cursor is None:
            return
        layout, spans = block.layout, block.spans
        width = 2 * len(layout.columns)
        for place in layout.lobs:
            origin = LobOrigin(cursor.text, cursor.began or answer.exchange, layout.columns, place)
            column = layout.oracle[place]
            for at in range(2 * place, len(spans), width):
                locator = LobValue(block.data[spans[at] : spans[at + 1]], column).locator
                if locator:
                    self.locators.store(locator, origin)

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
            self._chunks.open(is_collected=is_wanted)
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
        self._preface = note_answer(answer, self.layout)
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
        chunks, start = self._chunks, self._pos
        if chunks.left:
            count = min(chunks.left, len(self._buf) - start)
            chunks.left -= count
            self._pos += count
            part = self._buf[start : self._pos]
            if chunks.is_collected:
                chunks.collect(part)
            else:
                self._emit_recorded(part, answer)
            return True
        reader = TtcReader(self._buf, start)
        chunks.begin(reader.ub4())
        if not chunks.is_collected:
            self._pass_recorded(reader, answer)
        else:
            self._move_on(reader)
            if chunks.size > self.max_message:
                self._withhold(
                    pieces,
                    f"a LOB has more than the {self.max_message} bytes that can be inspected",
                    "Read less of it at once, or ask an administrator to raise POSTERN_MAX_STATEMENT.",
                )
        if chunks.left:
            return True
        data = chunks.close()
        if data is None or answer.call.lob is None:
            return True
        return self._show_lob(answer, answer.call.lob, data, pieces)

    def _withhold(self, pieces: list[Piece], text: str, hint: str) -> None:
        """Send an error instead of an answer that cannot be inspected, and discard the rest of it."""
        number = c.INSUFFICIENT_PRIVILEGES
        self._flush(pieces)
        if self.answer is not None and self.answer.exchange:
            pieces.append(Completed(self.answer.exchange, self.answer.tag, None, f"ORA-{number:05d}", text))
        self._chunks.discard()
        self.cut(Refuse("size", text, hint))
