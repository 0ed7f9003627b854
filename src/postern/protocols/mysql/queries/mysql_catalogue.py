"""Catalogue queries of a MySQL or MariaDB target, and the conversion of their rows to an answer.

A database is a schema here; both words mean the same. The answer contains what the connection's own user can see.
"""

from __future__ import annotations

from postern.protocols.catalogue_questions import catalogue_questions
from postern.protocols.gateway_queries import Catalogue
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

# `shape_schema` explains the parts. With a default database, only its tables.
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


_QUESTIONS = catalogue_questions(
    databases=_DATABASES,
    tables=_TABLES,
    columns=_COLUMNS,
    schema=_SCHEMA,
    kinds=_KINDS,
    values_of_tables=("schema", "schema"),
    missing="the table does not exist, or the connection's user is not allowed to see it; specify its database as "
    "the schema",
)

CATALOGUE = Catalogue(MysqlQuery, _QUESTIONS, schema.QUESTIONS, schema.target_schema)
