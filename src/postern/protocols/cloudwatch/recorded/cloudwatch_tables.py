"""Reading recorded bytes as values: each answer is a table, whose columns are the fields of its events or objects."""

from __future__ import annotations

from collections.abc import Sequence

from postern.domain.sessions.results import Finished, Problem, Result, ResultColumns, Row
from postern.protocols.cloudwatch.queries.cloudwatch_messages import ResponseFrames
from postern.protocols.cloudwatch.recorded.cloudwatch_reading import (
    RecordedAnswer,
    cell_of,
    count_line,
    known_as,
    read_recorded,
)


class CloudwatchResults:
    """Reader of results: `feed` takes the recorded stream in chunks of any size."""

    def __init__(self) -> None:
        self._responses = ResponseFrames(is_eager=True)
        self._places: dict[str, int] = {}  # of the current result: the names of its columns, as masking has them

    def feed(self, data: bytes) -> list[Result]:
        """Return the results that are complete now. Raises ProtocolViolation for bytes that are not frames."""
        results: list[Result] = []
        for response in self._responses.feed(data):
            self._read(read_recorded(response), results)
        return results

    def find_columns(self, names: Sequence[str], *, whole: bool = False) -> tuple[int, ...]:
        """Return the columns of the current result that show these paths, each once. `whole`: only those of fields that
        a path names, and not one of their parts."""
        numbers = {self._places.get(name) if whole else self._number_of(name): None for name in names}
        return tuple(number for number in numbers if number is not None)

    def _number_of(self, path: str) -> int | None:
        """Return the column of the longest prefix of a path."""
        end = len(path)
        while end > 0:
            number = self._places.get(path[:end])
            if number is not None:
                return number
            end = path.rfind(".", 0, end)
        return None

    def _read(self, answer: RecordedAnswer, results: list[Result]) -> None:
        if answer.error is not None:
            results.append(Problem("ERROR", answer.error.message, code=answer.error.code))
            return
        if not answer.names:
            if not answer.is_part:
                results.append(Finished("ok" if not answer.table else count_line(0)))
            return
        results.append(ResultColumns(answer.names, (None,) * len(answer.names)))
        self._places = {}
        for number, name in enumerate(answer.names):
            known = known_as(name)
            self._places.setdefault(known, number)
            if answer.table:
                self._places.setdefault(f"{answer.table}.{known}", number)
        results += [Row(tuple(cell_of(row.get(name)) for name in answer.names)) for row in answer.rows]
        results.append(Finished(count_line(len(answer.rows))))
