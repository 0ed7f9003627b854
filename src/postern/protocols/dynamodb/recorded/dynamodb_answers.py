"""What a response shows, as its form tells: items, or the status of an operation.

Items, Item, Attributes, Responses, SearchResults, Records    items
__type                                                        an error
anything else                                                 one value: the response, such as a table's description
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from postern.domain.rules.trial import Answered
from postern.domain.sessions.results import Finished, Problem, Result, ResultColumns, Row
from postern.protocols.aws.aws_json_client import AwsJsonResponse, AwsJsonResponses
from postern.protocols.dynamodb.recorded.dynamodb_values import cell_of, json_text, plain_item, type_name

Item = Mapping[str, Any]

OTHER_ATTRIBUTES: Final = "(other attributes)"
MIXED: Final = "mixed"
MAX_COLUMNS: Final = 1000  # of one result; further attributes are among the other ones
_PLACES: Final = ("Items", "Item", "Attributes", "Responses", "SearchResults", "Records")
_MORE: Final = ("LastEvaluatedKey", "NextToken", "UnprocessedKeys")
_STREAM_IMAGES: Final = ("Keys", "OldImage", "NewImage")


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """A response: its items, or None if it has no place for some; and errors. `has_more`: pages follow."""

    items: tuple[Item, ...] | None = None
    status: Mapping[str, Any] | None = None
    failures: tuple[Problem, ...] = ()
    has_more: bool = False


def parse_answer(response: AwsJsonResponse) -> ParsedAnswer:
    content = response.content if isinstance(response.content, dict) else {}
    if response.code:
        problem = Problem("ERROR", response.message or response.code, code=response.code)
        reasons = content.get("CancellationReasons")
        details = [
            Problem("NOTE", f"action {number}: {reason.get('Code')}: {reason.get('Message') or ''}".rstrip(": "),
                    fails=False)
            for number, reason in enumerate(reasons if isinstance(reasons, list) else (), 1)
            if isinstance(reason, dict) and reason.get("Code") not in (None, "None")
        ]  # fmt: skip
        return ParsedAnswer(failures=(*details, problem))
    if not any(place in content for place in _PLACES):
        return ParsedAnswer(status=content)
    failures = tuple(
        Problem("ERROR", f"statement {number}: {error.get('Message') or ''}", code=str(error.get("Code")), fails=False)
        for number, error in enumerate(_errors(content), 1)
        if error
    )
    return ParsedAnswer(tuple(_items(content)), None, failures, any(content.get(name) for name in _MORE))


def _items(content: Mapping[str, Any]) -> Iterator[Item]:
    for name in ("Item", "Attributes"):
        if isinstance(content.get(name), dict):
            yield content[name]
    for item in _list(content.get("Items")):
        yield from _one(item)
    for result in _list(content.get("SearchResults")):
        yield from _inner(result, "Item")
    responses = content.get("Responses")
    if isinstance(responses, dict):
        for items in responses.values():
            for item in _list(items):
                yield from _one(item)
    for response in _list(responses):
        yield from _inner(response, "Item")
    for record in _list(content.get("Records")):
        change = record.get("dynamodb") if isinstance(record, dict) else None
        if isinstance(change, dict):
            yield {"event": {"S": str(record.get("eventName"))}} | {
                name: {"M": change[name]} for name in _STREAM_IMAGES if isinstance(change.get(name), dict)
            }


def _one(item: object) -> Iterator[Item]:
    if isinstance(item, dict):
        yield item


def _inner(response: object, name: str) -> Iterator[Item]:
    if isinstance(response, dict) and isinstance(response.get(name), dict):
        yield response[name]


def _errors(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    responses = content.get("Responses")
    return [
        response["Error"] if isinstance(response, dict) and isinstance(response.get("Error"), dict) else {}
        for response in (responses if isinstance(responses, list) else ())
    ]


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def count_line(count: int) -> str:
    """Return how many items there were."""
    return f"{count} item{'' if count == 1 else 's'}"


def status_line(status: Mapping[str, Any]) -> str:
    """Return what an operation reports besides items, without the capacity that it consumed."""
    shown = {name: value for name, value in status.items() if name not in ("ConsumedCapacity", "ItemCollectionMetrics")}
    return json_text(shown) if shown else "ok"


class DynamodbAnswers:
    """Reader of answers for rules: `feed` takes the recorded stream in chunks of any size."""

    def __init__(self) -> None:
        self._responses = AwsJsonResponses()

    def feed(self, data: bytes) -> list[Answered]:
        """Return the answers that are complete now. Raises ProtocolViolation for bytes that are not responses."""
        answers: list[Answered] = []
        for response in self._responses.feed(data):
            answer = parse_answer(response)
            answers += [Answered(tuple(_texts(item)), rows=1) for item in answer.items or ()]
            texts = tuple(problem.text.encode() for problem in answer.failures)
            if texts or not answer.has_more:
                answers.append(Answered(texts, ends=True))
        return answers


def _texts(item: Item) -> Iterator[bytes]:
    for attribute in item.values():
        text = cell_of(attribute)
        if text is not None:
            yield text.encode("utf-8", "replace")


class DynamodbTextRenderer:
    """A `Renderer`: each item is a line of JSON without types. `feed` takes the stream in chunks of any size."""

    def __init__(self) -> None:
        self._responses = AwsJsonResponses()
        self._count = 0  # items of the pages so far

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """Return the pieces. Raises ProtocolViolation for bytes that are not responses."""
        pieces: list[tuple[str, bytes]] = []
        for response in self._responses.feed(data):
            answer = parse_answer(response)
            lines = [json_text(plain_item(item)) for item in answer.items or ()]
            self._count += len(lines)
            if answer.items is not None and not answer.has_more:
                lines.append(count_line(self._count))
                self._count = 0
            if answer.status is not None:
                lines.append(status_line(answer.status))
            if lines:
                pieces.append(("o", "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")))
            pieces += [
                ("e", f"{problem.severity} {problem.code + ': ' if problem.code else ''}{problem.text}\n".encode())
                for problem in answer.failures
            ]
        return pieces

    def rest(self) -> list[tuple[str, bytes]]:
        """Return a note about an incomplete response, of which nothing can be rendered."""
        waiting = self._responses.waiting
        self._responses, self._count = AwsJsonResponses(), 0
        return [("o", b"[%d bytes of a response]\n" % waiting)] if waiting else []


@dataclass(slots=True)
class _Table:
    """The result that is being read: its columns, and its number of rows so far."""

    places: dict[str, int] = field(default_factory=dict)
    others: int | None = None
    count: int = 0
    is_open: bool = False


class DynamodbResults:
    """Reader of results: `feed` takes the recorded stream in chunks of any size. The columns of a result are the
    attributes of the first page; those that only later pages have are in one more column."""

    def __init__(self) -> None:
        self._responses = AwsJsonResponses(is_eager=True)
        self._table = _Table()

    def feed(self, data: bytes) -> list[Result]:
        """Return the results that are complete now. Raises ProtocolViolation for bytes that are not responses."""
        results: list[Result] = []
        for response in self._responses.feed(data):
            self._read(parse_answer(response), results)
        return results

    def find_columns(self, names: Sequence[str], *, whole: bool = False) -> tuple[int, ...]:
        """Return the columns of the current result that show these paths, each once. `whole`: only those of attributes
        that a path names, and not one of their parts."""
        places = self._table.places
        numbers = {places.get(name) if whole else self._number_of(name): None for name in names}
        return tuple(number for number in numbers if number is not None)

    def _number_of(self, path: str) -> int | None:
        """Return the column of the longest prefix of a path: names of attributes can have dots themselves."""
        end = len(path)
        while end > 0:
            number = self._table.places.get(path[:end])
            if number is not None:
                return number
            end = path.rfind(".", 0, end)
        return self._table.others

    def _read(self, answer: ParsedAnswer, results: list[Result]) -> None:
        table = self._table
        if answer.items is not None:
            if not table.is_open:
                results.append(self._begin(answer))
                table = self._table
            results += [self._row(item) for item in answer.items]
            table.count += len(answer.items)
            table.is_open = answer.has_more
        results += answer.failures
        if answer.items is not None and not table.is_open:
            results.append(Finished(count_line(table.count)))
        elif answer.status is not None:
            results.append(Finished(status_line(answer.status)))
        table.is_open = table.is_open and not answer.failures

    def _begin(self, answer: ParsedAnswer) -> ResultColumns:
        table = self._table = _Table()
        types: dict[str, set[str]] = {}
        for item in answer.items or ():
            for name, attribute in item.items():
                if name in types or len(types) < MAX_COLUMNS:
                    types.setdefault(name, set()).update(filter(None, [type_name(attribute)]))
        table.places = {name: number for number, name in enumerate(types)}
        names, kinds = list(types), [_type_of(found) for found in types.values()]
        if answer.has_more or any(name not in types for item in answer.items or () for name in item):
            table.others = len(names)
            names.append(OTHER_ATTRIBUTES)
            kinds.append("map")
        return ResultColumns(tuple(names), tuple(kinds))

    def _row(self, item: Item) -> Row:
        table = self._table
        cells: list[str | None] = [None] * (len(table.places) + (table.others is not None))
        others: dict[str, Any] = {}
        for name, attribute in item.items():
            number = table.places.get(name)
            if number is not None:
                cells[number] = cell_of(attribute)
            else:
                others[name] = attribute
        if others and table.others is not None:
            cells[table.others] = json_text(plain_item(others))
        return Row(tuple(cells))


def _type_of(names: set[str]) -> str | None:
    return MIXED if len(names) > 1 else next(iter(names), None)
