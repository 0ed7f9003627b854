"""Catalogue queries, against a server of a few lines: what is asked, and what becomes of the replies."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from bson import Int64, ObjectId
from tests.support.protocols.mongodb_test_replies import batch, error, ok, sent_documents

from postern.domain.targets.target_task import TargetTaskKind
from postern.errors import ProtocolViolation
from postern.protocols.gateway_queries import QueryInSteps, Row, TargetRefused
from postern.protocols.mongodb.queries.mongodb_catalogue import CATALOGUE, MAX_SAMPLED
from postern.protocols.mongodb.queries.mongodb_sampling import MAX_FIELDS, sampled_fields
from postern.protocols.mongodb.queries.mongodb_schema import UNREADABLE

Answer = Callable[[dict[str, Any]], bytes]

SCHEMA = {
    "bsonType": "object",
    "description": "Those who buy. #people",
    "required": ["email"],
    "properties": {
        "email": {"bsonType": "string", "description": "Where to write to. #pii"},
        "address": {"bsonType": "object", "properties": {"zip": {"bsonType": ["string", "null"], "title": "#place"}}},
        "orders": {"bsonType": "array", "items": {"bsonType": "object", "properties": {"sku": {"bsonType": "int"}}}},
    },
}
COLLECTIONS: Mapping[str, list[dict[str, Any]]] = {
    "admin": [{"name": "system.users", "type": "collection", "options": {}}],
    "shop": [
        {"name": "orders", "type": "collection", "options": {}},
        {"name": "customers", "type": "collection", "options": {"validator": {"$jsonSchema": SCHEMA}}},
        {
            "name": "sales",
            "type": "view",
            "options": {"viewOn": "orders", "pipeline": [{"$project": {"größe": 1, "_id": ObjectId("0" * 24)}}]},
        },
        {"name": "load", "type": "timeseries", "options": {"timeseries": {"timeField": "at"}}},
        {"name": "system.views", "type": "collection", "options": {}},
    ],
    "zoo": [{"name": "animals", "type": "collection", "options": {}}],
}
NOTHING: list[dict[str, Any]] = []
DOCUMENTS: list[dict[str, Any]] = [
    {"_id": 1, "a": "x", "b": {"c": 1, "d": [{"e": 1}, {"f": "x"}]}},
    {"_id": 2, "a": None, "b": {"c": "x"}, "tags": ["x", "y"]},
    {"_id": "x", "a": "y"},
]


def server(command: dict[str, Any]) -> bytes:
    """A server with COLLECTIONS, whose lists come in batches of two."""
    name, database = next(iter(command)), command["$db"]
    if name == "ping":
        return ok()
    if name == "listDatabases":
        assert (command["nameOnly"], database) == (True, "admin")
        return ok(databases=[{"name": each} for each in reversed(list(COLLECTIONS))])
    if name == "listCollections":
        wanted = command.get("filter", {}).get("name")
        found = [each for each in COLLECTIONS.get(database, []) if wanted in (None, each["name"])]
        return batch(found[:2], 5 if len(found) > 2 else 0, ns=f"{database}.$cmd.listCollections")
    if name == "getMore":
        assert command["collection"] == "$cmd.listCollections"
        return batch(COLLECTIONS[database][2:], first=False)
    if name == "aggregate":
        assert command["pipeline"] == [{"$sample": {"size": 100}}]
        return batch(DOCUMENTS if command["aggregate"] == "orders" else NOTHING)
    raise AssertionError(f"{command} is not expected")


def rows_of(statement: str, *values: str | None, answer: Answer = server) -> tuple[list[Row], TargetRefused | None]:
    """Runs a query as the gateway does. Its rows, and its error."""
    query = CATALOGUE.query(statement, values)
    assert isinstance(query, QueryInSteps)
    sent, rows = query.start(), list[Row]()
    while not query.finished:
        (command,) = sent_documents(sent)
        data = answer(command)
        sent = b""
        while data:
            assert not query.finished
            needs = query.needs
            rows += query.feed(data[:needs])
            data = data[needs:]
            sent += query.request()
    assert sent == query.request() == b""
    return rows, query.error


def shaped(kind: TargetTaskKind, *values: str | None) -> Any:
    question = CATALOGUE.target_tasks[kind]
    rows, failure = rows_of(question.statement, *values)
    assert failure is None
    return question.shape(rows)


def test_connection_test_pings_the_target() -> None:
    assert shaped(TargetTaskKind.TEST) == {"success": True}


def test_databases_are_listed_without_those_of_the_server() -> None:
    assert shaped(TargetTaskKind.DATABASES) == {"databases": ["shop", "zoo"]}


def test_collections_of_the_named_or_default_database_are_listed() -> None:
    shop = {"name": "shop", "tables": ["customers", "load", "orders", "sales"]}
    zoo = {"name": "zoo", "tables": ["animals"]}
    assert shaped(TargetTaskKind.TABLES, None, "shop") == {"schemas": [shop]}
    assert shaped(TargetTaskKind.TABLES, "zoo", "shop") == {"schemas": [zoo]}
    assert shaped(TargetTaskKind.TABLES, None, None) == {"schemas": [shop, zoo]}
    assert shaped(TargetTaskKind.TABLES, "nothing", "shop") == {"schemas": []}


def test_fields_are_those_of_a_sample_with_their_types_by_frequency() -> None:
    assert shaped(TargetTaskKind.COLUMNS, "orders", None, "shop") == {
        "columns": [
            {"name": "_id", "type": "int | string", "nullable": False},
            {"name": "a", "type": "string | null", "nullable": True},
            {"name": "b", "type": "object", "nullable": True},
            {"name": "b.c", "type": "int | string", "nullable": True},
            {"name": "b.d", "type": "array", "nullable": True},
            {"name": "b.d.e", "type": "int", "nullable": True},
            {"name": "b.d.f", "type": "string", "nullable": True},
            {"name": "tags", "type": "array", "nullable": True},
        ]
    }


def test_fields_of_a_validator_are_listed_too() -> None:
    assert shaped(TargetTaskKind.COLUMNS, "customers", "shop", None) == {
        "columns": [
            {"name": "email", "type": "string", "nullable": False},
            {"name": "address", "type": "object", "nullable": True},
            {"name": "address.zip", "type": "string | null", "nullable": True},
            {"name": "orders", "type": "array", "nullable": True},
            {"name": "orders.sku", "type": "int", "nullable": True},
        ]
    }


def test_collection_that_does_not_exist_has_no_fields() -> None:
    for values in (("nothing", "shop", None), ("", "shop", None), (None, None, None)):
        assert rows_of("columns", *values) == ([], None)
    assert CATALOGUE.target_tasks[TargetTaskKind.COLUMNS].missing


def test_cursor_of_a_sample_of_large_documents_is_closed() -> None:
    seen: list[dict[str, Any]] = []

    def answer(command: dict[str, Any]) -> bytes:
        seen.append(command)
        if "aggregate" in command:
            return batch(DOCUMENTS, 1 << 40)
        return ok(cursorsKilled=[Int64(1 << 40)]) if "killCursors" in command else server(command)

    rows, failure = rows_of("columns", "orders", "shop", None, answer=answer)
    assert (len(rows), failure) == (8, None)
    assert seen[-1] == {"killCursors": "orders", "cursors": [1 << 40], "$db": "shop"}


def test_whole_schema_has_databases_collections_and_sampled_fields() -> None:
    schema = shaped(TargetTaskKind.SCHEMA, "shop")
    assert (schema["database"], schema["databases"]) == ("shop", ["shop", "zoo"])
    (shop,) = schema["schemas"]
    assert [(table["name"], table["kind"], len(table["columns"])) for table in shop["tables"]] == [
        ("customers", "table", 5),
        ("load", "timeseries", 0),
        ("orders", "table", 8),
        ("sales", "view", 0),
    ]
    assert [each["name"] for each in shaped(TargetTaskKind.SCHEMA, None)["schemas"]] == ["shop", "zoo"]


def test_whole_schema_leaves_out_what_cannot_be_read() -> None:
    def answer(command: dict[str, Any]) -> bytes:
        if "aggregate" in command:
            return error("not authorized")
        is_hidden = "listCollections" in command and command["$db"] == "zoo"
        return error("not authorized") if is_hidden else server(command)

    rows, failure = rows_of("schema", None, answer=answer)
    assert failure is None
    assert [row[2] for row in rows if row[0] == "2"] == ["customers", "load", "orders", "sales"]


def test_whole_schema_samples_a_limited_number_of_collections() -> None:
    many = [{"name": f"c{number:03}", "type": "collection", "options": {}} for number in range(MAX_SAMPLED + 5)]

    def answer(command: dict[str, Any]) -> bytes:
        if "listCollections" in command:
            return batch(many)
        return batch([{"a": 1}]) if "aggregate" in command else server(command)

    rows, _ = rows_of("schema", "shop", answer=answer)
    assert [len([row for row in rows if row[0] == part]) for part in "23"] == [MAX_SAMPLED + 5, MAX_SAMPLED]


@pytest.mark.parametrize("statement", ["test", "databases", "tables", "columns", "schema", "relations"])
def test_refusal_of_the_target_ends_the_query_with_its_code(statement: str) -> None:
    count = {"tables": 2, "columns": 3, "schema": 1}.get(statement, 0)
    rows, failure = rows_of(
        statement, *["x"] * count, answer=lambda _: error("not authorized", 18, "AuthenticationFailed")
    )
    assert rows == []
    assert failure is not None
    assert (failure.message, failure.code) == ("not authorized", "AuthenticationFailed")


def test_login_without_the_right_to_list_collections_sees_those_that_it_can_use() -> None:
    def answer(command: dict[str, Any]) -> bytes:
        if "listCollections" not in command:
            return server(command)
        if not command.get("authorizedCollections"):
            return error("not authorized")
        assert command["nameOnly"] is True
        return batch([{"name": "orders", "type": "collection"}, {"name": "sales", "type": "view"}])

    rows, failure = rows_of("relations", answer=answer)
    assert failure is None
    assert ("shop", "orders", None, "[]", "{}") in rows
    assert ("shop", "sales", UNREADABLE, "[]", "{}") in rows


def test_target_schema_has_views_declared_fields_and_tags() -> None:
    rows, _ = rows_of(*CATALOGUE.schema)
    schema = CATALOGUE.target_schema([rows])
    assert len(schema.relations) == 7
    sales, customers = schema.relations["shop", "sales"], schema.relations["shop", "customers"]
    assert json.loads(sales.definition) == {
        "viewOn": "orders",
        "pipeline": [{"$project": {"größe": 1, "_id": {"$oid": "0" * 24}}}],
    }
    assert schema.relations["shop", "orders"].definition == ""
    assert customers.columns == ("email", "address", "address.zip", "orders", "orders.sku")
    assert customers.tags == {"people"}
    assert customers.column_tags == {"email": {"pii"}, "address.zip": {"place"}}


@pytest.mark.parametrize(
    "answers",
    [[], [[], []], [[("shop",)]], [[("shop", None, None, "[]", "{}")]], [[("shop", "c", None, "{", "{}")]]],
)
def test_rows_of_another_shape_are_a_protocol_violation(answers: list[list[Row]]) -> None:
    with pytest.raises(ProtocolViolation):
        CATALOGUE.target_schema(answers)


def test_hostile_validators_and_names_are_read() -> None:
    hostile: list[dict[str, Any]] = [
        {"name": "a'; {$where: 1}", "type": "collection", "options": {"validator": {"$jsonSchema": 5}}},
        {"name": "b", "type": "view", "options": {"viewOn": 5, "pipeline": "x"}},
        {"name": "c", "options": {"validator": {"$jsonSchema": {"properties": {"a": 5, "b": {"items": [1]}}}}}},
        {"options": 5},
        {"name": 5, "type": 5},
    ]
    rows, failure = rows_of(
        "relations", answer=lambda command: batch(hostile) if "listCollections" in command else server(command)
    )
    assert failure is None
    assert CATALOGUE.target_schema([rows]).relations["shop", "c"].columns == ("a", "b")
    rows_of("columns", "c", "shop", None, answer=lambda command: batch(hostile))


def test_number_of_sampled_fields_is_limited() -> None:
    import bson

    wide = bson.encode({f"f{number}": {"x": number} for number in range(2 * MAX_FIELDS)})
    assert len(sampled_fields([wide])) == MAX_FIELDS
    deep: dict[str, Any] = {}
    for _ in range(150):
        deep = {"x": deep}
    assert len(sampled_fields([bson.encode(deep)])) < 20
