"""Name lookup in the snapshot of a target's catalogue, with the changes of a session that the snapshot does not
contain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from postern.domain.targets.target_schema import Key, Relation, TargetSchema
from postern.inspection.lineage.scope import NOTHING, UNKNOWN, Out, Sources
from postern.inspection.lineage.views import Define, Views
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.protocols.mysql.lineage.mysql_builtins import CALM_TABLES, FUNCTIONS, QUOTING, SETTING_TABLES, SYSTEM
from postern.protocols.mysql.lineage.mysql_names import column_name

_WORD: Final = re.compile(r"\w+")
_CALM: Final = (Out(None, NOTHING, many=True),)

Variables = frozenset[tuple[str, Sources]]
"""The variables that were written to: name in lower case, and the sources of the value."""


@dataclass(frozen=True, slots=True)
class SessionState:
    """What a session has changed.

    `names` are tables, views and functions that it created or changed; `everything` means that it may have changed any.
    `databases` are the possible default databases, None for any. `variables` are user variables, unless code that
    cannot be analysed may have written to them (`lost`) or prepared statements. Unless `settings`, a setting may
    contain a query's result.
    """

    names: frozenset[str] = frozenset()
    everything: bool = False
    databases: tuple[str, ...] | None = None
    variables: Variables = frozenset()
    lost: bool = False
    settings: bool = True


class MysqlLineageCatalogue(Views):
    """The lookup for one snapshot. `define` is called at most once for each view, when the view is first used."""

    def __init__(self, schema: TargetSchema, define: Define) -> None:
        super().__init__(schema, define, column_name)
        self._by_name: dict[str, list[Key]] = {}
        for key in schema.relations:
            self._by_name.setdefault(fold_identifier(key[1]), []).append(key)
        self._functions = {fold_identifier(function.name) for function in schema.functions.values()}
        self._pure = {fold_identifier(function.name) for function in schema.functions.values() if function.pure} - {
            fold_identifier(function.name) for function in schema.functions.values() if not function.pure
        }

    def relation(self, schema: str, name: str, state: SessionState) -> Relation | None:
        """Return the relation, or None if it is unknown which one is meant. Without `schema` it may be in any."""
        if state.everything or fold_identifier(name) in state.names:
            return None
        relation_keys = self.find_relation_keys(schema, name)
        exact = [key for key in relation_keys if key[1] == name and key[0] == schema]
        relation_keys = exact or relation_keys
        return self.schema.relations[relation_keys[0]] if len(relation_keys) == 1 else None

    def find_relation_keys(self, schema: str, name: str) -> list[Key]:
        """Return every table that some server may use for that name; without `schema`, in any database."""
        keys = self._by_name.get(fold_identifier(name), ())
        return [key for key in keys if not schema or fold_identifier(key[0]) == fold_identifier(schema)]

    def is_made(self, name: str) -> bool:
        """Return True if a user created a function of that name."""
        return fold_identifier(name) in self._functions

    def pure(self, parts: tuple[str, ...], state: SessionState) -> bool:
        """Return True if the function's result depends on its arguments alone. A user's function can have the name of a
        built-in one: a space before the bracket decides, or IGNORE_SPACE."""
        name = fold_identifier(parts[-1])
        if len(parts) > 1 or state.everything or name in state.names:
            return False
        return name in self._pure or (parts[-1].upper() in FUNCTIONS and name not in self._functions)

    @cached_property
    def views_call(self) -> bool:
        """Return True if a view calls a user's function."""
        impure = self._functions - self._pure
        definitions = (relation.definition for relation in self.schema.relations.values() if relation.definition)
        return bool(impure) and any(
            not impure.isdisjoint(map(fold_identifier, _WORD.findall(text))) for text in definitions
        )

    def system(self, schema: str, name: str, state: SessionState) -> tuple[Out, ...] | None:
        """Return the columns of a system table; None for any other."""
        database, table = schema.lower(), name.lower()
        if database == "mysql":
            return (UNKNOWN,) if table in QUOTING else None
        if database not in SYSTEM:
            return None
        if table in CALM_TABLES.get(database, ()):
            return _CALM
        return _CALM if state.settings and table in SETTING_TABLES.get(database, ()) else (UNKNOWN,)


class DatabaseTables:
    """Tables as one session may see them. `database` is the default database, empty if unknown. `has_unknown_names`: a
    requested table does not exist."""

    def __init__(self, catalogue: MysqlLineageCatalogue, state: SessionState, database: str) -> None:
        self._catalogue = catalogue
        self._state = state
        self._database = database
        self.has_unknown_names = False

    def table(self, schema: str, name: str) -> tuple[Sequence[Out], str]:
        database = schema or self._database
        if fold_identifier(name) in self._state.names or self._state.everything:
            return (UNKNOWN,), database
        if database and (system := self._catalogue.system(database, name, self._state)) is not None:
            return system, database
        relation = self._catalogue.relation(database, name, self._state)
        self.has_unknown_names |= not self._catalogue.find_relation_keys(database, name)
        return ((UNKNOWN,) if relation is None else self._catalogue.outs(relation)), database

    def computed_columns(self, schema: str, name: str) -> frozenset[str] | None:
        return None
