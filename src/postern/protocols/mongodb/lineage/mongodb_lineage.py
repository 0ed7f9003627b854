"""Lineage of commands: what the documents of each answer are made of, cached by text and snapshot.

As in SQL, filters (`filter`, `$match`, joins, an index in a projection) decide which documents there are, and do not
count as part of their values: a patient user can find masked values by them. A value that is written (`$out`,
`$merge`, an update with a pipeline) is a value of the collection that it is written to.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from postern.domain.targets.target_schema import Origin, TargetSchema
from postern.inspection.lineage.lineage_cache import Snapshots
from postern.inspection.lineage.scope import NOTHING, Sources, TooMuch, WorkBudget, union
from postern.protocols.mongodb.dialect.mongodb_command_effects import name_of
from postern.protocols.mongodb.dialect.mongodb_drafts import split_namespace
from postern.protocols.mongodb.dialect.mongodb_json import (
    CommandText,
    UnreadableCommand,
    as_document,
    as_documents,
    command_of,
    is_true,
    number_of,
    read_command,
)
from postern.protocols.mongodb.lineage.mongodb_expressions import ExpressionScope, value_of
from postern.protocols.mongodb.lineage.mongodb_lineage_catalogue import CommandCollections, MongodbLineageCatalogue
from postern.protocols.mongodb.lineage.mongodb_projections import project
from postern.protocols.mongodb.lineage.mongodb_stages import PipelineReader
from postern.protocols.mongodb.lineage.mongodb_value_trees import (
    FIELD_WORK,
    UNKNOWN_VALUE,
    BuiltValue,
    ComputedValue,
    DocumentValue,
    choose,
    depend,
    put_at,
)

log = logging.getLogger(__name__)

MAX_TEXT: Final = 64 * 1024  # characters; longer texts are not read
FIELD_NAMES: Final = "(field names)"
_MAX_WORK: Final = 50_000  # expressions and fields of one command
_MAX_COLUMNS: Final = 4096  # whose origins are stored for one text
_MAX_ANSWERS: Final = 256  # that are cached
_MAX_CACHED_WORK: Final = 200_000

# Answers without documents of collections, and without queries of other users.
_WITHOUT_DATA: Final = frozenset(
    {
        *("listCollections", "listIndexes", "listDatabases", "dbStats", "collStats", "buildInfo", "ping", "hello"),
        *("isMaster", "count", "connectionStatus", "whatsmyuri", "listCommands", "insert", "delete", "create"),
        *("createIndexes", "drop", "dropDatabase", "dropIndexes", "renameCollection", "collMod", "killCursors"),
        *("endSessions", "startSession", "refreshSessions", "commitTransaction", "abortTransaction", "dataSize"),
        *("createUser", "updateUser", "dropUser", "grantRolesToUser", "revokeRolesFromUser", "createRole"),
        *("updateRole", "dropRole", "grantPrivilegesToRole", "revokePrivilegesFromRole", "grantRolesToRole"),
        *("revokeRolesFromRole", "dropAllUsersFromDatabase", "dropAllRolesFromDatabase", "convertToCapped"),
        *("hostInfo", "getParameter", "replSetGetStatus", "createSearchIndexes", "dropSearchIndex"),
    }
)


class AnswerWork(WorkBudget):
    """The work that the answers to one command take."""

    def __init__(self) -> None:
        super().__init__(_MAX_WORK)

    @property
    def done(self) -> int:
        return _MAX_WORK - self._left


class AnswerLineage:
    """The lineage of the documents of one answer. Columns are paths; each is resolved once."""

    def __init__(self, documents: DocumentValue, work: AnswerWork) -> None:
        self._documents = documents
        self._origins: dict[str, Origin | None] = {}
        self.work = work

    def of(self, column: str) -> Origin | None:
        """Return the origin of the values at a path; None if unknown. A field can have the name of FIELD_NAMES, which
        then have its origin too."""
        if column in self._origins:
            return self._origins[column]
        try:
            with FIELD_WORK.spend(self.work):
                origin = self._find(column)
        except (TooMuch, RecursionError, MemoryError):
            origin = None
        if len(self._origins) < _MAX_COLUMNS:
            self._origins[column] = origin
        return origin

    def _find(self, column: str) -> Origin | None:
        if column == FIELD_NAMES and self._documents.names != NOTHING:
            return None
        origin = self._documents.at_path(column).origin
        if origin is None or "." not in column:
            return origin
        # A stored field's own name can have the dots.
        readings = [reading.origin for reading in self._readings(column)]
        if None in readings:
            return None
        others = [reading.refs for reading in readings if reading is not None]
        return Origin(origin.refs.union(*others), origin.plain)

    def _readings(self, column: str) -> Iterator[DocumentValue]:
        """Return the fields that a path can also mean: of a document, one whose name is the rest of the path."""
        value, rest = self._documents, column
        while "." in rest:
            yield value.at(rest)
            name, _, rest = rest.partition(".")
            value = value.at(name)

    @property
    def shape(self) -> Sources:
        """Return the fields that decide which fields a document of the answer has."""
        try:
            with FIELD_WORK.spend(self.work):
                return self._documents.shape
        except (TooMuch, RecursionError, MemoryError):
            return None


class MongodbLineage:
    """Lineage of commands. Never raises; not thread-safe. Sessions share one instance and its cache."""

    def __init__(self) -> None:
        self._snapshots: Snapshots[MongodbLineageCatalogue, None] = Snapshots(MongodbLineageCatalogue)
        self._answers: OrderedDict[tuple[TargetSchema, str], AnswerLineage | None] = OrderedDict()

    def read(self, text: str, schema: TargetSchema) -> AnswerLineage | None:
        """Return the lineage of a command's answer; None if it is unknown."""
        if len(text) > MAX_TEXT:
            return None
        key = (schema, text)
        if key in self._answers:
            self._answers.move_to_end(key)
            return self._answers[key]
        answer = _read(text, self._snapshots.of(schema).catalogue)
        self._answers[key] = answer
        while len(self._answers) > 1 and (len(self._answers) > _MAX_ANSWERS or self._work() > _MAX_CACHED_WORK):
            self._answers.popitem(last=False)
        return answer

    def _work(self) -> int:
        return sum(answer.work.done + 1 for answer in self._answers.values() if answer is not None)


def _read(text: str, catalogue: MongodbLineageCatalogue) -> AnswerLineage | None:
    work = AnswerWork()
    try:
        with FIELD_WORK.spend(work):
            reader = CommandReader(CommandCollections(catalogue, work), work)
            return AnswerLineage(documents_of(read_command(text), reader), work)
    except (UnreadableCommand, TooMuch, RecursionError, MemoryError):
        return None
    except Exception:
        log.exception("finding the lineage of a command failed; its fields are unknown")
        return None


@dataclass(frozen=True, slots=True)
class CommandReader:
    """What the reading of one command needs."""

    collections: CommandCollections
    work: WorkBudget

    def scope(self, command: CommandText, root: DocumentValue) -> ExpressionScope:
        """Return the scope of the command's expressions, with its variables."""
        scope = ExpressionScope(root, self.work, {})
        given = as_document(command.fields.get("let"), "let")
        return scope.bind({name: value_of(each, scope) for name, each in given.items()})

    def documents(self, command: CommandText) -> DocumentValue:
        return self.collections.documents(command.database, command.collection)

    def pipeline(self, command: CommandText) -> PipelineReader:
        return PipelineReader(self.collections, command.database)


def documents_of(command: CommandText, reader: CommandReader) -> DocumentValue:
    """Return the documents of a command's answer. Raises UnreadableCommand."""
    name = name_of(command)
    read = _COMMANDS.get(name)
    if read is not None:
        return read(command, reader)
    return ComputedValue(NOTHING) if name in _WITHOUT_DATA else UNKNOWN_VALUE


def _find(command: CommandText, reader: CommandReader) -> DocumentValue:
    root = reader.documents(command)
    if is_true(command.fields.get("returnKey")):
        return UNKNOWN_VALUE  # fields of an index, such as words of a text
    projection = command.document("projection")
    if projection:
        root = project(projection, reader.scope(command, root), is_find=True)
    return put_at(root, "$recordId", ComputedValue(NOTHING)) if "showRecordId" in command.fields else root


def _aggregate(command: CommandText, reader: CommandReader) -> DocumentValue:
    if command.fields.get("explain") is not None:
        return UNKNOWN_VALUE
    collection = "" if number_of(command.argument) == 1 else command.collection
    root = reader.collections.documents(command.database, collection) if collection else UNKNOWN_VALUE
    return reader.pipeline(command).read(command.fields.get("pipeline"), reader.scope(command, root), collection)


def _distinct(command: CommandText, reader: CommandReader) -> DocumentValue:
    key = command.fields.get("key")
    if not isinstance(key, str):
        raise UnreadableCommand("distinct does not name a field")
    return reader.documents(command)


def _get_more(command: CommandText, reader: CommandReader) -> DocumentValue:
    opened = command_of(command.fields.get("originatingCommand"), command.database)
    return UNKNOWN_VALUE if name_of(opened) == "getMore" else documents_of(opened, reader)


def _explain(command: CommandText, reader: CommandReader) -> DocumentValue:
    """Return a plan. One that did not run has no values but those of the command."""
    return ComputedValue(NOTHING) if command.fields.get("verbosity") == "queryPlanner" else UNKNOWN_VALUE


def _find_and_modify(command: CommandText, reader: CommandReader) -> DocumentValue:
    """Return the document, before or after the change. A pipeline can copy fields to others."""
    root = reader.documents(command)
    scope = reader.scope(command, root)
    changed, update = root, command.fields.get("update")
    if isinstance(update, list):
        changed = reader.pipeline(command).read(update, scope, command.collection)
    elif isinstance(update, Mapping):
        changed = _apply_rename(update, root)
    documents = choose([root, changed])
    fields = command.document("fields")
    if fields:
        documents = project(fields, scope.with_root(documents), is_find=True)
    identifier = choose([documents.at_path("lastErrorObject.upserted"), root.at("_id")])
    reported = BuiltValue({"upserted": identifier}, documents.at("lastErrorObject"))
    shown = choose([documents.at("_id"), identifier])
    return BuiltValue({"lastErrorObject": reported, "_id": shown}, documents)


def _apply_rename(update: Mapping[str, object], root: DocumentValue) -> DocumentValue:
    """Return a document with the fields that $rename moves."""
    renamed = update.get("$rename")
    for path, new in renamed.items() if isinstance(renamed, Mapping) else ():
        if isinstance(new, str):
            root = put_at(root, new, root.at_path(path))
    return root


def _update(command: CommandText, reader: CommandReader) -> DocumentValue:
    """Return the identifiers of documents that an update inserted."""
    return _identifiers([reader.documents(command)])


def _bulk_write(command: CommandText, reader: CommandReader) -> DocumentValue:
    places = [split_namespace(each.get("ns")) for each in as_documents(command.fields.get("nsInfo"), "nsInfo")]
    return _identifiers([UNKNOWN_VALUE if place is None else reader.collections.documents(*place) for place in places])


def _identifiers(collections: list[DocumentValue]) -> DocumentValue:
    identifier = choose([documents.at("_id") for documents in collections])
    return BuiltValue(
        {
            "_id": identifier,
            "upserted": BuiltValue({"_id": identifier}, depend(identifier, union([identifier.key]))),
        },
        ComputedValue(NOTHING),
    )


_COMMANDS: Final[Mapping[str, Callable[[CommandText, CommandReader], DocumentValue]]] = {
    "aggregate": _aggregate,
    "bulkWrite": _bulk_write,
    "distinct": _distinct,
    "explain": _explain,
    "find": _find,
    "findAndModify": _find_and_modify,
    "getMore": _get_more,
    "update": _update,
}
