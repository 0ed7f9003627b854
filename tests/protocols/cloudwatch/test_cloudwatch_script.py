"""Scripts of `exec`, and how their recordings are read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.protocols.query_contracts import check_lens

from postern.domain.sessions.results import Finished, Problem, ResultColumns, Row
from postern.errors import Invalid
from postern.protocols.cloudwatch.dialect.cloudwatch_operations import CloudwatchService
from postern.protocols.cloudwatch.queries.cloudwatch_messages import encode_request
from postern.protocols.cloudwatch.queries.cloudwatch_script import CloudwatchScript
from postern.protocols.cloudwatch.recorded.cloudwatch_answer_reader import CloudwatchAnswers
from postern.protocols.cloudwatch.recorded.cloudwatch_tables import CloudwatchResults
from postern.protocols.cloudwatch.recorded.cloudwatch_text_renderer import CloudwatchTextRenderer
from postern.protocols.cloudwatch.wire.event_stream import encode_frame, encode_texts
from postern.protocols.gateway_queries import PollingScript, ScriptInSteps
from postern.protocols.http.http_frames import (
    REQUEST,
    REQUEST_DATA,
    REQUEST_END,
    RESPONSE_DATA,
    RESPONSE_END,
    HttpFrameReader,
    TargetFailure,
    data_frames,
    end_frame,
    failed_frame,
    read_request,
    response_frame,
)
from postern.protocols.http.http_heads import ResponseHead

_JSON = ((b"content-type", b"application/x-amz-json-1.1"),)


def answer(exchange: int, value: Any, status: int = 200, *, has_length: bool = True) -> bytes:
    body = json.dumps(value).encode()
    head = ResponseHead(status, _JSON, len(body) if has_length else None)
    return (
        response_frame(exchange, head) + data_frames(RESPONSE_DATA, exchange, body) + end_frame(RESPONSE_END, exchange)
    )


def asked(data: bytes) -> list[str]:
    """The operations of requests, with their parameters."""
    found: list[str] = []
    frames = HttpFrameReader().feed(data)
    for head, body, end in zip(frames[::3], frames[1::3], frames[2::3], strict=True):
        assert [head.kind, body.kind, end.kind] == [REQUEST, REQUEST_DATA, REQUEST_END]
        request = read_request(head.payload)
        assert request.length == len(body.payload)
        target = dict(request.headers)[b"x-amz-target"].decode()
        found.append(f"{target} {body.payload.decode()}")
    return found


def test_statements_run_one_after_another() -> None:
    script = CloudwatchScript("logs describe-log-groups\ncloudwatch list-metrics")
    assert isinstance(script, ScriptInSteps)
    assert asked(script.start()) == ["Logs_20140328.DescribeLogGroups {}"]
    assert asked(script.feed(answer(1, {"logGroups": []}))) == ["GraniteServiceVersion20100801.ListMetrics {}"]
    assert not script.finished
    assert script.feed(answer(2, {})) == b""
    assert (script.finished, script.leaves, script.exit_code()) == (True, True, 0)


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_pages_are_read_to_the_end(size: int) -> None:
    script = CloudwatchScript("logs describe-log-groups")
    script.start()
    data = answer(1, {"logGroups": [{}], "nextToken": "t"})
    sent = b"".join(script.feed(data[at : at + size]) for at in range(0, len(data), size))
    assert asked(sent) == ['Logs_20140328.DescribeLogGroups {"nextToken": "t"}']
    assert script.feed(answer(2, {"logGroups": [{}]})) == b""
    assert script.exit_code() == 0


def test_pages_end_with_the_same_token_and_with_the_maximum() -> None:
    script = CloudwatchScript("logs describe-log-groups --max-items 3")
    script.start()
    assert script.feed(answer(1, {"logGroups": [{}, {}], "nextToken": "t"}))
    assert script.feed(answer(2, {"logGroups": [{}, {}], "nextToken": "u"})) == b""
    assert script.exit_code() == 0
    script = CloudwatchScript("logs describe-log-groups")
    script.start()
    assert script.feed(answer(1, {"nextToken": "t"}))
    assert script.feed(answer(2, {"nextToken": "t"})) == b""
    assert script.finished


def test_query_is_awaited_with_pauses() -> None:
    script = CloudwatchScript("logs start-query --log-group-name g --start-time 1 --end-time 2 --query-string x")
    assert isinstance(script, PollingScript)
    script.start()
    poll = ['Logs_20140328.GetQueryResults {"queryId": "q"}']
    assert asked(script.feed(answer(1, {"queryId": "q"}))) == poll
    pauses = [script.pause]
    for exchange in range(2, 7):
        assert asked(script.feed(answer(exchange, {"status": "Running", "results": []}))) == poll
        pauses.append(script.pause)
    assert pauses == sorted(pauses)
    assert pauses[0] > 0
    assert script.feed(answer(7, {"status": "Complete", "results": []})) == b""
    assert (script.exit_code(), script.pause) == (0, 0.0)


@pytest.mark.parametrize("status", ["Failed", "Cancelled", "Timeout"])
def test_query_that_fails_ends_the_script(status: str) -> None:
    script = CloudwatchScript("logs start-query --log-group-name g --start-time 1 --end-time 2 --query-string x")
    script.start()
    script.feed(answer(1, {"queryId": "q"}))
    assert script.feed(answer(2, {"status": status})) == b""
    assert (script.finished, script.exit_code()) == (True, 1)


@pytest.mark.parametrize(
    "data",
    [
        answer(1, {"__type": "AccessDeniedException", "message": "no"}, 400),
        failed_frame(1, TargetFailure("timeout", "no answer")),
    ],
)
def test_first_error_ends_the_script(data: bytes) -> None:
    script = CloudwatchScript("logs describe-log-groups\nlogs describe-log-groups")
    assert script.exit_code() == 1
    script.start()
    assert script.feed(data) == b""
    assert (script.finished, script.leaves, script.exit_code()) == (True, True, 1)


@pytest.mark.parametrize(("text", "why"), [("", "no statement"), ("# x", "no statement"), ("\nls", "line 2, column 1")])
def test_script_that_cannot_be_read_is_invalid(text: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        CloudwatchScript(text).start()
    with pytest.raises(Invalid, match=why):
        CloudwatchScript(text).use_database(None)


def test_preview_has_the_requests_that_are_sent() -> None:
    text = "logs describe-log-groups\nlogs tail g --since 1h"
    script = CloudwatchScript(text, lambda: 3600.0)
    first, second = script.requests()
    assert (text[first.start : first.end], first.text) == ("logs describe-log-groups", "DescribeLogGroups {}")
    assert second.text == 'FilterLogEvents {"logGroupName": "g", "startTime": 0}'
    assert script.start() == first.data


# Recordings

_EVENTS = {
    "events": [
        {"logStreamName": "s", "timestamp": 1700000000000, "message": "one\n", "ingestionTime": 1, "eventId": "e"},
        {"logStreamName": "s", "timestamp": 1700000000001, "message": '{"user": {"name": "Ann"}}'},
    ],
    "nextToken": "t",
}
_RESULTS = {
    "results": [[{"field": "@message", "value": "x"}, {"field": "n", "value": "1"}], [{"field": "n", "value": "2"}]],
    "status": "Complete",
}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            answer(1, _EVENTS),
            [("o", b'2023-11-14T22:13:20.000Z s one\n2023-11-14T22:13:20.001Z s {"user": {"name": "Ann"}}\n2 rows\n')],
        ),
        (
            answer(1, _RESULTS),
            [("o", b'{"@message": "x", "n": "1"}\n{"n": "2"}\n{"status": "Complete"}\n2 rows\n')],
        ),
        (answer(1, {"queryId": "q"}), [("o", b'{"queryId": "q"}\n')]),
        (answer(1, {}, has_length=False), [("o", b"ok\n")]),
        (answer(1, {"__type": "a#NotFound", "message": "gone"}, 400), [("e", b"ERROR NotFound: gone\n")]),
        (failed_frame(1, TargetFailure("timeout", "no answer")), [("e", b"ERROR no answer\n")]),
        (
            response_frame(3, ResponseHead(200, ((b"content-type", b"text/xml"),), None))
            + data_frames(RESPONSE_DATA, 3, b"<R><Name>a</Name><Id>1</Id></R>")
            + end_frame(RESPONSE_END, 3),
            [("o", b'{"Name": "a", "Id": "1"}\n')],
        ),
    ],
)
def test_recordings_are_readable(data: bytes, text: list[tuple[str, bytes]]) -> None:
    check_lens(CloudwatchTextRenderer, data, text)


def test_interleaved_answers_are_told_apart() -> None:
    first, second = answer(1, {"queryId": "a"}), answer(2, {"queryId": "b"})
    head = len(response_frame(1, ResponseHead(200, _JSON, len(b'{"queryId": "a"}'))))
    found = CloudwatchTextRenderer().feed(first[:head] + second + first[head:])
    assert found == [("o", b'{"queryId": "b"}\n{"queryId": "a"}\n')]


def test_live_tail_is_rendered_as_it_comes() -> None:
    def frame(results: list[dict[str, Any]]) -> bytes:
        texts = {":message-type": "event", ":event-type": "sessionUpdate"}
        return encode_frame(encode_texts(texts), json.dumps({"sessionResults": results}).encode())

    head = response_frame(1, ResponseHead(200, ((b"content-type", b"application/vnd.amazon.eventstream"),)))
    stream = frame([{"message": "a", "timestamp": 0}, {"message": "b", "timestamp": 1}]) + frame([])
    renderer = CloudwatchTextRenderer()
    found = renderer.feed(head + data_frames(RESPONSE_DATA, 1, stream))
    assert found == [("o", b"1970-01-01T00:00:00.000Z a\n1970-01-01T00:00:00.001Z b\n")]
    results = CloudwatchResults().feed(head + data_frames(RESPONSE_DATA, 1, stream))
    assert [type(each) for each in results] == [ResultColumns, Row, Row, Finished]


def test_answers_are_tables() -> None:
    reader = CloudwatchResults()
    assert reader.feed(answer(1, _RESULTS)) == [
        ResultColumns(("@message", "n"), (None, None)),
        Row(("x", "1")),
        Row((None, "2")),
        Finished("2 rows"),
    ]
    assert reader.find_columns(["message.user.name", "n"]) == (0, 1)
    assert reader.find_columns(["message.user.name", "n"], whole=True) == (1,)
    assert reader.feed(answer(2, {"__type": "X", "message": "m"}, 400)) == [Problem("ERROR", "m", code="X")]
    assert reader.feed(answer(3, {})) == [Finished("ok")]


def test_rows_of_an_answer_are_known_before_its_end() -> None:
    """Marks of masked values are about the frames of the body alone."""
    whole = answer(1, _RESULTS)
    end = end_frame(RESPONSE_END, 1)
    reader = CloudwatchResults()
    assert len(reader.feed(whole.removesuffix(end))) == 4
    assert reader.feed(end) == []


def test_answers_are_texts_for_rules() -> None:
    first, second, last = CloudwatchAnswers().feed(answer(1, _EVENTS))
    assert (b"one\n" in first.texts, first.rows, second.rows) == (True, 1, 1)
    assert last.ends


def test_request_is_in_the_form_of_its_service() -> None:
    assert b"x-amz-json-1.0" in encode_request(1, CloudwatchService.METRICS, "ListMetrics", {})
