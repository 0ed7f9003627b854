"""What a session has, while a text is read: temporary tables, cursors, and what it may have changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from postern.inspection.lineage.scope import NOTHING, UNKNOWN, Out, Sources, union
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.inspection.sql.sql_tokens import SqlToken
from postern.protocols.mssql.lineage.tsql_lineage_catalogue import Outs, TsqlState, merge_outs

LOST: Final = (UNKNOWN,)
_ANY: Final = (Out(None, NOTHING, many=True),)
_NAMES: Final = 256  # temporary tables, cursors and changed names; further ones are unknown


class TsqlMemory:
    """A session's state that can be changed. `flags` has everything but temporary tables and cursors.

    `temps` are temporary tables and, with their @, table variables. `cursor_queries` are the queries of the cursors
    that the text itself declares.
    """

    def __init__(self, state: TsqlState) -> None:
        self.flags = state
        self.temps: dict[str, Outs] = dict(state.temps)
        self.cursors: dict[str, Outs] = dict(state.cursors)
        self.cursor_queries: dict[str, list[list[SqlToken]]] = {}

    def state(self) -> TsqlState:
        """Return the state after the text. Table variables end with it."""
        temps = {name: outs for name, outs in self.temps.items() if not name.startswith("@")}
        is_full = max(len(temps), len(self.cursors), len(self.flags.names)) > _NAMES
        return replace(
            self.flags,
            temps=frozenset() if is_full else frozenset(temps.items()),
            cursors=frozenset() if is_full else frozenset(self._lasting_cursors().items()),
            lost=self.flags.lost or is_full,
            everything=self.flags.everything or is_full,
        )

    def change(
        self,
        *,
        everything: bool = False,
        queried: bool = False,
        numbered: bool = False,
        planned: bool = False,
        elsewhere: bool = False,
        as_other: bool = False,
    ) -> None:
        """Set flags; see `TsqlState`."""
        before = self.flags
        self.flags = replace(
            before,
            everything=before.everything or everything,
            queried=before.queried or queried,
            numbered=before.numbered or numbered,
            planned=before.planned or planned,
            elsewhere=before.elsewhere or elsewhere,
            as_other=before.as_other or as_other,
        )

    def begin_batch(self) -> None:
        self.temps = {name: outs for name, outs in self.temps.items() if not name.startswith("@")}

    def lose(self) -> None:
        """Record that something ran which cannot be analysed."""
        self.lose_temporary()
        self.temps = dict.fromkeys(self.temps, LOST)
        self.change(everything=True, elsewhere=True)

    def lose_temporary(self) -> None:
        """Record that code of the target ran, which sees temporary tables and cursors, but no table variables."""
        self.flags = replace(self.flags, lost=True, queried=True, numbered=True)
        self.temps = {name: outs if name.startswith("@") else LOST for name, outs in self.temps.items()}
        self.cursors = dict.fromkeys(self.cursors, LOST)

    def include(self, state: TsqlState) -> None:
        """Add the state after a text within the current one."""
        self.flags = state
        self.temps |= {name: merge_outs(self.temps.get(name), outs) for name, outs in state.temps}
        self.cursors |= dict(state.cursors)

    def make(self, name: str, outs: Outs) -> None:
        """Record a table that a query creates."""
        folded = fold_identifier(name)
        if not folded.startswith("#"):
            self.flags = replace(self.flags, names=self.flags.names | {folded})
        else:
            self.temps[folded] = LOST if folded.startswith("##") else merge_outs(self.temps.get(folded), outs)

    def write(self, name: str, sources: Sources, columns: Sequence[str] = ()) -> None:
        """Record that a temporary table or table variable may get values from these sources, in these columns or in
        any. Other tables are ignored."""
        folded = fold_identifier(name)
        if not folded.startswith(("#", "@")) or (sources == NOTHING and folded in self.temps):
            return
        outs = self.temps.get(folded, _ANY if folded.startswith("@") else LOST)
        written = frozenset(columns)
        is_exact = bool(written) and not any(out.many for out in outs) and written <= {out.name for out in outs}
        self.temps[folded] = tuple(
            [
                Out(out.name, union([out.sources, sources]), out.many) if not is_exact or out.name in written else out
                for out in outs
            ]
        )

    def _lasting_cursors(self) -> dict[str, Outs]:
        """Return the cursors for later texts, which may fetch what temporary tables have by then."""
        return {
            name: LOST if any(map(_is_over_temporary, self.cursor_queries.get(name, ()))) else outs
            for name, outs in self.cursors.items()
        }


def _is_over_temporary(query: Sequence[SqlToken]) -> bool:
    return any(token.text.startswith(("#", "@")) for token in query)
