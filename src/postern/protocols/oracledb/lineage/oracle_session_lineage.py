"""The origin of a session's result columns, from the text that runs and from the session's earlier texts.

The server says nothing about the origin of a column, so the text alone decides. A call runs one statement, but can have
several results: cursors in columns, cursors that a block opens, and the variables of a block or of RETURNING.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from postern.domain.targets.target_schema import ColumnRef, Origin, TargetSchema
from postern.inspection.lineage.answers import Outs, one_of, origin_of, spread
from postern.inspection.lineage.scope import merge_sources
from postern.inspection.lineage.unread import UnreadText
from postern.interception.events import Column
from postern.protocols.oracledb.lineage.oracle_lineage import OracleLineage
from postern.protocols.oracledb.lineage.oracle_lineage_catalogue import OracleState
from postern.protocols.oracledb.lineage.oracle_lineage_statements import OracleRead

_REMEMBERED: Final = 16 * 1024  # characters of the last statement
_RETURNED: Final = re.compile(r"OUT([0-9]{1,5})")

_EMPTY: Final = TargetSchema()
_NO_TAGS: Final[frozenset[str]] = frozenset()


class OracleSessionLineage:
    """Lineage of one session. Call `record_statement` for each text in order, then `of` for each of its answers.

    Facts only ever add meanings to a name, so failed statements cannot mislead it. Values of binds are the client's
    own. Never raises.
    """

    def __init__(self, lineage: OracleLineage, schema: Callable[[], TargetSchema | None]) -> None:
        """`schema` returns the current snapshot, or None if it could not be read."""
        self._lineage = lineage
        self._known = schema
        self._state = OracleState()
        self._last: tuple[str, TargetSchema, OracleState, OracleRead | None] | None = None

    def record_gap(self) -> None:
        """Record that statements were forwarded unseen: they may have changed anything."""
        self._state = OracleState(everything=True, held=None)

    def record_statement(self, statement: str) -> None:
        """Record a text before it is forwarded."""
        read = self._read(statement)
        if read is None:
            self.record_gap()  # the target may understand what cannot be parsed here
        else:
            self._state = read.state

    def unread(self, statement: str) -> UnreadText | None:
        """Return what `record_statement` would read for this text; None if it is known."""
        if self._is_last(statement):
            return None
        return self._lineage.unread(statement, self._schema, self._state)

    def of(self, statement: str, columns: Sequence[Column]) -> tuple[Origin | None, ...] | None:
        """Return the origin of each column of an answer. None if nothing is known about any of them."""
        read = self._read(statement)
        outs: Outs | None = None if read is None else one_of(read.answers, columns, str)
        if not columns:
            return None if outs is None or any(out.many for out in outs) else tuple(map(origin_of, outs))
        if outs is None:
            return (None,) * len(columns)
        if read is not None and read.is_change:
            return _origins_of_returned(outs, columns)
        found = spread(outs, len(columns))
        return (None,) * len(columns) if found is None else tuple(map(origin_of, found))

    def tags(self, column: ColumnRef) -> frozenset[str]:
        relation = self._schema.relations.get((column.schema, column.table))
        return frozenset() if relation is None else relation.tags | relation.column_tags.get(column.column, _NO_TAGS)

    @property
    def _schema(self) -> TargetSchema:
        return self._known() or _EMPTY

    def _is_last(self, statement: str) -> bool:
        """Return whether the last reading is still valid: nothing but its own effects happened since."""
        last = self._last
        if last is None or last[0] != statement or last[1] is not self._schema:
            return False
        return self._state == last[2] or (last[3] is not None and self._state == last[3].state)

    def _read(self, statement: str) -> OracleRead | None:
        """Read a text. Each request asks for the same one several times, usually without a change in between."""
        if self._is_last(statement) and self._last is not None:
            return self._last[3]
        schema, state = self._schema, self._state
        read = self._lineage.read(statement, schema, state)
        self._last = (statement, schema, state, read) if len(statement) <= _REMEMBERED else None
        return read


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
