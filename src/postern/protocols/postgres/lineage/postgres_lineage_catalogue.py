"""Name lookup in the snapshot of a target's catalogue, with the doubts that a session's statements have caused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from postern.domain.targets.target_schema import ColumnRef, Key, Relation, TargetSchema, find_reachable
from postern.inspection.lineage.scope import NOTHING, UNKNOWN, NameRules, Out, union
from postern.inspection.lineage.views import Define, Views
from postern.protocols.postgres.lineage.postgres_builtins import FUNCTIONS, OPERATORS, QUOTING

PG_CATALOG: Final = "pg_catalog"
_WORD: Final = re.compile(r"\w+")

# System columns of tables.
RULES: Final = NameRules(system_columns=frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"}))


@dataclass(frozen=True, slots=True)
class CatalogueDoubts:
    """Changes of a session that the snapshot does not contain.

    `names` are tables, views and functions that it created or changed; `everything` means that it may have changed any.
    Unless `path`, its search_path may differ from the login's. Unless `settings`, a setting may contain a query's
    result. Unless `traceable`, code that cannot be analysed may have opened cursors and prepared statements.
    """

    names: frozenset[str] = frozenset()
    everything: bool = False
    path: bool = True
    settings: bool = True
    traceable: bool = True


NO_DOUBTS: Final = CatalogueDoubts()


class PostgresLineageCatalogue(Views):
    """The lookup for one snapshot. `define` is called at most once for each view, when the view is first used."""

    def __init__(self, schema: TargetSchema, define: Define) -> None:
        super().__init__(schema, define)
        self._by_name: dict[str, list[Key]] = {}
        self._by_number: dict[int, Relation] = {}
        self._children: dict[Key, list[Key]] = {}
        for key, relation in schema.relations.items():
            self._by_name.setdefault(relation.name, []).append(key)
            if relation.number:
                self._by_number[relation.number] = relation
            for parent in relation.parents:
                self._children.setdefault(parent, []).append(key)
        self._impure = {f.name for f in schema.functions.values() if f.schema not in (PG_CATALOG, "") and not f.pure}
        self._pure = {f.name for f in schema.functions.values() if f.schema not in (PG_CATALOG, "") and f.pure}

    def relation(self, schema: str, name: str, doubts: CatalogueDoubts) -> Relation | None:
        """Return the relation, or None if it is unknown which one is meant. `schema` is empty if the statement names
        none."""
        if doubts.everything or name in doubts.names:
            return None
        if schema:
            return self.schema.relations.get((schema, name))
        schemas = self._by_name.get(name, [])
        path = self.schema.search_path
        if path and doubts.path:
            within = path if PG_CATALOG in path else (PG_CATALOG, *path)
            return next((self.schema.relations[place, name] for place in within if (place, name) in schemas), None)
        return self.schema.relations[schemas[0]] if len(schemas) == 1 else None

    def find_by_number(self, number: int) -> Relation | None:
        return self._by_number.get(number)

    def pure(self, name: tuple[str, ...], doubts: CatalogueDoubts) -> bool:
        """Return True if the function's result depends on its arguments alone."""
        last = name[-1]
        if doubts.everything or last in doubts.names:
            return False
        if len(name) > 1 and name[-2] != PG_CATALOG:
            function = self.schema.functions.get((name[-2], last))
            return function is not None and function.pure
        if len(name) > 1:
            return last in FUNCTIONS
        # An overload in any schema of the path may match its arguments better than the server's own function.
        return last not in self._impure and (last in FUNCTIONS or last in self._pure)

    def operates(self, symbol: str, doubts: CatalogueDoubts) -> bool:
        """Return the same for an operator."""
        is_known = symbol in OPERATORS or symbol in self._pure
        return is_known and symbol not in self._impure and not doubts.everything

    def as_function(self, name: str, doubts: CatalogueDoubts) -> bool:
        """Return True if `(value).name` may call a function with an unknown result."""
        return name in self._impure or name in doubts.names or doubts.everything

    def tells(self, table: str, schema: str, doubts: CatalogueDoubts) -> bool:
        """Return True if the plan of a query over the table may quote results of custom functions, because views
        contain calls. A table that is not found is known to the target only."""
        relation = self.relation(schema, table, doubts)
        return relation is None or (bool(relation.definition) and self._views_call)

    @cached_property
    def _views_call(self) -> bool:
        views = (relation.definition for relation in self.schema.relations.values() if relation.schema != PG_CATALOG)
        return any(not self._impure.isdisjoint(_WORD.findall(definition)) for definition in views if definition)

    def place(self, relation: Relation, attnum: int) -> Out:
        """Return the column with that number. Numbers start at 1 and include dropped columns; 0 is the whole row, and
        system columns are negative."""
        if attnum == 0:
            return Out(None, union([out.sources for out in self.outs(relation)]))
        if attnum < 0:
            return Out(None, NOTHING)
        if not attnum <= len(relation.columns) or not (name := relation.columns[attnum - 1]):
            return Out(None, None)
        return next((out for out in self.outs(relation) if out.name == name), Out(name, None))

    def _refs_of(self, relation: Relation, name: str) -> frozenset[ColumnRef] | None:
        quoting = QUOTING.get(relation.name, frozenset()) if relation.schema == PG_CATALOG else frozenset()
        if quoting is None or name in quoting:
            return None
        return super()._refs_of(relation, name) if relation.definition else self.family(relation, name)

    def family(self, relation: Relation, name: str) -> frozenset[ColumnRef]:
        """Return the column, and the same column of the relation's partitions, children and parents."""
        below = find_reachable([(relation.schema, relation.name)], lambda key: self._children.get(key, ()))
        tables = find_reachable(below, self._parents)
        return frozenset(ColumnRef(schema, table, name) for schema, table in tables if self._has(schema, table, name))

    def _parents(self, key: Key) -> tuple[Key, ...]:
        relation = self.schema.relations.get(key)
        return () if relation is None else relation.parents

    def _has(self, schema: str, table: str, name: str) -> bool:
        relation = self.schema.relations.get((schema, table))
        return relation is not None and name in relation.columns


@dataclass(frozen=True, slots=True)
class DoubtedTables:
    """Tables as one session may see them."""

    catalogue: PostgresLineageCatalogue
    doubts: CatalogueDoubts

    def table(self, schema: str, name: str) -> tuple[Sequence[Out], str]:
        relation = self.catalogue.relation(schema, name, self.doubts)
        return ((UNKNOWN,), schema) if relation is None else (self.catalogue.outs(relation), relation.schema)

    def computed_columns(self, schema: str, name: str) -> frozenset[str] | None:
        relation = self.catalogue.relation(schema, name, self.doubts)
        return None if relation is None or relation.definition else frozenset(relation.generated)
