"""Reading recorded bytes as values: columns, rows, ends of statements, errors."""

from __future__ import annotations

from postern.domain.sessions.results import Finished, Problem, Result, ResultColumns, Row
from postern.protocols.mssql.recorded.mssql_cells import shown_cell, type_name
from postern.protocols.mssql.recorded.mssql_recorded_stream import MssqlRecordedTokens
from postern.protocols.mssql.recorded.mssql_text_renderer import row_count
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_token_reader import ResultDescription, ResultRow, Token


class MssqlResults:
    """Reader of results: `feed` takes the recorded stream in chunks of any size."""

    def __init__(self) -> None:
        self._tokens = MssqlRecordedTokens()
        self._counted = False  # a statement of the present call has ended

    def feed(self, data: bytes) -> list[Result]:
        """Return the results that are complete now. Raises ProtocolViolation for bytes that are not packets."""
        return [result for token in self._tokens.feed(data) if (result := self._result(token)) is not None]

    def _result(self, token: Token) -> Result | None:
        if isinstance(token, ResultRow):
            cells = zip(token.columns, token.cells, strict=True)
            return Row(tuple([shown_cell(column, cell) for column, cell in cells]))
        if isinstance(token, ResultDescription) and token.columns:
            names = tuple([column.name for column in token.columns])
            return ResultColumns(names, tuple([type_name(column.type) for column in token.columns]))
        if isinstance(token, k.MessageToken):
            if token.code == k.ERROR:
                return Problem("ERROR", token.text, code=str(token.number), detail=k.error_place(token))
            return Problem("INFO", token.text, code=str(token.number) if token.number else "", fails=False)
        if isinstance(token, k.DoneToken):
            return self._end_result(token)
        return None

    def _end_result(self, token: k.DoneToken) -> Result | None:
        """Return the end of a statement. The end of a procedure is one only if no statement of it was counted."""
        counted, self._counted = self._counted, token.code == k.DONEINPROC
        if token.status & k.DONE_ERROR:
            return None
        if token.rows is not None:
            return Finished(row_count(token.rows))
        if token.code == k.DONEINPROC or (token.code == k.DONEPROC and counted):
            return None
        return Finished("Commands completed successfully")
