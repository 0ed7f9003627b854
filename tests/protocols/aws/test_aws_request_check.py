from __future__ import annotations

import json
import zlib
from datetime import UTC, datetime

import pytest

from postern.domain.secret import Secret
from postern.interception.verdicts import Refuse
from postern.protocols.aws.aws_json import error_response, json_response, read_error, read_target, refusal_response
from postern.protocols.aws.aws_request_check import AwsIdentity, AwsRequestCheck
from postern.protocols.aws.sigv4 import AwsCredentials, SigningKeys, sign_request
from postern.protocols.aws.sigv4_verification import SignatureRefused, digest_of
from postern.protocols.http.http_heads import RequestHead, first_value, without

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
BODY = b"{}"
CHECK = AwsRequestCheck({"dynamodb"}, request_id=lambda: "id-1")


def request(token: str = "password") -> RequestHead:
    headers = ((b"content-type", b"application/x-amz-json-1.1"), (b"x-amz-target", b"DynamoDB_20120810.ListTables"))
    head = RequestHead("POST", "/", "localhost:7018", headers, 2, "", digest_of(BODY))
    credentials = AwsCredentials("anna", Secret("password"), Secret(token))
    return sign_request(head, credentials, region="eu-central-1", service="dynamodb", now=NOW, keys=SigningKeys())


def test_request_is_forwarded_without_its_signature_and_with_its_digest() -> None:
    head = request()
    assert CHECK.identify(head) == AwsIdentity("anna", Secret("password"))
    accepted = CHECK.accept(head, BODY, NOW)
    assert [name for name, _ in accepted.headers] == [b"content-type", b"x-amz-target"]
    assert accepted.digest == digest_of(BODY)


def test_token_that_is_not_the_key_does_not_verify() -> None:
    with pytest.raises(SignatureRefused, match="does not match"):
        CHECK.accept(request("other"), BODY, NOW)


def test_request_without_token_says_what_to_set() -> None:
    with pytest.raises(SignatureRefused, match="as AWS_SECRET_ACCESS_KEY and as AWS_SESSION_TOKEN") as caught:
        CHECK.identify(request(""))
    response, body = CHECK.answer(request(""), caught.value)
    assert (response.status, response.length) == (400, len(body))
    assert read_error(body) == ("UnrecognizedClientException", caught.value.message)
    assert first_value(response.headers, b"content-type") == b"application/x-amz-json-1.1"
    assert first_value(response.headers, b"x-amzn-requestid") == b"id-1"


@pytest.mark.parametrize("respond", [CHECK.wrong_password, CHECK.too_large])
def test_refusals_have_a_status_that_is_not_retried(respond: object) -> None:
    response, body = respond(request())  # type: ignore[operator]
    assert 400 <= response.status < 500
    assert int(first_value(response.headers, b"x-amz-crc32")) == zlib.crc32(body)


def test_refusal_by_a_rule_names_the_services_error() -> None:
    response, body = refusal_response(request(), Refuse("r", "Denied by rule r.", "Ask."), namespace="com.example")
    assert json.loads(body) == {"__type": "com.example#AccessDeniedException", "message": "Denied by rule r. Ask."}
    assert response.status == 400
    assert read_error(body) == ("AccessDeniedException", "Denied by rule r. Ask.")


def test_checksum_and_encoding_of_another_body_are_not_sent() -> None:
    response = json_response(200, ((b"x-amz-crc32", b"1"), (b"content-encoding", b"gzip"), (b"server", b"s")), b"{}")
    assert response.headers == ((b"server", b"s"), (b"x-amz-crc32", str(zlib.crc32(b"{}")).encode()))


def test_operation_is_read_only_from_one_header_of_a_post() -> None:
    assert read_target(request()) == ("DynamoDB_20120810", "ListTables")
    for head in (
        RequestHead("GET", "/", "host", request().headers),
        RequestHead("POST", "/", "host", without(request().headers, (b"x-amz-target",))),
        RequestHead("POST", "/", "host", (*request().headers, (b"x-amz-target", b"DynamoDB_20120810.Scan"))),
        RequestHead("POST", "/", "host", ((b"x-amz-target", b"Scan"),)),
    ):
        assert read_target(head) is None


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b"[" * 100_000, b'{"message": 1}'])
def test_error_that_is_not_json_is_read_as_empty(body: bytes) -> None:
    code, _ = read_error(body)
    assert code == ""


def test_unknown_content_type_of_a_request_is_answered_with_json() -> None:
    response, _ = error_response(RequestHead("GET", "/", "host"), "X", "text")
    assert first_value(response.headers, b"content-type") == b"application/x-amz-json-1.0"
