"""A block of DataRow messages, accessed by column.

A DataRow is 'D', Int32 length, Int16 column count, then for each column Int32 length (-1 is NULL) and the bytes. Rows
are not copied out of the read: only columns that can be searched are cut out, and only rows with a replaced cell are
rebuilt. Both passes are hot loops of masking, in plain typed code for mypyc. They store no offsets, because reading a
length again is cheaper than an object for it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.interception.events import Change, Column, Fill, Rows, TextKind, compare_cells
from postern.protocols.framing import encode_length, uint32
from postern.protocols.postgres.wire.postgres_messages import PostgresField, parse_row_description
from postern.protocols.postgres.wire.postgres_types import TextCodec, describe
from postern.protocols.postgres.wire.postgres_values import cell_change

_NULL: Final = 0x80000000  # a size with this bit is -1
_NULL_SIZE: Final = b"\xff\xff\xff\xff"


class PostgresLayout:
    """The columns of one result, decoded once."""

    def __init__(self, fields: tuple[PostgresField, ...]) -> None:
        described = [describe(field) for field in fields]
        self.fields: Final = fields
        self.columns: Final[tuple[Column, ...]] = tuple(column for column, _ in described)
        self.codecs: Final[list[TextCodec | None]] = [codec for _, codec in described]
        self.searched: Final = [column.kind is not TextKind.OPAQUE for column in self.columns]


@lru_cache(maxsize=64)
def layout_of(description: bytes, codec: str = "utf-8") -> PostgresLayout:
    """Return the layout in the body of a RowDescription. Raises ProtocolViolation when it is not valid."""
    return PostgresLayout(parse_row_description(description, codec))


Cells = list[bytes | None]  # of one column, row by row; None is NULL


def cut(block: bytes, width: i64, selection: list[bool]) -> list[Cells | None]:
    """Return the cells of the wanted columns, None for the others.

    Raises ProtocolViolation when a row does not fit its own lengths.
    """
    columns: list[Cells | None] = [[] if wants else None for wants in selection]
    pos: i64 = 0
    end: i64 = len(block)
    while pos < end:
        if end - pos < 7:
            raise ProtocolViolation("a DataRow is shorter than its length fields")
        after = pos + 1 + uint32(block, pos + 1)
        if (uint32(block, pos + 3) & 0xFFFF) != width or after > end:
            raise ProtocolViolation("a DataRow's number of columns differs from its description")
        pos += 7
        column: i64 = 0
        while column < width:
            if after - pos < 4:
                raise ProtocolViolation("a DataRow does not fit its length fields")
            size = uint32(block, pos)
            pos += 4
            cells = columns[column]
            if size >= _NULL:
                if cells is not None:
                    cells.append(None)
            else:
                if cells is not None:
                    cells.append(block[pos : pos + size])
                pos += size
            column += 1
        if pos != after:
            raise ProtocolViolation("a DataRow does not fit its length fields")
    return columns


def rebuild(block: bytes, old: list[Cells | None], new: list[Cells | None]) -> bytes:
    """Rebuild the block, which was cut into `old`, with the cells of `new`. None stands for an unchanged column, and
    within a column for NULL."""
    out: list[bytes] = []
    copied: i64 = 0
    pos: i64 = 0
    end: i64 = len(block)
    width: i64 = len(new)
    while width > 0 and new[width - 1] is None:  # nothing changes behind the last replaced column
        width -= 1
    row: i64 = 0
    while pos < end:
        head = pos
        after = pos + 1 + uint32(block, pos + 1)
        at: i64 = -1  # index of the row's length in `out`, once one of its cells has changed
        grown: i64 = 0
        pos += 7
        column: i64 = 0
        while column < width:
            size = uint32(block, pos)
            pos += 4
            if size >= _NULL:
                size = 0
            fresh, stale = new[column], old[column]
            if fresh is not None and stale is not None:
                cell = fresh[row]
                if cell != stale[row]:
                    if at < 0:
                        out.append(block[copied : head + 1])
                        at = len(out)
                        out.append(b"")
                        copied = head + 5
                    if copied < pos - 4:
                        out.append(block[copied : pos - 4])
                    if cell is None:
                        grown -= size
                        out.append(_NULL_SIZE)
                    else:
                        grown += len(cell) - size
                        out.append(encode_length(len(cell)))
                        out.append(cell)
                    copied = pos + size
            pos += size
            column += 1
        if at >= 0:
            out[at] = encode_length(uint32(block, head + 1) + grown)
        pos = after
        row += 1
    out.append(block[copied:])
    return b"".join(out)


class PostgresRows(Rows):
    """Rows of one result within one read. `replace` takes as many texts as `texts` returned."""

    def __init__(self, exchange: int, layout: PostgresLayout, block: bytes, count: int, began: int = 0) -> None:
        self.exchange = exchange
        self._began = began or exchange
        self.columns = layout.columns
        self.count = count
        self._layout = layout
        self._block = block
        self._old: list[Cells | None] = []  # the searchable columns, as they came
        self._new: list[Cells | None] = [None] * len(layout.columns)  # the replaced columns
        self._before: Cells = []  # the cells of the column that was replaced last
        self._replaced = False
        self._wanted = layout.searched

    @property
    def began(self) -> int:
        return self._began

    def expect(self, columns: list[bool]) -> None:
        self._wanted = columns

    def _cells(self, column: int) -> Cells:
        if not self._old:
            self._old = cut(self._block, len(self.columns), self._wanted)
        if self._old[column] is None:  # of a type that is not searched, or unexpected
            only = [place == column for place in range(len(self.columns))]
            self._old[column] = cut(self._block, len(self.columns), only)[column]
        return self._new[column] or self._old[column] or []

    def texts(self, column: int) -> list[bytes]:
        codec = self._layout.codecs[column]
        cells = self._cells(column)
        if codec is None:
            return [cell for cell in cells if cell is not None]
        texts: list[bytes] = []
        for cell in cells:
            if cell is not None:
                texts.extend(codec.leaves(cell))
        return texts

    def replace(self, column: int, texts: list[bytes]) -> None:
        codec = self._layout.codecs[column]
        cells: Cells = []
        at = 0
        self._before = self._cells(column)
        for cell in self._before:
            if cell is None:
                cells.append(None)
            elif codec is None:
                cells.append(texts[at])
                at += 1
            else:
                old = codec.leaves(cell)
                mine = texts[at : at + len(old)]
                at += len(old)
                cells.append(cell if mine == old else codec.rebuild(cell, mine))
        if at != len(texts):
            raise ValueError(f"{len(texts)} texts given for a column that holds {at}")
        self._new[column] = cells
        self._replaced = True

    def change(self, column: int, by: Change) -> tuple[int, int]:
        field = self._layout.fields[column]
        change = cell_change(field.oid, field.format, by)
        is_fixed, fixed, each = change.is_fixed, change.fixed, change.each
        if isinstance(by, Fill):
            return self._fill(column, fixed)
        changes: dict[bytes, bytes | None] = {}
        cells: Cells = []
        count = size = 0
        self._before = self._cells(column)
        for cell in self._before:
            if cell is None:
                cells.append(None)
                continue
            if is_fixed:
                new = fixed
            elif cell in changes:
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

    def _fill(self, column: int, value: bytes | None) -> tuple[int, int]:
        """Set every cell to `value`, including NULLs."""
        old = self._before = self._cells(column)
        changed = [cell for cell in old if cell != value]
        if changed:
            self._new[column] = [value] * len(old)
            self._replaced = True
        return len(changed), sum([len(cell) for cell in changed if cell is not None])

    def encode(self) -> bytes:
        return rebuild(self._block, self._old, self._new) if self._replaced else self._block
