"""FROM: tables, views, CTEs, sub-queries, functions and joins, as the names and columns that they add to a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from postern.domain.targets.target_schema import Relation
from postern.inspection.lineage.scope import (
    NOTHING,
    UNKNOWN,
    Ctes,
    FromPart,
    Item,
    Out,
    Scope,
    Sources,
    WorkBudget,
    either,
    merged,
    only,
    renamed,
    union,
)
from postern.inspection.sql.postgres.postgres_tree import Message, node
from postern.protocols.postgres.lineage.postgres_builtins import COLUMNS, RECORDS
from postern.protocols.postgres.lineage.postgres_lineage_catalogue import Doubts, PostgresLineageCatalogue
from postern.protocols.postgres.lineage.postgres_lineage_expressions import PostgresExpressions, Query, strings


class PostgresOrigins:
    def __init__(
        self,
        catalogue: PostgresLineageCatalogue,
        doubts: Doubts,
        work: WorkBudget,
        expressions: PostgresExpressions,
        query: Query,
    ) -> None:
        self._catalogue = catalogue
        self._doubts = doubts
        self._work = work
        self._expressions = expressions
        self._query = query

    def scope(self, values: Sequence[Message], scope: Scope, ctes: Ctes) -> Scope:
        """The scope of a query whose FROM this is, within that of `scope`."""
        parts: list[FromPart] = []
        for value in values:
            parts.append(self._part(value, scope, parts, ctes))
        return self._beside(scope, parts)

    def table(self, table: Message) -> FromPart:
        """A table or view, never a CTE: as what statements change is named."""
        relation, name, alias = self.relation(table), table.get("relname", ""), table.get("alias")
        if relation is None:
            return _part(name, table.get("schemaname", ""), [UNKNOWN], alias, system=True)
        return _part(name, relation.schema, self._catalogue.outs(relation), alias, system=True)

    def relation(self, table: Message) -> Relation | None:
        return self._catalogue.relation(table.get("schemaname", ""), table.get("relname", ""), self._doubts)

    def _beside(self, scope: Scope, parts: Sequence[FromPart]) -> Scope:
        self._work.step(sum(len(part.outs) for part in parts))
        return scope.with_parts(parts)

    def _part(self, value: Message | None, scope: Scope, left: list[FromPart], ctes: Ctes) -> FromPart:
        """`left` is what stands further left in the same FROM: what is lateral may speak of it."""
        kind, message = node(value)
        if kind == "RangeVar":
            return self._named(message, ctes)
        if kind == "RangeSubselect":
            return self._sub_query(message, scope, left, ctes)
        if kind == "JoinExpr":
            return self._join(message, scope, left, ctes)
        if kind == "RangeFunction":
            return self._function(message, self._beside(scope, left), ctes)
        if kind == "RangeTableSample":
            return self._part(message.get("relation"), scope, left, ctes)
        if kind == "RangeTableFunc":
            return self._xml_table(message, self._beside(scope, left), ctes)
        if kind == "JsonTable":
            return self._json_table(message, self._beside(scope, left), ctes)
        return FromPart((), (UNKNOWN,))

    def _named(self, table: Message, ctes: Ctes) -> FromPart:
        name = table.get("relname", "")
        cte = None if table.get("schemaname") else ctes.find(name)
        return self.table(table) if cte is None else _part(name, "", cte.outs(), table.get("alias"))

    def _sub_query(self, element: Message, scope: Scope, left: list[FromPart], ctes: Ctes) -> FromPart:
        parent = self._beside(scope, left) if element.get("lateral") else scope.parent
        return _part("", "", self._query(element.get("subquery"), parent, ctes), element.get("alias"))

    def _join(self, join: Message, scope: Scope, before: list[FromPart], ctes: Ctes) -> FromPart:
        left = self._part(join.get("larg"), scope, before, ctes)
        right = self._part(join.get("rarg"), scope, [*before, left], ctes)
        filters = self._expressions.filters
        if filters.wanted and "quals" in join:
            filters.add(self._expressions.of(join["quals"], self._beside(scope, [*before, left, right]), ctes))
        items = left.items + right.items
        names = strings(join.get("usingClause"))
        if join.get("isNatural"):
            if any(out.name is None for out in left.outs + right.outs):
                outs = [Out(None, merged(left.outs + right.outs), many=True)]
                return _joined(join, items, outs)
            both = {out.name for out in right.outs}
            names = tuple(dict.fromkeys(out.name for out in left.outs if out.name in both and out.name is not None))
        common = [_common(left, right, name) for name in names]
        rest = [out for out in left.outs + right.outs if out.name not in names]
        if "join_using_alias" in join:
            items += (Item(join["join_using_alias"].get("aliasname", ""), tuple(common)),)
        return _joined(join, items, common + rest)

    def _function(self, element: Message, scope: Scope, ctes: Ctes) -> FromPart:
        outs: list[Out] = []
        functions = element.get("functions", [])
        single = len(functions) == 1
        alias = element.get("alias", {}).get("aliasname", "")
        name = ""
        for one in functions:
            call, *definitions = one["List"]["items"]
            name, columns = self._columns(call, definitions, scope, ctes)
            if single and alias and len(columns) == 1 and columns[0].name == name:
                columns = [Out(alias, columns[0].sources)]
            outs += columns
        self._expressions.filters.add(merged(outs))  # how many rows it gives
        if element.get("coldeflist"):
            outs = _defined(element["coldeflist"], merged(outs))
        if element.get("ordinality"):
            outs.append(Out("ordinality", NOTHING))
        return _part(name if single else "", "", outs, element.get("alias"))

    def _columns(
        self, value: Message, definitions: Sequence[Message], scope: Scope, ctes: Ctes
    ) -> tuple[str, list[Out]]:
        """Of one function in FROM: its name and its columns."""
        sources = self._expressions.of(value, scope, ctes)
        kind, call = node(value)
        name = strings(call.get("funcname"))[-1] if kind == "FuncCall" else ""
        listed = [item for one in definitions for item in one.get("List", {}).get("items", ())]
        if listed:
            return name, _defined(listed, sources)
        if sources is not None and name in COLUMNS:
            return name, [Out(column, sources) for column in COLUMNS[name]]
        if sources is None or not name or name in RECORDS:
            return name, [Out(None, sources, many=True)]
        return name, [Out(name, sources)]

    def _xml_table(self, element: Message, scope: Scope, ctes: Ctes) -> FromPart:
        columns = [one["RangeTableFuncCol"] for one in element.get("columns", ())]
        inputs = [element.get("docexpr"), element.get("rowexpr"), *element.get("namespaces", ())]
        inputs += [one for column in columns for one in (column.get("colexpr"), column.get("coldefexpr"))]
        sources = self._expressions.all(inputs, scope, ctes)
        self._expressions.filters.add(sources)
        outs = [Out(column.get("colname", ""), sources) for column in columns]
        return _part("xmltable", "", outs, element.get("alias"))

    def _json_table(self, element: Message, scope: Scope, ctes: Ctes) -> FromPart:
        columns = list(_json_columns(element.get("columns", ())))
        behaviors = [column[when] for column in columns for when in ("on_empty", "on_error") if when in column]
        of = self._expressions
        sources = union(
            [
                of.inside("JsonValueExpr", element.get("context_item", {}), scope, ctes),
                of.all(element.get("passing", ()), scope, ctes),
                *(of.inside("JsonBehavior", behavior, scope, ctes) for behavior in behaviors),
            ]
        )
        of.filters.add(sources)
        outs = [Out(column.get("name", ""), sources) for column in columns]
        return _part("json_table", "", outs, element.get("alias"))


def _part(name: str, schema: str, outs: Sequence[Out], alias: Message | None, *, system: bool = False) -> FromPart:
    if alias is not None:
        name, schema = alias.get("aliasname", ""), ""
        outs = renamed(outs, strings(alias.get("colnames")))
    columns = tuple(outs)
    return FromPart((Item(name, columns, schema, system),), columns)


def _joined(join: Message, items: tuple[Item, ...], outs: list[Out]) -> FromPart:
    """With an alias, only that can be spoken of."""
    return _part("", "", outs, join["alias"]) if "alias" in join else FromPart(items, tuple(outs))


def _common(left: FromPart, right: FromPart, name: str) -> Out:
    """A column that a join merges: it shows one side's value, or the other's."""
    one, other = _side(left, name), _side(right, name)
    return Out(name, union([one.sources, other.sources]), plain=either(one.plain, other.plain))


def _side(part: FromPart, name: str) -> Out:
    exact = [out for out in part.outs if out.name == name]
    return only(name, exact) if exact else only(name, (), [out for out in part.outs if out.name is None])


def _defined(values: Sequence[Message], sources: Sources) -> list[Out]:
    return [Out(one["ColumnDef"].get("colname", ""), sources) for one in values]


def _json_columns(values: Sequence[Message]) -> Iterator[Message]:
    for one in values:
        column = one["JsonTableColumn"]
        if column.get("coltype") == "JTC_NESTED":
            yield from _json_columns(column.get("columns", ()))
        else:
            yield column
