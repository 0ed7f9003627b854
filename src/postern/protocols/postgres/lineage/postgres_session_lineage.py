"""The origin of a session's result columns: from the statement, the session's earlier statements, and the column
description that the target sends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from postern.domain.targets.target_schema import Origin, TargetSchema
from postern.inspection.lineage.answers import Outs, one_of, origin_of, origins_of_all, spread
from postern.inspection.lineage.scope import Out, union
from postern.inspection.lineage.session_lineage import SnapshotLineage
from postern.inspection.lineage.unread import UnreadText
from postern.interception.events import Column
from postern.protocols.postgres.lineage.postgres_lineage import Lineage, PostgresReads
from postern.protocols.postgres.lineage.postgres_lineage_catalogue import NO_DOUBTS, CatalogueDoubts
from postern.protocols.postgres.lineage.postgres_lineage_names import cut
from postern.protocols.postgres.lineage.postgres_lineage_statements import KeptNames, Read

_NAMES: Final = 256  # cursors and prepared statements; further ones are unknown
_MEANINGS: Final = 32  # statements per name
_DOUBTED: Final = 256  # names; beyond this, everything is in doubt


class SessionLineage(SnapshotLineage[CatalogueDoubts, PostgresReads]):
    """Lineage of one session. Call `record_statement` for each statement in order, then `of` for its response.

    Facts only ever add meanings to a name, so failed statements, and statements that were sent before an earlier one
    was answered, cannot mislead it. Never raises.
    """

    def __init__(self, lineage: Lineage, schema: Callable[[], TargetSchema | None]) -> None:
        super().__init__(schema)
        self._lineage = lineage
        self._doubts = NO_DOUBTS
        self._kept: dict[tuple[KeptNames, str], list[Outs | None]] = {}

    def record_gap(self) -> None:
        """Record that statements were forwarded unseen: they may have changed anything."""
        self._doubts = replace(self._doubts, everything=True, path=False, settings=False, traceable=False)
        self._kept.clear()

    def record_statement(self, statement: str) -> None:
        """Record a statement before it is forwarded."""
        for read in self._read(statement) or ():
            doubts = read.doubts
            if doubts == NO_DOUBTS and read.keeps is None:
                continue
            names = self._doubts.names | doubts.names
            full = len(names) > _DOUBTED
            self._doubts = replace(
                self._doubts,
                names=frozenset() if full else names,
                everything=self._doubts.everything or doubts.everything or full,
                path=self._doubts.path and doubts.path,
                settings=self._doubts.settings and doubts.settings,
                traceable=self._doubts.traceable and doubts.traceable,
            )
            if read.keeps is not None:
                self._keep(read.keeps, read.outs)

    def unread(self, statement: str) -> UnreadText | None:
        """Return what `record_statement` would have to read for this statement; None if that is known."""
        schema = self._schema
        if self._is_last(statement, schema, self._doubts):
            return None
        return self._lineage.unread(statement, schema, self._doubts)

    def of(self, statement: str, columns: Sequence[Column]) -> tuple[Origin | None, ...] | None:
        """Return the origin of each column of a response; None if nothing is known about any of them. Without `columns`
        (a copy has no description) the statement gives their number."""
        outs = self._trace_columns(statement, columns)
        if not columns:
            return origins_of_all(outs)
        found_outs = None if outs is None else spread(outs, len(columns))
        return tuple(
            origin_of(
                self._both(
                    column, Out(None, None) if found_outs is None else found_outs[place], parsed=found_outs is not None
                )
            )
            for place, column in enumerate(columns)
        )

    def _keep(self, name: tuple[KeptNames, str], outs: Outs | None) -> None:
        if name not in self._kept and len(self._kept) >= _NAMES:
            return
        meanings = self._kept.setdefault(name, [])
        if outs not in meanings:
            meanings.append(None if len(meanings) >= _MEANINGS else outs)

    def _read(self, statement: str) -> PostgresReads:
        return self._read_once(statement, self._schema, self._doubts, self._lineage.read)

    def _trace_columns(self, statement: str, columns: Sequence[Column]) -> Outs | None:
        reads = self._read(statement)
        if reads is None:
            return None
        meanings: list[Outs | None] = []
        for read in reads:
            meanings += self._meanings(read)
        return one_of(meanings, columns, cut)

    def _meanings(self, read: Read) -> Sequence[Outs | None]:
        if read.shows is not None:
            return self._kept.get(read.shows, [None]) if self._doubts.traceable else [None]
        return [] if read.outs is None or read.keeps is not None else [read.outs]

    def _both(self, column: Column, out: Out, *, parsed: bool) -> Out:
        """Combine the target's description with the statement's lineage. The description counts alone if the lineage is
        unknown."""
        if not column.table:
            return out
        catalogue = self._lineage.catalogue(self._schema)
        relation = catalogue.find_by_number(column.table)
        if relation is None:
            return Out(None, None)
        in_doubt = self._doubts.everything or relation.name in self._doubts.names
        described = Out(None, None) if relation.definition and in_doubt else catalogue.place(relation, column.position)
        if not parsed or out.sources is None or described.sources is None:
            return described
        return Out(None, union([described.sources, out.sources]), plain=out.plain)
