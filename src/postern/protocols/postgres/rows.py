"""A block of DataRow messages, seen by column.

A DataRow is 'D', Int32 length, Int16 column count, then for each column Int32 length (-1 is NULL) and
the bytes. Rows stay where they are in the read: only the columns that somebody asks for are cut out,
and only rows with a replaced cell are built again. The walk is the hottest loop of masking; it is
plain typed code so that mypyc can compile this module.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from postern.errors import ProtocolViolation
from postern.interception.events import Column, Kind, Rows
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


def cell_starts(block: bytes, width: int) -> tuple[list[int], list[int]]:
    """Where each cell's bytes start and how long they are (-1: NULL), row by row.

    Raises ProtocolViolation when a row does not fit its own lengths.
    """
    starts: list[int] = []
    sizes: list[int] = []
    pos = 0
    end = len(block)
    while pos < end:
        after = pos + 1 + int.from_bytes(block[pos + 1 : pos + 5], "big")
        if int.from_bytes(block[pos + 5 : pos + 7], "big") != width:
            raise ProtocolViolation("a DataRow has another number of columns than its description")
        pos += 7
        for _ in range(width):
            size = int.from_bytes(block[pos : pos + 4], "big")
            pos += 4
            starts.append(pos)
            if size >= 0x80000000:
                sizes.append(-1)
            else:
                sizes.append(size)
                pos += size
        if pos != after:
            raise ProtocolViolation("a DataRow is not as long as it says")
    return starts, sizes


def rebuild(block: bytes, width: int, starts: list[int], sizes: list[int], new: dict[int, list[bytes | None]]) -> bytes:
    """The block with the cells of the columns in `new` replaced; each list has one entry a row."""
    columns = sorted(new)
    lists = [new[column] for column in columns]
    out: list[bytes] = []
    count = len(starts) // width
    copied = 0
    for row in range(count):
        base = row * width
        grown = 0
        for index, column in enumerate(columns):
            cell = lists[index][row]
            if cell is not None:
                grown += len(cell) - sizes[base + column]
        head = starts[base] - 11
        if grown != 0:
            length = int.from_bytes(block[head + 1 : head + 5], "big") + grown
            out.append(block[copied : head + 1])
            out.append(length.to_bytes(4, "big"))
            copied = head + 5
        for index, column in enumerate(columns):
            cell = lists[index][row]
            if cell is None:
                continue
            start = starts[base + column]
            out.append(block[copied : start - 4])
            out.append(len(cell).to_bytes(4, "big"))
            out.append(cell)
            copied = start + sizes[base + column]
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
        self._new: dict[int, list[bytes | None]] = {}

    def _cells(self, column: int) -> list[bytes | None]:
        if not self._starts and self._width:
            self._starts, self._sizes = cell_starts(self._block, self._width)
        block = self._block
        starts = self._starts[column :: self._width]
        sizes = self._sizes[column :: self._width]
        cells: list[bytes | None] = [
            None if size < 0 else block[start : start + size] for start, size in zip(starts, sizes, strict=True)
        ]
        replaced = self._new.get(column)
        if replaced is not None:
            cells = [old if fresh is None else fresh for old, fresh in zip(cells, replaced, strict=True)]
        return cells

    def texts(self, column: int) -> list[bytes]:
        if self.columns[column].kind is Kind.OPAQUE:
            return []
        cells = [cell for cell in self._cells(column) if cell is not None]
        codec = self._layout.codecs[column]
        if codec is None:
            return cells
        return [leaf for cell in cells for leaf in codec.leaves(cell)]

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
