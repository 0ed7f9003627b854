"""A block of rows of one result, accessed by column.

A row of a query has a length-encoded string for each cell, or 0xFB for NULL. A row of a prepared statement is a zero
byte, a bit for each NULL column (counted from the third bit on), and the values of the others in the binary format of
their types. Rows are not copied out of the read: only columns that are needed are cut out, and only rows with a
replaced cell are rebuilt.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.interception.events import Change, Column, Fill, Rows, TextKind, compare_cells
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_charsets import wide_codec
from postern.protocols.mysql.wire.mysql_messages import MysqlField, parse_field, read_lenenc, uint24
from postern.protocols.mysql.wire.mysql_types import DATED, SIZED, kind_of, width_of
from postern.protocols.mysql.wire.mysql_values import add_length_prefix, cell_change, fill_value, pack_value, plain

Cells = list[bytes | None]  # of one column, row by row; None is NULL

_HIDDEN: Final = b"****"
_TEXT: Final = MysqlField("", m.VAR_STRING)


class MysqlLayout:
    """The columns of one result, decoded once."""

    def __init__(self, fields: tuple[MysqlField, ...], binary: bool) -> None:
        self.fields: Final = fields
        self.binary: Final = binary
        self.columns: Final[tuple[Column, ...]] = tuple([_column(field) for field in fields])
        self.widths: Final[list[int]] = [width_of(field.type) for field in fields]
        self.searched: Final = [column.kind is not TextKind.OPAQUE for column in self.columns]
        # Numbers, in binary form in a binary row
        self.whole: Final = [binary and field.type == m.LONGLONG for field in fields]
        # Texts in UTF-16 and its like, which are searched as UTF-8
        self.wide: Final = [wide_codec(field.collation) for field in fields]


def _column(field: MysqlField) -> Column:
    origin = (field.database, field.org_table, field.org_name)
    return Column(field.name, kind_of(field), origin=origin if any(origin) else None)


_LARGEST: Final = 64 * 1024  # bytes of cached definitions


def layout_of(definitions: tuple[bytes, ...], binary: bool, codec: str) -> MysqlLayout:
    """Return the layout in the payloads of column definitions. Raises ProtocolViolation when they are not valid."""
    if sum([len(definition) for definition in definitions]) > _LARGEST:
        return _read(definitions, binary, codec)
    return _read_cached(definitions, binary, codec)


def _read(definitions: tuple[bytes, ...], binary: bool, codec: str) -> MysqlLayout:
    return MysqlLayout(tuple([parse_field(definition, codec) for definition in definitions]), binary)


@lru_cache(maxsize=64)
def _read_cached(definitions: tuple[bytes, ...], binary: bool, codec: str) -> MysqlLayout:
    return _read(definitions, binary, codec)


def walk_text(block: bytes, pos: i64, end: i64, starts: list[int], width: i64) -> None:
    """Store where each cell of a row begins and ends, alternately; a NULL begins and ends at -1."""
    column: i64 = 0
    while column < width:
        if pos >= end:
            raise ProtocolViolation("a row is shorter than its columns")
        first: i64 = block[pos]
        if first < 251:
            pos += 1
            size = first
        elif first == 251:
            starts.append(-1)
            starts.append(-1)
            pos += 1
            column += 1
            continue
        else:
            size, pos = read_lenenc(block, pos, end)
        if end - pos < size:
            raise ProtocolViolation("a row is shorter than its columns")
        starts.append(pos)
        pos += size
        starts.append(pos)
        column += 1
    if pos != end:
        raise ProtocolViolation("a row is longer than its columns")


def walk_binary(block: bytes, pos: i64, end: i64, starts: list[int], widths: list[int]) -> None:
    """Do the same for a row of a prepared statement, without the lengths before values."""
    count: i64 = len(widths)
    nulls: i64 = pos + 1
    if end - pos < 1 + (count + 9) // 8 or block[pos] != 0:
        raise ProtocolViolation("a row is shorter than its columns")
    pos = nulls + (count + 9) // 8
    column: i64 = 0
    while column < count:
        bit: i64 = column + 2
        mask: i64 = block[nulls + (bit >> 3)]
        if (mask >> (bit & 7)) & 1:
            starts.append(-1)
            starts.append(-1)
            column += 1
            continue
        size: i64 = widths[column]
        if size == SIZED:
            size, pos = read_lenenc(block, pos, end)
        elif size == DATED:
            if pos >= end:
                raise ProtocolViolation("a row is shorter than its columns")
            size = block[pos]
            pos += 1
        if end - pos < size:
            raise ProtocolViolation("a row is shorter than its columns")
        starts.append(pos)
        pos += size
        starts.append(pos)
        column += 1
    if pos != end:
        raise ProtocolViolation("a row is longer than its columns")


def cut_text(block: bytes, framed: bool, width: i64, selection: list[bool]) -> list[Cells | None]:
    """Return the cells of the wanted columns, None for the others. `framed`: each row has a packet's header; otherwise
    the block is one row. Raises ProtocolViolation when a row does not fit its own lengths."""
    columns: list[Cells | None] = [[] if wants else None for wants in selection]
    pos: i64 = 0
    end: i64 = len(block)
    after: i64 = end
    while pos < end:
        if framed:
            after = pos + m.HEAD + uint24(block, pos)
            pos += m.HEAD
        column: i64 = 0
        while column < width:
            if pos >= after:
                raise ProtocolViolation("a row is shorter than its columns")
            cells = columns[column]
            column += 1
            size: i64 = block[pos]
            if size < 251:
                pos += 1
            elif size == 251:
                pos += 1
                if cells is not None:
                    cells.append(None)
                continue
            else:
                size, pos = read_lenenc(block, pos, after)
            if after - pos < size:
                raise ProtocolViolation("a row is shorter than its columns")
            if cells is not None:
                cells.append(block[pos : pos + size])
            pos += size
        if pos != after:
            raise ProtocolViolation("a row is longer than its columns")
    return columns


def cut_binary(block: bytes, framed: bool, widths: list[int], selection: list[bool]) -> list[Cells | None]:
    """Do the same for rows of a prepared statement, without the lengths before values."""
    columns: list[Cells | None] = [[] if wants else None for wants in selection]
    pos: i64 = 0
    end: i64 = len(block)
    after: i64 = end
    count: i64 = len(widths)
    skipped: i64 = 1 + (count + 9) // 8
    while pos < end:
        if framed:
            after = pos + m.HEAD + uint24(block, pos)
            pos += m.HEAD
        if after - pos < skipped or block[pos] != 0:
            raise ProtocolViolation("a row is shorter than its columns")
        nulls = pos + 1
        pos += skipped
        column: i64 = 0
        while column < count:
            cells = columns[column]
            size: i64 = widths[column]
            bit: i64 = column + 2
            mask: i64 = block[nulls + (bit >> 3)]
            column += 1
            if (mask >> (bit & 7)) & 1:
                if cells is not None:
                    cells.append(None)
                continue
            if size == SIZED:
                size, pos = read_lenenc(block, pos, after)
            elif size == DATED:
                if pos >= after:
                    raise ProtocolViolation("a row is shorter than its columns")
                size = block[pos]
                pos += 1
            if after - pos < size:
                raise ProtocolViolation("a row is shorter than its columns")
            if cells is not None:
                cells.append(block[pos : pos + size])
            pos += size
        if pos != after:
            raise ProtocolViolation("a row is longer than its columns")
    return columns


def _narrow(cell: bytes, codec: str) -> bytes:
    return cell.decode(codec, "replace").encode("utf-8", "replace")


class MysqlRows(Rows):
    """Rows of one result within one read. `replace` takes as many texts as `texts` returned.

    `raw` are the target's bytes, of `packets` packets, the first of which has the id `sequence` at the client. `whole`
    is the payload of one row that spans several; otherwise each packet is a row. The client reads the columns `as_text`
    as texts, whatever the target sends (see `mysql_headings`): their values are always hidden.
    """

    def __init__(
        self,
        exchange: int,
        layout: MysqlLayout,
        raw: bytes,
        packets: int,
        sequence: int,
        began: int = 0,
        *,
        whole: bytes | None = None,
        as_text: frozenset[int] = frozenset(),
    ) -> None:
        self.exchange = exchange
        self._began = began or exchange
        self.columns = layout.columns
        self.count = packets if whole is None else 1
        self.packets = packets
        self.sequence = sequence
        self._layout = layout
        self._raw = raw
        self._whole = whole
        self._old: list[Cells | None] = []  # the searchable columns, as they came
        self._new: list[Cells | None] = [None] * len(layout.columns)
        self._before: Cells = []  # the cells of the column that was replaced last
        self._replaced = False
        self._wanted = layout.searched
        self._as_text = as_text
        for column in as_text:
            self._new[column] = [_HIDDEN] * self.count

    @property
    def began(self) -> int:
        return self._began

    def expect(self, columns: list[bool]) -> None:
        self._wanted = columns

    def _cut(self, selection: list[bool]) -> list[Cells | None]:
        layout = self._layout
        block = self._raw if self._whole is None else self._whole
        if layout.binary:
            return cut_binary(block, self._whole is None, layout.widths, selection)
        return cut_text(block, self._whole is None, len(layout.columns), selection)

    def _came(self, column: int) -> Cells:
        """Return the original cells, without lengths."""
        if not self._old:
            self._old = self._cut(self._wanted)
        cells = self._old[column]
        if cells is None:  # of a type that is not searched, or unexpected
            cells = self._cut([place == column for place in range(len(self.columns))])[column]
            self._old[column] = cells
        return cells or []

    def _cells(self, column: int) -> Cells:
        """Return the current cells."""
        return self._new[column] or self._came(column)

    def _is_unsigned(self, column: int) -> bool:
        return bool(self._layout.fields[column].flags & m.UNSIGNED)

    def texts(self, column: int) -> list[bytes]:
        cells = [cell for cell in self._cells(column) if cell is not None]
        wide = self._layout.wide[column]
        if column in self._as_text:
            return cells
        if wide:
            return [_narrow(cell, wide) for cell in cells]
        if not self._layout.whole[column]:
            return cells
        unsigned = self._is_unsigned(column)
        return [plain(m.LONGLONG, unsigned, cell) for cell in cells]

    def replace(self, column: int, texts: list[bytes]) -> None:
        old = self._before = self._cells(column)
        if len(texts) != len(old) - old.count(None):
            raise ValueError(f"{len(texts)} texts given for a column that holds {len(old) - old.count(None)}")
        whole, unsigned = self._layout.whole[column], self._is_unsigned(column)
        wide = self._layout.wide[column]
        if column in self._as_text:
            whole, wide = False, ""
        remaining_texts = iter(texts)
        new: Cells = []
        for cell in old:
            if cell is None:
                new.append(None)
            else:
                text = next(remaining_texts)
                if wide:
                    new.append(cell if text == _narrow(cell, wide) else text.decode("utf-8", "replace").encode(wide))
                    continue
                new.append(pack_value(m.LONGLONG, unsigned, text) if whole else text)
        self._new[column] = new
        self._replaced = True

    def change(self, column: int, by: Change) -> tuple[int, int]:
        layout = self._layout
        if column in self._as_text:
            return self._hide(column, by)
        if isinstance(by, Fill):
            return self._fill(column, fill_value(layout.fields[column], layout.binary, by))
        each = cell_change(layout.fields[column], layout.binary, by)
        changes: dict[bytes, bytes | None] = {}
        cells: Cells = []
        count = size = 0
        self._before = self._cells(column)
        for cell in self._before:
            if cell is None:
                cells.append(None)
                continue
            if cell in changes:
                new = changes[cell]
            else:
                new = changes[cell] = each(cell)
            cells.append(new)
            if new is None or new != cell:
                count += 1
                size += len(cell)
        if count:
            self._new[column] = cells
            self._replaced = True
        return count, size

    def find_changed_rows(self, column: int) -> bytes:
        return compare_cells(self._before, self._cells(column))

    def _hide(self, column: int, by: Change) -> tuple[int, int]:
        """Hide a column that the client reads as a text. `Fill` can choose NULL; all others have no effect here."""
        old = self._before = self._came(column)
        if isinstance(by, Fill):
            self._new[column] = [fill_value(_TEXT, False, by)] * len(old)
        return len(old), sum([len(cell) for cell in old if cell is not None])

    def _fill(self, column: int, value: bytes | None) -> tuple[int, int]:
        """Set every cell to `value`, including NULLs."""
        old = self._before = self._cells(column)
        changed = [cell for cell in old if cell != value]
        if changed:
            self._new[column] = [value] * len(old)
            self._replaced = True
        return len(changed), sum([len(cell) for cell in changed if cell is not None])

    def encode(self) -> tuple[bytes, int]:
        """Return the current rows, and the number of their packets."""
        renumbered = self._raw[3] != self.sequence or bool(self._as_text)
        if not self._replaced and not renumbered:
            return self._raw, self.packets
        if self._whole is not None:
            payload = self._rebuilt(0, self._whole, 0, len(self._whole))
            return m.packet(self.sequence, payload), m.packets_of(len(payload))
        changed = [column for column, new in enumerate(self._new) if new is not None]
        raw = self._raw
        out: list[bytes] = []
        sequence = self.sequence
        pos = copied = 0
        for row in range(self.count):
            after = pos + m.HEAD + int(uint24(raw, pos))
            if renumbered or self._differs(row, changed):
                out.append(raw[copied:pos])
                payload = self._rebuilt(row, raw, pos + m.HEAD, after)
                out.append(m.packet(sequence, payload))
                packets = m.packets_of(len(payload))
                renumbered = renumbered or packets != 1
                sequence += packets
                copied = after
            else:
                sequence += 1
            pos = after
        out.append(raw[copied:])
        return b"".join(out), sequence - self.sequence

    def _differs(self, row: int, columns: list[int]) -> bool:
        for column in columns:
            new, old = self._new[column], self._old[column]
            if new is not None and old is not None and new[row] != old[row]:
                return True
        return False

    def _rebuilt(self, row: int, block: bytes, pos: int, end: int) -> bytes:
        layout = self._layout
        width = len(layout.columns)
        starts: list[int] = []
        if layout.binary:
            walk_binary(block, pos, end, starts, layout.widths)
        else:
            walk_text(block, pos, end, starts, width)
        cells: Cells = []
        for column in range(width):
            new = self._new[column]
            start = starts[2 * column]
            if new is not None:
                cells.append(new[row])
            else:
                cells.append(None if start < 0 else block[start : starts[2 * column + 1]])
        if not layout.binary:
            return b"".join([b"\xfb" if cell is None else m.lenenc_text(cell) for cell in cells])
        nulls = bytearray((width + 9) // 8)
        values: list[bytes] = []
        for column, cell in enumerate(cells):
            if cell is None:
                nulls[(column + 2) // 8] |= 1 << (column + 2) % 8
            else:
                kind = m.VAR_STRING if column in self._as_text else layout.fields[column].type
                values.append(add_length_prefix(kind, cell))
        return b"\0" + bytes(nulls) + b"".join(values)
