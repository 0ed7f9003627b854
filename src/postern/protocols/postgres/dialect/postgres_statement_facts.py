"""Detection of statements that read no rows. An error or notice that quotes their words quotes no value of a table.

That a word of an answer is in the statement proves nothing if the statement computes it: a client could list all
letters in a comment, and read the one that an error repeats. So words are trusted only if none of them comes from data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from postern.inspection.masking.statement_facts import StatementFacts
from postern.inspection.sql.postgres.postgres_tree import Message, UnreadablePostgres, children, node, readings
from postern.interception.events import CopyFormat

_LONGEST: Final = 16 * 1024  # characters that are parsed on the event loop, when a message arrives

# None of these evaluates an expression over rows. Errors in their triggers say so in the error's context.
_LONGEST_COPY: Final = 64 * 1024  # characters
_TRUE, _FALSE = frozenset({"true", "on", "1"}), frozenset({"false", "off", "0"})
# Encodings in which the second byte of a character may be a delimiter or quote of the format.
_AMBIGUOUS: Final = frozenset({"sjis", "big5", "gbk", "uhc", "gb18030", "johab", "shift_jis_2004"})

_KINDS_TEXT: Final = """
    AlterDefaultPrivilegesStmt AlterObjectSchemaStmt AlterOwnerStmt AlterRoleSetStmt AlterRoleStmt AlterSeqStmt
    CheckPointStmt ClosePortalStmt CommentStmt CreateEnumStmt CreateExtensionStmt CreateFunctionStmt CreateRoleStmt
    CreateSchemaStmt CreateSeqStmt CreateStmt CreateTrigStmt CreatedbStmt DeallocateStmt DiscardStmt DropRoleStmt
    DropStmt DropdbStmt GrantRoleStmt GrantStmt ListenStmt LoadStmt LockStmt NotifyStmt PrepareStmt RenameStmt
    TransactionStmt TruncateStmt UnlistenStmt VariableSetStmt VariableShowStmt ViewStmt
"""
_KINDS: Final = frozenset(_KINDS_TEXT.split())
# They return columns whose names are in a table, or in code that runs, and not in the text.
_CHOOSES_NAMES: Final = frozenset({"A_Star", "CallStmt", "CreateTableAsStmt", "DoStmt", "ExecuteStmt", "PrepareStmt"})
_SETS: Final = frozenset({"DiscardStmt", "VariableSetStmt"})


class PostgresStatementFacts(StatementFacts):
    def spells_names(self, statements: Sequence[str]) -> bool:
        return all(map(_spells_names, statements))

    def quotes_no_values(self, parts: Mapping[str, bytes], statements: Sequence[str]) -> bool:
        return reads_no_rows(statements)

    def only_sets(self, statements: Sequence[str]) -> bool:
        return only_sets(statements)

    def copy_format(self, statement: str) -> CopyFormat | None:
        return copy_format(statement)


def reads_no_rows(statements: Sequence[str]) -> bool:
    """Return True if a response certainly comes from statements that read no rows. Without statements it is False."""
    return bool(statements) and all(map(_reads_no_rows, statements))


def only_sets(statements: Sequence[str]) -> bool:
    """Return True if the statements only set settings, to constants or to defaults."""
    return bool(statements) and all(_kinds(statement) <= _SETS for statement in statements)


@lru_cache(maxsize=256)
def _reads_no_rows(statement: str) -> bool:
    return _kinds(statement) <= _KINDS


def _kinds(statement: str) -> frozenset[str]:
    """Return the kinds of the text's statements, by each way of reading it; "" stands for a text that cannot be
    parsed."""
    if len(statement) > _LONGEST or "\0" in statement:
        return frozenset({""})
    try:
        return frozenset(_kind(message) for way in readings(statement) for message in way)
    except (UnreadablePostgres, RecursionError):
        return frozenset({""})


def _kind(statement: Message) -> str:
    kind, message = node(statement)
    if kind == "SelectStmt" and _sets_constants(message):
        return "VariableSetStmt"
    return kind


def _sets_constants(select: Message) -> bool:
    """Return True for `select set_config('application_name', 'nightly', false)` without further clauses."""
    if select.keys() - {"targetList", "limitOption", "op"}:
        return False
    for target in select.get("targetList", ()):
        kind, call = node(node(target)[1].get("val"))
        names = [part.get("String", {}).get("sval", "") for part in call.get("funcname", ())]
        if kind != "FuncCall" or names not in (["set_config"], ["pg_catalog", "set_config"]):
            return False
        if not all(node(value)[0] == "A_Const" for value in call.get("args", ())):
            return False
    return True


@lru_cache(maxsize=256)
def _spells_names(statement: str) -> bool:
    """Return True if no asterisk and no code stands for columns that the text does not name."""
    if not statement:
        return True
    if len(statement) > _LONGEST or "\0" in statement:
        return False
    try:
        kinds = [kind for way in readings(statement) for message in way for kind in _all_kinds(message)]
    except (UnreadablePostgres, RecursionError):
        return False
    return _CHOOSES_NAMES.isdisjoint(kinds)


def _all_kinds(statement: Message) -> list[str]:
    waiting, kinds = [node(statement)], []
    while waiting:
        kind, message = waiting.pop()
        kinds.append(kind)
        waiting += [(inner, child) for _, inner, child in children(kind, message)]
    return kinds


@lru_cache(maxsize=64)
def copy_format(statement: str) -> CopyFormat | None:
    """Return the format of the COPY in a text; None without a COPY, if several differ, or for an unknown format."""
    if len(statement) > _LONGEST_COPY or "\0" in statement:
        return None
    try:
        nodes = [node(each) for way in readings(statement) for each in way]
    except (UnreadablePostgres, RecursionError):
        return None
    copies = [message for kind, message in nodes if kind == "CopyStmt"]
    formats = {
        _format_of(copy.get("options", ())) for copy in copies if not (copy.get("is_from") or copy.get("filename"))
    }
    return formats.pop() if len(formats) == 1 else None


def _format_of(options: Sequence[Message]) -> CopyFormat | None:
    texts_by_name: dict[str, str] = {}
    for option in options:
        _, element = node(option)
        name = element.get("defname", "")
        if name in texts_by_name:  # the target rejects it
            return None
        texts_by_name[name] = _read_option(element)
    kind = texts_by_name.pop("format", "text").lower()
    encoding = texts_by_name.pop("encoding", "").lower()
    if kind not in ("text", "csv", "binary") or encoding.replace("-", "_") in _AMBIGUOUS:
        return None
    header = _boolean(texts_by_name.pop("header", "false"))
    is_csv = kind == "csv"
    quote = texts_by_name.pop("quote", '"')
    form = _encode_options(
        {
            "delimiter": texts_by_name.pop("delimiter", "," if is_csv else "\t"),
            "null": texts_by_name.pop("null", "" if is_csv else "\\N"),
            "quote": quote,
            "escape": texts_by_name.pop("escape", quote),
        }
    )
    for harmless in ("force_quote", "freeze", "force_not_null", "force_null", "on_error", "log_verbosity"):
        texts_by_name.pop(harmless, None)
    if (
        header is None
        or texts_by_name
        or len(form["delimiter"]) != 1
        or len(form["quote"]) != 1
        or len(form["escape"]) != 1
    ):
        return None
    return CopyFormat(kind, header=header, encoding=encoding, **form)


def _encode_options(options: Mapping[str, str]) -> dict[str, bytes]:
    return {name: value.encode("utf-8", "surrogateescape") for name, value in options.items()}


def _read_option(option: Message) -> str:
    kind, value = node(option.get("arg"))
    if not kind:
        return "true"
    if kind == "String":
        return str(value.get("sval", ""))
    if kind == "Integer":
        return str(value.get("ival", 0))
    if kind == "Boolean":
        return "true" if value.get("boolval") else "false"
    return ""


def _boolean(text: str) -> bool | None:
    folded = text.lower()
    return True if folded in _TRUE else False if folded in _FALSE else None
