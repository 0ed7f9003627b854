"""Catalogue queries of a MongoDB target. A database is a schema here, a collection a table, and a field a column.

The answer contains what the connection's own user can see. Fields come from a sample of documents.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.catalogue_questions import COLUMN, CURRENT, DATABASE, TABLE, catalogue_questions
from postern.protocols.gateway_queries import Catalogue, Row, TargetRefused
from postern.protocols.mongodb.queries import mongodb_schema as schema
from postern.protocols.mongodb.queries.mongodb_collections import (
    KINDS,
    SYSTEM_DATABASES,
    FoundCollection,
    read_collections,
    read_databases,
    read_fields_of,
)
from postern.protocols.mongodb.queries.mongodb_query import Answer, MongodbQueryInSteps, Steps
from postern.protocols.mongodb.queries.mongodb_shell_options import Document

MAX_SAMPLED: Final = 200  # collections of a whole schema whose fields are read
DEFAULT_DATABASE: Final = "test"

_Values = Sequence[str | None]


def _ping(rows: list[Row], values: _Values) -> Steps:
    answer = yield {"ping": 1, "$db": "admin"}
    if isinstance(answer, TargetRefused):
        raise answer
    rows.append(("1",))


def _databases(rows: list[Row], values: _Values) -> Steps:
    names = yield from read_databases()
    rows += [(name,) for name in names if name not in SYSTEM_DATABASES]


def _tables(rows: list[Row], values: _Values) -> Steps:
    """List the collections of the schema, else of the default database, else of all."""
    wanted, default = values
    for database in [wanted or default] if wanted or default else (yield from _shown_databases()):
        collections = yield from read_collections(database or "")
        rows += [(database, each.name) for each in collections if each.database == wanted or not each.is_system]


def _columns(rows: list[Row], values: _Values) -> Steps:
    table, wanted, default = values
    database = wanted or default or DEFAULT_DATABASE
    collections = yield from read_collections(database, table or "")
    for collection in collections if table else []:
        fields = yield from read_fields_of(collection)
        rows += [(field.path, field.types, "YES" if field.nullable else "NO") for field in fields]


def _schema(rows: list[Row], values: _Values) -> Steps:
    """`shape_schema` explains the parts. With a default database, only its collections."""
    (default,) = values
    names = yield from _shown_databases()
    rows.append((CURRENT, default or None, None, None, None, None, "0"))
    rows += [(DATABASE, name, None, None, None, None, "0") for name in names]
    collections: list[FoundCollection] = []
    for database in [default] if default else names:
        collections += yield from _shown_collections(database)
    rows += [(TABLE, each.database, each.name, each.kind, None, None, "0") for each in collections]
    for each in collections[:MAX_SAMPLED]:
        try:
            fields = yield from read_fields_of(each)
        except TargetRefused:  # it cannot be read, or has been dropped
            continue
        rows += [
            (COLUMN, each.database, each.name, field.path, field.types, "YES" if field.nullable else "NO", str(number))
            for number, field in enumerate(fields, 1)
        ]


def _shown_databases() -> Generator[Document, Answer, list[str]]:
    names = yield from read_databases()
    return [name for name in names if name not in SYSTEM_DATABASES]


def _shown_collections(database: str) -> Generator[Document, Answer, list[FoundCollection]]:
    try:
        collections = yield from read_collections(database)
    except TargetRefused:
        return []
    return [collection for collection in collections if not collection.is_system]


def _relations(rows: list[Row], values: _Values) -> Steps:
    return schema.read_relations(rows)


_STEPS: Mapping[str, tuple[Callable[[list[Row], _Values], Steps], int]] = {
    "test": (_ping, 0),
    "databases": (_databases, 0),
    "tables": (_tables, 2),
    "columns": (_columns, 3),
    "schema": (_schema, 1),
    schema.RELATIONS: (_relations, 0),
}
"""The reader of each statement, and the number of its values."""


def catalogue_query(statement: str, values: _Values) -> MongodbQueryInSteps:
    """Return the query of a statement, which is the name of its steps. Raises ProtocolViolation."""
    steps, count = _STEPS[statement]
    if len(values) != count:
        raise ProtocolViolation(f"a query has {count} placeholders for {len(values)} values")
    rows: list[Row] = []
    return MongodbQueryInSteps(steps(rows, values), rows)


_QUESTIONS: Final = catalogue_questions(
    test="test",
    databases="databases",
    tables="tables",
    columns="columns",
    schema="schema",
    kinds=KINDS,
    values_of_tables=("schema", "database"),
    values_of_columns=("table", "schema", "database"),
    values_of_schema=("database",),
    missing="the collection does not exist or is empty, or the connection's user is not allowed to read it; "
    "specify its database as the schema",
)

CATALOGUE = Catalogue(catalogue_query, _QUESTIONS, schema.QUESTIONS, schema.target_schema)
