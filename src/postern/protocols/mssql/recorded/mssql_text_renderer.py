"""Rendering recorded bytes as text, much as `sqlcmd` prints it, with tabs between cells."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import Final

from postern.protocols.mssql.recorded.mssql_cells import shown_cell
from postern.protocols.mssql.recorded.mssql_recorded_stream import MssqlRecordedTokens
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_token_reader import ResultDescription, ResultRow, ReturnStatus, Token
from postern.protocols.mssql.wire.mssql_types import MssqlType

_ESCAPES: Final = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\0", "\\0"))


class MssqlTextRenderer:
    """A `Renderer`: `feed` takes the recorded stream in chunks of any size and returns ("o" or "e", text) pieces."""

    def __init__(self) -> None:
        self._tokens = MssqlRecordedTokens()

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """Return the pieces; adjacent ones of the same kind are joined. Raises ProtocolViolation for bytes that are not
        packets."""
        pieces = [(kind, text.encode()) for kind, text in map(_piece, self._tokens.feed(data)) if text]
        return [(kind, b"".join(text for _, text in same)) for kind, same in groupby(pieces, itemgetter(0))]

    def rest(self) -> list[tuple[str, bytes]]:
        """Forget an incomplete token: rows are told once they are complete."""
        self._tokens.begin_anew()
        return []


def _piece(token: Token) -> tuple[str, str]:
    if isinstance(token, ResultRow):
        cells = [shown_cell(column, cell) for column, cell in zip(token.columns, token.cells, strict=True)]
        return "o", "\t".join(["NULL" if cell is None else _plain(cell) for cell in cells]) + "\n"
    if isinstance(token, ResultDescription):
        return "o", "\t".join([column.name for column in token.columns]) + "\n" if token.columns else ""
    if isinstance(token, k.MessageToken):
        return ("e", _error_line(token)) if token.code == k.ERROR else ("o", token.text + "\n")
    if isinstance(token, k.DoneToken):
        return "o", "" if token.rows is None else f"({row_count(token.rows)})\n"
    if isinstance(token, k.ReturnValue):
        return "o", f"{token.name or 'output'} = {_value(token.type, token.value)}\n"
    if isinstance(token, ReturnStatus) and token.number:
        return "o", f"(return status = {token.number})\n"
    return "o", ""


def row_count(rows: int) -> str:
    """Return the end of a statement, as `sqlcmd` prints it."""
    return f"{rows} row{'' if rows == 1 else 's'} affected"


def _error_line(token: k.MessageToken) -> str:
    place = k.error_place(token)
    at = f", {place}" if place else ""
    return f"Msg {token.number}, Level {token.severity}, State {token.state}{at}: {token.text}\n"


def _value(kind: MssqlType, value: bytes | None) -> str:
    shown = shown_cell(k.MssqlColumn("", kind, 0, "", b""), value)
    return "NULL" if shown is None else _plain(shown)


def _plain(cell: str) -> str:
    """Escape a cell: one line, one field."""
    for raw, escaped in _ESCAPES:
        cell = cell.replace(raw, escaped)
    return cell
