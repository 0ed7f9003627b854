"""Catalogue queries of a PostgreSQL target, and the conversion of their rows to an answer.

Tables, functions and types are named with their schema, so that objects of the target's users are never used instead.
The answer contains what the connection's own user can see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from postern.domain.targets.target_task import TargetTaskKind
from postern.protocols.gateway_queries import Catalogue, Question, Row
from postern.protocols.postgres.queries import postgres_schema as schema
from postern.protocols.postgres.queries.postgres_query import PostgresQuery

_DATABASES = """
select d.datname from pg_catalog.pg_database d
where d.datallowconn and not d.datistemplate and pg_catalog.has_database_privilege(d.oid, 'CONNECT')
order by d.datname"""

# Tables, partitioned ones, views, materialized views, foreign tables.
_TABLES = """
select n.nspname, c.relname
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f')
  and case when $1::pg_catalog.text is null
      then n.nspname not in ('pg_catalog', 'information_schema') and n.nspname::pg_catalog.text not like 'pg\\_t%'
      else n.nspname::pg_catalog.text = $1::pg_catalog.text end
  and pg_catalog.has_schema_privilege(n.oid, 'USAGE')
order by n.nspname, c.relname"""

# Without a schema, the table that the bare name refers to there.
_COLUMNS = """
select a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), not a.attnotnull
from pg_catalog.pg_attribute a
  join pg_catalog.pg_class c on c.oid = a.attrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f') and a.attnum > 0 and not a.attisdropped
  and c.relname::pg_catalog.text = $1::pg_catalog.text
  and case when $2::pg_catalog.text is null
      then pg_catalog.pg_table_is_visible(c.oid) else n.nspname::pg_catalog.text = $2::pg_catalog.text end
  and pg_catalog.has_schema_privilege(n.oid, 'USAGE')
order by a.attnum"""


def _tables(rows: Sequence[Row]) -> dict[str, Any]:
    schemas: dict[str | None, list[str | None]] = {}
    for name, table in rows:
        schemas.setdefault(name, []).append(table)
    return {"schemas": [{"name": name, "tables": tables} for name, tables in schemas.items()]}


def _columns(rows: Sequence[Row]) -> dict[str, Any]:
    return {"columns": [{"name": name, "type": kind, "nullable": nullable == "t"} for name, kind, nullable in rows]}


_QUESTIONS: Mapping[TargetTaskKind, Question] = {
    TargetTaskKind.TEST: Question("select 1", (), lambda _: {"success": True}),
    TargetTaskKind.DATABASES: Question(_DATABASES, (), lambda rows: {"databases": [name for (name,) in rows]}),
    TargetTaskKind.TABLES: Question(_TABLES, ("schema",), _tables, overhead=32),
    TargetTaskKind.COLUMNS: Question(
        _COLUMNS,
        ("table", "schema"),
        _columns,
        overhead=48,
        missing="there is no such table, or the connection's user may not see it",
    ),
}


def _own_path(parameters: Mapping[str, str]) -> bool:
    """Return True if the start parameters contain a search_path, or options that may."""
    return not {"search_path", "options"}.isdisjoint(name.lower() for name in parameters)


CATALOGUE = Catalogue(PostgresQuery, _QUESTIONS, schema.QUESTIONS, schema.target_schema, _own_path)
