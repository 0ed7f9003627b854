"""FROM: tables, views, CTEs, sub-queries, functions and joins, as the names and columns that they add to a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from postern.domain.target_schema import Relation
from postern.inspection.lineage.builtins import COLUMNS, RECORDS
from postern.inspection.lineage.catalogue import Catalogue, Doubts
from postern.inspection.lineage.expressions import Expressions, Query, Work, strings
from postern.inspection.lineage.scope import (
    NOTHING,
    UNKNOWN,
    Ctes,
    Item,
    Out,
    Part,
    Scope,
    Sources,
    merged,
    renamed,
    union,
)


class Origins:
    def __init__(
        self, catalogue: Catalogue, doubts: Doubts, work: Work, expressions: Expressions, query: Query
    ) -> None:
        self._catalogue = catalogue
        self._doubts = doubts
        self._work = work
        self._expressions = expressions
        self._query = query

    def scope(self, nodes: Sequence[pb.Node], scope: Scope, ctes: Ctes) -> Scope:
        """The scope of a query whose FROM this is, within that of `scope`."""
        parts: list[Part] = []
        for node in nodes:
            parts.append(self._part(node, scope, parts, ctes))
        return self._beside(scope, parts)

    def table(self, table: pb.RangeVar) -> Part:
        """A table or view, never a CTE: as what statements change is named."""
        relation = self.relation(table)
        if relation is None:
            return _part(table.relname, table.schemaname, [UNKNOWN], table.alias, table.HasField("alias"), system=True)
        outs = self._catalogue.outs(relation)
        return _part(table.relname, relation.schema, outs, table.alias, table.HasField("alias"), system=True)

    def relation(self, table: pb.RangeVar) -> Relation | None:
        return self._catalogue.relation(table.schemaname, table.relname, self._doubts)

    def _beside(self, scope: Scope, parts: Sequence[Part]) -> Scope:
        self._work.step(sum(len(part.outs) for part in parts))
        return scope.with_parts(parts)

    def _part(self, node: pb.Node, scope: Scope, left: list[Part], ctes: Ctes) -> Part:
        """`left` is what stands further left in the same FROM: what is lateral may speak of it."""
        kind = node.WhichOneof("node")
        if kind == "range_var":
            return self._named(node.range_var, ctes)
        if kind == "range_subselect":
            return self._sub_query(node.range_subselect, scope, left, ctes)
        if kind == "join_expr":
            return self._join(node.join_expr, scope, left, ctes)
        if kind == "range_function":
            return self._function(node.range_function, self._beside(scope, left), ctes)
        if kind == "range_table_sample":
            return self._part(node.range_table_sample.relation, scope, left, ctes)
        if kind == "range_table_func":
            return self._xml_table(node.range_table_func, self._beside(scope, left), ctes)
        if kind == "json_table":
            return self._json_table(node.json_table, self._beside(scope, left), ctes)
        return Part((), (UNKNOWN,))

    def _named(self, table: pb.RangeVar, ctes: Ctes) -> Part:
        cte = None if table.schemaname else ctes.find(table.relname)
        if cte is None:
            return self.table(table)
        return _part(table.relname, "", cte.outs(), table.alias, table.HasField("alias"))

    def _sub_query(self, element: pb.RangeSubselect, scope: Scope, left: list[Part], ctes: Ctes) -> Part:
        parent = self._beside(scope, left) if element.lateral else scope.parent
        outs = self._query(element.subquery, parent, ctes)
        return _part("", "", outs, element.alias, element.HasField("alias"))

    def _join(self, join: pb.JoinExpr, scope: Scope, before: list[Part], ctes: Ctes) -> Part:
        left = self._part(join.larg, scope, before, ctes)
        right = self._part(join.rarg, scope, [*before, left], ctes)
        items = left.items + right.items
        names = strings(join.using_clause)
        if join.is_natural:
            if any(out.name is None for out in left.outs + right.outs):
                outs = [Out(None, merged(left.outs + right.outs), many=True)]
                return _joined(join, items, outs)
            both = {out.name for out in right.outs}
            names = tuple(dict.fromkeys(out.name for out in left.outs if out.name in both and out.name is not None))
        common = [Out(name, union([_side(left, name), _side(right, name)])) for name in names]
        rest = [out for out in left.outs + right.outs if out.name not in names]
        if join.HasField("join_using_alias"):
            items += (Item(join.join_using_alias.aliasname, tuple(common)),)
        return _joined(join, items, common + rest)

    def _function(self, element: pb.RangeFunction, scope: Scope, ctes: Ctes) -> Part:
        outs: list[Out] = []
        single = len(element.functions) == 1
        alias = element.alias.aliasname if element.HasField("alias") else ""
        name = ""
        for node in element.functions:
            call, *definitions = node.list.items
            name, columns = self._columns(call, definitions, scope, ctes)
            if single and alias and len(columns) == 1 and columns[0].name == name:
                columns = [Out(alias, columns[0].sources)]
            outs += columns
        if element.coldeflist:
            outs = _defined(element.coldeflist, merged(outs))
        if element.ordinality:
            outs.append(Out("ordinality", NOTHING))
        return _part(name if single else "", "", outs, element.alias, element.HasField("alias"))

    def _columns(
        self, call: pb.Node, definitions: Sequence[pb.Node], scope: Scope, ctes: Ctes
    ) -> tuple[str, list[Out]]:
        """Of one function in FROM: its name and its columns."""
        sources = self._expressions.of(call, scope, ctes)
        name = strings(call.func_call.funcname)[-1] if call.HasField("func_call") else ""
        listed = [item for node in definitions for item in node.list.items]
        if listed:
            return name, _defined(listed, sources)
        if sources is not None and name in COLUMNS:
            return name, [Out(column, sources) for column in COLUMNS[name]]
        if sources is None or not name or name in RECORDS:
            return name, [Out(None, sources, many=True)]
        return name, [Out(name, sources)]

    def _xml_table(self, element: pb.RangeTableFunc, scope: Scope, ctes: Ctes) -> Part:
        columns = [node.range_table_func_col for node in element.columns]
        inputs = [element.docexpr, element.rowexpr, *element.namespaces]
        inputs += [node for column in columns for node in (column.colexpr, column.coldefexpr)]
        sources = self._expressions.all(inputs, scope, ctes)
        outs = [Out(column.colname, sources) for column in columns]
        return _part("xmltable", "", outs, element.alias, element.HasField("alias"))

    def _json_table(self, element: pb.JsonTable, scope: Scope, ctes: Ctes) -> Part:
        columns = list(_json_columns(element.columns))
        inputs: list[Message] = [element.context_item, *element.passing]
        inputs += [behavior for column in columns for behavior in (column.on_empty, column.on_error)]
        sources = self._expressions.all(inputs, scope, ctes)
        outs = [Out(column.name, sources) for column in columns]
        return _part("json_table", "", outs, element.alias, element.HasField("alias"))


def _part(
    name: str, schema: str, outs: Sequence[Out], alias: pb.Alias, has_alias: bool, *, system: bool = False
) -> Part:
    if has_alias:
        name, schema = alias.aliasname, ""
        outs = renamed(outs, strings(alias.colnames))
    columns = tuple(outs)
    return Part((Item(name, columns, schema, system),), columns)


def _joined(join: pb.JoinExpr, items: tuple[Item, ...], outs: list[Out]) -> Part:
    """With an alias, only that can be spoken of."""
    return _part("", "", outs, join.alias, True) if join.HasField("alias") else Part(items, tuple(outs))


def _side(part: Part, name: str) -> Sources:
    """Of a column that a join merges, one side's."""
    return merged([out for out in part.outs if out.name == name] or [out for out in part.outs if out.name is None])


def _defined(nodes: Sequence[pb.Node], sources: Sources) -> list[Out]:
    return [Out(node.column_def.colname, sources) for node in nodes]


def _json_columns(nodes: Sequence[pb.Node]) -> Iterator[pb.JsonTableColumn]:
    for node in nodes:
        column = node.json_table_column
        if column.coltype == pb.JTC_NESTED:
            yield from _json_columns(column.columns)
        else:
            yield column
