"""The origin of a session's result columns, from the text that runs and from the session's earlier texts.

The server says nothing about the origin of a column, so the text alone decides. A call runs one statement, but can have
several results: cursors in columns, cursors that a block opens, and the variables of a block or of RETURNING.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from postern.domain.targets.target_schema import Origin, TargetSchema
from postern.inspection.lineage.answers import Outs, one_of, origin_of, origins_of_all, spread
from postern.inspection.lineage.scope import merge_sources
from postern.inspection.lineage.session_lineage import CachedSessionLineage
from postern.interception.events import Column
from postern.protocols.oracledb.lineage.oracle_lineage import NO_STATE, OracleLineage
from postern.protocols.oracledb.lineage.oracle_lineage_catalogue import OracleCatalogue, OracleState
from postern.protocols.oracledb.lineage.oracle_lineage_statements import OracleRead

_RETURNED: Final = re.compile(r"OUT([0-9]{1,5})")


class OracleSessionLineage(CachedSessionLineage[OracleCatalogue, OracleState, OracleRead]):
    """Lineage of one session. Values of binds are the client's own."""

    def __init__(self, lineage: OracleLineage, schema: Callable[[], TargetSchema | None]) -> None:
        super().__init__(lineage, schema, state=NO_STATE, lost_state=OracleState(everything=True, held=None))

    def of(self, statement: str, columns: Sequence[Column]) -> tuple[Origin | None, ...] | None:
        """Return the origin of each column of an answer. None if nothing is known about any of them."""
        read = self._read(statement)
        outs: Outs | None = None if read is None else one_of(read.answers, columns, str)
        if not columns:
            return origins_of_all(outs)
        if outs is None:
            return (None,) * len(columns)
        if read is not None and read.is_change:
            return _origins_of_returned(outs, columns)
        found = spread(outs, len(columns))
        return (None,) * len(columns) if found is None else tuple(map(origin_of, found))


def _origins_of_returned(outs: Outs, columns: Sequence[Column]) -> tuple[Origin | None, ...]:
    """Return the origins of what RETURNING gives: a column for each variable and row, named OUT with its number."""
    places = [_RETURNED.fullmatch(column.name) for column in columns]
    if any(out.many for out in outs):
        sources = merge_sources(outs)
        return (None if sources is None else Origin(sources),) * len(columns)
    return tuple(
        [
            None if place is None or not 0 < int(place[1]) <= len(outs) else origin_of(outs[int(place[1]) - 1])
            for place in places
        ]
    )
