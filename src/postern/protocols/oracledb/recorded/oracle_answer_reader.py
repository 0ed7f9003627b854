"""Reading recorded bytes for rules about answers: the texts of each answer, and its number of rows."""

from __future__ import annotations

from postern.domain.rules.trial import Answered
from postern.protocols.oracledb.recorded.oracle_recorded_stream import (
    OracleRecord,
    OracleRecordedStream,
    RecordedEnd,
    RecordedLob,
    RecordedResult,
    RecordedRow,
)


class OracleAnswers:
    """Reader of answers: `feed` takes the recorded stream in chunks of any size. Rows are counted per statement."""

    def __init__(self) -> None:
        self._stream = OracleRecordedStream()

    def feed(self, data: bytes) -> list[Answered]:
        """Return the answers that are complete now. Raises ProtocolViolation for bytes that cannot be read."""
        return [answer for record in self._stream.feed(data) for answer in _answers(record)]


def _answers(record: OracleRecord) -> list[Answered]:
    if isinstance(record, RecordedRow):
        return [Answered(tuple([cell.encode() for cell in record.cells if cell is not None]), rows=1)]
    if isinstance(record, RecordedResult):
        return []
    if isinstance(record, RecordedLob):
        lost = [Answered((), lost="a part of a LOB")] if record.omitted else []
        return [Answered((record.text.encode(),)), *lost]
    if isinstance(record, RecordedEnd):
        texts = (record.text.encode(),) if record.number else ()
        return [Answered(texts, ends=not record.has_more)]
    return [Answered((record.text.encode(),))]
