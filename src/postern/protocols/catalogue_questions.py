"""The questions about a target's catalogue that every database answers, by their statements.

The rows of each have the same cells for all databases: those of a whole schema are described at `shape_schema`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from postern.domain.targets.target_task import TargetTaskKind
from postern.protocols.gateway_queries import Question, Row

# First cells of the rows of a whole schema. Their order puts all names before all columns, so that a large schema that
# is cut still has every table.
CURRENT: Final = "0"
DATABASE: Final = "1"
TABLE: Final = "2"
COLUMN: Final = "3"


def shown_of_schema(row: Row) -> Row:
    """Return the cells of a whole schema's row that the answer has: a column's schema and table were there before."""
    return row[3:] if row[0] == COLUMN else row[1:]


def shape_schema(rows: Sequence[Row], kinds: Mapping[str, str], nullable: str) -> dict[str, Any]:
    """Make the answer from rows (first cell, schema or database, table, kind or column, type, nullable, position).

    `kinds` are the names of the kinds of relations that are not tables; `nullable` is the cell of a column that is.
    """
    database: str | None = None
    databases: list[str | None] = []
    schemas: dict[str | None, list[dict[str, Any]]] = {}
    columns: dict[tuple[str | None, str | None], list[dict[str, Any]]] = {}
    for part, place, table, name, kind, is_nullable, _ in rows:
        if part == CURRENT:
            database = place
        elif part == DATABASE:
            databases.append(place)
        elif part == TABLE:
            own = columns[place, table] = []
            schemas.setdefault(place, []).append(
                {"name": table, "kind": kinds.get(name or "", "table"), "columns": own}
            )
        elif (place, table) in columns:  # not made since the tables were read
            columns[place, table].append({"name": name, "type": kind, "nullable": is_nullable == nullable})
    return {
        "database": database,
        "databases": databases,
        "schemas": [{"name": name, "tables": tables} for name, tables in schemas.items()],
    }


def _shape_tables(rows: Sequence[Row]) -> dict[str, Any]:
    schemas: dict[str | None, list[str | None]] = {}
    for name, table in rows:
        schemas.setdefault(name, []).append(table)
    return {"schemas": [{"name": name, "tables": tables} for name, tables in schemas.items()]}


def catalogue_questions(
    *,
    databases: str,
    tables: str,
    columns: str,
    schema: str,
    missing: str,
    kinds: Mapping[str, str],
    test: str = "select 1",
    nullable: str = "YES",
    values_of_tables: tuple[str, ...] = ("schema",),
    values_of_columns: tuple[str, ...] = ("table", "schema"),
    values_of_schema: tuple[str, ...] = (),
) -> dict[TargetTaskKind, Question]:
    """Return the questions of a protocol, by the statement of each.

    The rows of `databases` are their names, those of `tables` a schema and a table, and those of `columns` a name, a
    type and whether it is nullable, which it is if that cell is `nullable`. `missing` is the error if a table has no
    columns. `kinds` are the names of the kinds of relations that are not tables.
    """

    def shape_columns(rows: Sequence[Row]) -> dict[str, Any]:
        return {"columns": [{"name": name, "type": kind, "nullable": cell == nullable} for name, kind, cell in rows]}

    return {
        TargetTaskKind.TEST: Question(test, (), lambda _: {"success": True}),
        TargetTaskKind.DATABASES: Question(databases, (), lambda rows: {"databases": [name for (name,) in rows]}),
        TargetTaskKind.TABLES: Question(tables, values_of_tables, _shape_tables, overhead=32),
        TargetTaskKind.COLUMNS: Question(columns, values_of_columns, shape_columns, overhead=48, missing=missing),
        TargetTaskKind.SCHEMA: Question(
            schema,
            values_of_schema,
            lambda rows: shape_schema(rows, kinds, nullable),
            overhead=64,
            shown=shown_of_schema,
        ),
    }
