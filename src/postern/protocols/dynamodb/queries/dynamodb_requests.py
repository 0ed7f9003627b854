"""Requests of DynamoDB as frames, and how answers are read on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from postern.protocols.aws.aws_json_client import AwsJsonResponse, request_frames
from postern.protocols.dynamodb.dialect.dynamodb_json import (
    DynamodbOperation,
    Parameters,
    encode_parameters,
)
from postern.protocols.dynamodb.dialect.dynamodb_operations import STREAM_OPERATIONS
from postern.protocols.gateway_queries import TargetRefused

SERVICE: Final = "DynamoDB_20120810"
STREAMS: Final = "DynamoDBStreams_20120810"
CONTENT_TYPE: Final = "application/x-amz-json-1.0"
# Errors that mean that the target does not accept the credentials.
_LOGIN_ERRORS: Final = frozenset(
    {
        *("UnrecognizedClientException", "InvalidSignatureException", "MissingAuthenticationTokenException"),
        *("IncompleteSignatureException", "ExpiredTokenException", "InvalidClientTokenId"),
    }
)
_INVALID_AUTHORIZATION: Final = "28000"


def encode_operation(exchange: int, operation: DynamodbOperation) -> bytes:
    """Return an operation as frames."""
    service = STREAMS if operation.name in STREAM_OPERATIONS else SERVICE
    body = encode_parameters(operation.parameters)
    return request_frames(exchange, f"{service}.{operation.name}", body, content_type=CONTENT_TYPE)


def next_page(operation: DynamodbOperation, content: object) -> DynamodbOperation | None:
    """Return the operation that reads on after a page; None at the end, and where the author chose the number of
    items."""
    name, parameters = operation
    if not isinstance(content, Mapping) or "Limit" in parameters:
        return None
    further: Parameters | None = None
    if name in ("Scan", "Query") and content.get("LastEvaluatedKey"):
        further = {"ExclusiveStartKey": content["LastEvaluatedKey"]}
    elif name == "ExecuteStatement" and content.get("NextToken"):
        further = {"NextToken": content["NextToken"]}
    elif name == "ListTables" and content.get("LastEvaluatedTableName"):
        further = {"ExclusiveStartTableName": content["LastEvaluatedTableName"]}
    elif name == "BatchGetItem" and content.get("UnprocessedKeys"):
        further = {"RequestItems": content["UnprocessedKeys"]}
    elif name == "BatchWriteItem" and content.get("UnprocessedItems"):
        further = {"RequestItems": content["UnprocessedItems"]}
    return None if further is None else DynamodbOperation(name, {**parameters, **further})


def make_target_refused(response: AwsJsonResponse) -> TargetRefused:
    """Return an error response to the gateway itself as an exception."""
    code = _INVALID_AUTHORIZATION if response.code in _LOGIN_ERRORS else response.code
    return TargetRefused(response.message or f"the target refused the operation: {response.code}", code)


def as_mapping(content: Any) -> Mapping[str, Any]:
    return content if isinstance(content, Mapping) else {}


def as_list(content: Any) -> list[Any]:
    return content if isinstance(content, list) else []
