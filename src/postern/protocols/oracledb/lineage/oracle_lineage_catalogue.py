"""Name lookup in the snapshot of a target's catalogue, with what a session has changed since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from postern.domain.targets.target_schema import Key, TargetSchema
from postern.inspection.lineage.scope import NOTHING, UNKNOWN, Out, Sources
from postern.inspection.lineage.views import Define, Views
from postern.protocols.oracledb.lineage.oracle_builtins import (
    CALM_COLUMNS,
    CALM_VIEWS,
    COLUMN_VIEWS,
    FUNCTIONS,
    PACKAGED,
    QUOTING_COLUMNS,
)

PUBLIC: Final = "PUBLIC"
_SYSTEM: Final = frozenset({"SYS", "SYSTEM", ""})
_CALM: Final = (Out(None, NOTHING, many=True),)
_DUAL: Final = (Out("DUMMY", NOTHING),)
_OF_COLUMNS: Final = (
    *[Out(name, NOTHING) for name in sorted(CALM_COLUMNS)],
    *[Out(name, None) for name in QUOTING_COLUMNS],
    Out(None, None, many=True),
)

Outs = tuple[Out, ...]


@dataclass(frozen=True, slots=True)
class OracleState:
    """What a session has changed. It only grows, because a statement can fail.

    - `names`: tables, views, synonyms and functions that it created or changed; `everything`: it may have changed any.
    - `moved`: the schemas that it may have chosen for names without one, besides the login's.
    - `held`: the sources of what code has left in the session: lines of DBMS_OUTPUT, contexts, values of packages.
    """

    names: frozenset[str] = frozenset()
    everything: bool = False
    moved: frozenset[str] = frozenset()
    held: Sources = NOTHING


class OracleCatalogue(Views):
    """The lookup for one snapshot. `define` is called at most once for each view, when the view is first used.
    `calls_functions`: one of the views that were used calls, or may call, a function of the target."""

    def __init__(self, schema: TargetSchema, define: Define) -> None:
        super().__init__(schema, define)
        self.calls_functions = False
        self._schemas = {key[0] for key in schema.relations}
        self.views = frozenset(key[1] for key, relation in schema.relations.items() if relation.definition)
        self._pure = {key for key, function in schema.functions.items() if function.pure}

    def find_keys(self, schema: str, name: str, path: Sequence[str], moved: frozenset[str]) -> list[Key] | None:
        """Return every relation that a name may mean. `moved` are schemas that the session may have chosen instead of
        those of `path`. None if one of them is not in the snapshot."""
        if schema:
            return [(schema, name)] if (schema, name) in self.schema.relations else []
        if not moved <= self._schemas:
            return None
        schemas = dict.fromkeys((*path, PUBLIC, *moved))
        keys = [(each, name) for each in schemas if (each, name) in self.schema.relations]
        return keys if moved else keys[:1]

    def pure(self, parts: tuple[str, ...], state: OracleState) -> bool:
        """Return whether the function's result depends on its arguments alone. `parts` are folded."""
        if len(parts) == 1 and parts[0] in FUNCTIONS:
            return True
        own = parts[1:] if parts[0] == "SYS" and len(parts) == 3 else parts
        if ".".join(own) in PACKAGED or (len(parts) == 2 and parts[0] in ("SYS", "STANDARD") and parts[1] in FUNCTIONS):
            return True
        if state.everything or state.moved or parts[-1] in state.names or len(parts) > 3:
            return False
        if len(parts) > 1:
            return (parts[0], ".".join(parts[1:])) in self._pure
        found = next(
            (key for each in self.schema.search_path if (key := (each, parts[0])) in self.schema.functions), None
        )
        return found in self._pure

    def _record_unreadable(self) -> None:
        self.calls_functions = True


class SessionRelations:
    """Relations as one session may see them. `path` are the schemas of a name without one."""

    def __init__(self, catalogue: OracleCatalogue, state: OracleState, path: Sequence[str]) -> None:
        self._catalogue = catalogue
        self._state = state
        self._path = path

    def table(self, schema: str, name: str) -> tuple[Sequence[Out], str]:
        if self._state.everything or name in self._state.names:
            return (UNKNOWN,), schema
        keys = self._catalogue.find_keys(schema, name, self._path, self._state.moved)
        if keys is None or len(keys) > 1:
            return (UNKNOWN,), schema
        if not keys:
            return _system(schema, name) or (UNKNOWN,), schema
        relation = self._catalogue.schema.relations[keys[0]]
        return self._catalogue.outs(relation), relation.schema

    def computed_columns(self, schema: str, name: str) -> frozenset[str] | None:
        keys = self._catalogue.find_keys(schema, name, self._path, self._state.moved) or []
        relation = self._catalogue.schema.relations[keys[0]] if len(keys) == 1 else None
        return None if relation is None or relation.definition else frozenset(relation.generated)


def _system(schema: str, name: str) -> Outs | None:
    """Return the columns of a view of the data dictionary; None for any other relation."""
    if schema not in _SYSTEM:
        return None
    if name == "DUAL":
        return _DUAL
    if name in CALM_VIEWS:
        return _CALM
    return _OF_COLUMNS if name in COLUMN_VIEWS else None
