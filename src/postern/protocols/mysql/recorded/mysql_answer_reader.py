"""Reading recorded bytes for rules about answers: the texts of each answer, and its number of rows."""

from __future__ import annotations

from postern.domain.rules.trial import Answered
from postern.protocols.mysql.recorded.mysql_reading import Cells, Found, PlainAnswer, StatementEnd
from postern.protocols.mysql.recorded.mysql_recorded_stream import MysqlReading, OmittedPayload
from postern.protocols.mysql.wire import mysql_messages as m


class MysqlAnswers:
    """Reader of answers: `feed` takes the recorded stream in chunks of any size. Rows are counted per statement."""

    def __init__(self) -> None:
        self._reading = MysqlReading()

    def feed(self, data: bytes) -> list[Answered]:
        """Return the answers that are complete now. Raises ProtocolViolation for bytes that are not packets."""
        return [answer for part in self._reading.feed(data) if (answer := _answer(part)) is not None]


def _answer(part: Found | OmittedPayload) -> Answered | None:
    if isinstance(part, Cells):
        return Answered(tuple(cell for cell in part.cells if cell is not None), rows=1)
    if isinstance(part, m.Failed):
        return Answered((part.text.encode(),), ends=True)
    if isinstance(part, StatementEnd):
        info = part.done.info if part.done is not None else b""
        return Answered((info,) if info else (), ends=True)
    if isinstance(part, PlainAnswer):
        return Answered((part.text,), ends=True)
    if isinstance(part, OmittedPayload):
        return Answered((), lost=f"a row of {part.size} bytes")
    return None
