"""Catalogue queries of a PostgreSQL target, and the conversion of their rows to an answer.

Tables, functions and types are named with their schema, so that objects of the target's users are never used instead.
The answer contains what the connection's own user can see.
"""

from __future__ import annotations

from collections.abc import Mapping

from postern.protocols.catalogue_questions import catalogue_questions
from postern.protocols.gateway_queries import Catalogue
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

# All of them in one statement, and so of one moment. Names sort by their bytes; `shape_schema` explains the parts.
_SCHEMA = """
with relations as (
  select n.nspname, c.relname, c.oid, c.relkind
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p', 'v', 'm', 'f') and pg_catalog.has_schema_privilege(n.oid, 'USAGE')
    and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname::pg_catalog.text not like 'pg\\_t%'
)
select '0' as part, pg_catalog.current_database() as place, null::pg_catalog.name as relation,
  null::pg_catalog.text as name, null::pg_catalog.text as type, null::pg_catalog.bool as nullable, 0 as position
union all select '1', d.datname, null, null, null, null, 0 from pg_catalog.pg_database d
  where d.datallowconn and not d.datistemplate and pg_catalog.has_database_privilege(d.oid, 'CONNECT')
union all select '2', nspname, relname, relkind::pg_catalog.text, null, null, 0 from relations
union all select '3', r.nspname, r.relname, a.attname::pg_catalog.text,
    pg_catalog.format_type(a.atttypid, a.atttypmod), not a.attnotnull, a.attnum
  from relations r join pg_catalog.pg_attribute a on a.attrelid = r.oid
  where a.attnum > 0 and not a.attisdropped
order by 1, 2, 3, 7"""

_KINDS = {"v": "view", "m": "materialized_view", "f": "foreign_table"}


_QUESTIONS = catalogue_questions(
    databases=_DATABASES,
    tables=_TABLES,
    columns=_COLUMNS,
    schema=_SCHEMA,
    kinds=_KINDS,
    nullable="t",
    missing="the table does not exist, or the connection's user is not allowed to see it",
)


def _own_path(parameters: Mapping[str, str]) -> bool:
    """Return True if the start parameters contain a search_path, or options that may."""
    return not {"search_path", "options"}.isdisjoint(name.lower() for name in parameters)


CATALOGUE = Catalogue(PostgresQuery, _QUESTIONS, schema.QUESTIONS, schema.target_schema, _own_path)
