"""Signing, beside botocore and AWS's own published example."""

from __future__ import annotations

from datetime import UTC, datetime
from unittest import mock

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given, settings
from hypothesis import strategies as st

from postern.domain.secret import NO_SECRET, Secret
from postern.errors import Unavailable
from postern.protocols.aws.sigv4 import (
    AwsCredentials,
    SigningKeys,
    SigningScope,
    canonical_request,
    derive_key,
    sign_request,
    signature_of,
)
from postern.protocols.aws.sigv4_verification import SignatureVerifier, digest_of, read_signature
from postern.protocols.http.http_heads import RequestHead, first_value

NOW = datetime(2026, 1, 31, 12, 0, 5, tzinfo=UTC)
# The example of "Signature Version 4 signing process", AWS General Reference.
EXAMPLE_SECRET = Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")


def test_signing_key_and_signature_of_awss_example() -> None:
    scope = SigningScope("20150830", "us-east-1", "iam")
    assert derive_key(EXAMPLE_SECRET, scope).hex() == "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"
    head = RequestHead(
        "GET",
        "/?Action=ListUsers&Version=2010-05-08",
        "iam.amazonaws.com",
        (
            (b"content-type", b"application/x-www-form-urlencoded; charset=utf-8"),
            (b"x-amz-date", b"20150830T123600Z"),
        ),
    )
    canonical = canonical_request(head, (b"content-type", b"host", b"x-amz-date"), digest_of(b""))
    assert digest_of(canonical) == "f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59"
    assert (
        signature_of(derive_key(EXAMPLE_SECRET, scope), canonical, "20150830T123600Z", scope)
        == "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    )


def test_signing_key_is_derived_once_and_remembered_in_bounds() -> None:
    keys = SigningKeys()
    scope = SigningScope("20260131", "eu-central-1", "dynamodb")
    assert keys.of(Secret("a"), scope) is keys.of(Secret("a"), scope)
    for day in range(200):
        keys.of(Secret(str(day)), scope)
    assert len(keys._keys) <= 64


def test_body_without_digest_is_not_signed() -> None:
    head = RequestHead("POST", "/", "host", length=5)
    with pytest.raises(Unavailable, match="no digest of its body"):
        sign(head, AwsCredentials("AKID", Secret("secret")))


def test_signature_of_the_client_is_replaced() -> None:
    sent = (
        (b"authorization", b"AWS4-HMAC-SHA256 old"),
        (b"x-amz-security-token", b"password"),
        (b"x-amz-date", b"20200101T000000Z"),
        (b"x-amz-target", b"Service.Operation"),
    )
    head = sign(RequestHead("POST", "/", "host", sent, 2, "", digest_of(b"{}")), AwsCredentials("AKID", Secret("s")))
    assert [name for name, _ in head.headers] == [b"x-amz-target", b"x-amz-date", b"authorization"]
    assert b"SignedHeaders=host;x-amz-date;x-amz-target," in first_value(head.headers, b"authorization")


def sign(head: RequestHead, credentials: AwsCredentials, *, now: datetime = NOW) -> RequestHead:
    return sign_request(head, credentials, region="eu-central-1", service="dynamodb", now=now, keys=SigningKeys())


tokens = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30)
values = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30)
names = st.from_regex(r"x-amz-[a-z]{1,8}", fullmatch=True).filter(
    lambda name: name not in ("x-amz-date", "x-amz-content-sha256")
)
segments = st.text(st.sampled_from("abz09-_.~%2F$@:=+!"), max_size=6)
paths = st.lists(segments, max_size=4).map(lambda parts: "/" + "/".join(parts))
queries = st.lists(st.tuples(st.text("abcAB%20-_~", max_size=4), st.text("xyz=09", max_size=4)), max_size=4).map(
    lambda pairs: "&".join(f"{name}={value}" for name, value in pairs)
)


@settings(max_examples=150, deadline=None)
@given(paths, queries, st.dictionaries(names, values, max_size=4), st.binary(max_size=40), tokens)
def test_signature_is_botocores(path: str, query: str, headers: dict[str, str], body: bytes, token: str) -> None:
    url = f"https://dynamodb.example:8443{path}" + (f"?{query}" if query else "")
    request = AWSRequest("POST", url, headers={"Content-Type": "application/x-amz-json-1.0", **headers}, data=body)
    with mock.patch("botocore.auth.get_current_datetime", return_value=NOW.replace(tzinfo=None)):
        SigV4Auth(Credentials("AKID", "secret", token or None), "dynamodb", "eu-central-1").add_auth(request)
    sent = ((b"content-type", b"application/x-amz-json-1.0"), *_encoded(headers))
    target = path + (f"?{query}" if query else "")
    head = RequestHead("POST", target, "dynamodb.example:8443", sent, len(body), "", digest_of(body))
    credentials = AwsCredentials("AKID", Secret("secret"), Secret(token) if token else NO_SECRET)
    assert first_value(sign(head, credentials).headers, b"authorization").decode() == request.headers["Authorization"]
    # And what botocore signed is verified.
    everything = _encoded({name: str(request.headers[name]) for name in request.headers})
    received = RequestHead("POST", target, "dynamodb.example:8443", everything)
    SignatureVerifier({"dynamodb"}).verify(received, read_signature(received), digest_of(body), Secret("secret"), NOW)


def _encoded(headers: dict[str, str]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.lower().encode(), value.encode()) for name, value in headers.items())
