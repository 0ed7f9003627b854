"""Reading recorded bytes as values: documents as rows, whose columns are the fields of the top level.

The columns are those of the first batch of a cursor, in the order in which they appear. Rows of later batches that have
further fields show them in one more column, which exists only if there can be later batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from postern.domain.sessions.results import Finished, Problem, Result, ResultColumns, Row
from postern.protocols.mongodb.recorded.mongodb_cells import cell_of, json_of, type_name
from postern.protocols.mongodb.recorded.mongodb_reading import VALUES, ParsedReply, ReplyBatch, parse_reply
from postern.protocols.mongodb.recorded.mongodb_stream import MongodbReplies
from postern.protocols.mongodb.recorded.mongodb_text_renderer import count_line, status_line
from postern.protocols.mongodb.wire import bson_documents as b
from postern.protocols.mongodb.wire.bson_documents import BsonField

OTHER_FIELDS: Final = "(other fields)"
MIXED: Final = "mixed"
"""The type of a column with values of several types."""
MAX_COLUMNS: Final = 1000  # of one result; further fields are among the other ones


class MongodbResults:
    """Reader of results: `feed` takes the recorded stream in chunks of any size."""

    def __init__(self) -> None:
        self._replies = MongodbReplies()
        self._places: dict[str, int] = {}  # of the current result: the names of its columns
        self._others: int | None = None  # the column of other fields
        self._are_values = False
        self._is_open = False  # more batches can come
        self._count = 0

    def feed(self, data: bytes) -> list[Result]:
        """Return the results that are complete now. Raises ProtocolViolation for bytes that are not replies."""
        results: list[Result] = []
        for document in self._replies.feed(data):
            self._read(parse_reply(document), results)
        return results

    def find_columns(self, names: Sequence[str], *, whole: bool = False) -> tuple[int, ...]:
        """Return the columns of the current result that show these paths, each once. `whole`: only those of fields that
        a path names, and not one of their parts."""
        if self._are_values:
            return (0,) if names else ()
        numbers = {self._places.get(name) if whole else self._number_of(name): None for name in names}
        return tuple(number for number in numbers if number is not None)

    def _number_of(self, path: str) -> int | None:
        """Return the column of the longest prefix of a path: names of fields can have dots themselves."""
        end = len(path)
        while end > 0:
            number = self._places.get(path[:end])
            if number is not None:
                return number
            end = path.rfind(".", 0, end)
        return self._others

    def _read(self, reply: ParsedReply, results: list[Result]) -> None:
        batch = reply.batch
        if batch is not None:
            self._read_batch(batch, results)
        elif not reply.failures:
            results.append(Finished(status_line(reply.status)))
        elif reply.status and status_line(reply.status) != "ok":
            results.append(Problem("NOTE", status_line(reply.status), fails=False))
        for number, failure in enumerate(reply.failures, 1):
            text = f"{failure.about}: {failure.message}" if failure.about else failure.message
            is_last = number == len(reply.failures)  # one error ends a statement
            results.append(Problem("ERROR", text, code=failure.code_text, fails=is_last))
        self._is_open = self._is_open and not reply.failures

    def _read_batch(self, batch: ReplyBatch, results: list[Result]) -> None:
        rows = [_first_fields(document) for document in batch.documents]
        if not (batch.continues and self._is_open):
            results.append(self._begin(batch, rows))
        self._count += len(rows)
        results += [self._row(document, fields) for document, fields in zip(batch.documents, rows, strict=True)]
        self._is_open = batch.cursor != 0
        if not self._is_open:
            results.append(Finished(count_line(self._count, are_values=batch.are_values)))

    def _begin(self, batch: ReplyBatch, rows: Sequence[dict[str, BsonField]]) -> ResultColumns:
        self._count, self._are_values = 0, batch.are_values
        kinds: dict[str, set[int]] = {}
        for fields in rows:
            for name, item in fields.items():
                if name in kinds or len(kinds) < MAX_COLUMNS:
                    kinds.setdefault(name, set()).add(item.kind)
        if batch.are_values and not kinds:
            kinds[""] = set()
        names = [VALUES if batch.are_values else name for name in kinds]
        types = [_type_of(found) for found in kinds.values()]
        self._places = {name: number for number, name in enumerate(kinds)}
        self._others = None
        if batch.cursor or any(name not in kinds for fields in rows for name in fields):
            self._others = len(names)
            names.append(OTHER_FIELDS)
            types.append("object")
        return ResultColumns(tuple(names), tuple(types))

    def _row(self, document: bytes, fields: dict[str, BsonField]) -> Row:
        cells: list[str | None] = [None] * (len(self._places) + (self._others is not None))
        others: list[bytes] = []
        for name, item in fields.items():
            number = self._places.get(name)
            if number is not None:
                cells[number] = cell_of(document, item)
            else:
                others.append(document[item.start : item.end])
        if others and self._others is not None:
            cells[self._others] = json_of(b.encode_document(*others))
        return Row(tuple(cells))


def _first_fields(document: bytes) -> dict[str, BsonField]:
    """Return the fields of the top level by name; of repeated names the first, as the database reads them."""
    fields: dict[str, BsonField] = {}
    for item in b.read_fields(document, 0, len(document)):
        fields.setdefault(item.name.decode("utf-8", "replace"), item)
    return fields


def _type_of(kinds: set[int]) -> str | None:
    known = kinds - {b.NULL, b.UNDEFINED}
    if len(known) > 1:
        return MIXED
    return type_name(known.pop()) if known else None
