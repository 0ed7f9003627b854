"""Catalogue queries of an Oracle target, and the conversion of their rows to an answer.

The answer contains what the connection's own user can see, but for schemas that Oracle brings along. The database is
the service that the connection names.
"""

from __future__ import annotations

from typing import Final

from postern.protocols.catalogue_questions import catalogue_questions
from postern.protocols.gateway_queries import Catalogue
from postern.protocols.oracledb.queries import oracle_schema as schema
from postern.protocols.oracledb.queries.oracle_query import OracleQuery

_SERVICE: Final = "sys_context('USERENV', 'SERVICE_NAME')"
_DATABASES = f"select {_SERVICE} from dual"  # noqa: S608 - texts of this module

_RELATIONS = f"""
select owner as place, table_name as relation, 'TABLE' as kind from all_tables where owner {schema.NOT_OWN}
union all
select owner, view_name, 'VIEW' from all_views where owner {schema.NOT_OWN}"""  # noqa: S608 - texts of this module

# Without a schema, those of all.
_TABLES = f"select place, relation from ({_RELATIONS}) r where place = nvl(:1, place) order by place, relation"  # noqa: S608 - texts of this module

_TYPE: Final = """c.data_type || case
  when c.data_type in ('VARCHAR2', 'NVARCHAR2', 'CHAR', 'NCHAR') then '(' || c.char_length || ')'
  when c.data_type = 'RAW' then '(' || c.data_length || ')'
  when c.data_type = 'NUMBER' and c.data_precision is not null
    then '(' || c.data_precision || ',' || c.data_scale || ')'
  else '' end"""

_COLUMNS = f"""
select c.column_name, {_TYPE}, c.nullable from all_tab_columns c
where c.table_name = :1 and c.owner = nvl(:2, sys_context('USERENV', 'CURRENT_SCHEMA'))
order by c.column_id"""  # noqa: S608 - texts of this module

# `shape_schema` explains the parts.
_SCHEMA = f"""
select part, place, relation, name, type, nullable, position from (
  select '0' as part, {_SERVICE} as place, '' as relation, '' as name, '' as type, '' as nullable, 0 as position
    from dual
  union all select '1', {_SERVICE}, '', '', '', '', 0 from dual
  union all select '2', r.place, r.relation, r.kind, '', '', 0 from ({_RELATIONS}) r
  union all select '3', c.owner, c.table_name, c.column_name, {_TYPE}, c.nullable, c.column_id
    from all_tab_columns c where c.owner {schema.NOT_OWN}
) s order by part, place, relation, position"""  # noqa: S608 - texts of this module


_QUESTIONS: Final = catalogue_questions(
    test="select 1 from dual",
    databases=_DATABASES,
    tables=_TABLES,
    columns=_COLUMNS,
    schema=_SCHEMA,
    kinds={"VIEW": "view"},
    nullable="Y",
    missing="the table does not exist, or the connection's user is not allowed to see it; specify its schema, and "
    "spell both as the catalogue does, in upper case as a rule",
)

CATALOGUE = Catalogue(OracleQuery, _QUESTIONS, schema.QUESTIONS, schema.target_schema)
