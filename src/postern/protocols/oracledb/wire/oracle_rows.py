"""A block of rows of one result, or the values of binds that come back, accessed by column.

Rows are not copied out of what was read. `OracleRows` knows where each value begins and ends; values that are changed
are encoded again, and all bytes around them stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.interception.events import Change, Column, Fill, KindChange, Rows, Scalar, TextKind, compare_cells
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.oracle_lobs import LobValue
from postern.protocols.oracledb.wire.oracle_values import (
    is_utf8,
    kind_of,
    pack_plain,
    plain_form,
    scalar_of,
    value_text,
)
from postern.protocols.oracledb.wire.ttc_buffers import MAX_SHORT, TtcIncomplete, TtcReader, pack_clr
from postern.protocols.oracledb.wire.ttc_columns import NestedCursor, OracleColumn, skip_value
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout

Cells = list[bytes | None]

# How a column's values are on the wire
PLAIN: Final = 0  # a clr
NOTHING: Final = 1  # no bytes: all are NULL
FOLLOWED: Final = 2  # a clr, then an indicator and a return code
OTHER: Final = 3

_NULLS: Final = {c.OBJECT: bytes(6)}
# For constants, whose old value is unknown: how long a value of the type is.
_TIMES: Final = {
    c.DATE: bytes(7),
    c.TIMESTAMP: bytes(11),
    c.TIMESTAMP_LTZ: bytes(11),
    c.OCI_TIMESTAMP: bytes(11),
    c.OCI_TIMESTAMP_LTZ: bytes(11),
    c.TIMESTAMP_TZ: bytes(11) + b"\x14\x3c",
    c.OCI_TIMESTAMP_TZ: bytes(11) + b"\x14\x3c",
}


class RowLayout:
    """How rows of these columns are on the wire."""

    def __init__(self, columns: tuple[OracleColumn, ...], layout: TtcLayout) -> None:
        self.oracle: Final = columns
        self.layout: Final = layout
        self.columns: Final[tuple[Column, ...]] = describe_columns(columns)
        self.kinds: Final[list[int]] = [_kind(column) for column in columns]
        self.lobs: Final[list[int]] = [place for place, column in enumerate(columns) if column.type in c.LOCATORS]


def describe_columns(columns: tuple[OracleColumn, ...]) -> tuple[Column, ...]:
    """Return the columns as interceptors see them."""
    return tuple([_column(column) for column in columns])


def _column(column: OracleColumn) -> Column:
    if has_beginning(column):
        return Column(column.name, TextKind.TEXT)
    return Column(column.name, TextKind.OPAQUE if column.is_null else kind_of(column))


def has_beginning(column: OracleColumn) -> bool:
    """Return whether the beginning of each LOB comes with its locator."""
    return column.type in (c.CLOB, c.BLOB) and column.has_lob_size and column.prefetch > 0 and not column.is_null


def _text_of(column: OracleColumn, cell: bytes) -> bytes:
    return LobValue(cell, column).text or b"" if has_beginning(column) else value_text(column, cell)


def _kind(column: OracleColumn) -> int:
    if column.is_null:
        return NOTHING
    if column.type in c.LONGS:
        return FOLLOWED
    return PLAIN if column.type in c.SCALARS else OTHER


def walk_row(data: bytes, pos: i64, rows: RowLayout, spans: list[int], nested: list[NestedCursor]) -> i64:
    """Add where each value of the row at `pos` begins and ends. Return where the row ends.

    Raises TtcIncomplete, and then has added too much, and ProtocolViolation.
    """
    end: i64 = len(data)
    kinds = rows.kinds
    width: i64 = len(kinds)
    column: i64 = 0
    while column < width:
        spans.append(pos)
        if kinds[column] == PLAIN and pos < end and data[pos] <= MAX_SHORT:
            size: i64 = data[pos]
            pos += 1 + size
            if pos > end:
                raise TtcIncomplete(int(pos))
            spans.append(pos)
        else:
            pos = walk_value(data, pos, int(column), rows, nested)
            spans.append(pos)
            pos = after_value(data, pos, kinds[column])
        column += 1
    return pos


def walk_value(data: bytes, pos: i64, column: int, rows: RowLayout, nested: list[NestedCursor]) -> i64:
    """Return where the value at `pos` ends, without what follows it."""
    kind: i64 = rows.kinds[column]
    if kind == NOTHING:
        return pos
    reader = TtcReader(data, int(pos))
    skip_value(reader, rows.oracle[column], rows.layout, nested)
    return reader.pos


def after_value(data: bytes, pos: i64, kind: int) -> i64:
    """Return where the next value begins."""
    if kind != FOLLOWED:
        return pos
    reader = TtcReader(data, int(pos))
    reader.sb4()
    reader.ub4()
    return reader.pos


def complete_row(
    data: bytes, pos: i64, rows: RowLayout, bits: bytes | None, values: list[bytes], nested: list[NestedCursor]
) -> i64:
    """Turn `values` of one row, each with what follows it, into those of the row at `pos`, which has only the columns
    in `bits`; None: all. Return where the row ends.

    Raises TtcIncomplete, and then leaves `values` as they were, and ProtocolViolation.
    """
    end: i64 = len(data)
    kinds = rows.kinds
    width: i64 = len(kinds)
    known: i64 = len(values)
    column: i64 = 0
    new: list[bytes] = []
    if bits is not None and 8 * len(bits) < width:
        raise ProtocolViolation("the target sent a bit vector that is too short for its columns")
    while column < width:
        flags: i64 = 0xFF if bits is None else bits[column // 8]
        if not flags >> column % 8 & 1:
            if column >= known:
                raise ProtocolViolation("the target sent a row that refers to one that the gateway does not have")
            new.append(values[column])
            column += 1
            continue
        start = pos
        if kinds[column] == PLAIN and pos < end and data[pos] <= MAX_SHORT:
            size: i64 = data[pos]
            pos += 1 + size
            if pos > end:
                raise TtcIncomplete(int(pos))
        else:
            pos = after_value(data, walk_value(data, pos, int(column), rows, nested), kinds[column])
        new.append(data[start:pos])
        column += 1
    values[:] = new
    return pos


class OracleRows(Rows):
    """Rows of one result within one read: the bytes of `raw` from `first` to `last`. `spans` has where each value in
    it begins and ends, row by row. `replace` takes as many texts as `texts` returned."""

    def __init__(
        self,
        exchange: int,
        began: int,
        rows: RowLayout,
        raw: bytes,
        *,
        first: int,
        last: int,
        spans: list[int],
        count: int,
    ) -> None:
        self.exchange = exchange
        self._began = began or exchange
        self.columns = rows.columns
        self.count = count
        self._rows = rows
        self._raw = raw
        self._first = first
        self._last = last
        self._spans = spans
        self._old: list[Cells | None] = [None] * len(rows.columns)
        self._new: list[Cells | None] = [None] * len(rows.columns)
        self._before: Cells = []

    @property
    def began(self) -> int:
        return self._began

    def _came(self, column: int) -> Cells:
        """Return the original values: without lengths, where they are a clr, else as they are on the wire."""
        cells = self._old[column]
        if cells is None:
            cells = self._old[column] = self._cut(column)
        return cells

    def _cut(self, column: int) -> Cells:
        kind = self._rows.kinds[column]
        if kind == NOTHING:
            return [None] * self.count
        raw, spans = self._raw, self._spans
        step = 2 * len(self.columns)
        cells: Cells = []
        for at in range(2 * column, step * self.count, step):
            start, end = spans[at], spans[at + 1]
            if kind == OTHER:
                cells.append(None if raw[start:end].strip(b"\0") == b"" else raw[start:end])
            elif raw[start] <= MAX_SHORT:
                cells.append(raw[start + 1 : end] if end - start > 1 else None)
            else:
                cells.append(TtcReader(raw, start).clr())
        return cells

    def _cells(self, column: int) -> Cells:
        cells = self._new[column]
        return self._came(column) if cells is None else cells

    def texts(self, column: int) -> list[bytes]:
        described = self._rows.oracle[column]
        if is_utf8(described):
            return [cell for cell in self._cells(column) if cell is not None]
        return [_text_of(described, cell) for cell in self._cells(column) if cell is not None]

    def cell_texts(self, column: int) -> list[bytes | None]:
        """Return the texts of all values, None for NULL."""
        described = self._rows.oracle[column]
        return [None if cell is None else _text_of(described, cell) for cell in self._cells(column)]

    def replace(self, column: int, texts: list[bytes]) -> None:
        described = self._rows.oracle[column]
        old = self._before = self._cells(column)
        if len(texts) != len(old) - old.count(None):
            raise ValueError(f"{len(texts)} texts given for a column that holds {len(old) - old.count(None)}")
        is_text = is_utf8(described)
        new: Cells = []
        at = 0
        for cell in old:
            if cell is None:
                new.append(None)
                continue
            text = texts[at]
            at += 1
            if is_text:
                new.append(text or None)  # an empty text is NULL in Oracle Database
            elif text == _text_of(described, cell):
                new.append(cell)
            elif has_beginning(described):
                new.append(LobValue(cell, described).with_text(text))
            else:
                new.append(pack_plain(described, text, cell))
        self._new[column] = new

    def change(self, column: int, by: Change) -> tuple[int, int]:
        old = self._before = self._cells(column)
        described = self._rows.oracle[column]
        if self._rows.kinds[column] == NOTHING or described.type in (c.CURSOR, c.RESULT_SET):
            return 0, 0  # all NULL; or the rows of the cursor are changed when they are fetched
        each = cell_change(described, by)
        changes: dict[bytes | None, bytes | None] = {}
        cells: Cells = []
        for cell in old:
            if cell not in changes:
                changes[cell] = each(cell)
            cells.append(changes[cell])
        changed = [cell for cell, new in zip(old, cells, strict=True) if cell != new]
        if changed:
            self._new[column] = cells
        return len(changed), sum([len(cell) for cell in changed if cell is not None])

    def find_changed_rows(self, column: int) -> bytes:
        return compare_cells(self._before, self._cells(column))

    def encode(self) -> bytes:
        """Return the rows with their changes, as bytes of TTC."""
        changed = [column for column, cells in enumerate(self._new) if cells is not None]
        if not changed:
            return self._raw[self._first : self._last]
        raw, spans = self._raw, self._spans
        width = len(self.columns)
        out: list[bytes] = []
        copied = self._first
        for row in range(self.count):
            for column in changed:
                new, old = self._new[column], self._old[column]
                if new is None or old is None or new[row] == old[row]:
                    continue
                at = 2 * (row * width + column)
                out.append(raw[copied : spans[at]])
                out.append(self._pack(column, new[row]))
                copied = spans[at + 1]
        out.append(raw[copied : self._last])
        return b"".join(out)

    def _pack(self, column: int, cell: bytes | None) -> bytes:
        if self._rows.kinds[column] != OTHER:
            return pack_clr(cell)
        return _NULLS.get(self._rows.oracle[column].type, b"\0") if cell is None else cell


def cell_change(column: OracleColumn, by: Change) -> Callable[[bytes | None], bytes | None]:
    """Return the change of a column's values. Only `Fill` changes NULL."""
    scalar = scalar_of(column)
    if isinstance(by, Fill):
        constant = by.constant(scalar)
        if scalar is Scalar.OTHER or constant is None:
            return lambda _cell: None
        filled = pack_plain(column, constant[0], _TIMES.get(column.type, b""))
        return lambda _cell: filled
    ask: Callable[[bytes], bytes | None] = by.of(scalar) if isinstance(by, KindChange) else partial(by, scalar)

    def text(cell: bytes | None) -> bytes | None:
        return None if cell is None else ask(cell) or None

    def each(cell: bytes | None) -> bytes | None:
        if cell is None:
            return None
        try:
            plain = plain_form(column, cell)
        except (ValueError, IndexError):
            return cell if by(Scalar.OTHER, cell) == cell else None
        new = ask(plain)
        return cell if new == plain else pack_plain(column, new, cell)

    def beginning(cell: bytes | None) -> bytes | None:
        """Hide all of a LOB if a search finds a value in its beginning."""
        if cell is None or by(Scalar.OTHER, cell) != cell:
            return None
        found = _text_of(column, cell)
        return cell if by(Scalar.TEXT, found) == found else None

    if has_beginning(column):
        return beginning
    return text if is_utf8(column) else each
