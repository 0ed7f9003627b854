"""Reading recorded bytes as values: columns, rows, tags, errors and notices, as a client of simple queries reads
them."""

from __future__ import annotations

from postern.domain.sessions.results import Finished, Problem, Result, ResultColumns, Row
from postern.protocols.postgres.queries.postgres_query import cells
from postern.protocols.postgres.recorded.postgres_recorded_stream import PostgresMessages
from postern.protocols.postgres.recorded.postgres_type_names import type_name
from postern.protocols.postgres.wire import postgres_messages as m
from postern.protocols.postgres.wire.postgres_types import readable


class PostgresResults:
    """Reader of results: `feed` takes the recorded stream in chunks of any size. Values are UTF-8, which the gateway
    requests."""

    def __init__(self) -> None:
        self._messages = PostgresMessages()
        self._fields: tuple[m.PostgresField, ...] = ()
        self._binary = False

    def feed(self, data: bytes) -> list[Result]:
        """Return the results that are complete now. Raises ProtocolViolation for bytes that are not messages."""
        results: list[Result] = []
        for message in self._messages.feed(data):
            if message.body is None:
                results.append(Problem("NOTE", f"a result of {message.size} bytes is omitted", fails=False))
            elif (result := self._result(message.tag, message.body)) is not None:
                results.append(result)
        return results

    def _result(self, tag: int, body: bytes) -> Result | None:
        if tag == m.DATA_ROW:
            return Row(self._texts(body))
        if tag == m.ROW_DESCRIPTION:
            self._fields = m.parse_row_description(body)
            self._binary = any(field.format == 1 for field in self._fields)
            return ResultColumns(tuple(field.name for field in self._fields), tuple(map(type_name, self._fields)))
        if tag == m.COMMAND_COMPLETE:
            return Finished(body.rstrip(b"\0").decode("utf-8", "replace"))
        if tag in (m.ERROR_RESPONSE, m.NOTICE_RESPONSE):
            return _problem(m.parse_report(body), fails=tag == m.ERROR_RESPONSE)
        return None

    def _texts(self, body: bytes) -> tuple[str | None, ...]:
        values = cells(body)
        if self._binary:  # a cursor declared as binary
            for at, field in enumerate(self._fields[: len(values)]):
                cell = values[at]
                if field.format == 1 and cell is not None:
                    values[at] = readable(cell, field.oid)
        return tuple([None if cell is None else cell.decode("utf-8", "replace") for cell in values])


def _problem(report: m.ErrorFields, *, fails: bool) -> Problem:
    at = report.position
    return Problem(
        report.severity,
        report.text,
        code=report.code,
        detail=report.detail,
        hint=report.hint,
        position=int(at) if at.isdecimal() and len(at) < 12 else None,
        fails=fails,
    )
