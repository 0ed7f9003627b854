"""Masking of responses by the type of their content, however they are cut."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.content_codings import CODINGS
from tests.support.http_links import CARD, EMAIL, get, guards, http_link, masking, say
from tests.support.protocols.http_test_frames import Shown, request, sent_requests
from tests.support.protocols.wire_contracts import sent_to

from postern.domain.rules.guardrail import Action, Rule, RuleType
from postern.domain.rules.masking import Strictness
from postern.protocols.httpproxy.body_slices import WHOLE, EventSlicer, JsonSlicer, Slicer, TextSlicer
from postern.protocols.wire_base import Side

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
PDF = b"%PDF-1.7\n" + bytes(range(256)) * 4
DOCUMENT = json.dumps({"id": 7, "user": {"email": EMAIL, "name": "Al"}, "cards": [int(CARD), CARD], "note": "\u00e9"})
PAGE = f"<html><body><p>Mail: {EMAIL}</p>\n<p>Card {CARD}.</p></body></html>"
STREAM = f'event: user\nid: 3\ndata: {{"email": "{EMAIL}"}}\n\n: ping\n\ndata: mail to {EMAIL}\ndata: today\n\n'

MASKED = [
    ("application/json", DOCUMENT),
    ("application/vnd.api+json; charset=utf-8", DOCUMENT),
    ("application/problem+json", f'{{"detail": "no user \\u0061lice.miller@example.com, {EMAIL}"}}'),
    ("application/json", f")]}}',\n{DOCUMENT}"),
    ("text/html; charset=utf-8", PAGE),
    ("text/plain", f"{EMAIL} {CARD}"),
    ("text/csv", f"id,mail\n1,{EMAIL}\n2,x\n"),
    ("application/xml", f"<user mail='{EMAIL}'><card>{CARD}</card></user>"),
    ("image/svg+xml", f"<svg><text>{EMAIL}</text></svg>"),
    ("text/css", f"/* by {EMAIL} */ a {{}}"),
    ("application/javascript", f'const mail = "{EMAIL}";'),
    ("application/x-ndjson", f'{{"a": 1}}\n{{"email": "{EMAIL}"}}\n{{"card": "{CARD}"}}'),
    ("application/json-seq", f'\x1e{{"a": 1}}\n\x1e{{"email": "{EMAIL}"}}\n'),
    ("text/event-stream", STREAM),
    ("application/x-www-form-urlencoded", f"mail={EMAIL.replace('@', '%40')}&a=b+c&empty="),
    ("", f"{EMAIL} without a type"),
    ("", DOCUMENT),
    ("text/plain; charset=iso-8859-1", f"{EMAIL} caf\xe9"),
    ("text/plain; charset=UTF-16", f"{EMAIL} in two bytes"),
    ("application/json; charset=utf-16le", DOCUMENT),
    ("text/html; charset=shift_jis", f"<p>{EMAIL}</p>"),
]


def encoded(content_type: str, text: str) -> bytes:
    _, _, charset = content_type.partition("charset=")
    return text.encode(charset or "utf-8")


@pytest.mark.parametrize("size", [1, 7, 0])
@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize(("content_type", "text"), MASKED)
def test_values_are_masked(content_type: str, text: str, sized: bool, size: int) -> None:
    body = encoded(content_type, text)
    headers = {"etag": '"1"', "digest": "sha-256=x", "x-kind": "test"}
    shown = get(http_link(masking()), body, content_type, size=size, piece=11, sized=sized, headers=headers)
    assert shown.status == 200
    assert shown.ends == 1
    assert EMAIL.encode() not in shown.body
    assert b"%40example.com" not in shown.body
    assert b"lice.miller" not in shown.body
    assert CARD.encode() not in shown.body
    assert shown.header("etag") is None
    assert shown.header("digest") is None
    assert shown.header("x-kind") == "test"
    assert shown.head is not None
    assert shown.head.length in (None, len(shown.body))
    if "json" in content_type and "seq" not in content_type and "nd" not in content_type and ")]}" not in text:
        assert isinstance(json.loads(shown.body), dict)


def test_masked_document_keeps_everything_else() -> None:
    shown = get(http_link(masking()), DOCUMENT.encode(), "application/json")
    read = json.loads(shown.body)
    assert (read["id"], read["user"]["name"], read["note"]) == (7, "Al", "\u00e9")
    assert shown.head is not None
    assert shown.head.length == len(shown.body)


def test_event_stream_keeps_its_events() -> None:
    shown = get(http_link(masking()), STREAM.encode(), "text/event-stream", sized=False)
    events = shown.body.decode().split("\n\n")
    assert events[0].startswith('event: user\nid: 3\ndata: {"email": "')
    assert events[1] == ": ping"
    assert events[2].startswith("data: mail to ")
    assert events[2].endswith("\ndata: today")


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b'{"a": [1, 2, "x"]}'),
        ("text/html", b"<p>nothing here</p>"),
        ("text/event-stream", b'data: {"a": 1}\n\ndata: x\n\n'),
        ("application/x-ndjson", b'{"a": 1}\n{"a": 2}\n'),
        ("image/png", PNG),
        ("font/woff2", b"wOF2" + bytes(600)),
        ("video/mp4", b"\0\0\0 ftypisom" + bytes(600)),
    ],
)
@pytest.mark.parametrize("size", [1, 0])
def test_body_without_values_stays(content_type: str, body: bytes, size: int) -> None:
    shown = get(http_link(masking()), body, content_type, size=size, headers={"etag": '"1"'})
    assert (shown.status, shown.body, shown.ends) == (200, body, 1)
    if content_type != "text/event-stream":
        assert shown.header("etag") == '"1"'
        assert shown.head is not None
        assert shown.head.length == len(body)


@pytest.mark.parametrize("strictness", list(Strictness))
@pytest.mark.parametrize(
    ("content_type", "headers", "body", "name"),
    [
        ("application/pdf", {}, PDF, "a PDF document"),
        ("image/png", {}, b'{"email": "x"}' * 60, "content of the type image/png"),
        ("application/zip", {}, b"PK\3\4" + bytes(600), "an archive"),
        ("application/octet-stream", {}, bytes(600), "content of the type application/octet-stream"),
        ("application/grpc+proto", {}, bytes(600), "a gRPC message"),
        ("", {}, bytes(600), "content without a type"),
        ("text/html", {"content-encoding": "compress"}, bytes(600), "content compressed as 'compress'"),
        ("text/html", {"content-encoding": "gzip, dcb"}, bytes(600), "content compressed as 'gzip, dcb'"),
        ("text/html", {"content-encoding": ", ".join(["gzip"] * 6)}, bytes(600), "content compressed as 'gzip, gzip"),
        ("multipart/x-mixed-replace", {}, bytes(600), "multipart/x-mixed-replace"),
    ],
)
def test_content_that_cannot_be_read_follows_the_strictness(
    content_type: str, headers: dict[str, str], body: bytes, name: str, strictness: Strictness
) -> None:
    shown = get(http_link(masking(strictness=strictness)), body, content_type, headers=headers, sized=False)
    if strictness is Strictness.BEST_EFFORT:
        assert (shown.status, shown.body) == (200, body)
        return
    assert shown.status == 403
    message = json.loads(shown.body)["message"]
    assert name in message


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize(("content_type", "text"), MASKED)
def test_compressed_values_are_masked(content_type: str, text: str, coding: str) -> None:
    name, compress = CODINGS[coding]
    body = compress(encoded(content_type, text))
    for size, piece in ((1, 11), (7, 3), (0, 1 << 14)):
        headers = {"content-encoding": name, "etag": '"1"'}
        shown = get(http_link(masking()), body, content_type, size=size, piece=piece, headers=headers)
        assert (shown.status, shown.ends) == (200, 1)
        assert EMAIL.encode() not in shown.body
        assert CARD.encode() not in shown.body
        assert b"lice.miller" not in shown.body
        assert len(shown.body) > len(text) // 3
        assert shown.header("content-encoding") in (None, "identity")
        assert shown.header("etag") is None


@pytest.mark.parametrize(
    ("headers", "body", "content_type", "status", "message"),
    [
        ({"content-encoding": "gzip"}, b"no gzip" * 100, "text/html", 200, "damaged"),
        (
            {"content-encoding": "gzip"},
            gzip.compress(DOCUMENT.encode(), mtime=0)[:-9],
            "application/json",
            200,
            "incomplete",
        ),
        ({"content-encoding": "gzip"}, gzip.compress(bytes(30 << 20), mtime=0), "application/json", 200, "larger than"),
        (
            {"content-encoding": "gzip"},
            gzip.compress(b" \n" * (15 << 20), mtime=0),
            "text/plain",
            200,
            "expands too much",
        ),
        ({}, b'{"a": "' + b"x" * (3 << 20) + b'"}', "application/json", 200, "larger than"),
        ({}, b"data: " + b"x" * (2 << 20), "text/event-stream", 200, "larger than"),
        ({}, b"\xff\xfe\x00", "text/plain", 200, "not in its charset"),
        ({}, b"+AGE-", "text/plain; charset=utf-7", 200, "cannot be inspected"),
        ({}, b"abc", "text/plain; charset=klingon", 200, "not known"),
        ({"content-range": "bytes 0-2/9"}, b"abc", "text/plain", 206, "206"),
    ],
)
def test_response_that_cannot_be_inspected_is_refused(
    headers: dict[str, str], body: bytes, content_type: str, status: int, message: str
) -> None:
    shown = get(http_link(masking()), body, content_type, headers=headers, status=status, piece=60_000, sized=False)
    if shown.failure is not None and shown.status == 200:
        assert message in shown.failure.message
    else:
        assert shown.status == 403
        assert message in json.loads(shown.body)["message"]


def test_large_document_is_masked_in_parts() -> None:
    users = [{"id": number, "email": EMAIL, "text": 'a "quoted", text \\ '} for number in range(30_000)]
    body = json.dumps({"users": users}).encode()
    assert len(body) > 2 * WHOLE
    shown = get(http_link(masking()), body, "application/json", piece=60_000)
    read = json.loads(shown.body)["users"]
    assert [user["id"] for user in read] == list(range(30_000))
    assert {user["text"] for user in read} == {'a "quoted", text \\ '}
    assert EMAIL.encode() not in shown.body


def test_stream_of_documents_is_not_held_back() -> None:
    link = http_link(masking())
    shown = get(link, b'{"email": "%b"}\n' % EMAIL.encode(), "application/json", sized=False, ends=False)
    assert shown.body.startswith(b'{"email": "')
    assert EMAIL.encode() not in shown.body


def test_headers_are_masked_but_cookies_are_not() -> None:
    headers = {"x-user": EMAIL, "location": f"/users?mail={EMAIL}", "set-cookie": f"user={EMAIL}"}
    shown = get(http_link(masking()), b"", "", headers=headers, status=302)
    assert EMAIL not in str(shown.header("x-user"))
    assert EMAIL not in str(shown.header("location"))
    assert shown.header("set-cookie") == f"user={EMAIL}"


@pytest.mark.parametrize("body", [b"", b"text", PNG])
def test_trailers_are_judged_and_masked(body: bytes) -> None:
    trailers = ((b"x-user", EMAIL.encode()), (b"grpc-status", b"0"))
    link = http_link(masking())
    shown = get(link, body, "image/png" if body == PNG else "text/plain", sized=False, trailers=trailers)
    assert (shown.status, shown.body, shown.ends) == (200, body, 1)
    assert dict(shown.trailers)[b"grpc-status"] == b"0"
    assert EMAIL.encode() not in dict(shown.trailers)[b"x-user"]
    hidden = guards(output=(Rule(RuleType.PATTERN_MATCH, pattern_regex="top-secret", message="hidden"),))
    shown = get(http_link(hidden), b"text", "text/plain", sized=False, trailers=((b"x-note", b"top-secret"),))
    assert shown.trailers == ()
    assert shown.failure is not None or shown.status == 403


@pytest.mark.parametrize(
    ("method", "kept"),
    [
        ("GET", {"authorization"}),
        ("HEAD", {"authorization"}),
        ("PUT", {"authorization", "if-match", "if-none-match", "if-unmodified-since", "if-modified-since"}),
    ],
)
def test_conditions_tell_nothing_of_content_and_still_protect_it(method: str, kept: set[str]) -> None:
    """A guess of an ETag, which can be a digest of the content, is answered by 200 or 412."""
    names = ("if-match", "if-none-match", "if-unmodified-since", "if-modified-since", "authorization", "range")
    sent = request("/doc", method=method, headers=dict.fromkeys(names, "x"))
    ((head, _),) = sent_requests(sent_to(Side.TARGET, say(http_link(masking()), Side.CLIENT, sent)))
    assert {name.decode() for name, _ in head.headers} == kept | {"accept-encoding"}


def test_response_without_a_body_loses_what_describes_one() -> None:
    shown = get(http_link(masking()), b"", "application/json", has_body=False, headers={"etag": '"1"'})
    assert shown.header("etag") is None
    assert shown.head is not None
    assert shown.head.length is None


@pytest.mark.parametrize(
    ("action", "status", "text"),
    [(Action.DENY, 403, "g.g"), (Action.MASK, 200, "[masked:"), (Action.WARN, 200, "internal")],
)
def test_guardrails_apply_to_bodies(action: Action, status: int, text: str) -> None:
    rule = Rule(RuleType.DENY_WORDS_LIST, words=("internal",), action=action)
    shown = get(http_link(guards(output=(rule,))), b'{"a": "internal note"}', "application/json")
    assert shown.status == status
    if action is not Action.DENY:
        assert text in json.loads(shown.body)["a"]
    if action is not Action.MASK:
        assert (shown.header("postern-warning") is not None) == (action is Action.WARN)


def test_without_rules_everything_passes() -> None:
    shown = get(http_link(), DOCUMENT.encode(), "application/json", headers={"etag": '"1"'})
    assert shown.body == DOCUMENT.encode()
    assert shown.header("etag") == '"1"'


def cut(slicer: Slicer, body: bytes, size: int) -> list[bytes]:
    parts = [part for at in range(0, len(body), size) for part in slicer.feed(body[at : at + size])]
    return [*parts, slicer.rest()]


@given(st.text(alphabet='ab",{}[]:\\ \n1', max_size=300), st.integers(1, 20))
def test_parts_are_the_whole(text: str, size: int) -> None:
    body = text.encode()
    for slicer in (TextSlicer(1 << 20), EventSlicer(1 << 20), JsonSlicer(1 << 20, streams=True)):
        assert b"".join(cut(slicer, body, size)) == body


@given(st.integers(0, 60), st.integers(1, 40))
def test_value_is_masked_wherever_a_stream_is_cut(at: int, piece: int) -> None:
    body = (b"x" * at) + b" mail " + EMAIL.encode() + b" and more\n"
    shown: Shown = get(http_link(masking()), body, "text/plain", piece=piece, sized=False)
    assert EMAIL.encode() not in shown.body
    assert len(shown.body) > at
