"""Translation of sqlglot's tree to relational terms: SELECT, set operations, WITH, FROM, PIVOT, RETURNING, and the
columns and queries in an expression.

Everything inside an expression counts, except in EXISTS. Any kind of node that is not listed makes the expression
unknown. The condition of CONNECT BY, and the arguments of a function in FROM, decide how many rows there are: they
count for every computed column of the query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sqlglot import exp

from postern.inspection.lineage import relations as rel
from postern.inspection.lineage.scope import Sources, WorkBudget
from postern.protocols.oracledb.lineage.oracle_spelling import (
    FOREIGN,
    HELD,
    PLAIN,
    SOFT,
    SpelledOracle,
    unknown_function_name,
)

# Nodes that consist of their parts. Functions are among them: `oracle_spelling` has renamed all but these.
_PLAIN: Final = (
    exp.Between, exp.Binary, exp.Case, exp.Condition, exp.Distinct, exp.Escape, exp.If, exp.In, exp.Order,
    exp.Ordered, exp.Paren, exp.Tuple, exp.Unary, exp.Window, exp.WithinGroup,
)  # fmt: skip
_OTHER: Final = (exp.Anonymous, exp.AnonymousAggFunc, exp.Aliases, exp.Dot, exp.Func)
_EMPTY: Final = (exp.Boolean, exp.HexString, exp.Literal, exp.National, exp.Null, exp.Placeholder)
_CLAUSES: Final = ("where", "having", "group", "order", "limit", "offset", "connect")
_UNKNOWN_ROWS: Final = rel.UnknownRows()


class OracleExpressions:
    """Translates expressions. `held` are the sources of what the session holds."""

    def __init__(self, queries: OracleQueries, work: WorkBudget, held: Sources) -> None:
        self._queries = queries
        self._work = work
        self._held = held

    def of(self, value: exp.Expr) -> rel.Expression:
        """Translate a whole expression. Only a column that is passed through unchanged remains one."""
        while isinstance(value, exp.Alias | exp.Paren | exp.Ordered):
            value = value.this
        if isinstance(value, exp.Column):
            return _reference(value)
        parts: list[rel.Expression] = []
        self._add(value, parts)
        return rel.Made(tuple(parts)) if parts else rel.CONSTANT

    def all(self, values: Iterable[exp.Expr]) -> rel.Expression:
        return rel.Made(tuple([self.of(value) for value in values]))

    def _add(self, node: exp.Expr, expressions: list[rel.Expression]) -> None:
        """Add the parts of a node to `expressions`."""
        self._work.step()
        if isinstance(node, _EMPTY):
            return
        if isinstance(node, exp.Column):
            expressions.append(_reference(node))
        elif isinstance(node, exp.Exists):
            for child in node.iter_expressions():
                is_query = isinstance(child, exp.Query)
                query = self._queries.query(child) if is_query else None
                expressions.append(rel.InnerQuery(query, exists=True) if is_query else rel.UNKNOWABLE)
        elif isinstance(node, exp.Query):
            expressions.append(rel.InnerQuery(self._queries.query(node)))
        else:
            self._add_call(node, expressions)

    def _add_call(self, node: exp.Expr, expressions: list[rel.Expression]) -> None:
        name = unknown_function_name(node)
        if name in (PLAIN, HELD):
            if name == HELD:
                expressions.append(rel.KnownValue(self._held))
            if any(isinstance(each, exp.Star) for each in node.expressions):
                expressions.append(rel.WholeRow())
            for each in node.expressions:
                if not isinstance(each, exp.Star):
                    self._add(each, expressions)
        elif isinstance(node, exp.Count):
            self._add_counted(node, expressions)
        elif name == FOREIGN or (isinstance(node, _OTHER) and not isinstance(node, exp.Case | exp.If | exp.Binary)):
            expressions.append(rel.UNKNOWABLE)
        elif isinstance(node, exp.Alias):
            self._add(node.this, expressions)
        elif isinstance(node, _PLAIN):
            for child in node.iter_expressions():
                is_rank = isinstance(child, exp.Identifier) and node.args.get("over") == "KEEP"
                if not is_rank:  # DENSE_RANK of KEEP, and no name of a window
                    self._add(child, expressions)
        else:
            expressions.append(rel.UNKNOWABLE)

    def _add_counted(self, node: exp.Count, expressions: list[rel.Expression]) -> None:
        for value in [each for part in node.iter_expressions() for each in _distinct_values(part)]:
            column = passed_through(value)
            if column is not None:
                expressions.append(rel.Counted(column))
            elif not isinstance(value, exp.Star):
                self._add(value, expressions)


def _is_of_table(target: rel.OutputColumn) -> bool:
    """Return whether a column is passed through, and is no pseudocolumn such as CONNECT_BY_ISLEAF."""
    return target.column is not None and not target.column.is_call


def passed_through(value: exp.Expr) -> rel.ColumnName | None:
    """Return the column that a value is, under any alias."""
    while isinstance(value, exp.Alias | exp.Paren):
        value = value.this
    name = _reference(value) if isinstance(value, exp.Column) else None
    return name if isinstance(name, rel.ColumnName) else None


def _distinct_values(value: exp.Expr) -> list[exp.Expr]:
    return list(value.expressions) if isinstance(value, exp.Distinct) else [value]


def _reference(column: exp.Column) -> rel.Expression:
    if column.args.get("catalog") is not None or not isinstance(column.this, exp.Identifier | exp.Star):
        return rel.UNKNOWABLE
    if isinstance(column.this, exp.Star):
        return rel.WholeRow(_name(column.args.get("table")), column.db)
    name = column.name
    return rel.ColumnName(name.removeprefix(SOFT), _name(column.args.get("table")), column.db, name.startswith(SOFT))


def _name(node: object) -> str:
    return node.name if isinstance(node, exp.Identifier) else ""


class OracleQueries:
    """The Oracle front end of relational terms."""

    def __init__(self, spelled: SpelledOracle, work: WorkBudget, held: Sources) -> None:
        self._work = work
        self.tree = spelled.tree
        self.expressions = OracleExpressions(self, work, held)

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
        if not isinstance(node, exp.Select):
            return None
        targets = self.targets(node.expressions)
        numbering = self._numbering(node)
        if numbering is not None:
            targets = [
                target
                if not isinstance(target, rel.OutputColumn) or _is_of_table(target)
                else rel.OutputColumn(target.name, rel.Made((target.value, numbering)))
                for target in targets
            ]
        return rel.Select(targets, self.sources(node), self._conditions(node))

    def _numbering(self, node: exp.Select) -> rel.Expression | None:
        """Return the values that decide how many rows there are for each, and how deep they are: every computed column
        can show their number, as LEVEL, ROWNUM and COUNT do."""
        values: list[rel.Expression] = []
        connect = node.args.get("connect")
        if isinstance(connect, exp.Connect):
            condition = connect.args.get("connect")
            values.append(self.expressions.of(condition) if isinstance(condition, exp.Expr) else rel.UNKNOWABLE)
        source = node.args.get("from_")
        for place in [source, *(node.args.get("joins") or ())]:
            table = place.this if isinstance(place, exp.From | exp.Join) else None
            if isinstance(table, exp.Table) and isinstance(table.this, exp.Anonymous):
                values.append(self.expressions.of(table.this))
        values = [value for value in values if value != rel.CONSTANT]
        return rel.Made(tuple(values)) if values else None

    def targets(self, values: Iterable[exp.Expr]) -> list[rel.OutputColumn | rel.Star | rel.RowStar]:
        """Translate the list after SELECT or RETURNING."""
        return [self._target(value) for value in values]

    def sources(self, node: exp.Expr) -> tuple[rel.FromItem, ...]:
        """Translate the FROM of a query."""
        source = node.args.get("from_")
        joins = node.args.get("joins") or ()
        return tuple(self._translate_joins(self.source(source.this), joins)) if isinstance(source, exp.From) else ()

    def with_ctes(self, node: exp.Expr, query: rel.Query) -> rel.Query:
        """Return a query within the CTEs of its node. Each sees those before it, and itself if it lists its columns."""
        clause = node.args.get("with_")
        for expression in reversed(clause.expressions) if isinstance(clause, exp.With) else ():
            columns = tuple(expression.alias_column_names)
            table = rel.CommonTable(expression.alias, self.query(expression.this), columns)
            query = rel.NestedQuery(query, ctes=rel.With((table,), recursive=bool(columns)))
        return query

    def _target(self, value: exp.Expr) -> rel.OutputColumn | rel.Star | rel.RowStar:
        if isinstance(value, exp.Star):
            return rel.Star()
        if isinstance(value, exp.Column) and isinstance(value.this, exp.Star):
            return rel.Star(_name(value.args.get("table")), value.db)
        name = value.args["alias"].name if isinstance(value, exp.Alias) else None
        if isinstance(value, exp.Column) and not value.name.startswith(SOFT):
            name = value.name
        return rel.OutputColumn(name, self.expressions.of(value), passed_through(value))

    def _conditions(self, node: exp.Expr) -> rel.Conditions | None:
        """Return the clauses that only filter or sort."""
        arguments = [*[node.args.get(name) for name in _CLAUSES], *[join.args.get("on") for join in _joins(node)]]
        clauses = [clause for clause in arguments if isinstance(clause, exp.Expr)]

        def conditions(is_needed: bool) -> Sequence[rel.Expression]:
            return [
                self.expressions.of(child)
                for clause in clauses
                if is_needed
                for child in (clause.iter_expressions() if _is_clause(clause) else (clause,))
            ]

        return conditions if clauses else None

    def _row(self, row: exp.Expr) -> tuple[rel.OutputColumn, ...]:
        cells = row.expressions if isinstance(row, exp.Tuple) else [row]
        return tuple([rel.OutputColumn(None, self.expressions.of(cell), passed_through(cell)) for cell in cells])

    # FROM

    def _translate_joins(self, first: rel.FromItem, joins: Iterable[exp.Join]) -> list[rel.FromItem]:
        """Translate joins. A comma binds less tightly than JOIN."""
        groups = [first]
        for join in joins:
            right = self.source(join.this)
            using = tuple([each.name for each in join.args.get("using") or ()])
            natural = join.args.get("method") == "NATURAL"
            is_apply = isinstance(join.this, exp.Lateral) and not join.args.get("kind")
            if join.args.get("kind") or join.args.get("side") or using or natural or join.args.get("on") or is_apply:
                groups[-1] = rel.JoinedTables(groups[-1], right, using, natural=natural)
            else:
                groups.append(right)
        return groups

    def source(self, node: exp.Expr) -> rel.FromItem:
        """Translate an element of FROM, with its own joins."""
        self._work.step()
        first = self._alone(node)
        for pivot in node.args.get("pivots") or ():
            rows = rel.Select((rel.RowStar(None, rel.WholeRow()),), (first,))
            first = rel.DerivedTable(rows, _alias(pivot))  # each of its columns may be made of everything before it
        joins = node.args.get("joins")
        return rel.FromList(tuple(self._translate_joins(first, joins))) if joins else first

    def _alone(self, node: exp.Expr) -> rel.FromItem:
        if isinstance(node, exp.Table):
            return self._table(node)
        if isinstance(node, exp.Lateral):
            inner = node.this
            if isinstance(inner, exp.Subquery | exp.Query):
                return rel.DerivedTable(self.query(inner), _alias(node), lateral=True)
            return self._function(inner, _alias(node))
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) and not node.alias:
            return self.source(node.this)
        if isinstance(node, exp.Subquery | exp.Values):
            return rel.DerivedTable(self.query(node), _alias(node))
        return _UNKNOWN_ROWS

    def _function(self, node: exp.Expr, alias: rel.AliasList | None) -> rel.FromItem:
        """Translate a function in FROM, whose columns can have any names."""
        name = rel.AliasList(alias.name) if alias is not None else None
        columns = alias.columns if alias is not None else ()
        return rel.FunctionRows("", (rel.RowsOf(self.expressions.of(node), None),), columns=columns, alias=name)

    def _table(self, table: exp.Table) -> rel.FromItem:
        name = self.table_name(table)
        if name is not None:
            return name
        if isinstance(table.this, exp.Anonymous) and table.args.get("db") is None:
            return self._function(table.this, _alias(table))
        return _UNKNOWN_ROWS

    def table_name(self, table: exp.Expr) -> rel.TableName | None:
        """Return the name of a table or view; None for anything else."""
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            return None
        if table.args.get("catalog") is not None:
            return None
        return rel.TableName(_name(table.this), _name(table.args.get("db")), _alias(table))


def _alias(node: exp.Expr) -> rel.AliasList | None:
    return rel.AliasList(node.alias, tuple(node.alias_column_names)) if node.alias else None


def _is_clause(node: exp.Expr) -> bool:
    return isinstance(
        node, exp.Where | exp.Having | exp.Group | exp.Order | exp.Limit | exp.Offset | exp.Fetch | exp.Connect
    )


def _joins(node: exp.Expr) -> Iterator[exp.Join]:
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
