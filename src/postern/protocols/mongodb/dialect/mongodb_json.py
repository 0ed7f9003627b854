"""Commands as text: relaxed Extended JSON v2, in which no name occurs twice.

BSON allows a name twice in one document, and servers differ in which of them they use, so that such a text has no
single meaning. A document that looks like the JSON form of a scalar (`{"$oid": "…"}`) counts as that scalar: servers
reject documents with these names wherever they would evaluate them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

MAX_DEPTH: Final = 200

_SCALARS: Final = frozenset(
    frozenset(names.split())
    for names in (
        *("$oid", "$date", "$numberLong", "$numberInt", "$numberDouble", "$numberDecimal", "$binary", "$uuid"),
        *("$regularExpression", "$timestamp", "$symbol", "$code", "$code $scope", "$minKey", "$maxKey", "$undefined"),
        "$dbPointer",
    )
)
_NUMBERS: Final = ("$numberLong", "$numberInt", "$numberDouble", "$numberDecimal")

Document = Mapping[str, object]


class UnreadableCommand(Exception):
    """The text is not a command that can be judged; the message is for users."""


@dataclass(frozen=True, slots=True)
class CommandText:
    """A command: the first name of its document, that name's value, all its fields, and `$db`."""

    name: str
    argument: object
    fields: Document
    database: str

    def document(self, name: str) -> Document:
        """Return a field that is a document; an empty one if it is missing. Raises UnreadableCommand."""
        return as_document(self.fields.get(name), name)

    def documents(self, name: str) -> list[Document]:
        """Return a field that is a list of documents. Raises UnreadableCommand."""
        return as_documents(self.fields.get(name), name)

    @property
    def collection(self) -> str:
        """Return the collection that is the command's argument. Raises UnreadableCommand if it is not a name."""
        if not isinstance(self.argument, str) or not self.argument:
            raise UnreadableCommand(f"{self.name} does not name a collection")
        return self.argument


def read_command(text: str) -> CommandText:
    """Parse a text. Raises UnreadableCommand."""
    return command_of(read_json(text))


def read_json(text: str) -> object:
    """Parse JSON without repeated names. Raises UnreadableCommand."""
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise UnreadableCommand("it is nested too deeply") from None
    except ValueError:
        raise UnreadableCommand("it is not a command in Extended JSON") from None
    _check_depth(value)
    return cast("object", value)


def command_of(value: object, database: str = "") -> CommandText:
    """Return a document as a command; `database` is for one without `$db`. Raises UnreadableCommand."""
    if not isinstance(value, dict) or not value:
        raise UnreadableCommand("it is not a command")
    name = next(iter(value))
    named = value.get("$db", database)
    if not isinstance(named, str) or not named:
        raise UnreadableCommand("it does not name a database")
    return CommandText(name, value[name], value, named)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise UnreadableCommand("a document has two fields of one name")
    return document


def _check_depth(value: object) -> None:
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each if isinstance(each, list) else ())
        ]
        if not level:
            return
    raise UnreadableCommand("it is nested too deeply")


def as_document(value: object, what: str) -> Document:
    """Return a document; an empty one for None. Raises UnreadableCommand."""
    if value is None:
        return {}
    if not isinstance(value, dict) or is_scalar(value):
        raise UnreadableCommand(f"{what} is not a document")
    return value


def as_documents(value: object, what: str) -> list[Document]:
    """Return a list of documents. Raises UnreadableCommand."""
    if not isinstance(value, list):
        raise UnreadableCommand(f"{what} is not a list")
    return [as_document({} if each is None else each, what) for each in value]


def is_scalar(value: object) -> bool:
    """Return whether it is neither a list nor a document."""
    if isinstance(value, dict):
        return bool(value) and next(iter(value)).startswith("$") and frozenset(value) in _SCALARS
    return not isinstance(value, list)


def is_operator(value: object) -> bool:
    """Return whether it is a document whose names are operators."""
    return isinstance(value, dict) and any(name.startswith("$") for name in value) and not is_scalar(value)


def number_of(value: object) -> float | None:
    """Return a number, and a boolean as 0 or 1; None for anything else."""
    if isinstance(value, dict) and len(value) == 1:
        name, text = next(iter(value.items()))
        value = text if name in _NUMBERS else None
        if not isinstance(value, str):
            return None
    elif not isinstance(value, bool | int | float):
        return None
    try:
        return float(value)
    except (OverflowError, ValueError):
        return None


def is_true(value: object) -> bool:
    """Return whether a flag is set, as a server could read any value."""
    return value is not None and number_of(value) != 0


def is_min_key(value: object) -> bool:
    return isinstance(value, dict) and "$minKey" in value and is_scalar(value)


def is_max_key(value: object) -> bool:
    return isinstance(value, dict) and "$maxKey" in value and is_scalar(value)
