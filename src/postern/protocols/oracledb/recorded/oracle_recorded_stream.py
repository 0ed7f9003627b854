"""Splitting a recorded stream into messages. `wire/oracle_notes.py` says what is in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.oracledb.recorded.oracle_cells import read_cell
from postern.protocols.oracledb.wire import tns_packets as tns
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.oracle_notes import NOTE, AnswerNote, read_note
from postern.protocols.oracledb.wire.oracle_output import read_error
from postern.protocols.oracledb.wire.ttc_buffers import LONG, TtcIncomplete, TtcReader
from postern.protocols.oracledb.wire.ttc_columns import OracleColumn
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout

MAX_MESSAGE: Final = 64 << 20
_MAX_LOB: Final = 1 << 20  # bytes of a LOB that are shown


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """Rows of these columns follow. `is_new`: of another result than those before. `binds`: they are values of binds
    that came back."""

    columns: tuple[OracleColumn, ...]
    is_new: bool
    binds: bool


@dataclass(frozen=True, slots=True)
class RecordedRow:
    cells: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class RecordedLob:
    """Data of a LOB. `omitted` bytes are not shown."""

    text: str
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class RecordedText:
    """A warning, or an error of one row of an array of binds."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class RecordedEnd:
    """The end of an answer. `rows` is the number of affected rows, or of rows of the whole result; None if there is no
    such number. `has_more`: the client can fetch more rows. `number` is that of an error."""

    tag: str
    rows: int | None
    number: int = 0
    text: str = ""
    has_more: bool = False


OracleRecord = RecordedResult | RecordedRow | RecordedLob | RecordedText | RecordedEnd
_CHANGES: Final = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})


class OracleRecordedStream:
    """Splitter: `feed` takes the stream in chunks of any size."""

    def __init__(self) -> None:
        self._columns: tuple[OracleColumn, ...] = ()
        self._rows = 0
        self._start()

    def _start(self) -> None:
        self._packets = tns.TnsReader("gateway", True, tns.MAX_SDU)
        self._note = AnswerNote(TtcLayout())
        self._buffer = b""
        self._chunks: list[bytes] | None = None  # of a LOB
        self._chunk_left = 0
        self._lob_size = 0

    def begin_anew(self) -> None:
        """Forget an incomplete message."""
        self._start()

    def feed(self, data: bytes) -> list[OracleRecord]:
        """Return what is complete now. Raises ProtocolViolation for bytes that cannot be read."""
        self._packets.feed(data)
        records: list[OracleRecord] = []
        while (packet := self._packets.read()) is not None:
            if packet.type == NOTE:
                self._take_note(read_note(packet.body), records)
            elif packet.type == tns.DATA and not packet.data_flags & tns.END_OF_FILE:
                self._buffer += packet.body
                if len(self._buffer) > MAX_MESSAGE:
                    raise ProtocolViolation("a message in a recording is too long")
                self._read(records)
            elif packet.type == tns.MARKER:
                self._buffer = b""
                self._chunks = None
        return records

    def _take_note(self, note: AnswerNote, records: list[OracleRecord]) -> None:
        if self._buffer or self._chunks is not None:
            raise ProtocolViolation("a message in a recording is incomplete")
        self._note = note
        if not note.columns:
            return
        is_new = not note.continues or _names(note.columns) != _names(self._columns)
        if is_new and not note.gaps:
            self._rows = 0
        self._columns = note.columns
        records.append(RecordedResult(note.columns, is_new, bool(note.gaps)))

    def _read(self, records: list[OracleRecord]) -> None:
        reader = TtcReader(self._buffer)
        start = 0
        try:
            while start < len(self._buffer):
                chunks = self._chunks
                record = self._read_message(reader) if chunks is None else self._read_chunk(reader, chunks)
                if record is not None:
                    records.append(record)
                start = int(reader.pos)
        except TtcIncomplete:
            pass
        self._buffer = self._buffer[start:]

    def _read_message(self, reader: TtcReader) -> OracleRecord | None:
        kind = reader.ub1()
        note = self._note
        if kind == c.ROW_DATA:
            return self._read_row(reader)
        if kind == c.ERROR:
            return self._read_end(reader)
        if kind == c.STATUS:
            reader.ub4()
            reader.ub2()
            return RecordedEnd(note.tag, None)
        if kind == c.WARNING:
            number, size = reader.ub2(), reader.ub2()
            reader.ub2()
            text = reader.text(size, note.layout.counts_texts) if number and size else b""
            return RecordedText(number, _decode(text)) if text else None
        if kind == c.LOB_DATA:
            return self._read_lob(reader)
        raise ProtocolViolation(f"a recording has a message of type {kind}")

    def _read_row(self, reader: TtcReader) -> RecordedRow:
        note = self._note
        if not note.columns:
            raise ProtocolViolation("a recording has a row without columns")
        cells: list[str | None] = []
        for place, column in enumerate(note.columns):
            if note.gaps:
                reader.skip(note.gaps[place])
            cells.append(read_cell(reader, column, note.layout))
            if column.type in c.LONGS and not note.gaps and not column.is_null:
                reader.sb4()
                reader.ub4()
        if note.gaps:
            reader.skip(note.gaps[-1])
        else:
            self._rows += 1
        return RecordedRow(tuple(cells))

    def _read_end(self, reader: TtcReader) -> RecordedEnd:
        note = self._note
        error = read_error(reader, note.layout)
        is_result = bool(note.columns) and not note.gaps
        if error.number and not (error.number == c.NO_DATA_FOUND and is_result):
            texts = [_decode(text) for text in error.texts]
            return RecordedEnd(note.tag, None, error.number, "\n".join(texts))
        if is_result:
            return RecordedEnd(note.tag, self._rows if error.number else None, has_more=not error.number)
        return RecordedEnd(note.tag, int(error.rows) if note.tag in _CHANGES else None)

    def _read_lob(self, reader: TtcReader) -> RecordedLob | None:
        if reader.pos < reader.end and reader.data[int(reader.pos)] == LONG:
            reader.skip(1)
            self._chunks = []
            self._lob_size = self._chunk_left = 0
            return None
        return self._lob(reader.clr() or b"", 0)

    def _read_chunk(self, reader: TtcReader, chunks: list[bytes]) -> RecordedLob | None:
        if self._chunk_left:
            part = reader.raw(min(self._chunk_left, int(reader.end - reader.pos)))
            self._chunk_left -= len(part)
            if self._lob_size < _MAX_LOB:
                chunks.append(part)
            self._lob_size += len(part)
            return None
        self._chunk_left = reader.ub4()
        if self._chunk_left:
            return None
        self._chunks = None
        data = b"".join(chunks)
        return self._lob(data[:_MAX_LOB], self._lob_size - min(len(data), _MAX_LOB))

    def _lob(self, data: bytes, omitted: int) -> RecordedLob:
        codec = self._note.codec
        return RecordedLob(data.decode(codec, "replace") if codec else data.hex().upper(), omitted)


def _names(columns: tuple[OracleColumn, ...]) -> list[str]:
    return [column.name for column in columns]


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace").rstrip()
