"""Requests as they are recorded, changed and refused."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest
from tests.support.http_links import guards, http_link, masking, say
from tests.support.protocols.http_test_frames import Shown, encode, request, response, sent_requests
from tests.support.protocols.wire_contracts import events_of, sent_to

from postern.domain.rules.guardrail import Rule, RuleType
from postern.interception.events import Operation
from postern.interception.verdicts import Refuse
from postern.protocols.http.http_frames import TargetFailure
from postern.protocols.http.http_heads import RequestHead
from postern.protocols.http.wire.http_dialect import ReadRequest
from postern.protocols.httpproxy.httpproxy_dialect import RECORDED_BODY, HttpproxyDialect
from postern.protocols.wire_base import Side

WORD = Rule(RuleType.DENY_WORDS_LIST, words=("forbidden",))
JSON = {"content-type": "application/json"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(50)

# target, headers, body, recorded text
RECORDED = [
    ("/a?b=1", {"accept": "*/*"}, b"", "GET /a?b=1\nAccept: */*"),
    (
        "/a?access_token=s3cret&b=1&API-Key=s3cret&X-Amz-Signature=s3cret",
        {},
        b"",
        "GET /a?access_token=[not recorded]&b=1&API-Key=[not recorded]&X-Amz-Signature=[not recorded]",
    ),
    (
        "/a",
        {"authorization": "Bearer s3cret", "cookie": "a=s3cret", "x-api-key": "s3cret", "x-b": "c"},
        b"",
        "GET /a\nAuthorization: [not recorded]\nCookie: [not recorded]\nX-Api-Key: [not recorded]\nX-B: c",
    ),
    (
        "/a",
        {"private-token": "s3cret", "x-vault-token": "s3cret", "x_api_key": "s3cret", "dd-api-key": "s3cret"},
        b"",
        "GET /a\nPrivate-Token: [not recorded]\nX-Vault-Token: [not recorded]\nX_Api_Key: [not recorded]\n"
        "Dd-Api-Key: [not recorded]",
    ),
    ("/a", {"idempotency-key": "seen", "x-key-id": "seen"}, b"", "GET /a\nIdempotency-Key: seen\nX-Key-Id: seen"),
    ("/a", {"referer": "https://x/?code=s3cret&a=1"}, b"", "GET /a\nReferer: https://x/?code=[not recorded]&a=1"),
    ("/a", JSON, b'{"a": 1}', 'POST /a\nContent-Type: application/json\n\n{"a": 1}'),
    (
        "/a",
        JSON,
        b'{"user": "al", "password": "s3\\"cret", "n": {"client_secret": "s3cret"}}',
        'POST /a\nContent-Type: application/json\n\n{"user": "al", "password": "[not recorded]", '
        '"n": {"client_secret": "[not recorded]"}}',
    ),
    (
        "/a",
        FORM,
        b"user=al&password=s3cret&x=1",
        "POST /a\nContent-Type: application/x-www-form-urlencoded\n\nuser=al&password=[not recorded]&x=1",
    ),
    (
        "/a",
        {"content-type": "image/png"},
        PNG,
        "POST /a\nContent-Type: image/png\n\n[58 bytes of content of the type image/png]",
    ),
    (
        "/a",
        {**JSON, "content-encoding": "gzip"},
        gzip.compress(b'{"a": 1}', mtime=0),
        'POST /a\nContent-Type: application/json\nContent-Encoding: gzip\n\n{"a": 1}',
    ),
    (
        "/a",
        {"content-type": "text/plain; charset=latin-1"},
        b"caf\xe9",
        "POST /a\nContent-Type: text/plain; charset=latin-1\n\ncafé",
    ),
]  # fmt: skip


@pytest.mark.parametrize("is_judged", [True, False])
@pytest.mark.parametrize(("target", "headers", "body", "text"), RECORDED)
def test_request_is_recorded_without_secrets(
    target: str, headers: dict[str, str], body: bytes, text: str, is_judged: bool
) -> None:
    link = http_link(*([guards(WORD)] if is_judged else []))
    effects = say(link, Side.CLIENT, request(target, body, headers=headers))
    (operation,) = [event for event in events_of(effects) if isinstance(event, Operation)]
    if body != PNG or is_judged:
        assert operation.text == text
    assert b"s3cret" not in b"".join([value or b"" for value in operation.values])
    ((head, sent),) = sent_requests(sent_to(Side.TARGET, effects))
    if is_judged and "content-encoding" in headers:
        body, headers = gzip.decompress(body), JSON
    assert (head.target, sent) == (target, body)
    assert dict(head.headers) == dict(encode(headers))


def test_long_body_is_recorded_in_part() -> None:
    link = http_link()
    body = b"x" * (RECORDED_BODY + 100)
    effects = say(link, Side.CLIENT, request("/a", body, headers={"content-type": "text/plain"}, piece=30_000))
    (operation,) = [event for event in events_of(effects) if isinstance(event, Operation)]
    assert operation.text.endswith("xxx\n[the body continues]")
    assert len(operation.text) < RECORDED_BODY + 100
    assert sent_requests(sent_to(Side.TARGET, effects))[0][1] == body


@pytest.mark.parametrize(
    ("headers", "forwarded"),
    [
        ({"accept-encoding": "gzip, br", "a": "b"}, {"a": "b", "accept-encoding": "identity"}),
        ({"range": "bytes=0-9", "if-range": "x"}, {"accept-encoding": "identity"}),
        ({"if-none-match": "x", "if-modified-since": "y"}, {"accept-encoding": "identity"}),
        ({"if-match": "x"}, {"accept-encoding": "identity"}),
    ],
)
def test_request_is_changed_where_answers_are_inspected(headers: dict[str, str], forwarded: dict[str, str]) -> None:
    for judges, expected in (([masking()], forwarded), ([guards(WORD)], headers), ([], headers)):
        sent = sent_to(Side.TARGET, say(http_link(*judges), Side.CLIENT, request("/a", headers=headers)))
        ((head, _),) = sent_requests(sent)
        assert dict(head.headers) == dict(encode(expected))


REFUSAL = Refuse("g.r", 'blocked by "r" <b>', "ask the owner")


@pytest.mark.parametrize(
    ("headers", "kind", "parts"),
    [
        (
            {"accept": "application/json"},
            "application/json",
            [b'"message"', b'"hint": "ask the owner"', b'"rule": "g.r"'],
        ),
        ({"content-type": "application/json"}, "application/json", [b'"message"']),
        (
            {"accept": "text/html,*/*"},
            "text/html; charset=utf-8",
            [b"<h1>Blocked</h1>", b"&lt;b&gt;", b"ask the owner"],
        ),
        ({"accept": "*/*"}, "text/plain; charset=utf-8", [b'blocked by "r" <b>\nask the owner\n']),
        ({}, "text/plain; charset=utf-8", [b"blocked"]),
    ],
)  # fmt: skip
def test_refusal_is_in_the_form_that_the_client_reads(headers: dict[str, str], kind: str, parts: list[bytes]) -> None:
    head = RequestHead("GET", "/a", "app.test", encode(headers))
    answer, body = HttpproxyDialect().refusal(ReadRequest(1, head), REFUSAL)
    assert answer.status == 403
    assert answer.length == len(body)
    assert dict(answer.headers)[b"content-type"] == kind.encode()
    assert all(part in body for part in parts)
    answer, body = HttpproxyDialect().refusal(ReadRequest(1, replace(head, method="HEAD")), REFUSAL)
    assert (answer.has_body, body) == (False, b"")


def test_refusal_of_grpc_is_a_status_of_its_own() -> None:
    head = RequestHead("POST", "/pkg.Service/Call", "app.test", encode({"content-type": "application/grpc+proto"}))
    answer, body = HttpproxyDialect().refusal(ReadRequest(1, head), Refuse("r", "no: 100%\n"))
    headers = dict(answer.headers)
    assert (answer.status, body, answer.has_body) == (200, b"", False)
    assert (headers[b"grpc-status"], headers[b"grpc-message"]) == (b"7", b"no: 100%25%0A")


@pytest.mark.parametrize(
    ("code", "status", "grpc"),
    [("unavailable", 502, b"14"), ("timeout", 504, b"4"), ("invalid", 502, b"14"), ("ended", 503, b"14")],
)
def test_failure_has_a_status(code: str, status: int, grpc: bytes) -> None:
    head = RequestHead("GET", "/a", "app.test", encode({"accept": "application/json"}))
    answer, body = HttpproxyDialect().failure(ReadRequest(1, head), TargetFailure(code, "away"))
    assert (answer.status, json.loads(body)) == (status, {"message": "away"})
    head = head.with_headers(encode({"content-type": "application/grpc"}))
    answer, _ = HttpproxyDialect().failure(ReadRequest(1, head), TargetFailure(code, "away"))
    assert dict(answer.headers)[b"grpc-status"] == grpc


def test_too_large_body_has_its_status() -> None:
    link = http_link(guards(WORD), limit=100)
    effects = say(link, Side.CLIENT, request("/a", b"x" * 101, headers={"content-type": "text/plain"}))
    assert Shown(sent_to(Side.CLIENT, effects)).status == 413
    assert sent_to(Side.TARGET, effects) == b""


def test_opaque_stream_does_not_wait() -> None:
    link = http_link(guards(WORD), masking())
    begun = request("/s.S/Chat", headers={"content-type": "application/grpc"}, method="POST", sized=False, ends=False)
    effects = say(link, Side.CLIENT, begun)
    assert sent_requests(sent_to(Side.TARGET, effects))
    (operation,) = [event for event in events_of(effects) if isinstance(event, Operation)]
    assert operation.text.endswith("[a body of a gRPC message]")


def test_upload_passes_while_it_comes() -> None:
    link = http_link(guards(WORD))
    headers = {"content-type": "application/zip"}
    body = b"PK\3\4" + bytes(200_000)
    sent = request("/a", body, headers=headers, piece=60_000)
    assert sent_to(Side.TARGET, say(link, Side.CLIENT, sent, 50_000)) == sent
    assert sent_to(Side.CLIENT, say(link, Side.TARGET, response(b"ok"))) == response(b"ok")
