"""Catalogue queries of a MySQL or MariaDB target, and the conversion of their rows to an answer.

A database is a schema here; both words mean the same. The answer contains what the connection's own user can see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from postern.domain.targets.target_task import TargetTaskKind
from postern.protocols.gateway_queries import Catalogue, Question, Row
from postern.protocols.mysql.queries import mysql_schema as schema
from postern.protocols.mysql.queries.mysql_query import MysqlQuery

_DATABASES = """
select schema_name from information_schema.schemata
where lower(schema_name) not in ('information_schema', 'performance_schema', 'mysql', 'sys') order by schema_name"""

# Without a schema, those of the default database; without a default database, all.
_TABLES = """
select table_schema, table_name from information_schema.tables
where case when coalesce(?, database()) is null
    then lower(table_schema) not in ('information_schema', 'performance_schema', 'mysql', 'sys')
    else table_schema = coalesce(?, database()) end
order by table_schema, table_name"""

_COLUMNS = """
select column_name, column_type, is_nullable from information_schema.columns
where table_name = ? and table_schema = coalesce(?, database()) order by ordinal_position"""


def _tables(rows: Sequence[Row]) -> dict[str, Any]:
    schemas: dict[str | None, list[str | None]] = {}
    for name, table in rows:
        schemas.setdefault(name, []).append(table)
    return {"schemas": [{"name": name, "tables": tables} for name, tables in schemas.items()]}


def _columns(rows: Sequence[Row]) -> dict[str, Any]:
    return {"columns": [{"name": name, "type": kind, "nullable": nullable == "YES"} for name, kind, nullable in rows]}


_QUESTIONS: Mapping[TargetTaskKind, Question] = {
    TargetTaskKind.TEST: Question("select 1", (), lambda _: {"success": True}),
    TargetTaskKind.DATABASES: Question(_DATABASES, (), lambda rows: {"databases": [name for (name,) in rows]}),
    TargetTaskKind.TABLES: Question(_TABLES, ("schema", "schema"), _tables, overhead=32),
    TargetTaskKind.COLUMNS: Question(
        _COLUMNS,
        ("table", "schema"),
        _columns,
        overhead=48,
        missing="there is no such table, or the connection's user may not see it; name its database as the schema",
    ),
}

CATALOGUE = Catalogue(MysqlQuery, _QUESTIONS, schema.QUESTIONS, schema.target_schema)
