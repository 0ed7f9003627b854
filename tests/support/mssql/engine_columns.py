"""The types of a query's columns, from the tables that it reads. What is not known here follows from values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp
from tests.support.mssql import sqlserver_types as t
from tests.support.mssql.engine_conversions import cast_type
from tests.support.mssql.engine_functions import GLOBALS, RESULTS
from tests.support.mssql.sqlserver_errors import SqlError
from tests.support.mssql.sqlserver_types import SqlColumn, SqlType
from tests.support.mssql.sqlserver_values import SqlValue

Sources = Mapping[str, Sequence[SqlColumn]]
UNKNOWN: Final = SqlType("")
_NUMBERS: Final = ("bit", "tinyint", "smallint", "int", "bigint", "smallmoney", "money", "decimal", "numeric", "real")
_RANKS: Final = {name: rank for rank, name in enumerate((*_NUMBERS, "float"))}


@dataclass(frozen=True)
class ColumnTypes:
    """`describe` returns the columns of a table, None for one that is not there."""

    describe: Callable[[exp.Table], Sequence[SqlColumn] | None]
    variables: Mapping[str, SqlType]

    def of_query(self, query: exp.Expr, outer: Sources | None = None) -> list[SqlColumn]:
        """Return the columns of a SELECT. Their types are UNKNOWN where they cannot be told."""
        sources: dict[str, Sequence[SqlColumn]] = dict(outer or {})
        with_ = query.args.get("with_")
        for cte in with_.expressions if with_ is not None else ():
            if isinstance(cte.this, exp.SetOperation):  # it may be recursive
                sources[cte.alias.lower()] = []
                sources[cte.alias.lower()] = self._of_aliased(cte.this.left, cte.args.get("alias"), sources)
            sources[cte.alias.lower()] = self._of_aliased(cte.this, cte.args.get("alias"), sources)
        if isinstance(query, exp.SetOperation):
            left, right = self.of_query(query.left, sources), self.of_query(query.right, sources)
            if len(left) != len(right):
                return left
            return [
                replace(a, type=self._common(a.type, b.type), nullable=True) for a, b in zip(left, right, strict=True)
            ]
        if isinstance(query, exp.Subquery):
            return self.of_query(query.this, sources)
        if not isinstance(query, exp.Select):
            return []
        local = self._local_sources(query, sources)
        columns: list[SqlColumn] = []
        for item in query.expressions:
            columns += self._of_item(item, local)
        return columns

    def _local_sources(
        self, query: exp.Select, outer: dict[str, Sequence[SqlColumn]]
    ) -> dict[str, Sequence[SqlColumn]]:
        local = {}
        from_ = query.args.get("from_")
        items = [from_.this] if from_ is not None else []
        outside = False
        for join in query.args.get("joins") or ():
            items.append(join.this)
            outside = outside or bool(join.side)
        for item in items:
            found = self._of_source(item, outer)
            local[item.alias_or_name.lower()] = [t.as_nullable(it) for it in found] if outside else found
        return local

    def _of_source(self, item: exp.Expr, outer: Sources) -> Sequence[SqlColumn]:
        if isinstance(item, exp.Table):
            if not item.db and item.name.lower() in outer:
                return outer[item.name.lower()]
            return self.describe(item) or []
        if isinstance(item, exp.Subquery):
            return self._of_aliased(item.this, item.args.get("alias"), outer)
        return []

    def _of_aliased(self, query: exp.Expr, alias: exp.Expr | None, outer: Sources) -> Sequence[SqlColumn]:
        columns = self.of_query(query, outer)
        names = alias.args.get("columns") if alias is not None else None
        if names and len(names) == len(columns):
            return [replace(column, name=name.name) for column, name in zip(columns, names, strict=True)]
        return columns

    def _of_item(self, item: exp.Expr, sources: Sources) -> list[SqlColumn]:
        if isinstance(item, exp.Star):
            return [column for columns in sources.values() for column in columns]
        if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            return list(sources.get(item.table.lower(), ()))
        value = item.this if isinstance(item, exp.Alias) else item
        name = item.alias_or_name if isinstance(item, exp.Alias | exp.Column) else ""
        if isinstance(value, exp.Column) and (column := _column(value, sources)) is not None:
            return [replace(column, name=name)]
        nullable = not isinstance(value, exp.Literal) and not isinstance(value, exp.Count)
        return [SqlColumn(name, self.of_value(value, sources), nullable)]

    def of_value(self, node: exp.Expr, sources: Sources) -> SqlType:
        """Return the type of an expression."""
        if isinstance(node, exp.Paren | exp.Neg | exp.Distinct):
            return self.of_value(node.this or node.expressions[0], sources)
        if isinstance(node, exp.Column):
            column = _column(node, sources)
            return column.type if column is not None else UNKNOWN
        if isinstance(node, exp.Parameter):
            return self.variables.get(node.name.lower(), UNKNOWN)
        if isinstance(node, exp.Literal | exp.National | exp.HexString):
            return _literal(node)
        if isinstance(node, exp.Anonymous):
            return self._of_function(node, sources)
        if isinstance(node, exp.Binary) and isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod):
            return self._common(self.of_value(node.left, sources), self.of_value(node.right, sources))
        if isinstance(node, exp.Case | exp.Coalesce | exp.If):
            return self._of_branches(node, sources)
        if isinstance(node, exp.Subquery | exp.Select):
            columns = self.of_query(node, sources)
            return columns[0].type if columns else UNKNOWN
        return self._of_aggregate(node, sources)

    def _of_aggregate(self, node: exp.Expr, sources: Sources) -> SqlType:
        if isinstance(node, exp.Window):
            return self.of_value(node.this, sources)
        if isinstance(node, exp.Count):
            return t.BIGINT if node.args.get("big_int") else t.INT
        if isinstance(node, exp.RowNumber | exp.Rank | exp.DenseRank | exp.Ntile):
            return t.BIGINT
        if isinstance(node, exp.Min | exp.Max | exp.Lag | exp.Lead | exp.FirstValue | exp.LastValue):
            return self.of_value(node.this, sources)
        if isinstance(node, exp.Sum | exp.Avg):
            kind = self.of_value(node.this, sources)
            if kind.name in ("decimal", "numeric"):
                return SqlType(
                    "decimal", precision=38, scale=kind.scale if isinstance(node, exp.Sum) else max(kind.scale, 6)
                )
            return t.INT if kind.name in ("tinyint", "smallint") else t.FLOAT if kind.name == "real" else kind
        return UNKNOWN

    def _of_branches(self, node: exp.Expr, sources: Sources) -> SqlType:
        if isinstance(node, exp.Case):
            values = [branch.args["true"] for branch in node.args.get("ifs", ())] + [node.args.get("default")]
        elif isinstance(node, exp.If):
            values = [node.args.get("true"), node.args.get("false")]
        else:
            values = [node.this, *node.expressions]
        kinds = [
            self.of_value(value, sources) for value in values if value is not None and not isinstance(value, exp.Null)
        ]
        result = kinds[0] if kinds else UNKNOWN
        for kind in kinds[1:]:
            result = self._common(result, kind)
        return result

    def _of_function(self, node: exp.Anonymous, sources: Sources) -> SqlType:
        name = node.name.lower().removeprefix("f_")
        arguments = node.expressions
        if name in ("convert", "try_convert"):
            return _named(arguments[0].name)
        if name in ("cast", "try_cast"):
            return _named(arguments[1].name)
        if name == "global":
            return GLOBALS.get(arguments[0].name, UNKNOWN)
        if name in ("isnull", "abs", "ceiling", "floor", "round", "power", "sign") and arguments:
            return self.of_value(arguments[0], sources)
        kind = RESULTS.get(name, UNKNOWN)
        if (
            name in ("upper", "lower", "ltrim", "rtrim", "left", "right", "substring", "replace", "reverse")
            and arguments
        ):
            inner = self.of_value(arguments[0], sources)
            return inner if inner.is_text else kind
        return kind

    def _common(self, one: SqlType, other: SqlType) -> SqlType:
        """Return the type that two have together, by SQL Server's precedence."""
        if UNKNOWN in (one, other):
            return UNKNOWN
        if one.name in _RANKS and other.name in _RANKS:
            higher, lower = sorted((one, other), key=lambda kind: -_RANKS[kind.name])
            if higher.name in ("decimal", "numeric"):
                return SqlType("decimal", precision=38, scale=max(higher.scale, lower.scale))
            return higher
        if one.is_text and other.is_text:
            name = "nvarchar" if one.is_unicode or other.is_unicode else "varchar"
            limit = 4000 if name == "nvarchar" else 8000
            size = t.MAX if t.MAX in (one.size, other.size) else min(one.size + other.size, limit)
            return SqlType(name, size, collation=one.collation)
        return one if one == other else other if one.is_text else one if other.is_text else UNKNOWN


def _column(node: exp.Column, sources: Sources) -> SqlColumn | None:
    wanted, table = node.name.lower(), node.table.lower()
    for name, columns in reversed(list(sources.items())):
        if table not in ("", name):
            continue
        for column in columns:
            if column.name.lower() == wanted:
                return column
    return None


def _named(text: str) -> SqlType:
    try:
        return cast_type(text)
    except SqlError:
        return UNKNOWN


def _literal(node: exp.Expr) -> SqlType:
    text = node.name
    if isinstance(node, exp.HexString):
        return SqlType("varbinary", max(len(text) // 2, 1))
    if isinstance(node, exp.National):
        return SqlType("nvarchar", max(len(text), 1) if len(text) <= 4000 else t.MAX)
    if isinstance(node, exp.Literal) and node.is_string:
        return SqlType("varchar", max(len(text), 1) if len(text) <= 8000 else t.MAX)
    if "e" in text.lower():
        return t.FLOAT
    if "." in text:
        scale = len(text.split(".")[1])
        return SqlType("numeric", precision=max(len(text) - 1, scale), scale=scale)
    return t.INT if int(text) < 2**31 else t.BIGINT if int(text) < 2**63 else SqlType("numeric", precision=len(text))


def type_of_values(values: Sequence[SqlValue]) -> SqlType:
    """Return a type that all of these values have."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, bool}:
        return t.INT if all(value is None or -(2**31) <= int(value) < 2**31 for value in values) else t.BIGINT
    if kinds <= {int, float}:
        return t.FLOAT
    if kinds == {bytes}:
        return t.VARBINARY_MAX
    long = any(isinstance(value, str) and len(value) > 4000 for value in values)
    return t.NVARCHAR_MAX if long else t.NVARCHAR
