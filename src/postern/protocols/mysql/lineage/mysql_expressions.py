"""Expressions of sqlglot's tree, in relational terms: the columns, queries and variables in them.

All that stands inside of an expression counts, but for EXISTS. Kinds of nodes that are not listed here make it unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from sqlglot import exp

from postern.inspection.lineage import relations as rel
from postern.inspection.lineage.scope import Sources, WorkBudget
from postern.protocols.mysql.lineage.mysql_builtins import BARE, COUNTING_SETTINGS, LAST_ID, QUOTING_SETTINGS
from postern.protocols.mysql.lineage.mysql_lineage_catalogue import SessionState
from postern.protocols.mysql.lineage.mysql_names import column_name
from postern.protocols.mysql.lineage.mysql_spelling import FOREIGN, LAST, PLAIN, Spelled, called

# Made of what is inside of them. Functions are: `spelling` has given those that are not another name.
_PLAIN: Final = (
    exp.Alias, exp.Between, exp.Binary, exp.Case, exp.Cast, exp.Collate, exp.Condition, exp.Distinct, exp.Escape,
    exp.Filter, exp.Func, exp.If, exp.IgnoreNulls, exp.In, exp.Interval, exp.Introducer, exp.JSONKeyValue,
    exp.JSONValue, exp.Limit, exp.Order, exp.Ordered, exp.Paren, exp.RespectNulls, exp.Tuple, exp.Unary, exp.Window,
    exp.WindowSpec, exp.WithinGroup,
)  # fmt: skip
# Of these, though they are some of those.
_OTHER: Final = (exp.Anonymous, exp.AnonymousAggFunc, exp.Aliases, exp.Dot, exp.Lambda, exp.Kwarg, exp.JSONTable)
# Constants, and what only says how.
_EMPTY: Final = (
    exp.BitString, exp.Boolean, exp.CharacterSet, exp.DataType, exp.DataTypeParam, exp.HexString, exp.JSONPath,
    exp.JSONPathPart, exp.Literal, exp.National, exp.Null, exp.Star,
)  # fmt: skip
_ANONYMOUS: Final = frozenset({PLAIN, "row", "values", "value", "get_format", "json_arrayagg", "median"})
_SEQUENCES: Final = frozenset({"nextval", "lastval"})  # of which the name is given

Windows = Sequence[exp.Expr]
"""The windows that a query names."""


class MysqlExpressions:
    """`query` writes down a query inside of an expression; `given` is what bind variables are made of."""

    def __init__(
        self,
        state: SessionState,
        work: WorkBudget,
        spelled: Spelled,
        given: Sources,
        query: Callable[[exp.Expr], rel.Query],
    ) -> None:
        self._state = state
        self._work = work
        self._spelled = spelled
        self._given = given
        self._query = query
        self.windows: Windows = ()

    def of(self, value: exp.Expr) -> rel.Expression:
        """Of a whole expression. What it assigns may be all that is in it: of `@a := b or c` only the server knows what
        binds closer."""
        if isinstance(value, exp.Column):
            return _reference(value)
        found: list[rel.Expression] = []
        self._add(value, found)
        made: rel.Expression = rel.Made(tuple(found)) if found else rel.CONSTANT
        names = [name for node in _inside(value) for name in self.assigned(node)] if self._spelled.assigns else ()
        return rel.Assigned(tuple(names), made) if names else made

    def all(self, values: Iterable[exp.Expr]) -> rel.Expression:
        return rel.Made(tuple([self.of(value) for value in values]))

    def assigned(self, node: exp.Expr) -> Iterator[str]:
        """The variable that a node puts a value into."""
        if isinstance(node, exp.PropertyEQ):
            name = str(node.this.this.name) if isinstance(node.this, exp.Parameter) else ""
            yield self._spelled.variables.get(name, name)
        elif isinstance(node, exp.Anonymous) and node.expressions and called(node) == LAST:
            yield LAST_ID

    def _add_inside(self, node: exp.Expr, found: list[rel.Expression], but: object = None) -> None:
        for child in node.iter_expressions():
            if child is not but:
                self._add(child, found)

    def _add(self, node: exp.Expr, found: list[rel.Expression]) -> None:
        """What a node is made of, beside what was `found`."""
        self._work.step()
        if isinstance(node, _EMPTY):
            return
        if isinstance(node, exp.Column):
            found.append(_reference(node))
        elif isinstance(node, exp.Identifier | exp.Var):
            found.append(rel.Word(column_name(node.name)))
        elif isinstance(node, exp.Exists):
            for child in node.iter_expressions():
                is_query = isinstance(child, exp.Query)
                found.append(rel.InnerQuery(self._query(child), exists=True) if is_query else rel.UNKNOWABLE)
        elif isinstance(node, exp.Query):
            found.append(rel.InnerQuery(self._query(node)))
        elif isinstance(node, exp.Placeholder):
            found.append(rel.KnownValue(self._given))
        elif isinstance(node, exp.Parameter):
            name = node.this.name
            is_name = isinstance(node.this, exp.Var)
            found.append(rel.VariableValue(self._spelled.variables.get(name, name)) if is_name else rel.UNKNOWABLE)
        elif isinstance(node, exp.SessionParameter):
            found.append(self._setting(node))
        else:
            self._add_call(node, found)

    def _add_call(self, node: exp.Expr, found: list[rel.Expression]) -> None:
        name = called(node)
        if name in _SEQUENCES:
            return
        if name == LAST:
            found.append(rel.VariableValue(LAST_ID))
            self._add_inside(node, found)
        elif name == FOREIGN or (isinstance(node, _OTHER) and name not in _ANONYMOUS):
            found.append(rel.UNKNOWABLE)
        elif isinstance(node, exp.Count):
            for value in _counted(node):
                column = passed_through(value)
                if column is None:
                    self._add(value, found)
                else:
                    found.append(rel.Counted(column))
        elif isinstance(node, exp.Window):
            alias = node.args.get("alias")
            self._add_inside(node, found, but=alias)
            # `over w` may mean each window of the query, and these may be made of each other.
            for window in self.windows if alias is not None else ():
                self._add_inside(window, found, but=window.args.get("alias"))
        elif isinstance(node, _PLAIN) or name in _ANONYMOUS:
            self._add_inside(node, found)
        else:
            found.append(rel.UNKNOWABLE)

    def _setting(self, node: exp.SessionParameter) -> rel.Expression:
        name = node.name.lower()
        if name in COUNTING_SETTINGS:
            return rel.UNKNOWABLE
        if name in QUOTING_SETTINGS:
            return rel.VariableValue(QUOTING_SETTINGS[name])
        return rel.CONSTANT if self._state.settings and not self._state.lost else rel.UNKNOWABLE


def passed_through(value: exp.Expr) -> rel.ColumnName | None:
    """The column that a value is, under whatever alias."""
    while isinstance(value, exp.Alias | exp.Paren):
        value = value.this
    found = _reference(value) if isinstance(value, exp.Column) else None
    return found if isinstance(found, rel.ColumnName) else None


def _reference(column: exp.Column) -> rel.Expression:
    if column.args.get("catalog") is not None:
        return rel.UNKNOWABLE
    if isinstance(column.this, exp.Star):
        return rel.WholeRow(column.table, column.db)
    name = column_name(column.name)
    is_call = name in BARE and not column.this.args.get("quoted")
    return rel.ColumnName(name, column.table, column.db, is_call)


def _inside(value: exp.Expr) -> Iterator[exp.Expr]:
    """An expression without the queries in it."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for child in node.iter_expressions() if not isinstance(child, exp.Query)]


def _counted(node: exp.Count) -> list[exp.Expr]:
    """What it counts."""
    values = [*node.iter_expressions()]
    return [each for value in values for each in (value.expressions if isinstance(value, exp.Distinct) else [value])]
