"""A store in which every table has rows, with every kind of value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    Integer,
    LargeBinary,
    Table,
    Text,
    Uuid,
    cast,
    insert,
    select,
    text,
)

from postern.store.schema.columns import Utc, metadata
from postern.store.schema.session_tables import sessions

Rows = dict[str, list[tuple[Any, ...]]]
_WHEN = datetime(2026, 3, 4, 5, 6, 7, 890123, UTC)
_JSON: list[Any] = [{"a": [1, 2.5, "é\n\u2028", None]}, [], None, "text", 5, True]


class FilledStore:
    """Adds rows to every table: one with all columns, and one without those that can be NULL."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._rows: dict[str, Mapping[str, Any]] = {}

    def fill(self, connection: Connection) -> None:
        for is_whole in (True, False):
            for table in metadata.sorted_tables:
                row = {
                    column.name: self._value(connection, column)
                    for column in table.columns
                    if (is_whole or self._is_needed(column)) and not self._is_made(column)
                }
                if table.name == "session_texts" and connection.dialect.name == "postgresql":
                    words = text("array_to_tsvector(cast(:words as text[]))").bindparams(words=row["folded"].split())
                    connection.execute(insert(table).values(**row, words=words))
                else:
                    connection.execute(insert(table).values(row))
                self._rows[table.name] = row

    @staticmethod
    def _is_needed(column: Column[Any]) -> bool:
        return bool(column.primary_key) or (not column.nullable and column.server_default is None)

    @staticmethod
    def _is_made(column: Column[Any]) -> bool:
        """Whether the store makes the value by itself."""
        return column.autoincrement is True or (column.table.name, column.name) == ("session_texts", "words")

    def _value(self, connection: Connection, column: Column[Any]) -> Any:
        for key in column.foreign_keys:
            return self._rows[key.column.table.name][key.column.name]
        if column.name == "status" and column.table is sessions:
            return "done"
        number = next(self._numbers)
        if (column.table.name, column.name) == ("session_texts", "keys"):
            words = ["ka", f"k{number}"]
            return words if connection.dialect.name == "postgresql" else " ".join(words)
        if (column.table.name, column.name) == ("session_texts", "folded"):
            return f"drop table é{number} drop"
        kinds: list[tuple[type, Any]] = [
            (Uuid, uuid4()),
            (Utc, _WHEN + timedelta(microseconds=number)),
            (JSON, _JSON[number % len(_JSON)]),
            (LargeBinary, bytes(range(224, 256))[:28] + number.to_bytes(4, "big")),
            (Boolean, bool(number % 2)),
            (Float, number / 7),
            (BigInteger, (1 << 40) + number),
            (Integer, number),
        ]
        return next((value for kind, value in kinds if isinstance(column.type, kind)), f"é{number}"[:4])


def all_rows(connection: Connection) -> Rows:
    """All rows of all tables, in a form that does not depend on the engine; JSON as its text."""
    found: Rows = defaultdict(list)
    for table in metadata.sorted_tables:
        columns = [_readable(table, column, connection.dialect.name) for column in table.columns]
        rows = connection.execute(select(*columns)).all()
        found[table.name] = sorted((tuple(map(_plain, row)) for row in rows), key=repr)
    return found


def _readable(table: Table, column: Column[Any], dialect: str) -> Any:
    if (table.name, column.name) == ("session_texts", "words"):
        return text("null")
    if isinstance(column.type, JSON):
        return cast(column, Text)
    return column


def _plain(value: Any) -> Any:
    return " ".join(value) if isinstance(value, list) else value
