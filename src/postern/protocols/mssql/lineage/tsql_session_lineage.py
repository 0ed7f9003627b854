"""The origin of a session's result columns, from the text that runs and from the session's earlier texts.

The server says nothing about the origin of a column, so the text alone decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from postern.domain.targets.target_schema import Origin, TargetSchema
from postern.inspection.lineage.answers import Outs, one_of, origin_of, origins_of_all, spread
from postern.inspection.lineage.scope import NOTHING, Out, union
from postern.inspection.lineage.session_lineage import CachedSessionLineage
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.interception.events import Column
from postern.protocols.mssql.lineage.tsql_lineage import NO_STATE, TSqlLineage
from postern.protocols.mssql.lineage.tsql_lineage_catalogue import TsqlCatalogue, TsqlState
from postern.protocols.mssql.lineage.tsql_reading import TsqlRead
from postern.protocols.mssql.wire.mssql_output_variables import OF_A_PROCEDURE, VARIABLE

_LOST: Final = TsqlState(
    everything=True, lost=True, queried=True, numbered=True, planned=True, elsewhere=True, as_other=True
)


class TSqlSessionLineage(CachedSessionLineage[TsqlCatalogue, TsqlState, TsqlRead]):
    """Lineage of one session.

    A text is a batch, a statement that was prepared, or `EXEC` and a procedure with its arguments. Variables that it
    does not declare are its parameters, whose values are the client's own. What is known of temporary tables stays
    after a reset for another user of a pool: one that is created again can have the values of both.
    """

    def __init__(self, lineage: TSqlLineage, schema: Callable[[], TargetSchema | None]) -> None:
        super().__init__(lineage, schema, state=NO_STATE, lost_state=_LOST)

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
            return origins_of_all(outs)
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


def _origin(column: Column, out: Out) -> Origin | None:
    """Return the origin of a column. One with another name is of another answer, such as that of a trigger."""
    is_other = out.name is not None and _fold_ascii_name(out.name) != _fold_ascii_name(column.name)
    return None if is_other else origin_of(out)


def _fold_ascii_name(name: str) -> str:
    """Return the form in which names of columns are compared: without letters beyond ASCII, which collations change."""
    return name.lower().rstrip() if name.isascii() else ""
