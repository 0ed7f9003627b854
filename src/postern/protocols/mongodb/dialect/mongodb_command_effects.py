"""Effects of commands, by name. Each function adds what one command does to the draft of its statement.

They raise UnreadableCommand where a command has not the form that servers accept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from postern.domain.rules.statement import EVERYTHING, Effect, ObjectKind, ObjectName
from postern.protocols.mongodb.dialect.mongodb_command_names import ALIASES, COMMANDS, CommandTarget
from postern.protocols.mongodb.dialect.mongodb_conditions import is_always_true
from postern.protocols.mongodb.dialect.mongodb_drafts import MongodbDraft, split_namespace
from postern.protocols.mongodb.dialect.mongodb_json import (
    CommandText,
    Document,
    UnreadableCommand,
    as_document,
    as_documents,
    command_of,
    is_true,
    number_of,
)
from postern.protocols.mongodb.dialect.mongodb_operator_checks import (
    check_expression,
    check_projection,
    check_query,
    check_update,
)
from postern.protocols.mongodb.dialect.mongodb_pipelines import (
    PipelineJudge,
    PipelineScans,
    limits_documents,
)

UNKNOWN_CURSOR: Final = (
    "the gateway does not know the command that opened this cursor; connect with loadBalanced=true, so that cursors "
    "stay on their connection"
)
_PLANNED: Final = "queryPlanner"


def name_of(command: CommandText) -> str:
    """Return the command's name as servers document it."""
    return ALIASES.get(command.name, command.name)


def judge_command(draft: MongodbDraft, command: CommandText) -> None:
    name = name_of(command)
    special = _SPECIAL.get(name)
    if special is not None:
        draft.add_unknown(check_expression(command.fields.get("let")))
        special(draft, command)
        return
    listed = COMMANDS.get(name)
    if listed is None:
        draft.add_unknown(f"the command {name[:64]} is not known")
        draft.objects.add(EVERYTHING)
        return
    named, effects = listed
    draft.add(*effects)
    listing = command.fields.get("filter")
    draft.add_unknown(check_query(listing) if isinstance(listing, Mapping) else "")
    _add_named(draft, command, named)


def _add_named(draft: MongodbDraft, command: CommandText, named: CommandTarget) -> None:
    if named is CommandTarget.COLLECTION:
        draft.add_collection(command.database, command.collection)
    elif named is CommandTarget.DATABASE:
        draft.add_database(command.database)
    elif named is CommandTarget.EVERYTHING:
        draft.objects.add(EVERYTHING)
    elif named is CommandTarget.DATABASE_NAME:
        draft.add_database(str(command.argument))
    elif named is CommandTarget.NAMESPACE:
        place = split_namespace(command.argument)
        if place is None:
            raise UnreadableCommand(f"{command.name} does not name a collection")
        draft.add_collection(*place)


# Reading


def _find(draft: MongodbDraft, command: CommandText) -> None:
    touched = draft.add_read(command.database, command.collection)
    query = command.fields.get("filter")
    draft.add_unknown(check_query(query) or check_projection(command.fields.get("projection")))
    draft.add_unknown(check_expression(command.fields.get("sort")))
    if is_always_true(query) and not limits_documents(command.fields):
        draft.add_scans([touched])


def _aggregate(draft: MongodbDraft, command: CommandText) -> None:
    collection = "" if _is_one(command.argument) else command.collection
    if command.fields.get("explain") is True:  # plans, and runs nothing
        planned = _draft_like(draft)
        PipelineJudge(planned, command.database).judge(command.fields.get("pipeline"), collection)
        _add_planned(draft, planned)
        return
    scans = PipelineJudge(draft, command.database).judge(command.fields.get("pipeline"), collection)
    draft.add_scans(scans)


def _is_one(argument: object) -> bool:
    return not isinstance(argument, bool) and number_of(argument) == 1


def _count(draft: MongodbDraft, command: CommandText) -> None:
    draft.add_read(command.database, command.collection)
    draft.add_unknown(check_query(command.fields.get("query")))


def _distinct(draft: MongodbDraft, command: CommandText) -> None:
    touched = draft.add_read(command.database, command.collection)
    query = command.fields.get("query")
    draft.add_unknown(check_query(query))
    if is_always_true(query):
        draft.add_scans([touched])


def _get_more(draft: MongodbDraft, command: CommandText) -> None:
    collection = command.fields.get("collection")
    if isinstance(collection, str):
        draft.add_collection(command.database, collection)
    origin = command.fields.get("originatingCommand")
    if origin is None:
        draft.add_unknown(UNKNOWN_CURSOR)
        return
    opened = command_of(origin, command.database)
    if name_of(opened) in ("getMore", "explain"):
        raise UnreadableCommand(f"{opened.name} does not open a cursor")
    judge_command(draft, opened)


def _explain(draft: MongodbDraft, command: CommandText) -> None:
    inner = command_of(command.argument, command.database)
    if name_of(inner) in ("explain", "getMore"):
        raise UnreadableCommand(f"{inner.name} cannot be explained")
    if inner.database != command.database:
        raise UnreadableCommand("the command that it explains names another database")
    if command.fields.get("verbosity") != _PLANNED:
        draft.add(Effect.READ)
        judge_command(draft, inner)
        return
    planned = _draft_like(draft)
    judge_command(planned, inner)
    _add_planned(draft, planned)


def _draft_like(draft: MongodbDraft) -> MongodbDraft:
    return MongodbDraft(draft.tag, draft.schema, draft.judge_view, draft.within)


def _add_planned(draft: MongodbDraft, planned: MongodbDraft) -> None:
    """Add a command that is planned only: it changes nothing, and reads no documents."""
    draft.add(Effect.READ)
    draft.effects |= planned.effects & {Effect.UNKNOWN, Effect.ADMIN}
    draft.objects |= planned.objects
    draft.reason = draft.reason or planned.reason
    draft.untraced = draft.untraced or planned.untraced


def _map_reduce(draft: MongodbDraft, command: CommandText) -> None:
    touched = draft.add_read(command.database, command.collection)
    query = command.fields.get("query")
    draft.add_unknown("mapReduce runs code, whose effect cannot be determined")
    draft.add_unknown(check_query(query))
    if is_always_true(query) and not number_of(command.fields.get("limit", 0)):
        draft.add_scans([touched])
    out = command.fields.get("out")
    if isinstance(out, Mapping) and set(out) == {"inline"}:
        return
    name = out if isinstance(out, str) else next((out[kind] for kind in _OUTPUTS if kind in out), None) \
        if isinstance(out, Mapping) else None  # fmt: skip
    database = out.get("db", command.database) if isinstance(out, Mapping) else command.database
    if not isinstance(name, str) or not isinstance(database, str):
        raise UnreadableCommand("the output of mapReduce is not understood")
    draft.add_write(database, name)
    if not isinstance(out, Mapping) or "replace" in out:
        draft.add(Effect.DDL)


_OUTPUTS: Final = ("replace", "merge", "reduce")


def _file_md5(draft: MongodbDraft, command: CommandText) -> None:
    root = command.fields.get("root", "fs")
    draft.add_read(command.database, f"{root}.chunks")
    draft.add_collection(command.database, f"{root}.files")


def _validate(draft: MongodbDraft, command: CommandText) -> None:
    draft.add_collection(command.database, command.collection)
    draft.add(Effect.READ)
    if is_true(command.fields.get("repair")) or is_true(command.fields.get("fixMultikey")):
        draft.add(Effect.ADMIN)


# Writing


def _insert(draft: MongodbDraft, command: CommandText) -> None:
    command.documents("documents")
    draft.add_write(command.database, command.collection)


def _update(draft: MongodbDraft, command: CommandText) -> None:
    draft.add_write(command.database, command.collection)
    for each in command.documents("updates"):
        _add_update(draft, command, each, "q", "u")


def _add_update(draft: MongodbDraft, command: CommandText, each: Document, query: str, update: str) -> None:
    if query not in each or update not in each:
        raise UnreadableCommand("an update has no filter, or says no change")
    draft.add_unknown(check_query(each[query]) or check_expression(each.get("c")))
    _add_change(draft, command, each[update], each.get("arrayFilters"))
    if is_true(each.get("multi")) and is_always_true(each[query]):
        draft.without_where = True


def _add_change(draft: MongodbDraft, command: CommandText, change: object, filters: object) -> None:
    """Add what an update makes of a document: operators, a whole document, or a pipeline."""
    if isinstance(change, list):
        inner = _draft_like(draft)
        PipelineJudge(inner, command.database).judge_stages(as_documents(change, "the update"), "", PipelineScans())
        draft.effects |= inner.effects
        draft.objects |= inner.objects
        draft.reason = draft.reason or inner.reason
    else:
        draft.add_unknown(check_update(change))
    if filters is not None:
        for each in as_documents(filters, "arrayFilters"):
            draft.add_unknown(check_query(each))


def _delete(draft: MongodbDraft, command: CommandText) -> None:
    draft.add_write(command.database, command.collection)
    for each in command.documents("deletes"):
        if "q" not in each:
            raise UnreadableCommand("a delete has no filter")
        draft.add_unknown(check_query(each["q"]))
        if number_of(each.get("limit")) != 1 and is_always_true(each["q"]):
            draft.without_where = True


def _find_and_modify(draft: MongodbDraft, command: CommandText) -> None:
    fields = command.fields
    draft.add(Effect.READ)
    draft.add_write(command.database, command.collection)
    draft.add_unknown(check_query(fields.get("query")) or check_expression(fields.get("sort")))
    draft.add_unknown(check_projection(fields.get("fields")))
    if fields.get("update") is not None:
        _add_change(draft, command, fields["update"], fields.get("arrayFilters"))
    elif not is_true(fields.get("remove")):
        raise UnreadableCommand("findAndModify neither updates nor removes")


def _bulk_write(draft: MongodbDraft, command: CommandText) -> None:
    namespaces = [split_namespace(each.get("ns")) for each in command.documents("nsInfo")]
    for place in namespaces:
        if place is None:
            raise UnreadableCommand("a namespace of bulkWrite is not understood")
        draft.add_write(*place)
    for each in command.documents("ops"):
        kind = next(iter(each), "")
        if kind == "update":
            _add_update(draft, command, each, "filter", "updateMods")
        elif kind == "delete":
            if "filter" not in each:
                raise UnreadableCommand("a delete has no filter")
            draft.add_unknown(check_query(each["filter"]))
            if is_true(each.get("multi")) and is_always_true(each["filter"]):
                draft.without_where = True
        elif kind != "insert":
            raise UnreadableCommand(f"the operation {kind[:64]} of bulkWrite is not known")


# Collections, indexes and privileges


def _create(draft: MongodbDraft, command: CommandText) -> None:
    """Judge create and collMod. The pipeline of a view is stored, and runs when the view is read."""
    draft.add(Effect.DDL)
    draft.add_collection(command.database, command.collection)
    draft.add_unknown(check_query(command.fields.get("validator")))
    if "viewOn" not in command.fields:
        return
    viewed = command.fields["viewOn"]
    if not isinstance(viewed, str):
        raise UnreadableCommand("viewOn does not name a collection")
    stored = _draft_like(draft)
    PipelineJudge(stored, command.database).judge(command.fields.get("pipeline", []), viewed)
    draft.objects |= stored.objects
    draft.effects |= stored.effects - {Effect.READ}
    draft.reason = draft.reason or stored.reason
    draft.untraced = draft.untraced or stored.untraced


def _create_indexes(draft: MongodbDraft, command: CommandText) -> None:
    draft.add(Effect.DDL)
    draft.add_collection(command.database, command.collection)
    for each in command.documents("indexes"):
        draft.add_unknown(check_query(each.get("partialFilterExpression")))


def _rename_collection(draft: MongodbDraft, command: CommandText) -> None:
    draft.add(Effect.DDL)
    for named in (command.argument, command.fields.get("to")):
        place = split_namespace(named)
        if place is None:
            raise UnreadableCommand("renameCollection does not name two collections")
        draft.add_collection(*place)


def _clone_as_capped(draft: MongodbDraft, command: CommandText) -> None:
    target = command.fields.get("toCollection")
    if not isinstance(target, str):
        raise UnreadableCommand("cloneCollectionAsCapped does not name two collections")
    draft.add(Effect.DDL)
    draft.add_scans([draft.add_read(command.database, command.collection)])
    draft.add_write(command.database, target)


def _change_role(draft: MongodbDraft, command: CommandText) -> None:
    """Judge a command that names privileges."""
    draft.add(Effect.GRANT)
    privileges = command.fields.get("privileges")
    for each in [] if privileges is None else as_documents(privileges, "privileges"):
        resource = as_document(each.get("resource"), "a resource")
        database, collection = resource.get("db"), resource.get("collection")
        if isinstance(database, str) and database and isinstance(collection, str):
            kind = ObjectKind.TABLE if collection else ObjectKind.SCHEMA
            draft.objects.add(ObjectName(kind, collection or database, database if collection else ""))
        elif isinstance(collection, str) and collection:
            draft.objects.add(ObjectName(ObjectKind.TABLE, collection))
        else:
            draft.objects.add(EVERYTHING)


# The server


def _eval(draft: MongodbDraft, command: CommandText) -> None:
    draft.add(Effect.ADMIN)
    draft.objects.add(EVERYTHING)
    draft.add_unknown("eval runs code, whose effect cannot be determined")


def _apply_ops(draft: MongodbDraft, command: CommandText) -> None:
    draft.add(Effect.ADMIN, Effect.WRITE, Effect.DDL)
    draft.objects.add(EVERYTHING)


def _profile(draft: MongodbDraft, command: CommandText) -> None:
    draft.add_database(command.database)
    draft.add(Effect.ADMIN)
    draft.add_unknown(
        check_query(command.fields.get("filter")) if isinstance(command.fields.get("filter"), dict) else ""
    )


def _convert(draft: MongodbDraft, command: CommandText) -> None:
    draft.add(Effect.DDL, Effect.WRITE)
    draft.add_collection(command.database, command.collection)


_Judge = Callable[[MongodbDraft, CommandText], None]

_SPECIAL: Final[Mapping[str, _Judge]] = {
    "aggregate": _aggregate,
    "applyOps": _apply_ops,
    "bulkWrite": _bulk_write,
    "cloneCollectionAsCapped": _clone_as_capped,
    "collMod": _create,
    "convertToCapped": _convert,
    "count": _count,
    "create": _create,
    "createIndexes": _create_indexes,
    "createRole": _change_role,
    "delete": _delete,
    "distinct": _distinct,
    "eval": _eval,
    "explain": _explain,
    "fileMD5": _file_md5,
    "find": _find,
    "findAndModify": _find_and_modify,
    "getMore": _get_more,
    "grantPrivilegesToRole": _change_role,
    "insert": _insert,
    "mapReduce": _map_reduce,
    "profile": _profile,
    "renameCollection": _rename_collection,
    "revokePrivilegesFromRole": _change_role,
    "update": _update,
    "updateRole": _change_role,
    "validate": _validate,
}
