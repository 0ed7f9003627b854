"""Requests and responses of DynamoDB as frames, as a listener and an agent write them."""

from __future__ import annotations

import json
import zlib
from typing import Any

from postern.protocols.aws.aws_json_client import AwsJsonResponses
from postern.protocols.dynamodb.dialect.dynamodb_json import DynamodbOperation
from postern.protocols.dynamodb.queries.dynamodb_requests import encode_operation
from postern.protocols.dynamodb.wire.dynamodb_dialect import DynamodbDialect
from postern.protocols.dynamodb.wire.sealed_keys import KeySealer
from postern.protocols.http import http_frames as f
from postern.protocols.http.http_heads import ResponseHead
from postern.protocols.http.wire.http_wire import HttpWire


def dynamodb_wire() -> HttpWire:
    """Make the wire of one link."""
    return HttpWire(DynamodbDialect(KeySealer(b"secret", "anna"), request_id=lambda: "id"), "localhost")


def request(name: str, number: int = 1, **parameters: Any) -> bytes:
    return encode_operation(number, DynamodbOperation(name, parameters))


def response(content: Any, number: int = 1, *, status: int = 200) -> bytes:
    body = content if isinstance(content, bytes) else compact(content)
    headers = (
        (b"content-type", b"application/x-amz-json-1.0"),
        (b"x-amzn-requestid", b"id"),
        (b"x-amz-crc32", b"%d" % zlib.crc32(body)),
    )
    head = f.response_frame(number, ResponseHead(status, headers, len(body)))
    return head + f.data_frames(f.RESPONSE_DATA, number, body) + f.end_frame(f.RESPONSE_END, number)


def error(code: str, message: str, number: int = 1) -> bytes:
    return response({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message}, number, status=400)


def bodies(data: bytes) -> bytes:
    """The bodies of complete responses, one after another."""
    return b"\n".join(compact(each.content) for each in AwsJsonResponses().feed(data))


def compact(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
