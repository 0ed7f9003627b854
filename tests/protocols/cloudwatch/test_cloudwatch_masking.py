"""Answers of CloudWatch, masked by the rules of Postern and read by botocore."""

from __future__ import annotations

import base64
import json
from typing import Any
from zlib import crc32

import cbor2
import pytest
from botocore.eventstream import EventStreamBuffer
from tests.support.cloudwatch import (
    EMAIL,
    MODELS,
    PROTOCOLS,
    Conversation,
    column_rule,
    encoded,
    model_of,
    parsed,
    sample,
)

from postern.domain.rules.masking import InfoType, Strategy
from postern.protocols.cloudwatch.wire.event_stream import encode_frame, encode_texts
from postern.protocols.http.http_heads import ResponseHead
from postern.protocols.wire_base import Wants

_EMAILS = frozenset({InfoType.EMAIL_ADDRESS})
_GROUP = {"logGroupName": "/shop/a"}
_STREAMS = frozenset({"StartLiveTail", "GetLogObject"})


def _events(*messages: str) -> dict[str, Any]:
    return {
        "events": [
            {"logStreamName": "s", "timestamp": 1700000000000, "message": message, "ingestionTime": 2, "eventId": EMAIL}
            for message in messages
        ],
        "searchedLogStreams": [],
        "nextToken": "t/ok=" + EMAIL,
    }


def _messages(answer: dict[str, Any]) -> list[str | None]:
    return [event["message"] for event in answer["events"]]


def _all() -> list[tuple[str, str, str]]:
    return [
        (service, protocol, operation)
        for service, protocol in PROTOCOLS
        for operation in MODELS[service].operation_names
        if operation not in _STREAMS
    ]


@pytest.mark.parametrize(("service", "protocol", "operation"), _all())
def test_botocore_reads_masked_answers_of_every_operation(service: str, protocol: str, operation: str) -> None:
    shape = model_of(service, operation).output_shape
    body = encoded(service, operation, sample(shape), protocol)
    before = parsed(service, operation, ResponseHead(200, (), len(body)), body, protocol)
    conversation = Conversation(types=_EMAILS)
    request = conversation.ask(service, operation, _least(service, operation), protocol)
    head, sent = conversation.answer(request, body, chunk=50)
    assert head.length == len(sent)
    after = parsed(service, operation, head, sent, protocol)
    assert _shape(after) == _shape(before)
    unmasked = {key for key, text in _leaves(after) if text == EMAIL}
    assert unmasked <= {key for key in unmasked if key.endswith(_IDENTIFIERS)}


_IDENTIFIERS = (
    *("Arn", "ARN", "Arns", "Name", "Names", "Id", "Ids", "Token", "Identifier", "Identifiers", "Type", "Types"),
    *("State", "Status", "Code", "Unit", "Format", "Class", "Namespace", "name", "arn", "id", "type", "state", "code"),
    *("status", "queryLanguage", "List", "Formats", "encryptionKey", "Language"),
)


def _least(service: str, operation: str) -> dict[str, Any]:
    """The required parameters."""
    shape = model_of(service, operation).input_shape
    if shape is None:
        return {}
    return {name: sample(shape.members[name], "x" * 20) for name in shape.required_members}


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shape(inner) for inner in value]
    return type(value)


def _leaves(value: Any, key: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [leaf for name, inner in value.items() for leaf in _leaves(inner, name)]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in _leaves(inner, key)]
    return [(key, value)]


@pytest.mark.parametrize("chunk", [1, 7, 100, 1 << 20])
def test_messages_are_masked_and_tokens_stay(chunk: int) -> None:
    conversation = Conversation(types=_EMAILS)
    request = conversation.ask("logs", "FilterLogEvents", _GROUP)
    body = json.dumps(_events(f"mail to {EMAIL}", "nothing")).encode()
    head, sent = conversation.answer(request, body, chunk=chunk)
    answer = json.loads(sent)
    assert answer["events"][0]["message"] == "mail to ****@****.***" or EMAIL not in answer["events"][0]["message"]
    assert answer["events"][1]["message"] == "nothing"
    assert answer["nextToken"] == "t/ok=" + EMAIL
    assert answer["events"][0]["eventId"] == EMAIL
    assert answer["events"][0]["timestamp"] == 1700000000000
    assert head.length == len(sent)


def test_answer_without_anything_to_mask_is_sent_as_it_came() -> None:
    conversation = Conversation(types=_EMAILS)
    body = b'{ "events" : [ {"message": "\\u0041", "timestamp": 1.0} ] }'
    assert conversation.answer(conversation.ask("logs", "FilterLogEvents", _GROUP), body)[1] == body


@pytest.mark.parametrize("has_checksum", [True, False])
def test_checksum_is_computed_anew_where_there_is_one(has_checksum: bool) -> None:
    conversation = Conversation(types=_EMAILS)
    body = json.dumps(_events(EMAIL)).encode()
    headers = ((b"x-amz-crc32", b"1"),) if has_checksum else ()
    request = conversation.ask("logs", "FilterLogEvents", _GROUP)
    head, sent = conversation.answer(request, body, ResponseHead(200, headers, len(body)))
    assert head.headers == (((b"x-amz-crc32", b"%d" % crc32(sent)),) if has_checksum else ())


@pytest.mark.parametrize(
    ("columns", "message", "masked"),
    [
        (("/shop/a.message",), "anything", "****"),
        (("logs./shop/a.message",), "anything", "****"),
        (("/shop/b.message",), "anything", "anything"),
        (("message",), '{"a": {"b": 1}, "c": ["x", true]}', '{"a":{"b":0},"c":["****",false]}'),
        (("message.user.name",), '{"user": {"name": "Ann", "id": 7}}', '{"user":{"name":"****","id":7}}'),
        (("/shop/a.message.user",), '{"user": {"name": "Ann"}, "b": 1}', '{"user":{"name":"****"},"b":1}'),
        (("name",), '{"user": {"name": "Ann", "id": 7}}', '{"user":{"name":"****","id":7}}'),
        (("name",), '{"log": "{\\"name\\": \\"Ann\\"}"}', '{"log":"{\\"name\\":\\"****\\"}"}'),
        (("name",), '{"name": "Ann", "name": "Bob"}', '{"name":"****","name":"****"}'),
        (("name",), '{"name": "Ann", "cut', "****"),
        (("name",), "name=Ann", "name=Ann"),
        (("name",), '{"n": 1.0, "x": "é"}', '{"n": 1.0, "x": "é"}'),
    ],
)
def test_column_rules_reach_into_messages(columns: tuple[str, ...], message: str, masked: str) -> None:
    conversation = Conversation(column_rule(*columns))
    answer = conversation.exchange("logs", "FilterLogEvents", _GROUP, _events(message))
    assert _messages(answer) == [masked]


@pytest.mark.parametrize(
    "message",
    [
        json.dumps({"user": EMAIL}),
        json.dumps({EMAIL: 1}),
        json.dumps([{"a": {"b": [EMAIL]}}]),
        json.dumps({"log": json.dumps({"inner": EMAIL})}),
        f'{{"a": "{EMAIL}", "a": "x"}}',
        '{"a": "ann.miller\\u0040example.com"}',
    ],
)
def test_values_are_found_in_messages_that_are_json(message: str) -> None:
    conversation = Conversation(types=_EMAILS)
    (masked,) = _messages(
        conversation.exchange("logs", "GetLogEvents", {**_GROUP, "logStreamName": "s"}, _events(message))
    )
    assert masked is not None
    assert json.loads(masked)
    assert "miller" not in masked


def test_values_that_users_name_are_searched_whatever_their_name() -> None:
    conversation = Conversation(types=_EMAILS)
    answer = conversation.exchange(
        "logs", "ListTagsForResource", {"resourceArn": "arn:aws:logs:x"}, {"tags": {"OwnerName": EMAIL, "id": "x"}}
    )
    assert EMAIL not in answer["tags"]["OwnerName"]
    assert answer["tags"]["id"] == "x"


def test_column_rule_about_times_keeps_numbers() -> None:
    conversation = Conversation(column_rule("timestamp"))
    answer = conversation.exchange("logs", "FilterLogEvents", _GROUP, _events("x"))
    assert answer["events"][0]["timestamp"] == 0
    assert answer["events"][0]["ingestionTime"] == 2


_RESULTS = {
    "results": [
        [
            {"field": "@message", "value": f"hello {EMAIL}"},
            {"field": "user", "value": "Ann"},
            {"field": "n", "value": "3"},
            {"field": "@ptr", "value": EMAIL},
        ]
    ],
    "statistics": {"recordsMatched": 1.0},
    "status": "Complete",
}


def _query(conversation: Conversation, query: str, *, starts: bool = True) -> dict[str, str | None]:
    started = {"logGroupNames": ["/shop/a"], "startTime": 1, "endTime": 2, "queryString": query}
    if starts:
        conversation.exchange("logs", "StartQuery", started, {"queryId": "q1"})
    answer = conversation.exchange("logs", "GetQueryResults", {"queryId": "q1"}, _RESULTS)
    return {cell["field"]: cell["value"] for cell in answer["results"][0]}


_QUERY = "fields @message, user | stats count(*) as n by @message, user"


@pytest.mark.parametrize(
    ("column", "masked"),
    [
        ("/shop/a.message", {"@message": "****", "user": "****"}),
        ("/shop/a.message.user", {"user": "****"}),
        ("user", {"user": "****"}),
        ("/shop/b.message", {}),
    ],
)
def test_results_of_queries_are_masked_by_the_groups_that_they_read(column: str, masked: dict[str, str]) -> None:
    conversation = Conversation(column_rule(column))
    cells = {cell["field"]: cell["value"] for cell in _RESULTS["results"][0]}  # type: ignore[index]
    assert _query(conversation, _QUERY) == {**cells, **masked}
    assert not conversation.refusals


def test_values_in_results_are_masked_and_pointers_stay() -> None:
    cells = _query(Conversation(types=_EMAILS), _QUERY)
    assert EMAIL not in (cells["@message"] or "")
    assert cells["@ptr"] == EMAIL


def test_results_of_an_unknown_query_are_of_unknown_origin() -> None:
    conversation = Conversation(column_rule("/shop/b.message"))
    _query(conversation, _QUERY, starts=False)
    assert "origin" in conversation.refusals[0].message


def test_text_of_results_names_the_request_that_started_the_query() -> None:
    conversation = Conversation(wants=Wants())
    conversation.exchange(
        "logs",
        "StartQuery",
        {"logGroupNames": ["a"], "startTime": 1, "endTime": 2, "queryString": "x"},
        {"queryId": "q"},
    )
    request = conversation.ask("logs", "GetQueryResults", {"queryId": "q"})
    assert request.operations[0].text.startswith(
        'GetQueryResults {"queryId": "q"} of StartQuery {"logGroupNames": ["a"]'
    )
    request = conversation.ask("logs", "GetQueryResults", {"queryId": "r"})
    assert request.operations[0].text == 'GetQueryResults {"queryId": "r"}'


@pytest.mark.parametrize(
    ("column", "message"), [("/shop/a.message", "****"), ("/shop/b.message", "text"), ("message", "****")]
)
def test_record_is_of_the_group_that_it_names(column: str, message: str) -> None:
    conversation = Conversation(column_rule(column))
    record = {"@message": "text", "@log": "123456789012:/shop/a", "@ptr": "p", "level": "INFO"}
    answer = conversation.exchange("logs", "GetLogRecord", {"logRecordPointer": "p"}, {"logRecord": record})
    assert answer["logRecord"]["@message"] == message
    assert answer["logRecord"]["@ptr"] == "p"
    assert not conversation.refusals


def _frame(kind: str, payload: dict[str, Any], message: str = "event") -> bytes:
    name = ":event-type" if message == "event" else ":exception-type"
    return encode_frame(
        encode_texts({":message-type": message, name: kind, ":content-type": "application/json"}),
        json.dumps(payload).encode(),
    )


def _tail(conversation: Conversation, operation: str, stream: bytes, chunk: int) -> list[tuple[dict[str, Any], Any]]:
    parameters = {"logObjectPointer": "p"} if operation == "GetLogObject" else {"logGroupIdentifiers": ["arn"]}
    request = conversation.ask("logs", operation, parameters)
    head = ResponseHead(200, ((b"content-type", b"application/vnd.amazon.eventstream"),))
    head, sent = conversation.answer(request, stream, head, chunk)
    assert head.length is None
    buffer = EventStreamBuffer()
    buffer.add_data(sent)
    return [(event.headers, json.loads(event.payload)) for event in buffer]


@pytest.mark.parametrize("chunk", [1, 13, 100, 1 << 20])
def test_live_tail_is_masked_frame_by_frame(chunk: int) -> None:
    def result(group: str) -> dict[str, Any]:
        return {
            "logStreamName": "s",
            "logGroupIdentifier": f"123456789012:{group}",
            "message": f"hello {EMAIL}",
            "timestamp": 1,
            "ingestionTime": 2,
        }

    start = {"requestId": EMAIL, "sessionId": "s", "logGroupIdentifiers": ["arn"]}
    stream = b"".join(
        [
            _frame("sessionStart", start),
            _frame(
                "sessionUpdate", {"sessionMetadata": {"sampled": False}, "sessionResults": [result("a"), result("b")]}
            ),
            _frame("sessionUpdate", {"sessionMetadata": {"sampled": False}, "sessionResults": []}),
            _frame("SessionTimeoutException", {"message": "expired"}, "exception"),
        ]
    )
    conversation = Conversation(column_rule("b.message"), types=_EMAILS)
    frames = _tail(conversation, "StartLiveTail", stream, chunk)
    assert frames[0][1] == start
    first, second = frames[1][1]["sessionResults"]
    assert first["message"].startswith("hello ")
    assert EMAIL not in first["message"]
    assert second["message"] == "****"
    assert second["logGroupIdentifier"] == "123456789012:b"
    assert frames[2][1]["sessionResults"] == []
    assert frames[3][0][":exception-type"] == "SessionTimeoutException"


def test_log_object_is_masked_inside_of_its_base64() -> None:
    def data(text: str) -> dict[str, str]:
        return {"data": base64.b64encode(text.encode()).decode()}

    stream = _frame("fields", data(json.dumps({"user": EMAIL, "n": 1}))) + _frame("fields", data("plain"))
    frames = _tail(Conversation(types=_EMAILS), "GetLogObject", stream, 50)
    first = json.loads(base64.b64decode(frames[0][1]["data"]))
    assert first["n"] == 1
    assert EMAIL not in first["user"]
    assert frames[1][1] == data("plain")


@pytest.mark.parametrize("damage", ["cut", "checksum"])
def test_damaged_stream_is_refused(damage: str) -> None:
    stream = _frame("sessionUpdate", {"sessionResults": []})
    stream = stream[:-1] if damage == "cut" else stream[:-1] + bytes((stream[-1] ^ 1,))
    with pytest.raises(ValueError, match=r"middle of a frame|checksum"):
        _tail(Conversation(types=_EMAILS), "StartLiveTail", stream, 10)


@pytest.mark.parametrize(
    ("head", "body", "why"),
    [
        (ResponseHead(200, ((b"content-encoding", b"gzip"),)), b"x", "compressed"),
        (ResponseHead(200, (), 1 << 30), b"x", "bytes"),
        (ResponseHead(200), b"[]", "not an object"),
        (ResponseHead(200), b'{"a": 1, "a": 2}', "twice"),
        (ResponseHead(200), b'{"events": 5}', "list of objects"),
        (ResponseHead(200), b"{", "Expecting"),
    ],
)
def test_answers_that_cannot_be_inspected_are_refused(head: ResponseHead, body: bytes, why: str) -> None:
    conversation = Conversation(types=_EMAILS)
    with pytest.raises(ValueError, match=why):
        conversation.answer(conversation.ask("logs", "FilterLogEvents", _GROUP), body, head)


@pytest.mark.parametrize(("service", "protocol"), PROTOCOLS)
def test_errors_are_masked_and_keep_their_code(service: str, protocol: str) -> None:
    operation = "DescribeLogGroups" if service == "logs" else "DescribeAlarms"
    error = {"__type": "com.amazonaws#InvalidParameterException", "message": f"bad {EMAIL}"}
    bodies = {
        "json": json.dumps(error).encode(),
        "smithy-rpc-v2-cbor": cbor2.dumps(error),
        "query": f"<ErrorResponse><Error><Type>Sender</Type><Code>InvalidParameterException</Code><Message>bad {EMAIL}"
        "</Message></Error><RequestId>r</RequestId></ErrorResponse>".encode(),
    }
    conversation = Conversation(types=_EMAILS)
    request = conversation.ask(service, operation, {}, protocol)
    head, sent = conversation.answer(request, bodies[protocol], ResponseHead(400, (), len(bodies[protocol])))
    answer = parsed(service, operation, head, sent, protocol)
    assert answer["Error"]["Code"] == "InvalidParameterException"
    assert answer["Error"]["Message"].startswith("bad ")
    assert EMAIL not in answer["Error"]["Message"]


def test_null_strategy_leaves_valid_answers() -> None:
    conversation = Conversation(column_rule("message", strategy=Strategy.NULL))
    answer = conversation.exchange("logs", "FilterLogEvents", _GROUP, _events("x", '{"a": 1}'))
    assert _messages(answer) == [None, '{"a":null}']


def test_nothing_is_read_that_nothing_asks_for() -> None:
    conversation = Conversation(wants=Wants())
    request = conversation.ask("logs", "FilterLogEvents", _GROUP)
    assert conversation.dialect.read_response(request, ResponseHead(200), Wants()) is None
