"""Methods of collections: `db.COLLECTION.METHOD(…)`. Each returns what mongosh sends for it.

The documents that they make have the fields in the order of the drivers. Options that they do not know are errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from postern.protocols.mongodb.queries import mongodb_shell_options as o
from postern.protocols.mongodb.queries.mongodb_bulk_writes import bulk_write
from postern.protocols.mongodb.queries.mongodb_shell_commands import (
    ADMIN,
    VERBOSITIES,
    AggregateChain,
    ExplainChain,
    FindChain,
    ShellCommand,
    ShellCommands,
    check_collection,
    check_pipeline,
    command,
)
from postern.protocols.mongodb.queries.mongodb_shell_options import Document, Given
from postern.protocols.mongodb.queries.mongodb_shell_values import Value

Result = ShellCommands | FindChain | AggregateChain | ExplainChain
Method = Callable[[str, str, Given], Result]


def verbosity_of(given: Given) -> str:
    """Return the verbosity of an explanation. Raises ValueError."""
    if not len(given):
        return VERBOSITIES[0]
    value = given.any("the verbosity")
    if isinstance(value, bool):  # as old shells had it
        return VERBOSITIES[2] if value else VERBOSITIES[0]
    if isinstance(value, dict) and set(value) == {"verbosity"}:
        value = value["verbosity"]
    if value not in VERBOSITIES:
        raise ValueError(f"the verbosity is one of {', '.join(VERBOSITIES)}")
    return str(value)


def _find(database: str, collection: str, given: Given) -> FindChain:
    query = given.optional_document("the filter")
    projection = given.optional_document("the projection")
    options = o.fields_of(given.optional_document("the options"), o.FIND)
    document: Document = {"find": collection, "filter": query}
    if projection:
        document["projection"] = projection
    return FindChain(database, o.with_fields(document, options))


def _find_one(database: str, collection: str, given: Given) -> ShellCommands:
    found = _find(database, collection, given)
    return found.with_field("limit", 1).finish()


def aggregate(database: str, target: Value, given: Given) -> ShellCommands | AggregateChain:
    """Return the chain of an aggregation of a collection, or of a database (`target` 1)."""
    if isinstance(given.peek(), list):
        pipeline = [o.document_of(stage, "each stage") for stage in given.any("the pipeline")]
        options = given.optional_document("the options")
    else:
        pipeline, options = [o.document_of(stage, "each stage") for stage in given.rest()], {}
    check_pipeline(pipeline)
    options = dict(options)
    verbosity = ""
    if "explain" in options:
        explained = options.pop("explain")
        verbosity = verbosity_of(Given([explained])) if explained else ""
    cursor = o.document_of(options.pop("cursor", {}), "cursor")
    if "batchSize" in options:
        cursor = {"batchSize": options.pop("batchSize")}
    fields = o.fields_of(options, o.AGGREGATE)
    return AggregateChain(
        database, {"aggregate": target, "pipeline": pipeline, "cursor": cursor, **fields}, verbosity=verbosity
    )


def _count_documents(database: str, collection: str, given: Given) -> ShellCommands:
    query = given.optional_document("the filter")
    options = o.fields_of(given.optional_document("the options"), o.COUNT)
    pipeline: list[Document] = [{"$match": query}]
    pipeline += [{f"${name}": options.pop(name)} for name in ("skip", "limit") if name in options]
    pipeline.append({"$group": {"_id": 1, "n": {"$sum": 1}}})
    return command(database, {"aggregate": collection, "pipeline": pipeline, "cursor": {}, **options})


def _estimated_count(database: str, collection: str, given: Given) -> ShellCommands:
    options = o.fields_of(given.optional_document("the options"), {"maxTimeMS": "maxTimeMS", "comment": "comment"})
    return command(database, {"count": collection, **options})


def _count(database: str, collection: str, given: Given) -> ShellCommands:
    query = given.optional_document("the filter")
    options = o.fields_of(given.optional_document("the options"), o.COUNT)
    return command(database, {"count": collection, "query": query, **options})


def _distinct(database: str, collection: str, given: Given) -> ShellCommands:
    key = given.text("the field")
    query = given.optional_document("the filter")
    options = o.fields_of(given.optional_document("the options"), o.DISTINCT)
    return command(database, {"distinct": collection, "key": key, "query": query, **options})


def _insert_one(database: str, collection: str, given: Given) -> ShellCommands:
    documents = [given.document("the document")]
    return _insert_all(database, collection, documents, given)


def _insert_many(database: str, collection: str, given: Given) -> ShellCommands:
    return _insert_all(database, collection, given.documents("the documents"), given)


def _insert(database: str, collection: str, given: Given) -> ShellCommands:
    if isinstance(given.peek(), list):
        return _insert_many(database, collection, given)
    return _insert_one(database, collection, given)


def _insert_all(database: str, collection: str, documents: list[Document], given: Given) -> ShellCommands:
    options = o.fields_of(given.optional_document("the options"), o.INSERT)
    ordered = options.pop("ordered", True)
    return command(database, {"insert": collection, "documents": o.with_ids(documents), "ordered": ordered, **options})


def _update_one(database: str, collection: str, given: Given) -> ShellCommands:
    return _update_with(database, collection, given, {})


def _update_many(database: str, collection: str, given: Given) -> ShellCommands:
    return _update_with(database, collection, given, {"multi": True})


def _replace_one(database: str, collection: str, given: Given) -> ShellCommands:
    return _update_with(database, collection, given, {}, replaces=True)


def _update(database: str, collection: str, given: Given) -> ShellCommands:
    """The old method, whose option `multi` chooses between the two new ones."""
    query, update = given.document("the filter"), given.any("the update")
    options = dict(given.optional_document("the options"))
    multi = options.pop("multi", False)
    if not isinstance(multi, bool):
        raise ValueError("the option 'multi' is true or false")
    return _update_with(database, collection, Given([query, update, options]), {"multi": True} if multi else {})


def _update_with(
    database: str, collection: str, given: Given, extra: Document, *, replaces: bool = False
) -> ShellCommands:
    query = given.document("the filter")
    update = o.check_update(given.any("the update"), replaces=replaces)
    options, statement = o.split_options(given.optional_document("the options"), o.UPDATE, o.UPDATE_STATEMENT)
    ordered = options.pop("ordered", True)
    updates = [{"q": query, "u": update, **extra, **statement}]
    return command(database, {"update": collection, "updates": updates, "ordered": ordered, **options})


def _delete_one(database: str, collection: str, given: Given) -> ShellCommands:
    return _delete_with(database, collection, given, 1)


def _delete_many(database: str, collection: str, given: Given) -> ShellCommands:
    return _delete_with(database, collection, given, 0)


def _remove(database: str, collection: str, given: Given) -> ShellCommands:
    """The old method; it takes `true`, or the option `justOne`, for one document."""
    query = given.document("the filter")
    options = (
        {"justOne": given.any("justOne")}
        if isinstance(given.peek(), bool)
        else dict(given.optional_document("the options"))
    )
    only_one = options.pop("justOne", False)
    if not isinstance(only_one, bool):
        raise ValueError("the option 'justOne' is true or false")
    return _delete_with(database, collection, Given([query, options]), int(only_one))


def _delete_with(database: str, collection: str, given: Given, limit: int) -> ShellCommands:
    query = given.document("the filter")
    options, statement = o.split_options(given.optional_document("the options"), o.DELETE, o.DELETE_STATEMENT)
    ordered = options.pop("ordered", True)
    deletes = [{"q": query, "limit": limit, **statement}]
    return command(database, {"delete": collection, "deletes": deletes, "ordered": ordered, **options})


def _find_one_and_update(database: str, collection: str, given: Given) -> ShellCommands:
    return _find_and_change(database, collection, given, replaces=False)


def _find_one_and_replace(database: str, collection: str, given: Given) -> ShellCommands:
    return _find_and_change(database, collection, given, replaces=True)


def _find_and_change(database: str, collection: str, given: Given, *, replaces: bool) -> ShellCommands:
    query = given.document("the filter")
    update = o.check_update(given.any("the update"), replaces=replaces)
    options = dict(given.optional_document("the options"))
    shows_new = options.pop("returnNewDocument", options.pop("new", False))
    returns = options.pop("returnDocument", "after" if shows_new is True else "before")
    if returns not in ("before", "after") or not isinstance(shows_new, bool):
        raise ValueError('returnDocument is "before" or "after"')
    fields = o.fields_of(options, o.FIND_AND_MODIFY)
    upsert = fields.pop("upsert", False)
    document: Document = {"findAndModify": collection, "query": query, "remove": False}
    return command(database, {**document, "new": returns == "after", "upsert": upsert, "update": update, **fields})


def _find_one_and_delete(database: str, collection: str, given: Given) -> ShellCommands:
    query = given.document("the filter")
    fields = o.fields_of(given.optional_document("the options"), o.FIND_AND_MODIFY)
    document: Document = {"findAndModify": collection, "query": query, "remove": True, "new": False, "upsert": False}
    return command(database, {**document, **fields})


def _find_and_modify(database: str, collection: str, given: Given) -> ShellCommands:
    options = dict(given.document("the options"))
    document: Document = {"findAndModify": collection, "query": options.pop("query", {}), "remove": False, "new": False}
    document["upsert"] = options.pop("upsert", False)
    for name in ("remove", "new", "update"):
        if name in options:
            document[name] = options.pop(name)
    if not document["remove"] and "update" not in document:
        raise ValueError("it needs an update, or remove: true")
    return command(database, {**document, **o.fields_of(options, o.FIND_AND_MODIFY)})


def _create_index(database: str, collection: str, given: Given) -> ShellCommands:
    keys = given.document("the keys")
    options = dict(given.optional_document("the options"))
    return _create_all(database, collection, [keys], options, given)


def _create_indexes(database: str, collection: str, given: Given) -> ShellCommands:
    keys = given.documents("the keys of each index")
    options = dict(given.optional_document("the options"))
    return _create_all(database, collection, keys, options, given)


def _create_all(database: str, collection: str, keys: list[Document], options: Document, given: Given) -> ShellCommands:
    quorum: Document = {"commitQuorum": given.any("the commit quorum")} if len(given) else {}
    for name in ("commitQuorum", "comment", "maxTimeMS", "writeConcern"):
        if name in options:
            quorum = o.with_fields(quorum, {name: options.pop(name)})
    if "name" in options and len(keys) > 1:
        raise ValueError("several indexes cannot have one name")
    indexes = [
        {"name": options.get("name", o.index_name(each)), "key": each}
        | {name: value for name, value in options.items() if name != "name"}
        for each in keys
    ]
    return command(database, {"createIndexes": collection, "indexes": indexes, **quorum})


def _drop_index(database: str, collection: str, given: Given) -> ShellCommands:
    index = given.any("the index")
    if index == "*" or not isinstance(index, str | dict):
        raise ValueError("it takes the name or the keys of one index; dropIndexes() drops all")
    return command(database, {"dropIndexes": collection, "index": index})


def _drop_indexes(database: str, collection: str, given: Given) -> ShellCommands:
    index = given.any("the indexes") if len(given) else "*"
    if not isinstance(index, str | dict | list):
        raise ValueError("it takes names or the keys of an index")
    return command(database, {"dropIndexes": collection, "index": index})


def _hide_index(database: str, collection: str, given: Given, *, hidden: bool = True) -> ShellCommands:
    index = given.any("the index")
    which = {"name": index} if isinstance(index, str) else {"keyPattern": o.document_of(index, "the index")}
    return command(database, {"collMod": collection, "index": {**which, "hidden": hidden}})


def _unhide_index(database: str, collection: str, given: Given) -> ShellCommands:
    return _hide_index(database, collection, given, hidden=False)


def _get_indexes(database: str, collection: str, given: Given) -> ShellCommands:
    return command(database, {"listIndexes": collection, "cursor": {}})


def _drop(database: str, collection: str, given: Given) -> ShellCommands:
    fields = o.fields_of(given.optional_document("the options"), o.WRITE_CONCERN)
    return command(database, {"drop": collection, **fields})


def _rename(database: str, collection: str, given: Given) -> ShellCommands:
    name = check_collection(given.text("the new name"))
    drops = given.optional_flag("dropTarget", default=False)
    document = {"renameCollection": f"{database}.{collection}", "to": f"{database}.{name}", "dropTarget": drops}
    return command(ADMIN, document)


def _stats(database: str, collection: str, given: Given) -> ShellCommands:
    options = (
        {"scale": given.any("the scale")}
        if not isinstance(given.peek(), dict) and len(given)
        else (given.optional_document("the options"))
    )
    fields = o.fields_of(options, {"scale": "scale"})
    return command(database, {"collStats": collection, **fields})


def _latency_stats(database: str, collection: str, given: Given) -> ShellCommands:
    options = given.optional_document("the options")
    pipeline = [{"$collStats": {"latencyStats": options}}]
    return command(database, {"aggregate": collection, "pipeline": pipeline, "cursor": {}})


def _validate(database: str, collection: str, given: Given) -> ShellCommands:
    options = {"full": given.any("full")} if isinstance(given.peek(), bool) else given.optional_document("the options")
    return command(database, o.with_fields({"validate": collection}, options))


def _convert_to_capped(database: str, collection: str, given: Given) -> ShellCommands:
    return command(database, {"convertToCapped": collection, "size": given.any("the size")})


def _run_command(database: str, collection: str, given: Given) -> ShellCommands:
    name = given.text("the command's name")
    return command(database, o.with_fields({name: collection}, given.optional_document("the options")))


def _exists(database: str, collection: str, given: Given) -> ShellCommands:
    return command(database, {"listCollections": 1, "filter": {"name": collection}, "cursor": {}})


def _explain(database: str, collection: str, given: Given) -> ExplainChain:
    return ExplainChain(database, collection, verbosity_of(given))


def _bulk_write(database: str, collection: str, given: Given) -> ShellCommands:
    operations = given.documents("the operations")
    options = o.fields_of(given.optional_document("the options"), o.UPDATE)
    ordered = options.pop("ordered", True)
    documents = bulk_write(collection, operations, options, ordered=ordered)
    return ShellCommands(tuple(ShellCommand(database, document) for document in documents), continues=not ordered)


COLLECTION_METHODS: Final[Mapping[str, Method]] = {
    "find": _find,
    "findOne": _find_one,
    "aggregate": aggregate,
    "countDocuments": _count_documents,
    "estimatedDocumentCount": _estimated_count,
    "count": _count,
    "distinct": _distinct,
    "insertOne": _insert_one,
    "insertMany": _insert_many,
    "insert": _insert,
    "updateOne": _update_one,
    "updateMany": _update_many,
    "update": _update,
    "replaceOne": _replace_one,
    "deleteOne": _delete_one,
    "deleteMany": _delete_many,
    "remove": _remove,
    "findOneAndUpdate": _find_one_and_update,
    "findOneAndReplace": _find_one_and_replace,
    "findOneAndDelete": _find_one_and_delete,
    "findAndModify": _find_and_modify,
    "bulkWrite": _bulk_write,
    "createIndex": _create_index,
    "createIndexes": _create_indexes,
    "dropIndex": _drop_index,
    "dropIndexes": _drop_indexes,
    "hideIndex": _hide_index,
    "unhideIndex": _unhide_index,
    "getIndexes": _get_indexes,
    "getIndices": _get_indexes,
    "drop": _drop,
    "renameCollection": _rename,
    "stats": _stats,
    "dataSize": _stats,
    "storageSize": _stats,
    "totalIndexSize": _stats,
    "totalSize": _stats,
    "latencyStats": _latency_stats,
    "validate": _validate,
    "convertToCapped": _convert_to_capped,
    "runCommand": _run_command,
    "exists": _exists,
    "explain": _explain,
}
EXPLAINED_METHODS: Final = frozenset(
    {
        *("aggregate", "count", "distinct", "find", "findAndModify", "findOneAndDelete", "findOneAndReplace"),
        *("findOneAndUpdate", "remove", "update", "findOne", "countDocuments"),
    }
)
"""Those that can follow `explain()`."""
