"""Rows that a client sends in a bulk load: COLMETADATA, rows, DONE. They pass as they come, and are counted."""

from __future__ import annotations

from postern.errors import ProtocolViolation
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_token_skipper import RowSkipper
from postern.protocols.mssql.wire.mssql_types import Truncated

_MAX_DESCRIPTION = 1 << 20
# Bytes of a DONE. The bulk load of Microsoft's driver for Python ends with the short one in every version of TDS.
_SHORT_DONE = 9
_DONE = 13


class BulkRows:
    """Follows the rows of one bulk load, in constant memory. Raises ProtocolViolation for anything else than rows."""

    def __init__(self, wide: bool) -> None:
        self.rows = 0
        self._wide = wide
        self._rest = b""
        self._rows: RowSkipper | None = None
        self._is_done = False

    def feed(self, data: bytes) -> None:
        buf = self._rest + data if self._rest else data
        pos = 0
        end = len(buf)
        while pos < end and not self._is_done:
            after = self._take(buf, pos, end)
            if after == pos:
                break
            pos = after
        self._rest = buf[pos:]
        if self._is_done and len(self._rest) > (_DONE if self._wide else _SHORT_DONE):
            raise ProtocolViolation("a bulk load continues behind its end")
        if len(self._rest) > _MAX_DESCRIPTION:
            raise ProtocolViolation(f"a bulk load describes its columns in more than {_MAX_DESCRIPTION} bytes")

    def _take(self, buf: bytes, pos: int, end: int) -> int:
        """Process what is at `pos`. Return how far; `pos` itself if more bytes are needed."""
        rows = self._rows
        code = buf[pos]
        if rows is None:
            if code != k.COLMETADATA:
                raise ProtocolViolation("a bulk load does not begin with its columns")
            try:
                columns, after = k.read_columns(buf, pos + 1, end, self._wide, is_parameter=True)
            except Truncated:
                return pos
            self._rows = RowSkipper([column.type.form for column in columns or []])
            return int(after)
        if rows.is_inside or code in (k.ROW, k.NBCROW):
            return int(rows.skip(buf, pos, end))
        if code != k.DONE:
            raise ProtocolViolation(f"a bulk load has a token {code:#04x}")
        self.rows = rows.count
        self._is_done = True
        return pos

    def finish(self) -> None:
        """The message has ended. Raises ProtocolViolation if its rows have not."""
        if self._is_done and len(self._rest) in (_SHORT_DONE, _DONE):
            return
        if self._rest or (self._rows is not None and self._rows.is_inside):
            raise ProtocolViolation("a bulk load ends within a row")
