"""The queries around a row count on a SQL Server target, which make sure that counting runs no custom code (decision
0183). SQL Server 2016 and later.

T-SQL has no read-only transactions, so a count is made of the server's own functions only, and of ordinary tables whose
columns hold stored values of built-in types. All of that is in catalogue views, of which a user sees everything with
the permission VIEW DEFINITION on the database alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from postern.domain.rules.row_count import Named, Uncountable
from postern.protocols.gateway_queries import Row
from postern.protocols.mssql.dialect.tsql_count_plans import TsqlCountPlan
from postern.protocols.mssql.dialect.tsql_side_effect_free import TYPES, FoundTable, fold_name
from postern.protocols.mssql.queries.mssql_own_requests import encode_typed_statement
from postern.protocols.mssql.queries.mssql_query import MssqlBatch, MssqlExchange, MssqlQuery
from postern.protocols.mssql.wire import mssql_requests as r
from postern.protocols.mssql.wire import mssql_types as t

SLOW: Final = "the query took too long"
MOST_NOTES: Final = 5

_SESSION: Final = """
select has_perms_by_name(db_name(), 'DATABASE', 'VIEW DEFINITION'), schema_name(),
  cast(databasepropertyex(db_name(), 'Collation') as nvarchar(128))"""

# Everything of a name that a FROM can mean, in any schema.
_TABLES: Final = """
select cast(o.object_id as varchar(20)), s.name, o.name, o.type, convert(varchar(30), o.modify_date, 126),
  cast(t.is_external as int), cast(t.is_filetable as int), cast(t.is_remote_data_archive_enabled as int)
from sys.all_objects o
  join sys.schemas s on s.schema_id = o.schema_id
  left join sys.tables t on t.object_id = o.object_id
where o.name = ? and o.type in ('U', 'V', 'SN', 'S', 'ET', 'IT')
order by s.name"""

_COLUMNS: Final = """
select c.name, type_name(c.system_type_id), cast(c.is_computed as int), cast(y.is_assembly_type as int),
  cast(c.encryption_type as int)
from sys.columns c left join sys.types y on y.user_type_id = c.user_type_id
where c.object_id = cast(? as int)
order by c.column_id"""

# What forbids to count a table: the kind, and a name. A user's function in a CHECK has a schema: [dbo].[f](…).
_FACTS: Final = """
select 'policy', y.name from sys.security_predicates p
  join sys.security_policies y on y.object_id = p.object_id
  where p.target_object_id = cast(? as int) and y.is_enabled = 1
union all select 'check', k.name from sys.check_constraints k
  where k.parent_object_id = cast(? as int) and (k.definition is null or k.definition like '%].[[]%](%')"""

_FUNCTION: Final = """
select s.name from sys.objects o join sys.schemas s on s.schema_id = o.schema_id
where o.name = ? and o.type in ('FN', 'IF', 'TF', 'FS', 'FT', 'AF')"""

# Triggers with their events, and foreign keys with the columns that they refer to.
_NOTES: Final = """
select 'trigger', g.name collate database_default, e.type_desc collate database_default,
  cast(g.is_instead_of_trigger as int), 0
from sys.triggers g join sys.trigger_events e on e.object_id = g.object_id
where g.parent_id = cast(? as int) and g.is_disabled = 0
union all select 'key', o.name collate database_default, c.name collate database_default,
  cast(f.update_referential_action as int), cast(f.delete_referential_action as int)
from sys.foreign_keys f
  join sys.objects o on o.object_id = f.parent_object_id
  join sys.foreign_key_columns k on k.constraint_object_id = f.object_id
  join sys.columns c on c.object_id = f.referenced_object_id and c.column_id = k.referenced_column_id
where f.referenced_object_id = cast(? as int)
order by 1, 2"""

_EVENTS: Final = {
    "UPDATE": frozenset({"UPDATE"}),
    "DELETE": frozenset({"DELETE"}),
    "MERGE": frozenset({"INSERT", "UPDATE", "DELETE"}),
}
_KINDS: Final = {"V": "a view", "SN": "a synonym", "S": "a system table", "IT": "a system table"}
_ELSEWHERE: Final = ("stored on another server", "a FileTable", "stored in part on another server")
_TYPES: Final = frozenset(name.lower() for name in TYPES) | {"timestamp"}
_ROWSETS: Final = frozenset({"STRING_SPLIT"})  # functions that a user's can be taken for: these need no schema

# By number, because the error's text may contain values and must not be shown.
_ERRORS: Final = {
    207: "it names a column that does not exist",
    208: "its table does not exist",
    229: "the connection's user is not allowed to read its tables",
    230: "the connection's user is not allowed to read its tables",
    1222: "another session has locked its table or its rows",
    41368: "its memory-optimized table cannot be read in this transaction",
}
_TOO_OLD: Final = "its tables are not described as SQL Server 2016 and later do"

# A parameter of sp_executesql, of a built-in type.
_DECLARED: Final = re.compile(
    r"\s*(@[\w#$@]+)\s+(?:as\s+)?(\w+\s*(?:\(\s*(?:\d+|max)\s*(?:,\s*\d+\s*)?\))?)(?:\s+out(?:put)?)?\s*(,|$)",
    re.ASCII | re.IGNORECASE,
)
_VALUE_TYPES: Final = frozenset(
    {
        *(
            t.INTN,
            t.INT1,
            t.INT2,
            t.INT4,
            t.INT8,
            t.BIT,
            t.BITN,
            t.REAL,
            t.FLOAT,
            t.FLOATN,
            t.MONEY,
            t.MONEY4,
            t.MONEYN,
        ),
        *(t.DECIMAL, t.NUMERIC, t.DATE, t.TIME, t.DATETIME2, t.DATETIMEOFFSET, t.DATETIME, t.DATETIME4, t.DATETIMEN),
        *(t.GUID, t.CHAR, t.VARCHAR, t.NCHAR, t.NVARCHAR, t.BINARY, t.VARBINARY),
    }
)


def settings(lock_timeout: float, session_settings: Sequence[str]) -> MssqlBatch:
    """Return the batch that sets the options of the connection. The time is in seconds."""
    own = [
        *("SET NOCOUNT ON", "SET XACT_ABORT ON", "SET IMPLICIT_TRANSACTIONS OFF", "SET DEADLOCK_PRIORITY LOW"),
        *(f"SET LOCK_TIMEOUT {lock_timeout * 1000:.0f}", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"),
    ]
    return MssqlBatch("; ".join([*session_settings, *own]))


def roll_back(transaction: bytes) -> MssqlBatch:
    """Return the batch that ends a transaction in which a query was stopped. `transaction` is its number."""
    return MssqlBatch("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION", transaction)


def session() -> MssqlQuery:
    return MssqlQuery(_SESSION)


def check_session(rows: Sequence[Row], plan: TsqlCountPlan) -> str:
    """Return the default schema, from the rows of `session`. Raises Uncountable."""
    ((is_allowed, schema, collation),) = rows
    if is_allowed != "1":
        raise Uncountable("the connection's user cannot see all definitions; grant it VIEW DEFINITION on the database")
    if plan.is_folded and ("_CI_" not in (collation or "")):
        raise Uncountable("upper and lower case differ in its names, and can be of different tables")
    return schema or ""


def tables(name: str) -> MssqlQuery:
    return MssqlQuery(_TABLES, [name])


def found_table(name: Named, rows: Sequence[Row], default_schema: str) -> tuple[str, FoundTable, Row]:
    """Return the number of a table, its names, and its row, from the rows of `tables`. Raises Uncountable."""
    schema, table = name
    # Views of the server need their schema, except for old ones.
    candidates = [row for row in rows if row[1] not in ("sys", "INFORMATION_SCHEMA") or (row[2] or "")[:3] == "sys"]
    if schema:
        candidates = [row for row in rows if fold_name(row[1] or "") == fold_name(schema)]
    shown = ".".join(filter(None, name))
    if not candidates:
        raise Uncountable(f"there is no table {shown}")
    if len(candidates) > 1:
        raise Uncountable(f"there are several tables {table}, and the user's schema decides which one is used")
    (row,) = candidates
    number, own_schema, own_name, kind, _, *elsewhere = row
    kind = (kind or "").strip()
    if kind != "U":
        raise Uncountable(f"{shown} is {_KINDS.get(kind, _ELSEWHERE[0])}")
    if not schema and own_schema not in (default_schema, "dbo"):
        raise Uncountable(f"there is no table {shown}")
    for is_so, what in zip(elsewhere, _ELSEWHERE, strict=True):
        if is_so == "1":
            raise Uncountable(f"{shown} is {what}")
    return number or "", FoundTable(own_schema or "", own_name or ""), row


def columns(number: str) -> MssqlQuery:
    return MssqlQuery(_COLUMNS, [number])


def used_columns(plan: TsqlCountPlan, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the columns of a table that the count can use, from the rows of `columns`. Raises Uncountable."""
    names = []
    for name, kind, is_computed, is_assembly, encryption in rows:
        if plan.columns is not None and fold_name(name or "") not in plan.columns:
            continue
        if is_computed != "0":
            raise Uncountable(f"its column {name} is computed")
        if is_assembly != "0" or kind not in _TYPES:
            raise Uncountable(
                f"its column {name} has the type {kind or 'of a user'}, which is not supported for counting"
            )
        if encryption is not None:
            raise Uncountable(f"its column {name} is encrypted")
        names.append(name or "")
    return tuple(names)


def facts(number: str) -> MssqlQuery:
    return MssqlQuery(_FACTS, [number] * 2)


def check_facts(table: str, rows: Sequence[Row]) -> None:
    """Check the rows of `facts`. Raises Uncountable with the first reason."""
    kinds = {kind for kind, _ in rows}
    if "policy" in kinds:
        raise Uncountable(f"row-level security decides which rows of {table} this user sees")
    if "check" in kinds:
        raise Uncountable(f"a CHECK of {table} calls a function")


def shadows(plan: TsqlCountPlan) -> list[MssqlQuery]:
    """Return queries for functions of users that the plan's functions could mean."""
    return [MssqlQuery(_FUNCTION, [name]) for name in sorted(_ROWSETS & plan.functions)]


def notes(number: str) -> MssqlQuery:
    return MssqlQuery(_NOTES, [number] * 2)


def read_notes(plan: TsqlCountPlan, table: str, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return what can change the result, from the rows of `notes`."""
    texts = []
    for kind, name, detail, update, delete in rows:
        if kind == "trigger" and detail in _EVENTS[plan.action]:
            instead = f"the trigger {name} runs in its place, and decides what is changed"
            texts.append(instead if update == "1" else f"the trigger {name} of {table} runs, and can change more rows")
        elif kind == "key" and _cascades(plan, detail or "", update or "0", delete or "0"):
            texts.append(f"rows of {name} refer to these rows, and are changed or deleted with them")
    return tuple(dict.fromkeys(texts))[:MOST_NOTES]


def _cascades(plan: TsqlCountPlan, column: str, update: str, delete: str) -> bool:
    changes_key = update != "0" and plan.action != "DELETE" and fold_name(column) in plan.sets
    return changes_key or (delete != "0" and plan.action != "UPDATE")


def count(
    plan: TsqlCountPlan, tables_by_name: Mapping[Named, FoundTable], values: Mapping[str, tuple[str, bytes]]
) -> MssqlExchange:
    """Return the count. `values` are declarations and encoded values by the names of variables."""
    text = f"BEGIN TRANSACTION; {plan.query(tables_by_name)}; ROLLBACK TRANSACTION"
    declaration = ", ".join([f"{name} {values[name][0]}" for name in plan.variables])
    return MssqlExchange(
        encode_typed_statement(text, declaration, [(name, values[name][1]) for name in plan.variables])
    )


def bind_values(plan: TsqlCountPlan, bound: bytes) -> dict[str, tuple[str, bytes]]:
    """Return the declared type and the encoded value of each variable that the plan uses. Raises Uncountable."""
    if not plan.variables:
        return {}
    if not bound:
        raise Uncountable(f"it uses {plan.variables[0]}, which is not a parameter of the request")
    declaration, parameters = r.read_bound(bound)
    declared = _declared_types(declaration)
    values: dict[str, tuple[str, bytes]] = {}
    order = list(declared)
    has_names = False
    for place, each in enumerate(parameters):
        name = each.name.lower()
        has_names |= bool(name)
        if not name and not has_names and place < len(order):
            name = order[place]
        if name not in declared or name in values or each.status & r.DEFAULT_VALUE:
            raise Uncountable("the parameters of its request are not understood")
        if each.type.code not in _VALUE_TYPES and name in plan.variables:
            raise Uncountable(f"the type of the bind value {name} is not supported for counting")
        values[name] = (declared[name], bound[each.typed_at : each.end])
    for name in plan.variables:
        if name not in values:
            raise Uncountable(f"the bind value {name} is missing")
        if values[name][0].partition("(")[0].strip().upper() not in TYPES:
            raise Uncountable(f"the type of the bind value {name} is not supported for counting")
    return values


def _declared_types(text: str) -> dict[str, str]:
    """Return the types of declared parameters by their names, in order. Raises Uncountable."""
    types: dict[str, str] = {}
    pos = 0
    while pos < len(text):
        match = _DECLARED.match(text, pos)
        if match is None or match[1].lower() in types:
            raise Uncountable("the declaration of its parameters is not understood")
        types[match[1].lower()] = match[2]
        pos = match.end()
    return types


def why(code: str, *, is_catalogue: bool = False) -> str:
    """Return the meaning of a target's error, by its code."""
    number = code.partition("/")[2]
    if is_catalogue and number in ("207", "208"):
        return _TOO_OLD
    known = _ERRORS.get(int(number)) if number.isdecimal() else None
    return known or f"the target rejected the query (error {number or code})"
