"""Translation of sqlglot's tree of Oracle's queries to relational terms (see `inspection.lineage.tree_translation`).

The condition of CONNECT BY, and the arguments of a function in FROM, decide how many rows there are: they count for
every computed column of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sqlglot import exp

from postern.inspection.lineage import relations as rel
from postern.inspection.lineage.scope import Sources, WorkBudget
from postern.inspection.lineage.tree_translation import TreeExpressions, TreeQueries, unknown_function_name
from postern.protocols.oracledb.lineage.oracle_spelling import HELD, SOFT, SpelledOracle


class OracleExpressions(TreeExpressions):
    """Translates expressions. `held` are the sources of what the session holds."""

    def __init__(self, work: WorkBudget, query: Callable[[exp.Expr], rel.Query], held: Sources) -> None:
        super().__init__(work, query)
        self._held = held

    def _named_column(self, name: str, table: str, schema: str) -> rel.ColumnName:
        return rel.ColumnName(name.removeprefix(SOFT), table, schema, is_call=name.startswith(SOFT))

    def _add_own(self, node: exp.Expr, expressions: list[rel.Expression]) -> bool:
        is_held = unknown_function_name(node) == HELD
        if is_held:
            expressions.append(rel.KnownValue(self._held))
            self._add_arguments(node, expressions)
        return is_held

    def _parts(self, node: exp.Expr) -> Iterable[exp.Expr]:
        """Return the parts without DENSE_RANK of KEEP, which is no name of a window."""
        is_ranked = node.args.get("over") == "KEEP"
        return [each for each in node.iter_expressions() if not (is_ranked and isinstance(each, exp.Identifier))]


class OracleQueries(TreeQueries):
    """The Oracle front end of relational terms."""

    expressions: OracleExpressions

    def __init__(self, spelled: SpelledOracle, work: WorkBudget, held: Sources) -> None:
        super().__init__(work)
        self.tree = spelled.tree
        self._added = spelled.added
        self.expressions = OracleExpressions(work, self.query, held)

    def table_name(self, table: exp.Expr) -> rel.TableName | None:
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            return None
        if table.args.get("catalog") is not None:
            return None
        name_of = self.expressions.table_name
        return rel.TableName(name_of(table.this), name_of(table.args.get("db")), self.alias(table))

    def _title(self, value: exp.Expr) -> str | None:
        if isinstance(value, exp.Alias):
            return str(value.args["alias"].name)
        return value.name if isinstance(value, exp.Column) and not value.name.startswith(SOFT) else None

    def _is_recursive(self, columns: Sequence[str]) -> bool:
        return bool(columns)

    def _added_columns(self, cte: exp.Expr) -> Sequence[str]:
        return self._added.get(cte.alias, ())

    def _pivot(self, source: rel.FromItem, pivot: exp.Expr) -> rel.FromItem:
        """Translate PIVOT or UNPIVOT. The columns that PIVOT makes have the names of values, in one place."""
        fields = [field for field in pivot.args.get("fields") or () if isinstance(field, exp.In)]
        if len(fields) != 1:
            return super()._pivot(source, pivot)
        (field,) = fields
        if pivot.args.get("unpivot"):
            added = self._unpivot_columns(_parts_of(field.this), [_parts_of(part) for part in pivot.expressions], field)
            used = [column for value in field.expressions for column in value.find_all(exp.Column)]
        else:
            queries = [rel.InnerQuery(self.query(each)) for each in field.expressions if isinstance(each, exp.Query)]
            value = rel.Made((self.expressions.all([*pivot.expressions, *_parts_of(field.this)]), *queries))
            added = [rel.RowStar(None, value)]
            used = [column for each in (*pivot.expressions, field.this) for column in each.find_all(exp.Column)]
        if added is None or any(column.table for column in used):
            return super()._pivot(source, pivot)
        return rel.ReshapedRows(source, frozenset([column.name for column in used]), added, self.alias(pivot))

    def _unpivot_columns(
        self, names: Sequence[exp.Expr], values: Sequence[Sequence[exp.Expr]], field: exp.In
    ) -> list[rel.OutputColumn | rel.Star | rel.RowStar] | None:
        """Return the columns that UNPIVOT makes: names of columns, and then values of any of these."""
        columns = [column for group in values for column in group]
        sources: list[list[rel.Expression]] = [[] for _ in columns]
        for value in field.expressions:
            listed = _parts_of(value.this if isinstance(value, exp.PivotAlias) else value)
            if len(listed) != len(columns):
                return None
            for place, each in enumerate(listed):
                sources[place].append(self.expressions.of(each))
        made: list[rel.OutputColumn | rel.Star | rel.RowStar] = []
        made += [rel.OutputColumn(each.name, rel.CONSTANT) for each in names]
        made += [rel.OutputColumn(each.name, rel.Made(tuple(of))) for each, of in zip(columns, sources, strict=True)]
        return made

    def _select(self, node: exp.Select) -> rel.Query:
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


def _parts_of(node: exp.Expr) -> list[exp.Expr]:
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


def _is_of_table(target: rel.OutputColumn) -> bool:
    """Return whether a column is passed through, and is no pseudocolumn such as CONNECT_BY_ISLEAF."""
    return target.column is not None and not target.column.is_call
