"""Catalogue queries of a MySQL or MariaDB target, and the conversion of their rows to an answer.

A database is a schema here; both words mean the same. The answer contains what the connection's own user can see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from postern.domain.targets.target_task import TargetTaskKind
from postern.protocols.gateway_queries import Catalogue, Question, Row, shape_schema, shown_of_schema
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

# `gateway_queries` explains the parts. With a default database, only its tables.
_SCHEMA = """
select '0' as part, database() as place, null as relation, null as name, null as type, null as nullable, 0 as position
union all select '1', schema_name, null, null, null, null, 0 from information_schema.schemata
  where lower(schema_name) not in ('information_schema', 'performance_schema', 'mysql', 'sys')
union all select '2', table_schema, table_name, table_type, null, null, 0 from information_schema.tables
  where case when database() is null
    then lower(table_schema) not in ('information_schema', 'performance_schema', 'mysql', 'sys')
    else table_schema = database() end
union all select '3', table_schema, table_name, column_name, column_type, is_nullable, ordinal_position
  from information_schema.columns
  where case when database() is null
    then lower(table_schema) not in ('information_schema', 'performance_schema', 'mysql', 'sys')
    else table_schema = database() end
order by 1, 2, 3, 7"""

_KINDS = {"VIEW": "view", "SYSTEM VIEW": "view"}


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
        missing="the table does not exist, or the connection's user is not allowed to see it; specify its database as "
        "the schema",
    ),
    TargetTaskKind.SCHEMA: Question(
        _SCHEMA, (), lambda rows: shape_schema(rows, _KINDS, "YES"), overhead=64, shown=shown_of_schema
    ),
}

CATALOGUE = Catalogue(MysqlQuery, _QUESTIONS, schema.QUESTIONS, schema.target_schema)
