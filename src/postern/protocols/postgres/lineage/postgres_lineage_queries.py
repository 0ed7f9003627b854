"""SELECT, VALUES, set operations and WITH: the columns that a query gives, and what each is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Final

from postern.inspection.lineage.scope import (
    NOTHING,
    UNKNOWN,
    Cte,
    Ctes,
    Out,
    Scope,
    TooMuch,
    WorkBudget,
    either,
    merged,
    renamed,
    union,
)
from postern.inspection.sql.postgres.postgres_tree import Message, node
from postern.protocols.postgres.lineage.postgres_lineage_catalogue import Doubts, PostgresLineageCatalogue
from postern.protocols.postgres.lineage.postgres_lineage_expressions import PostgresExpressions, strings
from postern.protocols.postgres.lineage.postgres_lineage_names import output_name
from postern.protocols.postgres.lineage.postgres_lineage_origins import PostgresOrigins

_WIDEST: Final = 1664  # columns that the server takes for one list

Change = Callable[[str, Message, Scope | None, Ctes], list[Out]]


class PostgresQueries:
    """`change` reads what INSERT, UPDATE, DELETE and MERGE return."""

    def __init__(self, catalogue: PostgresLineageCatalogue, doubts: Doubts, work: WorkBudget, change: Change) -> None:
        self._change = change
        self.expressions = PostgresExpressions(catalogue, doubts, work, self.query)
        self.origins = PostgresOrigins(catalogue, doubts, work, self.expressions, self.query)
        self._work = work

    def query(self, value: Message | None, parent: Scope | None, ctes: Ctes) -> list[Out]:
        """Of a `Node` that holds a query."""
        kind, message = node(value)
        if not kind:
            return [UNKNOWN]
        if kind == "SelectStmt":
            return self._select(message, parent, ctes)
        return self._change(kind, message, parent, ctes)

    def within(self, clause: Message | None, parent: Scope | None, ctes: Ctes) -> Ctes:
        """The CTEs that a query with this WITH can speak of."""
        if not clause:
            return ctes
        if clause.get("recursive"):
            found = Ctes({}, ctes)
            for one in clause.get("ctes", ()):
                expression = one["CommonTableExpr"]
                found.of[expression.get("ctename", "")] = self._cte(expression, parent, found)
            return found
        for one in clause.get("ctes", ()):
            expression = one["CommonTableExpr"]
            ctes = Ctes({expression.get("ctename", ""): self._cte(expression, parent, ctes)}, ctes)
        return ctes

    def targets(self, values: Sequence[Message], scope: Scope, ctes: Ctes) -> list[Out]:
        """The columns of a list behind SELECT or RETURNING."""
        found: list[Out] = []
        for one in values:
            found += self._target(one["ResTarget"], scope, ctes)
            if len(found) > _WIDEST:
                raise TooMuch
        self._work.step(len(found))
        return found

    def _cte(self, expression: Message, parent: Scope | None, ctes: Ctes) -> Cte:
        names = strings(expression.get("aliascolnames"))
        kind, select = node(expression.get("ctequery"))

        def read() -> list[Out]:
            return _marked(expression, renamed(self.query(expression.get("ctequery"), parent, ctes), names))

        def seed() -> list[Out]:
            if kind != "SelectStmt" or "larg" not in select:
                return [UNKNOWN]
            inner = self.within(select.get("withClause"), parent, ctes)
            return _marked(expression, renamed(self._select(select["larg"], parent, inner), names))

        return Cte(read, seed)

    def _select(self, select: Message, parent: Scope | None, ctes: Ctes) -> list[Out]:
        ctes = self.within(select.get("withClause"), parent, ctes)
        if "larg" in select:
            left = self._select(select["larg"], parent, ctes)
            both = _both(left, self._select(select["rarg"], parent, ctes))
            self._filter(select, Scope(parent, outs=both), both, ctes)
            return both
        if select.get("valuesLists"):
            return self._values(select, parent, ctes)
        scope = self.origins.scope(select.get("fromClause", ()), Scope(parent), ctes)
        for one in select.get("windowClause", ()):
            scope.windows[one["WindowDef"].get("name", "")] = one["WindowDef"]
        found = self.targets(select.get("targetList", ()), scope, ctes)
        self._filter(select, scope, found, ctes)
        return found

    def _filter(self, select: Message, scope: Scope, outs: Sequence[Out], ctes: Ctes) -> None:
        """Tells what decides which rows a query gives. Those of `outs` that it sorts or groups by are known already."""
        if not self.expressions.filters.wanted:
            return
        names = {out.name for out in outs}
        lists = [value for name in ("groupClause", "sortClause", "distinctClause") for value in select.get(name, ())]
        values = [select.get(name) for name in ("whereClause", "havingClause", "limitCount", "limitOffset")]
        for value in [*values, *lists]:
            kind, message = node(value)
            if kind == "SortBy":
                kind, message = node(message.get("node"))
            if kind == "ColumnRef" and strings(message.get("fields"))[-1] in names:
                continue
            if kind:
                self.expressions.filters.add(self.expressions.of({kind: message}, scope, ctes))

    def _values(self, select: Message, parent: Scope | None, ctes: Ctes) -> list[Out]:
        scope = Scope(parent)
        found: list[Out] = []
        for row in select["valuesLists"]:
            fresh: list[Out] = []
            for value in row["List"].get("items", ()):
                outs = self._target({"val": value}, scope, ctes)
                fresh += [
                    Out(f"column{len(fresh) + place}", out.sources, out.many, plain=out.plain)
                    for place, out in enumerate(outs, 1)
                ]
            found = _both(found, fresh) if found else fresh
        return found

    def _target(self, target: Message, scope: Scope, ctes: Ctes) -> list[Out]:
        value = target.get("val")
        kind, content = node(value)
        if kind == "ColumnRef" and "A_Star" in content["fields"][-1]:
            names = strings(content["fields"])
            if len(names) == 1:
                return list(scope.outs)
            item = scope.item(names[-2], names[-3] if len(names) > 2 else "")
            return [UNKNOWN] if item is None else list(item.outs)
        if kind == "A_Indirection" and "A_Star" in content["indirection"][-1]:
            row = self.expressions.row(content.get("arg"), scope)
            if row is not None and len(content["indirection"]) == 1:
                return list(row.outs)
            return [Out(None, self.expressions.of(value, scope, ctes), many=True)]
        if kind == "ColumnRef":
            self._work.step()
            found = self.expressions.column(content, scope)
            return [Out(output_name(target), found.sources, plain=found.plain)]
        return [Out(output_name(target), self.expressions.of(value, scope, ctes))]


def _both(left: list[Out], right: list[Out]) -> list[Out]:
    """A set operation: the names of the left side, and what both are made of."""
    if any(out.many for out in (*left, *right)) or len(left) != len(right):
        return [Out(None, merged([*left, *right]), many=True)]
    return [
        Out(a.name, union([a.sources, b.sources]), plain=either(a.plain, b.plain))
        for a, b in zip_longest(left, right, fillvalue=UNKNOWN)
    ]


def _marked(expression: Message, outs: list[Out]) -> list[Out]:
    """The columns that SEARCH and CYCLE add hold what they look at."""
    found = list(outs)
    search, cycle = expression.get("search_clause"), expression.get("cycle_clause")
    if search is not None:
        found.append(Out(search.get("search_seq_column", ""), merged(outs)))
    if cycle is not None:
        found.append(Out(cycle.get("cycle_mark_column", ""), NOTHING))
        found.append(Out(cycle.get("cycle_path_column", ""), merged(outs)))
    return found
