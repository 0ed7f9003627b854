"""What a COPY to the client asked for: the format of its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from postern.domain.targets.target_schema import ColumnRef, Origin, TargetSchema
from postern.inspection.sql.postgres.postgres_tree import Message, Unreadable, node, readings
from postern.interception.events import CopyFormat

_LONGEST: Final = 64 * 1024  # characters
_TRUE, _FALSE = frozenset({"true", "on", "1"}), frozenset({"false", "off", "0"})
# Those of which the second byte of a character may be a sign of the format.
_AMBIGUOUS: Final = frozenset({"sjis", "big5", "gbk", "uhc", "gb18030", "johab", "shift_jis_2004"})


def type_of(of: Origin | None, schema: TargetSchema | None) -> int:
    """The target's number of the type of a column that is passed through unchanged; 0 where it is not known: unless all
    names of the column have the same, those in a view and in an heir's parents among them."""
    if of is None or schema is None:
        return 0
    found: set[int] = set()
    none: frozenset[ColumnRef] = frozenset()
    for ref in none.union(*of.plain):
        relation = schema.relations.get((ref.schema, ref.table))
        found.add(0 if relation is None else relation.type_of(ref.column))
    return found.pop() if len(found) == 1 else 0


@lru_cache(maxsize=64)
def copy_format(statement: str) -> CopyFormat | None:
    """Return the format of the COPY in a text. None where there is no COPY, where several differ, or where the format
    is not known here."""
    if len(statement) > _LONGEST or "\0" in statement:
        return None
    try:
        nodes = [node(each) for way in readings(statement) for each in way]
    except (Unreadable, RecursionError):
        return None
    copies = [found for kind, found in nodes if kind == "CopyStmt"]
    found = {_format(one.get("options", ())) for one in copies if not (one.get("is_from") or one.get("filename"))}
    return found.pop() if len(found) == 1 else None


def _format(options: Sequence[Message]) -> CopyFormat | None:
    said: dict[str, str] = {}
    for option in options:
        _, one = node(option)
        name = one.get("defname", "")
        if name in said:  # the target refuses it
            return None
        said[name] = _said(one)
    kind = said.pop("format", "text").lower()
    encoding = said.pop("encoding", "").lower()
    if kind not in ("text", "csv", "binary") or encoding.replace("-", "_") in _AMBIGUOUS:
        return None
    header = _boolean(said.pop("header", "false"))
    is_csv = kind == "csv"
    quote = said.pop("quote", '"')
    form = _encoded(
        {
            "delimiter": said.pop("delimiter", "," if is_csv else "\t"),
            "null": said.pop("null", "" if is_csv else "\\N"),
            "quote": quote,
            "escape": said.pop("escape", quote),
        }
    )
    for harmless in ("force_quote", "freeze", "force_not_null", "force_null", "on_error", "log_verbosity"):
        said.pop(harmless, None)
    if header is None or said or len(form["delimiter"]) != 1 or len(form["quote"]) != 1 or len(form["escape"]) != 1:
        return None
    return CopyFormat(kind, header=header, encoding=encoding, **form)


def _encoded(said: Mapping[str, str]) -> dict[str, bytes]:
    return {name: value.encode("utf-8", "surrogateescape") for name, value in said.items()}


def _said(option: Message) -> str:
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


def _boolean(said: str) -> bool | None:
    folded = said.lower()
    return True if folded in _TRUE else False if folded in _FALSE else None
