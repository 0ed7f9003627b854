"""How requests are read: in each codec, and not at all if they could be read in two ways."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cloudwatch import ALL, PROTOCOLS, parsed, read, serialized

from postern.interception.verdicts import Refuse
from postern.protocols.cloudwatch.cloudwatch_endpoints import find_endpoint
from postern.protocols.cloudwatch.wire.cloudwatch_codecs import as_json_value, read_cbor, write_cbor
from postern.protocols.cloudwatch.wire.cloudwatch_dialect import CloudwatchDialect
from postern.protocols.cloudwatch.wire.started_queries import MAX_QUERIES, QueryRegistry, StartedQueries
from postern.protocols.http.http_frames import TargetFailure
from postern.protocols.http.http_heads import RequestHead

_JSON = (b"content-type", b"application/x-amz-json-1.1")
_LOGS = (b"x-amz-target", b"Logs_20140328.FilterLogEvents")
_CBOR = (b"smithy-protocol", b"rpc-v2-cbor")
_FORM = (b"content-type", b"application/x-www-form-urlencoded")
_GZIP = (b"content-encoding", b"gzip")
_PATH = "/service/GraniteServiceVersion20100801/operation/ListMetrics"


def _dialect() -> CloudwatchDialect:
    return CloudwatchDialect(StartedQueries(), max_body=4096)


def _refused(head: RequestHead, body: bytes) -> str:
    request = read(_dialect(), head, body)
    assert request.forced is not None, request.operations
    assert request.operations
    return request.forced.message


@pytest.mark.parametrize(
    ("method", "target", "headers", "body", "why"),
    [
        ("POST", "/", (_JSON,), b"{}", "does not name exactly one operation"),
        ("POST", "/", (_JSON, _LOGS, _LOGS), b"{}", "does not name exactly one operation"),
        ("POST", "/", (_FORM, _LOGS), b"Action=ListMetrics", "does not name exactly one operation"),
        ("POST", _PATH, (_JSON, _LOGS), b"{}", "does not name exactly one operation"),
        ("POST", "/", (_JSON, (b"x-amz-target", b"Logs_20140328.A.B")), b"{}", "does not name exactly one operation"),
        ("POST", "/", (_JSON, (b"x-amz-target", b"DynamoDB_20120810.Scan")), b"{}", "is for DynamoDB_20120810"),
        ("POST", "/service/Other/operation/ListMetrics", (_CBOR,), b"", "is for Other"),
        ("POST", "/", (_LOGS,), b"{}", "content type"),
        ("POST", "/", (_LOGS, (b"content-type", b"text/plain")), b"{}", "content type"),
        ("POST", "/", (_JSON, _JSON, _LOGS), b"{}", "several content types"),
        ("GET", "/", (_JSON, _LOGS), b"", "POST requests"),
        ("POST", "/x", (_JSON, _LOGS), b"{}", "path"),
        ("POST", "/?a=b", (_JSON, _LOGS), b"{}", "parameters in its path"),
        ("POST", "/", (_JSON, _LOGS), b"[]", "not a JSON object"),
        ("POST", "/", (_JSON, _LOGS), b"{", "not valid JSON"),
        ("POST", "/", (_JSON, _LOGS), b'{"a": 1} {}', "after its JSON object"),
        ("POST", "/", (_JSON, _LOGS), b'{"logGroupName": "a", "logGroupName": "b"}', "key twice"),
        ("POST", "/", (_JSON, _LOGS), b'{"a": {"b": 1, "b": 2}}', "key twice"),
        ("POST", "/", (_JSON, _LOGS), b'{"a": NaN}', "NaN"),
        ("POST", "/", (_JSON, _LOGS), b'{"a": "\\ud800"}', "Unicode"),
        ("POST", "/", (_JSON, _LOGS), b'\xff{"a": 1}', "UTF-8"),
        ("POST", "/", (_JSON, _LOGS), b'\xef\xbb\xbf{"a": 1}', "not a JSON object|not valid JSON"),
        ("POST", "/", (_JSON, _LOGS), b'{"a":' * 3000, "not valid JSON"),
        ("POST", "/", (_JSON, _LOGS, _GZIP), b"{}", "gzip"),
        ("POST", "/", (_JSON, _LOGS, _GZIP), gzip.compress(b" " * 5000, mtime=0), "longer than"),
        ("POST", "/", (_JSON, _LOGS, _GZIP), gzip.compress(b"{}", mtime=0) + b"x", "after its gzip data"),
        ("POST", "/", (_JSON, _LOGS, (b"content-encoding", b"br")), b"{}", "compressed"),
        (
            "POST",
            "/",
            (_JSON, _LOGS, _GZIP, _GZIP),
            gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0),
            "compressed",
        ),
        ("POST", "/", (_JSON, _LOGS, (b"content-encoding", b"aws-chunked")), b"{}", "chunks"),
        ("POST", _PATH, (), b"\xa0", "rpc-v2-cbor"),
        ("POST", _PATH, (_CBOR, _JSON), b"\xa0", "not CBOR"),
        ("POST", _PATH, (_CBOR,), b"\xa0\xa0", "after its CBOR item"),
        ("POST", _PATH, (_CBOR,), b"\x80", "not an object"),
        ("POST", _PATH, (_CBOR,), bytes.fromhex("a2616101616102"), "Duplicate"),
        ("POST", _PATH, (_CBOR,), bytes.fromhex("a16161d81c80"), "the tag 28"),
        ("POST", _PATH, (_CBOR,), bytes.fromhex("a16161d9d9f700"), "the tag 55799"),
        ("POST", _PATH, (_CBOR,), bytes.fromhex("a16161c2420100"), "the tag 2"),
        ("POST", _PATH, (_CBOR,), bytes.fromhex("d9d9f7a0"), "not|tag"),
        ("POST", _PATH, (_CBOR,), bytes.fromhex("a16161c16161"), "the tag 1"),
        ("POST", _PATH, (_CBOR,), bytes.fromhex("a10100"), "key"),
        ("POST", _PATH, (_CBOR,), bytes.fromhex("a1616100ff"), "after"),
        ("POST", _PATH, (_CBOR,), bytes.fromhex("a1616182"), "CBOR"),
        ("POST", _PATH, (_CBOR,), b"\xa1aa" + b"\x81" * 2000 + b"\x01", "CBOR"),
        ("POST", "/", (_FORM,), b"Version=2010-08-01", "Action"),
        ("POST", "/", (_FORM,), b"Action=ListMetrics&Action=DeleteAlarms", "twice"),
        ("POST", "/", (_FORM,), b"Action=ListMetrics&Version=2020-01-01", "version"),
        ("POST", "/?Action=DeleteAlarms", (_FORM,), b"Action=ListMetrics", "parameters in its path"),
        ("POST", "/", (_FORM,), b"Action=ListMetrics&A=1&A.b=2", "has a value"),
        ("POST", "/", (_FORM,), b"Action=ListMetrics&A.b=2&A=1", "parts"),
        ("POST", "/", (_FORM,), b"Action=ListMetrics&A.member.1=x&A.member.01=y", "two values"),
        ("POST", "/", (_FORM,), b"Action=ListMetrics&A=%ff", "form"),
        ("POST", "/", (_FORM,), b"Action=ListMetrics&" + b"a." * 50 + b"b=1", "nested"),
        ("GET", "/?Action=ListMetrics", (), b"Action=DeleteAlarms", "body"),
    ],
)
def test_ambiguous_requests_are_refused(
    method: str, target: str, headers: tuple[tuple[bytes, bytes], ...], body: bytes, why: str
) -> None:
    message = _refused(RequestHead(method, target, "h", headers, len(body)), body)
    assert re.search(why, message), message


def test_body_that_is_too_long_is_refused() -> None:
    request = _dialect().read_request(1, RequestHead("POST", "/", "h", (_JSON, _LOGS), 9999), b"{", is_complete=False)
    assert request.forced is not None
    assert "4096" in request.forced.message


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ((_JSON, _LOGS), b'{"logGroupName": "a"}'),
        ((_JSON, _LOGS, _GZIP), gzip.compress(b'{"logGroupName": "a"}', mtime=0)),
        ((_JSON, _LOGS, (b"content-encoding", b"identity")), b' {"logGroupName":"a"} '),
    ],
)
def test_text_is_canonical_and_the_answer_comes_uncompressed(
    headers: tuple[tuple[bytes, bytes], ...], body: bytes
) -> None:
    head = RequestHead("POST", "/", "h", (*headers, (b"accept-encoding", b"gzip")), len(body))
    request = read(_dialect(), head, body)
    assert request.operations[0].text == 'FilterLogEvents {"logGroupName": "a"}'
    assert request.head.headers[-1] == (b"accept-encoding", b"identity")
    assert len(request.head.headers) == len(head.headers)


def test_query_can_be_in_the_path() -> None:
    head = RequestHead("GET", "/?Action=ListMetrics&Version=2010-08-01&Dimensions.member.1.Name=x", "h")
    assert read(_dialect(), head, b"").operations[0].text == 'ListMetrics {"Dimensions": [{"Name": "x"}]}'


@pytest.mark.parametrize(
    ("service", "operation", "protocol", "signing", "host"),
    [
        ("logs", "FilterLogEvents", "json", "logs", "logs.eu-central-1.amazonaws.com"),
        ("logs", "StartLiveTail", "json", "logs", "stream-logs.eu-central-1.amazonaws.com"),
        ("logs", "GetLogObject", "json", "logs", "stream-logs.eu-central-1.amazonaws.com"),
        ("cloudwatch", "ListMetrics", "json", "monitoring", "monitoring.eu-central-1.amazonaws.com"),
        ("cloudwatch", "ListMetrics", "smithy-rpc-v2-cbor", "monitoring", "monitoring.eu-central-1.amazonaws.com"),
        ("cloudwatch", "ListMetrics", "query", "monitoring", "monitoring.eu-central-1.amazonaws.com"),
    ],
)
def test_endpoint_follows_from_the_request(
    service: str, operation: str, protocol: str, signing: str, host: str
) -> None:
    needed: dict[str, dict[str, Any]] = {
        "StartLiveTail": {"logGroupIdentifiers": ["a"]},
        "GetLogObject": {"logObjectPointer": "p"},
    }
    head, body = serialized(service, operation, needed.get(operation, {}), protocol)
    request = read(_dialect(), head, body)
    assert request.forced is None
    endpoint = find_endpoint(request.head)
    assert endpoint is not None
    assert (endpoint.service, endpoint.authority("eu-central-1")) == (signing, host)


@pytest.mark.parametrize(("service", "protocol"), PROTOCOLS)
@pytest.mark.parametrize(
    ("failure", "status", "codes"),
    [
        (None, 400, {"AccessDenied", "AccessDeniedException"}),
        (TargetFailure("timeout", "no <answer>"), 504, {"ServiceUnavailable", "ServiceUnavailableException"}),
        (TargetFailure("unavailable", "gone"), 503, {"ServiceUnavailable", "ServiceUnavailableException"}),
        (TargetFailure("invalid", "bad"), 502, {"InternalFailure", "InternalServerError"}),
    ],
)
def test_botocore_reads_errors_of_the_gateway(
    service: str, protocol: str, failure: TargetFailure | None, status: int, codes: set[str]
) -> None:
    operation = "DescribeLogGroups" if service == "logs" else "DescribeAlarms"
    dialect = _dialect()
    request = read(dialect, *serialized(service, operation, {}, protocol))
    if failure is None:
        head, body = dialect.refusal(request, Refuse("rule", "denied by <rule> & é\x01", "Ask"))
    else:
        head, body = dialect.failure(request, failure)
    assert (head.status, head.length) == (status, len(body))
    answer = parsed(service, operation, head, body, protocol)
    assert answer["Error"]["Code"] in codes
    assert answer["Error"]["Message"].startswith("denied by <rule> & é" if failure is None else failure.message)


_SCALARS = st.none() | st.booleans() | st.text(max_size=10) | st.floats(allow_nan=False) | st.binary(max_size=10)
_VALUES = st.recursive(
    _SCALARS | st.integers(-(2**63), 2**63 - 1),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=5), _VALUES, max_size=4))
def test_cbor_is_read_and_written(tree: dict[str, Any]) -> None:
    body = cbor2.dumps(tree)
    assert read_cbor(body) == tree
    assert write_cbor(read_cbor(body)) == body
    json.dumps(as_json_value(tree), allow_nan=False)


@given(st.binary(max_size=60))
def test_any_bytes_are_cbor_or_refused(body: bytes) -> None:
    head = RequestHead("POST", _PATH, "h", (_CBOR,), len(body))
    request = read(_dialect(), head, body)
    assert request.forced is not None or request.operations[0].text.startswith("ListMetrics {")


@given(st.binary(max_size=60))
def test_any_bytes_are_json_or_refused(body: bytes) -> None:
    request = read(_dialect(), RequestHead("POST", "/", "h", (_JSON, _LOGS), len(body)), body)
    assert request.forced is not None or request.operations[0].text.startswith("FilterLogEvents {")


def test_times_in_cbor_are_texts() -> None:
    tree = read_cbor(cbor2.dumps({"a": cbor2.CBORTag(1, 0), "b": cbor2.CBORTag(1, 1.5), "c": float("inf")}))
    assert as_json_value(tree) == {"a": "1970-01-01T00:00:00Z", "b": "1970-01-01T00:00:01.500000Z", "c": "inf"}


def test_queries_are_remembered_for_their_principal_only() -> None:
    registry = QueryRegistry()
    registry.of("ann", "c").add("q", "text")
    assert registry.of("ann", "c").find("q") == "text"
    assert registry.of("bob", "c").find("q") == ""
    assert registry.of("ann", "d").find("q") == ""
    assert registry.of("ann", "c").find(["q"]) == ""


def test_oldest_queries_are_forgotten() -> None:
    queries = StartedQueries()
    for number in range(MAX_QUERIES + 1):
        queries.add(str(number), "x")
    assert queries.find("0") == ""
    assert queries.find(str(MAX_QUERIES)) == "x"
    queries.add("long", "y" * (1 << 20))
    assert queries.find(str(MAX_QUERIES)) == ""


def test_no_body_is_needed_besides_the_one_to_judge() -> None:
    need = _dialect().body_need(RequestHead("POST", "/", "h"), ALL)
    assert (need.limit, need.must_fit) == (4096, True)
