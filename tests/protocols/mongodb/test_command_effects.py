"""What commands do, which collections they touch, and which of them they read as a whole."""

# ruff: noqa: E501 - commands stand in tables, one in a line
from __future__ import annotations

import json
from typing import Any

import pytest

from postern.domain.rules.guarded_objects import parse_guarded
from postern.domain.rules.statement import EVERYTHING, Effect, ObjectKind, ObjectName, Statement
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.sql.sql_parser import NO_CATALOGUE
from postern.protocols.mongodb.dialect.mongodb_parser import MongodbParser

PARSER = MongodbParser()
VIEWS = {
    "adults": {"viewOn": "people", "pipeline": [{"$match": {"age": {"$gte": 18}}}]},
    "older": {"viewOn": "adults", "pipeline": [{"$match": {"age": {"$gte": 60}}}]},
    "joined": {
        "viewOn": "orders",
        "pipeline": [{"$lookup": {"from": "older", "pipeline": [], "as": "p"}}, {"$unionWith": "archive"}],
    },
    "loop": {"viewOn": "loop", "pipeline": []},
    "coded": {
        "viewOn": "people",
        "pipeline": [{"$set": {"x": {"$function": {"body": "f", "args": [], "lang": "js"}}}}],
    },
    "broken": {"viewOn": 5},
}
SCHEMA = TargetSchema(
    {
        ("shop", name): Relation("shop", name, (), definition=json.dumps(VIEWS[name]) if name in VIEWS else "")
        for name in ("people", "orders", "archive", "fs.files", *VIEWS)
    }
)


def judge(schema: TargetSchema | None = SCHEMA, database: str = "shop", /, **command: Any) -> Statement:
    (statement,) = PARSER.parse(json.dumps({**command, "$db": database}), schema)
    return statement


def aggregate(*stages: dict[str, Any], on: object = "orders") -> Statement:
    return judge(aggregate=on, pipeline=list(stages), cursor={})


def names(statement: Statement) -> set[str]:
    return {f"{each.schema}.{each.name}" if each.schema else each.name for each in statement.objects}


def scanned(statement: Statement) -> set[str]:
    return {each.name for each in statement.scans}


def test_statement_names_its_command_and_collection() -> None:
    statement = judge(find="people", filter={"age": 5})
    assert statement.tag == "find"
    assert statement.effects == {Effect.READ}
    assert statement.objects == {ObjectName(ObjectKind.TABLE, "people", "shop")}
    assert not statement.scans
    assert not statement.untraced


@pytest.mark.parametrize(
    ("spelled", "tag"),
    [("findandmodify", "findAndModify"), ("collstats", "collStats"), ("ismaster", "isMaster")],
)
def test_tag_has_the_documented_spelling(spelled: str, tag: str) -> None:
    assert judge(**{spelled: "people", "query": {}, "remove": True}).tag == tag


@pytest.mark.parametrize(
    ("command", "touched"),
    [
        ({"listCollections": 1}, {"shop"}),
        ({"dropDatabase": 1}, {"shop"}),
        ({"dbHash": 1}, {"shop"}),
        ({"aggregate": 1, "pipeline": [{"$changeStream": {}}]}, {"shop"}),
        ({"aggregate": 1, "pipeline": [{"$currentOp": {}}]}, set()),
        ({"aggregate": 1, "pipeline": [{"$documents": [{"a": 1}]}]}, set()),
        ({"renameCollection": "shop.people", "to": "other.people"}, {"shop.people", "other.people"}),
        ({"renameCollection": "shop.fs.files", "to": "shop.x.y.z"}, {"shop.fs.files", "shop.x.y.z"}),
        ({"aggregate": "orders", "pipeline": [{"$out": "x"}]}, {"shop.orders", "shop.x"}),
        ({"aggregate": "orders", "pipeline": [{"$out": {"db": "d", "coll": "x"}}]}, {"shop.orders", "d.x"}),
        ({"aggregate": "orders", "pipeline": [{"$merge": {"into": {"db": "d", "coll": "x"}}}]}, {"shop.orders", "d.x"}),
        (
            {"aggregate": "orders", "pipeline": [{"$lookup": {"from": "people", "pipeline": [{"$unionWith": "archive"}], "as": "p"}}]},
            {"shop.orders", "shop.people", "shop.archive"},
        ),
        (
            {"aggregate": "orders", "pipeline": [{"$graphLookup": {"from": "people", "startWith": "$a", "as": "p"}}]},
            {"shop.orders", "shop.people"},
        ),
        (
            {"aggregate": "orders", "pipeline": [{"$facet": {"a": [{"$lookup": {"from": "people", "as": "p"}}]}}]},
            {"shop.orders", "shop.people"},
        ),
        ({"mapReduce": "orders", "map": "m", "reduce": "r", "out": {"merge": "x", "db": "d"}}, {"shop.orders", "d.x"}),
        (
            {"bulkWrite": 1, "ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "a.b"}, {"ns": "a.c.d"}]},
            {"a.b", "a.c.d"},
        ),
        ({"create": "v", "viewOn": "people", "pipeline": [{"$unionWith": "archive"}]}, {"shop.v", "shop.people", "shop.archive"}),
        ({"explain": {"find": "people"}, "verbosity": "queryPlanner"}, {"shop.people"}),
        ({"getMore": 5, "collection": "people", "originatingCommand": {"find": "people"}}, {"shop.people"}),
        ({"find": "system.buckets.weather"}, {"shop.system.buckets.weather", "shop.weather"}),
        ({"createRole": "r", "privileges": [{"resource": {"db": "d", "collection": "c"}, "actions": []}]}, {"d.c"}),
        ({"createRole": "r", "privileges": [{"resource": {"db": "d", "collection": ""}, "actions": []}]}, {"d"}),
        ({"cloneCollectionAsCapped": "people", "toCollection": "x"}, {"shop.people", "shop.x"}),
    ],
)  # fmt: skip
def test_command_touches_each_collection_that_it_names(command: dict[str, Any], touched: set[str]) -> None:
    assert names(judge(**command)) == touched


@pytest.mark.parametrize(
    "command",
    [
        {"applyOps": []},
        {"frobnicate": 1},
        {"find": "system.profile"},
        {"createRole": "r", "privileges": [{"resource": {"anyResource": True}, "actions": []}]},
        {"aggregate": 1, "pipeline": [{"$changeStream": {"allChangesForCluster": True}}]},
    ],
)
def test_command_can_touch_everything(command: dict[str, Any]) -> None:
    assert EVERYTHING in judge(**command).objects


def test_logs_of_the_server_hold_everything() -> None:
    assert EVERYTHING in judge(SCHEMA, "local", find="oplog.rs").objects
    assert EVERYTHING in judge(SCHEMA, "config", find="image_collection").objects


# Views


@pytest.mark.parametrize(
    ("view", "touched"),
    [
        ("adults", {"adults", "people"}),
        ("older", {"older", "adults", "people"}),
        ("joined", {"joined", "orders", "older", "adults", "people", "archive"}),
    ],
)
def test_view_touches_the_collections_that_it_reads(view: str, touched: set[str]) -> None:
    for command in (
        {"find": view},
        {"aggregate": view, "pipeline": []},
        {"count": view},
        {"distinct": view, "key": "a"},
    ):
        statement = judge(**command)
        assert names(statement) == {f"shop.{name}" for name in touched}
        assert not statement.untraced
    assert names(aggregate({"$lookup": {"from": view, "as": "x"}})) >= {f"shop.{name}" for name in touched}


def test_view_with_code_is_of_unknown_effect() -> None:
    statement = judge(find="coded")
    assert Effect.UNKNOWN in statement.effects
    assert "$function" in statement.reason


@pytest.mark.parametrize("view", ["loop", "broken", "new"])
def test_view_that_cannot_be_followed_is_untraced(view: str) -> None:
    statement = judge(find=view)
    assert statement.untraced
    assert statement.effects == {Effect.READ}


def test_without_a_catalogue_reads_are_untraced_and_writes_are_not() -> None:
    assert judge(None, find="people").untraced == NO_CATALOGUE
    assert not judge(None, insert="people", documents=[{}]).untraced


# Whole collections


@pytest.mark.parametrize(
    ("command", "read"),
    [
        ({"find": "people"}, {"people"}),
        ({"find": "people", "filter": {}}, {"people"}),
        ({"find": "people", "filter": {"$expr": True}}, {"people"}),
        ({"find": "people", "filter": {}, "limit": 0}, {"people"}),
        ({"find": "people", "filter": {}, "limit": 5}, set()),
        ({"find": "people", "filter": {}, "singleBatch": True}, set()),
        ({"find": "people", "filter": {"age": {"$gt": 0}}}, set()),
        ({"find": "adults"}, {"adults"}),
        ({"find": "system.views"}, set()),
        ({"count": "people"}, set()),
        ({"distinct": "people", "key": "a"}, {"people"}),
        ({"distinct": "people", "key": "a", "query": {"b": 1}}, set()),
        ({"explain": {"find": "people"}}, {"people"}),
        ({"explain": {"find": "people"}, "verbosity": "queryPlanner"}, set()),
        ({"getMore": 5, "collection": "people", "originatingCommand": {"find": "people"}}, {"people"}),
        ({"update": "people", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]}, set()),
    ],
)
def test_read_without_condition_and_limit_is_a_scan(command: dict[str, Any], read: set[str]) -> None:
    assert scanned(judge(**command)) == read


@pytest.mark.parametrize(
    ("stages", "read"),
    [
        ([], {"orders"}),
        ([{"$project": {"a": 1}}, {"$sort": {"a": 1}}, {"$skip": 5}], {"orders"}),
        ([{"$match": {}}], {"orders"}),
        ([{"$match": {"a": 1}}], set()),
        ([{"$project": {"a": 1}}, {"$match": {"a": {"$gt": 1}}}], set()),
        ([{"$limit": 5}], set()),
        ([{"$sample": {"size": 5}}], set()),
        ([{"$count": "n"}], set()),
        ([{"$group": {"_id": None, "n": {"$sum": "$a"}}}], set()),
        ([{"$group": {"_id": 1, "n": {"$max": "$a"}, "m": {"$first": "$$ROOT"}}}], set()),
        ([{"$group": {"_id": "$a", "n": {"$sum": 1}}}], {"orders"}),
        ([{"$group": {"_id": None, "all": {"$push": "$$ROOT"}}}], {"orders"}),
        ([{"$group": {"_id": None, "all": {"$push": "$$ROOT"}}}, {"$limit": 1}], {"orders"}),
        ([{"$group": {"_id": None, "all": {"$topN": {"n": 9, "sortBy": {"a": 1}, "output": "$a"}}}}], {"orders"}),
        ([{"$facet": {"all": [{"$match": {}}]}}, {"$limit": 1}], {"orders"}),
        ([{"$facet": {"n": [{"$count": "n"}], "page": [{"$limit": 5}]}}], set()),
        ([{"$out": "x"}], {"orders"}),
        ([{"$match": {"a": 1}}, {"$merge": "x"}], set()),
        ([{"$match": {"a": 1}}, {"$unionWith": "people"}], {"people"}),
        ([{"$unionWith": "people"}, {"$limit": 5}], set()),
        ([{"$limit": 5}, {"$unionWith": {"coll": "people", "pipeline": [{"$match": {"a": 1}}]}}], set()),
        ([{"$lookup": {"from": "people", "localField": "a", "foreignField": "b", "as": "p"}}], {"orders", "people"}),
        ([{"$match": {"a": 1}}, {"$lookup": {"from": "people", "localField": "a", "foreignField": "b", "as": "p"}}], set()),
        ([{"$limit": 1}, {"$lookup": {"from": "people", "pipeline": [], "as": "p"}}], {"people"}),
        ([{"$lookup": {"from": "people", "pipeline": [], "as": "p"}}, {"$limit": 1}], {"people"}),
        ([{"$limit": 1}, {"$lookup": {"from": "people", "pipeline": [{"$match": {"a": 1}}], "as": "p"}}], set()),
        ([{"$collStats": {}}], set()),
        ([{"$changeStream": {}}], set()),
        ([{"$geoNear": {"near": [0, 0], "distanceField": "d"}}], {"orders"}),
        ([{"$geoNear": {"near": [0, 0], "distanceField": "d", "maxDistance": 5}}], set()),
    ],
)  # fmt: skip
def test_pipeline_without_condition_and_limit_is_a_scan(stages: list[dict[str, Any]], read: set[str]) -> None:
    assert scanned(aggregate(*stages)) == read


def test_uncorrelated_join_with_a_limit_behind_it_still_returns_a_whole_collection() -> None:
    """Attack: one document with an array of all others."""
    statement = aggregate({"$limit": 1}, {"$lookup": {"from": "people", "pipeline": [], "as": "p"}}, {"$limit": 1})
    assert scanned(statement) == {"people"}


# Texts


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_blank_text_has_no_statement(text: str) -> None:
    assert PARSER.parse(text) == ()


def test_reason_names_what_is_not_known() -> None:
    assert "frobnicate" in judge(frobnicate=1).reason
    assert "$frobnicate" in aggregate({"$frobnicate": {}}).reason
    assert "$frobnicate" in judge(find="people", filter={"a": {"$frobnicate": 1}}).reason
    assert "$where" in judge(find="people", filter={"$where": "1"}).reason
    assert "loadBalanced=true" in judge(getMore=5, collection="people").reason


def test_long_names_of_clients_are_cut_in_reasons() -> None:
    assert len(judge(**{"x" * 5000: 1}).reason) < 200
    assert len(judge(**{"x" * 5000: 1}).tag) <= 64
    assert len(aggregate({"$" + "x" * 5000: 1}).reason) < 200


def test_deep_nesting_is_of_unknown_effect() -> None:
    for depth in (150, 300, 5000, 100_000):
        text = '{"find": "a", "filter": ' + '{"a": ' * depth + "1" + "}" * depth + ', "$db": "shop"}'
        (statement,) = PARSER.parse(text)
        assert (Effect.UNKNOWN in statement.effects) is (depth >= 300)


# Rules


@pytest.mark.parametrize(
    ("rule", "hit"),
    [
        ("fs.files", True),
        ("shop.fs.files", True),
        ("*.fs.files", True),
        ("fs.*", True),
        ("shop.fs.*", True),
        ("shop", True),
        ("SHOP.FS.Files", True),
        ("shop.fs.chunks", False),
        ("other.fs.files", False),
        ("shop.fs", False),
        ("fs", False),
        ("files.*", False),
    ],
)
def test_rule_names_a_collection_with_dots(rule: str, hit: bool) -> None:
    statement = judge(find="fs.files", filter={"a": 1})
    guard = parse_guarded(rule, "objects")
    assert any(guard.hit_by(touched, SCHEMA) for touched in statement.objects) is hit


def test_rule_about_a_collection_with_dots_applies_to_its_database() -> None:
    (touched,) = judge(dropDatabase=1).objects
    for rule in ("fs.files", "shop.fs.files", "*.fs.files", "shop.fs.*", "fs.*"):
        assert parse_guarded(rule, "objects").hit_by(touched, SCHEMA)
    assert not parse_guarded("other.fs.files", "objects").hit_by(touched, SCHEMA)
