"""Errors of the gateway as botocore reads them: their names, and how often it sends the request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import boto3
import pytest
from botocore import model
from botocore.config import Config
from botocore.exceptions import ClientError

from postern.domain.sessions.session import EndReason
from postern.errors import (
    Conflict,
    Denied,
    Invalid,
    Malformed,
    NotFound,
    PosternError,
    RecordingFailed,
    TooMany,
    Unauthenticated,
    Unavailable,
    Unreachable,
)
from postern.gateway.session_opening import SessionAborted
from postern.interception.verdicts import Refuse
from postern.protocols.aws.listener.aws_credential_scheme import AwsCredentialScheme
from postern.protocols.aws.sigv4_verification import SignatureRefused
from postern.protocols.cloudwatch.cloudwatch_listener import CloudwatchCredentialScheme
from postern.protocols.cloudwatch.wire.cloudwatch_dialect import CloudwatchDialect
from postern.protocols.cloudwatch.wire.started_queries import StartedQueries
from postern.protocols.dynamodb.wire.dynamodb_dialect import DynamodbDialect
from postern.protocols.dynamodb.wire.sealed_keys import KeySealer
from postern.protocols.http.http_frames import TargetFailure
from postern.protocols.http.http_heads import RequestHead, ResponseHead
from postern.protocols.http.http_syntax import HttpSyntaxError
from postern.protocols.http.listener.http_relay import ExchangeFailed
from postern.protocols.http.wire.http_dialect import HttpDialect
from postern.services.admission import CredentialEnded

Answer = Callable[[RequestHead], tuple[ResponseHead, bytes] | None]


@dataclass
class _Answering:
    """A server that answers every request in the same way."""

    url: str
    answer: Answer = lambda head: None
    asked: list[RequestHead] = field(default_factory=list)


@contextmanager
def _answering() -> Iterator[_Answering]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            headers = tuple((name.lower().encode(), value.encode()) for name, value in self.headers.items())
            head = RequestHead("POST", self.path, "gateway", headers, 0)
            state.asked.append(head)
            answer = state.answer(head)
            assert answer is not None
            response, body = answer
            self.send_response(response.status)
            for name, value in response.headers:
                self.send_header(name.decode(), value.decode())
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state = _Answering(f"http://127.0.0.1:{server.server_port}")
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def server() -> Iterator[_Answering]:
    with _answering() as server:
        yield server


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


# The protocols of SDKs: JSON 1.0, JSON 1.1, and those of metrics, one for each generation.
_CODECS = {
    "dynamodb": "list_tables",
    "logs": "describe_log_groups",
    "cloudwatch json": "list_metrics",
    "cloudwatch smithy-rpc-v2-cbor": "list_metrics",
    "cloudwatch query": "list_metrics",
}
# What clients of metrics call errors.
_QUERY = {
    "UnrecognizedClientException": "InvalidClientTokenId",
    "InvalidSignatureException": "SignatureDoesNotMatch",
    "AccessDeniedException": "AccessDenied",
    "ExpiredTokenException": "ExpiredToken",
    "ThrottlingException": "Throttling",
    "ValidationException": "ValidationError",
    "InternalServerError": "InternalFailure",
}
_ATTEMPTS = 3


def _scheme(service: str) -> AwsCredentialScheme:
    return AwsCredentialScheme(["dynamodb"]) if service == "dynamodb" else CloudwatchCredentialScheme()


def _dialect(service: str) -> HttpDialect:
    return DynamodbDialect(KeySealer(b"s" * 32, "")) if service == "dynamodb" else CloudwatchDialect(StartedQueries())


def _ask(server: _Answering, service: str, mode: str) -> tuple[str, str, int]:
    """Return name, message, and the number of attempts."""
    name, _, protocol = service.partition(" ")
    with pytest.MonkeyPatch.context() as patch:
        if protocol:
            patch.setattr(model, "PRIORITY_ORDERED_SUPPORTED_PROTOCOLS", (protocol,))
        client: Any = boto3.client(
            name,
            endpoint_url=server.url,
            region_name="us-east-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            config=Config(retries={"mode": mode, "total_max_attempts": _ATTEMPTS}),
        )
    server.asked.clear()
    with pytest.raises(ClientError) as caught:
        getattr(client, _CODECS[service])()
    error = caught.value.response["Error"]
    return error["Code"], error["Message"], len(server.asked)


_ERRORS: list[tuple[PosternError, str, bool]] = [  # the error, its name, whether it is worth another attempt
    (SignatureRefused("InvalidSignatureException", "why"), "InvalidSignatureException", False),
    (Unauthenticated("why"), "UnrecognizedClientException", False),
    (CredentialEnded("why"), "ExpiredTokenException", False),
    (Denied("why"), "AccessDeniedException", False),
    (NotFound("why"), "AccessDeniedException", False),
    (Invalid("why"), "ValidationException", False),
    (Malformed("why"), "ValidationException", False),
    (Conflict("why"), "ValidationException", False),
    (HttpSyntaxError(400, "why"), "ValidationException", False),
    (HttpSyntaxError(413, "why"), "RequestEntityTooLargeException", False),
    (SessionAborted(EndReason.KILLED, "why"), "AccessDeniedException", False),
    (SessionAborted(EndReason.REVOKED, "why"), "ExpiredTokenException", False),
    (SessionAborted(EndReason.EXPIRED, "why"), "ExpiredTokenException", False),
    (SessionAborted(EndReason.REJECTED, "why"), "AccessDeniedException", False),
    (SessionAborted(EndReason.IDLE, "why"), "ServiceUnavailable", True),
    (SessionAborted(EndReason.GATEWAY_STOPPED, "why"), "ServiceUnavailable", True),
    (TooMany("why"), "ThrottlingException", True),
    (Unavailable("why"), "ServiceUnavailable", True),
    (Unreachable("why"), "ServiceUnavailable", True),
    (ExchangeFailed(502, "why"), "ServiceUnavailable", True),
    (RecordingFailed("why"), "InternalServerError", True),
    (PosternError("why"), "InternalServerError", True),
]


def _label(value: object) -> str | None:
    if isinstance(value, SessionAborted):
        return value.reason.value
    return type(value).__name__ if isinstance(value, PosternError) else None


@pytest.mark.parametrize("mode", ["legacy", "standard"])
@pytest.mark.parametrize("service", _CODECS)
@pytest.mark.parametrize(("error", "code", "is_retried"), _ERRORS, ids=_label)
def test_errors_of_the_gateway(
    server: _Answering, service: str, mode: str, error: PosternError, code: str, is_retried: bool
) -> None:
    scheme = _scheme(service)
    server.answer = lambda head: scheme.answer(head, error)
    got, message, attempts = _ask(server, service, mode)
    assert got == (_QUERY.get(code, code) if service.startswith("cloudwatch") else code)
    assert attempts == (_ATTEMPTS if is_retried else 1)
    if not isinstance(error, (Unauthenticated, HttpSyntaxError)):
        assert message == "why"


@pytest.mark.parametrize("service", _CODECS)
@pytest.mark.parametrize(
    ("failure", "code", "is_retried"),
    [
        ("unavailable", "ServiceUnavailable", True),
        ("timeout", "ServiceUnavailable", True),
        ("ended", "ServiceUnavailable", True),
        ("invalid", "InternalServerError", True),
        ("killed", "AccessDeniedException", False),
        ("expired", "ExpiredTokenException", False),
        (None, "AccessDeniedException", False),
    ],
)
def test_failures_and_refusals_on_a_link(
    server: _Answering, service: str, failure: str | None, code: str, is_retried: bool
) -> None:
    dialect = _dialect(service)

    def answer(head: RequestHead) -> tuple[ResponseHead, bytes]:
        request = dialect.read_request(1, head, b"{}", is_complete=True)
        if failure is None:
            return dialect.refusal(request, Refuse("rule", "why"))
        return dialect.failure(request, TargetFailure(failure, "why"))

    server.answer = answer
    got, message, attempts = _ask(server, service, "standard")
    assert got == (_QUERY.get(code, code) if service.startswith("cloudwatch") else code)
    assert attempts == (_ATTEMPTS if is_retried else 1)
    assert message.startswith("why")
