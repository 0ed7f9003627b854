"""Translation of sqlglot's tree to relational terms: SELECT, VALUES, set operations, WITH, FROM, APPLY, PIVOT, OUTPUT,
changes, and the columns, queries and variables in an expression.

Everything inside an expression counts, except in EXISTS. Any kind of node that is not listed makes the expression
unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from postern.inspection.lineage import relations as rel
from postern.inspection.lineage.scope import WorkBudget
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.protocols.mssql.dialect.tsql_texts import SERVER_VARIABLES
from postern.protocols.mssql.lineage.tsql_builtins import CALM_VARIABLES, IDENTITY_VARIABLES
from postern.protocols.mssql.lineage.tsql_lineage_catalogue import OTHER_DATABASE, TsqlState
from postern.protocols.mssql.lineage.tsql_names import column_name
from postern.protocols.mssql.lineage.tsql_spelling import (
    ACTION,
    FOREIGN,
    PLAIN,
    TEMPORARY,
    SpelledTsql,
    unknown_function_name,
)

# Nodes that consist of their parts. Functions are among them: `tsql_spelling` has renamed all but these.
_PLAIN: Final = (
    exp.Between, exp.Binary, exp.Case, exp.Condition, exp.Distinct, exp.Escape, exp.If, exp.In, exp.Order,
    exp.Ordered, exp.Paren, exp.Tuple, exp.Unary, exp.Window, exp.WithinGroup,
)  # fmt: skip
_OTHER: Final = (exp.Anonymous, exp.AnonymousAggFunc, exp.Aliases, exp.Dot, exp.Func)
_EMPTY: Final = (exp.Boolean, exp.HexString, exp.Literal, exp.National, exp.Null, exp.Placeholder)
_CLAUSES: Final = ("where", "having", "group", "order", "limit", "offset")
_UNKNOWN_ROWS: Final = rel.UnknownRows()


@dataclass(frozen=True, slots=True)
class TsqlContext:
    """What a translation depends on. `knows_table` says whether a name without a schema may be that of a table."""

    state: TsqlState
    work: WorkBudget
    knows_table: Callable[[str], bool]


class TsqlExpressions:
    """Translates expressions. `query` translates a query inside an expression."""

    def __init__(self, context: TsqlContext, variables: dict[str, str], query: Callable[[exp.Expr], rel.Query]) -> None:
        self._context = context
        self._variables = variables
        self._query = query

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

    def variable_name(self, node: exp.Expr) -> str:
        """Return the name of a variable with its @, as it was written; empty for anything else."""
        if not isinstance(node, exp.Parameter) or not isinstance(node.this, exp.Var):
            return ""
        return self._variables.get(node.this.name, "")

    def _add_inside(self, node: exp.Expr, expressions: list[rel.Expression]) -> None:
        for child in node.iter_expressions():
            self._add(child, expressions)

    def _add(self, node: exp.Expr, expressions: list[rel.Expression]) -> None:
        """Add the parts of a node to `expressions`."""
        self._context.work.step()
        if isinstance(node, _EMPTY):
            return
        if isinstance(node, exp.Column):
            expressions.append(_reference(node))
        elif isinstance(node, exp.Exists):
            for child in node.iter_expressions():
                is_query = isinstance(child, exp.Query)
                expressions.append(rel.InnerQuery(self._query(child), exists=True) if is_query else rel.UNKNOWABLE)
        elif isinstance(node, exp.Query):
            expressions.append(rel.InnerQuery(self._query(node)))
        elif isinstance(node, exp.Parameter):
            expressions.append(self._variable(self.variable_name(node)))
        else:
            self._add_call(node, expressions)

    def _add_call(self, node: exp.Expr, expressions: list[rel.Expression]) -> None:
        name = unknown_function_name(node)
        if name == ACTION:
            return
        if name == PLAIN:
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
            self._add_inside(node, expressions)
        else:
            expressions.append(rel.UNKNOWABLE)

    def _add_counted(self, node: exp.Count, expressions: list[rel.Expression]) -> None:
        counted = [*node.iter_expressions()]
        for value in [each for part in counted for each in _distinct_values(part)]:
            column = passed_through(value)
            if column is not None:
                expressions.append(rel.Counted(column))
            elif not isinstance(value, exp.Star):
                self._add(value, expressions)

    def _variable(self, name: str) -> rel.Expression:
        state, folded = self._context.state, fold_identifier(name)
        if not name:
            return rel.UNKNOWABLE
        if folded not in SERVER_VARIABLES:
            return rel.VariableValue(folded)
        if folded in IDENTITY_VARIABLES:
            return rel.UNKNOWABLE if state.numbered or state.lost else rel.CONSTANT
        is_calm = folded in CALM_VARIABLES or not (state.queried or state.lost)
        return rel.CONSTANT if is_calm else rel.UNKNOWABLE


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
    return rel.ColumnName(column_name(column.name), _name(column.args.get("table")), column.db)


def _name(node: object) -> str:
    """Return a name as it was written, with the # of a temporary table."""
    return node.name.replace(TEMPORARY, "#") if isinstance(node, exp.Identifier) else ""


class TsqlQueries:
    """The T-SQL front end of relational terms."""

    def __init__(self, context: TsqlContext, spelled: SpelledTsql) -> None:
        self._context = context
        self._ctes = _cte_names(spelled.tree)
        self.expressions = TsqlExpressions(context, spelled.variables, self.query)

    def query(self, node: exp.Expr) -> rel.Query:
        self._context.work.step()
        query = self._without_ctes(node)
        return self.with_ctes(node, _document(query) if _is_document(node) else query)

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
        return rel.Select(self.targets(node.expressions), self.sources(node), self._conditions(node))

    def targets(self, values: Iterable[exp.Expr]) -> list[rel.OutputColumn | rel.Star]:
        """Translate the list after SELECT or OUTPUT."""
        return [self._target(value) for value in values]

    def sources(self, node: exp.Expr) -> tuple[rel.FromItem, ...]:
        """Translate the FROM of a query or a change."""
        source = node.args.get("from_")
        joins = node.args.get("joins") or ()
        return tuple(self._translate_joins(self.source(source.this), joins)) if isinstance(source, exp.From) else ()

    def with_ctes(self, node: exp.Expr, query: rel.Query) -> rel.Query:
        """Return a query within the CTEs of its node. Each sees itself and those before it, but not those after it."""
        clause = node.args.get("with_")
        for expression in reversed(clause.expressions) if isinstance(clause, exp.With) else ():
            columns = tuple(map(column_name, expression.alias_column_names))
            table = rel.CommonTable(expression.alias, self.query(expression.this), columns)
            query = rel.NestedQuery(query, ctes=rel.With((table,), recursive=True))
        return query

    def assigned_variable(self, value: exp.Expr) -> str:
        """Return the variable that an element of a list assigns, as in `SELECT @a = …`; empty if none."""
        return self.expressions.variable_name(value.this) if isinstance(value, exp.EQ) else ""

    def _target(self, value: exp.Expr) -> rel.OutputColumn | rel.Star:
        if isinstance(value, exp.Star):
            return rel.Star()
        if isinstance(value, exp.Column) and isinstance(value.this, exp.Star):
            return rel.Star(_name(value.args.get("table")), value.db)
        variable = self.assigned_variable(value)
        if variable:
            assigned = self.expressions.of(value.args["expression"])
            return rel.OutputColumn(None, rel.Assigned((fold_identifier(variable),), assigned))
        return rel.OutputColumn(_column_title(value), self.expressions.of(value), passed_through(value))

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
            if join.args.get("kind") or join.args.get("side") or isinstance(join.this, exp.Lateral) or _has_on(join):
                groups[-1] = rel.JoinedTables(groups[-1], right)
            else:
                groups.append(right)
        return groups

    def source(self, node: exp.Expr) -> rel.FromItem:
        """Translate an element of FROM, with its own joins."""
        self._context.work.step()
        pivots = node.args.get("pivots") or ()
        first = self._alone(node)
        for pivot in pivots:
            first = self._pivot(first, pivot)
        joins = node.args.get("joins")
        return rel.FromList(tuple(self._translate_joins(first, joins))) if joins else first

    def _alone(self, node: exp.Expr) -> rel.FromItem:
        if isinstance(node, exp.Table):
            return self._table(node)
        if isinstance(node, exp.Lateral):
            inner = node.this
            if isinstance(inner, exp.Subquery | exp.Query | exp.Values):
                return rel.DerivedTable(self.query(inner), _alias(node), lateral=True)
            return self._function(inner, _alias(node))
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) and not node.alias:
            return self.source(node.this)
        if isinstance(node, exp.Subquery | exp.Values):
            return rel.DerivedTable(self.query(node), _alias(node))
        return _UNKNOWN_ROWS

    def _pivot(self, source: rel.FromItem, pivot: exp.Expr) -> rel.FromItem:
        """Translate PIVOT or UNPIVOT: each of its columns may be made of everything before it."""
        rows = rel.Select((rel.RowStar(None, rel.WholeRow()),), (source,))
        return rel.DerivedTable(rows, _alias(pivot))

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
            return self._function(table.this, _alias(table))
        return _UNKNOWN_ROWS

    def table_name(self, table: exp.Expr) -> rel.TableName | None:
        """Return the name of a table, view, temporary table or table variable; None for anything else."""
        if not isinstance(table, exp.Table):
            return None
        alias = _alias(table)
        variable = self.expressions.variable_name(table.this)
        if variable:
            return rel.TableName(fold_identifier(variable), "", alias)
        if not isinstance(table.this, exp.Identifier):
            return None
        name, schema, database = _name(table.this), _name(table.args.get("db")), _name(table.args.get("catalog"))
        if name.startswith("#"):
            return rel.TableName(name, "", alias)
        if database:
            return rel.TableName(name, f"{database}{OTHER_DATABASE}{schema}", alias)
        cte = self._ctes.get(fold_identifier(name))
        if not schema and cte is not None and not self._context.knows_table(name):
            name = cte  # the only thing that it can mean
        return rel.TableName(name, schema, alias)


def _column_title(value: exp.Expr) -> str | None:
    """Return a column's name, which is empty for one that is computed; None if it is unknown."""
    if isinstance(value, exp.Alias):
        return column_name(value.args["alias"].name)
    if isinstance(value, exp.Column):
        return None if value.name.startswith("$") else column_name(value.name)
    is_doubtful = isinstance(value, exp.Paren) or unknown_function_name(value) == ACTION
    return None if is_doubtful else ""


def _document(query: rel.Query) -> rel.Query:
    """Return the query of FOR XML and FOR JSON, whose only column contains everything."""
    rows = rel.DerivedTable(query)
    return rel.Select((rel.OutputColumn(None, rel.WholeRow()),), (rows,))


def _is_document(node: exp.Expr) -> bool:
    return node.args.get("for_") is not None


def _cte_names(tree: exp.Expr) -> dict[str, str]:
    """Return the spelling of each CTE's name, unless several CTEs have names that differ only in their letters."""
    names: dict[str, str] = {}
    for cte in tree.find_all(exp.CTE):
        folded = fold_identifier(cte.alias)
        names[folded] = cte.alias if names.setdefault(folded, cte.alias) == cte.alias else ""
    return {folded: name for folded, name in names.items() if name}


def _alias(node: exp.Expr) -> rel.AliasList | None:
    if not node.alias:
        return None
    return rel.AliasList(node.alias.replace(TEMPORARY, "#"), tuple(map(column_name, node.alias_column_names)))


def _has_on(join: exp.Join) -> bool:
    return join.args.get("on") is not None


def _is_clause(node: exp.Expr) -> bool:
    return isinstance(node, exp.Where | exp.Having | exp.Group | exp.Order | exp.Limit | exp.Offset | exp.Fetch)


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
