"""Authentication of requests that are signed, for listeners: one strategy object per protocol.

    access key id      the credential's user name
    session token      its password, in `X-Amz-Security-Token`; checked against the stored verifier
    secret access key  the same password; the signature is verified with it

A listener therefore needs nothing that it could not store: the password comes with each request, as with Basic.

    identify(head)                    user name and password
      ─▶ the listener checks them, as any credential
    read the body, at most `max_body` bytes
      ─▶ accept(head, body, now)      the head to forward: with the body's digest, without the client's signature

Both raise SignatureRefused. `answer` makes the response.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from postern.domain.secret import Secret
from postern.protocols.aws.aws_json import error_response
from postern.protocols.aws.sigv4 import SIGNATURE_HEADERS
from postern.protocols.aws.sigv4_verification import (
    NOT_RECOGNIZED,
    SignatureRefused,
    SignatureVerifier,
    digest_of,
    read_signature,
)
from postern.protocols.http.http_heads import RequestHead, ResponseHead, without

MAX_BODY: Final = 16 << 20  # the largest request of DynamoDB; those of other services are smaller


@dataclass(frozen=True, slots=True)
class AwsIdentity:
    """What a request proves itself with."""

    user_name: str
    password: Secret


class AwsRequestCheck:
    """`services` are the names for which clients sign; `request_id` makes the identifiers of responses.

    `max_body`: a longer body is refused before it is read whole.
    """

    def __init__(
        self, services: Collection[str], *, max_body: int = MAX_BODY, request_id: Callable[[], str] = lambda: ""
    ) -> None:
        self._verifier = SignatureVerifier(services)
        self._request_id = request_id
        self.max_body = max_body

    def identify(self, head: RequestHead) -> AwsIdentity:
        """Return user name and password of a request, whose signature is not verified yet. Raises SignatureRefused."""
        signature = read_signature(head)
        if not signature.token:
            raise SignatureRefused(
                "UnrecognizedClientException",
                f"{NOT_RECOGNIZED} Set the password of your Postern credential as AWS_SECRET_ACCESS_KEY and as "
                "AWS_SESSION_TOKEN; its user name is AWS_ACCESS_KEY_ID.",
            )
        return AwsIdentity(signature.access_key, signature.token)

    def accept(self, head: RequestHead, body: bytes, now: datetime) -> RequestHead:
        """Verify the signature of a request whose password the listener has checked. Raises SignatureRefused."""
        signature = read_signature(head)
        digest = digest_of(body)
        self._verifier.verify(head, signature, digest, signature.token, now)
        return self.strip(head, digest)

    def strip(self, head: RequestHead, digest: str) -> RequestHead:
        """Return the head to forward, also of a request that came through a local port, whose keys mean nothing."""
        return replace(head, headers=without(head.headers, SIGNATURE_HEADERS), digest=digest)

    def answer(self, head: RequestHead, refused: SignatureRefused) -> tuple[ResponseHead, bytes]:
        """Return the response to a request that is not authenticated. No SDK retries it."""
        return error_response(head, refused.code, refused.message, request_id=self._request_id())

    def wrong_password(self, head: RequestHead) -> tuple[ResponseHead, bytes]:
        """Return the response to an unknown user name or a wrong password."""
        return self.answer(head, SignatureRefused("UnrecognizedClientException", NOT_RECOGNIZED))

    def too_large(self, head: RequestHead) -> tuple[ResponseHead, bytes]:
        """Return the response to a body of more than `max_body` bytes."""
        message = f"Request size exceeded {self.max_body} bytes"
        return error_response(head, "RequestEntityTooLargeException", message, status=413)
