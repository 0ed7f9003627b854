"""Types of columns in copied data."""

from __future__ import annotations

from postern.domain.targets.target_schema import ColumnRef, Origin, TargetSchema


def type_of(of: Origin | None, schema: TargetSchema | None) -> int:
    """Return the target's number of the type of a column that is passed through unchanged.

    0 if unknown, also if the names of the column have different types: those in views and in parents of an heir count
    too.
    """
    if of is None or schema is None:
        return 0
    types: set[int] = set()
    none: frozenset[ColumnRef] = frozenset()
    for ref in none.union(*of.plain):
        relation = schema.relations.get((ref.schema, ref.table))
        types.add(0 if relation is None else relation.type_of(ref.column))
    return types.pop() if len(types) == 1 else 0
