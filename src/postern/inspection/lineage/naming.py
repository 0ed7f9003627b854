"""The name that PostgreSQL gives to a column of a query which has none of its own (FigureColname of the parser)."""

from __future__ import annotations

from typing import Final

from postgast import pg_query_pb2 as pb

from postern.inspection.lineage.expressions import strings

_NAMELESS: Final = "?column?"
_LONGEST: Final = 63  # bytes of a name; what is longer is cut

# By the kind of node. What is not here and not treated below may have any name.
_FIXED: Final = {
    "a_array_expr": "array",
    "row_expr": "row",
    "coalesce_expr": "coalesce",
    "grouping_func": "grouping",
    "xml_serialize": "xmlserialize",
}
_NONE: Final = frozenset({"a_const", "param_ref", "bool_expr", "null_test", "boolean_test"})


def output_name(target: pb.ResTarget) -> str | None:
    """None where it may be any."""
    if target.name:
        return str(target.name)
    name = figured(target.val)
    return _NAMELESS if name == "" else name


def figured(node: pb.Node) -> str | None:
    """Empty where the server finds none."""
    kind = node.WhichOneof("node")
    if kind == "column_ref":
        return strings(node.column_ref.fields)[-1]
    if kind == "func_call":
        return strings(node.func_call.funcname)[-1]
    if kind == "a_indirection":
        fields = [name for name in strings(node.a_indirection.indirection) if name != "*"]
        return fields[-1] if fields else figured(node.a_indirection.arg)
    if kind == "collate_clause":
        return figured(node.collate_clause.arg)
    if kind == "type_cast":
        types = strings(node.type_cast.type_name.names)
        return _weak(node.type_cast.arg, types[-1] if types else "")
    if kind == "case_expr":
        return _weak(node.case_expr.defresult, "case")
    if kind == "a_expr":
        return "nullif" if node.a_expr.kind == pb.AEXPR_NULLIF else ""
    if kind == "sub_link":
        return _sub_query(node.sub_link)
    if kind in _NONE:
        return ""
    return _FIXED.get(kind) if kind else ""


def _weak(inner: pb.Node, otherwise: str) -> str | None:
    """The name of what is inside, unless that has none, or only such a weak one itself."""
    if inner.WhichOneof("node") in ("type_cast", "case_expr"):
        return None
    name = figured(inner)
    return otherwise if name == "" else name


def _sub_query(link: pb.SubLink) -> str | None:
    if link.sub_link_type == pb.EXISTS_SUBLINK:
        return "exists"
    if link.sub_link_type == pb.ARRAY_SUBLINK:
        return "array"
    if link.sub_link_type != pb.EXPR_SUBLINK:
        return ""
    targets = link.subselect.select_stmt.target_list
    return output_name(targets[0].res_target) if targets else None


def cut(name: str) -> str:
    return name.encode()[:_LONGEST].decode("utf-8", "ignore")
