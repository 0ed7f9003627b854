from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from postern.domain.secret import Secret
from postern.protocols.aws.sigv4 import (
    AwsCredentials,
    SigningKeys,
    SigningScope,
    canonical_request,
    derive_key,
    sign_request,
    signature_of,
)
from postern.protocols.aws.sigv4_verification import (
    SignatureRefused,
    SignatureVerifier,
    digest_of,
    read_signature,
)
from postern.protocols.http.http_heads import Headers, RequestHead, without

NOW = datetime(2026, 1, 31, 12, 0, 5, tzinfo=UTC)
SECRET = Secret("secret key")
BODY = b'{"TableName": "orders"}'
HEADERS: Headers = (
    (b"content-type", b"application/x-amz-json-1.0"),
    (b"x-amz-target", b"DynamoDB_20120810.Scan"),
)


def signed(*, service: str = "dynamodb", region: str = "eu-central-1", now: datetime = NOW) -> RequestHead:
    head = RequestHead("POST", "/", "gateway:7018", HEADERS, len(BODY), "", digest_of(BODY))
    credentials = AwsCredentials("anna", SECRET, SECRET)
    return sign_request(head, credentials, region=region, service=service, now=now, keys=SigningKeys())


def verify(head: RequestHead, *, body: bytes = BODY, secret: Secret = SECRET, now: datetime = NOW) -> None:
    verifier = SignatureVerifier({"dynamodb"})
    verifier.verify(head, read_signature(head), digest_of(body), secret, now)


def set_header(head: RequestHead, name: bytes, value: bytes) -> RequestHead:
    return head.with_headers((*without(head.headers, (name,)), (name, value)))


def authorization(old: bytes, new: bytes) -> RequestHead:
    head = signed()
    value = dict(head.headers)[b"authorization"]
    assert old in value
    return set_header(head, b"authorization", value.replace(old, new))


def test_signature_of_the_credential_is_accepted() -> None:
    head = signed()
    verify(head)
    signature = read_signature(head)
    assert (signature.access_key, signature.token.reveal()) == ("anna", "secret key")


@pytest.mark.parametrize("minutes", [-15, -14, 0, 14, 15])
def test_clock_may_differ_by_fifteen_minutes(minutes: int) -> None:
    verify(signed(now=NOW + timedelta(minutes=minutes)))


UNSIGNED = (b"UNSIGNED-PAYLOAD", b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", b"STREAMING-UNSIGNED-PAYLOAD-TRAILER")

REFUSED: list[tuple[str, RequestHead, str, str]] = [
    ("method", replace(signed(), method="PUT"), "InvalidSignature", "does not match the signature you provided"),
    ("path", replace(signed(), target="/other"), "InvalidSignature", "does not match"),
    ("query", replace(signed(), target="/?a=b"), "InvalidSignature", "does not match"),
    ("host", replace(signed(), authority="other:7018"), "InvalidSignature", "does not match"),
    ("operation", set_header(signed(), b"x-amz-target", b"DynamoDB_20120810.DeleteTable"), "InvalidSignature", "match"),
    ("type", set_header(signed(), b"content-type", b"text/plain"), "InvalidSignature", "does not match"),
    ("unsigned header", set_header(signed(), b"x-amz-expected-owner", b"1"), "InvalidSignature", "x-amz-exp"),
    ("early", signed(now=NOW - timedelta(minutes=16)), "InvalidSignature",
     "Signature expired: 20260131T114405Z is now earlier than 20260131T114505Z (20260131T120005Z - 15 min.)"),
    ("late", signed(now=NOW + timedelta(minutes=16)), "InvalidSignature",
     "Signature not yet current: 20260131T121605Z is still later than 20260131T121505Z (20260131T120005Z + 15 min.)"),
    ("service", signed(service="s3"), "InvalidSignature", "Credential should be scoped to correct service: 'dynamodb'"),
    ("day", authorization(b"/20260131/", b"/20260130/"), "InvalidSignature", "'20260130' != '20260131'"),
    ("region", authorization(b"/eu-central-1/", b"/eu-central-2/"), "InvalidSignature", "does not match"),
    ("term", authorization(b"/aws4_request", b"/aws5_request"), "IncompleteSignature", "slash-delimited"),
    ("scope", authorization(b"anna/20260131/", b"anna/"), "IncompleteSignature", "slash-delimited"),
    ("algorithm", authorization(b"AWS4-HMAC-SHA256", b"AWS4-ECDSA-P256-SHA256"), "IncompleteSignature", "algorithm"),
    ("no signature", authorization(b", Signature=", b", Sig="), "IncompleteSignature", "requires 'Signature'"),
    ("twice", authorization(b", Signature=", b", Signature=aa, Signature="), "IncompleteSignature", "more than once"),
    ("signature", authorization(b"Signature=", b"Signature=Z"), "InvalidSignature", "does not match"),
    ("host not signed", authorization(b"host;", b""), "InvalidSignature", "not signed: host"),
    ("absent header", authorization(b"host;", b"host;via;"), "InvalidSignature", "does not have: via"),
    ("order", authorization(b"content-type;host;", b"host;content-type;"), "IncompleteSignature", "alphabetical"),
    ("no date", signed().with_headers(without(signed().headers, (b"x-amz-date",))), "IncompleteSignature", "Date"),
    ("bad date", set_header(signed(), b"x-amz-date", b"yesterday"), "InvalidSignature", "Date in Credential scope"),
    ("no authorization", signed().with_headers(without(signed().headers, (b"authorization",))),
     "MissingAuthenticationToken", "Request is missing Authentication Token"),
    ("presigned", replace(signed(), target="/?X-Amz-Signature=aa"), "IncompleteSignature", "Presigned"),
    ("two operations", signed().with_headers((*signed().headers, (b"x-amz-target", b"DynamoDB_20120810.DeleteTable"))),
     "InvalidSignature", "does not match"),
    ("two operations, the signed one last",
     signed().with_headers(((b"x-amz-target", b"DynamoDB_20120810.DeleteTable"), *signed().headers)),
     "InvalidSignature", "does not match"),
    ("operation not signed", authorization(b";x-amz-target", b""), "InvalidSignature", "not signed: x-amz-target"),
    ("two signatures", signed().with_headers((*signed().headers, (b"authorization", b"AWS4-HMAC-SHA256 x"))),
     "IncompleteSignature", "one 'Authorization'"),
    ("two tokens", signed().with_headers((*signed().headers, (b"x-amz-security-token", b"other"))),
     "IncompleteSignature", "more than one"),
    ("token of another credential", set_header(signed(), b"x-amz-security-token", b"other"), "InvalidSignature", ""),
    ("two dates", signed().with_headers((*signed().headers, (b"x-amz-date", b"20260131T120006Z"))),
     "IncompleteSignature", "Date"),
    ("path with dots", replace(signed(), target="/a/../b"), "InvalidSignature", "does not match"),
    ("path that is encoded twice", replace(signed(), target="/%252e%252e/"), "InvalidSignature", "does not match"),
    ("presigned, in lower case", replace(signed(), target="/?x-amz-signature=aa"), "IncompleteSignature", "Presigned"),
    ("names in capitals", authorization(b"host;", b"Host;"), "IncompleteSignature", "alphabetical"),
    ("captured, after 15 minutes", signed(now=NOW - timedelta(minutes=15, seconds=1)), "InvalidSignature", "expired"),
    *[(value.decode(), set_header(signed(), b"x-amz-content-sha256", value), "InvalidSignature", "")
      for value in UNSIGNED],
]  # fmt: skip


@pytest.mark.parametrize(("head", "code", "text"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_other_request_is_refused_with_awss_words(head: RequestHead, code: str, text: str) -> None:
    with pytest.raises(SignatureRefused) as caught:
        verify(head)
    assert caught.value.code == f"{code}Exception"
    assert text in caught.value.message
    assert "secret key" not in caught.value.message


def test_other_body_or_secret_is_refused() -> None:
    with pytest.raises(SignatureRefused, match="does not match"):
        verify(signed(), body=BODY + b" ")
    with pytest.raises(SignatureRefused, match="does not match"):
        verify(signed(), secret=Secret("other"))


def test_date_header_and_content_length_can_be_signed() -> None:
    """Java and Go SDKs sign the length, which a head has in a field of its own."""
    head = RequestHead(
        *("POST", "/", "gateway", ((b"date", b"Sat, 31 Jan 2026 12:00:00 GMT"), (b"x-amz-target", b"A.B"))), length=2
    )
    scope = SigningScope("20260131", "eu-central-1", "dynamodb")
    names = (b"content-length", b"date", b"host", b"x-amz-target")
    canonical = canonical_request(head, names, digest_of(b"{}"))
    assert b"content-length:2\n" in canonical
    signature = signature_of(derive_key(SECRET, scope), canonical, "20260131T120000Z", scope)
    value = (
        f"AWS4-HMAC-SHA256 Credential=anna/{scope.text}, SignedHeaders={b';'.join(names).decode()}, "
        f"Signature={signature}"
    )
    verify(set_header(head, b"authorization", value.encode()), body=b"{}")
