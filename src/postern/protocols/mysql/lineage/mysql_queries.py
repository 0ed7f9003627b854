"""SELECT, VALUES, set operations, WITH and FROM: the columns that a query gives, and what each is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

from sqlglot import exp

from postern.domain.targets.target_schema import Relation
from postern.inspection.lineage.scope import (
    UNKNOWN,
    Cte,
    Ctes,
    FromPart,
    Item,
    Out,
    Scope,
    TooMuch,
    WorkBudget,
    either,
    merged,
    only,
    renamed,
    union,
)
from postern.protocols.mysql.dialect.mysql_texts import folded
from postern.protocols.mysql.lineage.mysql_expressions import MysqlExpressions, Variables
from postern.protocols.mysql.lineage.mysql_lineage_catalogue import MysqlLineageCatalogue, SessionState
from postern.protocols.mysql.lineage.mysql_names import Level, column_name, items_of

_WIDEST: Final = 4096  # columns that the server takes for one table
_CLAUSES: Final = ("where", "having", "group", "order", "limit", "offset")


class _Cte(Cte):
    name = ""  # as it is spelled


class MysqlQueries:
    """`database` is what a table without one is of, empty where that cannot be known. `doubtful` as `spelling` says."""

    def __init__(
        self,
        catalogue: MysqlLineageCatalogue,
        state: SessionState,
        database: str,
        work: WorkBudget,
        variables: Variables,
        doubtful: frozenset[str],
    ) -> None:
        self._catalogue = catalogue
        self._state = state
        self._database = database
        self._work = work
        self._doubtful = doubtful
        self.expressions = MysqlExpressions(state, work, variables, self.query)

    def query(self, node: exp.Expr, parent: Scope | None, ctes: Ctes) -> list[Out]:
        self._work.step()
        ctes = self.within(node, parent, ctes)
        if isinstance(node, exp.Subquery):
            self._clauses(node, Level(parent), ctes)
            return self.query(node.this, parent, ctes)
        if isinstance(node, exp.SetOperation):
            left = self.query(node.this, parent, ctes)
            found = _both(left, self.query(node.expression, parent, ctes))
            self._clauses(node, Level(parent, outs=found), ctes)
            return found
        if isinstance(node, exp.Values):
            return self._values(node, parent, ctes)
        return self._select(node, parent, ctes) if isinstance(node, exp.Select) else [UNKNOWN]

    def table(self, table: exp.Table) -> FromPart:
        """A table or view, never a CTE."""
        name, schema = table.name, table.db
        return self._named(table, self.columns(schema, name), name, schema or self._database)

    def targets(self, values: Sequence[exp.Expr], scope: Level, ctes: Ctes) -> list[Out]:
        """The columns of a list behind SELECT or RETURNING."""
        found: list[Out] = []
        for value in values:
            outs = self._target(value, scope, ctes)
            found += outs
            scope.aliases += outs
            if len(found) > _WIDEST:
                raise TooMuch
        self._work.step(len(found))
        return found

    def within(self, node: exp.Expr, parent: Scope | None, ctes: Ctes) -> Ctes:
        """The CTEs that a query with this WITH can speak of."""
        clause = node.args.get("with_")
        if not isinstance(clause, exp.With):
            return ctes
        if clause.args.get("recursive"):
            found = Ctes({}, ctes)
            for one in clause.expressions:
                found.of[folded(one.alias)] = self._cte(one, parent, found)
            return found
        for one in clause.expressions:
            ctes = Ctes({folded(one.alias): self._cte(one, parent, ctes)}, ctes)
        return ctes

    def _cte(self, one: exp.CTE, parent: Scope | None, ctes: Ctes) -> Cte:
        names = [column_name(name) for name in one.alias_column_names]

        def read() -> list[Out]:
            return renamed(self.query(one.this, parent, ctes), names)

        def seed() -> list[Out]:
            first = one.this
            while isinstance(first, exp.SetOperation | exp.Subquery):
                first = first.this
            return [UNKNOWN] if first is one.this else renamed(self.query(first, parent, ctes), names)

        found = _Cte(read, seed)
        found.name = one.alias
        return found

    def _select(self, select: exp.Select, parent: Scope | None, ctes: Ctes) -> list[Out]:
        scope = Level(parent)
        source = select.args.get("from_")
        if isinstance(source, exp.From):
            scope.add(self._joined(source.this, select.args.get("joins") or (), scope, [], ctes))
        scope.windows[""] = select.args.get("windows") or ()
        found = self.targets(select.expressions, scope, ctes)
        self._clauses(select, scope, ctes)
        return found

    def _clauses(self, node: exp.Expr, scope: Level, ctes: Ctes) -> None:
        """What only filters or sorts is not in the answer; what it puts into variables is in them."""
        clauses = [node.args.get(name) for name in _CLAUSES]
        clauses += [join.args.get("on") for join in _joins(node)]
        level = Level(scope.parent, scope.items, [*scope.outs, *scope.aliases], scope.windows)
        for clause in clauses:
            if isinstance(clause, exp.Expr) and (self.expressions.filters.wanted or _puts(clause)):
                for child in clause.iter_expressions() if _is_clause(clause) else (clause,):
                    self.expressions.filters.add(self.expressions.of(child, level, ctes))

    def _values(self, values: exp.Values, parent: Scope | None, ctes: Ctes) -> list[Out]:
        scope = Level(parent)
        found: list[Out] = []
        for row in values.expressions:
            cells = row.expressions if isinstance(row, exp.Tuple | exp.Anonymous) else [row]
            fresh = [
                Out(None, self.expressions.of(cell, scope, ctes), plain=self.expressions.plain(cell, scope))
                for cell in cells
            ]
            found = _both(found, fresh) if found else fresh
        return found

    def _target(self, value: exp.Expr, scope: Level, ctes: Ctes) -> list[Out]:
        if isinstance(value, exp.Star):
            return [out for out in scope.outs if not out.hidden]
        if isinstance(value, exp.Column) and isinstance(value.this, exp.Star):
            items = items_of(scope, value.table, value.db)
            if len(items) != 1:
                outs = [out for item in items for out in item.outs]
                return [Out(None, merged(outs), many=True)] if items else [UNKNOWN]
            return [out for out in items[0].outs if not out.hidden]
        sources = self.expressions.of(value, scope, ctes)
        return [Out(self._name(value), sources, plain=self.expressions.plain(value, scope))]

    def _name(self, value: exp.Expr) -> str | None:
        """None where it may be any: a column without a name of its own is called as the text says."""
        if isinstance(value, exp.Alias):
            alias = value.args["alias"]
            is_doubtful = alias.args.get("quoted") and alias.name in self._doubtful
            return None if is_doubtful else column_name(alias.name)
        return column_name(value.name) if isinstance(value, exp.Column) else None

    def _joined(
        self,
        first: exp.Expr,
        joins: Sequence[exp.Join],
        scope: Scope,
        before: list[FromPart],
        ctes: Ctes,
        *,
        alone: bool = False,
    ) -> FromPart:
        """A comma binds less than JOIN. `before` is what stands further left."""
        groups = [self._part(first, scope, before, ctes, alone=alone)]
        for join in joins:
            right = self._part(join.this, scope, [*before, *groups], ctes)
            if any(join.args.get(name) for name in ("kind", "side", "method")):
                groups[-1] = _join(groups[-1], right, join)
            else:
                groups.append(right)
        part = FromPart(tuple(_items(groups)), tuple(out for group in groups for out in group.outs))
        self._work.step(len(part.outs))
        return part

    def _part(self, node: exp.Expr, scope: Scope, left: list[FromPart], ctes: Ctes, *, alone: bool = False) -> FromPart:
        """`left` is what stands further left: what is lateral may speak of it. `alone`: without its own joins."""
        self._work.step()
        joins = node.args.get("joins") or ()
        if joins and not alone:
            return self._joined(node, joins, scope, left, ctes, alone=True)
        if isinstance(node, exp.Table):
            return self._table(node, scope, left, ctes)
        if isinstance(node, exp.Lateral):
            return self._named(node, self.query(node.this, scope.with_parts(left), ctes))
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) and not node.alias:
            return self._part(node.this, scope, left, ctes)
        if isinstance(node, exp.Subquery | exp.Values):
            return self._named(node, self.query(node, scope.parent, ctes))
        return FromPart((), (UNKNOWN,))

    def _table(self, table: exp.Table, scope: Scope, left: list[FromPart], ctes: Ctes) -> FromPart:
        if isinstance(table.this, exp.JSONTable):
            # What its columns are called is known, and all are made of the same.
            document = table.this
            found = self.expressions.of(document.this, scope.with_parts(left), ctes)
            self.expressions.filters.add(found)  # how many rows it gives
            return self._named(table, [Out(None, found, many=True)])
        if not isinstance(table.this, exp.Identifier) or table.args.get("catalog") is not None:
            return FromPart((), (UNKNOWN,))
        if table.db:
            return self.table(table)
        if table.name.lower() == "dual" and not table.this.args.get("quoted"):
            return FromPart((), ())
        cte = ctes.find(folded(table.name))
        if cte is None:
            return self.table(table)
        outs: Sequence[Out] = cte.outs()
        if isinstance(cte, _Cte) and cte.name != table.name:
            outs = [Out(None, merged([*outs, *self.columns("", table.name)]), many=True)]
        return self._named(table, outs, table.name)

    def columns(self, schema: str, name: str) -> Sequence[Out]:
        database = schema or self._database
        if folded(name) in self._state.names or self._state.everything:
            return (UNKNOWN,)
        if database and (system := self._catalogue.system(database, name, self._state)) is not None:
            return system
        relation = self._catalogue.relation(database, name, self._state)
        self.expressions.variables.fails |= not self._catalogue.spelled(database, name)
        return (UNKNOWN,) if relation is None else self._catalogue.outs(relation)

    def relation(self, table: exp.Table) -> Relation | None:
        return self._catalogue.relation(table.db or self._database, table.name, self._state)

    def _named(self, node: exp.Expr, outs: Sequence[Out], name: str = "", schema: str = "") -> FromPart:
        if node.alias:
            name, schema = node.alias, ""
            outs = renamed(outs, [column_name(one) for one in node.alias_column_names])
        columns = tuple(outs)
        return FromPart((Item(name, columns, schema),), columns)


def _items(groups: Sequence[FromPart]) -> Iterator[Item]:
    for group in groups:
        yield from group.items


def _join(left: FromPart, right: FromPart, join: exp.Join) -> FromPart:
    items = left.items + right.items
    names = [column_name(one.name) for one in join.args.get("using") or ()]
    if join.args.get("method"):
        if any(out.name is None for out in left.outs + right.outs):
            return FromPart(items, (Out(None, merged(left.outs + right.outs), many=True),))
        both = {out.name for out in right.outs}
        names = list(dict.fromkeys(out.name for out in left.outs if out.name is not None and out.name in both))
    if not names:
        return FromPart(items, left.outs + right.outs)
    if join.args.get("side") == "RIGHT":
        left, right = right, left
    common = [_common(left, right, name) for name in names]
    rest = [out for out in left.outs + right.outs if out.name not in names]
    return FromPart(items, (*common, *rest))


def _common(left: FromPart, right: FromPart, name: str) -> Out:
    """A column that a join merges: it shows one side's value, or the other's."""
    one, other = _side(left, name), _side(right, name)
    return Out(name, union([one.sources, other.sources]), plain=either(one.plain, other.plain))


def _side(part: FromPart, name: str) -> Out:
    exact = [out for out in part.outs if out.name == name]
    return only(name, exact) if exact else only(name, (), [out for out in part.outs if out.name is None])


def _both(left: list[Out], right: list[Out]) -> list[Out]:
    """A set operation: the names of the left side, and what both are made of."""
    if any(out.many for out in (*left, *right)) or len(left) != len(right):
        return [Out(None, merged([*left, *right]), many=True)]
    return [
        Out(a.name, union([a.sources, b.sources]), plain=either(a.plain, b.plain))
        for a, b in zip_longest(left, right, fillvalue=UNKNOWN)
    ]


def _is_clause(node: exp.Expr) -> bool:
    return isinstance(node, exp.Where | exp.Having | exp.Group | exp.Order | exp.Limit | exp.Offset)


def _joins(node: exp.Expr) -> Iterator[exp.Join]:
    """Those of a query, and those in brackets behind FROM."""
    waiting = [node.args.get("from_"), *(node.args.get("joins") or ())]
    while waiting:
        found = waiting.pop()
        if isinstance(found, exp.Join):
            yield found
        if isinstance(found, exp.From | exp.Join | exp.Table) or (
            isinstance(found, exp.Subquery) and isinstance(found.this, exp.Table)
        ):
            waiting += [found.this, *(found.args.get("joins") or ())]


def _puts(clause: exp.Expr) -> bool:
    """Whether something in it puts a value into a variable."""
    return any(isinstance(node, exp.PropertyEQ | exp.Anonymous) for node in clause.walk())
