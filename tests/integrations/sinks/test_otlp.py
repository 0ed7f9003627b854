"""OTLP, read by the protocol's own generated classes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from tests.integrations.sinks.conftest import HOSTILE, sink
from tests.support.receivers import http_receiver, senders
from tests.support.world import START

from postern.domain.event import EventKind
from postern.domain.sink import Delivery, SinkKind
from postern.errors import Unavailable

Make = Callable[..., Delivery]


async def test_events_are_sent_as_log_records(delivery: Make) -> None:
    data = {"number": 1 << 62, "nothing": None, "yes": True, "share": 0.5, "list": [1, "x", {"y": 2}], "huge": 1 << 70}
    events = [delivery(EventKind.SESSION_KILL, **data), delivery()]
    async with http_receiver(status=200, body=b"{}") as receiver:
        sender = senders()
        await sender.send(sink(SinkKind.OTLP, receiver.url), events, START)
        await sender.close()
    headers, body = receiver.got[0]
    assert headers["content-type"] == "application/json"
    read = json_format.Parse(body, ExportLogsServiceRequest())
    (resource,) = read.resource_logs
    named = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert named == {"service.name": "postern", "host.name": "gateway.example.com"}
    first, second = resource.scope_logs[0].log_records
    assert (first.event_name, first.severity_text, second.severity_text) == ("session.kill", "WARN", "INFO")
    assert first.time_unix_nano == int(START.timestamp()) * 10**9
    assert first.attributes[0].value.string_value == str(events[0].event_id)
    values = {one.key: one.value for one in first.body.kvlist_value.values}
    assert values["user"].string_value == HOSTILE
    assert values["number"].int_value == 1 << 62
    assert values["nothing"].WhichOneof("value") is None
    assert (values["yes"].bool_value, values["share"].double_value) == (True, 0.5)
    assert values["list"].array_value.values[2].kvlist_value.values[0].value.int_value == 2
    assert values["huge"].string_value == str(1 << 70)


@pytest.mark.parametrize(
    "answer", [{"partialSuccess": {"rejectedLogRecords": "1", "errorMessage": "no\nthanks"}}, [], "x"]
)
async def test_records_rejected_by_a_collector_are_logged_and_not_retried(
    delivery: Make, answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with http_receiver(status=200, body=json.dumps(answer).encode()) as receiver:
        sender = senders()
        await sender.send(sink(SinkKind.OTLP, receiver.url), [delivery()], START)
        await sender.close()
    assert ("rejected 1 of 1" in caplog.text) == isinstance(answer, dict)
    assert "no\nthanks" not in caplog.text


async def test_busy_collector_is_unavailable_so_that_delivery_is_retried(delivery: Make) -> None:
    async with http_receiver(status=503) as receiver:
        sender = senders()
        with pytest.raises(Unavailable):
            await sender.send(sink(SinkKind.OTLP, receiver.url), [delivery()], START)
        await sender.close()
