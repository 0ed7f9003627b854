"""Translation of sqlglot's tree to relational terms: SELECT, VALUES, set operations, WITH, FROM, RETURNING, changes,
and the columns, queries and variables in an expression.

Everything inside an expression counts, except in EXISTS. Any kind of node that is not listed makes the expression
unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from sqlglot import exp

from postern.inspection.lineage import relations as rel
from postern.inspection.lineage.scope import NOTHING, Sources, WorkBudget
from postern.inspection.lineage.tree_translation import FOREIGN, PLAIN, joins_of, unknown_function_name
from postern.protocols.mysql.lineage.mysql_builtins import BARE, COUNTING_SETTINGS, LAST_ID, QUOTING_SETTINGS
from postern.protocols.mysql.lineage.mysql_lineage_catalogue import SessionState
from postern.protocols.mysql.lineage.mysql_names import column_name
from postern.protocols.mysql.lineage.mysql_spelling import LAST, SpelledQuery

# Nodes that consist of their parts. Functions are among them: `mysql_spelling` has renamed the others.
_PLAIN: Final = (
    exp.Alias, exp.Between, exp.Binary, exp.Case, exp.Cast, exp.Collate, exp.Condition, exp.Distinct, exp.Escape,
    exp.Filter, exp.Func, exp.If, exp.IgnoreNulls, exp.In, exp.Interval, exp.Introducer, exp.JSONKeyValue,
    exp.JSONValue, exp.Limit, exp.Order, exp.Ordered, exp.Paren, exp.RespectNulls, exp.Tuple, exp.Unary, exp.Window,
    exp.WindowSpec, exp.WithinGroup,
)  # fmt: skip
# Exceptions among those.
_OTHER: Final = (exp.Anonymous, exp.AnonymousAggFunc, exp.Aliases, exp.Dot, exp.Lambda, exp.Kwarg, exp.JSONTable)
# Constants, and options.
_EMPTY: Final = (
    exp.BitString, exp.Boolean, exp.CharacterSet, exp.DataType, exp.DataTypeParam, exp.HexString, exp.JSONPath,
    exp.JSONPathPart, exp.Literal, exp.National, exp.Null, exp.Star,
)  # fmt: skip
_ANONYMOUS: Final = frozenset({PLAIN, "row", "values", "value", "get_format", "json_arrayagg", "median"})
_SEQUENCES: Final = frozenset({"nextval", "lastval"})  # their argument is a name

Windows = Sequence[exp.Expr]
"""The windows that a query names."""


class MysqlExpressions:
    """Translates expressions. `query` translates a query inside an expression; `bind_sources` are the sources of bind
    variables."""

    def __init__(
        self,
        state: SessionState,
        work: WorkBudget,
        spelled: SpelledQuery,
        bind_sources: Sources,
        query: Callable[[exp.Expr], rel.Query],
    ) -> None:
        self._state = state
        self._work = work
        self._spelled = spelled
        self._bind_sources = bind_sources
        self._query = query
        self.windows: Windows = ()

    def of(self, value: exp.Expr) -> rel.Expression:
        """Translate a whole expression. An assignment may take everything in it: in `@a := b or c` only the server
        knows the precedence."""
        if isinstance(value, exp.Column):
            return _reference(value)
        parts: list[rel.Expression] = []
        self._add(value, parts)
        expression: rel.Expression = rel.Made(tuple(parts)) if parts else rel.CONSTANT
        names = (
            [name for node in _inside(value) for name in self.find_assigned_variables(node)]
            if self._spelled.assigns
            else ()
        )
        return rel.Assigned(tuple(names), expression) if names else expression

    def all(self, values: Iterable[exp.Expr]) -> rel.Expression:
        return rel.Made(tuple([self.of(value) for value in values]))

    def find_assigned_variables(self, node: exp.Expr) -> Iterator[str]:
        """Return the variables that a node assigns."""
        if isinstance(node, exp.PropertyEQ):
            name = str(node.this.this.name) if isinstance(node.this, exp.Parameter) else ""
            yield self._spelled.variables.get(name, name)
        elif isinstance(node, exp.Anonymous) and node.expressions and unknown_function_name(node) == LAST:
            yield LAST_ID

    def _add_inside(self, node: exp.Expr, expressions: list[rel.Expression], but: object = None) -> None:
        for child in node.iter_expressions():
            if child is not but:
                self._add(child, expressions)

    def _add(self, node: exp.Expr, expressions: list[rel.Expression]) -> None:
        """Add the parts of a node to `expressions`."""
        self._work.step()
        if isinstance(node, _EMPTY):
            return
        if isinstance(node, exp.Column):
            expressions.append(_reference(node))
        elif isinstance(node, exp.Identifier | exp.Var):
            expressions.append(rel.Word(column_name(node.name)))
        elif isinstance(node, exp.Exists):
            for child in node.iter_expressions():
                is_query = isinstance(child, exp.Query)
                expressions.append(rel.InnerQuery(self._query(child), exists=True) if is_query else rel.UNKNOWABLE)
        elif isinstance(node, exp.Query):
            expressions.append(rel.InnerQuery(self._query(node)))
        elif isinstance(node, exp.Placeholder):
            expressions.append(rel.KnownValue(self._bind_sources))
        elif isinstance(node, exp.Parameter):
            name = node.this.name
            is_name = isinstance(node.this, exp.Var)
            expressions.append(
                rel.VariableValue(self._spelled.variables.get(name, name)) if is_name else rel.UNKNOWABLE
            )
        elif isinstance(node, exp.SessionParameter):
            expressions.append(self._setting(node))
        else:
            self._add_call(node, expressions)

    def _add_call(self, node: exp.Expr, expressions: list[rel.Expression]) -> None:
        name = unknown_function_name(node)
        if name in _SEQUENCES:
            return
        if name == LAST:
            expressions.append(rel.VariableValue(LAST_ID))
            self._add_inside(node, expressions)
        elif name == FOREIGN or (isinstance(node, _OTHER) and name not in _ANONYMOUS):
            expressions.append(rel.UNKNOWABLE)
        elif isinstance(node, exp.Count):
            for value in _arguments_of_count(node):
                column = passed_through(value)
                if column is None:
                    self._add(value, expressions)
                else:
                    expressions.append(rel.Counted(column))
        elif isinstance(node, exp.Window):
            alias = node.args.get("alias")
            self._add_inside(node, expressions, but=alias)
            # `over w` may mean each window of the query, and these may refer to each other.
            for window in self.windows if alias is not None else ():
                self._add_inside(window, expressions, but=window.args.get("alias"))
        elif isinstance(node, _PLAIN) or name in _ANONYMOUS:
            self._add_inside(node, expressions)
        else:
            expressions.append(rel.UNKNOWABLE)

    def _setting(self, node: exp.SessionParameter) -> rel.Expression:
        name = node.name.lower()
        if name in COUNTING_SETTINGS:
            return rel.UNKNOWABLE
        if name in QUOTING_SETTINGS:
            return rel.VariableValue(QUOTING_SETTINGS[name])
        return rel.CONSTANT if self._state.settings and not self._state.lost else rel.UNKNOWABLE


def passed_through(value: exp.Expr) -> rel.ColumnName | None:
    """Return the column that a value is, under any alias."""
    while isinstance(value, exp.Alias | exp.Paren):
        value = value.this
    name = _reference(value) if isinstance(value, exp.Column) else None
    return name if isinstance(name, rel.ColumnName) else None


def _reference(column: exp.Column) -> rel.Expression:
    if column.args.get("catalog") is not None:
        return rel.UNKNOWABLE
    if isinstance(column.this, exp.Star):
        return rel.WholeRow(column.table, column.db)
    name = column_name(column.name)
    is_call = name in BARE and not column.this.args.get("quoted")
    return rel.ColumnName(name, column.table, column.db, is_call)


def _inside(value: exp.Expr) -> Iterator[exp.Expr]:
    """Return the nodes of an expression without the queries in it."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for child in node.iter_expressions() if not isinstance(child, exp.Query)]


def _arguments_of_count(node: exp.Count) -> list[exp.Expr]:
    """Return what COUNT counts."""
    values = [*node.iter_expressions()]
    return [each for value in values for each in (value.expressions if isinstance(value, exp.Distinct) else [value])]


_CLAUSES: Final = ("where", "having", "group", "order", "limit", "offset")
_UNKNOWN_ROWS: Final = rel.UnknownRows()


class MysqlQueries:
    """The MySQL and MariaDB front end of relational terms. `bind_sources` are the sources of bind variables."""

    def __init__(
        self, state: SessionState, work: WorkBudget, spelled: SpelledQuery, bind_sources: Sources = NOTHING
    ) -> None:
        self._work = work
        self._doubtful = spelled.doubtful
        self._assigns = spelled.assigns
        self.expressions = MysqlExpressions(state, work, spelled, bind_sources, self.query)

    def query(self, node: exp.Expr) -> rel.Query:
        around, self.expressions.windows = self.expressions.windows, ()
        try:
            return self._query(node)
        finally:
            self.expressions.windows = around

    def targets(self, values: Iterable[exp.Expr]) -> list[rel.OutputColumn | rel.Star]:
        """Translate the list after SELECT or RETURNING."""
        return [self._target(value) for value in values]

    def _query(self, node: exp.Expr) -> rel.Query:
        self._work.step()
        ctes = self._with(node)
        if isinstance(node, exp.Subquery):
            conditions, query = self._conditions(node), self.query(node.this)
            return rel.NestedQuery(query, conditions, ctes) if conditions or ctes else query
        if isinstance(node, exp.SetOperation):
            left, right = self._query(node.this), self.query(node.expression)
            self.expressions.windows = ()
            return rel.SetOperation(left, right, self._conditions(node), ctes)
        if isinstance(node, exp.Values):
            return rel.ValueRows(tuple([self._row(row) for row in node.expressions]), ctes=ctes)
        return self._select(node, ctes) if isinstance(node, exp.Select) else None

    def _with(self, node: exp.Expr) -> rel.With | None:
        clause = node.args.get("with_")
        if not isinstance(clause, exp.With):
            return None
        tables = [
            rel.CommonTable(
                expression.alias, self.query(expression.this), tuple(map(column_name, expression.alias_column_names))
            )
            for expression in clause.expressions
        ]
        return rel.With(tuple(tables), bool(clause.args.get("recursive")))

    def _select(self, select: exp.Select, ctes: rel.With | None) -> rel.Select:
        source = select.args.get("from_")
        sources: list[rel.FromItem] = []
        self.expressions.windows = ()
        if isinstance(source, exp.From):
            sources = self._translate_joins(self._source(source.this), select.args.get("joins") or ())
        self.expressions.windows = select.args.get("windows") or ()
        return rel.Select(self.targets(select.expressions), tuple(sources), self._conditions(select), ctes)

    def _conditions(self, node: exp.Expr) -> rel.Conditions | None:
        """Return the clauses that only filter or sort. They are not in the result, but their assignments count."""
        arguments = [*[node.args.get(name) for name in _CLAUSES], *[join.args.get("on") for join in joins_of(node)]]
        clauses = [clause for clause in arguments if isinstance(clause, exp.Expr)]
        windows = self.expressions.windows

        def conditions(is_needed: bool) -> Sequence[rel.Expression]:
            around, self.expressions.windows = self.expressions.windows, windows
            try:
                return [
                    self.expressions.of(child)
                    for clause in clauses
                    if is_needed or _puts(clause)
                    for child in (clause.iter_expressions() if _is_clause(clause) else (clause,))
                ]
            finally:
                self.expressions.windows = around

        return conditions if clauses else None

    def _row(self, row: exp.Expr) -> tuple[rel.OutputColumn, ...]:
        cells = row.expressions if isinstance(row, exp.Tuple | exp.Anonymous) else [row]
        return tuple([rel.OutputColumn(None, self.expressions.of(cell), passed_through(cell)) for cell in cells])

    def _target(self, value: exp.Expr) -> rel.OutputColumn | rel.Star:
        if isinstance(value, exp.Star):
            return rel.Star()
        if isinstance(value, exp.Column) and isinstance(value.this, exp.Star):
            return rel.Star(value.table, value.db)
        return rel.OutputColumn(self._name(value), self.expressions.of(value), passed_through(value))

    def _name(self, value: exp.Expr) -> str | None:
        """Return a column's name; None if unknown. An unnamed column is named by its text."""
        if isinstance(value, exp.Alias):
            alias = value.args["alias"]
            is_doubtful = alias.args.get("quoted") and alias.name in self._doubtful
            return None if is_doubtful else column_name(alias.name)
        return column_name(value.name) if isinstance(value, exp.Column) else None

    # FROM

    def _translate_joins(self, first: rel.FromItem, joins: Iterable[exp.Join]) -> list[rel.FromItem]:
        """Translate joins. A comma binds less tightly than JOIN."""
        groups = [first]
        for join in joins:
            right = self._source(join.this)
            if any(join.args.get(name) for name in ("kind", "side", "method")):
                names = tuple([column_name(column.name) for column in join.args.get("using") or ()])
                is_right = join.args.get("side") == "RIGHT"
                groups[-1] = rel.JoinedTables(groups[-1], right, names, bool(join.args.get("method")), is_right)
            else:
                groups.append(right)
        return groups

    def _source(self, node: exp.Expr) -> rel.FromItem:
        self._work.step()
        first = self._alone(node)
        joins = node.args.get("joins")
        return rel.FromList(tuple(self._translate_joins(first, joins))) if joins else first

    def _alone(self, node: exp.Expr) -> rel.FromItem:
        """Translate a table without its own joins."""
        if isinstance(node, exp.Table):
            return self._table(node)
        if isinstance(node, exp.Lateral):
            return rel.DerivedTable(self.query(node.this), _alias(node), lateral=True)
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) and not node.alias:
            return self._source(node.this)
        if isinstance(node, exp.Subquery | exp.Values):
            return rel.DerivedTable(self.query(node), _alias(node))
        return _UNKNOWN_ROWS

    def _table(self, table: exp.Table) -> rel.FromItem:
        if isinstance(table.this, exp.JSONTable):
            # The columns' names are known, and all have the same sources.
            return rel.FunctionRows("", (rel.RowsOf(self.expressions.of(table.this.this), None),), alias=_alias(table))
        if not isinstance(table.this, exp.Identifier) or table.args.get("catalog") is not None:
            return _UNKNOWN_ROWS
        if not table.db and table.name.lower() == "dual" and not table.this.args.get("quoted"):
            return rel.FromList()
        return rel.TableName(table.name, table.db, _alias(table))

    # INSERT, REPLACE, UPDATE and DELETE

    def change(self, tree: exp.Expr) -> rel.ChangeStatement:
        """Translate a change. INSERT, REPLACE and DELETE can return rows, including the values just written; UPDATE
        returns none."""
        target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        source, conflict = tree.args.get("expression"), tree.args.get("conflict")
        has_query = isinstance(source, exp.Query)
        written: list[rel.Expression] = [] if isinstance(tree, exp.Delete) else [rel.CONSTANT]
        parts = (None if has_query else source, conflict)
        written += [self.expressions.all(part.expressions) for part in parts if isinstance(part, exp.Expr)]
        returning = tree.args.get("returning")
        return rel.ChangeStatement(
            rel.TableName(target.name, target.db, _alias(target)) if isinstance(target, exp.Table) else None,
            query=self.query(source) if isinstance(source, exp.Query) else None,
            has_query=has_query,
            is_loose=True,
            assigned=tuple([("", value) for value in written]),
            effects=tuple(self._effects(tree)),
            returning=self.targets(returning.expressions) if isinstance(returning, exp.Returning) else (),
            ctes=self._with(tree),
        )

    def _effects(self, tree: exp.Expr) -> Iterator[rel.Assigned]:
        """Return the assignments elsewhere in a change. They are not in the result, and may put anything into a
        variable."""
        for node in tree.walk() if self._assigns else ():
            names = tuple(self.expressions.find_assigned_variables(node))
            if names and unknown_function_name(node) == LAST:
                yield rel.Assigned(names, self.expressions.all(node.expressions))
            elif names and isinstance(node.this, exp.Parameter):
                yield rel.Assigned(names, rel.UNKNOWABLE)


def _alias(node: exp.Expr) -> rel.AliasList | None:
    if not node.alias:
        return None
    return rel.AliasList(node.alias, tuple(map(column_name, node.alias_column_names)))


def _is_clause(node: exp.Expr) -> bool:
    return isinstance(node, exp.Where | exp.Having | exp.Group | exp.Order | exp.Limit | exp.Offset)


def _puts(clause: exp.Expr) -> bool:
    """Return True if the clause assigns a variable."""
    return any(isinstance(node, exp.PropertyEQ | exp.Anonymous) for node in clause.walk())
