"""Statements that read no rows, so that an error or a notice which quotes their words quotes no value of a table.

Whether a word of an answer stands in the statement proves nothing where the statement computes it: a client may list
all letters in a comment, and read the one that an error repeats. So words are trusted only where none comes from data.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from postern.inspection.masking.mysql_statement_answers import sets_something
from postern.inspection.sql.postgres.postgres_tree import Message, Unreadable, node, readings

_LONGEST: Final = 16 * 1024  # characters that are parsed on the event loop, when a message has come

# PostgreSQL: none of these evaluates an expression over rows. Triggers that they fire say so in the error's context.
_KINDS_TEXT: Final = """
    AlterDefaultPrivilegesStmt AlterObjectSchemaStmt AlterOwnerStmt AlterRoleSetStmt AlterRoleStmt AlterSeqStmt
    CheckPointStmt ClosePortalStmt CommentStmt CreateEnumStmt CreateExtensionStmt CreateFunctionStmt CreateRoleStmt
    CreateSchemaStmt CreateSeqStmt CreateStmt CreateTrigStmt CreatedbStmt DeallocateStmt DiscardStmt DropRoleStmt
    DropStmt DropdbStmt GrantRoleStmt GrantStmt ListenStmt LoadStmt LockStmt NotifyStmt PrepareStmt RenameStmt
    TransactionStmt TruncateStmt UnlistenStmt VariableSetStmt VariableShowStmt ViewStmt
"""
_KINDS: Final = frozenset(_KINDS_TEXT.split())
_SETS: Final = frozenset({"DiscardStmt", "VariableSetStmt"})

# MySQL and MariaDB: errors about names and grammar, which come before any row is read.
_NAME_ERRORS: Final = frozenset(
    {1007, 1008, 1044, 1045, 1046, 1049, 1050, 1051, 1052, 1054, 1055, 1060, 1061, 1064, 1066, 1072, 1091, 1109, 1115,
     1128, 1142, 1143, 1144, 1146, 1193, 1227, 1243, 1273, 1286, 1304, 1305, 1347, 1359, 1360, 1370, 1630}
)  # fmt: skip

# … of those, errors about character sets, collations and engines, which SET may take from a value.
_SETTING_ERRORS: Final = frozenset({1115, 1273, 1286})


def reads_no_rows(statements: Sequence[str]) -> bool:
    """Whether an answer is certainly of statements that read no rows, for PostgreSQL. None is known: it is not."""
    return bool(statements) and all(map(_reads_no_rows, statements))


def only_sets(statements: Sequence[str]) -> bool:
    """Whether they only set settings, to what they say or to defaults."""
    return bool(statements) and all(_kinds(one) <= _SETS for one in statements)


def is_about_names(errno: bytes, statements: Sequence[str]) -> bool:
    """Whether an error quotes nothing but names that a statement spells out, for MySQL and MariaDB."""
    number = int(errno) if errno.isdigit() else 0
    return number in _NAME_ERRORS and not (number in _SETTING_ERRORS and sets_something(statements))


@lru_cache(maxsize=256)
def _reads_no_rows(statement: str) -> bool:
    return _kinds(statement) <= _KINDS


def _kinds(statement: str) -> frozenset[str]:
    """The kinds of its statements, by each way of reading it; "" stands for what cannot be read."""
    if len(statement) > _LONGEST or "\0" in statement:
        return frozenset({""})
    try:
        return frozenset(_kind(one) for way in readings(statement) for one in way)
    except (Unreadable, RecursionError):
        return frozenset({""})


def _kind(statement: Message) -> str:
    kind, message = node(statement)
    if kind == "SelectStmt" and _sets_constants(message):
        return "VariableSetStmt"
    return kind


def _sets_constants(select: Message) -> bool:
    """`select set_config('application_name', 'nightly', false)`, and nothing else."""
    if select.keys() - {"targetList", "limitOption", "op"}:
        return False
    for target in select.get("targetList", ()):
        kind, call = node(node(target)[1].get("val"))
        names = [one.get("String", {}).get("sval", "") for one in call.get("funcname", ())]
        if kind != "FuncCall" or names not in (["set_config"], ["pg_catalog", "set_config"]):
            return False
        if not all(node(value)[0] == "A_Const" for value in call.get("args", ())):
            return False
    return True
