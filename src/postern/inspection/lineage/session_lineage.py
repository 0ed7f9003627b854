"""Lineage in one session: the current snapshot of the catalogue, and the last text that was read."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, Protocol, TypeVar

from postern.domain.targets.target_schema import ColumnRef, TargetSchema
from postern.inspection.lineage.cached_lineage import CachedLineage, LineageRead
from postern.inspection.lineage.unread import UnreadText

_REMEMBERED: Final = 16 * 1024  # characters of the last text
_EMPTY: Final = TargetSchema()
_NO_TAGS: Final[frozenset[str]] = frozenset()


class SessionRead(LineageRead, Protocol):
    """The analysis of a text, with the session's state after it."""

    @property
    def state(self) -> Any: ...


CatalogueT = TypeVar("CatalogueT")
StateT = TypeVar("StateT", bound=Hashable)
ReadT = TypeVar("ReadT")
SessionReadT = TypeVar("SessionReadT", bound=SessionRead)


class SnapshotLineage(Generic[StateT, ReadT]):
    """What the lineage of every session has. `StateT` is what the session has changed, `ReadT` the analysis of a
    text."""

    def __init__(self, schema: Callable[[], TargetSchema | None]) -> None:
        """`schema` returns the current snapshot, or None if it could not be read."""
        self._known = schema
        self._last: tuple[str, TargetSchema, StateT, ReadT] | None = None

    def tags(self, column: ColumnRef) -> frozenset[str]:
        relation = self._schema.relations.get((column.schema, column.table))
        return frozenset() if relation is None else relation.tags | relation.column_tags.get(column.column, _NO_TAGS)

    @property
    def _schema(self) -> TargetSchema:
        return self._known() or _EMPTY

    def _is_last(self, text: str, schema: TargetSchema, state: StateT) -> bool:
        """Return whether the last analysis is of this text, and still valid."""
        last = self._last
        return last is not None and last[0] == text and last[1] is schema and last[2] == state

    def _read_once(
        self, text: str, schema: TargetSchema, state: StateT, read: Callable[[str, TargetSchema, StateT], ReadT]
    ) -> ReadT:
        """Analyse a text. Each request asks for the same one several times, usually without a change in between."""
        if self._last is not None and self._is_last(text, schema, state):
            return self._last[3]
        found = read(text, schema, state)
        self._last = (text, schema, state, found) if len(text) <= _REMEMBERED else None
        return found


class CachedSessionLineage(SnapshotLineage[StateT, SessionReadT | None], Generic[CatalogueT, StateT, SessionReadT]):
    """Lineage of a session whose texts have one analysis each. Call `record_statement` for each text in order, then the
    `of` of the dialect for each of its answers. Never raises.

    Facts only ever add meanings to a name, so failed statements, and texts that were sent before an earlier one was
    answered, cannot mislead it.
    """

    def __init__(
        self,
        lineage: CachedLineage[CatalogueT, StateT, SessionReadT],
        schema: Callable[[], TargetSchema | None],
        *,
        state: StateT,
        lost_state: StateT,
    ) -> None:
        """`state` is that of a new session. `lost_state` is that of one that may have changed anything."""
        super().__init__(schema)
        self._lineage = lineage
        self._state = state
        self._lost_state = lost_state

    def record_gap(self) -> None:
        """Record that statements were forwarded unseen: they may have changed anything."""
        self._state = self._lost_state

    def record_statement(self, statement: str) -> None:
        """Record a text before it is forwarded."""
        read = self._read(statement)
        if read is None:
            self.record_gap()  # the target may understand what cannot be parsed here
        else:
            self._state = read.state

    def unread(self, statement: str) -> UnreadText | None:
        """Return what `record_statement` would read for this text; None if it is known."""
        schema = self._schema
        if self._is_last(statement, schema, self._state):
            return None
        return self._lineage.unread(statement, schema, self._state)

    def _is_last(self, text: str, schema: TargetSchema, state: StateT) -> bool:
        """Return the same. An analysis stays valid if nothing but the effects of its own text happened since."""
        last = self._last
        if last is None or last[0] != text or last[1] is not schema:
            return False
        return state == last[2] or (last[3] is not None and state == last[3].state)

    def _read(self, statement: str) -> SessionReadT | None:
        return self._read_once(statement, self._schema, self._state, self._lineage.read)
