"""Messages of the AWS JSON protocols: operations in requests, errors in responses, checksums of bodies.

    POST / HTTP/1.1
    X-Amz-Target: DynamoDB_20120810.GetItem
    Content-Type: application/x-amz-json-1.0

SDKs retry answers with the statuses 500 to 599, and those with codes of throttling. A refusal has therefore the status
400 and a code that none of them retries.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from postern.interception.verdicts import Refuse
from postern.protocols.aws.aws_failures import ACCESS_DENIED, name_of_failure
from postern.protocols.http.http_frames import TargetFailure
from postern.protocols.http.http_heads import Headers, RequestHead, ResponseHead, first_value, values_of, without

UNKNOWN_OPERATION: Final = "UnknownOperationException"
CHECKSUM: Final = b"x-amz-crc32"
_TYPES: Final = (b"application/x-amz-json-1.0", b"application/x-amz-json-1.1")
# What a response says of a body that is not sent as it came.
_OF_BODY: Final = frozenset({CHECKSUM, b"content-encoding", b"content-md5", b"etag", b"digest"})


class AwsTarget(NamedTuple):
    """The operation of a request: the service with its version as the header has it, and the name."""

    service: str
    operation: str


def read_target(head: RequestHead) -> AwsTarget | None:
    """Return the operation of a request; None if it has none, or several."""
    values = values_of(head.headers, b"x-amz-target")
    if len(values) != 1 or head.method != "POST":
        return None
    service, dot, operation = values[0].decode("latin-1").strip().rpartition(".")
    return AwsTarget(service, operation) if dot and service and operation else None


def content_type_of(head: RequestHead) -> bytes:
    """Return the content type of the response: that of the request, if it is AWS JSON."""
    given = first_value(head.headers, b"content-type").partition(b";")[0].strip().lower()
    return given if given in _TYPES else _TYPES[0]


def checksum_of(body: bytes) -> bytes:
    """Return the value of `X-Amz-Crc32`, over the body as it is sent."""
    return b"%d" % zlib.crc32(body)


def plain_request(head: RequestHead, digest: str) -> RequestHead:
    """Return the request as it is forwarded: its response is to come without compression, so that it can be read."""
    headers = (*without(head.headers, (b"accept-encoding",)), (b"accept-encoding", b"identity"))
    return RequestHead(head.method, head.target, head.authority, headers, head.length, "", digest)


def json_response(status: int, headers: Headers, body: bytes) -> ResponseHead:
    """Return the head of a response with this body. Its checksum is computed anew; other headers stay."""
    kept = without(headers, _OF_BODY)
    return ResponseHead(status, (*kept, (CHECKSUM, checksum_of(body))), len(body))


def error_response(
    request: RequestHead, code: str, message: str, *, status: int = 400, request_id: str = "", namespace: str = ""
) -> tuple[ResponseHead, bytes]:
    """Return an error as AWS writes it. `namespace` is that of the service's own errors, such as
    `com.amazonaws.dynamodb.v20120810`."""
    kind = f"{namespace}#{code}" if namespace else code
    # Java SDKs read `message`, others `Message` too.
    body = json.dumps({"__type": kind, "message": message}, ensure_ascii=False).encode()
    headers: Headers = (
        (b"content-type", content_type_of(request)),
        *(((b"x-amzn-requestid", request_id.encode("latin-1", "replace")),) if request_id else ()),
        (b"x-amzn-errortype", code.encode("latin-1", "replace")),
    )
    return json_response(status, headers, body), body


def refusal_response(
    request: RequestHead, refusal: Refuse, *, request_id: str = "", namespace: str = ""
) -> tuple[ResponseHead, bytes]:
    """Return the response to a request that a rule denies."""
    message = f"{refusal.message} {refusal.hint}" if refusal.hint else refusal.message
    return error_response(request, ACCESS_DENIED, message, request_id=request_id, namespace=namespace)


def failure_response(
    request: RequestHead, failure: TargetFailure, *, request_id: str = "", namespace: str = ""
) -> tuple[ResponseHead, bytes]:
    """Return the response to a request that the target did not answer."""
    status, code = name_of_failure(failure)
    return error_response(request, code, failure.message, status=status, request_id=request_id, namespace=namespace)


def read_error(body: bytes, headers: Iterable[tuple[bytes, bytes]] = ()) -> tuple[str, str]:
    """Return code and message of an error's body; empty where it has none."""
    code = first_value(tuple(headers), b"x-amzn-errortype").decode("latin-1").partition(":")[0]
    try:
        content: Any = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        return code, ""
    kind = content.get("__type") or content.get("code") or code
    message = content.get("message") or content.get("Message") or ""
    return str(kind).rpartition("#")[2].partition(":")[0], str(message)
