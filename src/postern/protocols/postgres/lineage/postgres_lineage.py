"""Lineage of statements, cached by text and schema snapshot."""

from __future__ import annotations

from functools import lru_cache

from postern.domain.targets.target_schema import ColumnRef, Relation, TargetSchema
from postern.inspection.lineage.cached_lineage import CachedReadings, LineageReader, is_long
from postern.inspection.lineage.scope import UNKNOWN, Out
from postern.inspection.schema_ref import SchemaRef
from postern.inspection.sql.postgres.postgres_tree import UnreadablePostgres, readings
from postern.protocols.postgres.dialect.postgres_shapes import POSTGRES_SHAPES
from postern.protocols.postgres.lineage.postgres_lineage_catalogue import (
    NO_DOUBTS,
    CatalogueDoubts,
    PostgresLineageCatalogue,
)
from postern.protocols.postgres.lineage.postgres_lineage_statements import Read, Statements

PostgresReads = tuple[Read, ...] | None
"""The analysis of each statement of a text; None if it cannot be parsed. If the text depends on
`standard_conforming_strings`, those of both readings."""


class Lineage(CachedReadings[PostgresLineageCatalogue, CatalogueDoubts, PostgresReads]):
    """Lineage of PostgreSQL's statements. Never raises; not thread-safe. Sessions share one instance and its caches."""

    def __init__(self) -> None:
        super().__init__(LineageReader(POSTGRES_SHAPES, NO_DOUBTS, _catalogue, _read, _read_elsewhere, _is_never_read))

    def sources(self, text: str, schema: TargetSchema) -> tuple[frozenset[ColumnRef] | None, ...] | None:
        """Return for each result column the table columns that it derives from (and those of views in between), or None
        if unknown.

        The whole result is None if the text is not exactly one statement with rows or a COPY to the client, or if the
        number of columns is unknown.
        """
        reads = self.read(text, schema)
        if reads is None or len(reads) != 1 or reads[0].keeps is not None:
            return None
        outs = reads[0].outs
        if outs is None or any(out.many for out in outs):
            return None
        return tuple(out.sources for out in outs)


def _is_never_read(text: str) -> bool:
    return is_long(text) or "\0" in text


@lru_cache
def _own() -> Lineage:
    return Lineage()


def _read_elsewhere(ref: SchemaRef, text: str, doubts: CatalogueDoubts) -> PostgresReads:
    """Read in another process, which caches the schema."""
    return _own().read(text, ref.load(), doubts)


def _catalogue(schema: TargetSchema) -> PostgresLineageCatalogue:
    def define(relation: Relation, column: str) -> list[Out]:
        text = f"select {relation.generated[column]}" if column else relation.definition
        try:
            statements, *otherwise = readings(text)
            if len(statements) != 1 or otherwise not in ([], [statements]):
                return [UNKNOWN]
            reader = Statements(catalogue, NO_DOUBTS)
            if not column:
                return list(reader.read(statements[0]).outs or [UNKNOWN])
            outs = [Out(name, catalogue.family(relation, name)) for name in relation.columns if name]
            return reader.expression(statements[0]["SelectStmt"]["targetList"][0], outs)
        except UnreadablePostgres:
            return [UNKNOWN]

    catalogue = PostgresLineageCatalogue(schema, define)
    return catalogue


def _read(text: str, catalogue: PostgresLineageCatalogue, doubts: CatalogueDoubts) -> PostgresReads:
    """Read by each way in which the server may. If they differ, a response may belong to any statement of both."""
    folded = (POSTGRES_SHAPES.of(text) or text).lower()  # without the values of constants
    sets = "set_config" in folded or "u&" in folded  # "u&" spells names by code points
    try:
        reader = Statements(catalogue, doubts, sets=sets)
        ways = [tuple([reader.read(statement) for statement in way]) for way in readings(text)]
    except UnreadablePostgres:
        return None
    return ways[0] if len(ways) == 1 or ways[0] == ways[1] else ways[0] + ways[1]
