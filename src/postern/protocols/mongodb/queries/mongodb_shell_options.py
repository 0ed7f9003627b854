"""Options of shell methods, and the fields of commands that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from bson import ObjectId

from postern.protocols.mongodb.queries.mongodb_shell_values import MAX_INT32, Arguments, Value

Document = dict[str, Value]

_COMMON: Final = ("comment", "maxTimeMS", "writeConcern")
_READ: Final = ("collation", "comment", "hint", "let", "maxTimeMS", "readConcern")
_BOOLEANS: Final = frozenset(
    {
        *("allowDiskUse", "allowPartialResults", "bypassDocumentValidation", "dropTarget", "multi", "new", "ordered"),
        *("noCursorTimeout", "returnKey", "showRecordId", "upsert"),
    }
)

FIND: Final = {
    name: name for name in (*_READ, "allowDiskUse", "allowPartialResults", "max", "min", "noCursorTimeout")
} | {name: name for name in ("projection", "returnKey", "showRecordId", "skip", "sort", "limit", "batchSize")}
AGGREGATE: Final = {name: name for name in (*_READ, "allowDiskUse", "bypassDocumentValidation", "writeConcern")}
COUNT: Final = {name: name for name in ("collation", "comment", "hint", "limit", "maxTimeMS", "readConcern", "skip")}
DISTINCT: Final = {name: name for name in ("collation", "comment", "hint", "maxTimeMS", "readConcern")}
INSERT: Final = {name: name for name in (*_COMMON, "bypassDocumentValidation", "ordered")}
UPDATE: Final = {name: name for name in (*_COMMON, "bypassDocumentValidation", "let", "ordered")}
UPDATE_STATEMENT: Final = {name: name for name in ("upsert", "arrayFilters", "collation", "hint", "sort")}
DELETE: Final = {name: name for name in (*_COMMON, "let", "ordered")}
DELETE_STATEMENT: Final = {name: name for name in ("collation", "hint")}
FIND_AND_MODIFY: Final = {
    name: name
    for name in (*_COMMON, "sort", "upsert", "arrayFilters", "collation", "hint", "let", "bypassDocumentValidation")
} | {"projection": "fields", "fields": "fields"}
WRITE_CONCERN: Final = {"writeConcern": "writeConcern", "comment": "comment"}


def split_options(options: Document, *tables: Mapping[str, str]) -> list[Document]:
    """Return the fields that options stand for, for each table. Raises ValueError for an option that is in none."""
    found: list[Document] = [{} for _ in tables]
    for name, value in options.items():
        matches = [place for place, table in enumerate(tables) if name in table]
        if not matches:
            raise ValueError(f"the option {name!r} is not supported here")
        if name in _BOOLEANS and not isinstance(value, bool):
            raise ValueError(f"the option {name!r} is true or false")
        for place in matches:
            found[place][tables[place][name]] = value
    return found


def fields_of(options: Document, table: Mapping[str, str]) -> Document:
    """Return the fields that options stand for. Raises ValueError for unknown ones."""
    return split_options(options, table)[0]


class Given:
    """The arguments of a call, taken in order. Each method raises ValueError with a message for the author."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = list(arguments)
        self._taken = 0

    def __len__(self) -> int:
        return len(self._arguments) - self._taken

    def any(self, name: str) -> Value:
        if not len(self):
            raise ValueError(f"{name} is missing")
        self._taken += 1
        return self._arguments[self._taken - 1]

    def peek(self) -> Value:
        return self._arguments[self._taken] if len(self) else None

    def text(self, name: str) -> str:
        value = self.any(name)
        if not isinstance(value, str) or not value:
            raise ValueError(f"{name} must be a text")
        return value

    def document(self, name: str) -> Document:
        return document_of(self.any(name), name)

    def optional_document(self, name: str) -> Document:
        """Return a document; empty if it is missing or null."""
        if not len(self) or self.peek() is None:
            self._taken += bool(len(self))
            return {}
        return self.document(name)

    def documents(self, name: str) -> list[Document]:
        """Return an array of documents that has at least one."""
        return documents_of(self.any(name), name)

    def whole(self, name: str) -> Value:
        return whole_of(self.any(name), name)

    def optional_flag(self, name: str, *, default: bool) -> bool:
        if not len(self):
            return default
        value = self.any(name)
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false")
        return value

    def rest(self) -> list[Value]:
        values = self._arguments[self._taken :]
        self._taken = len(self._arguments)
        return values

    def end(self) -> None:
        if len(self):
            raise ValueError(f"it takes at most {self._taken} argument{'' if self._taken == 1 else 's'}")


def document_of(value: Value, name: str) -> Document:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a document")
    return value


def documents_of(value: Value, name: str) -> list[Document]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"{name} must be an array of documents")
    return [document_of(item, f"each of {name}") for item in value]


def whole_of(value: Value, name: str) -> Value:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MAX_INT32:
        raise ValueError(f"{name} must be a whole number")
    return value


def index_name(keys: Document) -> str:
    """Return the name that drivers give an index: `a_1_b_-1`."""
    parts: list[str] = []
    for field, kind in keys.items():
        is_whole = isinstance(kind, float) and kind.is_integer()
        parts += (field, str(int(kind)) if is_whole else str(kind))
    return "_".join(parts)


def with_fields(document: Document, *more: Mapping[str, Value]) -> Document:
    """Return a document with further fields. Raises ValueError for a field that it has already."""
    made = dict(document)
    for fields in more:
        for name, value in fields.items():
            if name in made:
                raise ValueError(f"the option {name!r} is not possible here")
            made[name] = value
    return made


def check_update(update: Value, *, replaces: bool) -> Value:
    """Check that an update has operators, or is a pipeline; that a replacement has none. Raises ValueError."""
    if isinstance(update, list):
        if replaces:
            raise ValueError("a replacement must be a document, not a pipeline")
        return documents_of(update, "the update's pipeline")
    document = document_of(update, "the replacement" if replaces else "the update")
    has_operators = [name.startswith("$") for name in document]
    if replaces and any(has_operators):
        raise ValueError("a replacement has no operators; use updateOne for an update with operators")
    if not replaces and not (has_operators and all(has_operators)):
        raise ValueError("an update consists of operators, such as $set; use replaceOne to replace a document")
    return document


def with_ids(documents: Iterable[Document]) -> list[Document]:
    """Return the documents with an `_id` in each, as drivers send them."""
    return [document if "_id" in document else {"_id": ObjectId(), **document} for document in documents]
