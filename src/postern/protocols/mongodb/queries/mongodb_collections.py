"""Reading of databases and collections, in as many commands as it takes. What the login is not allowed to see is left
out."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bson import Int64

from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.mongodb.queries.mongodb_query import Answer, decode_document
from postern.protocols.mongodb.queries.mongodb_sampling import SampledField, as_mapping, sample_command, sampled_fields
from postern.protocols.mongodb.queries.mongodb_shell_options import Document
from postern.protocols.mongodb.recorded.mongodb_reading import ParsedReply

SYSTEM_DATABASES: Final = frozenset({"admin", "config", "local"})
SYSTEM_PREFIX: Final = "system."
KINDS: Final = {"view": "view", "timeseries": "timeseries"}
"""Kinds of collections that are not tables."""

_UNAUTHORIZED: Final = "Unauthorized"
MAX_BATCHES: Final = 10_000  # of a list


@dataclass(frozen=True, slots=True)
class FoundCollection:
    """A collection. `options` are those of its creation; None if the login is not allowed to read them."""

    database: str
    name: str
    kind: str
    options: Mapping[str, Any] | None = field(default_factory=dict)

    @property
    def is_system(self) -> bool:
        return self.database in SYSTEM_DATABASES or self.name.startswith(SYSTEM_PREFIX)

    @property
    def validator(self) -> Mapping[str, Any]:
        return as_mapping(as_mapping(self.options).get("validator"))


def read_databases() -> Generator[Document, Answer, list[str]]:
    """Return the names of all databases. Raises TargetRefused."""
    answer = yield {"listDatabases": 1, "nameOnly": True, "authorizedDatabases": True, "$db": "admin"}
    (document,) = _documents(answer) or [b"\x05\0\0\0\0"]
    databases = decode_document(document).get("databases")
    found = databases if isinstance(databases, list) else []
    return sorted(str(each["name"]) for each in found if isinstance(each, Mapping) and "name" in each)


def read_collections(database: str, name: str = "") -> Generator[Document, Answer, list[FoundCollection]]:
    """Return the collections of a database, or the one of that name. Raises TargetRefused."""
    command: Document = {"listCollections": 1, "cursor": {}}
    if name:
        command["filter"] = {"name": name}
    try:
        documents = yield from _read_all({**command, "$db": database})
        is_complete = True
    except TargetRefused as refused:
        if refused.code != _UNAUTHORIZED:
            raise
        # Users with rights on single collections can list those, without their options.
        more = {"nameOnly": True, "authorizedCollections": True, "$db": database}
        documents = yield from _read_all({**command, **more})
        is_complete = False
    found = [decode_document(document) for document in documents]
    collections = [
        FoundCollection(
            database,
            str(each.get("name", "")),
            str(each.get("type", "collection")),
            as_mapping(each.get("options")) if is_complete else None,
        )
        for each in found
    ]
    return sorted(collections, key=lambda collection: collection.name)


def read_fields_of(collection: FoundCollection) -> Generator[Document, Answer, list[SampledField]]:
    """Return the fields of a collection, as a sample and its validator show them. Raises TargetRefused."""
    answer = yield {**sample_command(collection.name), "$db": collection.database}
    documents = _documents(answer)
    if isinstance(answer, ParsedReply) and answer.batch is not None and answer.batch.cursor:  # large documents
        yield {"killCursors": collection.name, "cursors": [Int64(answer.batch.cursor)], "$db": collection.database}
    return sampled_fields(documents, collection.validator)


def _read_all(command: Document) -> Generator[Document, Answer, list[bytes]]:
    answer = yield command
    documents = list(_documents(answer))
    for _ in range(MAX_BATCHES):
        if not isinstance(answer, ParsedReply) or answer.batch is None or not answer.batch.cursor:
            break
        collection = answer.batch.namespace.partition(".")[2]
        answer = yield {"getMore": Int64(answer.batch.cursor), "collection": collection, "$db": command["$db"]}
        documents += _documents(answer)
    return documents


def _documents(answer: Answer) -> list[bytes]:
    """Return the documents of an answer. Raises TargetRefused if it is one."""
    if isinstance(answer, TargetRefused):
        raise answer
    return [] if answer.batch is None else list(answer.batch.documents)
