"""Secrets in heads are not recorded."""

from __future__ import annotations

import pytest

from postern.protocols.http.http_heads import REDACTED, ResponseHead
from postern.protocols.http.http_redaction import redact_request_headers, redact_response, redact_url

SECRET = (
    *("authorization", "cookie", "proxy-authorization", "postern-authorization", "x-amz-security-token", "dpop"),
    *("x-api-key", "api-key", "apikey", "x-apikey", "ocp-apim-subscription-key", "x-functions-key", "x-auth-key"),
    *("x-csrf-token", "x-csrftoken", "x-xsrf-token", "x-xsrftoken", "private-token", "job-token", "x-vault-token"),
    *("x-access-token", "x-goog-iap-jwt-assertion", "x-session-id", "x-client-secret", "x-password"),
    *("x-forwarded-access-token", "x-amzn-oidc-data", "x-amzn-oidc-accesstoken", "x-jwt"),
)
PUBLIC = (
    *("accept", "host", "user-agent", "idempotency-key", "sec-websocket-version", "content-type", "if-match"),
    *("x-request-id", "x-session-affinity", "x-monkey", "x-authority", "x-tokens-left", "x-author"),
)


@pytest.mark.parametrize("name", SECRET)
def test_headers_with_secrets(name: str) -> None:
    assert redact_request_headers(((name.encode(), b"s3cret"),)) == ((name.encode(), REDACTED),)


@pytest.mark.parametrize("name", PUBLIC)
def test_headers_without_secrets(name: str) -> None:
    assert redact_request_headers(((name.encode(), b"value"),)) == ((name.encode(), b"value"),)


@pytest.mark.parametrize("name", ["token", "_xsrf", "xsrf_token", "csrfmiddlewaretoken", "X-Amz-Signature", "id_token"])
def test_parameters_with_secrets(name: str) -> None:
    assert redact_url(f"/x?a=1&{name}=s3cret&b=2") == f"/x?a=1&{name}={REDACTED.decode()}&b=2"
    assert redact_url(f"/x?a{name}b=1") == f"/x?a{name}b=1"


def test_responses_with_and_without_secrets() -> None:
    head = ResponseHead(201, ((b"x-subject-token", b"s3cret"), (b"set-cookie", b"s3cret"), (b"etag", b"1")))
    redacted = redact_response(head).headers
    assert redacted == ((b"x-subject-token", REDACTED), (b"set-cookie", REDACTED), (b"etag", b"1"))
    public = ResponseHead(200, ((b"etag", b"1"), (b"location", b"/x?a=1")))
    assert redact_response(public) is public
