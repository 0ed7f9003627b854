"""What a value is made of: an expression of PostgreSQL's parse tree, seen from the names around it.

All that stands inside of an expression counts, conditions of CASE and what FILTER, ORDER BY and OVER of a call say too.
Kinds of nodes that are not listed here make it unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from postern.inspection.lineage.builtins import WORDED_SETTINGS, ZONED
from postern.inspection.lineage.catalogue import Catalogue, Doubts
from postern.inspection.lineage.scope import NOTHING, Ctes, Item, Out, Scope, Sources, merged, union

MOST_WORK: Final = 200_000  # nodes and columns of one text, those of repeated rounds among them

# Made of what is inside of them.
_PLAIN_WORDS: Final = """
    A_ArrayExpr A_Indices BoolExpr BooleanTest CaseExpr CaseWhen CoalesceExpr CollateClause List MinMaxExpr
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

Query = Callable[[Message, Scope | None, Ctes], list[Out]]


class TooMuch(Exception):
    """The text takes more work than is spent on any."""


class Work:
    def __init__(self, left: int = MOST_WORK) -> None:
        self._left = left

    def step(self, size: int = 1) -> None:
        self._left -= size
        if self._left < 0:
            raise TooMuch


def strings(nodes: Iterable[pb.Node]) -> tuple[str, ...]:
    """The names in a list of nodes; a star is an asterisk, anything else is left out."""
    return tuple(
        node.string.sval if node.HasField("string") else "*"
        for node in nodes
        if node.HasField("string") or node.HasField("a_star")
    )


def inside(message: Message) -> Iterator[Message]:
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if isinstance(value, Message):
            yield value
        else:
            yield from value


class Expressions:
    """`query` reads a query inside of an expression."""

    def __init__(self, catalogue: Catalogue, doubts: Doubts, work: Work, query: Query) -> None:
        self._catalogue = catalogue
        self._doubts = doubts
        self._work = work
        self._query = query

    def of(self, message: Message, scope: Scope, ctes: Ctes) -> Sources:
        self._work.step()
        if isinstance(message, pb.Node):
            kind = message.WhichOneof("node")
            return NOTHING if kind is None else self.of(getattr(message, kind), scope, ctes)
        name = message.DESCRIPTOR.name
        if isinstance(message, pb.ColumnRef):
            return self._column(message, scope)
        if isinstance(message, pb.FuncCall):
            return self._call(message, scope, ctes)
        if isinstance(message, pb.A_Expr):
            return self._operation(message, scope, ctes)
        if isinstance(message, pb.SubLink):
            return self._sub_query(message, scope, ctes)
        if isinstance(message, pb.A_Indirection):
            return self._indirection(message, scope, ctes)
        if isinstance(message, pb.JsonArrayQueryConstructor):
            return merged(self._query(message.query, scope, ctes))
        if name in _PLAIN:
            return self.all(inside(message), scope, ctes)
        return NOTHING if name in _EMPTY else None

    def all(self, messages: Iterable[Message], scope: Scope, ctes: Ctes) -> Sources:
        return union([self.of(message, scope, ctes) for message in messages])

    def row(self, node: pb.Node, scope: Scope) -> Item | None:
        """What stands in FROM under the name that this is, where it means a whole row of that."""
        if not node.HasField("column_ref"):
            return None
        names = strings(node.column_ref.fields)
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

    def _column(self, ref: pb.ColumnRef, scope: Scope) -> Sources:
        names = strings(ref.fields)
        self._work.step(len(scope.outs) >> 4)  # what a name means is looked for among them
        if names == ("*",):
            return merged(scope.outs)
        if len(names) == 1:
            return scope.named(names[0])
        item = scope.item(names[-2], names[-3] if len(names) > 2 else "")
        if item is None:
            return None
        return merged(item.outs) if names[-1] == "*" else item.column(names[-1])

    def _call(self, call: pb.FuncCall, scope: Scope, ctes: Ctes) -> Sources:
        name = strings(call.funcname)
        if not name or not self._catalogue.pure(name, self._doubts):
            return self._setting(name, call)
        if name[-1] in ZONED and not self._doubts.settings:
            return None
        parts = [self.all([*call.args, *call.agg_order, call.agg_filter], scope, ctes)]
        if call.HasField("over"):
            parts.append(self._window(call.over, scope, ctes))
        return union(parts)

    def _window(self, window: pb.WindowDef, scope: Scope, ctes: Ctes) -> Sources:
        """`over w` has a name; `over (w order by …)` refers to one, which may refer to another."""
        parts = [self.of(window, scope, ctes)]
        seen: set[str] = set()
        name = window.name or window.refname
        while name and name not in seen:
            seen.add(name)
            other = scope.windows.get(name)
            if not isinstance(other, pb.WindowDef):
                return None
            parts.append(self.of(other, scope, ctes))
            name = other.refname
        return union(parts)

    def _setting(self, name: tuple[str, ...], call: pb.FuncCall) -> Sources:
        if name not in (("current_setting",), ("pg_catalog", "current_setting")) or not call.args:
            return None
        if self._catalogue.as_function("current_setting", self._doubts):
            return None
        first = call.args[0]
        if not first.HasField("a_const") or not first.a_const.HasField("sval"):
            return None
        return self.setting(first.a_const.sval.sval)

    def setting(self, name: str) -> Sources:
        """Of the session's setting of that name."""
        if "." in name or (not self._doubts.settings and name.lower() not in WORDED_SETTINGS):
            return None
        return NOTHING

    def _operation(self, operation: pb.A_Expr, scope: Scope, ctes: Ctes) -> Sources:
        symbols = strings(operation.name)
        between = (pb.AEXPR_BETWEEN, pb.AEXPR_NOT_BETWEEN, pb.AEXPR_BETWEEN_SYM, pb.AEXPR_NOT_BETWEEN_SYM)
        if operation.kind not in between and not (symbols and self._catalogue.operates(symbols[-1], self._doubts)):
            return None
        return self.all([operation.lexpr, operation.rexpr], scope, ctes)

    def _sub_query(self, link: pb.SubLink, scope: Scope, ctes: Ctes) -> Sources:
        if link.sub_link_type == pb.EXISTS_SUBLINK:
            return NOTHING
        symbols = strings(link.oper_name)
        if symbols and not self._catalogue.operates(symbols[-1], self._doubts):
            return None
        return union([self.of(link.testexpr, scope, ctes), merged(self._query(link.subselect, scope, ctes))])

    def _indirection(self, node: pb.A_Indirection, scope: Scope, ctes: Ctes) -> Sources:
        names = strings(node.indirection)
        item = self.row(node.arg, scope)
        steps = [step.a_indices for step in node.indirection if step.HasField("a_indices")]
        if item is not None and names and names[0] != "*" and node.indirection[0].HasField("string"):
            return union([item.column(names[0]), self._fields(names[1:]), self.all(steps, scope, ctes)])
        return union([self.of(node.arg, scope, ctes), self._fields(names), self.all(steps, scope, ctes)])

    def _fields(self, names: Iterable[str]) -> Sources:
        return None if any(self._catalogue.as_function(name, self._doubts) for name in names) else NOTHING
