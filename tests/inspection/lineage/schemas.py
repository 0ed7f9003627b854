"""Short notations for the schemas of targets and for the lineage of a statement."""

from __future__ import annotations

from typing import Protocol

from postern.domain.targets.target_schema import ColumnRef, Function, Relation, TargetSchema


class Lineage(Protocol):
    def sources(self, text: str, schema: TargetSchema) -> tuple[frozenset[ColumnRef] | None, ...] | None: ...


def relation(name: str, columns: str, *, schema: str, **more: object) -> Relation:
    return Relation(schema, name, tuple(columns.split()), **more)  # type: ignore[arg-type]


def target(*relations: Relation, functions: tuple[Function, ...] = (), path: tuple[str, ...]) -> TargetSchema:
    return TargetSchema(
        {(one.schema, one.name): one for one in relations}, {(one.schema, one.name): one for one in functions}, path
    )


def lineage_texts(lineage: Lineage, text: str, schema: TargetSchema) -> list[str | None] | None:
    """Return the sources of each column as one text."""
    found = lineage.sources(text, schema)
    if found is None:
        return None
    return [None if one is None else " ".join(sorted(f"{ref.table}.{ref.column}" for ref in one)) for one in found]
