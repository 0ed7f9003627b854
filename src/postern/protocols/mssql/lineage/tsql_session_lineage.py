"""The origin of a session's result columns, from the text that runs and from the session's earlier texts.

The server says nothing about the origin of a column, so the text alone decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from postern.domain.targets.target_schema import ColumnRef, Origin, TargetSchema
from postern.inspection.lineage.answers import Outs, one_of, origin_of, spread
from postern.inspection.lineage.scope import NOTHING, Out, union
from postern.inspection.lineage.unread import UnreadText
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.interception.events import Column
from postern.protocols.mssql.lineage.tsql_lineage import TSqlLineage
from postern.protocols.mssql.lineage.tsql_lineage_catalogue import TsqlState
from postern.protocols.mssql.lineage.tsql_reading import TsqlRead
from postern.protocols.mssql.wire.mssql_output_variables import OF_A_PROCEDURE, VARIABLE

_REMEMBERED: Final = 16 * 1024  # characters of the last statement

_EMPTY: Final = TargetSchema()
_NO_TAGS: Final[frozenset[str]] = frozenset()


class TSqlSessionLineage:
    """Lineage of one session. Call `record_statement` for each text in order, then `of` for each of its answers.

    A text is a batch, a statement that was prepared, or `EXEC` and a procedure with its arguments. Variables that it
    does not declare are its parameters, whose values are the client's own. Facts only ever add meanings to a name, so
    failed statements, and texts that were sent before an earlier one was answered, cannot mislead it. Never raises.
    """

    def __init__(self, lineage: TSqlLineage, schema: Callable[[], TargetSchema | None]) -> None:
        """`schema` returns the current snapshot, or None if it could not be read."""
        self._lineage = lineage
        self._known = schema
        self._state = TsqlState()
        self._last: tuple[str, TargetSchema, TsqlState, TsqlRead | None] | None = None

    def record_gap(self) -> None:
        """Record that statements were forwarded unseen: they may have changed anything."""
        self._state = TsqlState(
            everything=True, lost=True, queried=True, numbered=True, planned=True, elsewhere=True, as_other=True
        )

    def record_reset(self) -> None:
        """Record that the session was reset for another user of its connection: temporary tables and cursors are gone.
        What else is known stays true."""
        self._state = replace(self._state, temps=frozenset(), cursors=frozenset())

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
        if columns and columns[0].position == OF_A_PROCEDURE:
            return (None,) * len(columns)
        if columns and columns[0].position == VARIABLE:
            return self._of_variables(statement, [column.name for column in columns])
        if columns and columns[-1].position < 0:  # of a cursor
            found = self.of(statement, columns[:-1])
            return None if found is None else (*found, Origin(frozenset()))
        read = self._read(statement)
        outs: Outs | None = None if read is None else one_of(read.answers, columns, _fold_ascii_name)
        if not columns:
            return None if outs is None or any(out.many for out in outs) else tuple(map(origin_of, outs))
        found_outs = None if outs is None else spread(outs, len(columns))
        if found_outs is None:
            return (None,) * len(columns)
        return tuple([_origin(column, out) for column, out in zip(columns, found_outs, strict=True)])

    def _of_variables(self, statement: str, names: Sequence[str]) -> tuple[Origin | None, ...]:
        """Return the origins of variables of a text, by their names without @; those of all variables for no name.

        What a text does not assign has the client's own value. A name with letters beyond ASCII may mean any variable.
        """
        read = self._read(statement)
        if read is None:
            return (None,) * len(names)
        sources = dict(read.variables)
        others = union([found for name, found in sources.items() if not name.isascii()])
        origins: list[Origin | None] = []
        for name in names:
            named = sources.get(fold_identifier(f"@{name}"), NOTHING) if name else union(sources.values())
            found = union([named, others])
            origins.append(None if found is None else Origin(found))
        return tuple(origins)

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

    def _read(self, statement: str) -> TsqlRead | None:
        """Read a text. Each request asks for the same one several times, usually without a change in between."""
        if self._is_last(statement) and self._last is not None:
            return self._last[3]
        schema, state = self._schema, self._state
        read = self._lineage.read(statement, schema, state)
        self._last = (statement, schema, state, read) if len(statement) <= _REMEMBERED else None
        return read


def _origin(column: Column, out: Out) -> Origin | None:
    """Return the origin of a column. One with another name is of another answer, such as that of a trigger."""
    is_other = out.name is not None and _fold_ascii_name(out.name) != _fold_ascii_name(column.name)
    return None if is_other else origin_of(out)


def _fold_ascii_name(name: str) -> str:
    """Return the form in which names of columns are compared: without letters beyond ASCII, which collations change."""
    return name.lower().rstrip() if name.isascii() else ""
