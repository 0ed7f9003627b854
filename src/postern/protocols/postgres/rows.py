"""A block of DataRow messages, seen by column.

A DataRow is 'D', Int32 length, Int16 column count, then for each column Int32 length (-1 is NULL) and
the bytes. Rows stay where they are in the read: only the columns that somebody asks for are cut out,
and only rows with a replaced cell are built again. The walk is the hottest loop of masking; it is
plain typed code so that mypyc can compile this module.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.interception.events import Column, Kind, Rows
from postern.protocols.framing import uint32
from postern.protocols.postgres.messages import Field, parse_row_description
from postern.protocols.postgres.types import Codec, describe


class Layout:
    """The columns of one result, decoded once."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        described = [describe(field) for field in fields]
        self.columns: Final[tuple[Column, ...]] = tuple(column for column, _ in described)
        self.codecs: Final[list[Codec | None]] = [codec for _, codec in described]


@lru_cache(maxsize=64)
def layout_of(description: bytes) -> Layout:
    """The layout that the body of a RowDescription describes. Raises ProtocolViolation when it cannot be read."""
    return Layout(parse_row_description(description))


def cell_starts(block: bytes, width: i64) -> tuple[list[int], list[int]]:
    """Where each cell's bytes start and how long they are (-1: NULL), row by row.

    Raises ProtocolViolation when a row does not fit its own lengths.
    """
    starts: list[int] = []
    sizes: list[int] = []
    pos: i64 = 0
    end: i64 = len(block)
    while pos < end:
        if end - pos < 7:
            raise ProtocolViolation("a DataRow is shorter than it says")
        after = pos + 1 + uint32(block, pos + 1)
        if (uint32(block, pos + 3) & 0xFFFF) != width or after > end:
            raise ProtocolViolation("a DataRow has another number of columns than its description")
        pos += 7
        column: i64 = 0
        while column < width:
            column += 1
            if after - pos < 4:
                raise ProtocolViolation("a DataRow is not as long as it says")
            size = uint32(block, pos)
            pos += 4
            starts.append(int(pos))
            if size >= 0x80000000:
                sizes.append(-1)
            else:
                sizes.append(int(size))
                pos += size
        if pos != after:
            raise ProtocolViolation("a DataRow is not as long as it says")
    return starts, sizes


def cut(block: bytes, width: i64, column: i64, starts: list[int], sizes: list[int]) -> list[bytes | None]:
    """The cells of one column, row by row."""
    cells: list[bytes | None] = []
    at = column
    end: i64 = len(starts)
    while at < end:
        size: i64 = sizes[at]
        if size < 0:
            cells.append(None)
        else:
            start: i64 = starts[at]
            cells.append(block[start : start + size])
        at += width
    return cells


def rebuild(block: bytes, width: i64, starts: list[int], sizes: list[int], new: dict[int, list[bytes | None]]) -> bytes:
    """The block with the cells of the columns in `new` replaced; each list has one entry a row."""
    columns = sorted(new)
    out: list[bytes] = []
    copied: i64 = 0
    base: i64 = 0
    row: i64 = 0
    end: i64 = len(starts)
    while base < end:
        fresh: list[bytes | None] = [new[column][row] for column in columns]
        grown: i64 = 0
        for index, column in enumerate(columns):
            cell = fresh[index]
            if cell is not None:
                grown += len(cell) - sizes[base + column]
        if grown != 0:
            head: i64 = starts[base] - 11
            length = uint32(block, head + 1) + grown
            out.append(block[copied : head + 1])
            out.append(int(length).to_bytes(4, "big"))
            copied = head + 5
        for index, column in enumerate(columns):
            cell = fresh[index]
            if cell is not None:
                start: i64 = starts[base + column]
                out.append(block[copied : start - 4])
                out.append(len(cell).to_bytes(4, "big"))
                out.append(cell)
                copied = start + sizes[base + column]
        base += width
        row += 1
    out.append(block[copied:])
    return b"".join(out)


class DataRows(Rows):
    """Rows of one result within one read. `replace` must be given as many texts as `texts` gave."""

    def __init__(self, exchange: int, layout: Layout, block: bytes, count: int) -> None:
        self.exchange = exchange
        self.columns = layout.columns
        self.count = count
        self._layout = layout
        self._block = block
        self._width = len(layout.columns)
        self._starts: list[int] = []
        self._sizes: list[int] = []
        self._cut: dict[int, list[bytes | None]] = {}  # columns as they came
        self._new: dict[int, list[bytes | None]] = {}  # columns as they are now

    def _cells(self, column: int) -> list[bytes | None]:
        known = self._new.get(column)
        if known is None:
            known = self._cut.get(column)
        if known is None:
            if not self._starts and self._width:
                self._starts, self._sizes = cell_starts(self._block, self._width)
            known = self._cut[column] = cut(self._block, self._width, column, self._starts, self._sizes)
        return known

    def texts(self, column: int) -> list[bytes]:
        if self.columns[column].kind is Kind.OPAQUE:
            return []
        codec = self._layout.codecs[column]
        texts: list[bytes] = []
        for cell in self._cells(column):
            if cell is not None:
                if codec is None:
                    texts.append(cell)
                else:
                    texts.extend(codec.leaves(cell))
        return texts

    def replace(self, column: int, texts: list[bytes]) -> None:
        codec = self._layout.codecs[column]
        cells: list[bytes | None] = []
        at = 0
        for cell in self._cells(column):
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

    def encode(self) -> bytes:
        if not self._new:
            return self._block
        return rebuild(self._block, self._width, self._starts, self._sizes, self._new)
