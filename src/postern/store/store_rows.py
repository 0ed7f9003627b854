"""All rows of the store in one format for both engines: to back it up, and to move it from one engine to the other.

A row is one line: a JSON list of the values in the order of the table's columns. A value is written by the kind of its
column, not by what an engine makes of it. The kinds are stored with the rows, so that rows of an older schema can be
loaded into a store with that schema, which is then migrated.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    Uuid,
    cast,
    delete,
    func,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import TSVECTOR
from sqlalchemy.types import TypeEngine

from postern.errors import Malformed
from postern.store.schema.columns import Utc, metadata
from postern.store.sql.sessions.sql_session_texts import distinct_words

MAX_ROW = 256 * 1024 * 1024  # bytes of a row that is loaded; more is not a row of a store
_BATCH = 100  # rows that are read or written at a time
_LARGE_BATCH = 10  # the same, of tables whose rows can have megabytes
_LARGE = {"session_texts", "runbook_snapshots"}
# PostgreSQL's index of a session's words; computed from `folded` when rows are loaded. SQLite has none in this table.
_WORDS = ("session_texts", "words")
_KEYS = ("session_texts", "keys")  # a list on PostgreSQL, one text on SQLite


class Kind(StrEnum):
    UUID = "uuid"
    TIME = "time"
    BYTES = "bytes"
    JSON = "json"  # as text, so that nothing in it changes
    BOOLEAN = "bool"
    INTEGER = "int"
    FLOAT = "float"
    TEXT = "text"
    LIST = "list"  # of words


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table of a backup. `counter` is the column whose numbers the store gives, and the last one that it gave."""

    name: str
    columns: tuple[tuple[str, Kind], ...]
    counter: tuple[str, int] | None = None


def store_tables() -> list[Table]:
    """Return all tables; each comes after those that it refers to."""
    return metadata.sorted_tables


def schema_versions(connection: Connection) -> list[str]:
    return list(connection.execute(text("select version_num from alembic_version")).scalars())


def shape_of(connection: Connection, table: Table) -> TableShape:
    columns = ((column.name, _kind(column)) for column in table.columns if (table.name, column.name) != _WORDS)
    return TableShape(table.name, tuple(columns), _counter(connection, table))


def dump_rows(connection: Connection, shape: TableShape) -> Iterator[bytes]:
    """Yield the table's rows as lines, in constant memory."""
    table = _exchange_table(shape, connection.dialect)
    encoders = [_ENCODERS[kind] for _, kind in shape.columns]
    result = connection.execute(select(table), execution_options={"yield_per": _batch(shape)})
    for row in result:
        values = [None if value is None else encode(value) for encode, value in zip(encoders, row, strict=True)]
        yield json.dumps(values, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def clear_tables(connection: Connection) -> None:
    """Delete what the first migration adds to an empty store, which can have an older schema."""
    names = set(inspect(connection).get_table_names())
    for table in (table for table in reversed(store_tables()) if table.name in names):
        connection.execute(delete(table))


def load_rows(connection: Connection, shape: TableShape, lines: Iterable[bytes]) -> int:
    """Insert the rows into the empty table; return how many there were. Raises Malformed."""
    table = _exchange_table(shape, connection.dialect)
    rows = (_read_row(shape, line) for line in lines)
    if shape.name == _WORDS[0] and connection.dialect.name == "postgresql":
        table.append_column(Column(_WORDS[1], _Words()))
        rows = (row | {_WORDS[1]: distinct_words(row["folded"].split())} for row in rows)
    count = 0
    while batch := list(islice(rows, _batch(shape))):
        connection.execute(insert(table), batch)
        count += len(batch)
    _set_counter(connection, shape)
    return count


def _batch(shape: TableShape) -> int:
    return _LARGE_BATCH if shape.name in _LARGE else _BATCH


def _read_row(shape: TableShape, line: bytes) -> dict[str, Any]:
    try:
        values = json.loads(line)
        if not isinstance(values, list) or len(values) != len(shape.columns):
            raise ValueError("wrong number of values")
        return {
            name: None if value is None else _DECODERS[kind](value)
            for (name, kind), value in zip(shape.columns, values, strict=True)
        }
    except (ValueError, TypeError, KeyError) as error:
        raise Malformed(f"a row of the table {shape.name} in this backup cannot be read: {error}") from None


def _kind(column: Column[Any]) -> Kind:
    if (column.table.name, column.name) == _KEYS:
        return Kind.LIST
    return next(kind for column_type, kind in _KINDS.items() if isinstance(column.type, column_type))


_KINDS: Mapping[type[TypeEngine[Any]], Kind] = {
    Uuid: Kind.UUID,
    Utc: Kind.TIME,
    LargeBinary: Kind.BYTES,
    JSON: Kind.JSON,
    Boolean: Kind.BOOLEAN,
    Integer: Kind.INTEGER,
    Float: Kind.FLOAT,
    String: Kind.TEXT,
}


def _exchange_table(shape: TableShape, dialect: Dialect) -> Table:
    """Return the table with types that pass values on as the format has them, for this engine."""
    types = {**_TYPES, **(_POSTGRES_TYPES if dialect.name == "postgresql" else {})}
    return Table(shape.name, MetaData(), *(Column(name, types[kind]) for name, kind in shape.columns))


class _PostgresJson(TypeDecorator[str]):
    """A JSON column as its text."""

    impl = Text
    cache_ok = True

    def bind_expression(self, bindvalue: Any) -> ColumnElement[Any]:
        return cast(bindvalue, JSON)

    def column_expression(self, column: Any) -> ColumnElement[Any]:
        return cast(column, Text)


class _Words(TypeDecorator[list[str]]):
    """A search index of PostgreSQL, made from words."""

    impl = ARRAY(Text)
    cache_ok = True

    def bind_expression(self, bindvalue: Any) -> ColumnElement[Any]:
        return func.array_to_tsvector(bindvalue, type_=TSVECTOR)


class _JoinedWords(TypeDecorator[list[str]]):
    """A list of words that SQLite has as one text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: list[str] | None, dialect: Dialect) -> str | None:
        return None if value is None else " ".join(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> list[str] | None:
        return None if value is None else value.split()


_TYPES: Mapping[Kind, TypeEngine[Any]] = {
    Kind.UUID: Uuid(),
    Kind.TIME: Utc(),
    Kind.BYTES: LargeBinary(),
    Kind.JSON: Text(),
    Kind.BOOLEAN: Boolean(),
    Kind.INTEGER: BigInteger(),
    Kind.FLOAT: Float(),
    Kind.TEXT: Text(),
    Kind.LIST: _JoinedWords(),
}
_POSTGRES_TYPES: Mapping[Kind, TypeEngine[Any]] = {Kind.JSON: _PostgresJson(), Kind.LIST: ARRAY(Text)}

_ENCODERS: Mapping[Kind, Callable[[Any], Any]] = {
    Kind.UUID: str,
    Kind.TIME: lambda value: value.isoformat(),
    Kind.BYTES: lambda value: base64.b64encode(value).decode(),
    # SQLite keeps a JSON number as a number.
    Kind.JSON: lambda value: value if isinstance(value, str) else json.dumps(value),
    Kind.BOOLEAN: bool,
    Kind.INTEGER: int,
    Kind.FLOAT: float,
    Kind.TEXT: str,
    Kind.LIST: list,
}
_DECODERS: Mapping[Kind, Callable[[Any], Any]] = {
    Kind.UUID: UUID,
    Kind.TIME: lambda value: datetime.fromisoformat(value).astimezone(UTC),
    Kind.BYTES: lambda value: base64.b64decode(value, validate=True),
    Kind.JSON: lambda value: value,
    Kind.BOOLEAN: bool,
    Kind.INTEGER: int,
    Kind.FLOAT: float,
    Kind.TEXT: str,
    Kind.LIST: lambda value: [str(word) for word in value],
}


def _counter(connection: Connection, table: Table) -> tuple[str, int] | None:
    column = next((column.name for column in table.primary_key.columns if column.autoincrement is True), None)
    if column is None:
        return None
    if connection.dialect.name == "sqlite":
        query = text("select seq from sqlite_sequence where name = :name")
        return column, connection.execute(query, {"name": table.name}).scalar() or 0
    # The name comes from PostgreSQL itself, quoted where it has to be.
    sequence = _sequence(connection, table.name, column)
    query = text(f"select case when is_called then last_value else 0 end from {sequence}")  # noqa: S608 - a name of our own schema
    return column, int(connection.execute(query).scalar_one())


def _set_counter(connection: Connection, shape: TableShape) -> None:
    """Continue to count where the backup ended, so that no number is given twice."""
    if shape.counter is None or not shape.counter[1]:
        return
    column, last = shape.counter
    if connection.dialect.name == "sqlite":
        connection.execute(text("delete from sqlite_sequence where name = :name"), {"name": shape.name})
        values = {"name": shape.name, "seq": last}
        connection.execute(text("insert into sqlite_sequence (name, seq) values (:name, :seq)"), values)
        return
    values = {"sequence": _sequence(connection, shape.name, column), "value": last}
    connection.execute(text("select setval(cast(cast(:sequence as text) as regclass), :value)"), values)


def _sequence(connection: Connection, table: str, column: str) -> str:
    query = text("select pg_get_serial_sequence(:table, :column)")
    return str(connection.execute(query, {"table": table, "column": column}).scalar_one())
