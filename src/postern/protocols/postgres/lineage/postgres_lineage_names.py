"""The names that PostgreSQL gives to unnamed result columns (FigureColname of the parser)."""

from __future__ import annotations

from typing import Final

from postern.inspection.sql.postgres.postgres_tree import Message, node
from postern.protocols.postgres.lineage.postgres_lineage_expressions import strings

_NAMELESS: Final = "?column?"
_LONGEST: Final = 63  # bytes of a name; longer names are cut

# By the kind of node. A kind that is not here and not handled below may have any name.
_FIXED: Final = {
    "A_ArrayExpr": "array",
    "RowExpr": "row",
    "CoalesceExpr": "coalesce",
    "GroupingFunc": "grouping",
    "XmlSerialize": "xmlserialize",
}
_NONE: Final = frozenset({"A_Const", "ParamRef", "BoolExpr", "NullTest", "BooleanTest"})


def output_name(target: Message) -> str | None:
    """Return the output name of a ResTarget; None if unknown."""
    if target.get("name"):
        return str(target["name"])
    name = derive_column_name(target.get("val"))
    return _NAMELESS if name == "" else name


def derive_column_name(value: Message | None) -> str | None:
    """Return the name as the server derives it; empty if the server finds none."""
    kind, content = node(value)
    if kind == "ColumnRef":
        return strings(content.get("fields"))[-1]
    if kind == "FuncCall":
        return strings(content.get("funcname"))[-1]
    if kind == "A_Indirection":
        fields = [name for name in strings(content.get("indirection")) if name != "*"]
        return fields[-1] if fields else derive_column_name(content.get("arg"))
    if kind == "CollateClause":
        return derive_column_name(content.get("arg"))
    if kind == "TypeCast":
        types = strings(content.get("typeName", {}).get("names"))
        return _weak(content.get("arg"), types[-1] if types else "")
    if kind == "CaseExpr":
        return _weak(content.get("defresult"), "case")
    if kind == "A_Expr":
        return "nullif" if content.get("kind") == "AEXPR_NULLIF" else ""
    if kind == "SubLink":
        return _sub_query(content)
    if kind in _NONE:
        return ""
    return _FIXED.get(kind) if kind else ""


def _weak(inner: Message | None, otherwise: str) -> str | None:
    """Return the name of the inner node, unless it has none or only a weak one."""
    if node(inner)[0] in ("TypeCast", "CaseExpr"):
        return None
    name = derive_column_name(inner)
    return otherwise if name == "" else name


def _sub_query(link: Message) -> str | None:
    sort = link.get("subLinkType")
    if sort == "EXISTS_SUBLINK":
        return "exists"
    if sort == "ARRAY_SUBLINK":
        return "array"
    if sort != "EXPR_SUBLINK":
        return ""
    _, select = node(link.get("subselect"))
    targets = select.get("targetList")
    return output_name(targets[0]["ResTarget"]) if targets else None


def cut(name: str) -> str:
    return name.encode()[:_LONGEST].decode("utf-8", "ignore")
