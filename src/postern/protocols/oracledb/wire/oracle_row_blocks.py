"""Rows as they arrive: as many as can be read at once, and where each of their values is.

The target can leave out values that are those of the row before. Such rows are completed, since the row before may be
shown with other values.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.oracle_answers import OraclePendingAnswer, read_bit_vector, read_out_values
from postern.protocols.oracledb.wire.oracle_rows import RowLayout, complete_row, walk_row
from postern.protocols.oracledb.wire.ttc_buffers import TtcIncomplete, TtcReader
from postern.protocols.oracledb.wire.ttc_columns import NestedCursor
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout

_MAX_COMPLETED: Final = 1 << 20  # bytes: few bytes of a target can stand for many
_ROW: Final = bytes((c.ROW_DATA,))


class RowBlock:
    """Rows in `data` from `first` to `last`. `spans` are the begin and the end of each value. `after` is where reading
    continues in what the target sent."""

    __slots__ = ("after", "count", "data", "first", "last", "layout", "nested", "spans")

    def __init__(
        self,
        layout: RowLayout,
        data: bytes,
        first: int,
        last: int,
        *,
        spans: list[int],
        nested: list[NestedCursor],
        count: int,
        after: int,
    ) -> None:
        self.layout = layout
        self.data = data
        self.first = first
        self.last = last
        self.spans = spans
        self.nested = nested
        self.count = count
        self.after = after

    def last_row(self) -> tuple[bytes, ...]:
        """Return the values of the last row, with what follows them, for a next one that refers to it."""
        starts = self.spans[len(self.spans) - 2 * len(self.layout.columns) :: 2]
        ends = [*starts[1:], self.last]
        return tuple([self.data[start:end] for start, end in zip(starts, ends, strict=False)])


def read_rows(buf: bytes, start: int, layout: RowLayout) -> RowBlock:
    """Read all rows from `start` on that have arrived. Raises TtcIncomplete without one."""
    end: i64 = len(buf)
    pos: i64 = start
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
    last = int(pos)
    return RowBlock(layout, buf, start, last, spans=spans, nested=nested, count=count, after=last)


def complete_rows(buf: bytes, start: int, layout: RowLayout, answer: OraclePendingAnswer) -> RowBlock:
    """Read rows without the values that are those of the row before, and complete them."""
    end: i64 = len(buf)
    pos: i64 = start
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
    data = b"".join(rows)
    spans: list[int] = []
    place: i64 = 0
    for _ in rows:
        place = walk_row(data, place + 1, layout, spans, [])
    return RowBlock(layout, data, 0, len(data), spans=spans, nested=nested, count=len(rows), after=int(pos))


def read_outs(buf: bytes, start: int, answer: OraclePendingAnswer, layout: TtcLayout) -> RowBlock:
    """Read the values of binds that come back, as one row."""
    reader = TtcReader(buf, start + 1)
    values = read_out_values(reader, answer, layout)
    end = int(reader.pos)
    columns = RowLayout(tuple(values.columns), layout)
    return RowBlock(columns, buf, start, end, spans=values.spans, nested=values.nested, count=1, after=end)
