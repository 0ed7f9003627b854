"""What a value is made of: an expression of PostgreSQL's parse tree, seen from the names around it.

All that stands inside of an expression counts, conditions of CASE and what FILTER, ORDER BY and OVER of a call say too.
Kinds of nodes that are not listed here make it unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from postern.inspection.lineage.scope import (
    NOTHING,
    Ctes,
    Filters,
    Item,
    Out,
    Scope,
    Sources,
    WorkBudget,
    is_nothing_else,
    merged,
    union,
)
from postern.inspection.sql.postgres.postgres_tree import Message, children, node
from postern.protocols.postgres.lineage.postgres_builtins import WORDED_SETTINGS, ZONED
from postern.protocols.postgres.lineage.postgres_lineage_catalogue import Doubts, PostgresLineageCatalogue

# Made of what is inside of them.
_PLAIN_WORDS: Final = """
    A_ArrayExpr A_Indices BoolExpr BooleanTest CaseExpr CaseWhen CoalesceExpr CollateClause GroupingSet List MinMaxExpr
    MultiAssignRef NamedArgExpr NullTest ResTarget RowExpr SortBy TypeCast WindowDef XmlExpr XmlSerialize
    JsonAggConstructor JsonArgument JsonArrayAgg JsonArrayConstructor JsonBehavior JsonFuncExpr JsonIsPredicate
    JsonKeyValue JsonObjectAgg JsonObjectConstructor JsonOutput JsonParseExpr JsonScalarExpr JsonSerializeExpr
    JsonTablePathSpec JsonValueExpr
"""
_PLAIN: Final = frozenset(_PLAIN_WORDS.split())

# Constants, bind values, the clock and the user; what only says how.
_EMPTY_WORDS: Final = """
    A_Const Alias BitString Boolean Float GroupingFunc Integer JsonFormat JsonReturning MergeSupportFunc
    ParamRef SQLValueFunction SetToDefault String TypeName
"""
_EMPTY: Final = frozenset(_EMPTY_WORDS.split())

_BETWEEN: Final = frozenset({"AEXPR_BETWEEN", "AEXPR_NOT_BETWEEN", "AEXPR_BETWEEN_SYM", "AEXPR_NOT_BETWEEN_SYM"})

Query = Callable[[Message | None, Scope | None, Ctes], list[Out]]


def strings(nodes: Iterable[Message] | None) -> tuple[str, ...]:
    """The names in a list of nodes; a star is an asterisk, anything else is left out."""
    return tuple(
        one["String"].get("sval", "") if "String" in one else "*"
        for one in nodes or ()
        if "String" in one or "A_Star" in one
    )


class PostgresExpressions:
    """`query` reads a query inside of an expression."""

    def __init__(self, catalogue: PostgresLineageCatalogue, doubts: Doubts, work: WorkBudget, query: Query) -> None:
        self._catalogue = catalogue
        self._doubts = doubts
        self._work = work
        self._query = query
        self.filters = Filters()

    def of(self, value: Message | None, scope: Scope, ctes: Ctes) -> Sources:
        """Of a `Node`; nothing where there is none."""
        kind, message = node(value)
        return self._of(kind, message, scope, ctes) if kind else NOTHING

    def all(self, values: Iterable[Message | None], scope: Scope, ctes: Ctes) -> Sources:
        return union([self.of(value, scope, ctes) for value in values])

    def inside(self, kind: str, message: Message, scope: Scope, ctes: Ctes) -> Sources:
        """Of all that is within a message."""
        return union([self._of(sort, child, scope, ctes) for _, sort, child in children(kind, message)])

    def _of(self, kind: str, message: Message, scope: Scope, ctes: Ctes) -> Sources:
        self._work.step()
        if kind == "ColumnRef":
            return self.column(message, scope).sources
        if kind == "FuncCall":
            return self._call(message, scope, ctes)
        if kind == "A_Expr":
            return self._operation(message, scope, ctes)
        if kind == "SubLink":
            return self._sub_query(message, scope, ctes)
        if kind == "A_Indirection":
            return self._indirection(message, scope, ctes)
        if kind == "JsonArrayQueryConstructor":
            return self._inner(message.get("query"), scope, ctes)
        if kind in _PLAIN:
            return self.inside(kind, message, scope, ctes)
        return NOTHING if kind in _EMPTY else None

    def row(self, value: Message | None, scope: Scope) -> Item | None:
        """What stands in FROM under the name that this is, where it means a whole row of that."""
        kind, ref = node(value)
        if kind != "ColumnRef":
            return None
        names = strings(ref.get("fields"))
        if len(names) == 2 and names[1] == "*":
            return scope.item(names[0])
        if len(names) != 1 or names[0] == "*":
            return None
        level: Scope | None = scope
        while level is not None:
            if any(out.name in (None, names[0]) for out in level.outs):
                return None
            level = level.parent
        return scope.item(names[0])

    def column(self, ref: Message, scope: Scope) -> Out:
        """What a ColumnRef means; it is computed where that is a whole row."""
        names = strings(ref.get("fields"))
        self._work.step(len(scope.outs) >> 4)  # what a name means is looked for among them
        if names == ("*",):
            return Out(None, merged(scope.outs))
        if len(names) == 1:
            return scope.named(names[0])
        item = scope.item(names[-2], names[-3] if len(names) > 2 else "")
        if item is None:
            return Out(None, None)
        return Out(None, merged(item.outs)) if names[-1] == "*" else item.column(names[-1])

    def _call(self, call: Message, scope: Scope, ctes: Ctes) -> Sources:
        name = strings(call.get("funcname"))
        if not name or not self._catalogue.pure(name, self._doubts):
            return self._setting(name, call)
        if name[-1] in ZONED and not self._doubts.settings:
            return None
        values = call.get("args", ())
        if name[-1] == "count":
            values = [value for value in values if not self._is_plain(value, scope)]
        arguments = [*values, *call.get("agg_order", ()), call.get("agg_filter")]
        parts = [self.all(arguments, scope, ctes)]
        if "over" in call:
            parts.append(self._window(call["over"], scope, ctes))
        return union(parts)

    def _is_plain(self, value: Message, scope: Scope) -> bool:
        """Whether it is a column of a table: counting these shows no more than counting the rows of a query does."""
        kind, ref = node(value)
        return kind == "ColumnRef" and is_nothing_else(self.column(ref, scope))

    def _window(self, window: Message, scope: Scope, ctes: Ctes) -> Sources:
        """`over w` has a name; `over (w order by …)` refers to one, which may refer to another."""
        parts = [self._of("WindowDef", window, scope, ctes)]
        seen: set[str] = set()
        name = window.get("name") or window.get("refname")
        while name and name not in seen:
            seen.add(name)
            other = scope.windows.get(name)
            if other is None:
                return None
            parts.append(self._of("WindowDef", other, scope, ctes))
            name = other.get("refname")
        return union(parts)

    def _setting(self, name: tuple[str, ...], call: Message) -> Sources:
        if name not in (("current_setting",), ("pg_catalog", "current_setting")) or not call.get("args"):
            return None
        if self._catalogue.as_function("current_setting", self._doubts):
            return None
        kind, first = node(call["args"][0])
        if kind != "A_Const" or "sval" not in first:
            return None
        return self.setting(first["sval"].get("sval", ""))

    def setting(self, name: str) -> Sources:
        """Of the session's setting of that name."""
        if "." in name or (not self._doubts.settings and name.lower() not in WORDED_SETTINGS):
            return None
        return NOTHING

    def _operation(self, operation: Message, scope: Scope, ctes: Ctes) -> Sources:
        symbols = strings(operation.get("name"))
        known = bool(symbols) and self._catalogue.operates(symbols[-1], self._doubts)
        if operation.get("kind") not in _BETWEEN and not known:
            return None
        return self.all([operation.get("lexpr"), operation.get("rexpr")], scope, ctes)

    def _sub_query(self, link: Message, scope: Scope, ctes: Ctes) -> Sources:
        if link.get("subLinkType") == "EXISTS_SUBLINK":
            return self._inner(link.get("subselect"), scope, ctes, exists=True)
        symbols = strings(link.get("operName"))
        if symbols and not self._catalogue.operates(symbols[-1], self._doubts):
            return None
        return union([self.of(link.get("testexpr"), scope, ctes), self._inner(link.get("subselect"), scope, ctes)])

    def _inner(self, query: Message | None, scope: Scope, ctes: Ctes, *, exists: bool = False) -> Sources:
        """Of a query inside of an expression; of EXISTS, only that it gives rows."""

        def read() -> Sources:
            outs = self._query(query, scope, ctes)
            return NOTHING if exists else merged(outs)

        return self.filters.of(scope, read)

    def _indirection(self, message: Message, scope: Scope, ctes: Ctes) -> Sources:
        steps = message.get("indirection", [])
        names = strings(steps)
        item = self.row(message.get("arg"), scope)
        places = union([self._of("A_Indices", step["A_Indices"], scope, ctes) for step in steps if "A_Indices" in step])
        if item is not None and names and names[0] != "*" and "String" in steps[0]:
            return union([item.column(names[0]).sources, self._fields(names[1:]), places])
        return union([self.of(message.get("arg"), scope, ctes), self._fields(names), places])

    def _fields(self, names: Iterable[str]) -> Sources:
        return None if any(self._catalogue.as_function(name, self._doubts) for name in names) else NOTHING
