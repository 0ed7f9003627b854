from __future__ import annotations

from typing import Any

import pytest
from botocore import xform_name
from hypothesis import given
from hypothesis import strategies as st
from tests.support.aws_shapes import model_shapes

from postern.errors import Invalid
from postern.protocols.aws.commands.command_options import option_name
from postern.protocols.aws.commands.command_words import AwsCommandError
from postern.protocols.dynamodb.dialect.dynamodb_json import DynamodbOperation
from postern.protocols.dynamodb.dialect.dynamodb_operations import OPERATIONS
from postern.protocols.dynamodb.dialect.dynamodb_splitting import split_dynamodb
from postern.protocols.dynamodb.queries.dynamodb_script import DynamodbScript
from postern.protocols.dynamodb.queries.dynamodb_script_reader import read_script
from postern.protocols.dynamodb.queries.dynamodb_shapes import SHAPES

READ: list[tuple[str, list[tuple[str, dict[str, Any]]]]] = [
    ("scan --table-name orders", [("Scan", {"TableName": "orders"})]),
    ("aws dynamodb list-tables", [("ListTables", {})]),
    ("aws dynamodbstreams list-streams --table-name=orders", [("ListStreams", {"TableName": "orders"})]),
    ("""put-item --table-name orders \\
          --item '{"id": {"S": "1; 2"},
                   "n": {"N": "1.50"}}'
        query --table-name b --limit 5 --no-consistent-read --scan-index-forward""",
     [("PutItem", {"TableName": "orders", "Item": {"id": {"S": "1; 2"}, "n": {"N": "1.50"}}}),
      ("Query", {"TableName": "b", "Limit": 5, "ConsistentRead": False, "ScanIndexForward": True})]),
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
    ("\\\n", []),
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
    ("scan orders", "'orders' does not belong to an option"),
    ("scan --table-name t --query Items", "results cannot be queried here"),
    ("scan --table-name t --endpoint-url http://x", "the connection has an endpoint"),
    ("scan --table-name t --table-name b", "given twice"),
    ("scan --table-name 'open", "quote is not closed"),
    ("scan --limit many", "'many' is not a whole number"),
    ("scan --limit 1 --max-items 2", "the same here"),
    ("scan --page-size 0", "must be a positive number"),
    ("list-tables --table-name t", "--table-name is not an option"),
    ("scan --table-name $(id)", "for a shell"),
    ("scan --table-name t > file", "for a shell"),
    ("put-item --item file://secret", "files cannot be read here"),
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
    with pytest.raises(Invalid, match=f"script: line 1, column [0-9]+: .*{reason}"):
        DynamodbScript(text).start()
    assert split_dynamodb(text).problem is not None


@given(st.text(st.sampled_from("scan-tblemorST{}[]\"'\\;\n:#, *1"), max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        statements = read_script(text)
    except AwsCommandError:
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
        (statement,) = read_script(xform_name(name, "-"))
        assert statement.operation == DynamodbOperation(name, {})


def test_shapes_are_those_of_the_models() -> None:
    assert model_shapes("dynamodb") | model_shapes("dynamodbstreams") == SHAPES
    options = {option for shape in SHAPES.values() for option in shape}
    assert {name: option_name(name) for name in options} == {name: xform_name(name, "-") for name in options}


@pytest.mark.parametrize(
    ("line", "parameters"),
    [
        ("scan --max-items 5", {"Limit": 5}),
        ("scan --page-size=5", {"Limit": 5}),
        ("scan --no-consistent-read --table-name='a b'", {"ConsistentRead": False, "TableName": "a b"}),
        ("tag-resource --tags Key=a,Value=true Key=b,Value=2",
         {"Tags": [{"Key": "a", "Value": "true"}, {"Key": "b", "Value": "2"}]}),
        ("list-contributor-insights --max-results 7", {"MaxResults": 7}),
        ('get-item --cli-input-json \'{"TableName": "t", "Key": {}}\' --table-name u', {"TableName": "u", "Key": {}}),
        ("execute-statement --statement 'SELECT 1' --parameters '[{\"S\": \"a\"}]'",
         {"Statement": "SELECT 1", "Parameters": [{"S": "a"}]}),
        ("export-table-to-point-in-time --export-time 2023-11-14T22:13:20Z", {"ExportTime": 1700000000}),
    ],
)  # fmt: skip
def test_options_have_the_types_of_the_models(line: str, parameters: dict[str, Any]) -> None:
    (statement,) = read_script(line)
    assert statement.operation.parameters == parameters
