"""A statement that is being built, and what is known of the target's collections."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from postern.domain.rules.statement import EVERYTHING, Effect, ObjectKind, ObjectName, Statement
from postern.domain.targets.target_schema import Key, TargetSchema
from postern.inspection.sql.sql_parser import NO_CATALOGUE

MAX_VIEWS: Final = 32  # nested views
_BUCKETS: Final = "system.buckets."
_LOGS: Final = frozenset({"local", "config"})  # databases that hold copies of other collections' documents
_OWN: Final = frozenset({"admin", "local", "config"})
_CREDENTIALS: Final = frozenset({"system.users", "system.roles", "system.keys", "system.new_users"})


@dataclass
class MongodbDraft:
    """`schema` are the target's collections, and `within` the views whose definitions led here, the outermost first.

    `judge_view` adds what the definition of a view does, given its database and text.
    """

    tag: str
    schema: TargetSchema | None
    judge_view: Callable[[MongodbDraft, str, str], None]
    within: tuple[Key, ...] = ()
    effects: set[Effect] = field(default_factory=set)
    objects: set[ObjectName] = field(default_factory=set)
    without_where: bool = False
    reason: str = ""
    scans: set[ObjectName] = field(default_factory=set)
    untraced: str = ""

    def add(self, *effects: Effect) -> None:
        self.effects.update(effects)

    def add_unknown(self, reason: str) -> None:
        """Add an unknown effect, if there is a reason for one."""
        if reason:
            self.effects.add(Effect.UNKNOWN)
            self.reason = self.reason or reason

    def add_database(self, database: str) -> None:
        self.objects.add(ObjectName(ObjectKind.SCHEMA, database))

    def add_collection(self, database: str, name: str) -> ObjectName:
        """Add a collection by name, and what its name says that it holds."""
        touched = ObjectName(ObjectKind.TABLE, name, database)
        self.objects.add(touched)
        if name.startswith(_BUCKETS):  # where the documents of a time series are stored
            self.objects.add(ObjectName(ObjectKind.TABLE, name.removeprefix(_BUCKETS), database))
        if database in _LOGS or name == "system.profile":
            self.objects.add(EVERYTHING)
        return touched

    def add_read(self, database: str, name: str) -> ObjectName:
        """Add a collection that is read, or the view of that name with all that it reads."""
        touched = self.add_collection(database, name)
        self.add(Effect.READ)
        if database in _LOGS or name == "system.profile" or (name in _CREDENTIALS and database == "admin"):
            self.add(Effect.ADMIN)
        if name.startswith("system.") or database in _OWN:
            return touched
        if self.schema is None or not self.schema.relations:
            self.untraced = self.untraced or NO_CATALOGUE
            return touched
        relation = self.schema.relations.get((database, name))
        if relation is None:
            self.untraced = self.untraced or f"{database}.{name} is unknown, and could be a view"
        elif relation.definition:
            self._follow(database, name, relation.definition)
        return touched

    def _follow(self, database: str, name: str, definition: str) -> None:
        key = (database, name)
        if key in self.within or len(self.within) >= MAX_VIEWS:
            self.untraced = self.untraced or f"views are nested too deeply at {database}.{name}"
            return
        inner = MongodbDraft("view", self.schema, self.judge_view, (*self.within, key))
        self.judge_view(inner, database, definition)
        self.effects |= inner.effects
        self.objects |= inner.objects
        self.reason = self.reason or inner.reason
        self.untraced = self.untraced or inner.untraced

    def add_write(self, database: str, name: str) -> None:
        """Add a collection that is written to."""
        self.add_collection(database, name)
        self.add(Effect.WRITE)
        if database in _OWN and name in _CREDENTIALS:
            self.add(Effect.GRANT)
        elif database in _OWN or name == "system.profile":
            self.add(Effect.ADMIN)
        if name == "system.views":
            self.add(Effect.DDL)
        elif name == "system.js":
            self.add(Effect.DDL)
            self.add_unknown("system.js holds code that other commands run")

    def add_scans(self, scans: Iterable[ObjectName]) -> None:
        """Add collections that are read as a whole; the server's own do not count."""
        self.scans.update(each for each in scans if not each.name.startswith("system.") and each.schema not in _OWN)

    def finish(self) -> Statement:
        if not self.effects:
            self.add_unknown("its effect is unknown")
        return Statement(
            self.tag,
            frozenset(self.effects),
            frozenset(self.objects),
            self.without_where,
            self.reason,
            frozenset(self.scans),
            self.untraced,
        )


def split_namespace(namespace: object) -> tuple[str, str] | None:
    """Return database and collection of `shop.customers`; None if it is none."""
    if not isinstance(namespace, str):
        return None
    database, dot, name = namespace.partition(".")
    return (database, name) if database and dot and name else None
