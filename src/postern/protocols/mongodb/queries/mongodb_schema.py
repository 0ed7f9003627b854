"""Reading a MongoDB target's databases, collections and views as a TargetSchema.

It contains everything that the connection's own user can see. A view's definition is the JSON of its source and its
pipeline: `{"viewOn": "orders", "pipeline": […]}`. Fields are those that a `$jsonSchema` declares; words with a hash
sign in its descriptions are tags.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import bson
from bson.errors import BSONError

from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.errors import ProtocolViolation
from postern.protocols.gateway_queries import Row, TargetRefused, tags, text
from postern.protocols.mongodb.queries.mongodb_collections import FoundCollection, read_collections, read_databases
from postern.protocols.mongodb.queries.mongodb_query import Steps
from postern.protocols.mongodb.queries.mongodb_sampling import as_mapping, declared_fields, json_schema
from postern.protocols.mongodb.recorded.mongodb_cells import json_of

RELATIONS: Final = "relations"
QUESTIONS: Final = (RELATIONS,)
"""Run one after the other on one connection."""

# Stands for a definition that the login is not allowed to read: no parser accepts it, so such a view is unknown.
UNREADABLE: Final = "a view whose definition is not shown"
_MAX_DEPTH: Final = 10


def read_relations(rows: list[Row]) -> Steps:
    """Add a row for each collection: database, name, definition, fields and tags in JSON. Raises TargetRefused if not
    even the databases can be listed."""
    for database in (yield from read_databases()):
        try:
            collections = yield from read_collections(database)
        except TargetRefused:  # a database that another user has dropped, or whose collections are not shown
            continue
        for collection in collections:
            fields = json.dumps([each.path for each in declared_fields(collection.validator)])
            schema = json_schema(collection.validator)
            comments: dict[str, str] = {}
            _read_comments(schema, "", 0, comments)
            rows.append((database, collection.name, _definition(collection), fields, json.dumps(comments)))


def _definition(collection: FoundCollection) -> str | None:
    if collection.kind != "view":
        return None
    if collection.options is None or "viewOn" not in collection.options:
        return UNREADABLE
    definition = {name: collection.options[name] for name in ("viewOn", "pipeline") if name in collection.options}
    try:
        return json_of(bson.encode(definition))
    except (BSONError, OverflowError, ProtocolViolation):
        return UNREADABLE


def _read_comments(schema: Mapping[str, Any], path: str, depth: int, comments: dict[str, str]) -> None:
    """Collect titles and descriptions with a hash sign, by path; that of the collection has an empty one."""
    words = " ".join(str(schema[name]) for name in ("title", "description") if isinstance(schema.get(name), str))
    if "#" in words:
        comments[path] = words
    if depth >= _MAX_DEPTH:
        return
    for name, rule in as_mapping(schema.get("properties")).items():
        _read_comments(as_mapping(rule), f"{path}.{name}" if path else str(name), depth + 1, comments)
    items = as_mapping(schema.get("items"))
    if items:
        _read_comments(items, path, depth + 1, comments)


def target_schema(answers: Sequence[Sequence[Row]]) -> TargetSchema:
    """Build the schema from the rows of each of QUESTIONS. Raises ProtocolViolation if they do not fit."""
    try:
        (relations,) = answers
        found: dict[tuple[str, str], Relation] = {}
        for database, name, definition, fields, comments in relations:
            key = text(database), text(name)
            words: Mapping[str, str] = json.loads(text(comments))
            found[key] = Relation(
                *key,
                tuple(map(str, json.loads(text(fields)))),
                definition=definition or "",
                tags=tags(words.get("", "")),
                column_tags={path: tags(comment) for path, comment in words.items() if path},
            )
        return TargetSchema(found)
    except (ValueError, AttributeError, TypeError) as error:
        raise ProtocolViolation(f"the target's response to a catalogue query is not valid: {error}") from None
