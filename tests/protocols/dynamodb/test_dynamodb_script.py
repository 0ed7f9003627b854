from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.errors import Invalid
from postern.protocols.dynamodb.dialect.dynamodb_json import DynamodbOperation
from postern.protocols.dynamodb.dialect.dynamodb_operations import OPERATIONS
from postern.protocols.dynamodb.dialect.dynamodb_splitting import split_dynamodb
from postern.protocols.dynamodb.queries.dynamodb_script import DynamodbScript
from postern.protocols.dynamodb.queries.dynamodb_script_reader import ScriptError, read_script

READ: list[tuple[str, list[tuple[str, dict[str, Any]]]]] = [
    ("scan --table-name orders", [("Scan", {"TableName": "orders"})]),
    ("aws dynamodb list-tables", [("ListTables", {})]),
    ("aws dynamodbstreams list-streams --table-name=orders", [("ListStreams", {"TableName": "orders"})]),
    ("""put-item --table-name orders \\
          --item '{"id": {"S": "1; 2"},
                   "n": {"N": "1.50"}}'
        scan --table-name b --limit 5 --no-consistent-read --scan-index-forward""",
     [("PutItem", {"TableName": "orders", "Item": {"id": {"S": "1; 2"}, "n": {"N": "1.50"}}}),
      ("Scan", {"TableName": "b", "Limit": 5, "ConsistentRead": False, "ScanIndexForward": True})]),
    ("create-table --table-name t --attribute-definitions AttributeName=id,AttributeType=S "
     "--key-schema AttributeName=id,KeyType=HASH AttributeName=n,KeyType=RANGE "
     "--provisioned-throughput ReadCapacityUnits=1,WriteCapacityUnits=2 --sse-specification Enabled=true",
     [("CreateTable", {"TableName": "t", "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
                       "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"},
                                     {"AttributeName": "n", "KeyType": "RANGE"}],
                       "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 2},
                       "SSESpecification": {"Enabled": True}})]),
    ("get-item --table-name t --key {\\\"id\\\":{\\\"S\\\":\\\"1\\\"}} --attributes-to-get a b",
     [("GetItem", {"TableName": "t", "Key": {"id": {"S": "1"}}, "AttributesToGet": ["a", "b"]})]),
    ("export-table-to-point-in-time --table-arn a --s3-bucket b",
     [("ExportTableToPointInTime", {"TableArn": "a", "S3Bucket": "b"})]),
    ("query --table-name t --expression-attribute-values '{\":a\": {\"S\": \"it\\u0027s\"}}'",
     [("Query", {"TableName": "t", "ExpressionAttributeValues": {":a": {"S": "it's"}}})]),
    ('{"Scan": {"TableName": "a"}} {"Query": {"TableName": "b"}}\n',
     [("Scan", {"TableName": "a"}), ("Query", {"TableName": "b"})]),
    ('Scan {"TableName": "a"}; GetItem {\n "TableName": "b"\n}', [("Scan", {"TableName": "a"}),
                                                                  ("GetItem", {"TableName": "b"})]),
    ("select * from orders\n where id = 'a;b';\n# comment\nscan --table-name t",
     [("ExecuteStatement", {"Statement": "select * from orders\n where id = 'a;b'"}), ("Scan", {"TableName": "t"})]),
    ("", []),
    ("# nothing\n;;", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "operations"), READ)
def test_script_is_read_as_operations(text: str, operations: list[tuple[str, dict[str, Any]]]) -> None:
    statements = read_script(text)
    assert [tuple(statement.operation) for statement in statements] == operations
    spans = split_dynamodb(text)
    assert spans.problem is None
    assert spans.spans == tuple((statement.start, statement.end) for statement in statements)


UNREADABLE = [
    ("drop-everything", "the command 'drop-everything' is not known"),
    ("scan orders", "'orders' stands where an option must be"),
    ("scan --table-name t --query Items", "--query is not supported"),
    ("scan --table-name t --endpoint-url http://x", "--endpoint-url is not supported"),
    ("scan --table-name t --table-name b", "given twice"),
    ("scan --table-name 'open", "quote is not closed"),
    ("scan --limit many", "must be a number"),
    ('put-item --item \'{"a": 1, "a": 2}\'', "not valid JSON"),
    ('{"Drop": {}}', "is not known"),
    ('{"Scan": {}, "Query": {}}', "one name"),
    ('{"Scan": [', "the JSON is not valid"),
    ('{"Scan": []}', "must be an object"),
    ('Nothing {"a": 1}', "is not known"),
    ("SELECT * FROM t WHERE id = 'open", "quote is not closed"),
    ("[1]", "is not known"),
]


@pytest.mark.parametrize(("text", "reason"), UNREADABLE)
def test_script_that_cannot_be_read_is_invalid(text: str, reason: str) -> None:
    with pytest.raises(Invalid, match=f"script: line 1: .*{reason}"):
        DynamodbScript(text).start()
    assert split_dynamodb(text).problem is not None


@given(st.text(st.sampled_from("scan-tblemorST{}[]\"'\\;\n:#, *1"), max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        statements = read_script(text)
    except ScriptError:
        return
    ends = [0]
    for statement in statements:
        assert ends[-1] <= statement.start < statement.end <= len(text)
        ends.append(statement.end)


def test_requests_have_the_text_that_rules_see() -> None:
    script = DynamodbScript("scan --table-name orders\nlist-tables")
    script.use_database(None)
    assert [(request.start, request.end, request.text) for request in script.requests()] == [
        (0, 24, 'Scan {"TableName": "orders"}'),
        (25, 36, "ListTables {}"),
    ]


def test_every_operation_can_be_written_as_a_command() -> None:
    """The names of some begin with a verb of PartiQL: `update-item`, `delete-table`."""
    for name in OPERATIONS:
        command = "".join(f"-{sign.lower()}" if sign.isupper() else sign for sign in name).removeprefix("-")
        (statement,) = read_script(f"{command} --table-name t")
        assert statement.operation == DynamodbOperation(name, {"TableName": "t"})
