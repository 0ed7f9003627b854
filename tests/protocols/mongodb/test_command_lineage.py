"""Where the fields of answers come from: tables of commands, and the origins of their columns."""

# ruff: noqa: E501 - commands stand in tables, one in a line
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from postern.domain.targets.target_schema import ColumnRef, Origin, Relation, TargetSchema
from postern.interception.events import Column, TextKind
from postern.protocols.mongodb.lineage.mongodb_lineage import FIELD_NAMES, MongodbLineage
from postern.protocols.mongodb.lineage.mongodb_session_lineage import MongodbSessionLineage

VIEWS = {
    "v": [{"$project": {"who": "$ssn", "mail": "$contact.email", "big": {"$toUpper": "$name"}}}],
    "w": [{"$set": {"again": "$who"}}],
}
SCHEMA = TargetSchema(
    {
        **{("shop", name): Relation("shop", name, ()) for name in ("people", "orders")},
        ("shop", "v"): Relation("shop", "v", (), definition=json.dumps({"viewOn": "people", "pipeline": VIEWS["v"]})),
        ("shop", "w"): Relation("shop", "w", (), definition=json.dumps({"viewOn": "v", "pipeline": VIEWS["w"]})),
        ("shop", "known"): Relation(
            "shop",
            "known",
            ("_id", "qty", "least", "place", "place.zip"),
            column_tags={"place.zip": frozenset({"pii"})},
        ),
        ("other", "people"): Relation("other", "people", ()),
    }
)


def session(schema: TargetSchema | None = SCHEMA) -> MongodbSessionLineage:
    return MongodbSessionLineage(MongodbLineage(), lambda: schema)


def text_of(database: str = "shop", /, **command: Any) -> str:
    return json.dumps({**command, "$db": database})


def origins(command: str, *columns: str, lineage: MongodbSessionLineage | None = None) -> list[Origin | None]:
    found = (lineage or session()).of(command, tuple(Column(name, TextKind.TEXT) for name in columns))
    return [None] * len(columns) if found is None else list(found)


def spelled(origin: Origin | None) -> str:
    """Return `a b` for the sources, `=a` for a column that is passed through, `?` if unknown."""
    if origin is None:
        return "?"
    plain = {ref for names in origin.plain for ref in names}
    parts = [("=" if ref in plain else "") + f"{ref.table}.{ref.column}" for ref in origin.refs]
    return " ".join(sorted(parts, key=lambda part: part.lstrip("=")))


def aggregate(*stages: dict[str, Any], on: object = "people") -> str:
    return text_of(aggregate=on, pipeline=list(stages), cursor={})


def find(projection: dict[str, Any], **rest: Any) -> str:
    return text_of(find="people", projection=projection, **rest)


Fields = dict[str, str]


def trace(command: str, fields: Fields) -> Fields:
    """Return the origins of these columns. What a stored field of a dotted name would add counts only if expected."""
    found = {}
    for column, origin in zip(fields, origins(command, *fields), strict=True):
        dotted = {f"{table}.{column}" for table in ("people", "orders", "v", "w") if "." in column}
        parts = [part for part in spelled(origin).split() if part not in dotted or part in fields[column].split()]
        found[column] = " ".join(parts)
    return found


@pytest.mark.parametrize(
    ("projection", "fields"),
    [
        ({}, {"a": "=people.a", "a.b": "=people.a.b", FIELD_NAMES: "=people.(field names)"}),
        ({"a": 1}, {"a": "=people.a", "a.b": "=people.a.b", "_id": "=people._id", "z": ""}),
        ({"a": True, "_id": 0}, {"a": "=people.a", "_id": ""}),
        ({"a": 0}, {"a": "", "b": "=people.b"}),
        ({"a.b": 0}, {"a.b": "", "a.c": "=people.a.c", "a": "=people.a"}),
        ({"a.b": 1}, {"a.b": "=people.a.b", "a.c": ""}),
        ({"a": {"b": 1}}, {"a.b": "=people.a.b", "a.c": ""}),
        ({"a": {"b": 0}}, {"a.b": "", "a.c": "=people.a.c"}),
        ({"_id": 0}, {"_id": "", "b": "=people.b"}),
        ({"x": "$ssn"}, {"x": "=people.ssn", "ssn": ""}),
        ({"x": "text"}, {"x": ""}),
        ({"x": {"$literal": 1}}, {"x": ""}),
        ({"x": {"$literal": "$ssn"}}, {"x": ""}),
        ({"items": {"$slice": 5}}, {"items.a": "=people.items.a", "b": "=people.b"}),
        ({"items": {"$slice": [1, 2]}, "a": 1}, {"items.a": "=people.items.a", "a": "=people.a", "b": ""}),
        ({"x": {"$slice": ["$items", 1]}}, {"x.a": "=people.items.a", "b": ""}),
        ({"items": {"$elemMatch": {"k": 1}}}, {"items.a": "=people.items.a people.items.k.*", "b": ""}),
        ({"items.$": 1}, {"items.a": "=people.items.a", "b": ""}),
        ({"items.a.$": 1}, {"items.a": "=people.items.a", "items.b": ""}),
        ({"score": {"$meta": "textScore"}}, {"score": "", "b": "=people.b"}),
        ({"x": {"$meta": "searchHighlights"}, "a": 1}, {"x.texts.value": "people.*"}),
        ({"a": 1, "x": {"$concat": ["$a", "$b"]}}, {"x": "people.a people.b", "a": "=people.a"}),
        ({"a": 1, "a.b": {"$toUpper": "$ssn"}}, {"a.b": "people.a.b people.ssn"}),
        ({"a.b": "$ssn", "a": 1}, {"a.b": "=people.a.b =people.ssn"}),
    ],
)
def test_fields_of_a_find(projection: dict[str, Any], fields: Fields) -> None:
    assert trace(find(projection), fields) == fields


@pytest.mark.parametrize(
    ("stages", "fields"),
    [
        ([{"$set": {"x": "$a"}}], {"x": "=people.a", "a": "=people.a"}),
        ([{"$set": {"x.y": "$a"}}], {"x.y": "=people.a", "x.z": "=people.x.z"}),
        ([{"$set": {"x": {"y": "$a"}}}], {"x.y": "=people.a", "x.z": "=people.x.z"}),
        ([{"$set": {"x": {"$literal": {"y": 1}}}}], {"x.y": "", "x.z": ""}),
        ([{"$unset": "a"}], {"a": "", "b": "=people.b"}),
        ([{"$unset": ["a.b", "c"]}], {"a.b": "", "a.d": "=people.a.d", "c": ""}),
        ([{"$replaceRoot": {"newRoot": "$a"}}], {"b": "=people.a.b"}),
        ([{"$replaceWith": {"$mergeObjects": ["$a", "$b"]}}], {"c": "=people.a.c =people.b.c"}),
        ([{"$replaceWith": {"$mergeObjects": [{"c": 1}, "$b"]}}], {"c": "people.b.c", "d": "=people.b.d"}),
        ([{"$unwind": "$items"}], {"items.a": "=people.items.a"}),
        ([{"$unwind": {"path": "$items", "includeArrayIndex": "i"}}], {"i": "", "items": "=people.items"}),
        ([{"$group": {"_id": "$a", "n": {"$sum": 1}, "s": {"$sum": "$b"}}}], {"_id": "=people.a", "n": "", "s": "people.b"}),
        ([{"$group": {"_id": {"x": "$a", "y": {"$year": "$b"}}}}], {"_id.x": "=people.a", "_id.y": "people.b"}),
        ([{"$group": {"_id": None, "x": {"$push": {"p": "$a"}}}}], {"x.p": "=people.a", "x.q": "", "a": ""}),
        ([{"$group": {"_id": None, "x": {"$max": "$a"}}}], {"x": "people.a"}),
        ([{"$group": {"_id": None, "x": {"$max": {"p": "$a", "q": "$b"}}}}], {"x.p": "people.a people.a.* people.b.*", "x.q": "people.a.* people.b people.b.*"}),
        ([{"$group": {"_id": None, "x": {"$accumulator": {}}}}], {"x": "?"}),
        ([{"$group": {"_id": None, "n": {"$count": {}}}}], {"n": ""}),
        ([{"$bucket": {"groupBy": "$a", "boundaries": [1]}}], {"_id": "people.a", "count": ""}),
        ([{"$bucketAuto": {"groupBy": "$a", "buckets": 2}}], {"_id.min": "people.a", "count": ""}),
        ([{"$sortByCount": "$a"}], {"_id": "=people.a", "count": ""}),
        ([{"$count": "n"}], {"n": ""}),
        ([{"$facet": {"x": [{"$limit": 1}], "y": [{"$count": "n"}]}}], {"x.a": "=people.a", "y.n": "", "a": ""}),
        ([{"$unionWith": "orders"}], {"a": "=orders.a =people.a"}),
        ([{"$unionWith": {"coll": "orders", "pipeline": [{"$project": {"b": 1}}]}}], {"a": "=people.a", "b": "=orders.b =people.b"}),
        ([{"$unionWith": {"coll": "orders", "pipeline": [{"$project": {"a": {"$literal": 1}}}]}}], {"a": "people.a"}),
        ([{"$unionWith": {"db": "other", "coll": "people"}}], {"a": "=people.a =people.a"}),
        ([{"$lookup": {"from": "orders", "localField": "l", "foreignField": "f", "as": "o"}}], {"o.a": "=orders.a orders.f people.l", "b": "=people.b"}),
        ([{"$lookup": {"from": "orders", "pipeline": [{"$project": {"x": "$a"}}], "as": "o"}}], {"o.x": "=orders.a", "o.a": ""}),
        ([{"$lookup": {"from": "orders", "let": {"v": "$ssn"}, "pipeline": [], "as": "o"}}], {"o.a": "=orders.a"}),
        ([{"$lookup": {"from": "orders", "let": {"v": "$ssn"}, "pipeline": [{"$set": {"x": "$$v"}}], "as": "o"}}], {"o.x": "people.ssn"}),
        ([{"$lookup": {"from": "orders", "let": {"v": "$$ROOT"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$$v.ssn", "$a"]}}}], "as": "o"}}], {"o.a": "=orders.a people.ssn"}),
        ([{"$graphLookup": {"from": "orders", "startWith": "$s", "connectFromField": "f", "connectToField": "t", "as": "o", "depthField": "d"}}], {"o.a": "=orders.a orders.f orders.t people.s", "o.d": "orders.f orders.t people.s"}),
        ([{"$setWindowFields": {"partitionBy": "$p", "sortBy": {"s": 1}, "output": {"x": {"$sum": "$a"}, "r": {"$rank": {}}}}}], {"x": "people.a people.p people.s", "r": "people.p people.s", "a": "=people.a"}),
        ([{"$fill": {"sortBy": {"s": 1}, "output": {"a": {"method": "linear"}, "b": {"method": "locf"}, "c": {"value": 0}}}}], {"a": "people.a", "b": "=people.b", "c": "people.c"}),
        ([{"$densify": {"field": "a", "range": {}}}], {"a": "people.a", "b": "=people.b"}),
        ([{"$geoNear": {"near": [], "distanceField": "d", "key": "l", "includeLocs": "x"}}], {"d": "people.l.*", "x": "people.l.*", "a": "=people.a"}),
        ([{"$redact": "$$KEEP"}], {"a": "=people.a"}),
        ([{"$sort": {"a": 1}}, {"$skip": 1}, {"$limit": 1}, {"$sample": {}}, {"$match": {"a": 1}}], {"a": "=people.a"}),
        ([{"$merge": "x"}], {"a": "=people.a"}),
        ([{"$frobnicate": {}}], {"a": "?"}),
        ([{"$currentOp": {}}], {"a": "?"}),
        ([{"$indexStats": {}}], {"name": ""}),
        ([{"$match": {}, "$limit": 1}], {"a": "?"}),
        ([{"$changeStream": {}}], {
            "fullDocument.a": "=people.a", "updateDescription.updatedFields.a.b": "=people.a.b",
            "updateDescription.removedFields": "", "documentKey._id": "=people._id", "_id._data": "people._id",
            "operationType": "", "ns.coll": "", "fullDocumentBeforeChange.c": "=people.c",
        }),
    ],
)  # fmt: skip
def test_fields_of_a_pipeline(stages: list[dict[str, Any]], fields: Fields) -> None:
    assert trace(aggregate(*stages), fields) == fields


@pytest.mark.parametrize(
    ("expression", "fields"),
    [
        ("$a", {"x": "=people.a", "x.b": "=people.a.b"}),
        ("$$ROOT.a", {"x": "=people.a"}),
        ("$$CURRENT.a", {"x": "=people.a"}),
        ("$$NOW", {"x": ""}),
        ("$$REMOVE", {"x": ""}),
        ("$$SEARCH_META", {"x": "?"}),
        ("$", {"x": "?"}),
        (["$a", "$b"], {"x": "=people.a =people.b"}),
        (["$a", 1], {"x": "people.a"}),
        ({"p": "$a"}, {"x.p": "=people.a", "x.q": ""}),
        ({"$cond": ["$a", "$b", "$c"]}, {"x": "people.a.* =people.b =people.c"}),
        ({"$cond": [{"$eq": ["$a", 1]}, "$b", "$c"]}, {"x.d": "people.a =people.b.d =people.c.d"}),
        ({"$cond": [{"$eq": ["$a", 1]}, "$a", None]}, {"x": "people.a"}),
        ({"$ifNull": ["$a", "$b"]}, {"x": "people.a people.b"}),
        ({"$ifNull": ["$a", 0]}, {"x": "people.a"}),
        ({"$switch": {"branches": [{"case": {"$gt": ["$a", 1]}, "then": "$b"}], "default": 0}}, {"x": "people.a people.b"}),
        ({"$eq": ["$a", 1]}, {"x": "people.a"}),
        ({"$eq": ["$a", {"b": 1}]}, {"x": "people.a.*"}),
        ({"$eq": ["$a", "$b"]}, {"x": "people.a.* people.b.*"}),
        ({"$in": ["$a", [1, 2]]}, {"x": "people.a"}),
        ({"$in": ["$a", [{"b": 1}]]}, {"x": "people.a.*"}),
        ({"$concat": ["$a", "x", {"$toLower": "$b"}]}, {"x": "people.a people.b"}),
        ({"$dateToString": {"date": "$a", "format": "%Y"}}, {"x": "people.a"}),
        ({"$size": "$a"}, {"x": "people.a"}),
        ({"$bsonSize": "$a"}, {"x": "people.a.*"}),
        ({"$let": {"vars": {"v": "$a"}, "in": "$$v.b"}}, {"x": "=people.a.b"}),
        ({"$let": {"vars": {"CURRENT": "$a"}, "in": "$b"}}, {"x": "=people.a.b =people.b"}),  # by the server
        ({"$let": {"vars": {"CURRENT": "$a"}, "in": "$$CURRENT.b"}}, {"x": "=people.a.b =people.b"}),
        ({"$max": ["$a", {"b": "m"}]}, {"x.b": "people.a.* people.a.b", "x.c": "people.a.* people.a.c"}),
        ({"$max": ["$a", "$b"]}, {"x": "people.a people.a.* people.b people.b.*"}),
        ({"$first": {"p": "$a"}}, {"x.p": "=people.a"}),
        ({"$mergeObjects": {"p": "$a"}}, {"x.p": "=people.a"}),
        ({"$let": {"vars": {"v": "$a"}, "in": "$$w"}}, {"x": "?"}),
        ({"$map": {"input": "$items", "in": "$$this.a"}}, {"x": "=people.items.a"}),
        ({"$map": {"input": "$items", "as": "i", "in": {"k": "$$i.a"}}}, {"x.k": "=people.items.a"}),
        ({"$filter": {"input": "$items", "cond": {"$gt": ["$$this.n", 1]}}}, {"x.a": "=people.items.a people.items.n"}),
        ({"$filter": {"input": "$items", "cond": {"$gt": ["$$this.a", 1]}}}, {"x.a": "people.items.a"}),
        ({"$reduce": {"input": "$items", "initialValue": 0, "in": {"$add": ["$$value", "$$this.n"]}}}, {"x": "people.items.n"}),
        ({"$reduce": {"input": "$items", "initialValue": [], "in": {"$concatArrays": ["$$value", ["$$this"]]}}}, {"x.a": "people.items.*"}),
        ({"$arrayElemAt": ["$items", 0]}, {"x.a": "=people.items.a"}),
        ({"$arrayElemAt": ["$items", "$n"]}, {"x.a": "=people.items.a people.n"}),
        ({"$first": "$items"}, {"x.a": "=people.items.a"}),
        ({"$firstN": {"input": "$items", "n": 2}}, {"x.a": "=people.items.a"}),
        ({"$reverseArray": "$items"}, {"x.a": "=people.items.a"}),
        ({"$sortArray": {"input": "$items", "sortBy": {"a": 1}}}, {"x.a": "=people.items.a"}),
        ({"$concatArrays": ["$a", "$b"]}, {"x.c": "=people.a.c =people.b.c"}),
        ({"$setUnion": ["$a", "$b"]}, {"x": "people.a people.a.* people.b people.b.*"}),
        ({"$zip": {"inputs": ["$a", "$b"]}}, {"x": "=people.a =people.b"}),
        ({"$range": [0, "$n"]}, {"x": "people.n"}),
        ({"$split": ["$a", "-"]}, {"x": "people.a"}),
        ({"$regexFind": {"input": "$a", "regex": "x"}}, {"x.match": "people.a"}),
        ({"$objectToArray": "$a"}, {"x.k": "", "x.v": "people.a.*", "x.v.z": "people.a.*"}),
        ({"$arrayToObject": "$pairs"}, {"x.z": "people.pairs.*"}),
        ({"$arrayToObject": [[["z", 1]]]}, {"x.z": ""}),
        ({"$getField": "a"}, {"x": "=people.a"}),
        ({"$getField": {"field": "b", "input": "$a"}}, {"x": "=people.a.b"}),
        ({"$getField": {"field": {"$literal": "$b"}, "input": "$a"}}, {"x": "=people.a.$b"}),
        ({"$getField": {"field": {"$concat": ["a", "b"]}, "input": "$a"}}, {"x": "people.a.*"}),
        ({"$setField": {"field": "p", "input": "$a", "value": "$b"}}, {"x.p": "=people.b", "x.q": "=people.a.q"}),
        ({"$setField": {"field": "p.q", "input": "$a", "value": "$b"}}, {"x.p.q": "people.a.* people.b.*"}),
        ({"$unsetField": {"field": "p", "input": "$a"}}, {"x.p": "", "x.q": "=people.a.q"}),
        ({"$convert": {"input": "$a", "to": "int", "onNull": "$b"}}, {"x": "people.a people.b.*"}),
        ({"$max": ["$a", 5]}, {"x": "people.a"}),
        ({"$literal": {"a": "$ssn"}}, {"x.a": ""}),
        ({"$literal": {"a.b": 1}}, {"x.a.b": "?"}),
        ({"$const": "$ssn"}, {"x": ""}),
        ({"$rand": {}}, {"x": ""}),
        ({"$function": {"body": "f", "args": ["$a"], "lang": "js"}}, {"x": "?"}),
        ({"$frobnicate": "$a"}, {"x": "?"}),
        ({"$add": ["$a", 1], "$sum": 2}, {"x": "?"}),
        ({"$oid": "65a1f0c2e4b0a1b2c3d4e5f6"}, {"x": ""}),
    ],
)  # fmt: skip
def test_fields_of_an_expression(expression: object, fields: Fields) -> None:
    assert trace(aggregate({"$replaceWith": {"x": expression}}), fields) == fields


@pytest.mark.parametrize(
    ("command", "fields"),
    [
        (text_of(distinct="people", key="a.b"), {"a.b": "=people.a.b", "a.b.c": "=people.a.b.c"}),
        (text_of(distinct="people", key="a.0.b"), {"a.0.b": "=people.a.0.b =people.a.b"}),
        (text_of(count="people"), {"n": ""}),
        (text_of(find="v"), {"who": "=people.ssn =v.who", "mail": "=people.contact.email =v.mail", "big": "people.name =v.big"}),
        (text_of(find="w"), {"again": "=people.ssn =v.who =w.again"}),
        (text_of(find="new"), {"a": "?"}),
        (text_of("other", find="people"), {"a": "=people.a"}),
        (text_of("third", find="people"), {"a": "?"}),
        (text_of("local", find="oplog.rs"), {"o.a": "?"}),
        (text_of(find="system.profile"), {"a": "?"}),
        (text_of(getMore=5, collection="people", originatingCommand={"find": "people"}), {"a": "=people.a"}),
        (text_of(getMore=5, collection="people"), {"a": "?"}),
        (text_of(getMore=5, collection="x", originatingCommand={"listCollections": 1}), {"name": ""}),
        (text_of(findAndModify="people", remove=True), {"a": "=people.a"}),
        (text_of(findAndModify="people", remove=True, fields={"a": 1}), {"a": "=people.a", "b": ""}),
        (text_of(findAndModify="people", update=[{"$set": {"b": "$a"}}]), {"b": "=people.a =people.b"}),
        (text_of(findAndModify="people", update={"$rename": {"a": "b"}}), {"b": "=people.a =people.b"}),
        (text_of(update="people", updates=[]), {"upserted._id": "=people._id", "_id": "=people._id", "n": ""}),
        (text_of(bulkWrite=1, ops=[], nsInfo=[{"ns": "shop.people"}]), {"upserted._id": "=people._id", "idx": ""}),
        (text_of(insert="people", documents=[]), {"n": ""}),
        (text_of(listIndexes="people"), {"key.a": ""}),
        (text_of(serverStatus=1), {"a": "?"}),
        (text_of(explain={"find": "people"}, verbosity="queryPlanner"), {"queryPlanner.namespace": ""}),
        (text_of(explain={"find": "people"}), {"a": "?"}),
        (text_of(frobnicate=1), {"a": "?"}),
        ("no json", {"a": "?"}),
        ('{"find": "people", "find": "orders", "$db": "shop"}', {"a": "?"}),
    ],
)  # fmt: skip
def test_fields_of_other_commands(command: str, fields: Fields) -> None:
    assert trace(command, fields) == fields


def test_stored_field_of_a_dotted_name_is_found_behind_another_field() -> None:
    """Attack: a document has the field "a.b", and the command makes a field `a` without a `b`."""
    for stage in ({"$set": {"a": 1}}, {"$unset": "a"}, {"$set": {"a": {"$literal": {"b": 1}}}}):
        assert spelled(origins(aggregate(stage), "a.b")[0]) == "people.a.b"
    assert spelled(origins(aggregate({"$set": {"x.a": 1}}), "x.a.b")[0]) == "people.x.a.b"
    assert spelled(origins(aggregate({"$project": {"a": {"$literal": 1}}}), "a.b")[0]) == ""


def test_field_with_the_name_of_the_column_of_names_has_an_origin() -> None:
    """Attack: a client gives a hidden field the name that stands for the names of all fields."""
    assert spelled(origins(find({FIELD_NAMES: "$ssn"}), FIELD_NAMES)[0]) == "=people.ssn"
    assert (
        spelled(origins(aggregate({"$replaceWith": {FIELD_NAMES: {"$concat": ["$ssn"]}}}), FIELD_NAMES)[0])
        == "people.ssn"
    )


@pytest.mark.parametrize("path", ["$$ROOT.", "$a.", "$.a", "$a..b", "$$ROOT..a", "$$CURRENT.ssn."])
def test_path_with_an_empty_name_is_unknown(path: str) -> None:
    """Servers reject it, or ignore the empty name."""
    assert origins(find({"x": path}), "x")[0] is None


def test_keys_of_an_index_are_unknown() -> None:
    assert origins(find({}, returnKey=True), "_fts")[0] is None
    assert origins(find({}, returnKey=False), "a")[0] is not None


def test_identifier_of_an_upsert_has_an_origin_if_the_projection_leaves_it_out() -> None:
    upsert = text_of(findAndModify="people", update={"$set": {"a": 1}}, upsert=True, fields={"_id": 0, "a": 1})
    assert spelled(origins(upsert, "_id")[0]) == "=people._id"


def test_variables_of_a_command_are_constants() -> None:
    assert spelled(origins(find({"x": "$$v"}, let={"v": 5}), "x")[0]) == ""
    assert spelled(origins(find({"x": "$$v"}), "x")[0]) == "?"


def test_names_made_of_values_are_unknown() -> None:
    for expression in ({"$arrayToObject": [[["$ssn", 1]]]}, {"$setField": {"field": "$a", "input": {}, "value": 1}}):
        assert origins(aggregate({"$replaceWith": expression}), FIELD_NAMES) == [None]
        assert origins(aggregate({"$replaceWith": {"deep": [{"x": expression}]}}), FIELD_NAMES) == [None]
    constants: list[object] = ["$a", {"$objectToArray": "$$ROOT"}, {"$arrayToObject": [[["z", "literal"]]]}]
    for constant in constants:
        assert origins(aggregate({"$replaceWith": {"x": constant}}), FIELD_NAMES) == [Origin()]


def test_fields_that_the_catalogue_knows_are_no_documents() -> None:
    stages = {"$project": {"x": {"$gt": ["$qty", "$least"]}, "y": {"$gt": ["$qty", "$place"]}}}
    found = origins(aggregate(stages, on="known"), "x", "y")
    assert list(map(spelled, found)) == ["known.least known.qty", "known.place.* known.qty"]


def test_tags_of_a_field_hold_for_what_is_in_it_and_around_it() -> None:
    lineage = session()
    for path, tags in (("place.zip", {"pii"}), ("place.zip.a", {"pii"}), ("place.*", {"pii"}), ("*", {"pii"}),
                       ("place", set()), ("place.zi", set()), ("qty.*", set())):  # fmt: skip
        assert lineage.tags(ColumnRef("shop", "known", path)) == tags
    assert lineage.tags(ColumnRef("shop", "new", "a")) == frozenset()


@pytest.mark.parametrize(
    ("changed", "is_known"),
    [
        (text_of(create="people", viewOn="orders"), False),
        (text_of(create="new"), True),
        (text_of(collMod="people", index={}), False),
        (text_of(drop="people"), False),
        (text_of(dropDatabase=1), False),
        (text_of("admin", renameCollection="shop.people", to="shop.x"), False),
        (text_of("admin", renameCollection="shop.x", to="shop.people"), False),
        (text_of("admin", applyOps=[]), False),
        (text_of("other", drop="people"), True),
        (text_of(insert="system.views", documents=[]), False),
        (text_of(find="system.views"), True),
        (text_of(insert="people", documents=[{"create": "people"}]), True),
        (text_of(aggregate="people", pipeline=[{"$out": "orders"}]), True),
        ('{"cr\\u0065ate": "people", "$db": "shop"}', False),
        ('{"create": ["people"], "$db": "shop"}', False),
        ('{"create": "x", "create": "people", "$db": "shop"}', False),
    ],
)
def test_collection_that_the_session_changed_is_unknown(changed: str, is_known: bool) -> None:
    lineage = session()
    lineage.record_statement(changed)
    assert (origins(text_of(find="people"), "a", lineage=lineage)[0] is not None) is is_known


def test_view_of_a_changed_collection_is_unknown_too() -> None:
    lineage = session()
    assert origins(text_of(find="w"), "again", lineage=lineage)[0] is not None
    lineage.record_statement(text_of(create="people", viewOn="orders"))
    assert origins(text_of(find="w"), "again", lineage=lineage) == [None]
    assert origins(text_of(find="orders"), "a", lineage=lineage)[0] is not None


def test_nothing_is_known_after_a_gap_or_without_a_catalogue() -> None:
    lineage = session()
    lineage.record_gap()
    assert lineage.of(text_of(find="people"), (Column("a", TextKind.TEXT),)) is None
    assert origins(text_of(find="people"), "a", lineage=session(None)) == [None]


def test_many_changed_collections_make_everything_unknown() -> None:
    lineage = session()
    for number in range(300):
        lineage.record_statement(text_of(drop=f"c{number}"))
    assert origins(text_of(find="orders"), "a", lineage=lineage) == [None]


def test_new_snapshot_is_used_when_it_arrives() -> None:
    schemas: list[TargetSchema | None] = [None]
    lineage = MongodbSessionLineage(MongodbLineage(), lambda: schemas[0])
    assert origins(text_of(find="people"), "a", lineage=lineage) == [None]
    schemas[0] = SCHEMA
    assert origins(text_of(find="people"), "a", lineage=lineage)[0] is not None


def test_long_command_is_unknown() -> None:
    assert origins(text_of(find="people", filter={"a": "x" * 70_000}), "a") == [None]


def _nested(depth: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = "$ssn"
    for _ in range(depth):
        value = wrap(value)
    return value


@pytest.mark.parametrize("depth", [10, 60, 95])
def test_deep_expressions_are_traced_or_unknown(depth: int) -> None:
    for expression in (
        _nested(depth, lambda inner: {"$concat": [inner, "x"]}),
        _nested(depth, lambda inner: {"a": inner}),
    ):
        path = "x" + ".a" * depth if "a" in expression else "x"
        (found,) = origins(aggregate({"$replaceWith": {"x": expression}}), path)
        assert found is None or ColumnRef("shop", "people", "ssn") in found.refs


def test_fields_that_double_in_each_stage_take_bounded_work() -> None:
    """Attack: fifty stages, each of which uses the field before it twice."""
    stages = [{"$set": {"a": [f"$a.x{number}", "$a", {"y": "$a"}]}} for number in range(50)]
    (found,) = origins(aggregate(*stages), "a.y")
    assert found is None or ColumnRef("shop", "people", "a") in found.refs or found.refs


def test_hundreds_of_columns_are_looked_up_once() -> None:
    lineage = session()
    command = text_of(find="people")
    columns = tuple(Column(f"a{number}.b", TextKind.TEXT) for number in range(500))
    first = lineage.of(command, columns)
    second = lineage.of(command, columns)
    assert first is not None
    assert second is not None
    assert all(a is b for a, b in zip(first, second, strict=True))
