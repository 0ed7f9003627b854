"""Commands as applications, drivers and tools send them to MongoDB."""

from __future__ import annotations

from tests.bypass.cases import Ordinary
from tests.bypass.lines import ordinary

_LISTED: dict[tuple[str, str], str] = {
    ("PyMongo", "r"): """
{"find": "users", "filter": {"_id": {"$oid": "65a1f0c2e4b0a1b2c3d4e5f6"}}, "limit": 1, "singleBatch": true, "lsid": 1}
{"find": "users", "filter": {"email": "ann@example.com"}, "limit": 1, "singleBatch": true}
{"find": "users", "filter": {}, "skip": 20, "limit": 10, "sort": {"created_at": -1}}
{"find": "users", "filter": {"age": {"$gte": 18, "$lt": 65}}, "projection": {"name": 1, "email": 1, "_id": 0}}
{"find": "users", "filter": {"name": {"$regularExpression": {"pattern": "^ann", "options": "i"}}}}
{"find": "users", "filter": {"name": {"$regex": "^ann", "$options": "i"}}}
{"find": "users", "filter": {"$or": [{"status": "new"}, {"status": {"$exists": false}}]}}
{"find": "users", "filter": {"tags": {"$all": ["a", "b"]}, "roles": {"$size": 2}}}
{"find": "users", "filter": {"addresses": {"$elemMatch": {"city": "Bonn", "zip": {"$gt": 53000}}}}}
{"find": "users", "filter": {"deleted_at": null}, "batchSize": 100}
{"find": "users", "filter": {"created_at": {"$gte": {"$date": "2026-01-01T00:00:00Z"}}}, "hint": {"created_at": 1}}
{"find": "users", "filter": {"location": {"$near": {"$geometry": {"type": "Point", "coordinates": [7, 50]}, "$maxDistance": 500}}}}
{"find": "users", "filter": {"location": {"$geoWithin": {"$centerSphere": [[7, 50], 0.1]}}}}
{"find": "users", "filter": {"$text": {"$search": "coffee"}}, "projection": {"score": {"$meta": "textScore"}}, "sort": {"score": {"$meta": "textScore"}}}
{"find": "users", "filter": {"flags": {"$bitsAllSet": 5}}}
{"find": "users", "filter": {"age": {"$mod": [2, 0]}, "kind": {"$type": "string"}}}
{"find": "users", "filter": {"$expr": {"$gt": ["$spent", "$budget"]}}}
{"find": "users", "filter": {"age": {"$not": {"$gt": 5}}}, "collation": {"locale": "de", "strength": 2}}
{"find": "posts", "filter": {"_id": {"$in": [1, 2, 3]}}, "projection": {"comments": {"$slice": [0, 5]}}}
{"find": "posts", "filter": {"comments.author": "ann"}, "projection": {"comments.$": 1}}
{"find": "posts", "filter": {}, "projection": {"body": 0, "comments": 0}}
{"find": "posts", "filter": {}, "projection": {"title": {"$toUpper": "$title"}, "n": {"$size": "$comments"}}}
{"count": "users", "query": {"active": true}}
{"aggregate": "users", "pipeline": [{"$match": {"active": true}}, {"$group": {"_id": 1, "n": {"$sum": 1}}}], "cursor": {}}
{"distinct": "users", "key": "country", "query": {"active": true}}
{"listCollections": 1, "cursor": {}, "nameOnly": true, "filter": {"$or": [{"name": {"$not": {"$regex": "^system"}}}]}}
{"listIndexes": "users", "cursor": {}}
{"listDatabases": 1, "nameOnly": true, "$db": "admin"}
{"getMore": {"$numberLong": "7"}, "collection": "users", "batchSize": 100, "originatingCommand": {"find": "users", "filter": {}}}
{"aggregate": "users", "pipeline": [{"$changeStream": {"fullDocument": "updateLookup"}}], "cursor": {}}
{"aggregate": 1, "pipeline": [{"$changeStream": {}}, {"$match": {"operationType": "insert"}}], "cursor": {}}
""",
    ("PyMongo", "w"): """
{"insert": "users", "ordered": true, "documents": [{"_id": {"$oid": "65a1f0c2e4b0a1b2c3d4e5f6"}, "name": "Ann"}]}
{"insert": "users", "ordered": false, "documents": [{"name": "Ann"}, {"name": "Ben", "tags": ["x", {"y": 1}]}]}
{"insert": "users", "documents": [{"author": {"$ref": "people", "$id": 4}}], "writeConcern": {"w": 0}}
{"update": "users", "ordered": true, "updates": [{"q": {"_id": 1}, "u": {"$set": {"name": "Ann"}}, "multi": false, "upsert": false}]}
{"update": "users", "updates": [{"q": {"_id": 1}, "u": {"name": "Ann"}, "upsert": true}]}
{"update": "users", "updates": [{"q": {"status": "old"}, "u": {"$unset": {"x": ""}, "$inc": {"n": 1}}, "multi": true}]}
{"update": "users", "updates": [{"q": {"_id": 1}, "u": {"$push": {"log": {"$each": [1, 2], "$slice": -10, "$sort": 1}}}}]}
{"update": "users", "updates": [{"q": {"_id": 1}, "u": {"$pull": {"log": {"$gt": 5}}, "$addToSet": {"tags": "x"}}}]}
{"update": "users", "updates": [{"q": {"_id": 1}, "u": {"$pull": {"items": {"sku": "a", "qty": {"$lt": 2}}}}}]}
{"update": "users", "updates": [{"q": {"_id": 1}, "u": {"$set": {"grades.$[g].mean": 1}}, "arrayFilters": [{"g.grade": {"$gte": 85}}]}]}
{"update": "users", "updates": [{"q": {"_id": 1}, "u": [{"$set": {"total": {"$sum": "$items.price"}}}, {"$unset": ["tmp"]}]}]}
{"update": "users", "updates": [{"q": {"_id": 1}, "u": {"$rename": {"a": "b"}, "$min": {"low": 1}, "$max": {"high": 9}, "$mul": {"x": 2}}}]}
{"update": "users", "updates": [{"q": {"_id": 1}, "u": {"$currentDate": {"seen": true}, "$setOnInsert": {"made": 1}, "$bit": {"f": {"or": 1}}, "$pop": {"l": 1}}}]}
{"delete": "users", "ordered": true, "deletes": [{"q": {"_id": 1}, "limit": 1}]}
{"delete": "sessions", "deletes": [{"q": {"expires": {"$lt": {"$date": "2026-01-01T00:00:00Z"}}}, "limit": 0}]}
{"bulkWrite": 1, "ops": [{"insert": 0, "document": {"a": 1}}, {"update": 1, "filter": {"_id": 1}, "updateMods": {"$set": {"a": 1}}}], "nsInfo": [{"ns": "scratch.users"}, {"ns": "scratch.posts"}], "$db": "admin"}
""",
    ("PyMongo", "rw"): """
{"findAndModify": "users", "query": {"_id": 1}, "update": {"$inc": {"n": 1}}, "new": true, "fields": {"n": 1}}
{"findAndModify": "jobs", "query": {"state": "ready"}, "sort": {"at": 1}, "update": {"$set": {"state": "taken"}}}
{"findAndModify": "jobs", "query": {"_id": 7}, "remove": true}
{"findAndModify": "jobs", "query": {"_id": 7}, "update": [{"$set": {"n": {"$add": ["$n", 1]}}}], "upsert": true}
""",
    ("PyMongo", "s"): """
{"ping": 1, "$db": "admin"}
{"hello": 1, "$db": "admin"}
{"isMaster": 1, "helloOk": true, "$db": "admin"}
{"ismaster": 1, "$db": "admin"}
{"endSessions": [{"id": {"$uuid": "65a1f0c2-e4b0-41b2-83d4-e5f600000000"}}], "$db": "admin"}
{"commitTransaction": 1, "txnNumber": {"$numberLong": "1"}, "autocommit": false, "$db": "admin"}
{"abortTransaction": 1, "txnNumber": {"$numberLong": "1"}, "autocommit": false, "$db": "admin"}
{"killCursors": "users", "cursors": [{"$numberLong": "7"}]}
{"buildInfo": 1, "$db": "admin"}
{"buildinfo": 1, "$db": "admin"}
{"connectionStatus": 1, "$db": "admin"}
{"getLastError": 1}
{"whatsmyuri": 1, "$db": "admin"}
""",
    ("reports", "r"): """
{"aggregate": "orders", "pipeline": [{"$match": {"status": "paid"}}, {"$group": {"_id": "$customer_id", "total": {"$sum": "$amount"}, "n": {"$sum": 1}}}, {"$sort": {"total": -1}}, {"$limit": 10}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$group": {"_id": {"y": {"$year": "$at"}, "m": {"$month": "$at"}}, "avg": {"$avg": "$amount"}, "max": {"$max": "$amount"}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$unwind": "$items"}, {"$group": {"_id": "$items.sku", "qty": {"$sum": "$items.qty"}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$unwind": {"path": "$items", "preserveNullAndEmptyArrays": true, "includeArrayIndex": "i"}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$lookup": {"from": "customers", "localField": "customer_id", "foreignField": "_id", "as": "customer"}}, {"$set": {"customer": {"$first": "$customer"}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$lookup": {"from": "items", "let": {"o": "$_id"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$order", "$$o"]}}}, {"$project": {"sku": 1}}], "as": "items"}}], "cursor": {}}
{"aggregate": "staff", "pipeline": [{"$graphLookup": {"from": "staff", "startWith": "$boss", "connectFromField": "boss", "connectToField": "name", "as": "chain", "maxDepth": 5, "depthField": "d"}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$facet": {"page": [{"$skip": 0}, {"$limit": 20}], "total": [{"$count": "n"}]}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$bucket": {"groupBy": "$amount", "boundaries": [0, 10, 100], "default": "more", "output": {"n": {"$sum": 1}, "ids": {"$push": "$_id"}}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$bucketAuto": {"groupBy": "$amount", "buckets": 5}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$sortByCount": "$status"}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$project": {"day": {"$dateToString": {"format": "%Y-%m-%d", "date": "$at"}}, "net": {"$round": [{"$divide": ["$amount", 1.19]}, 2]}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$addFields": {"size": {"$switch": {"branches": [{"case": {"$lt": ["$amount", 10]}, "then": "small"}], "default": "large"}}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$addFields": {"late": {"$cond": {"if": {"$gt": ["$days", 3]}, "then": true, "else": false}}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$project": {"names": {"$map": {"input": "$items", "as": "i", "in": {"$concat": ["$$i.name", " x", {"$toString": "$$i.qty"}]}}}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$project": {"big": {"$filter": {"input": "$items", "as": "i", "cond": {"$gt": ["$$i.price", 100]}}}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$project": {"sum": {"$reduce": {"input": "$items", "initialValue": 0, "in": {"$add": ["$$value", "$$this.price"]}}}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$setWindowFields": {"partitionBy": "$customer_id", "sortBy": {"at": 1}, "output": {"running": {"$sum": "$amount", "window": {"documents": ["unbounded", "current"]}}, "rank": {"$rank": {}}}}}], "cursor": {}}
{"aggregate": "prices", "pipeline": [{"$densify": {"field": "at", "range": {"step": 1, "unit": "day", "bounds": "full"}}}, {"$fill": {"sortBy": {"at": 1}, "output": {"price": {"method": "linear"}, "n": {"value": 0}}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$unionWith": "archived_orders"}, {"$unionWith": {"coll": "old", "pipeline": [{"$match": {"a": 1}}]}}, {"$count": "n"}], "cursor": {}}
{"aggregate": "shops", "pipeline": [{"$geoNear": {"near": {"type": "Point", "coordinates": [7, 50]}, "distanceField": "d", "query": {"open": true}, "spherical": true}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$sample": {"size": 5}}, {"$unset": ["a", "b.c"]}, {"$replaceRoot": {"newRoot": {"$mergeObjects": ["$meta", "$$ROOT"]}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$replaceWith": "$customer"}, {"$redact": {"$cond": [{"$eq": ["$level", 5]}, "$$PRUNE", "$$DESCEND"]}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$project": {"kv": {"$objectToArray": "$attributes"}, "o": {"$arrayToObject": "$pairs"}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$project": {"x": {"$ifNull": ["$a", "$b", 0]}, "y": {"$arrayElemAt": ["$list", -1]}, "z": {"$slice": ["$list", 3]}, "w": {"$in": ["a", "$tags"]}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$project": {"x": {"$dateDiff": {"startDate": "$a", "endDate": "$b", "unit": "day"}}, "y": {"$dateTrunc": {"date": "$a", "unit": "week"}}, "z": {"$dateAdd": {"startDate": "$a", "unit": "day", "amount": 1}}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$project": {"x": {"$convert": {"input": "$a", "to": "int", "onError": 0, "onNull": 0}}, "y": {"$toObjectId": "$b"}, "z": {"$type": "$c"}, "i": {"$isNumber": "$d"}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$project": {"x": {"$regexMatch": {"input": "$a", "regex": "^x"}}, "y": {"$split": ["$b", "@"]}, "z": {"$trim": {"input": "$c"}}, "r": {"$replaceAll": {"input": "$d", "find": "a", "replacement": "b"}}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$project": {"x": {"$setUnion": ["$a", "$b"]}, "y": {"$setDifference": ["$a", "$b"]}, "z": {"$setIsSubset": ["$a", "$b"]}, "s": {"$sortArray": {"input": "$a", "sortBy": 1}}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$group": {"_id": "$a", "first": {"$first": "$b"}, "last": {"$last": "$b"}, "all": {"$addToSet": "$c"}, "top": {"$top": {"sortBy": {"d": 1}, "output": "$e"}}, "p": {"$percentile": {"input": "$f", "p": [0.9], "method": "approximate"}}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$group": {"_id": null, "m": {"$median": {"input": "$f", "method": "approximate"}}, "n": {"$maxN": {"input": "$g", "n": 3}}, "s": {"$stdDevPop": "$h"}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$set": {"t": {"$let": {"vars": {"net": {"$multiply": ["$p", "$q"]}}, "in": {"$add": ["$$net", "$tax"]}}}}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$set": {"x": {"$getField": "a.b"}, "y": {"$setField": {"field": "c", "input": "$$ROOT", "value": 1}}}}], "cursor": {}}
{"aggregate": "articles", "pipeline": [{"$search": {"index": "default", "text": {"query": "x", "path": "title"}}}, {"$project": {"score": {"$meta": "searchScore"}}}], "cursor": {}}
{"aggregate": "articles", "pipeline": [{"$vectorSearch": {"index": "v", "path": "e", "queryVector": [0.1, 0.2], "numCandidates": 10, "limit": 5}}], "cursor": {}}
{"aggregate": "articles", "pipeline": [{"$searchMeta": {"facet": {"facets": {}}}}], "cursor": {}}
""",
    ("mongosh", "r"): """
{"listDatabases": 1, "nameOnly": false, "$db": "admin"}
{"listCollections": 1, "filter": {}, "cursor": {}, "nameOnly": true, "authorizedCollections": true}
{"dbStats": 1, "scale": 1}
{"collStats": "users", "scale": 1024}
{"collstats": "users"}
{"dataSize": "scratch.users"}
{"explain": {"find": "users", "filter": {"a": 1}}, "verbosity": "queryPlanner"}
{"explain": {"aggregate": "users", "pipeline": [{"$match": {"a": 1}}], "cursor": {}}, "verbosity": "queryPlanner"}
{"explain": {"update": "users", "updates": [{"q": {"a": 1}, "u": {"$set": {"b": 1}}, "multi": true}]}, "verbosity": "queryPlanner"}
{"aggregate": "users", "pipeline": [{"$collStats": {"storageStats": {"scale": 1}}}], "cursor": {}}
{"aggregate": "users", "pipeline": [{"$indexStats": {}}], "cursor": {}}
{"aggregate": 1, "pipeline": [{"$listLocalSessions": {}}], "cursor": {}}
{"aggregate": "users", "pipeline": [{"$match": {"a": 1}}, {"$group": {"_id": null, "count": {"$sum": 1}}}], "cursor": {}}
{"find": "users", "filter": {"x": {"$uuid": "65a1f0c2-e4b0-41b2-83d4-e5f600000000"}}}
{"find": "users", "filter": {"x": {"$numberDecimal": "1.5"}, "y": {"$timestamp": {"t": 1, "i": 1}}}}
{"validate": "users", "full": false}
{"listCommands": 1}
{"dbHash": 1, "collections": ["users"]}
{"listIndexes": "fs.files", "cursor": {"batchSize": 1000}}
{"planCacheListFilters": "users"}
""",
    ("GridFS", "r"): """
{"find": "fs.files", "filter": {"filename": "a.pdf"}, "sort": {"uploadDate": -1}, "limit": 1}
{"find": "fs.chunks", "filter": {"files_id": {"$oid": "65a1f0c2e4b0a1b2c3d4e5f6"}, "n": {"$gte": 0}}, "sort": {"files_id": 1, "n": 1}}
""",
    ("GridFS", "w"): """
{"insert": "fs.chunks", "documents": [{"files_id": 1, "n": 0, "data": {"$binary": {"base64": "AAAA", "subType": "00"}}}]}
{"insert": "fs.files", "documents": [{"filename": "a.pdf", "length": {"$numberLong": "3"}, "chunkSize": 261120}]}
{"delete": "fs.files", "deletes": [{"q": {"_id": 1}, "limit": 1}]}
{"delete": "fs.chunks", "deletes": [{"q": {"files_id": 1}, "limit": 0}]}
""",
    ("migrations", "d"): """
{"create": "users"}
{"create": "logs", "capped": true, "size": 1000000}
{"create": "weather", "timeseries": {"timeField": "at", "metaField": "sensor", "granularity": "hours"}}
{"create": "adults", "viewOn": "users", "pipeline": [{"$match": {"age": {"$gte": 18}}}]}
{"create": "strict", "validator": {"$jsonSchema": {"required": ["name"], "properties": {"name": {"bsonType": "string"}}}}}
{"createIndexes": "users", "indexes": [{"key": {"email": 1}, "name": "email_1", "unique": true}]}
{"createIndexes": "users", "indexes": [{"key": {"at": 1}, "name": "ttl", "expireAfterSeconds": 60, "partialFilterExpression": {"a": {"$exists": true}}}]}
{"dropIndexes": "users", "index": "email_1"}
{"collMod": "users", "index": {"keyPattern": {"at": 1}, "expireAfterSeconds": 30}}
{"collMod": "users", "validator": {"a": {"$type": "int"}}}
{"drop": "users"}
{"dropDatabase": 1}
{"renameCollection": "scratch.users", "to": "scratch.people", "$db": "admin"}
""",
    ("ETL", "drw"): """
{"aggregate": "orders", "pipeline": [{"$group": {"_id": "$day", "n": {"$sum": 1}}}, {"$out": "daily"}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$match": {"a": 1}}, {"$out": {"db": "reports", "coll": "daily"}}], "cursor": {}}
""",
    ("ETL", "rw"): """
{"aggregate": "orders", "pipeline": [{"$merge": {"into": "daily", "on": "_id", "whenMatched": "merge", "whenNotMatched": "insert"}}], "cursor": {}}
{"aggregate": "orders", "pipeline": [{"$merge": {"into": {"db": "reports", "coll": "daily"}, "whenMatched": [{"$set": {"n": {"$add": ["$n", "$$new.n"]}}}]}}], "cursor": {}}
""",
    ("administrators", "g"): """
{"createUser": "app", "pwd": "x", "roles": [{"role": "readWrite", "db": "scratch"}]}
{"grantRolesToUser": "app", "roles": ["read"]}
{"dropUser": "app"}
{"createRole": "reader", "privileges": [{"resource": {"db": "scratch", "collection": "users"}, "actions": ["find"]}], "roles": []}
""",
    ("administrators", "ra"): """
{"serverStatus": 1, "$db": "admin"}
{"currentOp": 1, "$all": true, "$db": "admin"}
{"replSetGetStatus": 1, "$db": "admin"}
{"getParameter": "*", "$db": "admin"}
{"usersInfo": 1}
{"rolesInfo": 1, "showPrivileges": true}
{"top": 1, "$db": "admin"}
{"hostInfo": 1, "$db": "admin"}
{"aggregate": 1, "pipeline": [{"$currentOp": {"allUsers": true}}, {"$match": {"active": true}}], "cursor": {}, "$db": "admin"}
""",
    ("administrators", "a"): """
{"killOp": 1, "op": 5, "$db": "admin"}
{"setParameter": 1, "logLevel": 1, "$db": "admin"}
{"profile": 1, "slowms": 50}
{"compact": "users"}
""",
}


def _in_scratch(lines: str) -> str:
    return "\n".join(
        line if '"$db"' in line else f'{line[:-1]}, "$db": "scratch"}}' for line in lines.strip().splitlines()
    )


ORDINARY: tuple[Ordinary, ...] = tuple(ordinary({key: _in_scratch(lines) for key, lines in _LISTED.items()}))
