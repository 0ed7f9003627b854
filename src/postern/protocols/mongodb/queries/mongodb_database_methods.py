"""Methods of databases: `db.METHOD(…)`, and `show …`. Each returns what mongosh sends for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from postern.protocols.mongodb.queries import mongodb_shell_options as o
from postern.protocols.mongodb.queries.mongodb_collection_methods import Result, aggregate
from postern.protocols.mongodb.queries.mongodb_shell_commands import (
    ADMIN,
    ShellCommands,
    check_collection,
    check_command,
    command,
)
from postern.protocols.mongodb.queries.mongodb_shell_options import Document, Given
from postern.protocols.mongodb.queries.mongodb_shell_values import Value

Method = Callable[[str, Given], Result]


def _simple(*names: str, database: str = "", value: Value = 1, **fields: Value) -> Method:
    """Return a method without arguments."""

    def method(current: str, given: Given) -> ShellCommands:
        return command(database or current, {**dict.fromkeys(names, value), **fields})

    return method


def _with_options(name: str, *, database: str = "", value: Value = 1) -> Method:
    """Return a method whose options are fields of the command."""

    def method(current: str, given: Given) -> ShellCommands:
        return command(database or current, o.with_fields({name: value}, given.optional_document("the options")))

    return method


def _of_user(name: str, *more: str) -> Method:
    """Return a method whose arguments are a name and further fields."""

    def method(current: str, given: Given) -> ShellCommands:
        document: Document = {name: given.text("the name")}
        for field in more:
            document[field] = given.any(field)
        return command(current, o.with_fields(document, _write_concern(given)))

    return method


def _of_document(name: str, key: str) -> Method:
    """Return a method whose argument is a document with a name, `createUser` for example."""

    def method(current: str, given: Given) -> ShellCommands:
        fields = dict(given.document("the argument"))
        named = fields.pop(key, None)
        if not isinstance(named, str) or not named:
            raise ValueError(f"the field {key!r} must be a text")
        return command(current, o.with_fields({name: named}, fields, _write_concern(given)))

    return method


def _of_name_and_document(name: str) -> Method:
    def method(current: str, given: Given) -> ShellCommands:
        named = given.text("the name")
        return command(current, o.with_fields({name: named}, given.document("the changes"), _write_concern(given)))

    return method


def _write_concern(given: Given) -> Document:
    if not len(given):
        return {}
    concern = given.document("the write concern")
    return {"writeConcern": concern.get("writeConcern", concern)}


def _run_command(current: str, given: Given) -> ShellCommands:
    return command(current, _command_of(given))


def _admin_command(current: str, given: Given) -> ShellCommands:
    return command(ADMIN, _command_of(given))


def _command_of(given: Given) -> Document:
    name = given.any("the command")
    document = {name: 1} if isinstance(name, str) and name else o.document_of(name, "the command")
    if "$db" in document:
        raise ValueError("a command has no $db here; use db.getSiblingDB")
    return check_command(document)


def _aggregate(current: str, given: Given) -> Result:
    return aggregate(current, 1, given)


def _collection_names(current: str, given: Given) -> ShellCommands:
    return command(current, _list_command({}, nameOnly=True, authorizedCollections=True))


def _collection_infos(current: str, given: Given) -> ShellCommands:
    query = given.optional_document("the filter")
    names = {name: name for name in ("nameOnly", "authorizedCollections", "comment", "maxTimeMS")}
    return command(current, _list_command(query, **o.fields_of(given.optional_document("the options"), names)))


def _list_command(query: Document, **fields: Value) -> Document:
    return {"listCollections": 1, "filter": query, "cursor": {}, **fields}


def _create_collection(current: str, given: Given) -> ShellCommands:
    name = check_collection(given.text("the name"))
    return command(current, o.with_fields({"create": name}, given.optional_document("the options")))


def _create_view(current: str, given: Given) -> ShellCommands:
    name, source = check_collection(given.text("the name")), given.text("the source")
    pipeline = given.any("the pipeline") if len(given) else []
    if isinstance(pipeline, dict):
        pipeline = [pipeline]
    if not isinstance(pipeline, list):
        raise ValueError("the pipeline must be an array")
    document = {"create": name, "viewOn": source, "pipeline": pipeline}
    return command(current, o.with_fields(document, given.optional_document("the options")))


def _drop_database(current: str, given: Given) -> ShellCommands:
    return command(current, {"dropDatabase": 1, **_write_concern(given)})


def _current_op(current: str, given: Given) -> ShellCommands:
    asked: Document = {}
    if isinstance(given.peek(), bool):
        asked = {"$all": given.any("the filter")}
    else:
        asked = dict(given.optional_document("the filter"))
    is_all, is_own = bool(asked.pop("$all", False)), bool(asked.pop("$ownOps", False))
    stage = {"allUsers": not is_own, "idleConnections": is_all, "truncateOps": False}
    pipeline: list[Document] = [{"$currentOp": stage}, *([{"$match": asked}] if asked else [])]
    return command(ADMIN, {"aggregate": 1, "pipeline": pipeline, "cursor": {}})


def _kill_op(current: str, given: Given) -> ShellCommands:
    return command(ADMIN, {"killOp": 1, "op": given.any("the operation")})


def _stats(current: str, given: Given) -> ShellCommands:
    options = (
        given.optional_document("the options")
        if not len(given) or isinstance(given.peek(), dict)
        else {"scale": given.any("the scale")}
    )
    return command(current, o.with_fields({"dbStats": 1}, options))


def _get_user(current: str, given: Given) -> ShellCommands:
    named = {"user": given.text("the name"), "db": current}
    return command(current, o.with_fields({"usersInfo": named}, given.optional_document("the options")))


def _get_role(current: str, given: Given) -> ShellCommands:
    named = {"role": given.text("the name"), "db": current}
    return command(current, o.with_fields({"rolesInfo": named}, given.optional_document("the options")))


def _set_profiling(current: str, given: Given) -> ShellCommands:
    level = given.whole("the level")
    options = (
        {"slowms": given.any("slowms")}
        if len(given) and not isinstance(given.peek(), dict)
        else (given.optional_document("the options"))
    )
    return command(current, o.with_fields({"profile": level}, options))


DATABASE_METHODS: Final[Mapping[str, Method]] = {
    "runCommand": _run_command,
    "adminCommand": _admin_command,
    "aggregate": _aggregate,
    "getCollectionNames": _collection_names,
    "getCollectionInfos": _collection_infos,
    "createCollection": _create_collection,
    "createView": _create_view,
    "dropDatabase": _drop_database,
    "getName": _simple("dbStats"),  # its answer begins with the name; no command tells only that
    "stats": _stats,
    "version": _simple("buildInfo", database=ADMIN),
    "serverBuildInfo": _simple("buildInfo", database=ADMIN),
    "serverStatus": _with_options("serverStatus", database=ADMIN),
    "serverCmdLineOpts": _simple("getCmdLineOpts", database=ADMIN),
    "hostInfo": _simple("hostInfo", database=ADMIN),
    "hello": _simple("hello"),
    "isMaster": _simple("isMaster"),
    "listCommands": _simple("listCommands"),
    "currentOp": _current_op,
    "killOp": _kill_op,
    "fsyncLock": _simple("fsync", database=ADMIN, lock=True),
    "fsyncUnlock": _simple("fsyncUnlock", database=ADMIN),
    "getProfilingStatus": _simple("profile", value=-1),
    "setProfilingLevel": _set_profiling,
    "getUser": _get_user,
    "getUsers": _with_options("usersInfo"),
    "createUser": _of_document("createUser", "user"),
    "updateUser": _of_name_and_document("updateUser"),
    "changeUserPassword": _of_user("updateUser", "pwd"),
    "dropUser": _of_user("dropUser"),
    "dropAllUsers": _simple("dropAllUsersFromDatabase"),
    "grantRolesToUser": _of_user("grantRolesToUser", "roles"),
    "revokeRolesFromUser": _of_user("revokeRolesFromUser", "roles"),
    "getRole": _get_role,
    "getRoles": _with_options("rolesInfo"),
    "createRole": _of_document("createRole", "role"),
    "updateRole": _of_name_and_document("updateRole"),
    "dropRole": _of_user("dropRole"),
    "dropAllRoles": _simple("dropAllRolesFromDatabase"),
    "grantRolesToRole": _of_user("grantRolesToRole", "roles"),
    "revokeRolesFromRole": _of_user("revokeRolesFromRole", "roles"),
    "grantPrivilegesToRole": _of_user("grantPrivilegesToRole", "privileges"),
    "revokePrivilegesFromRole": _of_user("revokePrivilegesFromRole", "privileges"),
}

SHOW: Final[Mapping[str, Callable[[str], ShellCommands]]] = {
    **dict.fromkeys(("dbs", "databases"), lambda current: command(ADMIN, {"listDatabases": 1, "nameOnly": False})),
    **dict.fromkeys(
        ("collections", "tables"),
        lambda current: command(current, _list_command({}, nameOnly=True, authorizedCollections=True)),
    ),
    "users": lambda current: command(current, {"usersInfo": 1}),
    "roles": lambda current: command(current, {"rolesInfo": 1, "showPrivileges": False, "showBuiltinRoles": True}),
    "profile": lambda current: command(
        current, {"find": "system.profile", "filter": {"millis": {"$gt": 0}}, "sort": {"$natural": -1}, "limit": 5}
    ),
}
"""What follows `show`."""
