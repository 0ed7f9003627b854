"""Reading recorded bytes as values: columns, rows, ends of statements, errors."""

from __future__ import annotations

from postern.domain.sessions.results import Finished, Problem, Result, ResultColumns, Row
from postern.protocols.mysql.recorded.mysql_reading import Cells, Found, ResultHead, StatementEnd
from postern.protocols.mysql.recorded.mysql_recorded_stream import MysqlReading, OmittedPayload
from postern.protocols.mysql.recorded.mysql_text_renderer import tag
from postern.protocols.mysql.recorded.mysql_type_names import type_name
from postern.protocols.mysql.wire import mysql_messages as m


class MysqlResults:
    """Reader of results: `feed` takes the recorded stream in chunks of any size. Values are UTF-8, which the gateway
    requests."""

    def __init__(self) -> None:
        self._reading = MysqlReading()

    def feed(self, data: bytes) -> list[Result]:
        """Return the results that are complete now. Raises ProtocolViolation for bytes that are not packets."""
        return [result for part in self._reading.feed(data) if (result := _result(part)) is not None]


def _result(part: Found | OmittedPayload) -> Result | None:
    if isinstance(part, Cells):
        return Row(tuple(None if cell is None else cell.decode("utf-8", "replace") for cell in part.cells))
    if isinstance(part, ResultHead):
        return ResultColumns(tuple(field.name for field in part.fields), tuple(map(type_name, part.fields)))
    if isinstance(part, StatementEnd):
        return Finished(tag(part))
    if isinstance(part, m.Failed):
        return Problem("ERROR", part.text, code=part.state)
    if isinstance(part, OmittedPayload):
        return Problem("NOTE", f"a result of {part.size} bytes is omitted", fails=False)
    return None
