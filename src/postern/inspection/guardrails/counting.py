"""Row counts of statements, over all requests that fetch their rows."""

from __future__ import annotations

import re
from typing import Final

from postern.inspection.sql_comments import readings
from postern.interception.events import Operation, Output, Rows

_MOST: Final = 10_000  # concurrent statements that are counted
_FETCH: Final = re.compile(rb"\s*fetch\b", re.IGNORECASE)
_DECLARE: Final = re.compile(rb'\s*declare\s*("(?:[^"]|"")*+"|[^\s;"]+)', re.IGNORECASE)
_ANY: Final = b""  # several cursors in one text

_Key = int | bytes


class SessionRowCounts:
    """Row counts of one session. A cursor counts from its DECLARE on, a portal from its first Execute."""

    def __init__(self) -> None:
        self._counts: dict[_Key, int] = {}
        self._fetches: dict[int, bytes] = {}  # cursor that a request reads, by exchange

    def track_cursors(self, operation: Operation) -> None:
        text = operation.text.lower()
        if "fetch" not in text and "declare" not in text:
            return
        for reading in readings(operation.text.encode("utf-8", "surrogatepass")):
            statements = reading.split(b";")
            for declared in filter(None, map(_DECLARE.match, statements)):
                self._counts.pop(_fold_name(declared[1]), None)
                self._counts.pop(_ANY, None)
            names = {_read_cursor_name(statement) for statement in statements if _FETCH.match(statement)}
            if names:
                self._fetches[operation.exchange] = names.pop() if len(names) == 1 else _ANY
        while len(self._fetches) > _MOST:
            del self._fetches[next(iter(self._fetches))]

    def add(self, event: Rows | Output, rows: int) -> int:
        """Add rows, and return how many the statement has returned so far."""
        key: _Key = event.counts_with if isinstance(event, Rows) else event.exchange
        key = self._fetches.get(event.exchange, key)
        count = self._counts.pop(key, 0) + rows
        self._counts[key] = count  # moves the key to the end
        while len(self._counts) > _MOST:
            del self._counts[next(iter(self._counts))]
        return count


def _read_cursor_name(statement: bytes) -> bytes:
    """Return the cursor's name at the end of a FETCH."""
    statement = statement.rstrip()
    if statement.endswith(b'"'):
        return _fold_name(b'"' + statement[:-1].rpartition(b'"')[2] + b'"')
    return _fold_name(statement.split()[-1].rpartition(b'"')[2])


def _fold_name(name: bytes) -> bytes:
    """Return a cursor's name as the target reads it: in lower case unless quoted."""
    return name[1:-1].replace(b'""', b'"') if name.startswith(b'"') else name.lower()
