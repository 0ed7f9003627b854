"""Queries that run nobody's code: which names of functions, operators, types, tables and columns one uses.

What is not known to be calm is refused by `Uncountable`. A name that passes is one of PostgreSQL's own; whether the
target has another of that name, and whose code stands behind its tables, only the target's catalogue tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from postern.domain.row_count import Named, Uncountable
from postern.inspection.sql.postgres.catalogue import CALM, OPERATORS, TYPES
from postern.inspection.sql.postgres.names import OWN, is_of_system
from postern.inspection.sql.postgres.tree import Message, children, names, node

# They tell of the session, of the server or of the search_path, so that another session hears another answer; some take
# a number for the transaction, which is left behind.
_OF_THE_SESSION_BEGIN: Final = (
    *("acl", "current_", "has_", "inet_client", "inet_server", "lo_", "pg_", "to_reg", "txid_", "binary_upgrade"),
    *("json_populate", "jsonb_populate", "json_to_record", "jsonb_to_record"),  # they make rows of any type
)
_OF_THE_SESSION: Final = frozenset(
    {
        *("anyarray_in", "col_description", "enum_in", "get_current_ts_config", "getdatabaseencoding", "getpgusername"),
        *("makeaclitem", "obj_description", "querytree", "row_security_active", "session_user", "shobj_description"),
        *("ts_debug", "user", "version"),
    }
)
_MOMENTS: Final = ("SVFOP_CURRENT_DATE", "SVFOP_CURRENT_TIME", "SVFOP_LOCALTIME")  # with or without a precision

_PLAIN_KINDS: Final = """
A_ArrayExpr A_Const A_Indices A_Star Alias BitString BoolExpr Boolean BooleanTest CaseWhen CoalesceExpr CollateClause
Float GroupingFunc GroupingSet Integer List MinMaxExpr NamedArgExpr NullTest RangeSubselect ResTarget RowExpr String
WindowDef WithClause
"""
_PLAIN: Final = frozenset(_PLAIN_KINDS.split())

# By its name, what a WITH names: False for a query, True for one that changes rows.
Scope = Mapping[str, bool]


@dataclass(slots=True)
class Uses:
    """What a query uses. `tables` are the RangeVars themselves, for whoever names their schemas."""

    tables: list[Message] = field(default_factory=list)
    columns: set[str] = field(default_factory=set)
    is_whole: bool = False
    functions: set[str] = field(default_factory=set)
    operators: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    parameters: list[Message] = field(default_factory=list)


def named(relation: Message) -> Named:
    return relation.get("schemaname", ""), relation["relname"]


def uses(query: Message, target: Message) -> Uses:
    """Of a SelectStmt; `target` is the one of its RangeVars that is a table whatever WITH names. Raises Uncountable."""
    found = Uses()
    aliases: set[str] = set()
    waiting: list[tuple[str, Message, Scope]] = [("SelectStmt", query, {})]
    while waiting:
        kind, message, scope = waiting.pop()
        if kind == "SelectStmt":
            scope = _select(message, scope, waiting)
        elif kind == "RangeVar":
            _table(message, scope, target, found)
            aliases.add(message.get("alias", {}).get("aliasname") or message["relname"])
        elif kind == "Alias":
            aliases.add(message["aliasname"])
            found.is_whole |= bool(message.get("colnames"))  # columns by other names
        elif kind in _HANDLERS:
            _HANDLERS[kind](message, found)
        elif kind not in _PLAIN:
            raise Uncountable(f"it holds something that is not counted ({kind or 'a field'})")
        left = ("withClause",) if kind == "SelectStmt" else ("typeName",)
        waiting += [(child, one, scope) for name, child, one in children(kind, message) if name not in left]
    found.is_whole |= not aliases.isdisjoint(found.columns)  # a row as a whole
    return found


def _select(message: Message, scope: Scope, waiting: list[tuple[str, Message, Scope]]) -> Scope:
    if message.get("lockingClause"):
        raise Uncountable("it locks the rows that it reads")
    if message.get("intoClause"):
        raise Uncountable("it makes a table")
    clause = message.get("withClause")
    if clause is None:
        return scope
    queries = [one["CommonTableExpr"] for one in clause.get("ctes", ())]
    everything = {**scope, **{one["ctename"]: _changes(one) for one in queries}}
    sees = everything if clause.get("recursive") else scope
    for one in queries:
        if one.get("search_clause") or one.get("cycle_clause"):
            raise Uncountable("its WITH has a SEARCH or a CYCLE")
        if not _changes(one):
            waiting.append((*node(one["ctequery"]), sees))
        if not clause.get("recursive"):
            sees = {**sees, one["ctename"]: _changes(one)}
    return everything


def _changes(one: Message) -> bool:
    return node(one["ctequery"])[0] != "SelectStmt"


def _table(message: Message, scope: Scope, target: Message, found: Uses) -> None:
    name = message["relname"]
    if message is not target and not message.get("schemaname") and name in scope:
        if scope[name]:
            raise Uncountable("it works on rows that another part of the statement changes")
        return
    if is_of_system([part for part in named(message) if part]):
        raise Uncountable(f"{name} is a table of the server itself")
    if message.get("catalogname"):
        raise Uncountable("it names a database")
    found.tables.append(message)


def _function(message: Message, found: Uses) -> None:
    parts = names(message.get("funcname"))
    name = parts[-1]
    is_calm = name in CALM and name not in _OF_THE_SESSION and not name.startswith(_OF_THE_SESSION_BEGIN)
    if not is_calm or (len(parts) > 1 and parts[-2] != OWN):
        raise Uncountable(f"it calls {'.'.join(parts)}()")
    found.functions.add(name)


def _operate(parts: list[str], found: Uses) -> None:
    if not parts:
        return
    if parts[-1] not in OPERATORS or (len(parts) > 1 and parts[-2] != OWN):
        raise Uncountable(f"it uses the operator {'.'.join(parts)}")
    found.operators.add(parts[-1])


def _expression(message: Message, found: Uses) -> None:
    if "BETWEEN" in message.get("kind", ""):
        found.operators |= {">=", "<="}
    else:
        _operate(names(message.get("name")), found)


def _sub_link(message: Message, found: Uses) -> None:
    _operate(names(message.get("operName")) or ["="], found)


def _case(message: Message, found: Uses) -> None:
    if message.get("arg"):
        found.operators.add("=")


def _join(message: Message, found: Uses) -> None:
    if message.get("isNatural"):
        raise Uncountable("it joins tables by whatever columns have the same name")
    if message.get("usingClause"):
        found.operators.add("=")
        found.columns |= set(names(message["usingClause"]))


def _sort_by(message: Message, found: Uses) -> None:
    if message.get("useOp"):
        raise Uncountable("it sorts by an operator")


def _range_function(message: Message, found: Uses) -> None:
    if message.get("coldeflist"):
        raise Uncountable("it makes rows by a list of columns")


def _cast(message: Message, found: Uses) -> None:
    parts = names(message.get("typeName", {}).get("names"))
    name = parts[-1].removeprefix("_") if parts else ""
    if name not in TYPES or name.startswith("reg") or (len(parts) > 1 and parts[-2] != OWN):
        raise Uncountable(f"it makes a value of the type {'.'.join(parts)}")
    found.types.add(name)


def _column(message: Message, found: Uses) -> None:
    fields = names(message.get("fields"))
    if fields[-1]:
        found.columns.add(fields[-1])
    else:
        found.is_whole = True  # a star


def _indirection(message: Message, found: Uses) -> None:
    for one in message.get("indirection", ()):
        kind, content = node(one)
        found.is_whole |= kind == "A_Star"
        if kind == "String":
            found.columns.add(content.get("sval", ""))


def _moment(message: Message, found: Uses) -> None:
    if not message.get("op", "").startswith(_MOMENTS):
        raise Uncountable("it asks who the session's user is, or which schema is current")


def _parameter(message: Message, found: Uses) -> None:
    found.parameters.append(message)


_HANDLERS: Final = {
    "A_Expr": _expression,
    "A_Indirection": _indirection,
    "CaseExpr": _case,
    "ColumnRef": _column,
    "FuncCall": _function,
    "JoinExpr": _join,
    "ParamRef": _parameter,
    "RangeFunction": _range_function,
    "SortBy": _sort_by,
    "SQLValueFunction": _moment,
    "SubLink": _sub_link,
    "TypeCast": _cast,
}
