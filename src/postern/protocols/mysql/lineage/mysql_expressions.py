"""What a value is made of: an expression of sqlglot's tree, seen from the names around it.

All that stands inside of an expression counts, but for EXISTS. Kinds of nodes that are not listed here make it unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from sqlglot import exp

from postern.inspection.lineage.scope import (
    COMPUTED,
    NOTHING,
    Ctes,
    Filters,
    Out,
    Plain,
    Scope,
    Sources,
    WorkBudget,
    is_nothing_else,
    merged,
    union,
)
from postern.protocols.mysql.lineage.mysql_builtins import BARE, COUNTING_SETTINGS, LAST_ID, QUOTING_SETTINGS
from postern.protocols.mysql.lineage.mysql_lineage_catalogue import SessionState
from postern.protocols.mysql.lineage.mysql_names import (
    column_name,
    column_of,
    is_there,
    items_of,
    may_be,
    named,
    plain_of,
)
from postern.protocols.mysql.lineage.mysql_spelling import FOREIGN, LAST, PLAIN

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

Query = Callable[[exp.Expr, Scope | None, Ctes], list[Out]]


class Variables:
    """What variables of the user's hold: `before` the statement, and what it puts into them. As one may be read in one
    row and written in another, it is read again until nothing new is put anywhere."""

    def __init__(self, state: SessionState, names: dict[str, str], given: Sources) -> None:
        """`given` is what the bind variables of the statement are made of."""
        self._held: dict[str, Sources] = dict(state.variables)
        self._lost = state.lost
        self._names = names
        self.given = given
        self.put: dict[str, Sources] = {}
        self.fails = False  # a name means nothing, as far as the snapshot tells
        self.is_settled = True

    def of(self, name: str) -> Sources:
        """Under the name that the tree has."""
        return self.kept(self._names.get(name, name))

    def kept(self, name: str) -> Sources:
        return None if self._lost else self._held.get(name, NOTHING)

    def assign(self, name: str, sources: Sources) -> None:
        name = self._names.get(name, name)
        self.put[name] = union([self.put.get(name, NOTHING), sources])
        found = union([self._held.get(name, NOTHING), sources])
        if found != self._held.get(name, NOTHING):
            self._held[name] = found
            self.is_settled = False


class MysqlExpressions:
    """`query` reads a query inside of an expression."""

    def __init__(self, state: SessionState, work: WorkBudget, variables: Variables, query: Query) -> None:
        self._state = state
        self._work = work
        self._query = query
        self.variables = variables
        self.filters = Filters()

    def of(self, value: exp.Expr | None, scope: Scope, ctes: Ctes) -> Sources:
        """Of a whole expression; nothing where there is none. What it assigns may be all that is in it: of `@a := b or
        c` only the server knows what binds closer."""
        if value is None:
            return NOTHING
        found = self._of(value, scope, ctes)
        for node in inside(value):
            if isinstance(node, exp.PropertyEQ):
                self.variables.assign(_assigned(node), found)
            elif _called(node) == LAST and node.expressions:
                self.variables.assign(LAST_ID, found)
        return found

    def all(self, values: Iterable[exp.Expr], scope: Scope, ctes: Ctes) -> Sources:
        return union([self.of(value, scope, ctes) for value in values])

    def _is_column(self, value: exp.Expr, scope: Scope, ctes: Ctes) -> bool:
        return is_nothing_else(Out(None, self._of(value, scope, ctes), plain=self.plain(value, scope)))

    def plain(self, value: exp.Expr, scope: Scope) -> Plain:
        """Of a column of a list behind SELECT."""
        while isinstance(value, exp.Alias | exp.Paren):
            value = value.this
        if not isinstance(value, exp.Column) or value.args.get("catalog") is not None:
            return COMPUTED
        items = items_of(scope, value.table, value.db) if value.table else None
        return plain_of(scope, items, column_name(value.name))

    def _inside(self, node: exp.Expr, scope: Scope, ctes: Ctes) -> Sources:
        return union([self._of(child, scope, ctes) for child in node.iter_expressions()])

    def _of(self, node: exp.Expr, scope: Scope, ctes: Ctes) -> Sources:
        self._work.step()
        if isinstance(node, _EMPTY):
            return NOTHING
        if isinstance(node, exp.Column):
            return self._column(node, scope)
        if isinstance(node, exp.Identifier | exp.Var):
            return self._word(node, scope)
        if isinstance(node, exp.Exists):
            return self.filters.of(scope, lambda: self._exists(node, scope, ctes))
        if isinstance(node, exp.Query):
            return self.filters.of(scope, lambda: merged(self._query(node, scope, ctes)))
        if isinstance(node, exp.Placeholder):
            return self.variables.given
        if isinstance(node, exp.Parameter):
            return self.variables.of(node.this.name) if isinstance(node.this, exp.Var) else None
        if isinstance(node, exp.SessionParameter):
            return self._setting(node)
        name = _called(node)
        if name in _SEQUENCES:
            return NOTHING
        if name == LAST:
            return union([self.variables.kept(LAST_ID), self._inside(node, scope, ctes)])
        if name == FOREIGN or (isinstance(node, _OTHER) and name not in _ANONYMOUS):
            return None
        if isinstance(node, exp.Count):
            values = [value for value in _counted(node) if not self._is_column(value, scope, ctes)]
            return union([self._of(value, scope, ctes) for value in values])
        if isinstance(node, exp.Window):
            return union([self._inside_window(node, scope, ctes), self._named_windows(node, scope, ctes)])
        return self._inside(node, scope, ctes) if isinstance(node, _PLAIN) or name in _ANONYMOUS else None

    def _exists(self, node: exp.Exists, scope: Scope, ctes: Ctes) -> Sources:
        """Only that there are rows. It may put something into a variable."""
        for child in node.iter_expressions():
            if isinstance(child, exp.Query):
                self._query(child, scope, ctes)
            else:
                self._of(child, scope, ctes)
        return NOTHING

    def _column(self, column: exp.Column, scope: Scope) -> Sources:
        if column.args.get("catalog") is not None:
            return None
        self._work.step(len(scope.outs) >> 4)
        if isinstance(column.this, exp.Star):
            items = items_of(scope, column.table, column.db)
            return merged(out for item in items for out in item.outs) if items else None
        name = column_name(column.name)
        if column.table:
            items = items_of(scope, column.table, column.db)
            self.variables.fails |= not any(
                out.name == name or may_be(out.name, name) for item in items for out in item.outs
            )
            return column_of(items, name)
        if is_there(scope, name):
            return named(scope, name)
        if name in BARE and not column.this.args.get("quoted"):
            return NOTHING
        self.variables.fails = True
        return None

    def _word(self, node: exp.Expr, scope: Scope) -> Sources:
        """A unit, a character set: unless a column is called so."""
        name = column_name(node.name)
        level: Scope | None = scope
        while level is not None:
            if any(out.name == name for out in level.outs):
                return named(scope, name)
            level = level.outer()
        return NOTHING

    def _setting(self, node: exp.SessionParameter) -> Sources:
        name = node.name.lower()
        if name in COUNTING_SETTINGS:
            return None
        if name in QUOTING_SETTINGS:
            return self.variables.kept(QUOTING_SETTINGS[name])
        return NOTHING if self._state.settings and not self._state.lost else None

    def _inside_window(self, node: exp.Window, scope: Scope, ctes: Ctes) -> Sources:
        alias = node.args.get("alias")
        return union([self._of(child, scope, ctes) for child in node.iter_expressions() if child is not alias])

    def _named_windows(self, node: exp.Window, scope: Scope, ctes: Ctes) -> Sources:
        """`over w` may mean each window of the query, and these may be made of each other."""
        if node.args.get("alias") is None:
            return NOTHING
        windows = scope.windows.get("", ())
        return union([self._inside_window(window, scope, ctes) for window in windows])


def inside(value: exp.Expr) -> Iterator[exp.Expr]:
    """An expression without the queries in it."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for child in node.iter_expressions() if not isinstance(child, exp.Query)]


def _counted(node: exp.Count) -> list[exp.Expr]:
    """What it counts. Counting a table's column shows no more than counting the rows of a query does."""
    values = [*node.iter_expressions()]
    return [each for value in values for each in (value.expressions if isinstance(value, exp.Distinct) else [value])]


def _called(node: exp.Expr) -> str:
    return str(node.this).lower() if isinstance(node, exp.Anonymous) else ""


def _assigned(node: exp.PropertyEQ) -> str:
    return str(node.this.this.name) if isinstance(node.this, exp.Parameter) else ""
