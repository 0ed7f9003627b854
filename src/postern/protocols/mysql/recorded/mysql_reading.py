"""Parsing of complete responses, for the gateway's own queries, for scripts and for recordings. The wire does not use
it.

    begins ── OK, ERR ─────────────────────────────▶ begins
           ── a statement is prepared ─▶ parameters, EOF, columns, EOF ─▶ begins
           ── number of columns ─▶ columns, EOF ─▶ rows, EOF or ERR ─▶ begins
           ── number of columns ─▶ columns, EOF (a cursor is open) ─▶ begins ── rows, EOF (fetched) ─▶ begins
           ── anything else ──────────────────────▶ begins

The request is not known here, so the response itself must show what it is. An OK packet and a prepared statement both
begin with a zero, as does each row of a prepared statement; lengths that fit exactly decide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from postern.errors import ProtocolViolation
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_values import binary_texts

MAX_COLUMNS = 4096  # the limit of MySQL and MariaDB


@dataclass(frozen=True, slots=True)
class ResultHead:
    """The start of a result."""

    fields: tuple[m.MysqlField, ...]


@dataclass(frozen=True, slots=True)
class Cells:
    """A row; each cell is its text, None for NULL."""

    cells: tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True)
class StatementEnd:
    """The end of a statement's result. `done` is None after rows, of which there were `rows`. `more`: another
    statement's result follows."""

    more: bool
    done: m.Done | None = None
    rows: int = 0


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """A text that is not a result, as COM_STATISTICS returns."""

    text: bytes


Found = ResultHead | Cells | StatementEnd | PlainAnswer | m.Failed


class _State(Enum):
    BEGINS = "begins"
    PREPARED = "prepared"
    COLUMNS = "columns"
    ROWS = "rows"


class Answers:
    """The parser: call `take` with each payload in turn, or `skip_payload` if the payload was too long to be stored."""

    def __init__(self) -> None:
        self._state = _State.BEGINS
        self._left = 0  # remaining definitions before an EOF
        self._groups: list[int] = []  # for a prepared statement: the number of definitions in each group
        self._fields: tuple[m.MysqlField, ...] = ()
        self._found: list[m.MysqlField] = []
        self._rows = 0
        self._binary: bool | None = None
        self._cursor = False

    @property
    def begins(self) -> bool:
        """Return True if the next payload is the first of a response."""
        return self._state is _State.BEGINS

    def skip_payload(self) -> None:
        """Skip a long payload. It is almost certainly a row."""
        if self._state is _State.ROWS:
            self._rows += 1

    def take(self, payload: bytes) -> Found | None:
        """Process a payload; None if nothing is complete yet. Raises ProtocolViolation."""
        if not payload:
            return None
        if payload[0] == m.ERR and self._state is not _State.COLUMNS:
            self._state = _State.BEGINS
            return m.parse_err(payload)
        if self._state is _State.BEGINS:
            return self._first(payload)
        if self._state is _State.ROWS:
            return self._row(payload)
        return self._definition(payload)

    def _first(self, payload: bytes) -> Found | None:
        first = payload[0]
        if first == m.OK:
            if self._cursor and self._exact(payload) is not None:
                return self._rows_begin(payload)
            if _is_prepared(payload):
                self._handle_prepare_ok(payload)
                return None
            done = m.parse_ok(payload)
            done = replace(done, info=_decode_info_text(done.info))
            return StatementEnd(bool(done.status & m.MORE_RESULTS), done)
        if m.is_eof(first, len(payload)):
            status, _ = m.parse_eof(payload)
            return StatementEnd(bool(status & m.MORE_RESULTS))
        if first in (m.LOCAL_INFILE, m.EOF):  # a request for a file, or a further authentication step
            return None
        try:
            width, end = m.read_lenenc(payload, 0, len(payload))
        except ProtocolViolation:
            return PlainAnswer(payload)
        if end != len(payload):
            return PlainAnswer(payload) if payload.isascii() and payload[:4] != b"\x03def" else None
        if not 0 < width <= MAX_COLUMNS:
            raise ProtocolViolation(f"a result claims to have {width} columns")
        self._state, self._left, self._found, self._groups = _State.COLUMNS, int(width), [], []
        return None

    def _handle_prepare_ok(self, payload: bytes) -> None:
        columns, parameters = int(m.uint16(payload, 5)), int(m.uint16(payload, 7))
        self._groups = [count for count in (parameters, columns) if count]
        if self._groups:
            self._state, self._left = _State.PREPARED, self._groups.pop(0)

    def _definition(self, payload: bytes) -> Found | None:
        if self._left:
            self._left -= 1
            if self._state is _State.COLUMNS:
                self._found.append(m.parse_field(payload))
            return None
        status, _ = m.parse_eof(payload)
        if self._state is _State.PREPARED:
            self._left = self._groups.pop(0) if self._groups else 0
            self._state = _State.PREPARED if self._left else _State.BEGINS
            return None
        self._fields, self._binary, self._rows = tuple(self._found), None, 0
        self._cursor = bool(status & m.CURSOR_EXISTS)
        self._state = _State.BEGINS if self._cursor else _State.ROWS
        return ResultHead(self._fields)

    def _rows_begin(self, payload: bytes) -> Found | None:
        self._state, self._rows, self._binary = _State.ROWS, 0, True
        return self._row(payload)

    def _row(self, payload: bytes) -> Found | None:
        if m.is_eof(payload[0], len(payload)):
            self._state = _State.BEGINS
            status, _ = m.parse_eof(payload)
            return StatementEnd(bool(status & m.MORE_RESULTS), rows=self._rows)
        self._rows += 1
        if self._binary is None:
            self._binary = self._is_binary(payload)
        if self._binary:
            cells = self._exact(payload)
            if cells is None:
                raise ProtocolViolation("a row's length differs from that of its cells")
            return Cells(cells)
        return Cells(m.parse_text_row(payload, len(self._fields)))

    def _is_binary(self, payload: bytes) -> bool:
        """Return True for a binary row, by the first row of a result. A text row can begin with a zero too, if its
        first cell is empty."""
        if payload[0] != m.OK:
            return False
        try:
            m.parse_text_row(payload, len(self._fields))
        except ProtocolViolation:
            return True
        return False

    def cells_of_a_part(self, payload: bytes) -> tuple[bytes | None, ...]:
        """Return the cells of a truncated text row, as far as they arrived; empty for anything else."""
        if self._state is not _State.ROWS or self._binary or not payload:
            return ()
        cells: list[bytes | None] = []
        pos = 0
        while pos < len(payload) and len(cells) < len(self._fields):
            if payload[pos] == m.LOCAL_INFILE:
                cells.append(None)
                pos += 1
                continue
            try:
                size, start = m.read_lenenc(payload, pos, len(payload))
            except ProtocolViolation:
                break
            pos = int(start) + int(size)  # not as i64: the sum may need more than 63 bits
            cells.append(payload[int(start) : pos])
        return tuple(cells)

    def _exact(self, payload: bytes) -> tuple[bytes | None, ...] | None:
        """Return the cells of a prepared statement's row as text; None if it is not one."""
        try:
            return binary_texts(payload, self._fields)
        except ProtocolViolation:
            return None


def _decode_info_text(info: bytes) -> bytes:
    """Return the text of an OK packet. The manual says that it extends to the packet's end; servers prefix its
    length."""
    try:
        text, end = m.read_text(info, 0, len(info))
    except ProtocolViolation:
        return info
    return text if end == len(info) else info


def _is_prepared(payload: bytes) -> bool:
    """Return True for the response to PREPARE: statement id, columns, parameters, a zero, warnings: 12 bytes. An OK
    packet of that length would have two numbers of seven bytes in total, or a text of five bytes; neither occurs."""
    if len(payload) != 12 or payload[9]:
        return False
    lengths = {0xFC: 3, 0xFD: 4}
    first = lengths.get(payload[1], 1)
    return first + lengths.get(payload[1 + first], 1) != 7


def make_target_refused(failed: m.Failed) -> TargetRefused:
    """Return an ERR packet to the gateway itself as an exception, with SQLSTATE and number as its code, as in
    42000/1049."""
    return TargetRefused(failed.text, f"{failed.state}/{failed.code}")
