"""Name lookup in the snapshot of a target's catalogue, with what a session has changed since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from postern.domain.targets.target_schema import Key, Relation, TargetSchema
from postern.inspection.lineage.scope import NOTHING, UNKNOWN, Out, merge_sources, union
from postern.inspection.lineage.views import Define, Views
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.protocols.mssql.dialect.tsql_views import SYSTEM_SCHEMAS
from postern.protocols.mssql.lineage.tsql_builtins import CALM_VIEWS, FUNCTIONS, OLD_VIEWS, QUOTING_OLD_VIEWS
from postern.protocols.mssql.lineage.tsql_names import column_name

DEFAULT_SCHEMA: Final = "dbo"
OTHER_DATABASE: Final = "\0"  # between the database and the schema of a name with three parts
_CALM: Final = (Out(None, NOTHING, many=True),)

Outs = tuple[Out, ...]
Stored = frozenset[tuple[str, Outs]]
"""The columns of temporary tables, or of cursors, by folded name."""


@dataclass(frozen=True, slots=True)
class TsqlState:
    """What a session has changed. It only grows, because a statement can fail.

    - `names`: tables, views and functions that it created or changed; `everything`: it may have changed any.
    - `temps` and `cursors`: its temporary tables and cursors. Code that cannot be analysed may have changed them
      (`lost`).
    - `queried`: a setting, or the session's context, may hold the result of a query.
    - `numbered`: an identity value may be one that a statement has chosen.
    - `planned`: answers may be execution plans.
    - `elsewhere`: the current database may not be that of the snapshot. `as_other`: nor may the user be the login's.
    """

    names: frozenset[str] = frozenset()
    everything: bool = False
    temps: Stored = frozenset()
    cursors: Stored = frozenset()
    lost: bool = False
    queried: bool = False
    numbered: bool = False
    planned: bool = False
    elsewhere: bool = False
    as_other: bool = False


def merge_outs(before: Outs | None, outs: Outs) -> Outs:
    """Return columns that may be those of either."""
    if before is None or before == outs:
        return outs
    names = [out.name for out in outs]
    if [out.name for out in before] != names or any(out.many for out in (*before, *outs)):
        return (Out(None, merge_sources((*before, *outs)), many=True),)
    return tuple([Out(a.name, union([a.sources, b.sources])) for a, b in zip(before, outs, strict=True)])


class TsqlCatalogue(Views):
    """The lookup for one snapshot. `define` is called at most once for each view, when the view is first used."""

    def __init__(self, schema: TargetSchema, define: Define) -> None:
        super().__init__(schema, define, column_name)
        self._by_name: dict[str, list[Key]] = {}
        for key in schema.relations:
            self._by_name.setdefault(fold_identifier(key[1]), []).append(key)
        self._pure = {_fold(key) for key, function in schema.functions.items() if function.pure} - {
            _fold(key) for key, function in schema.functions.items() if not function.pure
        }

    def find_keys(self, schema: str, name: str) -> list[Key]:
        """Return every relation that some server may use for that name; without `schema`, in any."""
        keys = self._by_name.get(fold_identifier(name), ())
        return [key for key in keys if not schema or fold_identifier(key[0]) == fold_identifier(schema)]

    def find_default_keys(self, name: str, path: Sequence[str], *, is_certain: bool) -> list[Key]:
        """Return the relations that a name without a schema may mean. Unless `is_certain`, the schemas in which a
        server looks are unknown."""
        for schema in path if is_certain else ():
            keys = self.find_keys(schema, name)
            if keys:
                return keys
        return self.find_keys("", name)

    def pure(self, parts: tuple[str, ...], state: TsqlState) -> bool:
        """Return whether the function's result depends on its arguments alone. Only the server's own functions are
        called without a schema."""
        if len(parts) == 1:
            return parts[0].upper() in FUNCTIONS
        if len(parts) > 2 or state.everything or fold_identifier(parts[-1]) in state.names or state.elsewhere:
            return False
        return _fold((parts[0], parts[1])) in self._pure


def _fold(key: Key) -> Key:
    return fold_identifier(key[0]), fold_identifier(key[1])


class SessionTables:
    """Tables as one session may see them. `path` are the schemas of a name without one; `temps` are temporary tables
    and, with their @, table variables."""

    def __init__(
        self, catalogue: TsqlCatalogue, state: TsqlState, path: Sequence[str], temps: Mapping[str, Outs]
    ) -> None:
        self._catalogue = catalogue
        self._state = state
        self._path = path
        self._temps = temps

    def knows(self, name: str) -> bool:
        """Return whether a name without a schema may be a table's."""
        state = self._state
        is_changed = state.everything or state.elsewhere or fold_identifier(name) in state.names
        return is_changed or bool(self._catalogue.find_keys("", name))

    def table(self, schema: str, name: str) -> tuple[Sequence[Out], str]:
        if name.startswith(("#", "@")):
            return self._temp(fold_identifier(name)), ""
        database, _, schema = schema.rpartition(OTHER_DATABASE)
        system = _system(schema, name)
        if system is not None and (fold_identifier(schema) in SYSTEM_SCHEMAS or not self.knows(name)):
            return system, schema or "sys"
        if self._is_elsewhere(database):
            return (UNKNOWN,), f"{database}{OTHER_DATABASE}{schema}"
        if self._state.everything or fold_identifier(name) in self._state.names:
            return (UNKNOWN,), schema
        relation = self._relation(schema, name)
        if relation is None:
            return (UNKNOWN,), schema
        return self._catalogue.outs(relation), relation.schema

    def computed_columns(self, schema: str, name: str) -> frozenset[str] | None:
        if name.startswith(("#", "@")) or self._is_elsewhere(schema.rpartition(OTHER_DATABASE)[0]):
            return None
        relation = self._relation(schema.rpartition(OTHER_DATABASE)[2], name)
        if relation is None or relation.definition:
            return None
        return frozenset(map(column_name, relation.generated))

    def _relation(self, schema: str, name: str) -> Relation | None:
        """Return the relation, or None if it is unknown which one is meant."""
        if schema:
            keys = self._catalogue.find_keys(schema, name)
        else:
            keys = self._catalogue.find_default_keys(name, self._path, is_certain=not self._state.as_other)
        exact = [key for key in keys if key == (schema, name)]
        keys = exact or keys
        return self._catalogue.schema.relations[keys[0]] if len(keys) == 1 else None

    def _is_elsewhere(self, database: str) -> bool:
        """Return whether a name may be one in another database than the snapshot's."""
        if not database:
            return self._state.elsewhere
        return fold_identifier(database) != fold_identifier(self._catalogue.schema.database)

    def _temp(self, name: str) -> Sequence[Out]:
        if name in self._temps:
            return self._temps[name]
        # A table variable that the batch does not declare is a parameter; its rows are the client's own.
        return _CALM if name.startswith("@") else (UNKNOWN,)


def _system(schema: str, name: str) -> Outs | None:
    """Return the columns of a system view; None for any other relation."""
    folded_schema, folded = fold_identifier(schema), fold_identifier(name)
    if folded_schema == "information_schema":
        return _CALM
    if folded_schema == "sys":
        return _CALM if folded in CALM_VIEWS else (UNKNOWN,)
    if folded_schema in ("", DEFAULT_SCHEMA):
        if folded in OLD_VIEWS:
            return _CALM
        if folded in QUOTING_OLD_VIEWS:
            return (UNKNOWN,)
    return None
