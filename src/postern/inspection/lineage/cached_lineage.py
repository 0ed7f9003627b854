"""Lineage of texts, cached by text, snapshot of the catalogue and state of the session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, Protocol, TypeVar, cast

from postern.domain.targets.target_schema import ColumnRef, TargetSchema
from postern.inspection.lineage.lineage_cache import Snapshots
from postern.inspection.lineage.scope import Out, TooMuch
from postern.inspection.lineage.unread import UnreadText
from postern.inspection.schema_ref import SchemaRef, pack_schema
from postern.inspection.sql.sql_shapes import Shapes
from postern.inspection.sql.sql_tokens import UnreadableSql

log = logging.getLogger(__name__)

MOST_TEXT: Final = 64 * 1024  # characters; longer texts are not analysed


class LineageRead(Protocol):
    """The analysis of a text: the columns of each answer that it can have."""

    @property
    def answers(self) -> Collection[tuple[Out, ...]]: ...


CatalogueT = TypeVar("CatalogueT")
StateT = TypeVar("StateT", bound=Hashable)
ReadT = TypeVar("ReadT")
AnswersT = TypeVar("AnswersT", bound=LineageRead)


def is_long(text: str) -> bool:
    return len(text) > MOST_TEXT


@dataclass(frozen=True, slots=True)
class LineageReader(Generic[CatalogueT, StateT, ReadT]):
    """How a dialect reads texts. `read` raises UnreadableSql and TooMuch. `read_elsewhere` runs in another process, so
    it is a function of a module. Texts that are too large are not analysed."""

    shapes: Shapes
    no_state: StateT
    make_catalogue: Callable[[TargetSchema], CatalogueT]
    read: Callable[[str, CatalogueT, StateT], ReadT]
    read_elsewhere: Callable[[SchemaRef, str, StateT], ReadT | None]
    is_too_large: Callable[[str], bool] = is_long


class CachedReadings(Generic[CatalogueT, StateT, ReadT]):
    """Analyses of one dialect. Never raises; not thread-safe. Sessions share one instance and its caches."""

    def __init__(self, reader: LineageReader[CatalogueT, StateT, ReadT]) -> None:
        self._reader = reader
        self._snapshots: Snapshots[CatalogueT, ReadT | None] = Snapshots(reader.make_catalogue)

    def catalogue(self, schema: TargetSchema) -> CatalogueT:
        return self._snapshots.of(schema).catalogue

    def read(self, text: str, schema: TargetSchema, state: StateT | None = None) -> ReadT | None:
        """Return the analysis of a text; None if it cannot be tokenised, or is too large or too deep."""
        if self._reader.is_too_large(text):
            return None
        known = self._reader.no_state if state is None else state
        stored_readings = self._snapshots.of(schema)
        shape = None if (text, known) in stored_readings else self._reader.shapes.of(text)
        return stored_readings.of(
            text if shape is None else shape, known, lambda: self._read(text, stored_readings.catalogue, known)
        )

    def unread(self, text: str, schema: TargetSchema, state: StateT | None = None) -> UnreadText | None:
        """Return what another process has to read for `read`, or None if nothing."""
        known = self._reader.no_state if state is None else state
        stored_readings = self._snapshots.of(schema)
        words = self._reader.shapes.of(text) or text
        if self._reader.is_too_large(text) or (text, known) in stored_readings or (words, known) in stored_readings:
            return None

        def keep(read: object) -> None:
            stored_readings.keep(words, known, cast("ReadT | None", read))

        def make_task() -> Callable[[], object]:
            return partial(self._reader.read_elsewhere, pack_schema(schema), text, known)

        return UnreadText(len(text), partial(self.read, text, schema, known), make_task, keep)

    def _read(self, text: str, catalogue: CatalogueT, state: StateT) -> ReadT | None:
        try:
            return self._reader.read(text, catalogue, state)
        except (UnreadableSql, TooMuch, RecursionError, MemoryError):
            return None
        except Exception:
            log.exception("finding the lineage of a statement failed; its columns are unknown")
            return None


class CachedLineage(CachedReadings[CatalogueT, StateT, AnswersT]):
    """Lineage of one dialect whose texts have one analysis."""

    def sources(self, text: str, schema: TargetSchema) -> tuple[frozenset[ColumnRef] | None, ...] | None:
        """Return for each result column the table columns that it derives from (and those of views in between), or None
        if unknown.

        The whole result is None if the text does not have exactly one answer, or if the number of columns is unknown.
        """
        read = self.read(text, schema)
        if read is None or len(read.answers) != 1:
            return None
        (answer,) = read.answers
        return None if any(out.many for out in answer) else tuple(out.sources for out in answer)
