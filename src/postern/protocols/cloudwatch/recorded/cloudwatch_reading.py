"""Recorded responses as values: what an answer says, whichever codec it is in."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from postern.protocols.cloudwatch.dialect.cloudwatch_lineage import SYSTEM_FIELDS
from postern.protocols.cloudwatch.queries.cloudwatch_messages import WholeResponse
from postern.protocols.cloudwatch.wire.answer_tables import find_table
from postern.protocols.cloudwatch.wire.cloudwatch_codecs import as_json_value, read_cbor
from postern.protocols.cloudwatch.wire.xml_texts import XmlTexts
from postern.protocols.http.http_heads import first_value

_QUIET: Final = frozenset({"nextToken", "NextToken", "nextForwardToken", "nextBackwardToken", "searchedLogStreams"})
_NOT_JSON: Final = "(body)"


@dataclass(frozen=True, slots=True)
class AnswerError:
    code: str
    message: str

    @property
    def text(self) -> str:
        return f"{self.code}: {self.message}" if self.code else self.message


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """One answer. `rows` are those of its table, of objects; `names` are its columns, in order of appearance.

    `table` is the key of the table; empty for an answer without one, which is a row itself if it says anything.
    """

    names: tuple[str, ...] = ()
    rows: tuple[dict[str, Any], ...] = ()
    table: str = ""
    error: AnswerError | None = None
    is_part: bool = False
    details: dict[str, Any] = field(default_factory=dict)


def read_recorded(response: WholeResponse) -> RecordedAnswer:
    """Return what a response says. Never raises: a body that cannot be read is a text."""
    if response.failure and not response.body:
        return RecordedAnswer(error=AnswerError("", response.failure))
    tree = _tree(response)
    if not response.succeeded:
        return RecordedAnswer(error=_error(tree, response.failure))
    return _answer(tree, response.is_part)


def _tree(response: WholeResponse) -> dict[str, Any]:
    if not response.body:
        return {}
    head = response.head
    kind = b"" if head is None else first_value(head.headers, b"content-type").lower()
    try:
        if b"cbor" in kind:
            tree: Any = as_json_value(read_cbor(response.body))
        elif b"xml" in kind:
            tree = _xml(response.body)
        else:
            tree = json.loads(response.body)
    except (ValueError, RecursionError):
        return {_NOT_JSON: response.body.decode("utf-8", "replace")}
    return tree if isinstance(tree, dict) else {_NOT_JSON: response.body.decode("utf-8", "replace")}


def _xml(body: bytes) -> dict[str, Any]:
    """Return texts by the last names of their elements, and a list for those that repeat."""
    xml = XmlTexts(body)
    tree: dict[str, Any] = {}
    for path, text in zip(xml.paths, xml.texts, strict=True):
        if "ResponseMetadata" not in path:
            tree.setdefault(path[-1], []).append(text)
    return {key: values[0] if len(values) == 1 else values for key, values in tree.items()}


def _error(tree: dict[str, Any], failure: str) -> AnswerError:
    code = str(tree.get("__type") or tree.get("Code") or tree.get("code") or failure)
    message = tree.get("message") or tree.get("Message") or tree.get(_NOT_JSON) or "the target reports an error"
    return AnswerError(code.rpartition("#")[2], str(message))


def _answer(tree: dict[str, Any], is_part: bool) -> RecordedAnswer:
    results = tree.get("results")
    if isinstance(results, list) and all(isinstance(cells, list) for cells in results):
        rows = tuple(_cells(cells) for cells in results)
        details = {key: value for key, value in tree.items() if key not in ("results", *_QUIET)}
        return RecordedAnswer(_names(rows), rows, "results", is_part=is_part, details=details)
    table = find_table(tree)
    details = {key: value for key, value in tree.items() if key != table and key not in _QUIET}
    if table:
        rows = tuple(tree[table])
        return RecordedAnswer(_names(rows), rows, table, is_part=is_part, details=details)
    row = {key: value for key, value in details.items() if value not in ([], {}, None)}
    return RecordedAnswer(tuple(row), (row,) if row else (), "", is_part=is_part)


def _cells(cells: list[Any]) -> dict[str, Any]:
    return {str(cell.get("field", "")): cell.get("value") for cell in cells if isinstance(cell, dict)}


def _names(rows: tuple[dict[str, Any], ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for row in rows for name in row))


def cell_of(value: Any) -> str | None:
    """Return a value as the text of a cell."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def line_of(row: dict[str, Any]) -> str:
    """Return a row as a line: an event as time, stream and message, anything else as JSON."""
    message = row.get("message")
    if isinstance(message, str) and isinstance(row.get("timestamp"), int):
        stream = row.get("logStreamName")
        parts = [_time(row["timestamp"]), *([stream] if isinstance(stream, str) else []), message.rstrip("\n")]
        return " ".join(parts)
    return json.dumps(row, ensure_ascii=False)


def _time(millis: int) -> str:
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return str(millis)


def count_line(count: int) -> str:
    return f"{count} {'row' if count == 1 else 'rows'}"


def known_as(name: str) -> str:
    """Return the name of a column of an answer as masking has it, without the `@` of system fields."""
    return SYSTEM_FIELDS.get(name, name)


def texts_in(value: Any) -> list[bytes]:
    """Return all texts of a value, for rules about answers."""
    if isinstance(value, str):
        return [value.encode("utf-8", "replace")]
    if isinstance(value, dict):
        return [text for inner in value.values() for text in texts_in(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in texts_in(inner)]
    return [] if value is None or isinstance(value, bool) else [str(value).encode()]
