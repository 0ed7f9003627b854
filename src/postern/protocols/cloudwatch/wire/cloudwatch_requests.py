"""Requests of CloudWatch: which operation, with which parameters, in which of the codecs.

Whatever could be read in two ways is refused: an operation that is named twice, a parameter that appears twice, a body
in another codec than its head says.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl

from postern.protocols.cloudwatch.cloudwatch_endpoints import (
    LOGS_TARGET,
    METRICS_TARGET,
    NamedOperation,
    RequestForm,
    name_operation,
)
from postern.protocols.cloudwatch.dialect.cloudwatch_operations import CloudwatchService
from postern.protocols.cloudwatch.dialect.cloudwatch_statement_text import (
    Document,
    UnreadableCloudwatchRequest,
    is_operation_name,
    read_parameters,
)
from postern.protocols.cloudwatch.wire.cloudwatch_codecs import as_json_value, read_cbor
from postern.protocols.http.http_heads import RequestHead, first_value, values_of

MAX_PARAMETERS: Final = 10_000  # of a form
_MAX_LEVELS: Final = 32
_SERVICES: Final = {LOGS_TARGET: CloudwatchService.LOGS, METRICS_TARGET: CloudwatchService.METRICS}
_JSON_TYPES: Final = frozenset({b"application/x-amz-json-1.0", b"application/x-amz-json-1.1", b"application/json"})
_CBOR_TYPE: Final = b"application/cbor"
_CBOR_PROTOCOL: Final = b"rpc-v2-cbor"
_VERSION: Final = "2010-08-01"


@dataclass(frozen=True, slots=True)
class CloudwatchRequest:
    form: RequestForm
    service: CloudwatchService
    operation: str
    parameters: Document = field(default_factory=dict)


def read_cloudwatch_request(head: RequestHead, body: bytes, *, max_body: int) -> CloudwatchRequest:
    """Read a request. `max_body` limits a compressed body once it is expanded. Raises UnreadableCloudwatchRequest."""
    named = name_operation(head)
    if named is None:
        raise UnreadableCloudwatchRequest(
            "the request does not name exactly one operation of CloudWatch, in X-Amz-Target, in its path or as Action"
        )
    service = _SERVICES.get(named.target)
    if service is None:
        raise UnreadableCloudwatchRequest(f"the request is for {named.target[:64]}, and not for CloudWatch")
    _check_head(head, named)
    content = _expand(head, body, max_body)
    if named.form is RequestForm.JSON:
        return CloudwatchRequest(named.form, service, named.name, read_parameters(content))
    if named.form is RequestForm.CBOR:
        return CloudwatchRequest(named.form, service, named.name, _read_cbor(content))
    return _read_query(head, content)


def _check_head(head: RequestHead, named: NamedOperation) -> None:
    content_types = values_of(head.headers, b"content-type")
    if len(content_types) > 1:
        raise UnreadableCloudwatchRequest("the request has several content types")
    if head.method != "POST" and not (head.method == "GET" and named.form is RequestForm.QUERY):
        raise UnreadableCloudwatchRequest(f"operations of CloudWatch are POST requests, and not {head.method}")
    if named.form is not RequestForm.CBOR and head.path != "/":
        raise UnreadableCloudwatchRequest("the path of a request must be /")
    if head.query and (named.form is not RequestForm.QUERY or head.method == "POST"):
        raise UnreadableCloudwatchRequest(
            "the request has parameters in its path, which this form of requests does not have"
        )
    kind = content_types[0].partition(b";")[0].strip().lower() if content_types else b""
    if named.form is RequestForm.JSON and kind not in _JSON_TYPES:
        raise UnreadableCloudwatchRequest("the content type of the request is not that of AWS JSON")
    if named.form is not RequestForm.CBOR and values_of(head.headers, b"smithy-protocol"):
        raise UnreadableCloudwatchRequest("the request says that it is of another protocol than its form")
    if named.form is RequestForm.CBOR:
        if values_of(head.headers, b"smithy-protocol") != [_CBOR_PROTOCOL]:
            raise UnreadableCloudwatchRequest("the request does not say that its protocol is rpc-v2-cbor")
        if kind not in (b"", _CBOR_TYPE):
            raise UnreadableCloudwatchRequest("the content type of the request is not CBOR")


def _expand(head: RequestHead, body: bytes, limit: int) -> bytes:
    """Return the body without its content coding: SDKs compress PutMetricData."""
    codings = [
        coding.strip().lower()
        for value in values_of(head.headers, b"content-encoding")
        for coding in value.split(b",")
        if coding.strip().lower() not in (b"", b"identity", b"aws-chunked")
    ]
    if b"aws-chunked" in first_value(head.headers, b"content-encoding").lower():
        raise UnreadableCloudwatchRequest("the body of the request is in signed chunks, which CloudWatch does not have")
    if not codings:
        return body
    if codings != [b"gzip"]:
        raise UnreadableCloudwatchRequest("the body of the request is compressed otherwise than by gzip")
    try:
        reader = zlib.decompressobj(zlib.MAX_WBITS | 16)
        expanded = reader.decompress(body, limit)
    except zlib.error:
        raise UnreadableCloudwatchRequest("the body of the request is not valid gzip") from None
    if reader.unconsumed_tail or not reader.eof:
        raise UnreadableCloudwatchRequest(f"the expanded body of the request is longer than {limit} bytes, or cut")
    if reader.unused_data:
        raise UnreadableCloudwatchRequest("the body of the request has something after its gzip data")
    return expanded


def _read_cbor(body: bytes) -> Document:
    if not body:
        return {}
    try:
        parameters: Document = as_json_value(read_cbor(body))
    except (ValueError, RecursionError) as error:
        raise UnreadableCloudwatchRequest(str(error) or "the body is nested too deeply") from None
    return parameters


def _read_query(head: RequestHead, body: bytes) -> CloudwatchRequest:
    if head.method == "GET" and body:
        raise UnreadableCloudwatchRequest("a GET request has a body")
    try:
        text = head.query if head.method == "GET" else body.decode("ascii")
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=MAX_PARAMETERS
        )
    except ValueError:
        raise UnreadableCloudwatchRequest("the parameters of the request are not a valid form") from None
    values = dict(pairs)
    if len(values) != len(pairs):
        raise UnreadableCloudwatchRequest("the request has a parameter twice")
    operation = values.pop("Action", "")
    if not is_operation_name(operation):
        raise UnreadableCloudwatchRequest("the request has no parameter Action with the name of an operation")
    if values.pop("Version", _VERSION) != _VERSION:
        raise UnreadableCloudwatchRequest(f"the request is not for version {_VERSION} of CloudWatch metrics")
    return CloudwatchRequest(RequestForm.QUERY, CloudwatchService.METRICS, operation, unflatten(values))


def unflatten(values: Mapping[str, str]) -> Document:
    """Return the parameters of a form as an object: `Metrics.member.1.Name` is in the list `Metrics`.

    Raises UnreadableCloudwatchRequest.
    """
    tree: Document = {}
    for name, value in values.items():
        node = tree
        *parents, last = name.split(".")
        if len(parents) > _MAX_LEVELS:
            raise UnreadableCloudwatchRequest("the parameters are nested too deeply")
        for parent in parents:
            inner = node.setdefault(parent, {})
            if not isinstance(inner, dict):
                raise UnreadableCloudwatchRequest(f"the parameter {name[:64]} is in one that has a value")
            node = inner
        if last in node:
            raise UnreadableCloudwatchRequest(f"the parameter {name[:64]} has a value and parts")
        node[last] = value
    return {key: _make_lists(value) for key, value in tree.items()}


def _make_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    members = value.get("member")
    if len(value) == 1 and isinstance(members, dict) and all(number.isdecimal() for number in members):
        if len({int(number) for number in members}) != len(members):
            raise UnreadableCloudwatchRequest("an element of a list has two values")
        return [_make_lists(members[number]) for number in sorted(members, key=int)]
    return {key: _make_lists(inner) for key, inner in value.items()}
