"""Effects of queries and their parts: SELECT, INSERT, UPDATE, DELETE, MERGE, and expressions."""

from __future__ import annotations

from typing import Final

from postern.domain.rules.statement import Effect
from postern.inspection.sql.postgres.postgres_tree import Message, names, type_parts
from postern.protocols.postgres.dialect.postgres_conditions import passes_every_row
from postern.protocols.postgres.dialect.postgres_names import OWN
from postern.protocols.postgres.dialect.postgres_walk import Handler, Scope, Walk

# Clauses of a query besides its values, if it only lists them.
_READING: Final = frozenset({"fromClause", "withClause", "lockingClause", "targetList", "larg"})
_SAMPLERS: Final = (["system"], ["bernoulli"], [OWN, "system"], [OWN, "bernoulli"])


def _select(walk: Walk, message: Message, scope: Scope) -> None:
    walk.found.effects.add(Effect.READ)
    _parts_of_select(walk, message, scope)


def _parts_of_select(walk: Walk, message: Message, scope: Scope) -> None:
    names_here = walk.enter_with_clause(message, scope)
    into = message.get("intoClause")
    if into is not None:
        walk.found.effects |= {Effect.DDL, Effect.WRITE}
        walk.later("IntoClause", into, None)
    if message.get("lockingClause"):  # a read-only transaction rejects it: it needs the right to update
        walk.found.effects.add(Effect.WRITE)
    walk.inside("SelectStmt", message, names_here, leave=("withClause", "intoClause", "lockingClause"))


def _insert(walk: Walk, message: Message, scope: Scope) -> None:
    names_here = walk.enter_with_clause(message, scope)
    walk.writes_relation(message["relation"])
    query = message.get("selectStmt", {}).get("SelectStmt", {})
    if query.get("valuesLists") and not query.keys() & _READING:
        _parts_of_select(walk, query, names_here)
    elif query:
        walk.later("SelectStmt", query, names_here)
    _returns(walk, message)
    walk.inside("InsertStmt", message, names_here, leave=("relation", "withClause", "selectStmt"))


def _update(walk: Walk, message: Message, scope: Scope) -> None:
    _changes_rows(walk, "UpdateStmt", message, scope, "fromClause")


def _delete(walk: Walk, message: Message, scope: Scope) -> None:
    _changes_rows(walk, "DeleteStmt", message, scope, "usingClause")


def _changes_rows(walk: Walk, kind: str, message: Message, scope: Scope, others: str) -> None:
    names_here = walk.enter_with_clause(message, scope)
    walk.writes_relation(message["relation"])
    walk.found.without_where |= passes_every_row(message.get("whereClause"))
    if message.get(others):
        walk.found.effects.add(Effect.READ)
    _returns(walk, message)
    walk.inside(kind, message, names_here, leave=("relation", "withClause"))


def _merge(walk: Walk, message: Message, scope: Scope) -> None:
    names_here = walk.enter_with_clause(message, scope)
    walk.writes_relation(message["relation"])
    walk.found.effects.add(Effect.READ)
    actions = [element["MergeWhenClause"] for element in message.get("mergeWhenClauses", ())]
    changing = [action for action in actions if action.get("commandType") in ("CMD_UPDATE", "CMD_DELETE")]
    every_row = passes_every_row(message.get("joinCondition"))
    for action in changing:
        # Rows without a match in the source are every row but those with one.
        rows = every_row or action.get("matchKind") == "MERGE_WHEN_NOT_MATCHED_BY_SOURCE"
        walk.found.without_where |= rows and passes_every_row(action.get("condition"))
    for action in actions:
        walk.inside("MergeWhenClause", action, names_here)
    walk.inside("MergeStmt", message, names_here, leave=("relation", "withClause", "mergeWhenClauses"))


def _returns(walk: Walk, message: Message) -> None:
    if message.get("returningClause"):
        walk.found.effects.add(Effect.READ)


def _range_var(walk: Walk, message: Message, scope: Scope) -> None:
    walk.reads_relation(message, scope)


def _function(walk: Walk, message: Message, scope: Scope) -> None:
    walk.calls(names(message.get("funcname")), message)
    walk.inside("FuncCall", message, scope, leave=("funcname",))


def _range_function(walk: Walk, message: Message, scope: Scope) -> None:
    for column in message.get("coldeflist", ()):
        walk.casts(type_parts(column["ColumnDef"]))
    walk.inside("RangeFunction", message, scope, leave=("coldeflist",))


def _column_ref(walk: Walk, message: Message, scope: Scope) -> None:
    parts = names(message.get("fields"))
    if len(parts) > 1:
        _may_call(walk, parts[-1])


def _indirection(walk: Walk, message: Message, scope: Scope) -> None:
    for step in message.get("indirection", ()):
        _may_call(walk, step.get("String", {}).get("sval", ""))
    walk.inside("A_Indirection", message, scope)


def _may_call(walk: Walk, column: str) -> None:
    if walk.target_names.may_call(column):
        walk.calls([column], {})
    if walk.target_names.may_cast(column):
        walk.casts([column])


def _expression(walk: Walk, message: Message, scope: Scope) -> None:
    if "BETWEEN" in message.get("kind", ""):
        walk.operates([">="])
        walk.operates(["<="])
    else:
        walk.operates(names(message.get("name")))
    walk.inside("A_Expr", message, scope, leave=("name",))


def _sub_link(walk: Walk, message: Message, scope: Scope) -> None:
    walk.operates(names(message.get("operName")) or ["="])  # IN is an equality
    walk.inside("SubLink", message, scope, leave=("operName",))


def _case(walk: Walk, message: Message, scope: Scope) -> None:
    if message.get("arg"):
        walk.operates(["="])
    walk.inside("CaseExpr", message, scope)


def _join(walk: Walk, message: Message, scope: Scope) -> None:
    if message.get("usingClause") or message.get("isNatural"):
        walk.operates(["="])
    walk.inside("JoinExpr", message, scope)


def _sort_by(walk: Walk, message: Message, scope: Scope) -> None:
    walk.operates(names(message.get("useOp")))
    walk.inside("SortBy", message, scope, leave=("useOp",))


def _cast(kind: str) -> Handler:
    def handle(walk: Walk, message: Message, scope: Scope) -> None:
        parts = type_parts(message)
        walk.casts(parts)
        if parts[-1:] == ["regclass"] and "arg" in message:
            walk.named_by_text(message["arg"])
        walk.inside(kind, message, scope, leave=("typeName",))

    return handle


def _sample(walk: Walk, message: Message, scope: Scope) -> None:
    if names(message.get("method")) not in _SAMPLERS:
        walk.found.unknown("its TABLESAMPLE method is unknown")
    walk.inside("RangeTableSample", message, scope, leave=("method",))


def _type_name(walk: Walk, message: Message, scope: Scope) -> None:
    """Named, not gone through: what casts says so itself."""


def _common_table(walk: Walk, message: Message, scope: Scope) -> None:
    walk.inside("CommonTableExpr", message, scope)


QUERIES: Final[dict[str, Handler]] = {
    "A_Expr": _expression,
    "A_Indirection": _indirection,
    "CaseExpr": _case,
    "ColumnRef": _column_ref,
    "CommonTableExpr": _common_table,
    "DeleteStmt": _delete,
    "FuncCall": _function,
    "InsertStmt": _insert,
    "JoinExpr": _join,
    "JsonOutput": _cast("JsonOutput"),
    "JsonTableColumn": _cast("JsonTableColumn"),
    "MergeStmt": _merge,
    "RangeFunction": _range_function,
    "RangeTableFuncCol": _cast("RangeTableFuncCol"),
    "RangeTableSample": _sample,
    "RangeVar": _range_var,
    "SelectStmt": _select,
    "SortBy": _sort_by,
    "SubLink": _sub_link,
    "TypeCast": _cast("TypeCast"),
    "TypeName": _type_name,
    "UpdateStmt": _update,
    "XmlSerialize": _cast("XmlSerialize"),
}
