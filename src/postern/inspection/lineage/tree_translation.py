"""Translation of sqlglot's tree to relational terms, as far as dialects agree: SELECT, VALUES, set operations, WITH,
FROM, PIVOT, and the columns and queries in an expression.

Everything inside an expression counts, except in EXISTS. Any kind of node that is not listed makes the expression
unknown. The spelling of a dialect has renamed all functions but COUNT: to `PLAIN(...)` where the result depends on the
arguments alone, and to `FOREIGN(...)` elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from sqlglot import exp

from postern.inspection.lineage import relations as rel
from postern.inspection.lineage.scope import WorkBudget

PLAIN: Final = "postern_plain"
FOREIGN: Final = "postern_foreign"

# Nodes that consist of their parts.
_PLAIN: Final = (
    exp.Between, exp.Binary, exp.Case, exp.Condition, exp.Distinct, exp.Escape, exp.If, exp.In, exp.Order,
    exp.Ordered, exp.Paren, exp.Tuple, exp.Unary, exp.Window, exp.WithinGroup,
)  # fmt: skip
_OTHER: Final = (exp.Anonymous, exp.AnonymousAggFunc, exp.Aliases, exp.Dot, exp.Func)
_EMPTY: Final = (exp.Boolean, exp.HexString, exp.Literal, exp.National, exp.Null, exp.Placeholder)
_CLAUSES: Final = ("where", "having", "group", "order", "limit", "offset", "connect")
_CLAUSE_NODES: Final = (
    exp.Where, exp.Having, exp.Group, exp.Order, exp.Limit, exp.Offset, exp.Fetch, exp.Connect,
)  # fmt: skip
_UNKNOWN_ROWS: Final = rel.UnknownRows()


def unknown_function_name(node: exp.Expr) -> str:
    """Return the lower-case name of a function that sqlglot does not know."""
    return str(node.this).lower() if isinstance(node, exp.Anonymous) else ""


class TreeExpressions:
    """Translates expressions. `query` translates a query inside an expression. A dialect says how its names are spelled
    in the tree, and adds its own kinds of nodes."""

    def __init__(self, work: WorkBudget, query: Callable[[exp.Expr], rel.Query]) -> None:
        self._work = work
        self._query = query

    # What dialects differ in

    def table_text(self, text: str) -> str:
        """Return the name of a table from its spelling."""
        return text

    def column_text(self, text: str) -> str:
        """Return the name of a column from its spelling."""
        return text

    def _named_column(self, name: str, table: str, schema: str) -> rel.ColumnName:
        """Return a column by its spelled name."""
        return rel.ColumnName(self.column_text(name), table, schema)

    def _add_own(self, node: exp.Expr, expressions: list[rel.Expression]) -> bool:
        """Add a kind of node that only this dialect has; return whether it is one."""
        return False

    def _parts(self, node: exp.Expr) -> Iterable[exp.Expr]:
        """Return the parts of a node that can be values."""
        return node.iter_expressions()

    # What they share

    def of(self, value: exp.Expr) -> rel.Expression:
        """Translate a whole expression. Only a column that is passed through unchanged remains one."""
        while isinstance(value, exp.Alias | exp.Paren | exp.Ordered):
            value = value.this
        if isinstance(value, exp.Column):
            return self._reference(value)
        parts: list[rel.Expression] = []
        self._add(value, parts)
        return rel.Made(tuple(parts)) if parts else rel.CONSTANT

    def all(self, values: Iterable[exp.Expr]) -> rel.Expression:
        return rel.Made(tuple([self.of(value) for value in values]))

    def passed_through(self, value: exp.Expr) -> rel.ColumnName | None:
        """Return the column that a value is, under any alias."""
        while isinstance(value, exp.Alias | exp.Paren):
            value = value.this
        name = self._reference(value) if isinstance(value, exp.Column) else None
        return name if isinstance(name, rel.ColumnName) else None

    def table_name(self, node: object) -> str:
        """Return the name in a node; empty without one."""
        return self.table_text(node.name) if isinstance(node, exp.Identifier) else ""

    def _reference(self, column: exp.Column) -> rel.Expression:
        if column.args.get("catalog") is not None or not isinstance(column.this, exp.Identifier | exp.Star):
            return rel.UNKNOWABLE
        table = self.table_name(column.args.get("table"))
        if isinstance(column.this, exp.Star):
            return rel.WholeRow(table, column.db)
        return self._named_column(column.name, table, column.db)

    def _add(self, node: exp.Expr, expressions: list[rel.Expression]) -> None:
        """Add the parts of a node to `expressions`."""
        self._work.step()
        if isinstance(node, _EMPTY):
            return
        if isinstance(node, exp.Column):
            expressions.append(self._reference(node))
        elif isinstance(node, exp.Exists):
            for child in node.iter_expressions():
                is_query = isinstance(child, exp.Query)
                expressions.append(rel.InnerQuery(self._query(child), exists=True) if is_query else rel.UNKNOWABLE)
        elif isinstance(node, exp.Query):
            expressions.append(rel.InnerQuery(self._query(node)))
        elif not self._add_own(node, expressions):
            self._add_call(node, expressions)

    def _add_call(self, node: exp.Expr, expressions: list[rel.Expression]) -> None:
        name = unknown_function_name(node)
        if name == PLAIN:
            self._add_arguments(node, expressions)
        elif isinstance(node, exp.Count):
            self._add_counted(node, expressions)
        elif name == FOREIGN or (isinstance(node, _OTHER) and not isinstance(node, exp.Case | exp.If | exp.Binary)):
            expressions.append(rel.UNKNOWABLE)
        elif isinstance(node, exp.Alias):
            self._add(node.this, expressions)
        elif isinstance(node, _PLAIN):
            for part in self._parts(node):
                self._add(part, expressions)
        else:
            expressions.append(rel.UNKNOWABLE)

    def _add_arguments(self, node: exp.Expr, expressions: list[rel.Expression]) -> None:
        if any(isinstance(each, exp.Star) for each in node.expressions):
            expressions.append(rel.WholeRow())
        for each in node.expressions:
            if not isinstance(each, exp.Star):
                self._add(each, expressions)

    def _add_counted(self, node: exp.Count, expressions: list[rel.Expression]) -> None:
        for value in [each for part in node.iter_expressions() for each in _distinct_values(part)]:
            column = self.passed_through(value)
            if column is not None:
                expressions.append(rel.Counted(column))
            elif not isinstance(value, exp.Star):
                self._add(value, expressions)


def _distinct_values(value: exp.Expr) -> list[exp.Expr]:
    return list(value.expressions) if isinstance(value, exp.Distinct) else [value]


class TreeQueries:
    """The front end of relational terms for a dialect, which says what a name in FROM means."""

    expressions: TreeExpressions

    def __init__(self, work: WorkBudget) -> None:
        self._work = work

    # What dialects differ in

    def table_name(self, table: exp.Expr) -> rel.TableName | None:
        """Return the name of a table or view; None for anything else."""
        raise NotImplementedError

    def _title(self, value: exp.Expr) -> str | None:
        """Return the name of a column in a list; None if it is unknown."""
        raise NotImplementedError

    def _is_recursive(self, columns: Sequence[str]) -> bool:
        """Return whether a CTE with this list of columns can use itself."""
        return True

    def _added_columns(self, cte: exp.Expr) -> Sequence[str]:
        """Return the columns of a CTE that are not in its query, and may be made of all others."""
        return ()

    def _select(self, node: exp.Select) -> rel.Query:
        return rel.Select(self.targets(node.expressions), self.sources(node), self._conditions(node))

    # Queries

    def query(self, node: exp.Expr) -> rel.Query:
        self._work.step()
        return self.with_ctes(node, self._without_ctes(node))

    def _without_ctes(self, node: exp.Expr) -> rel.Query:
        if isinstance(node, exp.Subquery):
            conditions, query = self._conditions(node), self.query(node.this)
            return rel.NestedQuery(query, conditions) if conditions else query
        if isinstance(node, exp.SetOperation):
            return rel.SetOperation(self.query(node.this), self.query(node.expression), self._conditions(node))
        if isinstance(node, exp.Values):
            return rel.ValueRows(tuple([self._row(row) for row in node.expressions]))
        return self._select(node) if isinstance(node, exp.Select) else None

    def with_ctes(self, node: exp.Expr, query: rel.Query) -> rel.Query:
        """Return a query within the CTEs of its node. Each sees those before it, but not those after it."""
        clause = node.args.get("with_")
        for expression in reversed(clause.expressions) if isinstance(clause, exp.With) else ():
            query = rel.NestedQuery(query, ctes=self._cte(expression))
        return query

    def _cte(self, expression: exp.Expr) -> rel.With:
        columns = tuple(map(self.expressions.column_text, expression.alias_column_names))
        added = tuple([(name, True) for name in self._added_columns(expression)])
        table = rel.CommonTable(expression.alias, self.query(expression.this), columns, added)
        return rel.With((table,), recursive=self._is_recursive(columns))

    def targets(self, values: Iterable[exp.Expr]) -> list[rel.OutputColumn | rel.Star | rel.RowStar]:
        """Translate the list after SELECT, RETURNING or OUTPUT."""
        return [self._target(value) for value in values]

    def _target(self, value: exp.Expr) -> rel.OutputColumn | rel.Star | rel.RowStar:
        if isinstance(value, exp.Star):
            return rel.Star()
        if isinstance(value, exp.Column) and isinstance(value.this, exp.Star):
            return rel.Star(self.expressions.table_name(value.args.get("table")), value.db)
        return rel.OutputColumn(self._title(value), self.expressions.of(value), self.expressions.passed_through(value))

    def _conditions(self, node: exp.Expr) -> rel.Conditions | None:
        """Return the clauses that only filter or sort."""
        arguments = [*[node.args.get(name) for name in _CLAUSES], *[join.args.get("on") for join in joins_of(node)]]
        clauses = [clause for clause in arguments if isinstance(clause, exp.Expr)]

        def conditions(is_needed: bool) -> Sequence[rel.Expression]:
            return [
                self.expressions.of(child)
                for clause in clauses
                if is_needed
                for child in (clause.iter_expressions() if isinstance(clause, _CLAUSE_NODES) else (clause,))
            ]

        return conditions if clauses else None

    def _row(self, row: exp.Expr) -> tuple[rel.OutputColumn, ...]:
        cells = row.expressions if isinstance(row, exp.Tuple) else [row]
        expressions = self.expressions
        return tuple([rel.OutputColumn(None, expressions.of(cell), expressions.passed_through(cell)) for cell in cells])

    # FROM

    def sources(self, node: exp.Expr) -> tuple[rel.FromItem, ...]:
        """Translate the FROM of a query or a change."""
        source = node.args.get("from_")
        joins = node.args.get("joins") or ()
        return tuple(self._translate_joins(self.source(source.this), joins)) if isinstance(source, exp.From) else ()

    def _translate_joins(self, first: rel.FromItem, joins: Iterable[exp.Join]) -> list[rel.FromItem]:
        """Translate joins. A comma binds less tightly than JOIN."""
        groups = [first]
        for join in joins:
            right = self.source(join.this)
            using = tuple([each.name for each in join.args.get("using") or ()])
            natural = join.args.get("method") == "NATURAL"
            is_joined = any(join.args.get(name) for name in ("kind", "side", "on")) or using or natural
            if is_joined or isinstance(join.this, exp.Lateral):
                groups[-1] = rel.JoinedTables(groups[-1], right, using, natural=natural)
            else:
                groups.append(right)
        return groups

    def source(self, node: exp.Expr) -> rel.FromItem:
        """Translate an element of FROM, with its own joins."""
        self._work.step()
        first = self._alone(node)
        for pivot in node.args.get("pivots") or ():
            first = self._pivot(first, pivot)
        joins = node.args.get("joins")
        return rel.FromList(tuple(self._translate_joins(first, joins))) if joins else first

    def _pivot(self, source: rel.FromItem, pivot: exp.Expr) -> rel.FromItem:
        """Translate PIVOT or UNPIVOT: each of its columns may be made of everything before it."""
        rows = rel.Select((rel.RowStar(None, rel.WholeRow()),), (source,))
        return rel.DerivedTable(rows, self.alias(pivot))

    def _alone(self, node: exp.Expr) -> rel.FromItem:
        if isinstance(node, exp.Table):
            return self._table(node)
        if isinstance(node, exp.Lateral):
            inner = node.this
            if isinstance(inner, exp.Subquery | exp.Query | exp.Values):
                return rel.DerivedTable(self.query(inner), self.alias(node), lateral=True)
            return self._function(inner, self.alias(node))
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) and not node.alias:
            return self.source(node.this)
        if isinstance(node, exp.Subquery | exp.Values):
            return rel.DerivedTable(self.query(node), self.alias(node))
        return _UNKNOWN_ROWS

    def _function(self, node: exp.Expr, alias: rel.AliasList | None) -> rel.FromItem:
        """Translate a function in FROM, whose columns can have any names."""
        columns = alias.columns if alias is not None else ()
        name = rel.AliasList(alias.name) if alias is not None else None
        return rel.FunctionRows("", (rel.RowsOf(self.expressions.of(node), None),), columns=columns, alias=name)

    def _table(self, table: exp.Table) -> rel.FromItem:
        name = self.table_name(table)
        if name is not None:
            return name
        if isinstance(table.this, exp.Anonymous) and table.args.get("db") is None:
            return self._function(table.this, self.alias(table))
        return _UNKNOWN_ROWS

    def alias(self, node: exp.Expr) -> rel.AliasList | None:
        if not node.alias:
            return None
        columns = tuple(map(self.expressions.column_text, node.alias_column_names))
        return rel.AliasList(self.expressions.table_text(node.alias), columns)


def joins_of(node: exp.Expr) -> Iterator[exp.Join]:
    """Return the joins of a query, and those in brackets after FROM."""
    waiting = [node.args.get("from_"), *(node.args.get("joins") or ())]
    while waiting:
        join = waiting.pop()
        if isinstance(join, exp.Join):
            yield join
        if isinstance(join, exp.From | exp.Join | exp.Table) or (
            isinstance(join, exp.Subquery) and isinstance(join.this, exp.Table)
        ):
            waiting += [join.this, *(join.args.get("joins") or ())]
