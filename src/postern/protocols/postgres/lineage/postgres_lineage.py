"""Lineage of statements, cached by text and schema snapshot."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, cast

from postern.domain.targets.target_schema import ColumnRef, Relation, TargetSchema
from postern.inspection.lineage.lineage_cache import Snapshots
from postern.inspection.lineage.scope import UNKNOWN, Out, TooMuch
from postern.inspection.lineage.unread import UnreadText
from postern.inspection.schema_ref import SchemaRef, pack_schema
from postern.inspection.sql.postgres.postgres_tree import UnreadablePostgres, readings
from postern.protocols.postgres.dialect.postgres_shapes import POSTGRES_SHAPES
from postern.protocols.postgres.lineage.postgres_lineage_catalogue import (
    NO_DOUBTS,
    CatalogueDoubts,
    PostgresLineageCatalogue,
)
from postern.protocols.postgres.lineage.postgres_lineage_statements import Read, Statements

log = logging.getLogger(__name__)

MOST_TEXT: Final = 64 * 1024  # characters; longer texts are not analysed


class Lineage:
    """Lineage of PostgreSQL's statements. Never raises; not thread-safe. Sessions share one instance and its caches."""

    def __init__(self) -> None:
        self._snapshots: Snapshots[PostgresLineageCatalogue, tuple[Read, ...] | None] = Snapshots(_catalogue)

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

    def read(self, text: str, schema: TargetSchema, doubts: CatalogueDoubts = NO_DOUBTS) -> tuple[Read, ...] | None:
        """Return the analysis of each statement of the text; None if it cannot be parsed, or is too large or too deep.
        If it depends on `standard_conforming_strings`, both readings are included."""
        if _is_never_read(text):
            return None
        readings = self._snapshots.of(schema)
        shape = None if (text, doubts) in readings else POSTGRES_SHAPES.of(text)
        words = text if shape is None else shape  # the text without the values of constants
        return readings.of(words, doubts, lambda: _read(text, words, readings.catalogue, doubts))

    def unread(self, text: str, schema: TargetSchema, doubts: CatalogueDoubts = NO_DOUBTS) -> UnreadText | None:
        """Return what another process has to read for `read`, or None if nothing."""
        readings = self._snapshots.of(schema)
        words = POSTGRES_SHAPES.of(text) or text
        if _is_never_read(text) or (text, doubts) in readings or (words, doubts) in readings:
            return None

        def keep(reads: object) -> None:
            readings.keep(words, doubts, cast("tuple[Read, ...] | None", reads))

        def make_task() -> Callable[[], object]:
            return partial(_read_elsewhere, pack_schema(schema), text, doubts)

        return UnreadText(len(text), partial(self.read, text, schema, doubts), make_task, keep)

    def catalogue(self, schema: TargetSchema) -> PostgresLineageCatalogue:
        return self._snapshots.of(schema).catalogue


def _is_never_read(text: str) -> bool:
    return len(text) > MOST_TEXT or "\0" in text


@lru_cache
def _own() -> Lineage:
    return Lineage()


def _read_elsewhere(ref: SchemaRef, text: str, doubts: CatalogueDoubts) -> tuple[Read, ...] | None:
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


def _read(
    text: str, words: str, catalogue: PostgresLineageCatalogue, doubts: CatalogueDoubts
) -> tuple[Read, ...] | None:
    """Read by each way in which the server may. If they differ, a response may belong to any statement of both."""
    folded = words.lower()
    sets = "set_config" in folded or "u&" in folded  # "u&" spells names by code points
    try:
        reader = Statements(catalogue, doubts, sets=sets)
        ways = [tuple([reader.read(statement) for statement in way]) for way in readings(text)]
    except (UnreadablePostgres, TooMuch, RecursionError):
        return None
    except Exception:
        log.exception("finding the lineage of a statement failed; its columns are unknown")
        return None
    return ways[0] if len(ways) == 1 or ways[0] == ways[1] else ways[0] + ways[1]
