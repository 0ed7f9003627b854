"""Translation of PostgreSQL's expressions to relational terms: the columns and queries in them.

Everything inside an expression counts, including conditions of CASE and the FILTER, ORDER BY and OVER of a call. Any
kind of node that is not listed makes the expression unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from postern.inspection.lineage import relations as rel
from postern.inspection.lineage.scope import NOTHING, Sources, WorkBudget
from postern.inspection.sql.postgres.postgres_tree import Message, children, node
from postern.protocols.postgres.lineage.postgres_builtins import WORDED_SETTINGS, ZONED
from postern.protocols.postgres.lineage.postgres_lineage_catalogue import CatalogueDoubts, PostgresLineageCatalogue

# Nodes that consist of their parts.
_PLAIN_WORDS: Final = """
    A_ArrayExpr A_Indices BoolExpr BooleanTest CaseExpr CaseWhen CoalesceExpr CollateClause GroupingSet List MinMaxExpr
    MultiAssignRef NamedArgExpr NullTest ResTarget RowExpr SortBy TypeCast WindowDef XmlExpr XmlSerialize
    JsonAggConstructor JsonArgument JsonArrayAgg JsonArrayConstructor JsonBehavior JsonFuncExpr JsonIsPredicate
    JsonKeyValue JsonObjectAgg JsonObjectConstructor JsonOutput JsonParseExpr JsonScalarExpr JsonSerializeExpr
    JsonTablePathSpec JsonValueExpr
"""
_PLAIN: Final = frozenset(_PLAIN_WORDS.split())

# Constants, bind values, the clock and the user, and options.
_EMPTY_WORDS: Final = """
    A_Const Alias BitString Boolean Float GroupingFunc Integer JsonFormat JsonReturning MergeSupportFunc
    ParamRef SQLValueFunction SetToDefault String TypeName
"""
_EMPTY: Final = frozenset(_EMPTY_WORDS.split())

_BETWEEN: Final = frozenset({"AEXPR_BETWEEN", "AEXPR_NOT_BETWEEN", "AEXPR_BETWEEN_SYM", "AEXPR_NOT_BETWEEN_SYM"})

Windows = Mapping[str, Message]
"""The windows that a query names."""


def strings(nodes: Iterable[Message] | None) -> tuple[str, ...]:
    """Return the names in a list of nodes. A star becomes an asterisk; other nodes are left out."""
    return tuple(
        [
            element["String"].get("sval", "") if "String" in element else "*"
            for element in nodes or ()
            if "String" in element or "A_Star" in element
        ]
    )


def reference(ref: Message) -> rel.ColumnName | rel.WholeRow:
    """Return what a ColumnRef names."""
    names = strings(ref.get("fields"))
    table = names[-2] if len(names) > 1 else ""
    schema = names[-3] if len(names) > 2 else ""
    return rel.WholeRow(table, schema) if names[-1] == "*" else rel.ColumnName(names[-1], table, schema)


def row_reference(value: Message | None) -> rel.ColumnName | rel.WholeRow | None:
    kind, ref = node(value)
    return reference(ref) if kind == "ColumnRef" else None


class PostgresExpressions:
    """Translates expressions. `query` translates a query inside an expression."""

    def __init__(
        self,
        catalogue: PostgresLineageCatalogue,
        doubts: CatalogueDoubts,
        work: WorkBudget,
        query: Callable[[Message | None], rel.Query],
    ) -> None:
        self._catalogue = catalogue
        self._doubts = doubts
        self._work = work
        self._query = query
        self.windows: Windows = {}

    def of(self, value: Message | None) -> rel.Expression:
        """Translate a `Node`; None becomes a constant."""
        kind, message = node(value)
        if kind == "ColumnRef":
            return reference(message)
        expressions: list[rel.Expression] = []
        if kind:
            self._add(kind, message, expressions)
        return rel.Made(tuple(expressions)) if expressions else rel.CONSTANT

    def all(self, values: Iterable[Message | None]) -> rel.Expression:
        expressions: list[rel.Expression] = []
        self._add_all(values, expressions)
        return rel.Made(tuple(expressions)) if expressions else rel.CONSTANT

    def inside(self, kind: str, message: Message) -> rel.Expression:
        """Translate everything inside a message."""
        expressions: list[rel.Expression] = []
        for _, sort, child in children(kind, message):
            self._add(sort, child, expressions)
        return rel.Made(tuple(expressions))

    def setting(self, name: str) -> Sources:
        """Return the sources of the session's setting."""
        if "." in name or (not self._doubts.settings and name.lower() not in WORDED_SETTINGS):
            return None
        return NOTHING

    def _add_all(self, values: Iterable[Message | None], expressions: list[rel.Expression]) -> None:
        for value in values:
            kind, message = node(value)
            if kind:
                self._add(kind, message, expressions)

    def _add(self, kind: str, message: Message, expressions: list[rel.Expression]) -> None:
        """Add the parts of a message to `expressions`."""
        self._work.step()
        if kind == "ColumnRef":
            expressions.append(reference(message))
        elif kind == "FuncCall":
            self._add_call(message, expressions)
        elif kind == "A_Expr":
            symbols = strings(message.get("name"))
            is_known = bool(symbols) and self._catalogue.operates(symbols[-1], self._doubts)
            if is_known or message.get("kind") in _BETWEEN:
                self._add_all((message.get("lexpr"), message.get("rexpr")), expressions)
            else:
                expressions.append(rel.UNKNOWABLE)
        elif kind == "SubLink":
            self._add_link(message, expressions)
        elif kind == "A_Indirection":
            self._add_indirection(message, expressions)
        elif kind == "JsonArrayQueryConstructor":
            expressions.append(rel.InnerQuery(self._query(message.get("query"))))
        elif kind in _PLAIN:
            for _, sort, child in children(kind, message):
                self._add(sort, child, expressions)
        elif kind not in _EMPTY:
            expressions.append(rel.UNKNOWABLE)

    def _add_call(self, call: Message, expressions: list[rel.Expression]) -> None:
        name = strings(call.get("funcname"))
        if not name or not self._catalogue.pure(name, self._doubts):
            expressions.append(rel.KnownValue(self._asked_setting(name, call)))
            return
        if name[-1] in ZONED and not self._doubts.settings:
            expressions.append(rel.UNKNOWABLE)
            return
        arguments = [*call.get("args", ()), *call.get("agg_order", ()), call.get("agg_filter")]
        if name[-1] == "count":
            count = len(call.get("args", ()))
            columns, rest = arguments[:count], arguments[count:]
            for value in columns:
                column = row_reference(value)
                if isinstance(column, rel.ColumnName):
                    expressions.append(rel.Counted(column))
                else:
                    rest.append(value)
            arguments = rest
        self._add_all(arguments, expressions)
        if "over" in call:
            self._add_window(call["over"], expressions)

    def _add_window(self, window: Message, expressions: list[rel.Expression]) -> None:
        """Add a window: `over w` has a name; `over (w order by …)` refers to one, which may refer to another."""
        self._add("WindowDef", window, expressions)
        seen: set[str] = set()
        name = window.get("name") or window.get("refname")
        while name and name not in seen:
            seen.add(name)
            other = self.windows.get(name)
            if other is None:
                expressions.append(rel.UNKNOWABLE)
                return
            self._add("WindowDef", other, expressions)
            name = other.get("refname")

    def _asked_setting(self, name: tuple[str, ...], call: Message) -> Sources:
        if name not in (("current_setting",), ("pg_catalog", "current_setting")) or not call.get("args"):
            return None
        if self._catalogue.as_function("current_setting", self._doubts):
            return None
        kind, first = node(call["args"][0])
        if kind != "A_Const" or "sval" not in first:
            return None
        return self.setting(first["sval"].get("sval", ""))

    def _add_link(self, link: Message, expressions: list[rel.Expression]) -> None:
        symbols = strings(link.get("operName"))
        exists = link.get("subLinkType") == "EXISTS_SUBLINK"
        if not exists and symbols and not self._catalogue.operates(symbols[-1], self._doubts):
            expressions.append(rel.UNKNOWABLE)
            return
        if not exists:
            self._add_all((link.get("testexpr"),), expressions)
        expressions.append(rel.InnerQuery(self._query(link.get("subselect")), exists))

    def _add_indirection(self, message: Message, expressions: list[rel.Expression]) -> None:
        steps = message.get("indirection", [])
        names = strings(steps)
        value = self.of(message.get("arg"))
        row = row_reference(message.get("arg"))
        if row is not None and names and names[0] != "*" and "String" in steps[0]:
            value = rel.RowField(row, names[0], value if self._is_field(names[0]) else rel.UNKNOWABLE)
            names = names[1:]
        expressions.append(value)
        if not all(map(self._is_field, names)):
            expressions.append(rel.UNKNOWABLE)
        for step in steps:
            if "A_Indices" in step:
                self._add("A_Indices", step["A_Indices"], expressions)

    def _is_field(self, name: str) -> bool:
        return not self._catalogue.as_function(name, self._doubts)
