"""What requests do, as statements."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from tests.support.cloudwatch import MODELS, text_of

from postern.domain.rules.statement import EVERYTHING, Effect, Statement
from postern.protocols.cloudwatch.dialect.cloudwatch_operations import (
    LOGS_OPERATIONS,
    METRICS_OPERATIONS,
    OPERATIONS,
    CloudwatchService,
)
from postern.protocols.cloudwatch.dialect.cloudwatch_parser import CloudwatchParser

_PARSER = CloudwatchParser()


def _parse(text: str) -> Statement:
    (statement,) = _PARSER.parse(text)
    return statement


def _request(operation: str, /, **parameters: Any) -> str:
    return f"{operation} {json.dumps(parameters)}"


def _names(statement: Statement) -> set[str]:
    return {f"{each.schema}.{each.name}" if each != EVERYTHING else "*" for each in statement.objects}


def test_every_operation_of_the_services_is_listed() -> None:
    assert set(LOGS_OPERATIONS) == set(MODELS["logs"].operation_names)
    assert set(METRICS_OPERATIONS) == set(MODELS["cloudwatch"].operation_names)


def test_operations_that_both_services_have_do_the_same() -> None:
    both = set(LOGS_OPERATIONS) & set(METRICS_OPERATIONS)
    assert both == {"ListTagsForResource", "TagResource", "UntagResource"}
    assert all(len({OPERATIONS[service][name] for service in CloudwatchService}) == 1 for name in both)


@pytest.mark.parametrize("service", ["logs", "cloudwatch"])
def test_operations_that_only_read_are_called_by_reading_words(service: str) -> None:
    words = ("Describe", "Get", "List", "Filter", "Test", "StartQuery", "StartLiveTail", "StopQuery")
    listed = LOGS_OPERATIONS if service == "logs" else METRICS_OPERATIONS
    harmless = {name for name, facts in listed.items() if facts.effects <= {Effect.READ, Effect.SESSION}}
    assert harmless == {name for name in listed if name.startswith(words)}


@pytest.mark.parametrize(
    ("text", "effects", "objects"),
    [
        (_request("FilterLogEvents", logGroupName="/shop/a"), "read", {"logs./shop/a"}),
        (
            _request(
                "FilterLogEvents", logGroupIdentifier="arn:aws:logs:eu-central-1:123456789012:log-group:/shop/a:*"
            ),
            "read",
            {"logs./shop/a"},
        ),
        (_request("StartLiveTail", logGroupIdentifiers=["a", "b"]), "read", {"logs.a", "logs.b"}),
        (_request("StartQuery", logGroupNames=["a"], queryString="fields @message"), "read", {"logs.a"}),
        (_request("StartQuery", queryString="SOURCE logGroups(namePrefix: ['x']) | fields a"), "read", {"*", "logs.x"}),
        (_request("StartQuery", logGroupName="a", queryString="frobnicate x"), "read", {"*", "logs.a"}),
        (
            _request("StartQuery", queryLanguage="SQL", queryString="select * from `b`"),
            "read",
            {"*", "logs.b"},
        ),
        (_request("GetQueryResults", queryId="q"), "read", {"*"}),
        (
            f"{_request('GetQueryResults', queryId='q')} of {_request('StartQuery', logGroupName='a', queryString='')}",
            "read",
            {"logs.a"},
        ),
        (_request("StopQuery", queryId="q"), "admin session", {"*"}),
        (f"{_request('StopQuery', queryId='q')} of {_request('StartQuery', logGroupName='a')}", "session", {"logs.a"}),
        (_request("GetLogRecord", logRecordPointer="p"), "read", {"*"}),
        (_request("CreateExportTask", logGroupName="a", destination="bucket"), "admin read", {"logs.a"}),
        (_request("PutSubscriptionFilter", logGroupName="a", destinationArn="arn"), "admin read", {"logs.a"}),
        (_request("PutDestination", destinationName="d"), "admin", set()),
        (_request("PutResourcePolicy", policyName="p"), "grant", set()),
        (_request("PutLogEvents", logGroupName="a", logStreamName="s", logEvents=[]), "write", {"logs.a"}),
        (_request("DeleteLogGroup", logGroupName="a"), "ddl", {"logs.a"}),
        (_request("PutAccountPolicy", policyName="p"), "admin read", {"*"}),
        (_request("DescribeLogGroups"), "read", set()),
        (_request("ListMetrics", Namespace="AWS/EC2"), "read", {"metrics.AWS/EC2"}),
        (
            _request("GetMetricData", MetricDataQueries=[{"MetricStat": {"Metric": {"Namespace": "Shop"}}}]),
            "read",
            {"metrics.Shop"},
        ),
        (
            _request(
                "GetMetricData", MetricDataQueries=[{"Expression": "SEARCH('{Shop,Id} MetricName=\"x\"', 'Sum')"}]
            ),
            "read",
            {"metrics.Shop"},
        ),
        (_request("GetMetricData", MetricDataQueries=[{"Expression": "SEARCH('x', 'Sum')"}]), "read", {"*"}),
        (
            _request("GetMetricData", MetricDataQueries=[{"Expression": 'SELECT AVG(x) FROM SCHEMA("Shop", Id)'}]),
            "read",
            {"metrics.Shop"},
        ),
        (_request("GetMetricData", MetricDataQueries=[{"Expression": "LAMBDA('f')"}]), "read unknown", set()),
        (_request("PutMetricData", Namespace="Shop"), "write", {"metrics.Shop"}),
        (_request("DeleteAlarms", AlarmNames=["a", "b"]), "ddl", {"alarms.a", "alarms.b"}),
        (_request("DeleteAlarms", AlarmNames={"1": "a", "member": {"x": {"2": "b"}}}), "ddl", {"alarms.a"}),
        (_request("DeleteAlarms", AlarmNames={"member": {"01": "a"}}), "ddl", {"alarms.a"}),
        (_request("PutMetricStream", Name="s"), "admin read", set()),
        (_request("Frobnicate"), "unknown", {"*"}),
        ("FilterLogEvents", "unknown", set()),
        ("FilterLogEvents [1]", "unknown", set()),
        ('FilterLogEvents {"a": 1, "a": 2}', "unknown", set()),
        ('FilterLogEvents {"a": NaN}', "unknown", set()),
        ('FilterLogEvents {} of FilterLogEvents {"logGroupName": "a"}', "unknown", set()),
        ("FilterLogEvents {} x", "unknown", set()),
        ("FilterLogEvents " + '{"a":' * 5000 + "1" + "}" * 5000, "unknown", set()),
    ],
)
def test_effects_and_objects(text: str, effects: str, objects: set[str]) -> None:
    statement = _parse(text)
    assert " ".join(sorted(statement.effects)) == effects
    assert _names(statement) == objects
    assert bool(statement.reason) == ("unknown" in effects)


@pytest.mark.parametrize(
    ("text", "is_scan"),
    [
        (_request("FilterLogEvents", logGroupName="a"), True),
        (_request("FilterLogEvents", logGroupName="a", filterPattern=' "" '), True),
        (_request("FilterLogEvents", logGroupName="a", filterPattern="ERROR"), False),
        (_request("FilterLogEvents", logGroupName="a", startTime=0), True),
        (_request("FilterLogEvents", logGroupName="a", startTime=1700000000000), False),
        (_request("FilterLogEvents", logGroupName="a", endTime=1700000000000), True),
        (_request("FilterLogEvents", logGroupName="a", limit=10), False),
        (_request("FilterLogEvents", logGroupName="a", limit=10, nextToken="t"), True),
        (_request("FilterLogEvents", logGroupName="a", logStreamNames=["s"]), False),
        (_request("GetLogEvents", logGroupName="a", logStreamName="s"), False),
        (_request("StartLiveTail", logGroupIdentifiers=["a"]), True),
        (_request("StartLiveTail", logGroupIdentifiers=["a"], logEventFilterPattern="x"), False),
        (_request("CreateExportTask", logGroupName="a", to=5, **{"from": 0}), True),
        (_request("CreateExportTask", logGroupName="a", to=5, **{"from": 4}), False),
        (_request("StartQuery", logGroupName="a", queryString="fields @message"), False),
    ],
)
def test_which_requests_read_everything(text: str, is_scan: bool) -> None:
    assert bool(_parse(text).scans) is is_scan


def test_parser_is_the_same_in_another_process() -> None:
    assert pickle.loads(pickle.dumps(CloudwatchParser())) is pickle.loads(pickle.dumps(CloudwatchParser()))


@pytest.mark.parametrize("protocol", ["json", "smithy-rpc-v2-cbor", "query"])
def test_text_of_a_request_is_the_same_in_every_codec(protocol: str) -> None:
    parameters = {
        "Namespace": "Shop",
        "MetricName": "orders",
        "Dimensions": [{"Name": "region", "Value": "é&+ %"}, {"Name": "x"}],
    }
    text = text_of("cloudwatch", "ListMetrics", parameters, protocol)
    assert text == f"ListMetrics {json.dumps(parameters, ensure_ascii=False)}"
