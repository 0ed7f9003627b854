"""What a COPY to the client asked for: the format of its data, and which columns stand in a table as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from google.protobuf.message import DecodeError
from postgast import PgQueryError, parse
from postgast import pg_query_pb2 as pb

from postern.domain.target_schema import ColumnRef, TargetSchema
from postern.inspection.masking.origins import Sources
from postern.inspection.sql.postgres.tree import Unreadable, checked
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
        checked(statement)
        nodes = [each.stmt for each in parse(statement).stmts]
    except (Unreadable, PgQueryError, DecodeError, RecursionError):
        return None
    copies = [node.copy_stmt for node in nodes if node.WhichOneof("node") == "copy_stmt"]
    found = {_copy(one) for one in copies if not (one.is_from or one.filename)}
    return found.pop() if len(found) == 1 else None


def _copy(statement: pb.CopyStmt) -> Copy | None:
    form = _format(statement.options)
    if form is None:
        return None
    return Copy(form, True if not statement.HasField("query") else _plain(statement.query))


def _format(options: Sequence[pb.Node]) -> CopyFormat | None:
    said: dict[str, str] = {}
    for option in options:
        one = option.def_elem
        if one.defname in said:  # the target refuses it
            return None
        said[one.defname] = _said(one)
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


def _said(option: pb.DefElem) -> str:
    if not option.HasField("arg"):
        return "true"
    kind = option.arg.WhichOneof("node")
    if kind == "string":
        return str(option.arg.string.sval)
    if kind == "integer":
        return str(option.arg.integer.ival)
    if kind == "boolean":
        return "true" if option.arg.boolean.boolval else "false"
    return ""


def _boolean(said: str) -> bool | None:
    folded = said.lower()
    return True if folded in _TRUE else False if folded in _FALSE else None


def _plain(query: pb.Node) -> bool | tuple[bool, ...]:
    if query.WhichOneof("node") != "select_stmt":
        return False
    select = query.select_stmt
    simple = select.op == pb.SETOP_NONE and not select.HasField("with_clause") and not select.values_lists
    if not simple or not all(_is_table(one) for one in select.from_clause):
        return False
    targets = [target.res_target.val for target in select.target_list]
    plain = [target.WhichOneof("node") == "column_ref" for target in targets]
    if all(plain):
        return True
    stars = [one for one, is_column in zip(targets, plain, strict=True) if is_column and _has_star(one.column_ref)]
    return False if stars else tuple(plain)


def _has_star(column: pb.ColumnRef) -> bool:
    return any(field.WhichOneof("node") == "a_star" for field in column.fields)


def _is_table(source: pb.Node) -> bool:
    kind = source.WhichOneof("node")
    if kind == "join_expr":
        return _is_table(source.join_expr.larg) and _is_table(source.join_expr.rarg)
    return bool(kind == "range_var")
