"""Rendering recorded bytes as the client's text, in the plain form of `mysql --batch`."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

from postern.protocols.mysql.recorded.mysql_reading import Cells, Found, PlainAnswer, ResultHead, StatementEnd
from postern.protocols.mysql.recorded.mysql_recorded_stream import MysqlReading, OmittedPayload
from postern.protocols.mysql.wire import mysql_messages as m

_ESCAPES = ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n"), (b"\0", b"\\0"))


class MysqlTextRenderer:
    """A `Renderer`: `feed` takes the recorded stream in chunks of any size and returns ("o" or "e", text) pieces."""

    def __init__(self) -> None:
        self._reading = MysqlReading()

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """Return the pieces; adjacent ones of the same kind are joined. Raises ProtocolViolation for bytes that are not
        packets."""
        pieces = map(_piece, self._reading.feed(data))
        return [(kind, b"".join(text for _, text in same)) for kind, same in groupby(pieces, itemgetter(0))]

    def rest(self) -> list[tuple[str, bytes]]:
        """Return the text of an incomplete row."""
        cells = self._reading.rest()
        self._reading = MysqlReading()
        return [("o", _line(cells))] if cells else []


def _piece(part: Found | OmittedPayload) -> tuple[str, bytes]:
    if isinstance(part, Cells):
        return "o", _line(part.cells)
    if isinstance(part, ResultHead):
        return "o", _line(tuple(field.name.encode() for field in part.fields))
    if isinstance(part, m.Failed):
        return "e", f"ERROR {part.code} ({part.state}): {part.text}\n".encode()
    if isinstance(part, OmittedPayload):
        return "o", b"[a row of %d bytes]\n" % part.size
    if isinstance(part, PlainAnswer):
        return "o", part.text + b"\n"
    return "o", tag(part).encode() + b"\n"


def tag(ended: StatementEnd) -> str:
    """Return the end of a statement, as MySQL's command line prints it."""
    if ended.done is None:
        return f"{ended.rows} row{'' if ended.rows == 1 else 's'} in set"
    affected = ended.done.affected
    summary = f"Query OK, {affected} row{'' if affected == 1 else 's'} affected"
    info = ended.done.info.decode("utf-8", "replace")
    return f"{summary}, {info}" if info else summary


def _line(cells: tuple[bytes | None, ...]) -> bytes:
    return b"\t".join(b"NULL" if cell is None else _plain(cell) for cell in cells) + b"\n"


def _plain(cell: bytes) -> bytes:
    """Escape a cell: one line, one field."""
    if b"\t" in cell or b"\n" in cell or b"\\" in cell or b"\0" in cell:
        for raw, escaped in _ESCAPES:
            cell = cell.replace(raw, escaped)
    return cell
