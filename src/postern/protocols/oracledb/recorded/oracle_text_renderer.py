"""Rendering recorded bytes as text, much as `sqlplus` prints it, with tabs between cells."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import Final

from postern.protocols.oracledb.recorded.oracle_recorded_stream import (
    OracleRecord,
    OracleRecordedStream,
    RecordedEnd,
    RecordedLob,
    RecordedResult,
    RecordedRow,
)

_ESCAPES: Final = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\0", "\\0"))
_DONE: Final = {
    "INSERT": "inserted",
    "UPDATE": "updated",
    "DELETE": "deleted",
    "MERGE": "merged",
}


class OracleTextRenderer:
    """A `Renderer`: `feed` takes the recorded stream in chunks of any size and returns ("o" or "e", text) pieces."""

    def __init__(self) -> None:
        self._stream = OracleRecordedStream()

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """Return the pieces; adjacent ones of the same kind are joined. Raises ProtocolViolation for bytes that cannot
        be read."""
        pieces = [(kind, text.encode()) for kind, text in map(_piece, self._stream.feed(data)) if text]
        return [(kind, b"".join([text for _, text in same])) for kind, same in groupby(pieces, itemgetter(0))]

    def rest(self) -> list[tuple[str, bytes]]:
        """Forget an incomplete message: rows are shown once they are complete."""
        self._stream.begin_anew()
        return []


def _piece(record: OracleRecord) -> tuple[str, str]:
    if isinstance(record, RecordedRow):
        return "o", "\t".join(["NULL" if cell is None else _plain(cell) for cell in record.cells]) + "\n"
    if isinstance(record, RecordedResult):
        return "o", "\t".join([column.name for column in record.columns]) + "\n" if record.is_new else ""
    if isinstance(record, RecordedLob):
        more = f" ({record.omitted} more bytes)" if record.omitted else ""
        return "o", f"{record.text}{more}\n"
    if isinstance(record, RecordedEnd):
        if record.number:
            return "e", f"{record.text}\n"
        tag = completion(record)
        return "o", f"({tag})\n" if tag else ""
    return "o", f"{record.text}\n"


def completion(record: RecordedEnd) -> str:
    """Return what the end of an answer says; empty if that is nothing."""
    if record.rows is None:
        return ""
    count = f"{record.rows} row{'' if record.rows == 1 else 's'}"
    return f"{count} {_DONE.get(record.tag, 'selected')}"


def _plain(cell: str) -> str:
    """Escape a cell: one line, one field."""
    for raw, escaped in _ESCAPES:
        cell = cell.replace(raw, escaped)
    return cell
