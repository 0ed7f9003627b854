"""Views, which are resolved on first use, once each, however deeply they are nested."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final

from postern.domain.targets.target_schema import ColumnRef, Key, Relation, TargetSchema
from postern.inspection.lineage.scope import UNKNOWN, Out, Plain, TooMuch, union
from postern.inspection.sql.sql_tokens import UnreadableSql

log = logging.getLogger(__name__)

_DEEPEST: Final = 32  # nested views


def also_named(plain: Plain, own_names: frozenset[ColumnRef]) -> Plain:
    """Return the names of a view's column: the view's own, and those of each column that it passes through.

    A column that the view computes is plain to a rule that names only the view's column.
    """
    return frozenset(names | own_names for names in plain) or frozenset({own_names})


Define = Callable[[Relation, str], list[Out]]
"""Analyses the definition of a view or, with the name of a column, the expression that computes it. Can raise any error
if it is not understood."""


class Views:
    """Columns of the relations in one snapshot. `define` is called at most once for each view, when the view is first
    used. `spell` returns the form in which names of columns are compared."""

    def __init__(self, schema: TargetSchema, define: Define, spell: Callable[[str], str] = str) -> None:
        self.schema = schema
        self._define = define
        self._spell = spell
        self._outs: dict[Key, tuple[Out, ...]] = {}
        self._reading: list[Key] = []

    def outs(self, relation: Relation) -> tuple[Out, ...]:
        """Return a relation's columns in order; a view's come from its definition."""
        key = (relation.schema, relation.name)
        outs = self._outs.get(key)
        if outs is None:
            if key in self._reading or len(self._reading) >= _DEEPEST:
                return (UNKNOWN,)
            self._reading.append(key)
            try:
                outs = tuple(self._read(relation))
            finally:
                self._reading.pop()
            self._outs[key] = outs
        return outs

    def other_columns(self, relation: Relation, column: str) -> list[Out]:
        """Return the columns that the expression of a computed column can name, by themselves."""
        return [
            Out(self._spell(name), frozenset({ColumnRef(relation.schema, relation.name, name)}))
            for name in relation.columns
            if name != column
        ]

    def _read(self, relation: Relation) -> Iterator[Out]:
        names = [name for name in relation.columns if name]
        outs: list[Out] = []
        if relation.definition:
            outs = self._analyse(relation, "")
            if len(outs) != len(names) or any(out.many for out in outs):
                outs = [Out(name, None) for name in names]
        for place, name in enumerate(names):
            column_refs = self._refs_of(relation, name)
            if column_refs is None:
                yield Out(self._spell(name), None)
                continue
            plain = frozenset({column_refs})
            within: list[Out] = []
            if relation.definition:
                within = [outs[place]]
                plain = also_named(outs[place].plain, column_refs)
            elif name in relation.generated:
                within = self._analyse(relation, name)
            sources = union([column_refs, *(out.sources for out in within)])
            yield Out(self._spell(name), sources, hidden=name in relation.hidden, plain=plain)

    def _analyse(self, relation: Relation, column: str) -> list[Out]:
        try:
            return self._define(relation, column)
        except (UnreadableSql, TooMuch, RecursionError, MemoryError):
            pass
        except Exception:
            log.exception("reading the definition of a view failed; its columns are unknown")
        self._record_unreadable()
        return [UNKNOWN]

    def _record_unreadable(self) -> None:
        """Record that a definition could not be read."""

    def _refs_of(self, relation: Relation, name: str) -> frozenset[ColumnRef] | None:
        """Return the names of a column as rules write them; None if its values may be anything."""
        return frozenset({ColumnRef(relation.schema, relation.name, name)})
