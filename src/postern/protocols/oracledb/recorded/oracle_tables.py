"""Reading recorded bytes as values: columns, rows, ends of statements, errors."""

from __future__ import annotations

import re
from typing import Final

from postern.domain.sessions.results import Finished, Problem, Result, ResultColumns, Row
from postern.protocols.oracledb.recorded.oracle_cells import type_name
from postern.protocols.oracledb.recorded.oracle_recorded_stream import (
    OracleRecord,
    OracleRecordedStream,
    RecordedEnd,
    RecordedLob,
    RecordedResult,
    RecordedRow,
)
from postern.protocols.oracledb.recorded.oracle_text_renderer import completion

_PREFIX: Final = re.compile(r"[A-Z]{3,4}-\d{5}: ?")
_PLAIN: Final = {
    "": "Statement processed.",
    "BEGIN": "PL/SQL procedure successfully completed.",
    "DECLARE": "PL/SQL procedure successfully completed.",
    "CALL": "Call completed.",
    "COMMIT": "Commit complete.",
    "ROLLBACK": "Rollback complete.",
}


class OracleResults:
    """Reader of results: `feed` takes the recorded stream in chunks of any size."""

    def __init__(self) -> None:
        self._stream = OracleRecordedStream()

    def feed(self, data: bytes) -> list[Result]:
        """Return the results that are complete now. Raises ProtocolViolation for bytes that cannot be read."""
        return [result for record in self._stream.feed(data) if (result := self._result(record)) is not None]

    def _result(self, record: OracleRecord) -> Result | None:
        if isinstance(record, RecordedRow):
            return Row(record.cells)
        if isinstance(record, RecordedResult):
            if not record.is_new:
                return None
            return ResultColumns(
                tuple([column.name for column in record.columns]),
                tuple([type_name(column) for column in record.columns]),
            )
        if isinstance(record, RecordedEnd):
            return _end(record)
        if isinstance(record, RecordedLob):
            more = f" ({record.omitted} more bytes)" if record.omitted else ""
            return Problem("LOB", record.text + more, fails=False)
        return Problem("WARNING", record.text, code=f"ORA-{record.number:05d}", fails=False)


def _end(record: RecordedEnd) -> Result | None:
    if record.number:
        return Problem("ERROR", _PREFIX.sub("", record.text, count=1), code=f"ORA-{record.number:05d}")
    if record.rows is not None:
        return Finished(completion(record))
    return None if record.has_more else Finished(_PLAIN.get(record.tag, f"{record.tag} completed."))
