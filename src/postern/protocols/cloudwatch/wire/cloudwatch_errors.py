"""Errors of the gateway in the three codecs of CloudWatch, as SDKs read them. A refusal is one that none of them
retries.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

import cbor2

from postern.interception.verdicts import Refuse
from postern.protocols.aws.aws_failures import (
    ACCESS_DENIED,
    EXPIRED,
    INTERNAL_ERROR,
    THROTTLING,
    UNRECOGNIZED_CLIENT,
    VALIDATION,
    name_of_failure,
)
from postern.protocols.cloudwatch.cloudwatch_endpoints import RequestForm
from postern.protocols.http.http_frames import TargetFailure
from postern.protocols.http.http_heads import Headers, ResponseHead


@dataclass(frozen=True, slots=True)
class CloudwatchError:
    """`code` is the name of an exception; `query_code` is that of the query protocol, and of clients that expect it."""

    status: int
    code: str
    query_code: str
    message: str

    @property
    def is_sender(self) -> bool:
        return self.status < 500


# What the query protocol calls errors.
_QUERY_CODES: Final = {
    UNRECOGNIZED_CLIENT: "InvalidClientTokenId",
    "InvalidSignatureException": "SignatureDoesNotMatch",
    "IncompleteSignatureException": "IncompleteSignature",
    "MissingAuthenticationTokenException": "MissingAuthenticationToken",
    ACCESS_DENIED: "AccessDenied",
    EXPIRED: "ExpiredToken",
    THROTTLING: "Throttling",
    VALIDATION: "ValidationError",
    INTERNAL_ERROR: "InternalFailure",
}


def error_named(status: int, code: str, message: str) -> CloudwatchError:
    return CloudwatchError(status, code, _QUERY_CODES.get(code, code), message)


def refusal_error(refusal: Refuse) -> CloudwatchError:
    message = f"{refusal.message}. {refusal.hint}".rstrip() if refusal.hint else refusal.message
    return error_named(400, ACCESS_DENIED, message)


def failure_error(failure: TargetFailure) -> CloudwatchError:
    return error_named(*name_of_failure(failure), failure.message)


def encode_error(form: RequestForm, error: CloudwatchError, *, is_logs: bool) -> tuple[ResponseHead, bytes]:
    """Return the response with its body. Clients of metrics know the codes of the query protocol (`is_logs`)."""
    request_id = str(uuid.uuid4())
    fault = "Sender" if error.is_sender else "Receiver"
    headers: Headers = ((b"x-amzn-requestid", request_id.encode()),)
    if form is RequestForm.QUERY:
        body = _xml(error, fault, request_id).encode()
        headers = (*headers, (b"content-type", b"text/xml"))
    else:
        if not is_logs:
            headers = (*headers, (b"x-amzn-query-error", f"{error.query_code};{fault}".encode()))
        content = {"__type": error.code, "message": error.message}
        if form is RequestForm.CBOR:
            body = cbor2.dumps(content)
            headers = (*headers, (b"content-type", b"application/cbor"), (b"smithy-protocol", b"rpc-v2-cbor"))
        else:
            body = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
            headers = (*headers, (b"content-type", b"application/x-amz-json-1.1"))
            headers = (*headers, (b"x-amzn-errortype", error.code.encode()))
    return ResponseHead(error.status, headers, len(body)), body


def _xml(error: CloudwatchError, fault: str, request_id: str) -> str:
    message = "".join(sign for sign in error.message if sign >= " " or sign in "\t\n")
    return (
        '<ErrorResponse xmlns="http://monitoring.amazonaws.com/doc/2010-08-01/"><Error>'
        f"<Type>{fault}</Type><Code>{escape(error.query_code)}</Code><Message>{escape(message)}</Message>"
        f"</Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    )
