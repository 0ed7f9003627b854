"""Reading recorded frames as tables: a row for each object of an array, or for each line of a text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from postern.domain.sessions.results import Finished, Problem, Result, ResultColumns, Row
from postern.protocols.http.content.content_types import BodyKind
from postern.protocols.http.recorded.recorded_responses import (
    RecordedPart,
    RecordedResponse,
    RecordedResponses,
    status_line,
)

MAX_COLUMNS: Final = 1000
BODY: Final = "body"
OTHER_FIELDS: Final = "(other fields)"
_LONGEST: Final = 32 << 20  # bytes of a body that is read as a table
_FAILS: Final = 400
_QUOTED: Final = 2000  # characters of an error's body


class HttpResults:
    """Reader of results: `feed` takes the recorded stream in chunks of any size."""

    def __init__(self) -> None:
        self._responses = RecordedResponses()

    def feed(self, data: bytes) -> list[Result]:
        """Return the results that are complete now. Raises ProtocolViolation for bytes that are no frames."""
        results: list[Result] = []
        for part in self._responses.feed(data):
            self._read(part, results)
        return results

    def _read(self, part: RecordedPart, results: list[Result]) -> None:
        response = part.response
        if part.failure is not None:
            results.append(Problem("ERROR", part.failure.message, code=part.failure.code))
            return
        if not part.ends:
            if part.text and response.body.size <= _LONGEST:
                response.parts.append(part.text)
            return
        text = b"".join(response.parts).decode("utf-8", "replace")
        response.parts.clear()
        note = part.text.decode()
        if response.head is not None and response.head.status >= _FAILS:
            message = text.strip()[:_QUOTED] or note or status_line(response.head)
            results.append(Problem("ERROR", message, code=str(response.head.status)))
            return
        if note:
            results.append(Problem("NOTE", note.strip("[]"), fails=False))
        elif response.body.size > _LONGEST:
            results.append(Problem("NOTE", f"a body of {response.body.size} bytes is not read", fails=False))
        elif text:
            results += _table(response, text)
        results.append(Finished("" if response.head is None else status_line(response.head)))


def _table(response: RecordedResponse, text: str) -> list[Result]:
    documents = _documents(response.body.type.kind, text)
    if documents is None:
        return [ResultColumns((BODY,)), *[Row((line,)) for line in text.splitlines()]]
    if not documents or not all(isinstance(document, dict) for document in documents):
        return [ResultColumns((BODY,)), *[Row((_cell(document),)) for document in documents]]
    return _rows_of(documents)


def _documents(kind: BodyKind, text: str) -> list[Any] | None:
    """Return the values of a JSON body that become rows; None for a text."""
    try:
        if kind is BodyKind.JSON_LINES:
            return [json.loads(line.strip("\x1e")) for line in text.splitlines() if line.strip("\x1e \t")]
        if kind is BodyKind.JSON or text.lstrip()[:1] in ("{", "["):
            value = json.loads(text)
            return value if isinstance(value, list) else [value]
    except (ValueError, RecursionError):
        return None
    return None


def _rows_of(documents: Sequence[dict[str, Any]]) -> list[Result]:
    names = list(dict.fromkeys(name for document in documents for name in document))
    shown, others = names[:MAX_COLUMNS], frozenset(names[MAX_COLUMNS:])
    columns = (*shown, OTHER_FIELDS) if others else tuple(shown)
    results: list[Result] = [ResultColumns(columns)]
    for document in documents:
        cells = [_cell(document[name]) if name in document else None for name in shown]
        if others:
            rest = {name: value for name, value in document.items() if name in others}
            cells.append(_cell(rest) if rest else None)
        results.append(Row(tuple(cells)))
    return results


def _cell(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
