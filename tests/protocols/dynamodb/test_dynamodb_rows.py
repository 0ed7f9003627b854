"""Items as rows: columns, types that stay valid, places of items, the encoded body."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postern.domain.sessions.results import Row
from postern.interception.events import Column, Output, Rows, Scalar, TextKind
from postern.protocols.aws.aws_json_reader import AwsJsonAnswer, AwsJsonReader
from postern.protocols.dynamodb.dialect.dynamodb_json import operation_text, read_operation
from postern.protocols.dynamodb.recorded.dynamodb_answers import DynamodbResults
from postern.protocols.dynamodb.wire.attribute_values import is_number
from postern.protocols.dynamodb.wire.dynamodb_dialect import DynamodbDialect
from postern.protocols.dynamodb.wire.dynamodb_rows import FIELD_NAMES, AttributeColumns, DynamodbRows, FoundItem
from postern.protocols.dynamodb.wire.response_items import find_items
from postern.protocols.dynamodb.wire.sealed_keys import KeySealer
from postern.protocols.http.http_frames import (
    RESPONSE_DATA,
    RESPONSE_END,
    HttpFrameReader,
    data_frames,
    end_frame,
    response_frame,
)
from postern.protocols.http.http_heads import RequestHead, ResponseHead, first_value
from postern.protocols.wire_base import Wants

ITEM: dict[str, Any] = {
    "id": {"N": "7"},
    "name": {"S": "Ada"},
    "map": {"M": {"zip": {"S": "10115"}, "a b": {"N": "1"}, "in": {"L": [{"S": "x"}, {"M": {"y": {"S": "z"}}}]}}},
    "set": {"SS": ["a", "b"]},
    "numbers": {"NS": ["1", "2"]},
    "text in bytes": {"B": base64.b64encode(b"ada@example.com").decode()},
    "bytes": {"B": base64.b64encode(b"\x00\xff").decode()},
    "flag": {"BOOL": True},
    "nothing": {"NULL": True},
}


def rows_of(*items: dict[str, Any], table: str = "people") -> tuple[DynamodbRows, AwsJsonAnswer]:
    content = {"Items": list(items)}
    answer = AwsJsonAnswer(1, ResponseHead(200), json.dumps(content).encode(), content)
    return DynamodbRows(answer, [FoundItem(table, item) for item in items], AttributeColumns()), answer


def copy(item: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(item))
    return found


def index(rows: Rows, name: str) -> int:
    return [column.name for column in rows.columns].index(name)


def test_columns_are_paths_with_kinds_and_origins() -> None:
    rows, _ = rows_of(copy(ITEM))
    assert {(column.name, column.kind) for column in rows.columns} == {
        ("id", TextKind.NUMBER),
        ("name", TextKind.TEXT),
        ("map.zip", TextKind.TEXT),
        ("map.a b", TextKind.NUMBER),
        ("map.in", TextKind.TEXT),
        ("map.in.y", TextKind.TEXT),
        ("set", TextKind.TEXT),
        ("numbers", TextKind.NUMBER),
        ("text in bytes", TextKind.TEXT),
        ("bytes", TextKind.OPAQUE),
        ("flag", TextKind.OPAQUE),
        ("nothing", TextKind.OPAQUE),
        (FIELD_NAMES, TextKind.TEXT),
    }
    origins = {column.name: column.origin for column in rows.columns if column.name != FIELD_NAMES}
    assert origins["map.zip"] == ("", "people", "map.zip")
    names = [column.origin for column in rows.columns if column.name == FIELD_NAMES]
    assert names == [("", "people", "map"), ("", "people", "")]
    assert rows.texts(index(rows, "set")) == [b"a", b"b"]
    assert rows.texts(index(rows, "text in bytes")) == [b"ada@example.com"]


CHANGES: list[tuple[str, bytes | None, dict[str, Any]]] = [
    ("name", b"****", {"S": "****"}),
    ("name", None, {"NULL": True}),
    ("id", b"12.5", {"N": "12.5"}),
    ("id", b"****", {"NULL": True}),
    ("set", b"****", {"SS": ["****"]}),
    ("set", None, {"NULL": True}),
    ("numbers", b"0", {"NS": ["0"]}),
    ("numbers", b"x", {"NULL": True}),
    ("bytes", b"", {"B": ""}),
    ("flag", b"f", {"BOOL": False}),
    ("flag", b"maybe", {"NULL": True}),
    ("nothing", b"x", {"NULL": True}),
]


@pytest.mark.parametrize(("name", "new", "value"), CHANGES)
def test_changed_value_is_valid_for_its_type(name: str, new: bytes | None, value: dict[str, Any]) -> None:
    rows, answer = rows_of(copy(ITEM), copy(ITEM))
    column = index(rows, name)
    count, _ = rows.change(column, lambda scalar, old: new)
    answer.encode()
    assert answer.content["Items"][0][name] == answer.content["Items"][1][name] == value
    assert rows.find_changed_rows(column) == (b"\x03" if count else b"\x00")


def test_only_changed_rows_are_marked_and_other_values_stay() -> None:
    first, second = copy(ITEM), copy(ITEM)
    second["name"] = {"S": "Bea"}
    rows, answer = rows_of(first, second)
    column = index(rows, "name")
    rows.replace(column, [b"Ada", b"****"])
    assert rows.find_changed_rows(column) == b"\x02"
    answer.encode()
    assert json.loads(answer.body) == {"Items": [ITEM, {**ITEM, "name": {"S": "****"}}]}


def test_masked_names_of_fields_stay_apart() -> None:
    item = {"m": {"M": {"a@x.com": {"S": "1"}, "b@x.com": {"S": "2"}, "c": {"S": "3"}}}}
    rows, answer = rows_of(item)
    column = index(rows, FIELD_NAMES)
    assert rows.texts(column) == [b"a@x.com", b"b@x.com"]
    rows.replace(column, [b"****", b"****"])
    rows.change(index(rows, "m.c"), lambda scalar, value: b"!")
    answer.encode()
    assert answer.content["Items"][0] == {"m": {"M": {"****": {"S": "1"}, "****2": {"S": "2"}, "c": {"S": "!"}}}}


BAD_ITEMS: list[Any] = [
    [],
    {"a": "text"},
    {"a": {}},
    {"a": {"S": "1", "N": "1"}},
    {"a": {"S": 1}},
    {"a": {"X": "1"}},
    {"a": {"B": "not base64!"}},
    {"a": {"L": {}}},
    {"a": {"SS": "a"}},
    {"a": {"SS": [1]}},
    {"a": {"M": []}},
    {"a" * 5000: {"S": "1"}},
    {f"a{number}": {"S": "1"} for number in range(5000)},
]


@pytest.mark.parametrize("item", BAD_ITEMS, ids=range(len(BAD_ITEMS)))
def test_what_is_no_item_is_refused(item: Any) -> None:
    with pytest.raises(ValueError, match=r"item|attribute|response"):
        rows_of(item)


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        (b"0", True), (b"-1.50", True), (b"1e125", True), (b".5", True), (b"1" * 38, True), (b"1" + b"0" * 60, True),
        (b"1" * 39, False), (b"1e126", False), (b"1e-131", False), (b"", False), (b"NaN", False), (b"0x1", False),
        (b"1_0", False), (b"\xd9\xa1", False), (b"1e99999", False),
    ],
)  # fmt: skip
def test_numbers_are_those_of_dynamodb(text: bytes, valid: bool) -> None:
    assert is_number(text) is valid


P = {"TableName": "people"}
I = {"email": {"S": "a"}}  # noqa: E741
ARN = "arn:aws:dynamodb:eu-central-1:1:table/people"
PLACES: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    ("GetItem", P, {"Item": I}, ["people"]),
    ("GetItem", {"TableName": ARN}, {"Item": I}, ["people"]),
    ("GetItem", P, {}, []),
    ("UpdateItem", P, {"Attributes": I, "ItemCollectionMetrics": {"ItemCollectionKey": I}}, ["people", "people"]),
    ("Query", P, {"Items": [I, I], "Count": 2}, ["people", "people"]),
    ("BatchGetItem", {}, {"Responses": {"people": [I], "b": [I]}, "UnprocessedKeys": {"people": {"Keys": [I]}}},
     ["people", "b"]),
    ("BatchWriteItem", {}, {"ItemCollectionMetrics": {"people": [{"ItemCollectionKey": I}]}}, ["people"]),
    ("TransactGetItems", {"TransactItems": [{"Get": {"TableName": "b"}}, {"Get": P}]}, {"Responses": [{}, {"Item": I}]},
     ["people"]),
    ("ExecuteStatement", {"Statement": "SELECT * FROM people"}, {"Items": [I]}, ["people"]),
    ("ExecuteStatement", {"Statement": "SELECT size(email) FROM people"}, {"Items": [I]}, [""]),
    ("BatchExecuteStatement", {"Statements": [{"Statement": "SELECT * FROM b"}, {"Statement": "SELECT * FROM people"}]},
     {"Responses": [{"Error": {"Code": "x", "Item": I}}, {"Item": I}]}, ["b", "people"]),
    ("ExecuteTransaction", {"TransactStatements": [{"Statement": "SELECT * FROM people"}]},
     {"Responses": [{"Item": I}]}, ["people"]),
    ("SearchVectors", P, {"SearchResults": [{"Item": I, "Score": 1}]}, ["people"]),
    ("GetRecords", {"ShardIterator": f"{ARN}/stream/2026|1"},
     {"Records": [{"dynamodb": {"Keys": I, "NewImage": I, "OldImage": I}}]}, ["people"] * 3),
    ("GetRecords", {"ShardIterator": "opaque"}, {"Records": [{"dynamodb": {"Keys": I}}]}, [""]),
    ("DescribeTable", P, {"Table": {}}, []),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parameters", "content", "tables"), PLACES)
def test_items_are_found_with_their_tables(
    name: str, parameters: dict[str, Any], content: dict[str, Any], tables: list[str]
) -> None:
    assert [item.table for item in find_items(name, parameters, content)] == tables


def test_projected_path_of_partiql_is_the_origin() -> None:
    (item,) = find_items(
        "ExecuteStatement", {"Statement": "SELECT address.zip, id FROM people"}, {"Items": [{"zip": {"S": "1"}}]}
    )
    answer = AwsJsonAnswer(1, ResponseHead(200), b"", {})
    rows = DynamodbRows(answer, [item], AttributeColumns())
    assert rows.columns == (Column("address.zip", TextKind.TEXT, origin=("", "people", "address.zip")),)


# Responses as a whole


def respond(
    name: str, parameters: dict[str, Any], content: Any, *, status: int = 200, chunk: int = 10, by: Any = None
) -> tuple[ResponseHead, bytes]:
    dialect = DynamodbDialect(KeySealer(b"secret", "anna"))
    head = RequestHead("POST", "/", "host", ((b"x-amz-target", f"DynamoDB_20120810.{name}".encode()),))
    request = dialect.read_request(1, head, json.dumps(parameters).encode(), is_complete=True)
    assert request.forced is None
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    response = ResponseHead(status, ((b"x-amz-crc32", b"%d" % zlib.crc32(body)),), len(body))
    reader = dialect.read_response(request, response, Wants(rows=True, output=True))
    assert isinstance(reader, AwsJsonReader)
    pieces = reader.begin()
    for at in range(0, len(body), chunk):
        pieces += reader.feed(body[at : at + chunk])
    frames = HttpFrameReader()
    data = b""
    for piece in pieces + reader.finish(()):
        if isinstance(piece, (Rows, Output)):
            if by is not None:
                by(piece)
            piece = piece.encode()  # type: ignore[union-attr]
        assert isinstance(piece, bytes)
        data += piece
    found = frames.feed(data)
    assert found[-1].kind == RESPONSE_END
    assert reader.head is not None
    return reader.head, b"".join(frame.payload for frame in found if frame.kind == RESPONSE_DATA)


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_unchanged_response_is_sent_byte_for_byte(chunk: int) -> None:
    body = b'{"Item" : {"a":{"N":"1.0"}}, "ConsumedCapacity":{"CapacityUnits":0.5}}'
    head, sent = respond("GetItem", P, body, chunk=chunk)
    assert sent == body
    assert int(first_value(head.headers, b"x-amz-crc32")) == zlib.crc32(body)


def mask_all(event: Rows | Output) -> None:
    if isinstance(event, Rows):
        for column in range(len(event.columns)):
            event.change(column, lambda scalar, value: b"0" if scalar is Scalar.DECIMAL else b"****")
    else:
        event.replace([b"****" for _ in event.texts()])


def test_changed_response_has_its_own_checksum_and_length() -> None:
    head, sent = respond("GetItem", P, {"Item": {"a": {"S": "é"}, "n": {"N": "5"}}}, by=mask_all)
    assert json.loads(sent) == {"Item": {"a": {"S": "****"}, "n": {"N": "0"}}}
    assert head.length == len(sent)
    assert int(first_value(head.headers, b"x-amz-crc32")) == zlib.crc32(sent)


def test_items_and_texts_of_errors_are_events() -> None:
    content = {
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "Message": "cancelled",
        "CancellationReasons": [{"Code": "None"}, {"Code": "ConditionalCheckFailed", "Message": "m", "Item": I}],
    }
    parameters = {"TransactItems": [{"Put": {"TableName": "b"}}, {"Put": P}]}
    _, sent = respond("TransactWriteItems", parameters, content, status=400, by=mask_all)
    assert json.loads(sent)["CancellationReasons"][1] == {
        "Code": "ConditionalCheckFailed",
        "Message": "****",
        "Item": {"email": {"S": "****"}},
    }
    assert json.loads(sent)["Message"] == "****"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"Item": [1]}', b'{"Item": {"a": {"S": 1}}}', b"\xff"])
def test_response_that_is_not_dynamodbs_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"response|item|attribute"):
        respond("GetItem", P, body)


REFUSED_REQUESTS: list[tuple[RequestHead, bytes, str]] = [
    (RequestHead("GET", "/", "host"), b"", "no operation"),
    (RequestHead("POST", "/x", "host", ((b"x-amz-target", b"DynamoDB_20120810.Scan"),)), b"{}", "no operation"),
    (RequestHead("POST", "/", "host", ((b"x-amz-target", b"DynamoDB_20111205.Scan"),)), b"{}", "is unknown"),
    (RequestHead("POST", "/", "host", ((b"x-amz-target", b"DynamoDB_20120810.GetRecords"),)), b"{}", "is unknown"),
    (RequestHead("POST", "/", "host", ((b"x-amz-target", b"DynamoDBStreams_20120810.Scan"),)), b"{}", "is unknown"),
    (RequestHead("POST", "/", "host", ((b"x-amz-target", b"DynamoDB_20120810.Scan"),
                                       (b"content-type", b"application/x-amz-cbor-1.1"))), b"{}", "content type"),
    (RequestHead("POST", "/", "host", ((b"x-amz-target", b"DynamoDB_20120810.Scan"),
                                       (b"content-encoding", b"gzip"))), b"{}", "compressed"),
    (RequestHead("POST", "/", "host", ((b"x-amz-target", b"DynamoDB_20120810.Scan"),)), b'{"a":1,"a":2}', "twice"),
    (RequestHead("POST", "/", "host", ((b"x-amz-target", b"DynamoDB_20120810.Scan"),)), b"{}\x00", "not valid JSON"),
    (RequestHead("POST", "/", "host", ((b"x-amz-target", b"DynamoDB_20120810.Scan"),)),
     '{"TableName": "a"}'.encode("utf-16"), "not valid JSON"),
]  # fmt: skip


@pytest.mark.parametrize(("head", "body", "reason"), REFUSED_REQUESTS)
def test_request_that_cannot_be_read_is_refused(head: RequestHead, body: bytes, reason: str) -> None:
    dialect = DynamodbDialect(KeySealer(b"secret", "anna"))
    request = dialect.read_request(1, head, body, is_complete=True)
    assert request.forced is not None
    assert reason in request.forced.message
    assert request.operations == []
    response, content = dialect.refusal(request, request.forced)
    assert (response.status, reason in content.decode()) == (400, True)


# Properties

leaves = st.one_of(
    st.text(max_size=8).map(lambda text: {"S": text}),
    st.integers(-999, 999).map(lambda number: {"N": str(number)}),
    st.binary(max_size=6).map(lambda data: {"B": base64.b64encode(data).decode()}),
    st.booleans().map(lambda value: {"BOOL": value}),
    st.just({"NULL": True}),
    st.sets(st.text(max_size=4), min_size=1, max_size=3).map(lambda texts: {"SS": sorted(texts)}),
)
attributes: st.SearchStrategy[dict[str, Any]] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: {"L": items}),
        st.dictionaries(st.text(max_size=4), inner, max_size=3).map(lambda items: {"M": items}),
    ),
    max_leaves=8,
)
items = st.lists(st.dictionaries(st.text(min_size=1, max_size=5), attributes, max_size=4), max_size=4)


@settings(max_examples=150, deadline=None)
@given(items, st.integers(1, 30))
def test_any_items_pass_unchanged_and_show_nothing_when_all_is_masked(found: list[Any], chunk: int) -> None:
    content = {"Items": found, "Count": len(found)}
    _, sent = respond("Scan", P, content, chunk=chunk)
    assert json.loads(sent) == content
    head, sent = respond("Scan", P, content, chunk=chunk, by=mask_all)
    assert int(first_value(head.headers, b"x-amz-crc32")) == zlib.crc32(sent)
    again, _ = rows_of(*json.loads(sent)["Items"])  # still valid items
    for column in range(len(again.columns)):
        if again.columns[column].name != FIELD_NAMES:
            assert {text.rstrip(b"0123456789") for text in again.texts(column)} <= {b"****", b""}


@given(
    st.dictionaries(st.text(max_size=5), st.recursive(st.text(max_size=5), lambda inner: st.lists(inner)), max_size=3)
)
def test_text_of_an_operation_is_one_line_and_reads_back(parameters: dict[str, Any]) -> None:
    text = operation_text("PutItem", parameters)
    assert len(text.splitlines()) == 1
    assert read_operation(text) == ("PutItem", parameters)


@pytest.mark.parametrize("length", [True, False])
def test_results_are_complete_with_the_last_byte_of_a_body_of_known_length(length: bool) -> None:
    """Marks of masked cells are about these bytes."""
    body = json.dumps({"Items": [{"id": {"S": "1"}}]}).encode()
    reader = DynamodbResults()
    before = reader.feed(response_frame(1, ResponseHead(200, (), len(body) if length else None)))
    within = reader.feed(data_frames(RESPONSE_DATA, 1, body))
    after = reader.feed(end_frame(RESPONSE_END, 1))
    rows = [[isinstance(result, Row) for result in results].count(True) for results in (before, within, after)]
    assert rows == [0, int(length), int(not length)]
