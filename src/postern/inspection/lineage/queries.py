"""SELECT, VALUES, set operations and WITH: the columns that a query gives, and what each is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Final

from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from postern.inspection.lineage.catalogue import Catalogue, Doubts
from postern.inspection.lineage.expressions import Expressions, TooMuch, Work, strings
from postern.inspection.lineage.naming import output_name
from postern.inspection.lineage.origins import Origins
from postern.inspection.lineage.scope import NOTHING, UNKNOWN, Cte, Ctes, Out, Scope, merged, renamed, union

_WIDEST: Final = 1664  # columns that the server takes for one list

Change = Callable[[Message, Scope | None, Ctes], list[Out]]


class Queries:
    """`change` reads what INSERT, UPDATE, DELETE and MERGE return."""

    def __init__(self, catalogue: Catalogue, doubts: Doubts, work: Work, change: Change) -> None:
        self._change = change
        self.expressions = Expressions(catalogue, doubts, work, self.query)
        self.origins = Origins(catalogue, doubts, work, self.expressions, self.query)
        self._work = work

    def query(self, message: Message, parent: Scope | None, ctes: Ctes) -> list[Out]:
        """Of a node that holds a query, or of the query itself."""
        if isinstance(message, pb.Node):
            kind = message.WhichOneof("node")
            return [UNKNOWN] if kind is None else self.query(getattr(message, kind), parent, ctes)
        if isinstance(message, pb.SelectStmt):
            return self._select(message, parent, ctes)
        return self._change(message, parent, ctes)

    def within(self, clause: pb.WithClause, parent: Scope | None, ctes: Ctes) -> Ctes:
        """The CTEs that a query with this clause can speak of."""
        if clause.recursive:
            found = Ctes({}, ctes)
            for node in clause.ctes:
                expression = node.common_table_expr
                found.of[expression.ctename] = self._cte(expression, parent, found)
            return found
        for node in clause.ctes:
            expression = node.common_table_expr
            ctes = Ctes({expression.ctename: self._cte(expression, parent, ctes)}, ctes)
        return ctes

    def targets(self, nodes: Sequence[pb.Node], scope: Scope, ctes: Ctes) -> list[Out]:
        """The columns of a list behind SELECT or RETURNING."""
        found: list[Out] = []
        for node in nodes:
            found += self._target(node.res_target, scope, ctes)
            if len(found) > _WIDEST:
                raise TooMuch
        self._work.step(len(found))
        return found

    def _cte(self, expression: pb.CommonTableExpr, parent: Scope | None, ctes: Ctes) -> Cte:
        names = strings(expression.aliascolnames)
        select = expression.ctequery.select_stmt

        def read() -> list[Out]:
            return _marked(expression, renamed(self.query(expression.ctequery, parent, ctes), names))

        def seed() -> list[Out]:
            if not expression.ctequery.HasField("select_stmt") or not select.HasField("larg"):
                return [UNKNOWN]
            inner = self.within(select.with_clause, parent, ctes)
            return _marked(expression, renamed(self.query(select.larg, parent, inner), names))

        return Cte(read, seed)

    def _select(self, select: pb.SelectStmt, parent: Scope | None, ctes: Ctes) -> list[Out]:
        ctes = self.within(select.with_clause, parent, ctes)
        if select.HasField("larg"):
            left = self.query(select.larg, parent, ctes)
            return _both(left, self.query(select.rarg, parent, ctes))
        if select.values_lists:
            return self._values(select, parent, ctes)
        scope = self.origins.scope(select.from_clause, Scope(parent), ctes)
        for node in select.window_clause:
            scope.windows[node.window_def.name] = node.window_def
        return self.targets(select.target_list, scope, ctes)

    def _values(self, select: pb.SelectStmt, parent: Scope | None, ctes: Ctes) -> list[Out]:
        scope = Scope(parent)
        found: list[Out] = []
        for row in select.values_lists:
            fresh: list[Out] = []
            for node in row.list.items:
                outs = self._target(pb.ResTarget(val=node), scope, ctes)
                fresh += [
                    Out(f"column{len(fresh) + place}", out.sources, out.many) for place, out in enumerate(outs, 1)
                ]
            found = _both(found, fresh) if found else fresh
        return found

    def _target(self, target: pb.ResTarget, scope: Scope, ctes: Ctes) -> list[Out]:
        value = target.val
        if value.HasField("column_ref") and value.column_ref.fields[-1].HasField("a_star"):
            names = strings(value.column_ref.fields)
            if len(names) == 1:
                return list(scope.outs)
            item = scope.item(names[-2], names[-3] if len(names) > 2 else "")
            return [UNKNOWN] if item is None else list(item.outs)
        if value.HasField("a_indirection") and value.a_indirection.indirection[-1].HasField("a_star"):
            row = self.expressions.row(value.a_indirection.arg, scope)
            if row is not None and len(value.a_indirection.indirection) == 1:
                return list(row.outs)
            return [Out(None, self.expressions.of(value, scope, ctes), many=True)]
        return [Out(output_name(target), self.expressions.of(value, scope, ctes))]


def _both(left: list[Out], right: list[Out]) -> list[Out]:
    """A set operation: the names of the left side, and what both are made of."""
    if any(out.many for out in (*left, *right)) or len(left) != len(right):
        return [Out(None, merged([*left, *right]), many=True)]
    return [Out(a.name, union([a.sources, b.sources])) for a, b in zip_longest(left, right, fillvalue=UNKNOWN)]


def _marked(expression: pb.CommonTableExpr, outs: list[Out]) -> list[Out]:
    """The columns that SEARCH and CYCLE add hold what they look at."""
    found = list(outs)
    if expression.HasField("search_clause"):
        found.append(Out(expression.search_clause.search_seq_column, merged(outs)))
    if expression.HasField("cycle_clause"):
        found.append(Out(expression.cycle_clause.cycle_mark_column, NOTHING))
        found.append(Out(expression.cycle_clause.cycle_path_column, merged(outs)))
    return found
