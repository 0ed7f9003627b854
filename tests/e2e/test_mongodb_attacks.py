"""Attacks on masking and guardrails for MongoDB, with a real client and a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo.errors import PyMongoError
from tests.support.gateway import Gateway
from tests.support.mongodb import MongoServer
from tests.support.mongodb_clients import DATABASE, MongoClient, connect, mongodb_connection

from postern.domain.identity.credential import Issued
from postern.domain.rules.masking import Strictness
from postern.interception.events import ClientOutput

SURNAME = "Lovelace"
STOLEN = {"lovelace", "ovelac", "ecalevol", "72657"}


@pytest.fixture(scope="module")
def heirs(mongo: MongoServer) -> None:
    with mongo.client() as direct:
        shop = direct[DATABASE]
        for name in ("heirs", "copied", "renamed", "viewed", "others"):
            shop.drop_collection(name)
        shop.heirs.insert_many([{"_id": n, "surname": SURNAME, "pin": 72657, "note": f"note {n}"} for n in (1, 2)])
        shop.heirs.create_index([("surname", 1)], unique=False)
        shop.others.insert_one({"_id": 1, "x": "harmless"})


@pytest.fixture(scope="module")
def marked(gateway: Gateway, mongo: MongoServer, heirs: None) -> Issued:
    connection = mongodb_connection(gateway, "mongo-marked", mongo)
    gateway.masking_rule(
        {
            "name": "mongo-heirs",
            "columns": (f"{DATABASE}.heirs.surname", f"{DATABASE}.heirs.pin"),
            "strictness": Strictness.STRICT,
            "connection_ids": (str(connection.id),),
        }
    )
    return gateway.credential(connection.name)


@pytest.fixture
def client(gateway: Gateway, marked: Issued) -> Iterator[MongoClient]:
    with connect(gateway, marked) as connected:
        yield connected


def aggregate(collection: str | int, *stages: dict[str, Any]) -> dict[str, Any]:
    return {"aggregate": collection, "pipeline": list(stages), "cursor": {}}


FROM_NAME: dict[str, Any] = {"$set": {"note": "$surname"}}
STEPS: dict[str, list[dict[str, Any]]] = {
    "copied by $out": [aggregate("heirs", {"$project": {"a": "$surname"}}, {"$out": "copied"}), {"find": "copied"}],
    "copied by findAndModify": [
        {"findAndModify": "heirs", "query": {"_id": 1}, "update": [FROM_NAME], "new": True, "fields": {"note": 1}}
    ],
    "a renamed collection": [
        {"renameCollection": f"{DATABASE}.heirs", "to": f"{DATABASE}.renamed"},
        {"find": "renamed"},
    ],
    "a view": [
        {"create": "viewed", "viewOn": "heirs", "pipeline": [{"$project": {"a": "$surname"}}]},
        {"find": "viewed"},
    ],
    "an error of a conversion": [aggregate("heirs", {"$project": {"a": {"$toInt": "$surname"}}})],
    "an error of a unique index": [
        {"createIndexes": "heirs", "indexes": [{"key": {"surname": 1}, "name": "u", "unique": True}]}
    ],
    "names of fields": [aggregate("heirs", {"$replaceWith": {"$arrayToObject": [[{"k": "$surname", "v": 1}]]}})],
    "names by $setField": [
        aggregate("heirs", {"$replaceWith": {"$setField": {"field": "x", "input": {}, "value": "$surname"}}})
    ],
    "$getField": [aggregate("heirs", {"$project": {"a": {"$getField": {"$concat": ["sur", "name"]}}}})],
    "$getField of a literal": [aggregate("heirs", {"$project": {"a": {"$getField": "surname"}}})],
    "letters": [
        aggregate(
            "heirs",
            {
                "$project": {
                    "a": {"$map": {"input": {"$range": [0, 8]}, "in": {"$substrCP": ["$surname", "$$this", 1]}}}
                }
            },
        )
    ],
    "a reversed text": [
        aggregate(
            "heirs",
            {
                "$project": {
                    "a": {
                        "$reduce": {
                            "input": {"$range": [0, 8]},
                            "initialValue": "",
                            "in": {"$concat": [{"$substrCP": ["$surname", "$$this", 1]}, "$$value"]},
                        }
                    }
                }
            },
        )
    ],
    "a number as text": [aggregate("heirs", {"$project": {"a": {"$toString": "$pin"}}})],
    "a sum": [aggregate("heirs", {"$group": {"_id": 1, "a": {"$avg": "$pin"}}})],
    "buckets": [aggregate("heirs", {"$bucketAuto": {"groupBy": "$pin", "buckets": 1}})],
    "$lookup": [
        aggregate("others", {"$lookup": {"from": "heirs", "pipeline": [{"$project": {"a": "$surname"}}], "as": "b"}})
    ],
    "$graphLookup": [
        aggregate(
            "others",
            {
                "$graphLookup": {
                    "from": "heirs",
                    "startWith": 1,
                    "connectFromField": "_id",
                    "connectToField": "_id",
                    "as": "b",
                }
            },
        )
    ],
    "variables": [
        aggregate(
            "others",
            {
                "$lookup": {
                    "from": "heirs",
                    "let": {"v": 1},
                    "pipeline": [{"$replaceWith": {"a": {"$let": {"vars": {"q": "$surname"}, "in": "$$q"}}}}],
                    "as": "b",
                }
            },
        )
    ],
    "$unionWith": [
        aggregate("others", {"$unionWith": {"coll": "heirs", "pipeline": [{"$project": {"a": "$surname"}}]}})
    ],
    "the plan": [{"explain": {"find": "heirs", "filter": {"surname": {"$gt": "A"}}}, "verbosity": "executionStats"}],
    "an index bound": [{"find": "heirs", "projection": {"surname": 1}, "returnKey": True}],
    "min and max": [{"find": "heirs", "hint": "surname_1", "min": {"surname": "A"}, "returnKey": True}],
    "running commands": [{"currentOp": 1, "$all": True}],
    "the log": [{"getLog": "global"}],
    "distinct": [{"distinct": "heirs", "key": "surname"}],
    "a change stream": [aggregate("heirs", {"$changeStream": {}}, {"$project": {"a": "$fullDocument.surname"}})],
    "counted values": [aggregate("heirs", {"$sortByCount": {"$concat": ["$surname", "x"]}})],
    "facets": [aggregate("heirs", {"$facet": {"a": [{"$sortByCount": "$surname"}]}})],
    "merged objects": [
        aggregate("heirs", {"$replaceWith": {"$mergeObjects": ["$$ROOT", {"surname": {"$concat": ["$surname", ""]}}]}})
    ],
    "arrays": [
        aggregate(
            "heirs",
            {"$group": {"_id": 1, "a": {"$push": "$$ROOT"}}},
            {"$project": {"b": {"$arrayElemAt": ["$a.surname", 0]}}},
        )
    ],
    "windows": [
        aggregate(
            "heirs",
            {"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"a": {"$shift": {"output": "$surname", "by": 1}}}}},
        )
    ],
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS.keys())
def test_attack_shows_no_masked_value(
    gateway: Gateway, mongo: MongoServer, client: MongoClient, steps: list[dict[str, Any]]
) -> None:
    """A value that is stored under another name, by an update for instance, is as with SQL another value."""
    with mongo.client() as direct:
        shop = direct[DATABASE]
        for name in ("copied", "renamed", "viewed"):
            shop.drop_collection(name)
        for number in (1, 2):
            document = {"_id": number, "surname": SURNAME, "pin": 72657, "note": f"note {number}"}
            shop.heirs.replace_one({"_id": number}, document, upsert=True)
        shop.others.replace_one({"_id": 1}, {"x": "harmless"}, upsert=True)
        shop.others.delete_many({"_id": {"$ne": 1}})
    said = []
    for step in steps:
        try:
            database = client.admin if {"renameCollection", "currentOp", "getLog"} & step.keys() else client[DATABASE]
            said.append(str(database.command(step)))
        except PyMongoError as error:
            said.append(f"{error} {getattr(error, 'details', '')}")
    assert not any(word in " ".join(said).lower().replace("', '", "") for word in STOLEN), said
    assert client.admin.command("ping")["ok"] == 1
    client.close()
    session = gateway.newest_finished("mongo-marked")
    shown = b"".join(event.data for event in gateway.records(session.id) if isinstance(event, ClientOutput)).lower()
    assert not any(word.encode() in shown for word in STOLEN)


def test_attack_change_stream_shows_no_masked_value(client: MongoClient, mongo: MongoServer) -> None:
    with mongo.client() as direct:
        try:
            with client[DATABASE].watch(full_document="updateLookup", max_await_time_ms=5000) as changes:
                direct[DATABASE].heirs.insert_one({"_id": 77, "surname": SURNAME, "pin": 72657})
                direct[DATABASE].heirs.update_one({"_id": 77}, {"$set": {"surname": SURNAME + "!"}})
                said = json.dumps([next(changes), next(changes)], default=str)
        except PyMongoError as error:
            said = str(error)
        direct[DATABASE].heirs.delete_one({"_id": 77})
    assert not any(word in said.lower() for word in STOLEN), said
