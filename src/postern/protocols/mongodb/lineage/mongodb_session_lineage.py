"""Origins of the columns of a session's answers: from the command, and from what the session did before.

A view or a collection that the session has made or changed can be anything until the next session: the snapshot of the
catalogue shows only what was there when it was read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from postern.domain.targets.target_schema import ColumnRef, Key, Origin, TargetSchema
from postern.inspection.lineage.scope import Sources
from postern.inspection.lineage.unread import UnreadText
from postern.interception.events import Column
from postern.protocols.mongodb.dialect.mongodb_command_effects import name_of
from postern.protocols.mongodb.dialect.mongodb_drafts import split_namespace
from postern.protocols.mongodb.dialect.mongodb_json import CommandText, UnreadableCommand, read_command
from postern.protocols.mongodb.lineage.mongodb_lineage import MAX_TEXT, AnswerLineage, MongodbLineage

_EMPTY: Final = TargetSchema()
_NO_TAGS: Final[frozenset[str]] = frozenset()
_MAX_CHANGED: Final = 256  # collections; with more, nothing is known of any

# Commands that can make a name mean something else.
_DEFINING: Final = frozenset({"create", "collMod", "renameCollection", "drop", "dropDatabase", "convertToCapped"})
_CHANGING_ANY: Final = frozenset({"applyOps", "doTxn", "eval", "copydb", "clone", "cloneCollection", "mapReduce"})
_DEFINES: Final = re.compile(
    r'\s*\{\s*"(?:' + "|".join(sorted(_DEFINING | _CHANGING_ANY | {"mapreduce", r"\$eval"})) + r'|[^"]*\\[^"]*)"'
)
_DEFINITIONS: Final = "system.views"


class MongodbSessionLineage:
    """See `SessionOrigins`. Never raises."""

    def __init__(self, lineage: MongodbLineage, schema: Callable[[], TargetSchema | None]) -> None:
        """`schema` returns the current snapshot, or None if it could not be read."""
        self._lineage = lineage
        self._known = schema
        self._changed: set[Key] = set()
        self._lost = False
        self._base: TargetSchema | None = None
        self._own: TargetSchema = _EMPTY

    def record_gap(self) -> None:
        """Record that commands were forwarded unseen: they may have changed anything."""
        self._lost = True

    def record_statement(self, statement: str) -> None:
        """Record a command before it is forwarded."""
        if not _DEFINES.match(statement):
            if _DEFINITIONS in statement:
                self._record_write(statement)
            return
        try:
            command = read_command(statement)
            self._record(name_of(command), command)
        except UnreadableCommand:
            self.record_gap()

    def _record_write(self, statement: str) -> None:
        """Record a command that may write to `system.views`, where the definitions of views are stored."""
        try:
            command = read_command(statement)
        except UnreadableCommand:
            self.record_gap()
            return
        if name_of(command) not in ("find", "getMore", "count", "distinct"):
            self.record_gap()

    def _record(self, name: str, command: CommandText) -> None:
        if name in _CHANGING_ANY or name == "dropDatabase":
            self.record_gap()
        elif name == "renameCollection":
            for named in (command.argument, command.fields.get("to")):
                place = split_namespace(named)
                if place is None:
                    raise UnreadableCommand("renameCollection does not name two collections")
                self._add_changed(place)
        elif name in _DEFINING:
            self._add_changed((command.database, command.collection))

    def _add_changed(self, key: Key) -> None:
        if len(self._changed) >= _MAX_CHANGED:
            self.record_gap()
        elif key not in self._changed:
            self._changed.add(key)
            self._base = None

    def unread(self, statement: str) -> UnreadText | None:
        """Return None: a command is read at once. Long ones are not read at all."""
        return None

    def of(self, statement: str, columns: Sequence[Column]) -> tuple[Origin | None, ...] | None:
        """Return the origin of each column; None if the command cannot be resolved."""
        answer = self._read(statement)
        if answer is None or not columns:
            return None
        return tuple([answer.of(column.name) for column in columns])

    def shape(self, statement: str) -> Sources:
        """Return the fields that decide which fields, and how many elements, the documents of an answer have."""
        answer = self._read(statement)
        return None if answer is None else answer.shape

    def tags(self, column: ColumnRef) -> frozenset[str]:
        relation = self._schema.relations.get((column.schema, column.table))
        if relation is None:
            return _NO_TAGS
        found = set(relation.tags)
        path = column.column.removesuffix("*").removesuffix(".")
        for name, tags in relation.column_tags.items():
            within = path != column.column and (not path or name.startswith(f"{path}."))
            if within or path == name or path.startswith(f"{name}."):
                found |= tags
        return frozenset(found)

    def _read(self, statement: str) -> AnswerLineage | None:
        if self._lost or len(statement) > MAX_TEXT:
            return None
        return self._lineage.read(statement, self._schema)

    @property
    def _schema(self) -> TargetSchema:
        """Return the snapshot without what the session changed. Views that read it become unknown too."""
        known = self._known() or _EMPTY
        if self._base is not known:
            self._base = known
            self._own = known
            if self._changed:
                relations = {key: each for key, each in known.relations.items() if key not in self._changed}
                self._own = TargetSchema(relations, known.functions, known.search_path)
        return self._own
