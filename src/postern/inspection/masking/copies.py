"""What a COPY to the client asked for: the format of its data, and which columns stand in a table as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from postern.domain.target_schema import ColumnRef, TargetSchema
from postern.inspection.masking.origins import Sources
from postern.inspection.sql.postgres.tree import Message, Unreadable, node, readings
from postern.interception.events import CopyFormat

_LONGEST: Final = 64 * 1024  # characters
_TRUE, _FALSE = frozenset({"true", "on", "1"}), frozenset({"false", "off", "0"})
# Those of which the second byte of a character may be a sign of the format.
_AMBIGUOUS: Final = frozenset({"sjis", "big5", "gbk", "uhc", "gb18030", "johab", "shift_jis_2004"})


@dataclass(frozen=True, slots=True)
class Copy:
    """`plain` tells of each column whether it is one of a table; of all of them where it is one value."""

    form: CopyFormat
    plain: bool | tuple[bool, ...]

    def types(self, sources: Sources, schema: TargetSchema | None) -> list[int]:
        """The target's numbers of the types of the columns; 0 where it is not known."""
        plain = self.plain if isinstance(self.plain, tuple) else (self.plain,) * len(sources)
        if schema is None or len(plain) != len(sources):
            return [0] * len(sources)
        return [_type(of, schema) if known and of else 0 for known, of in zip(plain, sources, strict=True)]


def _type(of: frozenset[ColumnRef], schema: TargetSchema) -> int:
    """One that all sources have, those of a view or of an heir's parents among them."""
    found: set[int] = set()
    for ref in of:
        relation = schema.relations.get((ref.schema, ref.table))
        found.add(0 if relation is None else relation.type_of(ref.column))
    return found.pop() if len(found) == 1 else 0


@lru_cache(maxsize=64)
def copy_of(statement: str) -> Copy | None:
    """Of the COPY in a text; None where there is none, or several of which nobody can tell which one answers, or one in
    a format that is not known here."""
    if len(statement) > _LONGEST or "\0" in statement:
        return None
    try:
        nodes = [node(each) for way in readings(statement) for each in way]
    except (Unreadable, RecursionError):
        return None
    copies = [found for kind, found in nodes if kind == "CopyStmt"]
    found = {_copy(one) for one in copies if not (one.get("is_from") or one.get("filename"))}
    return found.pop() if len(found) == 1 else None


def _copy(statement: Message) -> Copy | None:
    form = _format(statement.get("options", ()))
    if form is None:
        return None
    return Copy(form, True if "query" not in statement else _plain(statement["query"]))


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


def _plain(query: Message) -> bool | tuple[bool, ...]:
    kind, select = node(query)
    if kind != "SelectStmt":
        return False
    simple = select.get("op") == "SETOP_NONE" and "withClause" not in select and not select.get("valuesLists")
    if not simple or not all(_is_table(one) for one in select.get("fromClause", ())):
        return False
    targets = [node(node(target)[1].get("val")) for target in select.get("targetList", ())]
    plain = [kind == "ColumnRef" for kind, _ in targets]
    if all(plain):
        return True
    stars = [column for kind, column in targets if kind == "ColumnRef" and _has_star(column)]
    return False if stars else tuple(plain)


def _has_star(column: Message) -> bool:
    return any("A_Star" in field for field in column.get("fields", ()))


def _is_table(source: Message) -> bool:
    kind, found = node(source)
    if kind == "JoinExpr":
        return _is_table(found.get("larg", {})) and _is_table(found.get("rarg", {}))
    return kind == "RangeVar"
