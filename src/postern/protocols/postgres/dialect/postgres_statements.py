"""Effects of statements other than queries."""

from __future__ import annotations

import re
from typing import Final

from postern.domain.rules.statement import Effect
from postern.inspection.sql.postgres.postgres_tree import Message, names, node
from postern.protocols.postgres.dialect.postgres_definitions import DEFINITIONS
from postern.protocols.postgres.dialect.postgres_findings import untold
from postern.protocols.postgres.dialect.postgres_queries import QUERIES
from postern.protocols.postgres.dialect.postgres_settings import change_setting
from postern.protocols.postgres.dialect.postgres_walk import Handler, Scope, Walk

_FALSE: Final = frozenset({"off", "false", "0", "no"})
_TAGS: Final = {
    "AlterDatabaseRefreshCollStmt": "ALTER DATABASE",
    "AlterDatabaseSetStmt": "ALTER DATABASE",
    "AlterRoleSetStmt": "ALTER ROLE",
    "AlterSeqStmt": "ALTER SEQUENCE",
    "CheckPointStmt": "CHECKPOINT",
    "ClosePortalStmt": "CLOSE CURSOR",
    "ConstraintsSetStmt": "SET CONSTRAINTS",
    "CreateSeqStmt": "CREATE SEQUENCE",
    "CreateStmt": "CREATE TABLE",
    "CreateTrigStmt": "CREATE TRIGGER",
    "CreatedbStmt": "CREATE DATABASE",
    "DropdbStmt": "DROP DATABASE",
    "IndexStmt": "CREATE INDEX",
    "LockStmt": "LOCK TABLE",
    "RefreshMatViewStmt": "REFRESH MATERIALIZED VIEW",
    "RuleStmt": "CREATE RULE",
    "TruncateStmt": "TRUNCATE TABLE",
    "ViewStmt": "CREATE VIEW",
}

_SORTED: Final = {
    "AlterOwnerStmt": ("ALTER", "objectType"),
    "AlterTableStmt": ("ALTER", "objtype"),
    "DropStmt": ("DROP", "removeType"),
    "RenameStmt": ("ALTER", "renameType"),
}


def tag_of(kind: str, message: Message) -> str:
    """Return the server's command tag if it is simple, otherwise a similar text."""
    if kind == "TransactionStmt":
        words = message["kind"].removeprefix("TRANS_STMT_").split("_")
        return {"ROLLBACK TO": "ROLLBACK", "PREPARE": "PREPARE TRANSACTION"}.get(" ".join(words), " ".join(words))
    if kind == "VariableSetStmt":
        return "RESET" if message["kind"] in ("VAR_RESET", "VAR_RESET_ALL") else "SET"
    if kind == "VacuumStmt":
        return "VACUUM" if message.get("is_vacuumcmd") else "ANALYZE"
    if kind == "FetchStmt":
        return "MOVE" if message.get("ismove") else "FETCH"
    if kind == "CreateTableAsStmt":
        return "CREATE MATERIALIZED VIEW" if message.get("objtype") == "OBJECT_MATVIEW" else "CREATE TABLE AS"
    if kind == "SelectStmt" and message.get("intoClause"):
        return "SELECT INTO"
    if kind == "GrantStmt":
        return "GRANT" if message.get("is_grant") else "REVOKE"
    if kind == "GrantRoleStmt":
        return "GRANT ROLE" if message.get("is_grant") else "REVOKE ROLE"
    of = {
        "DropStmt": ("DROP", "removeType"),
        "RenameStmt": ("ALTER", "renameType"),
        "AlterTableStmt": ("ALTER", "objtype"),
    }
    if kind in of:
        verb, field = of[kind]
        sort = message[field].removeprefix("OBJECT_").replace("_", " ")
        return f"{verb} {'MATERIALIZED VIEW' if sort == 'MATVIEW' else sort}"
    if kind == "AlterOwnerStmt":
        return f"ALTER {message['objectType'].removeprefix('OBJECT_').replace('_', ' ')}"
    return _TAGS.get(kind) or " ".join(re.findall("[A-Z]+(?![a-z])|[A-Z][a-z]+", kind.removesuffix("Stmt"))).upper()


def _plainly(kind: str, *effects: Effect) -> Handler:
    """Return the handler for these effects plus those of the nested parts."""

    def handle(walk: Walk, message: Message, scope: Scope) -> None:
        walk.found.effects.update(effects)
        walk.inside(kind, message, scope)

    return handle


def _explain(walk: Walk, message: Message, scope: Scope) -> None:
    walk.found.effects.add(Effect.READ)
    options = [element["DefElem"] for element in message.get("options", ())]
    inner = walk.apart(message.get("query"))
    if not any(option.get("defname") == "analyze" and _is_on(option) for option in options):
        # It runs only what the planner evaluates in advance: functions that declare themselves stable or immutable.
        inner.effects &= {Effect.UNKNOWN}
        inner.without_where = False
    walk.found.join(inner)


def _is_on(option: Message) -> bool:
    kind, content = node(option.get("arg"))
    if kind == "Integer":
        return bool(content.get("ival", 0))
    if kind == "Boolean":
        return bool(content.get("boolval"))
    return not (kind == "String" and content.get("sval", "").lower() in _FALSE)


def _copy(walk: Walk, message: Message, scope: Scope) -> None:
    into_table = bool(message.get("is_from"))
    if message.get("filename") or message.get("is_program"):
        walk.found.effects.add(Effect.ADMIN)
    relation = message.get("relation")
    if relation is not None and into_table:
        walk.writes_relation(relation)
    elif relation is not None:
        walk.reads_relation(relation, frozenset())
    if not into_table:
        walk.found.effects.add(Effect.READ)
    walk.inside("CopyStmt", message, scope, leave=("relation",))


def _prepare(walk: Walk, message: Message, scope: Scope) -> None:
    walk.found.effects.add(Effect.SESSION)
    walk.found.prepares = message.get("name", "")
    for element in message.get("argtypes", ()):
        walk.casts(names(element["TypeName"].get("names")))
    walk.inside("PrepareStmt", message, scope, leave=("argtypes",))


def _execute(walk: Walk, message: Message, scope: Scope) -> None:
    name = message.get("name", "")
    walk.found.executes = name
    walk.found.unknown(untold(name))
    walk.inside("ExecuteStmt", message, scope)


def _do(walk: Walk, message: Message, scope: Scope) -> None:
    walk.found.unknown("it runs a block of code")


def _call(walk: Walk, message: Message, scope: Scope) -> None:
    call = message.get("funccall", {})
    walk.found.effects.add(Effect.READ)
    walk.calls(names(call.get("funcname")), call)
    walk.inside("FuncCall", call, scope, leave=("funcname",))


def _set(walk: Walk, message: Message, scope: Scope) -> None:
    kind = message["kind"]
    name = message.get("name", "")
    if kind == "VAR_SET_VALUE":
        change_setting(name, [_word(argument) for argument in message.get("args", ())], walk.found)
    elif kind in ("VAR_SET_DEFAULT", "VAR_RESET"):
        change_setting(name, [], walk.found)
    elif kind == "VAR_SET_CURRENT":
        change_setting(name, None, walk.found)
    else:  # SET TRANSACTION and its like, RESET ALL
        walk.found.effects.add(Effect.SESSION)


def _word(value: Message) -> str:
    _, content = node(value)
    text = content.get("sval", {})
    return str(text.get("sval", "")) if text else ""


def _fetch(walk: Walk, message: Message, scope: Scope) -> None:
    walk.found.effects.add(Effect.SESSION)
    if not message.get("ismove"):
        walk.found.effects.add(Effect.READ)


def _transaction(walk: Walk, message: Message, scope: Scope) -> None:
    walk.found.effects.add(Effect.SESSION)
    if message["kind"] in ("TRANS_STMT_PREPARE", "TRANS_STMT_COMMIT_PREPARED", "TRANS_STMT_ROLLBACK_PREPARED"):
        walk.found.effects.add(Effect.WRITE)  # it outlives the session


def _truncate(walk: Walk, message: Message, scope: Scope) -> None:
    for element in message.get("relations", ()):
        walk.writes_relation(element["RangeVar"])


def _refresh(walk: Walk, message: Message, scope: Scope) -> None:
    walk.writes_relation(message["relation"])  # and its query is read there


def _load(walk: Walk, message: Message, scope: Scope) -> None:
    walk.found.effects.add(Effect.ADMIN)
    walk.found.unknown("it loads a library into the server")


_SESSION: Final = ("ClosePortalStmt", "ConstraintsSetStmt", "DeallocateStmt", "DeclareCursorStmt", "DiscardStmt",
                   "ListenStmt", "LockStmt", "NotifyStmt", "UnlistenStmt")  # fmt: skip

STATEMENTS: Final[dict[str, Handler]] = {
    **{kind: _plainly(kind, Effect.SESSION) for kind in _SESSION},
    "CallStmt": _call,
    "CheckPointStmt": _plainly("CheckPointStmt", Effect.ADMIN),
    "CopyStmt": _copy,
    "DoStmt": _do,
    "ExecuteStmt": _execute,
    "ExplainStmt": _explain,
    "FetchStmt": _fetch,
    "LoadStmt": _load,
    "PrepareStmt": _prepare,
    "RefreshMatViewStmt": _refresh,
    "TransactionStmt": _transaction,
    "TruncateStmt": _truncate,
    "VariableSetStmt": _set,
    "VariableShowStmt": _plainly("VariableShowStmt", Effect.READ),
}

HANDLERS: Final[dict[str, Handler]] = {**QUERIES, **DEFINITIONS, **STATEMENTS}
"""The handlers, by the name of the message."""
