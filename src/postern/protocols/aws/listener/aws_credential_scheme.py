"""The credential scheme of AWS's protocols, for the listener of HTTP: signed requests, and errors in AWS's own form."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from postern.errors import PosternError, Unauthenticated
from postern.protocols.aws.aws_json import error_response
from postern.protocols.aws.aws_request_check import AwsRequestCheck
from postern.protocols.aws.listener.aws_gateway_errors import name_of_error
from postern.protocols.aws.sigv4_verification import NOT_RECOGNIZED, digest_of
from postern.protocols.http.http_heads import RequestHead, ResponseHead, first_value
from postern.protocols.http.http_syntax import HttpSyntaxError
from postern.protocols.http.listener.http_credentials import PresentedCredential

_SOURCE = b"x-amz-security-token"
_TOO_LARGE = 413
PATIENCE: Final = 10.0  # seconds
_IMPATIENT: Final = re.compile(rb"\b(?:Botocore/|aws-cli/|http[/#]Apache)")


class AwsCredentialScheme:
    """A `CredentialScheme`. `services` are the names that clients sign for."""

    def __init__(self, services: Collection[str], now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._check = AwsRequestCheck(services, request_id=lambda: str(uuid4()))
        self._now = now

    @property
    def max_body(self) -> int | None:
        return self._check.max_body

    def read(self, head: RequestHead, *, tls: bool) -> PresentedCredential | None:
        """Return the credential of a request. Raises SignatureRefused."""
        identity = self._check.identify(head)
        return PresentedCredential(identity.user_name, identity.password, _SOURCE)

    def login_digest(self, head: RequestHead) -> bytes:
        """Return nothing: each request has a signature of its own."""
        return b""

    def accept(self, head: RequestHead, used: PresentedCredential | None, body: bytes) -> RequestHead:
        """Return the request to forward. Raises SignatureRefused."""
        if used is None:  # at a local port, where keys mean nothing
            return self._check.strip(head, digest_of(body))
        return self._check.accept(head, body, self._now())

    def patience_of(self, head: RequestHead) -> float | None:
        """Return the interval for SDKs that break off a silent connection, by default after 30 s (Java) or 60 s
        (Python), and then send the request again. They read any number of responses 100 before the final one."""
        return PATIENCE if _IMPATIENT.search(first_value(head.headers, b"user-agent")) else None

    def answer(self, head: RequestHead, error: PosternError) -> tuple[ResponseHead, bytes] | None:
        """Return an error as the services write it. SDKs retry those that can pass."""
        if isinstance(error, HttpSyntaxError) and error.status == _TOO_LARGE:
            return self._check.too_large(head)
        status, code = name_of_error(error)
        message = NOT_RECOGNIZED if isinstance(error, Unauthenticated) else error.message
        return error_response(head, code, message, status=status, request_id=str(uuid4()))
