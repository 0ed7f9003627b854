"""Reading recorded bytes for rules about answers: the texts of each answer, and its number of rows."""

from __future__ import annotations

from postern.domain.rules.trial import Answered
from postern.protocols.postgres.queries.postgres_query import cells
from postern.protocols.postgres.recorded.postgres_recorded_stream import PostgresMessages
from postern.protocols.postgres.wire import postgres_messages as m
from postern.protocols.postgres.wire.postgres_types import readable

_ENDS = frozenset({m.COMMAND_COMPLETE, m.PORTAL_SUSPENDED, m.READY_FOR_QUERY, m.EMPTY_QUERY_RESPONSE})


class PostgresAnswers:
    """Reader of answers: `feed` takes the recorded stream in chunks of any size. Rows are counted per statement."""

    def __init__(self) -> None:
        self._messages = PostgresMessages()
        self._fields: tuple[m.PostgresField, ...] = ()

    def feed(self, data: bytes) -> list[Answered]:
        """Return the answers that are complete now. Raises ProtocolViolation for bytes that are not messages."""
        answers: list[Answered] = []
        for message in self._messages.feed(data):
            if message.body is None:
                answers.append(Answered((), lost=f"a message of {message.size} bytes"))
            elif (answer := self._answer(message.tag, message.body)) is not None:
                answers.append(answer)
        return answers

    def _answer(self, tag: int, body: bytes) -> Answered | None:
        if tag == m.DATA_ROW:
            return Answered(tuple(self._texts(body)), rows=1)
        if tag == m.COPY_DATA:
            return Answered((body,), rows=max(1, body.count(b"\n")))
        if tag in (m.ERROR_RESPONSE, m.NOTICE_RESPONSE):
            report = m.parse_report(body)
            texts = (report.text, report.detail, report.hint)
            return Answered(tuple(text.encode() for text in texts if text), ends=tag == m.ERROR_RESPONSE)
        if tag == m.NOTIFICATION_RESPONSE:
            return Answered(tuple(data for data in body[4:].split(b"\0") if data))
        if tag == m.FUNCTION_CALL_RESPONSE:
            return Answered((readable(body[4:], 0),))
        if tag == m.ROW_DESCRIPTION:
            self._fields = m.parse_row_description(body)
        elif tag in _ENDS:
            self._fields = ()
            return Answered((), ends=True)
        return None

    def _texts(self, body: bytes) -> list[bytes]:
        """Return the texts of a row. Its description may be missing here, if the statement was described earlier."""
        texts: list[bytes] = []
        for at, cell in enumerate(cells(body)):
            if cell is None:
                continue
            field = self._fields[at] if at < len(self._fields) else None
            is_binary = field is None or field.format == 1
            texts.append(readable(cell, field.oid if field else 0) if is_binary else cell)
        return texts
