"""Definitions in a text: what CREATE, ALTER, DROP and their like change, and the columns of new temporary tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from postern.domain.rules.statement import ObjectKind
from postern.inspection.lineage.scope import NOTHING, Out, merge_sources
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.inspection.sql.judging import Draft, Judging, add_defined_object
from postern.inspection.sql.sql_calls import called_at
from postern.inspection.sql.sql_tokens import SqlToken, closing, key_at, split_at_commas
from postern.protocols.mssql.lineage import tsql_builtins as builtins
from postern.protocols.mssql.lineage.tsql_lineage_catalogue import Outs, merge_outs
from postern.protocols.mssql.lineage.tsql_memory import LOST, TsqlMemory
from postern.protocols.mssql.lineage.tsql_names import column_name

_ANY: Final = (Out(None, NOTHING, many=True),)
_CHANGED: Final = frozenset({ObjectKind.TABLE, ObjectKind.FUNCTION})
_CONSTRAINTS: Final = frozenset({"CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "INDEX", "PERIOD"})


class TsqlDefinitions:
    """Records definitions in a session's memory. `is_pure` says whether the result of a function depends on its
    arguments alone."""

    def __init__(self, memory: TsqlMemory, judging: Judging, is_pure: Callable[[tuple[str, ...]], bool]) -> None:
        self._memory = memory
        self._judging = judging
        self._is_pure = is_pure

    def define(self, tokens: Sequence[SqlToken]) -> None:
        """Analyse CREATE, ALTER, DROP and their like: what they name means something else from now on."""
        draft = Draft("")
        kind = add_defined_object(self._judging, draft, tokens)
        if kind == "USER":  # with another default schema, perhaps
            self._memory.change(as_other=True)
        if tokens[0].key in ("GRANT", "DENY", "REVOKE", "ADD", "ENABLE", "DISABLE") or kind in builtins.HARMLESS_KINDS:
            return
        names = frozenset(fold_identifier(name.name) for name in draft.objects if name.kind in _CHANGED)
        temporary = {name for name in names if name.startswith("#")}
        for name in temporary:
            self._define_temporary(tokens, name)
        changed = names - temporary
        if tokens[0].key == "TRUNCATE" or (temporary and not changed):
            return
        is_schema = kind in ("SCHEMA", "TYPE", "SEQUENCE") and key_at(tokens, 0) != "ALTER"
        if not changed and not is_schema:
            self._memory.change(everything=True)
        self._memory.flags = replace(self._memory.flags, names=self._memory.flags.names | changed)

    def _define_temporary(self, tokens: Sequence[SqlToken], name: str) -> None:
        if tokens[0].key == "CREATE" and not name.startswith("##"):
            opening = next((at for at, token in enumerate(tokens) if token.key == "("), len(tokens))
            outs = self.columns_of(tokens[opening:])
            self._memory.temps[name] = merge_outs(self._memory.temps.get(name), outs)
        elif tokens[0].key == "ALTER" and name in self._memory.temps:
            sources = merge_sources(self._memory.temps[name]) if self._calls_nothing(tokens) else None
            self._memory.temps[name] = (Out(None, sources, many=True),)
        elif tokens[0].key == "CREATE":
            self._memory.temps[name] = LOST

    def columns_of(self, tokens: Sequence[SqlToken]) -> Outs:
        """Return the columns of a new table, from the bracket before them. A computed column may show any other, and a
        default what a function of the target returns."""
        if key_at(tokens, 0) != "(":
            return LOST
        outs: list[Out] = []
        for part in split_at_commas(tokens[1 : closing(tokens, 0)]):
            if not part or part[0].key in _CONSTRAINTS:
                continue
            is_plain = part[0].is_name and self._calls_nothing(part)
            if key_at(part, 1) == "AS" or not is_plain:
                return _ANY if is_plain else LOST
            outs.append(Out(column_name(part[0].text), NOTHING))
        return tuple(outs)

    def _calls_nothing(self, tokens: Sequence[SqlToken]) -> bool:
        """Return whether all functions in a definition, and types with a length, are the server's own."""
        return all(
            self._is_pure(tuple([each.text for each in tokens[start:bracket] if each.key != "."]))
            for start, bracket in called_at(tokens, builtins.CALLS)
        )
