"""Reading recorded bytes as values: columns, rows, ends of statements, errors."""

from __future__ import annotations

from postern.domain.sessions.results import Finished, Problem, Result, ResultColumns, Row
from postern.protocols.mysql.recorded.mysql_reading import Cells, Found, ResultHead, StatementEnd
from postern.protocols.mysql.recorded.mysql_recorded_stream import MysqlReading, OmittedPayload
from postern.protocols.mysql.recorded.mysql_text_renderer import tag
from postern.protocols.mysql.wire import mysql_messages as m


class MysqlResults:
    """Reader of results: `feed` takes the recorded stream in chunks of any size. Values are UTF-8, which the gateway
    requests."""

    def __init__(self) -> None:
        self._reading = MysqlReading()

    def feed(self, data: bytes) -> list[Result]:
        """Return the results that are complete now. Raises ProtocolViolation for bytes that are not packets."""
        return [result for found in self._reading.feed(data) if (result := _result(found)) is not None]


def _result(found: Found | OmittedPayload) -> Result | None:
    if isinstance(found, Cells):
        return Row(tuple(None if cell is None else cell.decode("utf-8", "replace") for cell in found.cells))
    if isinstance(found, ResultHead):
        return ResultColumns(tuple(field.name for field in found.fields))
    if isinstance(found, StatementEnd):
        return Finished(tag(found))
    if isinstance(found, m.Failed):
        return Problem("ERROR", found.text, code=found.state)
    if isinstance(found, OmittedPayload):
        return Problem("NOTE", f"an answer of {found.size} bytes is left out", fails=False)
    return None
