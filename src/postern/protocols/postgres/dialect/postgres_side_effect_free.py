"""Detection of queries without side effects, and the functions, operators, types, tables and columns that one uses.

A query that is not known to be free of side effects raises `Uncountable`. A name that passes is one of PostgreSQL's
own. Whether the target has another object of that name, and which code its tables run, only the target's catalogue
shows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from postern.domain.rules.row_count import Named, Uncountable
from postern.inspection.sql.postgres.postgres_tree import Message, children, names, node
from postern.protocols.postgres.dialect.postgres_names import OWN, is_of_system
from postern.protocols.postgres.dialect.postgres_system_catalogue import CALM, OPERATORS, TYPES

# They depend on the session, the server or the search_path, so that another session gets another result. Some take a
# number for the transaction, which is left behind.
_OF_THE_SESSION_BEGIN: Final = (
    *("acl", "current_", "has_", "inet_client", "inet_server", "lo_", "pg_", "to_reg", "txid_", "binary_upgrade"),
    *("json_populate", "jsonb_populate", "json_to_record", "jsonb_to_record"),  # they make rows of any type
    # They depend on settings that clients cannot see, or on names that the search_path resolves.
    *("cash", "convert", "format", "json_to_ts", "jsonb_to_ts", "money", "phraseto_", "plainto_", "quote_", "regc"),
    *("regd", "regn", "rego", "regp", "regro", "regt", "to_ts", "ts_headline", "ts_lexize", "ts_parse", "ts_rewrite"),
    *("ts_stat", "ts_token", "websearch_", "xml", "xpath"),
)
_OF_THE_SESSION: Final = frozenset(
    {
        *("anyarray_in", "col_description", "enum_in", "get_current_ts_config", "getdatabaseencoding", "getpgusername"),
        *("makeaclitem", "obj_description", "querytree", "row_security_active", "session_user", "shobj_description"),
        *("ts_debug", "user", "version"),
    }
)
# Formats of dates and times whose meaning does not depend on a locale; there are none of numbers.
_FORMATTED: Final = frozenset({"to_char", "to_date", "to_number", "to_timestamp"})
_FORMAT: Final = re.compile(r"(?:YYYY|YY|MM|DD|HH(?:12|24)?|MI|SS|MS|US|IYYY|IW|WW|Q|[-/ .:_,])+", re.IGNORECASE)
# They convert values of any type to text; the form of floating numbers and bytes is a setting.
_WRITES: Final = frozenset({"array_to_string", "concat", "concat_ws", "name", "text", "varchar", "bpchar", "char"})
_TEXTS: Final = frozenset({"name", "text", "varchar", "bpchar", "char", "json", "jsonb", "cstring"})
_MOMENTS: Final = ("SVFOP_CURRENT_DATE", "SVFOP_CURRENT_TIME", "SVFOP_LOCALTIME")  # with or without a precision

_PLAIN_KINDS: Final = """
A_ArrayExpr A_Indices A_Star Alias BitString BoolExpr Boolean BooleanTest CaseWhen CoalesceExpr
Float GroupingFunc GroupingSet Integer List MinMaxExpr NamedArgExpr NullTest RangeSubselect ResTarget RowExpr String
WindowDef WithClause
"""
_PLAIN: Final = frozenset(_PLAIN_KINDS.split())

# The names in WITH: False for a query, True for one that changes rows.
Scope = Mapping[str, bool]


@dataclass(slots=True)
class Uses:
    """What a query uses. `tables` are the RangeVars themselves, so that callers can add their schemas. `fields` look
    like columns, and call functions of these names if there are no such columns. `writes`: values of any type may
    become text."""

    tables: list[Message] = field(default_factory=list)
    columns: set[str] = field(default_factory=set)
    is_whole: bool = False
    functions: set[str] = field(default_factory=set)
    fields: set[str] = field(default_factory=set)
    operators: set[str] = field(default_factory=set)
    collations: set[str] = field(default_factory=set)
    writes: bool = False
    types: set[str] = field(default_factory=set)
    parameters: list[Message] = field(default_factory=list)


def qualified_name_of(relation: Message) -> Named:
    return relation.get("schemaname", ""), relation["relname"]


def uses(query: Message, target: Message) -> Uses:
    """Return what a SelectStmt uses. `target` is the RangeVar that is a table whatever WITH names. Raises
    Uncountable."""
    found_uses = Uses()
    aliases: set[str] = set()
    waiting: list[tuple[str, Message, Scope]] = [("SelectStmt", query, {})]
    while waiting:
        kind, message, scope = waiting.pop()
        if kind == "SelectStmt":
            scope = _select(message, scope, waiting)
        elif kind == "RangeVar":
            _table(message, scope, target, found_uses)
            aliases.add(message.get("alias", {}).get("aliasname") or message["relname"])
        elif kind == "Alias":
            aliases.add(message["aliasname"])
            found_uses.is_whole |= bool(message.get("colnames"))  # columns by other names
        elif kind in _HANDLERS:
            _HANDLERS[kind](message, found_uses)
        elif kind not in _PLAIN:
            raise Uncountable(f"it contains something that is not supported for counting ({kind or 'a field'})")
        left = ("withClause",) if kind == "SelectStmt" else ("typeName",)
        waiting += [(child, inner, scope) for name, child, inner in children(kind, message) if name not in left]
    found_uses.is_whole |= not aliases.isdisjoint(found_uses.columns)  # a row as a whole
    for name in found_uses.fields:  # or a cast, unless there is a column of that name
        bare = name.removeprefix("_")
        if bare in TYPES and (bare != name or bare.startswith("reg") or bare in ("money", "xml")):
            raise Uncountable(f"it can create a value of the type {name}")
    calm = {name for name in found_uses.fields if is_calm([name]) and name not in _FORMATTED}
    for name in calm:
        _calls(name, found_uses)
    found_uses.fields -= calm
    return found_uses


def _select(message: Message, scope: Scope, waiting: list[tuple[str, Message, Scope]]) -> Scope:
    if message.get("lockingClause"):
        raise Uncountable("it locks the rows that it reads")
    if message.get("intoClause"):
        raise Uncountable("it creates a table")
    clause = message.get("withClause")
    if clause is None:
        return scope
    queries = [element["CommonTableExpr"] for element in clause.get("ctes", ())]
    everything = {**scope, **{query["ctename"]: _changes(query) for query in queries}}
    sees = everything if clause.get("recursive") else scope
    for query in queries:
        if query.get("search_clause") or query.get("cycle_clause"):
            raise Uncountable("its WITH has a SEARCH or CYCLE clause")
        if not _changes(query):
            waiting.append((*node(query["ctequery"]), sees))
        if not clause.get("recursive"):
            sees = {**sees, query["ctename"]: _changes(query)}
    return everything


def _changes(query: Message) -> bool:
    return node(query["ctequery"])[0] != "SelectStmt"


def _table(message: Message, scope: Scope, target: Message, usage: Uses) -> None:
    name = message["relname"]
    if message is not target and not message.get("schemaname") and name in scope:
        if scope[name]:
            raise Uncountable("it reads rows that another part of the statement changes")
        return
    if is_of_system([part for part in qualified_name_of(message) if part]):
        raise Uncountable(f"{name} is a system table")
    if message.get("catalogname"):
        raise Uncountable("it names a database")
    usage.tables.append(message)


def is_calm(parts: Sequence[str]) -> bool:
    """Return True if a function of that name runs no custom code and has the same result in every session."""
    name = parts[-1]
    if len(parts) > 1 and parts[-2] != OWN:
        return False
    return name in CALM and name not in _OF_THE_SESSION and not name.startswith(_OF_THE_SESSION_BEGIN)


def _calls(name: str, usage: Uses) -> None:
    usage.functions.add(name)
    usage.writes |= name in _WRITES or "json" in name


def _function(message: Message, usage: Uses) -> None:
    parts = names(message.get("funcname"))
    name = parts[-1]
    if not is_calm(parts):
        raise Uncountable(f"it calls {'.'.join(parts)}()")
    args = message.get("args", [])
    if name in _FORMATTED and len(args) > 1 and not _FORMAT.fullmatch(_text(args[-1])):
        raise Uncountable(f"it calls {name}() with a format that depends on settings")
    _calls(name, usage)


def _text(value: Message) -> str:
    """Return the text of a constant."""
    kind, content = node(value)
    return str(content.get("sval", {}).get("sval", "")) if kind == "A_Const" else ""


def _constant(message: Message, _: Uses) -> None:
    check_text(message.get("sval", {}).get("sval", ""))


# Abbreviations whose zone depends on the setting timezone_abbreviations.
_ZONES: Final = re.compile(r"\d.*\b(?:acst|cst|east|est|ist|sat|sast|wst)\b", re.IGNORECASE | re.DOTALL)


def check_text(text: str) -> None:
    """Check a value whose type PostgreSQL infers. Raises Uncountable if its meaning depends on a setting that clients
    cannot see."""
    if "{" in text and "null" in text.lower():
        raise Uncountable("it contains an array with a NULL, whose meaning depends on a setting")
    if _ZONES.search(text):
        raise Uncountable("it contains a time zone abbreviation, whose meaning depends on a setting")


def _operate(parts: list[str], usage: Uses) -> None:
    if not parts:
        return
    if parts[-1] not in OPERATORS or (len(parts) > 1 and parts[-2] != OWN):
        raise Uncountable(f"it uses the operator {'.'.join(parts)}")
    if parts[-1] in ("@@", "@@@"):
        raise Uncountable("it searches text by the session's text search configuration")
    usage.operators.add(parts[-1])
    usage.writes |= parts[-1] == "||"


def _expression(message: Message, usage: Uses) -> None:
    if "BETWEEN" in message.get("kind", ""):
        usage.operators |= {">=", "<="}
    elif message.get("kind") == "AEXPR_OP" and any(_is_null(message.get(side)) for side in ("lexpr", "rexpr")):
        raise Uncountable("it compares with NULL by an operator, whose meaning depends on a setting")
    else:
        _operate(names(message.get("name")), usage)


def _is_null(value: Message | None) -> bool:
    kind, content = node(value) if value else ("", {})
    return kind == "A_Const" and "isnull" in content


def _sub_link(message: Message, usage: Uses) -> None:
    _operate(names(message.get("operName")) or ["="], usage)


def _case(message: Message, usage: Uses) -> None:
    if message.get("arg"):
        usage.operators.add("=")


def _join(message: Message, usage: Uses) -> None:
    if message.get("isNatural"):
        raise Uncountable("it is a NATURAL JOIN")
    if message.get("usingClause"):
        usage.operators.add("=")
        usage.columns |= set(names(message["usingClause"]))


def _sort_by(message: Message, usage: Uses) -> None:
    if message.get("useOp"):
        raise Uncountable("it sorts by an operator")


def _range_function(message: Message, usage: Uses) -> None:
    if message.get("coldeflist"):
        raise Uncountable("it calls a function with a list of column definitions")


def _cast(message: Message, usage: Uses) -> None:
    parts = names(message.get("typeName", {}).get("names"))
    name = parts[-1].removeprefix("_") if parts else ""
    if name not in TYPES or name.startswith("reg") or (len(parts) > 1 and parts[-2] != OWN):
        raise Uncountable(f"it casts to the type {'.'.join(parts)}")
    if name in ("money", "xml"):
        raise Uncountable(f"it casts to the type {name}, which depends on settings")
    is_array = parts[-1].startswith("_") or "arrayBounds" in message["typeName"]
    if is_array and node(message["arg"])[0] not in ("A_Const", "A_ArrayExpr", "ParamRef"):
        raise Uncountable("it casts text to an array, which depends on settings")
    usage.types.add(name)
    usage.writes |= name in _TEXTS


def _collate(message: Message, usage: Uses) -> None:
    parts = names(message.get("collname"))
    if len(parts) > 1 and parts[-2] != OWN:
        raise Uncountable(f"it names the collation {'.'.join(parts)}")
    usage.collations.add(parts[-1])


def _column(message: Message, usage: Uses) -> None:
    fields = names(message.get("fields"))
    if fields[-1]:
        usage.columns.add(fields[-1])
        if len(fields) > 1:
            usage.fields.add(fields[-1])
    else:
        usage.is_whole = True  # a star


def _indirection(message: Message, usage: Uses) -> None:
    for step in message.get("indirection", ()):
        kind, content = node(step)
        usage.is_whole |= kind == "A_Star"
        if kind == "String":
            usage.columns.add(content.get("sval", ""))
            usage.fields.add(content.get("sval", ""))


def _moment(message: Message, usage: Uses) -> None:
    if not message.get("op", "").startswith(_MOMENTS):
        raise Uncountable("it uses the session's user or the current schema")


def _parameter(message: Message, usage: Uses) -> None:
    usage.parameters.append(message)


_HANDLERS: Final = {
    "A_Const": _constant,
    "A_Expr": _expression,
    "A_Indirection": _indirection,
    "CaseExpr": _case,
    "CollateClause": _collate,
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
