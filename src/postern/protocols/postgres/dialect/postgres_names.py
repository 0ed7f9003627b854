"""What names of functions, operators, types and tables stand for: PostgreSQL's own, or the target's, which only its
catalogue tells about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from postern.domain.rules.statement import Effect
from postern.domain.targets.target_schema import Relation, TargetSchema, reached
from postern.protocols.postgres.dialect.postgres_functions import VOLATILE
from postern.protocols.postgres.dialect.postgres_system_catalogue import CALM, OPERATORS, RELATIONS, TYPES

OWN: Final = "pg_catalog"
_CALM_EFFECTS: Final[frozenset[Effect]] = frozenset({Effect.READ})
# What drivers call there; only the server's owner could put others in their place.
_INFORMATION: Final = frozenset({"_pg_char_max_length", "_pg_expandarray", "_pg_truetypid", "_pg_truetypmod"})
_DOMAINS: Final = ("cardinal_number", "character_data", "sql_identifier", "time_stamp", "yes_or_no")
_OWN_TYPES: Final = {("information_schema", name) for name in _DOMAINS} | {(OWN, name) for name in TYPES}
_SYSTEM_SCHEMAS: Final = frozenset({OWN, "information_schema", "pg_toast"})


class TargetNames:
    """Without a `schema` nothing is known of the target: its tables pass for tables, all else of it is unknown.

    A name without a schema is looked up in every schema, since a session changes its search_path as it likes, and is
    harmless where it is so in each of them.
    """

    def __init__(self, schema: TargetSchema | None) -> None:
        self.schema = schema or TargetSchema()
        path = self.schema.search_path
        # Where pg_catalog is not searched first, any name of it may be the target's.
        self._shadowed = OWN in path and path[0] != OWN
        self._functions = {key: function.harmless for key, function in self.schema.functions.items()}
        # Where the catalogue could not be read, no schema is known to be the only one that has such a function.
        known = self._functions if self.schema.relations else {k: v for k, v in self._functions.items() if not k[0]}
        self._functions_anywhere = _anywhere(known)
        self._types_anywhere = _anywhere(self.schema.types)
        self._operators_anywhere = _anywhere(self.schema.operators)
        self._relations_anywhere: dict[str, list[Relation]] = {}
        self._heirs: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for key, relation in self.schema.relations.items():
            self._relations_anywhere.setdefault(relation.name, []).append(relation)
            for parent in relation.parents:
                self._heirs.setdefault(parent, []).append(key)

    def function(self, parts: list[str]) -> frozenset[Effect] | None:
        """What calling it does; None where nobody knows. `parts`: the name, with or without its schema."""
        name = parts[-1]
        own = VOLATILE.get(name) or (_CALM_EFFECTS if name in CALM or name in TYPES else None)  # or a cast
        if len(parts) > 1 and parts[-2] == OWN:
            return own
        if len(parts) > 1 and parts[-2] == "information_schema" and name in _INFORMATION:
            return _CALM_EFFECTS
        if len(parts) > 1:
            return _CALM_EFFECTS if self._functions.get((parts[-2], name)) else None
        # An overload of the target's may fit the arguments better than PostgreSQL's own function.
        harmless = self._functions.get(("", name), self._functions_anywhere.get(name))
        if harmless is None:
            return None if self._shadowed else own
        return (own or _CALM_EFFECTS) if harmless else None

    def may_call(self, column: str) -> bool:
        """Whether `row.column` or `(value).column` may be a call, `column(value)`, of a function that does more than
        read (PostgreSQL's documentation, 4.2.6 and 8.16.5)."""
        theirs = self._functions_anywhere.get(column) is False and not self._functions.get(("", column))
        return theirs or bool(VOLATILE.get(column, _CALM_EFFECTS) - _CALM_EFFECTS)

    def may_cast(self, column: str) -> bool:
        """Whether `(value).column` may be a cast to a type of the target's that runs its own code."""
        return self._types_anywhere.get(column) is False

    def operator_known(self, parts: list[str]) -> bool:
        return self._known(parts, OPERATORS, self.schema.operators, self._operators_anywhere)

    def type_known(self, parts: list[str]) -> bool:
        """A type that a value may be cast to without the target's own code being run."""
        if len(parts) == 1 and parts[0].removeprefix("_") in TYPES and not self._shadowed:
            return True  # types have no overloads; _int4 is an array
        if len(parts) > 1 and (parts[-2], parts[-1].removeprefix("_")) in _OWN_TYPES:
            return True
        return self._known(parts, TYPES, self.schema.types, self._types_anywhere)

    def _known(
        self,
        parts: list[str],
        own: frozenset[str],
        targets: Mapping[tuple[str, str], bool],
        anywhere: Mapping[str, bool],
    ) -> bool:
        name = parts[-1]
        if len(parts) > 1:
            return name in own if parts[-2] == OWN else targets.get((parts[-2], name), False)
        return anywhere.get(name, name in own and not self._shadowed)

    def relations(self, parts: list[str]) -> list[Relation]:
        """The tables and views that it may be; none where the catalogue has none, or there is no catalogue."""
        if len(parts) == 1:
            return self._relations_anywhere.get(parts[0], [])
        relation = self.schema.relations.get((parts[-2], parts[-1]))
        return [relation] if relation else []

    def family(self, relation: Relation) -> set[tuple[str, str]]:
        """The tables whose rows are rows of it, and those that its own rows are rows of: partitions and heirs."""
        own = (relation.schema, relation.name)
        if not relation.parents and own not in self._heirs:
            return set()
        below = reached([own], lambda key: self._heirs.get(key, ()))
        return (below | reached([own], self._parents)) - {own}

    def _parents(self, key: tuple[str, str]) -> Sequence[tuple[str, str]]:
        relation = self.schema.relations.get(key)
        return () if relation is None else relation.parents

    @property
    def has_catalogue(self) -> bool:
        """Whether tables and views are known at all."""
        return bool(self.schema.relations)

    def relation_known(self, parts: list[str]) -> bool:
        """Whether reading it runs nothing but what `relations` tell of."""
        return not self.schema.relations or is_of_system(parts) or bool(self.relations(parts))


def _anywhere(harmless: Mapping[tuple[str, str], bool]) -> dict[str, bool]:
    """By name alone: harmless in every schema that has one."""
    found: dict[str, bool] = {}
    for (_, name), one in harmless.items():
        found[name] = one and found.get(name, True)
    return found


def is_of_system(parts: list[str]) -> bool:
    """One of PostgreSQL's own tables and views."""
    if len(parts) > 1:
        return parts[-2] in _SYSTEM_SCHEMAS
    return parts[0] in RELATIONS
