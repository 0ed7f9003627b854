"""Resolver of column lineage: names, stars, joins, CTEs, set operations and changes.

One resolver serves all dialects. The front end of a dialect translates a statement into `relations`. The resolver walks
that tree from the inside out. For each FROM it builds a scope with the columns that its tables, views and subqueries
give; for each expression it looks names up in the scope and unites their sources. The dialect's catalogue provides
tables, and its `NameRules` say what a name can mean.

The direction of error is fixed: a column can have too many sources, never too few. What is not understood is unknown
(None), and an unknown source makes the whole expression unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from postern.inspection.lineage import relations as rel
from postern.inspection.lineage.scope import (
    COMPUTED,
    NOTHING,
    UNKNOWN,
    Cte,
    Ctes,
    Filters,
    FromPart,
    Item,
    NameRules,
    Out,
    Scope,
    Sources,
    TooMuch,
    Variables,
    WorkBudget,
    either,
    is_nothing_else,
    merge_sources,
    only,
    rename_columns,
    union,
)

_NO_CTES: Final = Ctes()


class KnownTables(Protocol):
    """Catalogue of a dialect, for one statement of one session."""

    def table(self, schema: str, name: str) -> tuple[Sequence[Out], str]:
        """Return the columns of a table or view, and its schema."""

    def computed_columns(self, schema: str, name: str) -> frozenset[str] | None:
        """Return the columns that the server computes from others on each write; None if any can be computed."""


class LineageResolver:
    """Resolver of one statement. `has_unknown_names`: it uses a name that the catalogue does not contain."""

    def __init__(
        self,
        rules: NameRules,
        tables: KnownTables,
        work: WorkBudget,
        variables: Variables | None = None,
        *,
        repeats: bool = False,
    ) -> None:
        self._rules = rules
        self._tables = tables
        self._work = work
        self._filters = Filters(repeats=repeats)
        self._variables = variables or Variables()
        self.has_unknown_names = False

    def query(self, query: rel.Query, parent: Scope | None = None, ctes: Ctes = _NO_CTES) -> list[Out]:
        """Return the columns of a query."""
        self._work.step()
        if query is None:
            return [UNKNOWN]
        ctes = self._within(query.ctes, parent, ctes)
        if isinstance(query, rel.Select):
            scope = self._from(query.sources, Scope(parent), ctes)
            outs = self.targets(query.targets, scope, ctes)
            self._filter(query.conditions, scope, outs, ctes)
            return outs
        if isinstance(query, rel.SetOperation):
            left = self.query(query.left, parent, ctes)
            outs = _both(left, self.query(query.right, parent, ctes))
            self._filter(query.conditions, Scope(parent, outs=outs), outs, ctes)
            return outs
        if isinstance(query, rel.ValueRows):
            return self._values(query, Scope(parent), ctes)
        if isinstance(query, rel.NestedQuery):
            self._filter(query.conditions, Scope(parent), (), ctes)
            return self.query(query.query, parent, ctes)
        return self._change(query, parent, ctes)

    def filtered_query(self, query: rel.Query) -> tuple[list[Out], Sources]:
        """Return the columns of a query, and the sources of the conditions that decide its rows."""
        return self._filters.collect(lambda: self.query(query))

    def targets(self, targets: rel.Targets, scope: Scope, ctes: Ctes = _NO_CTES) -> list[Out]:
        """Return the columns of a list after SELECT or RETURNING."""
        found_outs: list[Out] = []
        for target in targets:
            outs = self._target(target, scope, ctes)
            found_outs += outs
            if self._rules.sees_aliases:
                scope.aliases += outs
            if len(found_outs) > self._rules.widest:
                raise TooMuch
        self._work.step(len(found_outs))
        return found_outs

    def _target(self, target: rel.OutputColumn | rel.Star | rel.RowStar, scope: Scope, ctes: Ctes) -> list[Out]:
        if isinstance(target, rel.OutputColumn):
            value, column = target.value, target.column
            if isinstance(value, rel.ColumnName):
                self._work.step()
                found_out = self._column(value, scope)
                return [Out(target.name, found_out.sources, plain=found_out.plain)]
            sources = self.of(value, scope, ctes)
            plain = COMPUTED if column is None else self._column(column, scope).plain
            return [Out(target.name, sources, plain=plain)]
        if isinstance(target, rel.Star):
            if not target.table:
                return [out for out in scope.outs if not out.hidden]
            items = self._rules.items(scope, target.table, target.schema)
            if len(items) == 1:
                return [out for out in items[0].outs if not out.hidden]
            return (
                [Out(None, merge_sources([out for item in items for out in item.outs]), many=True)]
                if items
                else [UNKNOWN]
            )
        row = None if target.row is None else self._row(target.row, scope)
        return [Out(None, self.of(target.otherwise, scope, ctes), many=True)] if row is None else list(row.outs)

    # WITH

    def _within(self, clause: rel.With | None, parent: Scope | None, ctes: Ctes) -> Ctes:
        """Return the CTEs that a query with this WITH clause can use."""
        if clause is None:
            return ctes
        if clause.recursive:
            inner = Ctes({}, ctes)
            for table in clause.tables:
                inner.of[self._rules.fold_name(table.name)] = self._cte(table, parent, inner)
            return inner
        for table in clause.tables:
            ctes = Ctes({self._rules.fold_name(table.name): self._cte(table, parent, ctes)}, ctes)
        return ctes

    def _cte(self, table: rel.CommonTable, parent: Scope | None, ctes: Ctes) -> Cte:
        def read() -> list[Out]:
            return _add_columns(table, rename_columns(self.query(table.query, parent, ctes), table.columns))

        def seed() -> list[Out]:
            first, within = table.query, ctes
            while isinstance(first, rel.SetOperation | rel.NestedQuery):
                within = self._within(first.ctes, parent, within)
                first = first.left if isinstance(first, rel.SetOperation) else first.query
            if first is table.query:
                return [UNKNOWN]
            return _add_columns(table, rename_columns(self.query(first, parent, within), table.columns))

        return Cte(table.name, read, seed)

    # Clauses of a query

    def _filter(self, conditions: rel.Conditions | None, scope: Scope, outs: Sequence[Out], ctes: Ctes) -> None:
        """Record the sources of conditions, which decide the rows of a query. They can also assign variables."""
        values = conditions(self._filters.wanted) if conditions is not None else ()
        if not values:
            return
        shown_names: set[str | None] = set()
        if self._rules.sees_aliases:
            scope = Scope(scope.parent, scope.items, [*scope.outs, *scope.aliases])
        else:
            shown_names = {out.name for out in outs}
        for value in values:
            # The columns that a query sorts or groups by are already known.
            if not (isinstance(value, rel.ColumnName) and value.name in shown_names):
                self._filters.add(self.of(value, scope, ctes))

    def _values(self, values: rel.ValueRows, scope: Scope, ctes: Ctes) -> list[Out]:
        rows: list[Out] = []
        for row in values.rows:
            columns: list[Out] = []
            for target in row:
                for out in self._target(target, scope, ctes):
                    name = f"{values.prefix}{len(columns) + 1}" if values.prefix else None
                    columns.append(replace(out, name=name, hidden=False))
            rows = _both(rows, columns) if rows else columns
        return rows

    # FROM

    def _from(self, sources: Iterable[rel.FromItem], scope: Scope, ctes: Ctes) -> Scope:
        """Return the scope of a query with this FROM, within that of `scope`."""
        parts: list[FromPart] = []
        for source in sources:
            parts.append(self._part(source, scope, parts, ctes))
        return self._beside(scope, parts)

    def _beside(self, scope: Scope, parts: Sequence[FromPart]) -> Scope:
        self._work.step(sum([len(part.outs) for part in parts]))
        return scope.with_parts(parts)

    def _part(self, source: rel.FromItem, scope: Scope, left: list[FromPart], ctes: Ctes) -> FromPart:
        """Resolve one element. `left` is what precedes it in the same FROM, which lateral elements can use."""
        self._work.step()
        if isinstance(source, rel.TableName):
            return self._resolve_name(source, ctes)
        if isinstance(source, rel.JoinedTables):
            return self._join(source, scope, left, ctes)
        if isinstance(source, rel.DerivedTable):
            parent = self._beside(scope, left) if source.lateral else scope.parent
            return _part("", self.query(source.query, parent, ctes), source.alias)
        if isinstance(source, rel.FunctionRows):
            return self._rows(source, self._beside(scope, left), ctes)
        if isinstance(source, rel.ReshapedRows):
            return self._reshape(source, scope, left, ctes)
        if isinstance(source, rel.FromList):
            parts: list[FromPart] = []
            for element in source.parts:
                parts.append(self._part(element, scope, [*left, *parts], ctes))
            items = tuple([item for part in parts for item in part.items])
            return FromPart(items, tuple([out for part in parts for out in part.outs]))
        return FromPart((), (UNKNOWN,))

    def _resolve_name(self, table: rel.TableName, ctes: Ctes) -> FromPart:
        cte = None if table.schema else ctes.find(self._rules.fold_name(table.name))
        if cte is None:
            return self._table(table)
        outs: Sequence[Out] = cte.outs()
        if cte.name != table.name:  # some servers can take it for a table
            outs = [Out(None, merge_sources([*outs, *self._tables.table("", table.name)[0]]), many=True)]
        return _part(table.name, outs, table.alias)

    def _table(self, table: rel.TableName) -> FromPart:
        """Resolve a table or view, never a CTE, as in the target of a change."""
        outs, schema = self._tables.table(table.schema, table.name)
        return _part(table.name, outs, table.alias, schema, system=True)

    def _join(self, join: rel.JoinedTables, scope: Scope, before: list[FromPart], ctes: Ctes) -> FromPart:
        left = self._part(join.left, scope, before, ctes)
        right = self._part(join.right, scope, [*before, left], ctes)
        if join.on is not None and self._filters.wanted:
            self._filters.add(self.of(join.on(), self._beside(scope, [*before, left, right]), ctes))
        items = left.items + right.items
        names = join.using
        if join.natural:
            if any(out.name is None for out in left.outs + right.outs):
                return _make_join_part(join, items, (Out(None, merge_sources(left.outs + right.outs), many=True),))
            both = {out.name for out in right.outs}
            names = tuple(dict.fromkeys([out.name for out in left.outs if out.name is not None and out.name in both]))
        if names and join.swapped:
            left, right = right, left
        common = tuple([_common(left, right, name) for name in names])
        rest = tuple([out for out in left.outs + right.outs if out.name not in names])
        if join.using_alias:
            items += (Item(join.using_alias, common),)
        return _make_join_part(join, items, common + rest)

    def _reshape(self, rows: rel.ReshapedRows, scope: Scope, left: list[FromPart], ctes: Ctes) -> FromPart:
        """Resolve PIVOT or UNPIVOT. If a column that it uses is not known, any column can be any of those before it."""
        part = self._part(rows.source, scope, left, ctes)
        outs = [out for out in part.outs if not out.hidden]
        rest = [out for out in outs if out.name not in rows.used]
        added = self.targets(rows.added, self._beside(Scope(scope.parent), [part]), ctes)
        if len(outs) - len(rest) != len(rows.used) or any(out.name is None for out in rest):
            return _part("", [Out(None, merge_sources([*part.outs, *added]), many=True)], rows.alias)
        return _part("", [*rest, *added], rows.alias)

    def _rows(self, rows: rel.FunctionRows, scope: Scope, ctes: Ctes) -> FromPart:
        outs: list[Out] = []
        for function in rows.values:
            sources = self.of(function.value, scope, ctes)
            self._filters.add(sources)  # the number of rows that it gives
            if function.names is None or (sources is None and not function.certain):
                outs.append(Out(None, sources, many=True))
            else:
                outs += [Out(name, sources) for name in function.names]
        if rows.columns:
            sources = merge_sources(outs)
            outs = [Out(name, sources) for name in rows.columns]
        if rows.ordinality:
            outs.append(Out("ordinality", NOTHING))
        return _part(rows.name, outs, rows.alias)

    # Expressions

    def of(self, value: rel.Expression, scope: Scope, ctes: Ctes) -> Sources:
        """Return the sources of a value, with names resolved in the scope."""
        self._work.step()
        if isinstance(value, rel.Made):
            return union([self.of(part, scope, ctes) for part in value.parts])
        return _VALUES[type(value)](self, value, scope, ctes)

    def _column(self, column: rel.ColumnName, scope: Scope) -> Out:
        self._work.step(len(scope.outs) >> 4)  # a name is searched among them
        if column.table:
            items = self._rules.items(scope, column.table, column.schema)
            column_out = self._rules.column_of(items, column.name)
        else:
            column_out = self._rules.column(scope, column.name)
            if column_out is None and any(self._rules.is_meant(out.name, column.name) for out in scope.aliases):
                return Out(None, None)
            if column_out is None and column.is_call:
                return Out(None, NOTHING)
        if column_out is None:
            self.has_unknown_names = True
            return Out(None, None)
        return column_out

    def _sources_of(self, column: rel.ColumnName, scope: Scope, ctes: Ctes) -> Sources:
        return self._column(column, scope).sources

    def _known_sources(self, value: rel.KnownValue, scope: Scope, ctes: Ctes) -> Sources:
        return value.sources

    def _whole_row(self, row: rel.WholeRow, scope: Scope, ctes: Ctes) -> Sources:
        self._work.step(len(scope.outs) >> 4)
        if not row.table:
            return merge_sources(scope.outs)
        items = self._rules.items(scope, row.table, row.schema)
        return merge_sources([out for item in items for out in item.outs]) if items else None

    def _word(self, word: rel.Word, scope: Scope, ctes: Ctes) -> Sources:
        level: Scope | None = scope
        while level is not None:
            if any(out.name == word.name for out in level.outs):
                column = self._rules.column(scope, word.name)
                return None if column is None else column.sources
            level = level.outer()
        return NOTHING

    def _count_sources(self, counted: rel.Counted, scope: Scope, ctes: Ctes) -> Sources:
        column = self._column(counted.column, scope)
        return NOTHING if is_nothing_else(column) else column.sources

    def _row_field(self, field: rel.RowField, scope: Scope, ctes: Ctes) -> Sources:
        row = self._row(field.row, scope)
        if row is None:
            return self.of(field.otherwise, scope, ctes)
        column = self._rules.column_of([row], field.name)
        return None if column is None else column.sources

    def _row(self, name: rel.ColumnName | rel.WholeRow, scope: Scope) -> Item | None:
        """Return the element of FROM with this name, if the name means one of its whole rows."""
        table = name.table
        if isinstance(name, rel.ColumnName):
            if name.table:
                return None
            table = name.name
            level: Scope | None = scope
            while level is not None:
                if any(out.name is None or out.name == table for out in level.outs):
                    return None
                level = level.parent
        items = self._rules.items(scope, table) if table and not name.schema else []
        return items[0] if items else None

    def _inner_query(self, inner: rel.InnerQuery, scope: Scope, ctes: Ctes) -> Sources:
        def read() -> Sources:
            outs = self.query(inner.query, scope, ctes)
            return NOTHING if inner.exists else merge_sources(outs)

        return self._filters.of(scope, read)

    def _variable(self, variable: rel.VariableValue, scope: Scope, ctes: Ctes) -> Sources:
        return self._variables.sources_of(variable.name)

    def _assign(self, assigned: rel.Assigned, scope: Scope, ctes: Ctes) -> Sources:
        sources = self.of(assigned.value, scope, ctes)
        for name in assigned.names:
            self._variables.assign(name, sources)
        return sources

    # INSERT, UPDATE, DELETE and MERGE also return the values that they have just written.

    def _change(self, change: rel.ChangeStatement, parent: Scope | None, ctes: Ctes) -> list[Out]:
        target = FromPart((), ()) if change.table is None else self._table(change.table)
        beside: list[FromPart] = []
        if change.beside:
            scope = self._from(change.beside, Scope(parent).with_parts([target] if change.beside_sees else []), ctes)
            seen = target if change.beside_sees else FromPart((), ())
            beside = [FromPart(tuple(scope.items[len(seen.items) :]), tuple(scope.outs[len(seen.outs) :]))]
        written = self._resolve_inserted(change, target, parent, ctes)
        parts = [*beside, target] if change.table_last else [target, *beside]
        scope = self._beside(Scope(parent), parts)
        if change.upsert:
            scope.items.append(Item("excluded", self._after(change, target, written).outs))
        for columns, values in change.values:
            for name, value in zip(columns or _names(target), values, strict=False):
                _write(written, name, self.of(value, scope, ctes))
        for name, value in change.assigned:
            _write(written, name, self.of(value, scope, ctes))
        for value in change.effects:
            self.of(value, scope, ctes)
        after = self._after(change, target, written)
        scope = self._beside(Scope(parent), [*beside, after] if change.table_last else [after, *beside])
        for name in change.before_after:
            if not self._rules.items(scope, name):
                scope.items.append(Item(name, after.outs))
        return self.targets(change.returning, scope, ctes)

    def _resolve_inserted(
        self, change: rel.ChangeStatement, target: FromPart, parent: Scope | None, ctes: Ctes
    ) -> dict[str, Sources]:
        """Return the sources that a query writes into each column, by name."""
        if not change.has_query:
            return {}
        names = change.columns or _names(target)
        outs = self.query(change.query, parent, ctes)
        if change.is_loose:
            return {"": merge_sources(outs)}
        if any(out.many for out in outs):
            outs = [Out(None, merge_sources(outs))] * len(names)
        written: dict[str, Sources] = {}
        for name, out in zip(names, outs, strict=False):
            _write(written, name, out.sources)
        return written

    def _after(self, change: rel.ChangeStatement, target: FromPart, written: dict[str, Sources]) -> FromPart:
        """Return the target after the change. Written values can appear in any computed column."""
        computed = None
        if "" not in written and change.table is not None:
            computed = self._tables.computed_columns(change.table.schema, change.table.name)
        anything = union(written.values())
        outs: list[Out] = []
        for out in target.outs:
            may_be_any = out.name is None or computed is None or out.name in computed
            fresh = anything if may_be_any else written.get(out.name or "", NOTHING)
            # The client chose the value that it has just written, like a constant.
            is_fresh = bool(written) if may_be_any else out.name in written
            plain = COMPUTED if is_fresh else out.plain
            outs.append(replace(out, sources=union([out.sources, fresh]), plain=plain))
        columns = tuple(outs)
        return FromPart(tuple([replace(item, outs=columns) for item in target.items]), columns)


_VALUES: Final[dict[type, Callable[[LineageResolver, Any, Scope, Ctes], Sources]]] = {
    rel.Assigned: LineageResolver._assign,
    rel.ColumnName: LineageResolver._sources_of,
    rel.Counted: LineageResolver._count_sources,
    rel.InnerQuery: LineageResolver._inner_query,
    rel.KnownValue: LineageResolver._known_sources,
    rel.RowField: LineageResolver._row_field,
    rel.VariableValue: LineageResolver._variable,
    rel.WholeRow: LineageResolver._whole_row,
    rel.Word: LineageResolver._word,
}


def _part(
    name: str, outs: Sequence[Out], alias: rel.AliasList | None, schema: str = "", *, system: bool = False
) -> FromPart:
    if alias is not None:
        name, schema = alias.name, ""
        outs = rename_columns(outs, alias.columns)
    columns = tuple(outs)
    return FromPart((Item(name, columns, schema, system),), columns)


def _make_join_part(join: rel.JoinedTables, items: tuple[Item, ...], outs: tuple[Out, ...]) -> FromPart:
    """Return a join as part of FROM. With an alias, only the alias can be used."""
    return FromPart(items, outs) if join.alias is None else _part("", outs, join.alias)


def _common(left: FromPart, right: FromPart, name: str) -> Out:
    """Return a column that a join merges: its value comes from either side."""
    left_side, right_side = _side(left, name), _side(right, name)
    return Out(name, union([left_side.sources, right_side.sources]), plain=either(left_side.plain, right_side.plain))


def _side(part: FromPart, name: str) -> Out:
    exact = [out for out in part.outs if out.name == name]
    return only(name, exact) if exact else only(name, (), [out for out in part.outs if out.name is None])


def _both(left: list[Out], right: list[Out]) -> list[Out]:
    """Return the columns of a set operation: the names of the left side, and the sources of both."""
    if len(left) != len(right) or any(out.many for out in (*left, *right)):
        return [Out(None, merge_sources([*left, *right]), many=True)]
    return [
        Out(a.name, union([a.sources, b.sources]), plain=either(a.plain, b.plain))
        for a, b in zip(left, right, strict=True)
    ]


def _add_columns(table: rel.CommonTable, outs: list[Out]) -> list[Out]:
    """Add the columns of SEARCH and CYCLE, which contain the columns that they follow."""
    if not table.added:
        return outs
    everything = merge_sources(outs)
    return [*outs, *(Out(name, everything if holds else NOTHING) for name, holds in table.added)]


def _names(target: FromPart) -> tuple[str, ...]:
    return tuple([out.name or "" for out in target.outs])


def _write(written: dict[str, Sources], name: str, sources: Sources) -> None:
    written[name] = union([written.get(name, NOTHING), sources])
