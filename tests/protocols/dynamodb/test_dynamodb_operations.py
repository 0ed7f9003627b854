"""Effects, tables and indexes of operations."""

from __future__ import annotations

import json
from typing import Any

import botocore.session
import pytest

from postern.domain.rules.guarded_objects import parse_guarded
from postern.domain.rules.statement import EVERYTHING, Effect, ObjectKind, ObjectName, Statement
from postern.protocols.dynamodb.dialect.dynamodb_operations import OPERATIONS, STREAM_OPERATIONS
from postern.protocols.dynamodb.dialect.dynamodb_parser import DynamodbParser

ARN = "arn:aws:dynamodb:eu-central-1:111122223333:table/orders"


def judge(name: str, parameters: dict[str, Any]) -> Statement:
    (statement,) = DynamodbParser().parse(f"{name} {json.dumps(parameters)}")
    return statement


def test_every_operation_of_botocores_models_is_listed() -> None:
    session = botocore.session.get_session()
    names = set(session.get_service_model("dynamodb").operation_names)
    streams = set(session.get_service_model("dynamodbstreams").operation_names)
    assert names | streams == set(OPERATIONS)
    assert streams == STREAM_OPERATIONS


def test_parameters_that_name_tables_are_those_of_botocores_models() -> None:
    """No parameter that can name a table is overlooked."""
    session = botocore.session.get_session()
    for service in ("dynamodb", "dynamodbstreams"):
        model = session.get_service_model(service)
        for name in model.operation_names:
            shape = model.operation_model(name).input_shape
            members = set(shape.members) if shape is not None else set()
            naming = {
                each
                for each in members
                if each in ("TableName", "TableArn", "SourceTableName", "SourceTableArn", "TargetTableName")
                or each in ("ResourceArn", "GlobalTableName", "BackupArn", "StreamArn", "ExportArn", "ImportArn")
            }
            naming -= {"StreamArn"} if "Kinesis" in name else set()
            assert naming <= set(OPERATIONS[name].tables), name


R, W, D, A, G, U = Effect.READ, Effect.WRITE, Effect.DDL, Effect.ADMIN, Effect.GRANT, Effect.UNKNOWN
T = {"TableName": "orders"}

EFFECTS: list[tuple[str, dict[str, Any], set[Effect], set[str]]] = [
    ("GetItem", {**T, "Key": {}}, {R}, {"orders"}),
    ("Query", {**T, "IndexName": "by-city"}, {R}, {"orders", "orders.by-city"}),
    ("Scan", {"TableName": f"{ARN}/index/by-city"}, {R}, {"orders", "orders.by-city"}),
    ("PutItem", {**T, "Item": {}}, {W}, {"orders"}),
    ("PutItem", {**T, "ReturnValues": "ALL_OLD"}, {W, R}, {"orders"}),
    ("UpdateItem", {**T, "ReturnValues": "NONE"}, {W}, {"orders"}),
    ("DeleteItem", {**T, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}, {W, R}, {"orders"}),
    ("BatchGetItem", {"RequestItems": {"orders": {}, ARN.replace("orders", "users"): {}}}, {R}, {"orders", "users"}),
    ("BatchWriteItem", {"RequestItems": {"orders": []}}, {W}, {"orders"}),
    ("TransactGetItems", {"TransactItems": [{"Get": T}, {"Get": {"TableName": "b"}}]}, {R}, {"orders", "b"}),
    ("TransactWriteItems", {"TransactItems": [{"Put": T}, {"Delete": {"TableName": "b"}}]}, {W}, {"orders", "b"}),
    ("TransactWriteItems", {"TransactItems": [{"ConditionCheck": T}]}, {W, R}, {"orders"}),
    ("CreateTable", T, {D}, {"orders"}),
    ("CreateTable", {**T, "ResourcePolicy": "{}"}, {D, G}, {"orders"}),
    ("DeleteTable", {"TableName": ARN}, {D}, {"orders"}),
    ("UpdateTimeToLive", T, {D, W}, {"orders"}),
    ("ExportTableToPointInTime", {"TableArn": ARN, "S3Bucket": "b"}, {R, A}, {"orders"}),
    ("ImportTable", {"TableCreationParameters": T}, {D, W, A}, {"orders"}),
    ("PutResourcePolicy", {"ResourceArn": ARN}, {G}, {"orders"}),
    ("RestoreTableFromBackup", {"TargetTableName": "b", "BackupArn": f"{ARN}/backup/1"}, {D, R, W}, {"orders", "b"}),
    ("ListTables", {}, {R}, set()),
    ("ListBackups", {}, {R}, set()),
    ("ListStreams", T, {R}, {"orders"}),
    ("GetShardIterator", {"StreamArn": f"{ARN}/stream/2026-01-01T00:00:00.000"}, {R}, {"orders"}),
    ("GetRecords", {"ShardIterator": f"000|{ARN}/stream/2026|1|AAAA"}, {R}, {"orders"}),
    ("GetRecords", {"ShardIterator": "opaque"}, {R}, {"*"}),
    ("ExecuteStatement", {"Statement": 'SELECT * FROM "orders"."by-city" WHERE a = 1'}, {R},
     {"orders", "orders.by-city"}),
    ("ExecuteStatement", {"Statement": "insert into orders value {'id': 'FROM secrets'}"}, {W}, {"orders"}),
    ("ExecuteStatement", {"Statement": "DELETE FROM orders WHERE id = ? RETURNING ALL OLD *"}, {W, R}, {"orders"}),
    ("BatchExecuteStatement", {"Statements": [{"Statement": "SELECT * FROM a WHERE id=1"},
                                              {"Statement": "UPDATE b SET x=1 WHERE id=1"}]}, {R, W}, {"a", "b"}),
    ("ExecuteTransaction", {"TransactStatements": [{"Statement": "EXISTS(SELECT * FROM a WHERE id=1 AND x='y')"}]},
     {R}, {"a"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parameters", "effects", "names"), EFFECTS)
def test_effects_and_objects(name: str, parameters: dict[str, Any], effects: set[Effect], names: set[str]) -> None:
    statement = judge(name, parameters)
    assert (statement.tag, set(statement.effects)) == (name, effects)
    assert {_spelled(touched) for touched in statement.objects} == names


def _spelled(touched: ObjectName) -> str:
    if touched == EVERYTHING:
        return "*"
    assert touched.kind is ObjectKind.TABLE
    return touched.name if touched.name == touched.schema else f"{touched.schema}.{touched.name}"


UNKNOWN: list[tuple[str, dict[str, Any]]] = [
    ("DropEverything", T),
    ("GetItem", {}),
    ("GetItem", {"TableName": ["orders"]}),
    ("GetItem", {"TableName": "arn:aws:s3:::orders"}),
    ("GetItem", {"TableName": "orders secret"}),
    ("Query", {**T, "IndexName": {}}),
    ("BatchGetItem", {"RequestItems": []}),
    ("BatchGetItem", {"RequestItems": {}}),
    ("TransactWriteItems", {"TransactItems": [{"Execute": T}]}),
    ("TransactWriteItems", {"TransactItems": {"Put": T}}),
    ("TransactWriteItems", {"TransactItems": [{"Put": "orders"}]}),
    ("TransactGetItems", {"TransactItems": [{"Put": T}]}),
    ("ExecuteStatement", {}),
    ("ExecuteStatement", {"Statement": "DROP TABLE orders"}),
    ("BatchExecuteStatement", {"Statements": "SELECT * FROM a"}),
    ("BatchExecuteStatement", {"Statements": [None]}),
]


@pytest.mark.parametrize(("name", "parameters"), UNKNOWN)
def test_what_cannot_be_read_is_of_unknown_effect_on_anything(name: str, parameters: dict[str, Any]) -> None:
    statement = judge(name, parameters)
    assert Effect.UNKNOWN in statement.effects
    assert statement.reason
    assert EVERYTHING in statement.objects


@pytest.mark.parametrize(
    "text",
    ["{}", "GetItem [1]", 'GetItem {"TableName": "a", "TableName": "b"}', "GetItem {", "GetItem {\"a\": NaN}",
     'GetItem {"a": ' + "[" * 100_000],
)  # fmt: skip
def test_text_that_is_no_operation_is_of_unknown_effect(text: str) -> None:
    (statement,) = DynamodbParser().parse(text)
    assert Effect.UNKNOWN in statement.effects


SCANS: list[tuple[bool, str, dict[str, Any]]] = [
    (True, "Scan", T),
    (True, "Scan", {**T, "IndexName": "by-city"}),
    (False, "Scan", {**T, "Select": "COUNT"}),
    (False, "Scan", {**T, "Limit": 10}),
    (True, "Scan", {**T, "Limit": 10, "ExclusiveStartKey": {"id": {"S": "1"}}}),
    (True, "Scan", {**T, "Limit": 10, "TotalSegments": 4, "Segment": 0}),
    (False, "Scan", {**T, "FilterExpression": "city = :c"}),
    (False, "Scan", {**T, "FilterExpression": "contains(#n, :c)"}),
    (True, "Scan", {**T, "FilterExpression": "attribute_exists(id)"}),
    (True, "Scan", {**T, "FilterExpression": "attribute_exists(id) OR (attribute_not_exists (#x))"}),
    (True, "Scan", {**T, "FilterExpression": ":a = :a"}),
    (False, "Scan", {**T, "ScanFilter": {"city": {"ComparisonOperator": "EQ"}}}),
    (True, "Scan", {**T, "ScanFilter": {"city": {"ComparisonOperator": "NOT_NULL"}}}),
    (True, "Scan", {**T, "ScanFilter": {}}),
    (False, "Query", {**T, "KeyConditionExpression": "id = :i"}),
    (True, "ExecuteStatement", {"Statement": "SELECT * FROM orders"}),
    (True, "ExecuteStatement", {"Statement": "SELECT id FROM orders WHERE id IS NOT MISSING"}),
    (False, "ExecuteStatement", {"Statement": "SELECT * FROM orders WHERE id = ?"}),
    (False, "ExecuteStatement", {"Statement": "SELECT * FROM orders", "Limit": 5}),
    (True, "ExecuteStatement", {"Statement": "SELECT * FROM orders", "Limit": 5, "NextToken": "x"}),
]


@pytest.mark.parametrize(("reads_all", "name", "parameters"), SCANS)
def test_scan_without_filter_reads_all_rows(reads_all: bool, name: str, parameters: dict[str, Any]) -> None:
    expected = {ObjectName(ObjectKind.TABLE, "orders", "orders")} if reads_all else set()
    assert judge(name, parameters).scans == expected


@pytest.mark.parametrize("rule", ["orders", "orders.*", "*.orders", "orders.orders"])
def test_rule_that_names_a_table_matches_it_however_it_is_named(rule: str) -> None:
    guarded = parse_guarded(rule, "tables")
    for value in ("orders", ARN):
        assert any(guarded.hit_by(touched) for touched in judge("GetItem", {"TableName": value}).objects)
    assert not any(guarded.hit_by(touched) for touched in judge("GetItem", {"TableName": "users"}).objects)


def test_rule_can_name_an_index_and_a_table_with_dots() -> None:
    query = judge("Query", {**T, "IndexName": "by-city"})
    assert any(parse_guarded("orders.by-city", "tables").hit_by(touched) for touched in query.objects)
    assert not any(parse_guarded("orders.by-name", "tables").hit_by(touched) for touched in query.objects)
    dotted = judge("GetItem", {"TableName": "prod.orders"})
    assert any(parse_guarded("prod.orders", "tables").hit_by(touched) for touched in dotted.objects)
