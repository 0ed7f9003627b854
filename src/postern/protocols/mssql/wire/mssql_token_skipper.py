"""Rows that nothing looks at: skipped in pieces of any size, in constant memory, to find where they end."""

from __future__ import annotations

from mypy_extensions import i64

from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_tokens import row_end
from postern.protocols.mssql.wire.mssql_value_forms import ValueSkipper


class RowSkipper:
    """Skips rows with values of these forms. `count` is the number of rows that have begun."""

    __slots__ = ("_column", "_forms", "_nulls", "_value", "count", "is_inside")

    def __init__(self, forms: list[int]) -> None:
        self.count = 0
        self.is_inside = False  # a row has begun, and not ended
        self._forms = forms
        self._column: i64 = 0
        self._nulls = b""
        self._value = ValueSkipper()

    def skip(self, buf: bytes, pos: i64, end: i64) -> i64:
        """Skip rows from `pos` on, as far as they have arrived. Return how far. If `is_inside` then, what is left are
        fewer bytes than tell where the next value ends."""
        while pos < end:
            if not self.is_inside:
                if buf[pos] != k.ROW and buf[pos] != k.NBCROW:
                    return pos
                after = row_end(buf, pos, end, self._forms)
                if after > 0:
                    self.count += 1
                    pos = after
                    continue
                after = self._begin(buf, pos, end)
                if after == pos:
                    return pos
                pos = after
            pos = self._continue(buf, pos, end)
            if self.is_inside:
                return pos
        return pos

    def _begin(self, buf: bytes, pos: i64, end: i64) -> i64:
        """Start a row that has not arrived completely."""
        if buf[pos] == k.NBCROW:
            width: i64 = (len(self._forms) + 7) >> 3
            if end - pos < 1 + width:
                return pos
            self._nulls = buf[pos + 1 : pos + 1 + width]
            pos += width
        else:
            self._nulls = b""
        self._column = 0
        self.count += 1
        self.is_inside = True
        self._next_value()
        return pos + 1

    def _next_value(self) -> None:
        """Start the next value that is there."""
        nulls = self._nulls
        width: i64 = len(self._forms)
        while self._column < width:
            column = self._column
            if not nulls or not (nulls[column >> 3] >> (column & 7)) & 1:
                self._value.begin(self._forms[column])
                if not self._value.over:
                    return
            self._column += 1
        self.is_inside = False

    def _continue(self, buf: bytes, pos: i64, end: i64) -> i64:
        while self.is_inside:
            pos = self._value.skip(buf, pos, end)
            if not self._value.over:
                return pos
            self._column += 1
            self._next_value()
        return pos
