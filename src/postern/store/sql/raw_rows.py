"""Rows as the database has them, decoded value by value: one that somebody broke by hand is reported, not raised.

SQLite stores anything in any column, so a row that cannot be decoded must not hide the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import JSON, Boolean, Column, ColumnElement, Connection, LargeBinary, Row, Table, type_coerce
from sqlalchemy.types import NullType

from postern.errors import Malformed


def raw(table: Table) -> list[ColumnElement[Any]]:
    """Return all columns of `table` without their types, for a SELECT whose rows `decode` reads."""
    return [type_coerce(column, NullType()).label(column.name) for column in table.c]


class Decoder:
    """Decodes rows of one table on one engine."""

    def __init__(self, connection: Connection, table: Table) -> None:
        dialect = connection.dialect
        self._columns = [
            (column, column.type.dialect_impl(dialect).result_processor(dialect, None)) for column in table.c
        ]

    def decode(self, row: Row[Any] | Sequence[Any]) -> dict[str, Any]:
        """Raises Malformed, which names the column."""
        values: dict[str, Any] = {}
        for (column, process), value in zip(self._columns, row, strict=True):
            try:
                _check_raw(column, value)
                decoded = value if process is None else process(value)
            except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
                raise Malformed(f"its column {column.name!r} holds what it cannot hold") from None
            if not _fits(column, decoded):
                raise Malformed(f"its column {column.name!r} holds what it cannot hold")
            values[column.name] = decoded
        return values


def _check_raw(column: Column[Any], value: object) -> None:
    """Raises TypeError for what a processor would make something of: bytes(5) are five bytes, and any text is true."""
    if isinstance(column.type, LargeBinary) and not isinstance(value, (bytes, memoryview, type(None))):
        raise TypeError("no bytes")
    if isinstance(column.type, Boolean) and value not in (0, 1, None):
        raise TypeError("no boolean")


def _fits(column: Column[Any], value: object) -> bool:
    if isinstance(column.type, JSON):
        return True
    if value is None:
        return bool(column.nullable)
    kind = column.type.python_type
    return type(value) is kind or (isinstance(value, kind) and not isinstance(value, bool))
