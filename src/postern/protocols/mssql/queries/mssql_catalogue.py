"""Catalogue queries of a SQL Server target, and the conversion of their rows to an answer.

The answer contains what the connection's own user can see, in the database of the connection. Text columns of the
catalogue can have other collations than names, so those that a UNION joins get the database's.
"""

from __future__ import annotations

from postern.protocols.catalogue_questions import catalogue_questions
from postern.protocols.gateway_queries import Catalogue
from postern.protocols.mssql.queries import mssql_schema as schema
from postern.protocols.mssql.queries.mssql_query import MssqlQuery

_OWN_DATABASES = "('master', 'model', 'msdb', 'tempdb')"

_DATABASES = f"select name from sys.databases where name not in {_OWN_DATABASES} order by name"  # noqa: S608 - texts of this module

# Without a schema, those of all.
_TABLES = """
select s.name, o.name from sys.objects o join sys.schemas s on s.schema_id = o.schema_id
where o.type in ('U', 'V') and o.is_ms_shipped = 0 and s.name = coalesce(?, s.name)
order by s.name, o.name"""

# `nvarchar(20)`: the catalogue has the length in bytes.
_TYPE = """t.name + case
  when t.name in ('char', 'varchar', 'binary', 'varbinary')
    then '(' + case c.max_length when -1 then 'max' else cast(c.max_length as varchar(10)) end + ')'
  when t.name in ('nchar', 'nvarchar')
    then '(' + case c.max_length when -1 then 'max' else cast(c.max_length / 2 as varchar(10)) end + ')'
  when t.name in ('decimal', 'numeric')
    then '(' + cast(c.precision as varchar(10)) + ',' + cast(c.scale as varchar(10)) + ')'
  when t.name in ('time', 'datetime2', 'datetimeoffset') then '(' + cast(c.scale as varchar(10)) + ')'
  else '' end"""

_FROM_COLUMNS = """from sys.columns c
  join sys.objects o on o.object_id = c.object_id
  join sys.schemas s on s.schema_id = o.schema_id
  join sys.types t on t.user_type_id = c.user_type_id
where o.type in ('U', 'V') and o.is_ms_shipped = 0"""

_NULLABLE = "case when c.is_nullable = 1 then 'YES' else 'NO' end"

_COLUMNS = f"""
select c.name, {_TYPE}, {_NULLABLE} {_FROM_COLUMNS} and o.name = ? and s.name = coalesce(?, schema_name())
order by c.column_id"""

_NO_NAME = "cast(null as nvarchar(128))"
_NO_TYPE = "cast(null as nvarchar(300))"

# `shape_schema` explains the parts.
_SCHEMA = f"""
select '0' as part, db_name() collate database_default as place, {_NO_NAME} as relation, {_NO_NAME} as name,
  {_NO_TYPE} as type, cast(null as varchar(3)) as nullable, 0 as position
union all select '1', name collate database_default, {_NO_NAME}, {_NO_NAME}, {_NO_TYPE}, null, 0 from sys.databases
  where name not in {_OWN_DATABASES}
union all select '2', s.name collate database_default, o.name collate database_default,
  o.type_desc collate database_default, {_NO_TYPE}, null, 0
  from sys.objects o join sys.schemas s on s.schema_id = o.schema_id
  where o.type in ('U', 'V') and o.is_ms_shipped = 0
union all select '3', s.name collate database_default, o.name collate database_default,
  c.name collate database_default, ({_TYPE}) collate database_default, {_NULLABLE}, c.column_id {_FROM_COLUMNS}
order by 1, 2, 3, 7"""  # noqa: S608 - texts of this module


_QUESTIONS = catalogue_questions(
    databases=_DATABASES,
    tables=_TABLES,
    columns=_COLUMNS,
    schema=_SCHEMA,
    kinds={"VIEW": "view"},
    missing="the table does not exist, or the connection's user is not allowed to see it; specify its schema",
)

CATALOGUE = Catalogue(MssqlQuery, _QUESTIONS, schema.QUESTIONS, schema.target_schema)
