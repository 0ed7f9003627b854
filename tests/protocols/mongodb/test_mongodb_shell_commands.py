"""Statements of scripts and the commands that they stand for, as the manual of mongosh describes them."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson import Int64, ObjectId
from hypothesis import given, settings
from hypothesis import strategies as st

from postern.protocols.mongodb.queries.mongodb_shell_errors import ShellError
from postern.protocols.mongodb.queries.mongodb_shell_statements import ShellScript


def commands(text: str, database: str = "shop") -> list[dict[str, Any]]:
    """The documents that are sent, with generated ids as "ID"."""
    statements = ShellScript(text, database).read()
    return [without_ids(command.complete()) for statement in statements for command in statement.commands]


def without_ids(document: dict[str, Any]) -> dict[str, Any]:
    documents = document.get("documents")
    if not isinstance(documents, list):
        return document
    return document | {"documents": [each | {"_id": "ID"} if "_id" in each else each for each in documents]}


READ_TABLE: list[tuple[str, dict[str, Any]]] = [
    ("db.c.find()", {"find": "c", "filter": {}}),
    ("db.c.find({})", {"find": "c", "filter": {}}),
    ("db.c.find({a: 1}, {b: 1})", {"find": "c", "filter": {"a": 1}, "projection": {"b": 1}}),
    ("db.c.find(null, {b: 1})", {"find": "c", "filter": {}, "projection": {"b": 1}}),
    ("db.c.find({}, {}, {sort: {a: 1}, limit: 2})", {"find": "c", "filter": {}, "sort": {"a": 1}, "limit": 2}),
    (
        "db.c.find().sort({a: -1}).skip(5).limit(10)",
        {"find": "c", "filter": {}, "sort": {"a": -1}, "skip": 5, "limit": 10},
    ),
    ("db.c.find().limit(0)", {"find": "c", "filter": {}}),
    ("db.c.find().limit(-5)", {"find": "c", "filter": {}, "limit": 5, "singleBatch": True}),
    ("db.c.find().hint('a_1')", {"find": "c", "filter": {}, "hint": "a_1"}),
    ("db.c.find().hint({a: 1})", {"find": "c", "filter": {}, "hint": {"a": 1}}),
    ("db.c.find().batchSize(7).maxTimeMS(9)", {"find": "c", "filter": {}, "batchSize": 7, "maxTimeMS": 9}),
    ("db.c.find().collation({locale: 'de'})", {"find": "c", "filter": {}, "collation": {"locale": "de"}}),
    ("db.c.find().comment('why')", {"find": "c", "filter": {}, "comment": "why"}),
    ("db.c.find().projection({a: 0})", {"find": "c", "filter": {}, "projection": {"a": 0}}),
    ("db.c.find().min({a: 1}).max({a: 5})", {"find": "c", "filter": {}, "min": {"a": 1}, "max": {"a": 5}}),
    ("db.c.find().returnKey().showRecordId()", {"find": "c", "filter": {}, "returnKey": True, "showRecordId": True}),
    ("db.c.find().allowDiskUse(false)", {"find": "c", "filter": {}, "allowDiskUse": False}),
    ("db.c.find().readConcern('majority')", {"find": "c", "filter": {}, "readConcern": {"level": "majority"}}),
    (
        "db.c.find().readPref('secondary', [{dc: 'x'}])",
        {"find": "c", "filter": {}, "$readPreference": {"mode": "secondary", "tags": [{"dc": "x"}]}},
    ),
    ("db.c.find().toArray()", {"find": "c", "filter": {}}),
    ("db.c.find().pretty()", {"find": "c", "filter": {}}),
    ("db.c.find({a: 1}).count()", {"count": "c", "query": {"a": 1}}),
    ("db.c.find({a: 1}).limit(5).count()", {"count": "c", "query": {"a": 1}, "limit": 5}),
    ("db.c.find({a: 1}).limit(5).skip(2).count(true)", {"count": "c", "query": {"a": 1}, "limit": 5, "skip": 2}),
    ("db.c.find({a: 1}).limit(5).hint('x').size()", {"count": "c", "query": {"a": 1}, "hint": "x", "limit": 5}),
    ("db.c.findOne()", {"find": "c", "filter": {}, "limit": 1}),
    (
        "db.c.findOne({a: 1}, {b: 1}, {sort: {c: 1}})",
        {"find": "c", "filter": {"a": 1}, "projection": {"b": 1}, "sort": {"c": 1}, "limit": 1},
    ),
    (
        "db.c.find({a: 1}).explain()",
        {"explain": {"find": "c", "filter": {"a": 1}}, "verbosity": "queryPlanner"},
    ),
    (
        "db.c.find().sort({a: 1}).explain('executionStats')",
        {"explain": {"find": "c", "filter": {}, "sort": {"a": 1}}, "verbosity": "executionStats"},
    ),
    (
        "db.c.explain('allPlansExecution').find({a: 1}).limit(3)",
        {"explain": {"find": "c", "filter": {"a": 1}, "limit": 3}, "verbosity": "allPlansExecution"},
    ),
    ("db.c.explain().count({a: 1})", {"explain": {"count": "c", "query": {"a": 1}}, "verbosity": "queryPlanner"}),
    (
        "db.c.explain().distinct('a')",
        {"explain": {"distinct": "c", "key": "a", "query": {}}, "verbosity": "queryPlanner"},
    ),
    (
        "db.c.explain().aggregate([{$match: {}}])",
        {
            "explain": {"aggregate": "c", "pipeline": [{"$match": {}}], "cursor": {}},
            "verbosity": "queryPlanner",
        },
    ),
    (
        "db.c.explain().update({a: 1}, {$set: {b: 2}})",
        {
            "explain": {"update": "c", "updates": [{"q": {"a": 1}, "u": {"$set": {"b": 2}}}], "ordered": True},
            "verbosity": "queryPlanner",
        },
    ),
    ("db.c.aggregate()", {"aggregate": "c", "pipeline": [], "cursor": {}}),
    (
        "db.c.aggregate([{$match: {a: 1}}, {$group: {_id: '$b'}}])",
        {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}, {"$group": {"_id": "$b"}}], "cursor": {}},
    ),
    (
        "db.c.aggregate({$match: {a: 1}}, {$count: 'n'})",
        {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}, {"$count": "n"}], "cursor": {}},
    ),
    (
        "db.c.aggregate([], {allowDiskUse: true, maxTimeMS: 5, let: {x: 1}, cursor: {batchSize: 3}})",
        {
            "aggregate": "c",
            "pipeline": [],
            "cursor": {"batchSize": 3},
            "allowDiskUse": True,
            "maxTimeMS": 5,
            "let": {"x": 1},
        },
    ),
    (
        "db.c.aggregate([], {comment: 'x'}).batchSize(5).maxTimeMS(6).toArray()",
        {"aggregate": "c", "pipeline": [], "cursor": {"batchSize": 5}, "comment": "x", "maxTimeMS": 6},
    ),
    (
        "db.c.aggregate([], {explain: true})",
        {"explain": {"aggregate": "c", "pipeline": [], "cursor": {}}, "verbosity": "allPlansExecution"},
    ),
    (
        "db.c.aggregate([]).explain('executionStats')",
        {"explain": {"aggregate": "c", "pipeline": [], "cursor": {}}, "verbosity": "executionStats"},
    ),
    ("db.aggregate([{$currentOp: {}}])", {"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}}),
    (
        "db.c.countDocuments({a: 1})",
        {
            "aggregate": "c",
            "pipeline": [{"$match": {"a": 1}}, {"$group": {"_id": 1, "n": {"$sum": 1}}}],
            "cursor": {},
        },
    ),
    (
        "db.c.countDocuments({}, {skip: 1, limit: 2, hint: 'x', maxTimeMS: 3})",
        {
            "aggregate": "c",
            "pipeline": [{"$match": {}}, {"$skip": 1}, {"$limit": 2}, {"$group": {"_id": 1, "n": {"$sum": 1}}}],
            "cursor": {},
            "hint": "x",
            "maxTimeMS": 3,
        },
    ),
    ("db.c.estimatedDocumentCount({maxTimeMS: 5})", {"count": "c", "maxTimeMS": 5}),
    ("db.c.count({a: 1}, {limit: 5})", {"count": "c", "query": {"a": 1}, "limit": 5}),
    ("db.c.distinct('a.b')", {"distinct": "c", "key": "a.b", "query": {}}),
    (
        "db.c.distinct('a', {b: 1}, {collation: {locale: 'de'}})",
        {"distinct": "c", "key": "a", "query": {"b": 1}, "collation": {"locale": "de"}},
    ),
]  # fmt: skip
WRITE_TABLE: list[tuple[str, dict[str, Any]]] = [
    ("db.c.insertOne({a: 1})", {"insert": "c", "documents": [{"_id": "ID", "a": 1}], "ordered": True}),
    (
        "db.c.insertOne({_id: 5}, {writeConcern: {w: 'majority'}, comment: 'x'})",
        {
            "insert": "c",
            "documents": [{"_id": "ID"}],
            "ordered": True,
            "writeConcern": {"w": "majority"},
            "comment": "x",
        },
    ),
    (
        "db.c.insertMany([{a: 1}, {a: 2}], {ordered: false})",
        {"insert": "c", "documents": [{"_id": "ID", "a": 1}, {"_id": "ID", "a": 2}], "ordered": False},
    ),
    ("db.c.insert([{a: 1}])", {"insert": "c", "documents": [{"_id": "ID", "a": 1}], "ordered": True}),
    ("db.c.insert({a: 1})", {"insert": "c", "documents": [{"_id": "ID", "a": 1}], "ordered": True}),
    (
        "db.c.updateOne({a: 1}, {$set: {b: 2}})",
        {"update": "c", "updates": [{"q": {"a": 1}, "u": {"$set": {"b": 2}}}], "ordered": True},
    ),
    (
        "db.c.updateOne({}, {$set: {'a.$[x]': 1}}, {upsert: true, arrayFilters: [{x: 2}], hint: 'i', comment: 'c'})",
        {
            "update": "c",
            "updates": [
                {"q": {}, "u": {"$set": {"a.$[x]": 1}}, "upsert": True, "arrayFilters": [{"x": 2}], "hint": "i"}
            ],
            "ordered": True,
            "comment": "c",
        },
    ),
    (
        "db.c.updateMany({a: 1}, [{$set: {b: '$a'}}], {let: {x: 1}})",
        {
            "update": "c",
            "updates": [{"q": {"a": 1}, "u": [{"$set": {"b": "$a"}}], "multi": True}],
            "ordered": True,
            "let": {"x": 1},
        },
    ),
    (
        "db.c.update({a: 1}, {$set: {b: 2}}, {multi: true})",
        {"update": "c", "updates": [{"q": {"a": 1}, "u": {"$set": {"b": 2}}, "multi": True}], "ordered": True},
    ),
    (
        "db.c.replaceOne({a: 1}, {b: 2}, {upsert: true})",
        {"update": "c", "updates": [{"q": {"a": 1}, "u": {"b": 2}, "upsert": True}], "ordered": True},
    ),
    ("db.c.deleteOne({a: 1})", {"delete": "c", "deletes": [{"q": {"a": 1}, "limit": 1}], "ordered": True}),
    (
        "db.c.deleteMany({}, {collation: {locale: 'de'}})",
        {"delete": "c", "deletes": [{"q": {}, "limit": 0, "collation": {"locale": "de"}}], "ordered": True},
    ),
    ("db.c.remove({a: 1})", {"delete": "c", "deletes": [{"q": {"a": 1}, "limit": 0}], "ordered": True}),
    ("db.c.remove({a: 1}, true)", {"delete": "c", "deletes": [{"q": {"a": 1}, "limit": 1}], "ordered": True}),
    (
        "db.c.remove({a: 1}, {justOne: true})",
        {"delete": "c", "deletes": [{"q": {"a": 1}, "limit": 1}], "ordered": True},
    ),
    (
        "db.c.findOneAndUpdate({a: 1}, {$inc: {b: 1}})",
        {
            "findAndModify": "c",
            "query": {"a": 1},
            "remove": False,
            "new": False,
            "upsert": False,
            "update": {"$inc": {"b": 1}},
        },
    ),
    (
        "db.c.findOneAndUpdate({}, {$inc: {b: 1}}, {returnDocument: 'after', projection: {b: 1}, sort: {c: 1}})",
        {
            "findAndModify": "c",
            "query": {},
            "remove": False,
            "new": True,
            "upsert": False,
            "update": {"$inc": {"b": 1}},
            "fields": {"b": 1},
            "sort": {"c": 1},
        },
    ),
    (
        "db.c.findOneAndReplace({a: 1}, {b: 1}, {upsert: true, returnNewDocument: true})",
        {
            "findAndModify": "c",
            "query": {"a": 1},
            "remove": False,
            "new": True,
            "upsert": True,
            "update": {"b": 1},
        },
    ),
    (
        "db.c.findOneAndDelete({a: 1}, {sort: {b: 1}})",
        {"findAndModify": "c", "query": {"a": 1}, "remove": True, "new": False, "upsert": False, "sort": {"b": 1}},
    ),
    (
        "db.c.findAndModify({query: {a: 1}, update: {$set: {b: 1}}, new: true, fields: {b: 1}})",
        {
            "findAndModify": "c",
            "query": {"a": 1},
            "remove": False,
            "new": True,
            "upsert": False,
            "update": {"$set": {"b": 1}},
            "fields": {"b": 1},
        },
    ),
]  # fmt: skip
DEFINITION_TABLE: list[tuple[str, dict[str, Any]]] = [
    ("db.c.createIndex({a: 1})", {"createIndexes": "c", "indexes": [{"name": "a_1", "key": {"a": 1}}]}),
    (
        "db.c.createIndex({a: 1, 'b.c': -1, d: 'text'}, {unique: true, name: 'x'})",
        {
            "createIndexes": "c",
            "indexes": [{"name": "x", "key": {"a": 1, "b.c": -1, "d": "text"}, "unique": True}],
        },
    ),
    (
        "db.c.createIndexes([{a: 1}, {b: '2dsphere'}], {sparse: true}, 'majority')",
        {
            "createIndexes": "c",
            "indexes": [
                {"name": "a_1", "key": {"a": 1}, "sparse": True},
                {"name": "b_2dsphere", "key": {"b": "2dsphere"}, "sparse": True},
            ],
            "commitQuorum": "majority",
        },
    ),
    ("db.c.dropIndex('a_1')", {"dropIndexes": "c", "index": "a_1"}),
    ("db.c.dropIndex({a: 1})", {"dropIndexes": "c", "index": {"a": 1}}),
    ("db.c.dropIndexes()", {"dropIndexes": "c", "index": "*"}),
    ("db.c.dropIndexes(['a_1', 'b_1'])", {"dropIndexes": "c", "index": ["a_1", "b_1"]}),
    ("db.c.hideIndex('a_1')", {"collMod": "c", "index": {"name": "a_1", "hidden": True}}),
    ("db.c.unhideIndex({a: 1})", {"collMod": "c", "index": {"keyPattern": {"a": 1}, "hidden": False}}),
    ("db.c.getIndexes()", {"listIndexes": "c", "cursor": {}}),
    ("db.c.getIndices()", {"listIndexes": "c", "cursor": {}}),
    ("db.c.drop()", {"drop": "c"}),
    ("db.c.drop({writeConcern: {w: 1}})", {"drop": "c", "writeConcern": {"w": 1}}),
    (
        "db.c.renameCollection('d')",
        {"renameCollection": "shop.c", "to": "shop.d", "dropTarget": False, "$db": "admin"},
    ),
    (
        "db.c.renameCollection('d', true)",
        {"renameCollection": "shop.c", "to": "shop.d", "dropTarget": True, "$db": "admin"},
    ),
    ("db.c.stats()", {"collStats": "c"}),
    ("db.c.stats({scale: 1024})", {"collStats": "c", "scale": 1024}),
    ("db.c.validate({full: true})", {"validate": "c", "full": True}),
    ("db.c.validate(true)", {"validate": "c", "full": True}),
    ("db.c.convertToCapped(1000)", {"convertToCapped": "c", "size": 1000}),
    ("db.createCollection('c')", {"create": "c"}),
    (
        "db.createCollection('c', {capped: true, size: 1000, validator: {a: {$type: 'int'}}})",
        {"create": "c", "capped": True, "size": 1000, "validator": {"a": {"$type": "int"}}},
    ),
    (
        "db.createView('v', 'c', [{$project: {a: 1}}], {collation: {locale: 'de'}})",
        {"create": "v", "viewOn": "c", "pipeline": [{"$project": {"a": 1}}], "collation": {"locale": "de"}},
    ),
    ("db.dropDatabase()", {"dropDatabase": 1}),
]  # fmt: skip
ADMIN_TABLE: list[tuple[str, dict[str, Any]]] = [
    ("show dbs", {"listDatabases": 1, "nameOnly": False, "$db": "admin"}),
    ("show databases", {"listDatabases": 1, "nameOnly": False, "$db": "admin"}),
    (
        "show collections",
        {"listCollections": 1, "filter": {}, "cursor": {}, "nameOnly": True, "authorizedCollections": True},
    ),
    (
        "show tables",
        {"listCollections": 1, "filter": {}, "cursor": {}, "nameOnly": True, "authorizedCollections": True},
    ),
    ("show users", {"usersInfo": 1}),
    ("show roles", {"rolesInfo": 1, "showPrivileges": False, "showBuiltinRoles": True}),
    (
        "db.getCollectionNames()",
        {"listCollections": 1, "filter": {}, "cursor": {}, "nameOnly": True, "authorizedCollections": True},
    ),
    ("db.getCollectionInfos()", {"listCollections": 1, "filter": {}, "cursor": {}}),
    (
        "db.getCollectionInfos({name: 'c'}, {nameOnly: true})",
        {"listCollections": 1, "filter": {"name": "c"}, "cursor": {}, "nameOnly": True},
    ),
    ("db", {"dbStats": 1}),
    ("db.getName()", {"dbStats": 1}),
    ("db.stats()", {"dbStats": 1}),
    ("db.stats(1024)", {"dbStats": 1, "scale": 1024}),
    ("db.stats({scale: 5, freeStorage: 1})", {"dbStats": 1, "scale": 5, "freeStorage": 1}),
    ("db.version()", {"buildInfo": 1, "$db": "admin"}),
    ("db.hello()", {"hello": 1}),
    ("db.hostInfo()", {"hostInfo": 1, "$db": "admin"}),
    ("db.serverStatus()", {"serverStatus": 1, "$db": "admin"}),
    ("db.serverStatus({metrics: 0})", {"serverStatus": 1, "metrics": 0, "$db": "admin"}),
    ("db.serverBuildInfo()", {"buildInfo": 1, "$db": "admin"}),
    ("db.serverCmdLineOpts()", {"getCmdLineOpts": 1, "$db": "admin"}),
    ("db.listCommands()", {"listCommands": 1}),
    (
        "db.currentOp()",
        {
            "aggregate": 1,
            "pipeline": [{"$currentOp": {"allUsers": True, "idleConnections": False, "truncateOps": False}}],
            "cursor": {},
            "$db": "admin",
        },
    ),
    (
        "db.currentOp({$ownOps: true, op: 'query'})",
        {
            "aggregate": 1,
            "pipeline": [
                {"$currentOp": {"allUsers": False, "idleConnections": False, "truncateOps": False}},
                {"$match": {"op": "query"}},
            ],
            "cursor": {},
            "$db": "admin",
        },
    ),
    ("db.killOp(123)", {"killOp": 1, "op": 123, "$db": "admin"}),
    ("db.fsyncLock()", {"fsync": 1, "lock": True, "$db": "admin"}),
    ("db.getProfilingStatus()", {"profile": -1}),
    ("db.setProfilingLevel(1, {slowms: 5})", {"profile": 1, "slowms": 5}),
    ("db.setProfilingLevel(2, 50)", {"profile": 2, "slowms": 50}),
    (
        "db.createUser({user: 'ann', pwd: 'x', roles: ['read', {role: 'dbAdmin', db: 'y'}]})",
        {"createUser": "ann", "pwd": "x", "roles": ["read", {"role": "dbAdmin", "db": "y"}]},
    ),
    (
        "db.createUser({user: 'ann', pwd: 'x', roles: []}, {w: 1})",
        {"createUser": "ann", "pwd": "x", "roles": [], "writeConcern": {"w": 1}},
    ),
    ("db.updateUser('ann', {pwd: 'y'})", {"updateUser": "ann", "pwd": "y"}),
    ("db.changeUserPassword('ann', 'y')", {"updateUser": "ann", "pwd": "y"}),
    ("db.dropUser('ann')", {"dropUser": "ann"}),
    ("db.dropAllUsers()", {"dropAllUsersFromDatabase": 1}),
    ("db.grantRolesToUser('ann', ['read'])", {"grantRolesToUser": "ann", "roles": ["read"]}),
    ("db.revokeRolesFromUser('ann', ['read'])", {"revokeRolesFromUser": "ann", "roles": ["read"]}),
    ("db.getUsers()", {"usersInfo": 1}),
    ("db.getUser('ann')", {"usersInfo": {"user": "ann", "db": "shop"}}),
    (
        "db.createRole({role: 'r', privileges: [], roles: ['read']})",
        {"createRole": "r", "privileges": [], "roles": ["read"]},
    ),
    ("db.updateRole('r', {roles: []})", {"updateRole": "r", "roles": []}),
    ("db.dropRole('r')", {"dropRole": "r"}),
    ("db.getRoles()", {"rolesInfo": 1}),
    ("db.grantRolesToRole('r', ['read'])", {"grantRolesToRole": "r", "roles": ["read"]}),
    (
        "db.grantPrivilegesToRole('r', [{resource: {db: 'x', collection: ''}, actions: ['find']}])",
        {
            "grantPrivilegesToRole": "r",
            "privileges": [{"resource": {"db": "x", "collection": ""}, "actions": ["find"]}],
        },
    ),
    ("db.runCommand({ping: 1})", {"ping": 1}),
    ("db.runCommand('ping')", {"ping": 1}),
    ("db.adminCommand({listDatabases: 1})", {"listDatabases": 1, "$db": "admin"}),
    ("db.adminCommand('hostInfo')", {"hostInfo": 1, "$db": "admin"}),
    ("db.c.runCommand('compact', {force: true})", {"compact": "c", "force": True}),
    ('{"ping": 1}', {"ping": 1}),
    ('{"find": "c", "limit": 3, "$db": "other"}', {"find": "c", "limit": 3, "$db": "other"}),
    ("{ping: 1}", {"ping": 1}),
]  # fmt: skip
TABLE = [*READ_TABLE, *WRITE_TABLE, *DEFINITION_TABLE, *ADMIN_TABLE]


@pytest.mark.parametrize(("text", "expected"), TABLE, ids=[text for text, _ in TABLE])
def test_statement_is_sent_as_this_command(text: str, expected: dict[str, Any]) -> None:
    expected = {**expected, "$db": expected.get("$db", "shop")}
    (sent,) = commands(text)
    assert sent == expected
    assert list(sent) == list(expected)  # the command's name is the first field
    bson.encode(sent)


@pytest.mark.parametrize(
    ("text", "collection", "database"),
    [
        ("db.c.find()", "c", "shop"),
        ("db.a.b.c.find()", "a.b.c", "shop"),
        ("db['a-b'].find()", "a-b", "shop"),
        ('db["a b"]["c"].find()', "a b.c", "shop"),
        ("db.getCollection('a-b').find()", "a-b", "shop"),
        ("db.getCollection('a').b.find()", "a.b", "shop"),
        ("db.getSiblingDB('x').c.find()", "c", "x"),
        ("db.getSiblingDB('x').getSiblingDB('y')['c'].find()", "c", "y"),
        ("db.find.find()", "find", "shop"),
        ("db.$x._y.find()", "$x._y", "shop"),
        ("db.größe.find()", "größe", "shop"),
        ("use x\ndb.c.find()", "c", "x"),
        ("use x; use y; db.c.find()", "c", "y"),
        ("use 'x'\ndb.c.find()", "c", "x"),
        ("use shöp-2 // the second\ndb.c.find()", "c", "shöp-2"),
        ("db . c /* x */ . find ( )", "c", "shop"),
        ("db\n  .c\n  // of all\n  .find()", "c", "shop"),
    ],
)
def test_collection_and_database_are_named_in_these_ways(text: str, collection: str, database: str) -> None:
    (sent,) = commands(text)
    assert (sent["find"], sent["$db"]) == (collection, database)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("db.a.drop();db.b.drop()", 2),
        ("db.a.drop()\ndb.b.drop()\n", 2),
        (";;db.a.drop();;\n;db.b.drop();", 2),
        ("db.a.drop() // one\n/* two */ db.b.drop()", 2),
        ("db.a.drop() /* one\n two */ db.b.drop()", 2),
        ("db.a.drop()\u2028db.b.drop()", 2),
        ('{"ping": 1}\n{"ping": 1}', 2),
        ("{ping: 1};{ping: 1}", 2),
        ("show dbs\nshow collections\nuse x\nshow users", 3),
        ("", 0),
        ("use x", 0),
        ("// nothing", 0),
        ("/* nothing */", 0),
    ],
)
def test_statements_end_at_semicolons_and_line_ends(text: str, count: int) -> None:
    assert len(commands(text)) == count


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("var x = 1", 0, "no variables"),
        ("const x = db.c.find()", 0, "no variables"),
        ("for (;;) {}", 0, "no variables"),
        ("if (1) {}", 0, "no variables"),
        ("function f() {}", 0, "no variables"),
        ("x = 1", 0, "'x' is not supported"),
        ("print('x')", 0, "'print' is not supported"),
        ("load('x.js')", 0, "'load' is not supported"),
        ("rs.status()", 0, "'rs' is not supported"),
        ("DB.c.find()", 0, "'DB' is not supported"),
        ("1", 0, "a statement is expected"),
        ("'x'", 0, "a statement is expected"),
        ("[1]", 0, "a statement is expected"),
        ("db.c", 4, "a method is expected"),
        ("db.c.", 5, "a name is expected"),
        ("db.c.find", 9, "a method is expected"),
        ("db.c.find(", 10, "a value is expected"),
        ("db.c.find({}", 12, "'\\)' is expected"),
        ("db.c.find({}).sort", 14, "cannot be read"),
        ("db.c.find().forEach(x)", 20, "'x' is not a literal"),
        ("db.c.find().forEach(1)", 12, "not supported"),
        ("db.c.find().next()", 12, "not supported"),
        ("db.c.find()[0]", 12, "name of a collection in quotes"),
        ("db.c.find().length", 12, "cannot be read"),
        ("db.c.insertOne({}).insertedId", 19, "cannot be read"),
        ("db.c.drop().x()", 12, "nothing can be called"),
        ("db.c?.find()", 4, "not supported"),
        ("db.c.find({}, {}, {}, {})", 5, "at most 3 arguments"),
        ("db.c.find(5)", 5, "must be a document"),
        ("db.c.find([])", 5, "must be a document"),
        ("db.c.find({}).limit('x')", 14, "whole number"),
        ("db.c.find({}).limit(1.5)", 14, "whole number"),
        ("db.c.find({}, {}, {tailable: true})", 5, "'tailable' is not supported"),
        ("db.c.find().readPref('x')", 12, "the mode is one of"),
        ("db.c.watch()", 5, "not supported"),
        ("db.c.aggregate([{$changeStream: {}}])", 5, "have none"),
        ("db.runCommand({find: 'c', tailable: true})", 3, "have none"),
        ("db.runCommand({})", 3, "begins with its name"),
        ("db.runCommand({$db: 'x'})", 3, "no \\$db"),
        ("db.runCommand(5)", 3, "must be a document"),
        ("{}", 0, "begins with its name"),
        ('{"ping": 1, "$db": 5}', 0, "name of a database"),
        ('{"ping": 1, "$db": "a.b"}', 0, "not a database's name"),
        ("db.c.updateOne({}, {a: 1})", 5, "consists of operators"),
        ("db.c.updateOne({}, {})", 5, "consists of operators"),
        ("db.c.updateOne({}, {$set: {}, a: 1})", 5, "consists of operators"),
        ("db.c.updateOne({})", 5, "the update is missing"),
        ("db.c.replaceOne({}, {$set: {}})", 5, "no operators"),
        ("db.c.replaceOne({}, [])", 5, "not a pipeline"),
        ("db.c.update({}, {a: 1})", 5, "use replaceOne"),
        ("db.c.findAndModify({query: {}})", 5, "needs an update"),
        ("db.c.aggregate([]).comment('x')", 19, "not supported"),
        ("db.c.deleteMany()", 5, "the filter is missing"),
        ("db.c.remove()", 5, "the filter is missing"),
        ("db.c.insertMany([])", 5, "array of documents"),
        ("db.c.insertOne({}, {upsert: true})", 5, "'upsert' is not supported"),
        ("db.c.updateOne({}, {$set: {}}, {upsert: 1})", 5, "true or false"),
        ("db.c.findOneAndUpdate({}, {$set: {}}, {returnDocument: 'now'})", 5, "before"),
        ("db.c.dropIndex('*')", 5, "dropIndexes"),
        ("db.c.createIndexes([{a: 1}, {b: 1}], {name: 'x'})", 5, "one name"),
        ("db.c.bulkWrite([{x: {}}])", 5, "not an operation"),
        ("db.c.bulkWrite([{deleteOne: {}}])", 5, "the filter must be"),
        ("db.c.bulkWrite([{insertOne: {a: 1}}])", 5, "has a document"),
        ("db.c.explain('x').find()", 5, "the verbosity is one of"),
        ("db.c.explain()", 14, "a call to explain"),
        ("db.c.explain().drop()", 15, "cannot be explained"),
        ("db.c.fnd({})", 5, "did you mean find"),
        ("db.createUsr({})", 3, "did you mean createUser"),
        ("db.createUser({pwd: 'x'})", 3, "'user' must be a text"),
        ("db.getCollection()", 3, "the name is missing"),
        ("db.getSiblingDB('a b')", 3, "not a database's name"),
        ("db['.a'].drop()", 3, "not a collection's name"),
        ("db[5].drop()", 3, "in quotes"),
        ("use", 3, "on the same line"),
        ("use\nx", 3, "on the same line"),
        ("use a.b", 4, "not a database's name"),
        ("use a b", 6, "a semicolon or a line end"),
        ("show", 4, "on the same line"),
        ("show x", 5, "cannot be shown"),
        ("db.a.drop() db.b.drop()", 12, "a semicolon or a line end"),
        ("{ping: 1} {ping: 1}", 10, "a semicolon or a line end"),
        ("db.c.find({a: :x})", 14, "no value"),
    ],
)  # fmt: skip
def test_statement_that_is_not_supported_is_an_error_with_its_place(text: str, at: int, message: str) -> None:
    with pytest.raises(ShellError, match=message) as error:
        commands(text)
    assert error.value.offset == at


def test_ordered_bulk_write_is_sent_in_runs_of_the_same_kind() -> None:
    sent = commands(
        """db.c.bulkWrite([
          {insertOne: {document: {_id: 1}}}, {insertOne: {document: {a: 2}}},
          {updateOne: {filter: {a: 1}, update: {$set: {b: 1}}, upsert: true}},
          {updateMany: {filter: {}, update: [{$unset: 'x'}], arrayFilters: []}},
          {replaceOne: {filter: {a: 2}, replacement: {b: 2}}},
          {deleteOne: {filter: {a: 1}}}, {deleteMany: {filter: {}, collation: {locale: 'de'}}},
          {insertOne: {document: {_id: 3}}},
        ], {writeConcern: {w: 1}})"""
    )
    end = {"ordered": True, "writeConcern": {"w": 1}, "$db": "shop"}
    assert sent == [
        {"insert": "c", "documents": [{"_id": "ID"}, {"_id": "ID", "a": 2}], **end},
        {
            "update": "c",
            "updates": [
                {"q": {"a": 1}, "u": {"$set": {"b": 1}}, "upsert": True},
                {"q": {}, "u": [{"$unset": "x"}], "multi": True, "arrayFilters": []},
                {"q": {"a": 2}, "u": {"b": 2}},
            ],
            **end,
        },
        {
            "delete": "c",
            "deletes": [{"q": {"a": 1}, "limit": 1}, {"q": {}, "limit": 0, "collation": {"locale": "de"}}],
            **end,
        },
        {"insert": "c", "documents": [{"_id": "ID"}], **end},
    ]


def test_bulk_write_without_order_is_sent_as_one_command_of_each_kind() -> None:
    text = """db.c.bulkWrite([{deleteOne: {filter: {}}}, {insertOne: {document: {}}}, {deleteOne: {filter: {a: 1}}}],
        {ordered: false})"""
    (statement,) = ShellScript(text, "shop").read()
    assert statement.continues
    assert [next(iter(command.document)) for command in statement.commands] == ["insert", "delete"]
    assert all(command.document["ordered"] is False for command in statement.commands)


def test_inserted_document_gets_an_id_unless_it_has_one() -> None:
    ((first, second),) = [
        command.document["documents"]
        for statement in ShellScript("db.c.insertMany([{a: 1}, {a: 2, _id: null}])", "shop").read()
        for command in statement.commands
    ]
    assert isinstance(first["_id"], ObjectId)
    assert second == {"a": 2, "_id": None}


def test_placeholders_take_the_types_of_their_values() -> None:
    text = "db.c.find({a: :a, b: {$in: [:b, :c]}, d: ObjectId(:d), e: :e}).limit(:f)"
    values = {"a": "it's", "b": 5, "c": 2.5, "d": "0" * 24, "e": None, "f": 3}
    places = {text.index(f":{name}"): (text.index(f":{name}") + 2, value) for name, value in values.items()}
    (statement,) = ShellScript(text, "shop", places).read()
    assert statement.commands[0].document == {
        "find": "c",
        "filter": {"a": "it's", "b": {"$in": [5, 2.5]}, "d": ObjectId("0" * 24), "e": None},
        "limit": 3,
    }


@given(st.text(max_size=40), st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.none() | st.text(max_size=40))
def test_attack_value_of_a_placeholder_is_never_read_as_text_of_the_script(prefix: str, value: Any) -> None:
    text = "db.c.find({a: :a}); db.c.drop()"
    statements = ShellScript(text, "shop", {14: (16, value)}).read()
    assert [next(iter(command.document)) for each in statements for command in each.commands] == ["find", "drop"]
    found = statements[0].commands[0].document["filter"]["a"]
    assert found is value or found == value


@pytest.mark.parametrize("value", ["{$oid: 'x'}", '"}, {x: "', "$where", "'); db.c.drop(); ('", "\n;"])
def test_attack_value_of_a_placeholder_in_extended_json_stays_a_text(value: str) -> None:
    text = '{"find": "c", "filter": {"a": :a}}'
    (statement,) = ShellScript(text, "shop", {30: (32, value)}).read()
    assert statement.commands[0].document["filter"] == {"a": value}


def test_attack_key_of_a_document_cannot_be_a_placeholder() -> None:
    with pytest.raises(ShellError, match="the name of a field"):
        ShellScript("db.c.find({:a: 1})", "shop", {11: (13, "$where")}).read()


@settings(deadline=None)
@given(st.lists(st.sampled_from(["db", ".c", "['x']", ".find", "(", ")", "{", "}", "a", ":", "1", ",", ";", "\n", "use",
                                 " ", "x", "'", "`", "/", "//", "/*", "*/", "[", "]", "\\", "$", "$oid", "show", "-"]),
                max_size=30).map("".join) | st.text(max_size=40))  # fmt: skip
def test_any_text_is_a_script_or_an_error_within_it(text: str) -> None:
    script, offset = ShellScript(text, "shop"), 0
    try:
        script.read()
    except ShellError as error:
        offset = error.offset
    assert 0 <= offset <= len(text)
    for statement in script.statements:
        assert 0 <= statement.start < statement.end <= len(text)


def test_error_about_a_long_name_is_short() -> None:
    for text in ("x" * 100_000, f"db.{'x' * 100_000}()", f"db.c.find({'x' * 100_000})"):
        with pytest.raises(ShellError) as error:
            commands(text)
        assert len(error.value.message) <= 1001


def test_getmore_of_a_bare_command_keeps_its_64_bits() -> None:
    (sent,) = commands('{"getMore": {"$numberLong": "5"}, "collection": "c"}')
    assert isinstance(sent["getMore"], Int64)
