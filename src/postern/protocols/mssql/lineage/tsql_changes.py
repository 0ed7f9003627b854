"""INSERT, UPDATE, DELETE and MERGE: what they write into temporary tables and variables, and what OUTPUT returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from sqlglot import exp

from postern.inspection.lineage import relations as rel
from postern.inspection.lineage.scope import NOTHING, Out, Sources, merge_sources, union
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.protocols.mssql.lineage.tsql_lineage_catalogue import Outs
from postern.protocols.mssql.lineage.tsql_names import column_name
from postern.protocols.mssql.lineage.tsql_queries import TsqlQueries


class ChangeOwner(Protocol):
    """The batch that a change belongs to."""

    def resolve(self, query: rel.Query) -> list[Out]:
        """Return the columns of a query."""

    def columns_of(self, name: str) -> Outs | None:
        """Return the columns of a temporary table or table variable; None for any other."""

    def write(self, name: str, sources: Sources, columns: Sequence[str] = ()) -> None:
        """Record that a temporary table or table variable may get values from these sources, in these columns or in
        any. Other tables are ignored."""


class TsqlChange:
    """INSERT, UPDATE, DELETE or MERGE. `target` is the table that it changes, None if that is unknown."""

    def __init__(self, owner: ChangeOwner, queries: TsqlQueries, tree: exp.Expr) -> None:
        self._owner = owner
        self._queries = queries
        self._tree = tree
        target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        if isinstance(tree, exp.Delete) and tree.args.get("tables"):
            target = tree.args["tables"][0]
        self._tables = _names(queries, tree.find_all(exp.Table))
        self._named = queries.table_name(target)
        self.target = self._find_target(self._named)

    def _find_target(self, target: rel.TableName | None) -> rel.TableName | None:
        """Return the table that is changed, which a change can name by an alias in its FROM."""
        if target is None or target.schema or isinstance(self._tree, exp.Insert):
            return target
        folded = fold_identifier(target.name)
        listed = _names(self._queries, _listed_tables(self._tree))
        aliased = [table for table in listed if table.alias is not None and fold_identifier(table.alias.name) == folded]
        if aliased:
            table = aliased[0]
            return rel.TableName(table.name, table.schema) if len(aliased) == 1 else None
        derived = (node.alias for node in self._tree.find_all(exp.CTE, exp.Subquery) if node.alias)
        return None if folded in map(fold_identifier, derived) else target

    def write(self) -> None:
        """Record what the change writes into temporary tables, and the variables that it assigns."""
        values = self._values()
        written = [(column, merge_sources(self._owner.resolve(self._one(expression)))) for column, expression in values]
        if self.target is None:
            everything = union([sources for _, sources in written] + [self._inserted_sources()])
            for table in self._tables:
                self._owner.write(table.name, everything)
            return
        for column, sources in written:
            self._owner.write(self.target.name, sources, (column,) if column else ())
        if isinstance(self._tree, exp.Insert) and self.target.name.startswith(("#", "@")):
            self._write_inserted(self.target.name)

    def _one(self, expression: rel.Expression) -> rel.Query:
        """Return a query of one expression over everything that the change names."""
        target = self.target or self._named
        items: tuple[rel.FromItem, ...] = (*self._beside(), *([target] if target is not None else []))
        query: rel.Query = rel.Select((rel.OutputColumn(None, expression),), items)
        return self._queries.with_ctes(self._tree, query)

    def _beside(self) -> tuple[rel.FromItem, ...]:
        if isinstance(self._tree, exp.Delete):  # without FROM, it lists its table only
            listed = self._tree.this if isinstance(self._tree.this, exp.Expr) else self._tree.args["tables"][0]
            return (self._queries.source(listed),)
        using = self._tree.args.get("using")
        if isinstance(self._tree, exp.Merge) and isinstance(using, exp.Expr):
            target = self._queries.table_name(self._tree.this)
            return (self._queries.source(using), *([target] if target is not None else []))
        return self._queries.sources(self._tree)

    def _values(self) -> list[tuple[str, rel.Expression]]:
        """Return the columns that UPDATE and MERGE set, with their values; "" for any column."""
        if isinstance(self._tree, exp.Update):
            return [self._set(each) for each in self._tree.expressions]
        if not isinstance(self._tree, exp.Merge):
            return []
        found: list[tuple[str, rel.Expression]] = []
        for when in self._tree.find_all(exp.When):
            then = when.args.get("then")
            if isinstance(then, exp.Update):
                found += [self._set(each) for each in then.expressions]
            elif isinstance(then, exp.Insert):
                source = then.args.get("expression")
                cells = source.expressions if isinstance(source, exp.Tuple) else [source] if source else []
                found += [("", self._queries.expressions.of(cell)) for cell in cells]
        return found

    def _set(self, node: exp.Expr) -> tuple[str, rel.Expression]:
        """Return what one element after SET writes: `a = 1`, `@v = 1`, `@v = a = 1`."""
        expressions = self._queries.expressions
        if not isinstance(node, exp.EQ):
            return "", rel.UNKNOWABLE
        variable = expressions.variable_name(node.this)
        if variable:
            value = expressions.of(node.args["expression"])
            return "", rel.Assigned((fold_identifier(variable),), value)
        column = column_name(node.this.name) if isinstance(node.this, exp.Column) else ""
        own = expressions.of(node.this) if not column else rel.CONSTANT
        return column, rel.Made((expressions.of(node.args["expression"]), own))

    def _source(self) -> rel.Query:
        source = self._tree.args.get("expression")
        return self._queries.query(source) if isinstance(source, exp.Expr) else None

    def _columns(self) -> tuple[str, ...]:
        schema = self._tree.this
        listed = schema.expressions if isinstance(schema, exp.Schema) else ()
        return tuple([column_name(each.name) for each in listed])

    def _inserted_sources(self) -> Sources:
        if not isinstance(self._tree, exp.Insert) or not isinstance(self._tree.args.get("expression"), exp.Expr):
            return NOTHING
        return merge_sources(self._owner.resolve(self._queries.with_ctes(self._tree, self._source())))

    def _write_inserted(self, name: str) -> None:
        if not isinstance(self._tree.args.get("expression"), exp.Expr):
            return
        outs = self._owner.resolve(self._queries.with_ctes(self._tree, self._source()))
        known = self._owner.columns_of(name)
        columns = self._columns() or tuple([out.name or "" for out in known or ()])
        if len(columns) != len(outs) or any(out.many for out in outs) or not all(columns):
            self._owner.write(name, merge_sources(outs))
            return
        for column, out in zip(columns, outs, strict=True):
            self._owner.write(name, out.sources, (column,))

    def returning(self, targets: rel.Targets) -> rel.Query:
        """Return the change as a query of what OUTPUT lists."""
        source = self._tree.args.get("expression")
        has_query = isinstance(self._tree, exp.Insert) and isinstance(source, exp.Expr)
        columns = self._columns()
        change = rel.ChangeStatement(
            self.target,
            query=self._source() if has_query else None,
            has_query=has_query,
            is_loose=not columns,
            columns=columns,
            assigned=tuple(self._values()),
            beside=self._beside(),
            returning=targets,
            before_after=("inserted", "deleted"),
        )
        return self._queries.with_ctes(self._tree, change)


def _names(queries: TsqlQueries, tables: Iterable[exp.Expr]) -> list[rel.TableName]:
    return [name for table in tables if (name := queries.table_name(table)) is not None]


def _listed_tables(tree: exp.Expr) -> Iterator[exp.Table]:
    """Yield the tables that the FROM of a change lists, without those of queries in it."""
    waiting = [tree.args.get("from_"), tree.args.get("using"), *(tree.args.get("joins") or ())]
    if isinstance(tree, exp.Delete | exp.Merge):
        waiting.append(tree.this)
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Table):
            yield node
        if isinstance(node, exp.Table | exp.From | exp.Join | exp.Subquery):
            waiting += [node.this, *(node.args.get("joins") or ())]
