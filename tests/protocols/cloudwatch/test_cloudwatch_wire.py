"""The dialect on a link: the contracts of wires and scripts, at several sizes of reads."""

from __future__ import annotations

import json
from typing import Any

import cbor2
import pytest
from tests.support.protocols.http_test_frames import encode, request, response
from tests.support.protocols.query_contracts import check_script
from tests.support.protocols.wire_contracts import check_masking, check_wire, events_of, new_link, sent_to

from postern.interception.events import Event, Operation, Output, Rows
from postern.interception.pipeline import BatchNeed, SessionView
from postern.interception.verdicts import FORWARD, REPLACE, Verdict
from postern.protocols.cloudwatch.queries.cloudwatch_messages import ResponseFrames
from postern.protocols.cloudwatch.queries.cloudwatch_script import CloudwatchScript
from postern.protocols.cloudwatch.wire.cloudwatch_dialect import CloudwatchDialect
from postern.protocols.cloudwatch.wire.event_stream import encode_frame, encode_texts
from postern.protocols.cloudwatch.wire.started_queries import StartedQueries
from postern.protocols.http import http_frames as f
from postern.protocols.http.http_heads import ResponseHead, first_value
from postern.protocols.http.wire.http_wire import HttpWire
from postern.protocols.wire_base import Side

_LARGE = 1 << 16
_SECRET = "secret-value"
_PATH = "/service/GraniteServiceVersion20100801/operation/DescribeAlarms"


def _wire() -> HttpWire:
    return HttpWire(CloudwatchDialect(StartedQueries()), "logs.example")


def _asks(operation: str, parameters: dict[str, Any], number: int = 1) -> bytes:
    headers = {
        "x-amz-target": f"Logs_20140328.{operation}",
        "content-type": "application/x-amz-json-1.1",
        "accept-encoding": "identity",
    }
    return request("/", json.dumps(parameters).encode(), method="POST", headers=headers, number=number, piece=_LARGE)


def _says(value: Any, number: int = 1, *, status: int = 200, piece: int = _LARGE) -> bytes:
    return response(json.dumps(value).encode(), status=status, headers=_JSON, number=number, piece=piece)


_JSON = {"content-type": "application/x-amz-json-1.1"}
_FILTER = _asks("FilterLogEvents", {"logGroupName": "g"})
_EVENTS = {"events": [{"message": f"a {_SECRET}", "timestamp": 1}, {"message": f'{{"u":"{_SECRET}"}}'}]}
_CBOR_HEADERS = {"smithy-protocol": "rpc-v2-cbor", "content-type": "application/cbor", "accept-encoding": "identity"}
_ALARMS = request(_PATH, cbor2.dumps({}), method="POST", headers=_CBOR_HEADERS, piece=_LARGE)
_FORM_HEADERS = {"content-type": "application/x-www-form-urlencoded", "accept-encoding": "identity"}
_FORM = request("/", b"Action=DescribeAlarms", method="POST", headers=_FORM_HEADERS, piece=_LARGE)


def _stream(*events: dict[str, Any]) -> bytes:
    head = encode_texts({":message-type": "event", ":event-type": "sessionUpdate"})
    return b"".join(encode_frame(head, json.dumps({"sessionResults": [event]}).encode()) for event in events)


_TAIL = _asks("StartLiveTail", {"logGroupIdentifiers": ["g"]})


def _tails(*events: dict[str, Any]) -> bytes:
    head = ResponseHead(200, encode({"content-type": "application/vnd.amazon.eventstream"}))
    frames = b"".join(f.data_frames(f.RESPONSE_DATA, 1, _stream(event)) for event in events)
    return f.response_frame(1, head) + frames + f.end_frame(f.RESPONSE_END, 1)


def test_wire_fulfils_its_contract() -> None:
    check_wire(
        _wire,
        [
            (Side.CLIENT, _FILTER),
            (Side.TARGET, _says(_EVENTS)),
            (Side.CLIENT, _asks("FilterLogEvents", {"logGroupName": "none"}, 2)),
            (Side.TARGET, _says({"__type": "ResourceNotFoundException", "message": "x"}, 2, status=400)),
            (Side.CLIENT, _asks("PutLogEvents", {"logGroupName": "g", "logEvents": []}, 3)),
            (Side.TARGET, _says({}, 3)),
        ],
        garbage=[(Side.CLIENT, b"\xff" * 20), (Side.TARGET, b"\xff" * 20)],
    )


def test_live_tail_fulfils_the_contract_of_wires() -> None:
    check_wire(_wire, [(Side.CLIENT, _TAIL), (Side.TARGET, _tails({"message": "a"}, {"message": "b"}))])


def _shown(data: bytes) -> bytes:
    """The bodies that a client is sent, as one text."""
    bodies: list[bytes] = []
    for frame in f.HttpFrameReader().feed(data):
        if frame.kind == f.RESPONSE_DATA:
            bodies.append(frame.payload)
    return b"".join(bodies)


def _messages(data: bytes) -> bytes:
    """What frames of an event stream say, without their checksums."""
    return b"".join(response.body for response in ResponseFrames().feed(data))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (_FILTER, response(json.dumps(_EVENTS, separators=(",", ":")).encode(), headers=_JSON, piece=5)),
        (_FILTER, response(b'{"__type":"X","message":"no secret-value"}', status=400, headers=_JSON)),
        (_ALARMS, response(cbor2.dumps({"MetricAlarms": [{"StateReason": _SECRET}]}), headers=_CBOR_HEADERS)),
        (
            _FORM,
            response(
                b"<DescribeAlarmsResponse><StateReason>a secret-value &amp; b</StateReason></DescribeAlarmsResponse>"
            ),
        ),
    ],
)
def test_masking_fulfils_its_contract(asked: bytes, said: bytes) -> None:
    check_masking(_wire, [(Side.CLIENT, asked), (Side.TARGET, said)], secret=_SECRET.encode(), read=_shown)


class _Hides:
    name = "test"
    wants: frozenset[type[Event]] = frozenset({Rows, Output})
    batch_need = BatchNeed.NONE

    def see(self, event: Event, session: SessionView) -> Verdict:
        if not isinstance(event, Rows):
            return FORWARD
        for column in range(len(event.columns)):
            event.replace(column, [text.replace(b"secret", b"******") for text in event.texts(column)])
        return REPLACE


@pytest.mark.parametrize("size", [1, 9, 64, 100_000])
def test_events_of_a_live_tail_reach_the_client_one_by_one(size: int) -> None:
    link = new_link(_wire(), _Hides())
    link.receive(Side.CLIENT, _TAIL)
    head = f.response_frame(1, ResponseHead(200, encode({"content-type": "application/vnd.amazon.eventstream"})))
    link.receive(Side.TARGET, head)
    for number in range(3):
        stream = f.data_frames(f.RESPONSE_DATA, 1, _stream({"message": f"{number} {_SECRET}"}))
        data = b"".join(
            sent_to(Side.CLIENT, link.receive(Side.TARGET, stream[at : at + size]))
            for at in range(0, len(stream), size)
        )
        text = _messages((head if number else b"") + data)
        assert json.loads(text)["sessionResults"] == [{"message": f"{number} ******-value"}]
    assert link.awaiting_response


def test_answer_that_cannot_be_read_is_an_error_for_the_client() -> None:
    link = new_link(_wire(), _Hides())
    link.receive(Side.CLIENT, _FILTER)
    effects = link.receive(Side.TARGET, response(b'{"events": "secret"}', headers=_JSON))
    data = sent_to(Side.CLIENT, effects)
    assert b'"secret"' not in data
    assert f.read_response(f.HttpFrameReader().feed(data)[0].payload).status >= 400


def test_length_and_operation_are_recorded_as_they_are() -> None:
    link = new_link(_wire(), _Hides())
    effects = link.receive(Side.CLIENT, _FILTER)
    assert [event.text for event in events_of(effects) if isinstance(event, Operation)] == [
        'FilterLogEvents {"logGroupName": "g"}'
    ]
    data = sent_to(Side.CLIENT, link.receive(Side.TARGET, _says({"events": [{"message": f"é {_SECRET}"}]})))
    head = f.read_response(f.HttpFrameReader().feed(data)[0].payload)
    assert head.length == len(_shown(data))
    assert first_value(head.headers, b"content-type") == b"application/x-amz-json-1.1"


def test_script_fulfils_its_contract() -> None:
    check_script(
        CloudwatchScript,
        _wire,
        "logs describe-log-groups",
        answer=_says({"logGroups": [{"logGroupName": "grüße"}]}),
        failing=_says({"__type": "AccessDeniedException", "message": "no"}, status=400),
        recorded="DescribeLogGroups {}",
        asked=b"Logs_20140328.DescribeLogGroups",
    )
