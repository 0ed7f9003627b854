"""The dialect, scripts and the catalogue against moto's CloudWatch, read by boto3's parsers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tests.support.cloudwatch import EMAIL, Conversation, column_rule, parsed, serialized
from tests.support.cloudwatch_target import MotoCloudwatch, moto_cloudwatch
from tests.support.protocols.query_contracts import check_catalogue

from postern.domain.rules.masking import InfoType, MaskingRule
from postern.domain.targets.target_task import TargetTaskKind
from postern.errors import ProtocolViolation
from postern.protocols.cloudwatch.queries.cloudwatch_catalogue import CATALOGUE, target_schema
from postern.protocols.cloudwatch.queries.cloudwatch_script import CloudwatchScript
from postern.protocols.cloudwatch.recorded.cloudwatch_text_renderer import CloudwatchTextRenderer
from postern.protocols.gateway_queries import Row, TargetRefused
from postern.protocols.http.http_frames import (
    RESPONSE_DATA,
    RESPONSE_END,
    HttpFrameReader,
    data_frames,
    end_frame,
    failed_frame,
    read_request,
    response_frame,
)
from postern.protocols.http.http_frames import TargetFailure as Failure
from postern.protocols.http.http_heads import ResponseHead

_GROUP = "/shop/orders"


@pytest.fixture(scope="module")
def target() -> Iterator[MotoCloudwatch]:
    with moto_cloudwatch() as moto:
        logs = moto.client("logs")
        for name in (_GROUP, "/shop/other"):
            logs.create_log_group(logGroupName=name)
        logs.create_log_stream(logGroupName=_GROUP, logStreamName="web")
        now = int(time.time() * 1000)
        messages = [f"mail to {EMAIL}", json.dumps({"user": {"name": "Ann", "email": EMAIL}, "n": 1}), "plain"]
        events = [{"timestamp": now + number, "message": text} for number, text in enumerate(messages)]
        logs.put_log_events(logGroupName=_GROUP, logStreamName="web", logEvents=events)
        metric = {"MetricName": "orders", "Value": 3.0, "Dimensions": [{"Name": "region", "Value": "eu"}]}
        moto.client("cloudwatch").put_metric_data(Namespace="Shop", MetricData=[metric])
        yield moto


def _ask(
    target: MotoCloudwatch,
    service: str,
    operation: str,
    parameters: dict[str, Any],
    *rules: MaskingRule,
    protocol: str = "json",
    types: frozenset[InfoType] = frozenset(),
    conversation: Conversation | None = None,
) -> dict[str, Any]:
    conversation = conversation or Conversation(*rules, types=types)
    request = conversation.ask(service, operation, parameters, protocol)
    head, body = target.ask(request.head, serialized(service, operation, parameters, protocol)[1])
    head, sent = conversation.answer(request, body, head)
    return parsed(service, operation, head, sent, protocol)


def test_events_are_masked(target: MotoCloudwatch) -> None:
    answer = _ask(
        target,
        "logs",
        "FilterLogEvents",
        {"logGroupName": _GROUP},
        column_rule("message.user.name"),
        types=frozenset({InfoType.EMAIL_ADDRESS}),
    )
    texts = [event["message"] for event in answer["events"]]
    assert EMAIL not in str(texts)
    assert texts[2] == "plain"
    assert json.loads(texts[1])["user"]["name"] == "****"
    assert json.loads(texts[1])["n"] == 1


def test_query_is_masked_by_the_group_that_it_reads(target: MotoCloudwatch) -> None:
    conversation = Conversation(column_rule(f"{_GROUP}.message"))
    started = _ask(
        target,
        "logs",
        "StartQuery",
        {"logGroupName": _GROUP, "startTime": 0, "endTime": 2**31, "queryString": "fields @message"},
        conversation=conversation,
    )
    answer = _ask(target, "logs", "GetQueryResults", {"queryId": started["queryId"]}, conversation=conversation)
    cells = [{cell["field"]: cell["value"] for cell in row} for row in answer["results"]]
    assert len(cells) == 3
    assert all(set('*{}":,[]0usernamil ') >= set(row["@message"]) for row in cells)
    assert all(row["@ptr"] for row in cells)


@pytest.mark.parametrize("protocol", ["json", "query"])  # moto does not speak CBOR
def test_metrics_are_listed(target: MotoCloudwatch, protocol: str) -> None:
    parameters = {"Namespace": "Shop"}
    types = frozenset({InfoType.EMAIL_ADDRESS})
    answer = _ask(target, "cloudwatch", "ListMetrics", parameters, protocol=protocol, types=types)
    (metric,) = answer["Metrics"]
    assert (metric["MetricName"], metric["Dimensions"]) == ("orders", [{"Name": "region", "Value": "eu"}])


def test_error_of_the_target_is_read(target: MotoCloudwatch) -> None:
    answer = _ask(target, "logs", "FilterLogEvents", {"logGroupName": "none"}, column_rule("message"))
    assert answer["Error"]["Code"] == "ResourceNotFoundException"


def _run(target: MotoCloudwatch, text: str) -> tuple[CloudwatchScript, str]:
    """Run a script, and return what its recording shows."""
    script = CloudwatchScript(text)
    renderer = CloudwatchTextRenderer()
    shown: list[tuple[str, bytes]] = []
    request = script.start()
    while request:
        answer = target.carry(request)
        shown += renderer.feed(answer)
        request = script.feed(answer)
    assert renderer.rest() == []
    return script, b"".join(text for _, text in shown).decode()


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (f"logs filter-log-events --log-group-name {_GROUP}", ["plain", "3 rows"]),
        (f"aws logs tail {_GROUP} --since 1h", ["plain", "3 rows"]),
        ("logs describe-log-groups", ['"logGroupName": "/shop/orders"', "2 rows"]),
        ("cloudwatch list-metrics --namespace Shop", ['"MetricName": "orders"', "1 row"]),
        (
            "cloudwatch get-metric-statistics --namespace Shop --metric-name orders --dimensions Name=region,Value=eu "
            "--statistics Sum --period 86400 --start-time 2020-01-01T00:00:00Z --end-time 2099-01-01T00:00:00Z",
            ['"Sum": 3.0'],
        ),
        (
            f"logs start-query --log-group-name {_GROUP} --start-time 0 --end-time 4000000000 "
            "--query-string 'fields @message'",
            ["queryId", '"@message": "plain"', '"status": "Complete"'],
        ),
        (f'FilterLogEvents {{"logGroupName": "{_GROUP}", "limit": 1}}', ["1 row"]),
    ],
)
def test_scripts(target: MotoCloudwatch, line: str, shown: list[str]) -> None:
    script, text = _run(target, line)
    assert script.exit_code() == 0, text
    assert all(part in text for part in shown), text


def test_script_with_an_error(target: MotoCloudwatch) -> None:
    script, text = _run(target, "logs filter-log-events --log-group-name none\nlogs describe-log-groups")
    assert script.exit_code() == 1
    assert text.startswith("ERROR ResourceNotFoundException")


def _rows(target: MotoCloudwatch, statement: str, values: Sequence[str | None] = ()) -> list[Row]:
    query = CATALOGUE.query(statement, values)
    rows: list[Row] = []
    request = query.start()
    while not query.finished:
        answer = target.carry(request)
        while answer and not query.finished:
            needs = query.needs
            rows += query.feed(answer[:needs])
            answer = answer[needs:]
        request = query.request()  # type: ignore[attr-defined]
    if query.error is not None:
        raise query.error
    return rows


def test_catalogue_lists_groups_and_namespaces(target: MotoCloudwatch) -> None:
    assert _rows(target, "test") == [("1",)]
    assert _rows(target, "databases") == [("logs",), ("metrics",)]
    assert _rows(target, "tables", (None, None)) == [("logs", _GROUP), ("logs", "/shop/other"), ("metrics", "Shop")]
    assert _rows(target, "tables", ("metrics", None)) == [("metrics", "Shop")]
    assert _rows(target, "columns", ("Shop", "metrics", None)) == [("orders", "metric", "NO")]
    relations = target_schema([_rows(target, "relations")]).relations
    assert set(relations) == {("logs", _GROUP), ("logs", "/shop/other")}


def _shaped(target: MotoCloudwatch, kind: TargetTaskKind, *values: str | None) -> dict[str, Any]:
    question = CATALOGUE.target_tasks[kind]
    return question.shape(_rows(target, question.statement, values))


class _Played:
    """A target that has these answers."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    def carry(self, frames: bytes) -> bytes:
        first = HttpFrameReader().feed(frames)[0]
        operation = dict(read_request(first.payload).headers)[b"x-amz-target"].decode().partition(".")[2]
        answer = self.answers.get(operation)
        if isinstance(answer, Failure):
            return failed_frame(first.exchange, answer)
        status = 200 if isinstance(answer, dict) and "__type" not in answer else 400
        body = json.dumps(answer if answer is not None else {"__type": "x#AccessDeniedException"}).encode()
        return (
            response_frame(first.exchange, ResponseHead(status, (), len(body)))
            + data_frames(RESPONSE_DATA, first.exchange, body)
            + end_frame(RESPONSE_END, first.exchange)
        )


_GROUPS = {"logGroups": [{"logGroupName": "g"}]}
_FIELDS = {"logGroupFields": [{"name": "@message", "percent": 100}, {"name": "user.email", "percent": 40}]}
_METRICS = {"Metrics": [{"Namespace": "n", "MetricName": "m"}, {"Namespace": "n", "MetricName": "m"}]}


def test_columns_are_those_of_events_and_discovered_fields() -> None:
    played: Any = _Played({"GetLogGroupFields": _FIELDS})
    assert _shaped(played, TargetTaskKind.COLUMNS, "g", None, None)["columns"] == [
        {"name": "message", "type": "text", "nullable": False},
        {"name": "timestamp", "type": "number", "nullable": False},
        {"name": "ingestionTime", "type": "number", "nullable": False},
        {"name": "logStreamName", "type": "text", "nullable": False},
        {"name": "message.user.email", "type": "text", "nullable": True},
    ]


def test_whole_schema_has_both_services() -> None:
    played: Any = _Played({"DescribeLogGroups": _GROUPS, "GetLogGroupFields": _FIELDS, "ListMetrics": _METRICS})
    schema = _shaped(played, TargetTaskKind.SCHEMA, None)
    assert [(each["name"], [table["name"] for table in each["tables"]]) for each in schema["schemas"]] == [
        ("logs", ["g"]),
        ("metrics", ["n"]),
    ]
    assert [len(each["tables"][0]["columns"]) for each in schema["schemas"]] == [5, 1]


def test_identity_for_one_service_sees_that_one() -> None:
    played: Any = _Played({"ListMetrics": _METRICS})
    assert _rows(played, "test") == [("1",)]
    assert _rows(played, "tables", (None, None)) == [("metrics", "n")]
    assert _shaped(played, TargetTaskKind.SCHEMA, None)["schemas"][0]["name"] == "metrics"
    with pytest.raises(TargetRefused):
        _rows(played, "tables", ("logs", None))


@pytest.mark.parametrize(
    ("answer", "refuses_login"),
    [
        (None, False),
        ({"__type": "UnrecognizedClientException", "message": "no"}, True),
        (Failure("unavailable", "gone"), False),
    ],
)
def test_refusals_of_the_target_are_told(answer: Any, refuses_login: bool) -> None:
    played: Any = _Played({"DescribeLogGroups": answer})
    with pytest.raises(TargetRefused) as refused:
        _rows(played, "test")
    assert refused.value.refuses_login is refuses_login
    assert refused.value.code


def test_catalogue_holds_its_contract() -> None:
    check_catalogue(
        CATALOGUE,
        {
            TargetTaskKind.TEST: ("1",),
            TargetTaskKind.DATABASES: ("logs",),
            TargetTaskKind.TABLES: ("logs", "ü" * 100),
            TargetTaskKind.COLUMNS: ("message", "text", "NO"),
            TargetTaskKind.SCHEMA: ("3", "logs", "g", "message", "text", "NO", "1"),
        },
    )


def test_response_to_no_request_is_refused() -> None:
    query = CATALOGUE.query("test", ())
    query.start()
    with pytest.raises(ProtocolViolation):
        query.feed(end_frame(RESPONSE_END, 9))


@pytest.mark.parametrize("statement", ["tables", "columns", "schema"])
def test_number_of_values_must_match(statement: str) -> None:
    with pytest.raises(ProtocolViolation):
        CATALOGUE.query(statement, ["x"] * 9)
