"""DynamoDB on HTTP: requests as statements, responses as rows and errors.

POST / X-Amz-Target: DynamoDB_20120810.Query {"TableName": …}
  ─▶ Operation `Query {"TableName": …}` ─▶ judged ─▶ forwarded with the digest of its body
200 {"Items": […], "LastEvaluatedKey": …}
  ─▶ DynamodbRows ─▶ masked ─▶ encoded with its checksum, masked attributes of the key sealed
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import uuid4

from postern.interception.events import Operation
from postern.interception.verdicts import Refuse
from postern.protocols.aws.aws_failures import VALIDATION
from postern.protocols.aws.aws_json import (
    error_response,
    failure_response,
    plain_request,
    read_target,
    refusal_response,
)
from postern.protocols.aws.aws_json_reader import (
    AwsErrorTexts,
    AwsEvent,
    AwsJsonAnswer,
    AwsJsonReader,
    AwsUnreadBody,
)
from postern.protocols.aws.sigv4_verification import digest_of
from postern.protocols.dynamodb.dialect.dynamodb_json import (
    Parameters,
    UnreadableOperation,
    encode_parameters,
    operation_text,
    read_parameters,
)
from postern.protocols.dynamodb.dialect.dynamodb_operations import OPERATIONS, STREAM_OPERATIONS
from postern.protocols.dynamodb.wire.dynamodb_rows import AttributeColumns, DynamodbRows, FoundItem
from postern.protocols.dynamodb.wire.response_items import (
    find_error_texts,
    find_items,
    find_items_of_error,
    table_of_page,
)
from postern.protocols.dynamodb.wire.sealed_keys import KeySealer, UnknownSeal, has_seals
from postern.protocols.http.http_frames import TargetFailure
from postern.protocols.http.http_heads import RequestHead, ResponseHead, first_value, values_of
from postern.protocols.http.wire.http_dialect import BodyNeed, HttpDialect, ReadRequest, ResponseBodyReader
from postern.protocols.wire_base import Wants

MAX_BODY: Final = 16 << 20  # bytes; a batch of 25 items of 400 KB with their names
SERVICE: Final = "DynamoDB_20120810"
STREAMS: Final = "DynamoDBStreams_20120810"
NAMESPACE: Final = "com.amazonaws.dynamodb.v20120810"
_CORAL: Final = "com.amazon.coral.service"
_SERIALIZATION: Final = "SerializationException"
_UNKNOWN: Final = "UnknownOperationException"
_RULE: Final = "dynamodb"


@dataclass(slots=True)
class DynamodbCall:
    """What a link knows of a request. `code` is the error of a request that the gateway itself refuses."""

    name: str = ""
    parameters: Parameters | None = None
    code: str = ""
    namespace: str = NAMESPACE


class DynamodbDialect(HttpDialect):
    """The dialect of one link. `sealer` belongs to its user and connection."""

    def __init__(
        self, sealer: KeySealer, *, max_body: int = MAX_BODY, request_id: Callable[[], str] = lambda: str(uuid4())
    ) -> None:
        self._sealer = sealer
        self._max_body = max_body
        self._request_id = request_id
        self._columns = AttributeColumns()

    def body_need(self, head: RequestHead, wants: Wants) -> BodyNeed:
        return BodyNeed(self._max_body, must_fit=True)

    # Requests

    def read_request(self, exchange: int, head: RequestHead, body: bytes, *, is_complete: bool) -> ReadRequest:
        """Return the request as one statement."""
        request = ReadRequest(exchange, plain_request(head, digest_of(body)), answers=DynamodbCall())
        target = read_target(head)
        if target is None or head.target != "/":
            return _refuse(request, "this is not a request of DynamoDB: it has no operation", _UNKNOWN)
        if target.service not in (SERVICE, STREAMS) or (target.operation in STREAM_OPERATIONS) != (
            target.service == STREAMS
        ):
            return _refuse(
                request, f"the operation {target.service}.{target.operation}"[:200] + " is unknown", _UNKNOWN
            )
        wrong = _wrong_form(head, is_complete=is_complete)
        if wrong:
            return _refuse(request, wrong, _SERIALIZATION)
        try:
            parameters = read_parameters(body)
        except UnreadableOperation as error:
            return _refuse(request, f"the request cannot be read: {error}", _SERIALIZATION)
        request.answers = DynamodbCall(target.operation, parameters)
        request.operations.append(Operation(exchange, operation_text(target.operation, parameters)))
        return self._without_seals(request, target.operation, parameters)

    def _without_seals(self, request: ReadRequest, name: str, parameters: Parameters) -> ReadRequest:
        """Open the sealed attributes of the key that a page begins after."""
        key = parameters.get("ExclusiveStartKey")
        if name not in ("Query", "Scan") or not isinstance(key, Mapping) or not has_seals(key):
            return request
        try:
            opened = self._sealer.open_key(table_of_page(name, parameters), key)
        except UnknownSeal as error:
            return _refuse(request, f"The provided starting key is invalid: {error}", VALIDATION, NAMESPACE)
        body = encode_parameters({**parameters, "ExclusiveStartKey": opened})
        request.body = body
        request.head = replace(request.head, length=len(body), digest=digest_of(body))
        return request

    # Responses

    def read_response(self, request: ReadRequest, response: ResponseHead, wants: Wants) -> ResponseBodyReader | None:
        """Return the reader of a response, or None if nothing asks for rows or texts."""
        if not (wants.rows or wants.output) or not response.has_body:
            return None
        call = _call_of(request)
        return AwsJsonReader(
            request.exchange, response, lambda answer: self._find(call, answer, rows=wants.rows, output=wants.output)
        )

    def _find(self, call: DynamodbCall, answer: AwsJsonAnswer, *, rows: bool, output: bool) -> list[AwsEvent]:
        events: list[AwsEvent] = []
        content = answer.content
        if not isinstance(content, dict):
            raise ValueError("the response is not a JSON object")
        parameters = call.parameters or {}
        if call.name not in OPERATIONS:
            return [AwsUnreadBody(answer, "the response of an operation that is not known")]
        is_error = answer.head.status >= 400
        if rows:
            items = (find_items_of_error if is_error else find_items)(call.name, parameters, content)
            keys = self._keys(call, parameters, answer)
            if items or keys:
                events.append(DynamodbRows(answer, items, self._columns, keys))
        places = find_error_texts(content) if output else []
        if places:
            events.append(AwsErrorTexts(answer, places))
        return events

    def _keys(self, call: DynamodbCall, parameters: Parameters, answer: AwsJsonAnswer) -> list[FoundItem]:
        """Return the key of the page's last item. What is masked in it is sealed when the response is encoded."""
        key = answer.content.get("LastEvaluatedKey")
        if call.name not in ("Query", "Scan", "ExecuteStatement") or not isinstance(key, dict) or not key:
            return []
        table = table_of_page(call.name, parameters)
        original: Mapping[str, Any] = copy.deepcopy(key)

        def seal() -> None:
            if key != original:
                sealed = self._sealer.seal_changed(table, original, key)
                key.clear()
                key.update(sealed)

        answer.before_encoding.append(seal)
        return [FoundItem(table, key)]

    # Errors

    def refusal(self, request: ReadRequest, refusal: Refuse) -> tuple[ResponseHead, bytes]:
        call = _call_of(request)
        if call.code and refusal is request.forced:
            return error_response(
                request.head, call.code, refusal.message, request_id=self._request_id(), namespace=call.namespace
            )
        return refusal_response(request.head, refusal, request_id=self._request_id(), namespace=NAMESPACE)

    def failure(self, request: ReadRequest, failure: TargetFailure) -> tuple[ResponseHead, bytes]:
        return failure_response(request.head, failure, request_id=self._request_id(), namespace=NAMESPACE)


def _call_of(request: ReadRequest) -> DynamodbCall:
    return request.answers if isinstance(request.answers, DynamodbCall) else DynamodbCall()


def _refuse(request: ReadRequest, message: str, code: str, namespace: str = _CORAL) -> ReadRequest:
    request.answers = DynamodbCall(code=code, namespace=namespace)
    request.forced = Refuse(_RULE, message)
    return request


def _wrong_form(head: RequestHead, *, is_complete: bool) -> str:
    """Return why a body is not read; empty if it is as SDKs send it."""
    if len(values_of(head.headers, b"content-type")) > 1 or values_of(head.headers, b"smithy-protocol"):
        return "the request does not say in one way how its body is encoded"
    kind = first_value(head.headers, b"content-type").partition(b";")[0].strip().lower()
    if kind not in (b"application/x-amz-json-1.0", b"application/x-amz-json-1.1", b"application/json", b""):
        return "the content type must be application/x-amz-json-1.0"
    if first_value(head.headers, b"content-encoding").strip().lower() not in (b"", b"identity"):
        return "requests must not be compressed"
    return "" if is_complete else "the request is too long to be read"
