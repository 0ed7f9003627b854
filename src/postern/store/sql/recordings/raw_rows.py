"""Raw rows of the database, decoded value by value: a damaged one is reported, not raised.

SQLite stores anything in any column, so a row that cannot be decoded must not hide the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

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
            (field.name, field.kind, column.type.dialect_impl(dialect).result_processor(dialect, None), field)
            for column in table.c
            for field in (_Field(column),)
        ]

    def decode(self, row: Row[Any] | Sequence[Any]) -> dict[str, Any]:
        """Decode a row. Raises Malformed, which names the column."""
        values: dict[str, Any] = {}
        for (name, kind, process, field), value in zip(self._columns, row, strict=True):
            if kind is UUID and type(value) is str and value == field.last_raw:
                values[name] = field.last
                continue
            try:
                if field.is_picky:
                    field.check_raw(value)
                decoded = value if process is None else process(value)
            except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
                raise Malformed(f"its column {name!r} has an invalid value") from None
            if type(decoded) is not kind and not field.fits(decoded):
                raise Malformed(f"its column {name!r} has an invalid value")
            if kind is UUID:
                field.last_raw, field.last = value, decoded
            values[name] = decoded
        return values


class _Field:
    """The allowed values of a column, looked up once for many rows. `kind` is None for JSON.

    `last` is the newest identifier that was decoded, of `last_raw`: adjacent rows mostly have the same organisation,
    connection and data key.
    """

    __slots__ = ("_is_boolean", "_is_nullable", "is_picky", "kind", "last", "last_raw", "name")

    def __init__(self, column: Column[Any]) -> None:
        self.name = column.name
        self.last: UUID | None = None
        self.last_raw: object = None
        self._is_boolean = isinstance(column.type, Boolean)
        self._is_nullable = bool(column.nullable)
        self.is_picky = self._is_boolean or isinstance(column.type, LargeBinary)
        self.kind: type[Any] | None = None if isinstance(column.type, JSON) else column.type.python_type

    def check_raw(self, value: object) -> None:
        """Raise TypeError for what a processor would convert by mistake: bytes(5) are five bytes, and any text is
        true."""
        if self._is_boolean:
            if value not in (0, 1, None):
                raise TypeError("no boolean")
        elif not isinstance(value, (bytes, memoryview, type(None))):
            raise TypeError("no bytes")

    def fits(self, value: object) -> bool:
        if self.kind is None:
            return True
        if value is None:
            return self._is_nullable
        return type(value) is self.kind or (isinstance(value, self.kind) and not isinstance(value, bool))
