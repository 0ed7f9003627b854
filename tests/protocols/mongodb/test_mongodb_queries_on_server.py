"""Scripts and catalogue queries on a real server: what it answers, and how the answers are read."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pymongo
import pytest
from tests.support.mongodb import MongoServer, running_mongodb

from postern.domain.sessions.results import Finished, Problem, Result, ResultColumns, Row
from postern.domain.targets.target_task import TargetTaskKind
from postern.protocols.gateway_queries import QueryInSteps
from postern.protocols.gateway_queries import Row as CatalogueRow
from postern.protocols.mongodb.queries.mongodb_catalogue import CATALOGUE
from postern.protocols.mongodb.queries.mongodb_query import MongodbQuery
from postern.protocols.mongodb.queries.mongodb_script import MongodbScript
from postern.protocols.mongodb.recorded.mongodb_tables import MongodbResults

TIMEOUT = 30.0


@pytest.fixture(scope="module")
def server() -> Iterator[MongoServer]:
    with running_mongodb(auth=False) as running:
        yield running


@pytest.fixture
def shop(server: MongoServer) -> Iterator[pymongo.database.Database[dict[str, Any]]]:
    with server.client() as client:
        client.drop_database("shop")
        client.shop.orders.insert_many([{"_id": number, "sku": f"s{number % 3}"} for number in range(250)])
        client.shop.people.insert_one({"_id": 1, "email": "ann@example.com", "address": {"zip": "1000", "tags": ["x"]}})
        client.shop.command("create", "sales", viewOn="orders", pipeline=[{"$match": {"sku": "s1"}}])
        yield client.shop
        client.drop_database("shop")


def run(server: MongoServer, text: str) -> tuple[MongodbScript, list[Result]]:
    script, results = MongodbScript(text), MongodbResults()
    script.use_database("shop")
    found: list[Result] = []
    with socket.create_connection(("127.0.0.1", server.port), TIMEOUT) as connection:
        connection.sendall(script.start())
        while not script.finished:
            data = connection.recv(65536)
            assert data, "the server has closed the connection"
            found += results.feed(data)
            sent = script.feed(data)
            if sent:
                connection.sendall(sent)
    return script, found


def rows(results: list[Result]) -> list[tuple[str | None, ...]]:
    return [result.cells for result in results if isinstance(result, Row)]


def test_cursor_is_read_to_its_end(server: MongoServer, shop: object) -> None:
    script, results = run(server, "db.orders.find().sort({_id: 1}).batchSize(100)")
    assert script.exit_code() == 0
    assert results[0] == ResultColumns(("_id", "sku", "(other fields)"), ("int", "string", "object"))
    assert rows(results)[-1] == ("249", "s0", None)
    assert results[-1] == Finished("250 documents")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("db.orders.find({sku: /^S1/i}).limit(1)", [("1", "s1")]),
        ("db.orders.findOne({_id: {$gte: 5}}, {sku: 1, _id: 0})", [("s2",)]),
        ("db.orders.aggregate([{$match: {sku: 's1'}}, {$count: 'n'}])", [("83",)]),
        ("db.orders.countDocuments({sku: 's1'})", [("1", "83")]),
        ("db.orders.distinct('sku')", [("s0",), ("s1",), ("s2",)]),
        ("db.sales.find().limit(1)", [("1", "s1")]),
        ("db.people.find()", [("1", "ann@example.com", '{"zip": "1000", "tags": ["x"]}')]),
        ("db.orders.findOneAndDelete({_id: 7})", [("7", "s1")]),
        ("db.getSiblingDB('shop').getCollection('orders').find({_id: NumberLong('8')})", [("8", "s2")]),
        ('{"find": "orders", "filter": {"_id": {"$numberInt": "9"}}}', [("9", "s0")]),
        ("use shop\ndb['orders'].find({_id: 1})", [("1", "s1")]),
    ],
)
def test_statement_returns_what_it_does_in_a_shell(
    server: MongoServer, shop: object, text: str, expected: list[tuple[str, ...]]
) -> None:
    script, results = run(server, text)
    assert (script.exit_code(), rows(results)) == (0, expected), results


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("db.orders.insertOne({_id: 500})", ['{"n": 1}']),
        ("db.orders.updateMany({sku: 's1'}, {$set: {paid: true}})", ['{"n": 83, "nModified": 83}']),
        ("db.orders.deleteMany({_id: {$lt: 10}})", ['{"n": 10}']),
        ("db.orders.count()", ['{"n": 250}']),
        ("db.orders.estimatedDocumentCount()", ['{"n": 250}']),
        (
            "db.orders.bulkWrite([{insertOne: {document: {}}}, {deleteOne: {filter: {_id: 1}}}])",
            ['{"n": 1}', '{"n": 1}'],
        ),
        ("db.createCollection('new'); db.new.drop()", None),
        ("db.orders.createIndex({sku: 1}); db.orders.getIndexes(); db.orders.dropIndex('sku_1')", None),
        ("db.people.renameCollection('persons'); db.persons.find(); db.persons.drop()", None),
        ("show dbs; show collections; db.stats(); db.orders.stats(); db.version(); db.serverStatus(); db", None),
        ("db.orders.find().explain(); db.orders.aggregate([]).explain()", None),
        ("db.dropDatabase()", None),
    ],
)
def test_statement_succeeds(server: MongoServer, shop: object, text: str, tags: list[str] | None) -> None:
    script, results = run(server, text)
    assert script.exit_code() == 0, results
    if tags is not None:
        assert [result.tag for result in results if isinstance(result, Finished)] == tags


def test_write_error_ends_the_script(server: MongoServer, shop: pymongo.database.Database[dict[str, Any]]) -> None:
    script, results = run(server, "db.orders.insertOne({_id: 1}); db.orders.drop()")
    assert script.exit_code() == 1
    (problem,) = [result for result in results if isinstance(result, Problem) and result.fails]
    assert problem.code == "11000"
    assert shop.orders.count_documents({}) == 250


def test_unknown_command_is_an_error_with_its_name(server: MongoServer, shop: object) -> None:
    script, results = run(server, "db.runCommand({nonsense: 1})")
    assert script.exit_code() == 1
    (problem,) = results
    assert isinstance(problem, Problem)
    assert problem.code == "CommandNotFound"


def ask(server: MongoServer, query: Any) -> list[CatalogueRow]:
    """Runs a query as the gateway does. Its rows."""
    found: list[CatalogueRow] = []
    with socket.create_connection(("127.0.0.1", server.port), TIMEOUT) as connection:
        connection.sendall(query.start())
        while not query.finished:
            data = connection.recv(query.needs)
            assert data, "the server has closed the connection"
            found += query.feed(data)
            if isinstance(query, QueryInSteps) and (sent := query.request()):
                connection.sendall(sent)
    assert query.error is None, query.error
    return found


def answer(server: MongoServer, kind: TargetTaskKind, **arguments: str) -> Any:
    question = CATALOGUE.target_tasks[kind]
    return question.shape(
        ask(server, CATALOGUE.query(question.statement, [arguments.get(name) for name in question.values]))
    )


def test_catalogue_of_a_server(server: MongoServer, shop: object) -> None:
    assert answer(server, TargetTaskKind.TEST) == {"success": True}
    assert "shop" in answer(server, TargetTaskKind.DATABASES)["databases"]
    tables = {"schemas": [{"name": "shop", "tables": ["orders", "people", "sales"]}]}
    assert answer(server, TargetTaskKind.TABLES, schema="shop") == tables
    assert answer(server, TargetTaskKind.TABLES, database="shop") == tables
    fields = answer(server, TargetTaskKind.COLUMNS, table="people", schema="shop")["columns"]
    assert {(field["name"], field["type"], field["nullable"]) for field in fields} == {
        ("_id", "int", False),
        ("email", "string", False),
        ("address", "object", False),
        ("address.zip", "string", False),
        ("address.tags", "array", False),
    }
    (schema,) = answer(server, TargetTaskKind.SCHEMA, database="shop")["schemas"]
    assert [(table["name"], table["kind"], len(table["columns"])) for table in schema["tables"]] == [
        ("orders", "table", 2),
        ("people", "table", 5),
        ("sales", "view", 2),
    ]


def test_schema_for_rules_has_the_definitions_of_views(server: MongoServer, shop: object) -> None:
    schema = CATALOGUE.target_schema([ask(server, CATALOGUE.query(each, ())) for each in CATALOGUE.schema])
    assert (
        schema.relations["shop", "sales"].definition == '{"viewOn": "orders", "pipeline": [{"$match": {"sku": "s1"}}]}'
    )
    assert schema.relations["shop", "orders"].definition == ""


def test_bound_value_is_compared_as_a_text(server: MongoServer, shop: object) -> None:
    statement = '{"count": "orders", "query": {"sku": {"$parameter": 1}}, "$db": "shop"}'
    assert ask(server, MongodbQuery(statement, ["s1"])) == [('{"n": 83}',)]
    assert ask(server, MongodbQuery(statement, ['{"$gt": ""}'])) == [('{"n": 0}',)]
