"""Catalogue queries of an Oracle target, and the conversion of their rows to an answer.

The answer contains what the connection's own user can see, but for schemas that Oracle brings along. The database is
the service that the connection names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from postern.domain.targets.target_task import TargetTaskKind
from postern.protocols.gateway_queries import Catalogue, Question, Row, shape_schema, shown_of_schema
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

# `gateway_queries` explains the parts.
_SCHEMA = f"""
select part, place, relation, name, type, nullable, position from (
  select '0' as part, {_SERVICE} as place, '' as relation, '' as name, '' as type, '' as nullable, 0 as position
    from dual
  union all select '1', {_SERVICE}, '', '', '', '', 0 from dual
  union all select '2', r.place, r.relation, r.kind, '', '', 0 from ({_RELATIONS}) r
  union all select '3', c.owner, c.table_name, c.column_name, {_TYPE}, c.nullable, c.column_id
    from all_tab_columns c where c.owner {schema.NOT_OWN}
) s order by part, place, relation, position"""  # noqa: S608 - texts of this module


def _tables(rows: Sequence[Row]) -> dict[str, Any]:
    schemas: dict[str | None, list[str | None]] = {}
    for name, table in rows:
        schemas.setdefault(name, []).append(table)
    return {"schemas": [{"name": name, "tables": tables} for name, tables in schemas.items()]}


def _columns(rows: Sequence[Row]) -> dict[str, Any]:
    return {"columns": [{"name": name, "type": kind, "nullable": nullable == "Y"} for name, kind, nullable in rows]}


_QUESTIONS: Mapping[TargetTaskKind, Question] = {
    TargetTaskKind.TEST: Question("select 1 from dual", (), lambda _: {"success": True}),
    TargetTaskKind.DATABASES: Question(_DATABASES, (), lambda rows: {"databases": [name for (name,) in rows]}),
    TargetTaskKind.TABLES: Question(_TABLES, ("schema",), _tables, overhead=32),
    TargetTaskKind.COLUMNS: Question(
        _COLUMNS,
        ("table", "schema"),
        _columns,
        overhead=48,
        missing="the table does not exist, or the connection's user is not allowed to see it; specify its schema, and "
        "spell both as the catalogue does, in upper case as a rule",
    ),
    TargetTaskKind.SCHEMA: Question(
        _SCHEMA, (), lambda rows: shape_schema(rows, {"VIEW": "view"}, "Y"), overhead=64, shown=shown_of_schema
    ),
}

CATALOGUE = Catalogue(OracleQuery, _QUESTIONS, schema.QUESTIONS, schema.target_schema)
