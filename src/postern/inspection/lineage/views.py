"""Views, which are resolved on first use, once each, however deeply they are nested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from postern.domain.targets.target_schema import ColumnRef, Relation
from postern.inspection.lineage.scope import UNKNOWN, Out, Plain

_DEEPEST: Final = 32  # nested views


def also_named(plain: Plain, own_names: frozenset[ColumnRef]) -> Plain:
    """Return the names of a view's column: the view's own, and those of each column that it passes through.

    A column that the view computes is plain to a rule that names only the view's column.
    """
    return frozenset(names | own_names for names in plain) or frozenset({own_names})


class Views:
    """Columns of the relations in one catalogue."""

    def __init__(self) -> None:
        self._outs: dict[tuple[str, str], tuple[Out, ...]] = {}
        self._reading: list[tuple[str, str]] = []

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

    def _read(self, relation: Relation) -> Iterator[Out]:
        raise NotImplementedError
