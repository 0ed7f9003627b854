"""Attacks on HTTP through a whole gateway: a real worker and agent, a target that records its bytes, and a real
application. Those on one part alone are in tests/protocols/http and tests/protocols/httpproxy."""

from __future__ import annotations

import asyncio
import base64
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import h2.config
import h2.connection
import h2.settings
import httpx
import pytest
import websockets
from tests.e2e.test_http_clients import Opened
from tests.e2e.test_waiting_clients import person
from tests.support.content_codings import CODINGS
from tests.support.gateway import Gateway
from tests.support.http_gateway import WebApp, web_app
from tests.support.promises import wait_until
from tests.support.raw_target import RawClient, RawTarget, raw_target

from postern.domain.rules.masking import Strictness, TypeGroup
from postern.gateway.clients.failed_logins import MOST_OF_USER
from postern.protocols.httpproxy.encoded_texts import decode_escapes

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
EMAIL = "alice.miller@example.com"


@pytest.fixture(scope="module")
def app() -> Iterator[WebApp]:
    with web_app() as app:
        yield app


@pytest.fixture(scope="module")
def raw() -> Iterator[RawTarget]:
    with raw_target() as raw:
        yield raw


@pytest.fixture(scope="module")
def attacked(gateway: Gateway, raw: RawTarget) -> Opened:
    """A connection to the recording target, whose guardrail denies what is smuggled."""
    opened = Opened(gateway, raw)  # type: ignore[arg-type]
    gateway.guardrail(opened.name, opened.connection, deny="smuggled")
    return opened


@pytest.fixture(scope="module")
def masked(gateway: Gateway, raw: RawTarget) -> Opened:
    opened = Opened(gateway, raw)  # type: ignore[arg-type]
    _mask(opened)
    return opened


@pytest.fixture(autouse=True)
def clean(raw: RawTarget) -> None:
    raw.forget()
    raw.answers.clear()
    raw.closes.clear()


def _mask(opened: Opened) -> None:
    opened.gateway.masking_rule(
        {
            "name": opened.name,
            "connection_ids": (str(opened.connection.id),),
            "groups": (TypeGroup("PII", ("EMAIL_ADDRESS",)),),
            "strictness": Strictness.STRICT,
        }
    )


def basic(opened: Opened) -> bytes:
    return b"Authorization: Basic " + base64.b64encode(":".join(opened.login).encode()) + b"\r\n"


def head(opened: Opened, line: str, *fields: str) -> bytes:
    lines = "".join([f"{field}\r\n" for field in fields])
    return f"{line} HTTP/1.1\r\nHost: a\r\n{lines}".encode("latin-1") + basic(opened) + b"\r\n"


# Requests in requests. Fields of a POST, and what follows its head.
SMUGGLING: dict[str, tuple[list[str], bytes]] = {
    "CL.TE": (["Content-Length: 6", "Transfer-Encoding: chunked"], b"0\r\n\r\n" + SMUGGLED),
    "TE.CL": (["Transfer-Encoding: chunked", "Content-Length: 4"], b"24\r\n" + SMUGGLED + b"\r\n0\r\n\r\n"),
    "TE.TE": (["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], b"0\r\n\r\n" + SMUGGLED),
    "TE list": (["Transfer-Encoding: gzip, chunked"], b"0\r\n\r\n" + SMUGGLED),
    "TE twice": (["Transfer-Encoding: chunked, chunked"], b"0\r\n\r\n" + SMUGGLED),
    "TE with a tab": (["Transfer-Encoding:\tchunked", "Content-Length: 6"], b"0\r\n\r\n" + SMUGGLED),
    "TE with a space before the colon": (["Transfer-Encoding : chunked", "Content-Length: 6"], b"0\r\n\r\n" + SMUGGLED),
    "TE folded": (["X: y\r\n Transfer-Encoding: chunked", "Content-Length: 6"], b"0\r\n\r\n" + SMUGGLED),
    "TE quoted": (['Transfer-Encoding: "chunked"', "Content-Length: 6"], b"0\r\n\r\n" + SMUGGLED),
    "TE with a vertical tab": (["Transfer-Encoding: \x0bchunked", "Content-Length: 6"], b"0\r\n\r\n" + SMUGGLED),
    "TE after LF": (["X: y\nTransfer-Encoding: chunked", "Content-Length: 6"], b"0\r\n\r\n" + SMUGGLED),
    "TE after CR": (["X: y\rTransfer-Encoding: chunked", "Content-Length: 6"], b"0\r\n\r\n" + SMUGGLED),
    "TE with an underscore": (["Transfer_Encoding: chunked", "Content-Length: 5"], b"0\r\n\r\n" + SMUGGLED),
    "TE with a NUL": (["Transfer-Encoding: chunked\x00", "Content-Length: 6"], b"0\r\n\r\n" + SMUGGLED),
    "TE beyond ASCII": (["Transfer-Encoding: chun\xeaed", "Content-Length: 6"], b"0\r\n\r\n" + SMUGGLED),
    "CL twice": (["Content-Length: 0", "Content-Length: 35"], SMUGGLED),
    "CL list": (["Content-Length: 0, 0"], SMUGGLED),
    "CL with a sign": (["Content-Length: +0"], SMUGGLED),
    "CL hexadecimal": (["Content-Length: 0x0"], SMUGGLED),
    "CL negative": (["Content-Length: -1"], SMUGGLED),
    "CL with an underscore": (["Content_Length: 35", "Content-Length: 0"], SMUGGLED),
    "CL of digits that are not ASCII": (["Content-Length: \xb2"], SMUGGLED),
    "CL empty": (["Content-Length:"], SMUGGLED),
    "Connection names CL": (["Connection: Content-Length", "Content-Length: 35"], SMUGGLED),
    "Connection names TE": (["Connection: Transfer-Encoding", "Transfer-Encoding: chunked"], b"0\r\n\r\n" + SMUGGLED),
    "chunk with LF": (["Transfer-Encoding: chunked"], b"0\n\n" + SMUGGLED),
    "chunk size with a sign": (["Transfer-Encoding: chunked"], b"+0\r\n\r\n" + SMUGGLED),
    "chunk size with 0x": (["Transfer-Encoding: chunked"], b"0x0\r\n\r\n" + SMUGGLED),
    "chunk size with an underscore": (["Transfer-Encoding: chunked"], b"0_0\r\n\r\n" + SMUGGLED),
    "chunk size that overflows": (["Transfer-Encoding: chunked"], b"10000000000000000\r\n" + SMUGGLED),
    "chunk that is longer": (["Transfer-Encoding: chunked"], b"1\r\nab\r\n0\r\n\r\n" + SMUGGLED),
    "chunk extension with LF": (["Transfer-Encoding: chunked"], b"2;\nxx\r\n24\r\n0\r\n\r\n" + SMUGGLED),
    "chunk extension with CR": (["Transfer-Encoding: chunked"], b"0;\rx\r\n\r\n" + SMUGGLED),
    "trailer with a length": (["Transfer-Encoding: chunked"], b"0\r\nContent-Length: 35\r\n\r\n" + SMUGGLED),
    "a body of GET": (["Content-Length: 35"], SMUGGLED),
    "Expect": (["Expect: 100-continue", "Content-Length: 35"], SMUGGLED),
    "Expect with TE": (["Expect: 100-continue", "Transfer-Encoding: chunked"], b"0\r\n\r\n" + SMUGGLED),
    "Expect otherwise": (["Expect: y 100-continue", "Content-Length: 0"], SMUGGLED),
    "h2c": (["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAR"], SMUGGLED),
    "upgrade that is not answered": (["Connection: Upgrade", "Upgrade: websocket"], SMUGGLED),
    "upgrade with a body": (["Connection: Upgrade", "Upgrade: websocket", "Content-Length: 35"], SMUGGLED),
    "next request": ([], SMUGGLED),
    "next request after an empty line": ([], b"\r\n" + SMUGGLED),
    "two Hosts": (["Host: b"], SMUGGLED),
}  # fmt: skip


@pytest.mark.parametrize("name", SMUGGLING)
def test_no_request_is_smuggled(attacked: Opened, raw: RawTarget, name: str) -> None:
    """What is behind the head is a body, a request of its own that is denied, or the end of the connection."""
    fields, rest = SMUGGLING[name]
    method = "GET" if name.startswith(("a body of GET", "upgrade", "h2c")) else "POST"
    authorized = rest.replace(b"Host: a\r\n", b"Host: a\r\n" + basic(attacked))
    for part in (rest, authorized):
        with RawClient(attacked.port) as client:
            client.send(head(attacked, f"{method} /first?n={uuid4().hex}", *fields), part, pause=0.02)
            client.read()
    assert all(line.startswith(f"{method} /first".encode()) for line in raw.requests), raw.received
    assert len(raw.requests) <= 2
    with attacked.client() as other:
        assert other.get("/other").text == "ok"


LINES = [
    *("GET http://evil.example/ HTTP/1.1", "GET http://a@evil.example/ HTTP/1.1", "GET //evil.example/x HTTP/1.1"),
    *("CONNECT evil.example:443 HTTP/1.1", "CONNECT 127.0.0.1:22 HTTP/1.1", "GET @evil.example/ HTTP/1.1"),
    *("GET file:///etc/passwd HTTP/1.1", "GET gopher://evil.example/ HTTP/1.1", "GET \\\\evil.example\\x HTTP/1.1"),
    *("GET http:evil.example HTTP/1.1", "GET http://a:b@a/ HTTP/1.1", "GET ///evil.example/ HTTP/1.1"),
    *("TRACE / HTTP/1.1", "TRACK / HTTP/1.1", "GET /a b HTTP/1.1", "GET / HTTP/1.1 x", "GET /\x00 HTTP/1.1"),
    *("GET /\t HTTP/1.1", "GET  / HTTP/1.1", " GET / HTTP/1.1", "GET /\xff HTTP/1.1", "GET /# HTTP/1.1"),
    *("PRI * HTTP/1.1", "GET * HTTP/1.1", "GET / HTTP/2.0", "GET / HTTP/1.9", "GET / http/1.1", "GET /"),
]  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_request_goes_nowhere_but_to_the_target(attacked: Opened, raw: RawTarget, line: str) -> None:
    """Only a path reaches the target, with the target's own name, whatever the request says."""
    with RawClient(attacked.port) as client:
        client.send(line.encode("latin-1") + b"\r\nHost: a\r\n" + basic(attacked) + b"\r\n")
        answer = client.read()
    is_refused = answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")) or b"preface of HTTP/2" in answer
    assert is_refused or b"\r\n\r\nok" in answer
    for request in raw.requests:
        assert re.match(rb"[A-Z]+ /[!-~]* HTTP/1\.1$", request)
        assert not request.startswith((b"TRACE", b"TRACK", b"CONNECT"))
    for host in re.findall(rb"\r\nHost: ([^\r]*)", raw.received):
        assert host == f"127.0.0.1:{raw.port}".encode()


def test_host_of_the_request_is_never_dialled(attacked: Opened, raw: RawTarget) -> None:
    for host in ("evil.example", "169.254.169.254", f"127.0.0.1:{attacked.port}", "[::1]:22"):
        with RawClient(attacked.port) as client:
            client.send(f"GET /x HTTP/1.1\r\nHost: {host}\r\n".encode() + basic(attacked) + b"\r\n")
            assert client.read().endswith(b"ok")
    assert set(re.findall(rb"\r\nHost: ([^\r]*)", raw.received)) == {f"127.0.0.1:{raw.port}".encode()}


# What a malicious application answers, and what must not be in what its client gets.
EVIL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Evil: 1\r\n\r\nevil"
RESPONSES: dict[str, bytes | list[bytes]] = {
    "two responses": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + EVIL,
    "two responses later": [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", EVIL],
    "longer than it says": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + b"o" + EVIL,
    "a body of 204": b"HTTP/1.1 204 No Content\r\nContent-Length: 75\r\n\r\n" + EVIL,
    "a chunked body of 204": b"HTTP/1.1 204 None\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n" + EVIL,
    "a body of 304": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 75\r\n\r\n" + EVIL,
    "CL and TE": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + EVIL,
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 75\r\n\r\n" + EVIL,
    "LF in a head": b"HTTP/1.1 200 OK\nX: y\n\n" + EVIL,
    "CR in a value": b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: evil=1\r\nContent-Length: 0\r\n\r\n",
    "a name with a space": b"HTTP/1.1 200 OK\r\nSet-Cookie : evil=1\r\nContent-Length: 0\r\n\r\n",
    "a folded field": b"HTTP/1.1 200 OK\r\nX: y\r\n evil: 1\r\nContent-Length: 0\r\n\r\n",
    "101 that nobody asked for": b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: evil\r\n\r\n" + EVIL,
    "1xx flood": b"HTTP/1.1 103 Early Hints\r\nLink: </evil>\r\n\r\n" * 5_000 + EVIL,
    "endless head": b"HTTP/1.1 200 OK\r\n" + b"X-Evil: " + b"evil" * 300_000,
    "many fields": b"HTTP/1.1 200 OK\r\n" + b"X-Evil: 1\r\n" * 20_000 + b"\r\n",
    "endless status line": b"HTTP/1.1 200 " + b"evil" * 300_000,
    "no HTTP": b"SSH-2.0-evil\r\n" + EVIL,
    "HTTP/0.9": b"evil",
    "another version": b"HTTP/9.9 200 evil\r\n\r\nevil",
    "status 0": b"HTTP/1.1 000 OK\r\nContent-Length: 4\r\n\r\nevil",
    "status 99": b"HTTP/1.1 99 OK\r\nContent-Length: 4\r\n\r\nevil",
    "chunk that is longer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\noevil\r\n0\r\n\r\n",
    "chunk size that is none": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nevil\r\nevil\r\n0\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("name", RESPONSES)
def test_application_answers_one_request_and_nobody_else(attacked: Opened, raw: RawTarget, name: str) -> None:
    raw.answers["/evil"] = RESPONSES[name]
    raw.closes = {"/evil"} if name == "HTTP/0.9" else set()
    with RawClient(attacked.port) as client:
        client.send(head(attacked, "GET /evil"))
        first = client.read()
        client.send(head(attacked, "GET /next"))
        second = client.read(longest=5)
    assert b"evil" not in (first + second).lower().replace(b"/evil", b"")
    assert not second or second.endswith(b"ok")
    assert len(re.findall(rb"^HTTP/1\.1 \d", first, re.MULTILINE)) == 1
    with attacked.client() as other:
        for number in range(5):
            answer = other.get(f"/other?{number}")
            assert (answer.text, "x-evil" in answer.headers) == ("ok", False)


@pytest.mark.parametrize("name", ["shorter", "chunked without its end", "closed in the head"])
def test_response_that_breaks_off_is_never_complete(attacked: Opened, raw: RawTarget, name: str) -> None:
    begin = {
        "shorter": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun",
        "chunked without its end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n",
        "closed in the head": b"HTTP/1.1 200 OK\r\nContent-",
    }[name]
    raw.answers["/evil"], raw.closes = begin, {"/evil"}
    for http2 in (False, True):
        with attacked.client(http2=http2) as client:
            try:
                assert client.get("/evil").status_code == 502
            except httpx.RemoteProtocolError:
                assert name != "closed in the head"


COOKIES = [
    *("__Host-postern=evil; Path=/; Secure", "postern=evil", " postern = evil", "=postern=evil"),
    "postern-login-x=evil",
    *("__Host-postern-login-abc=evil; Path=/; Secure", "= __Host-postern=evil", "\tpostern=evil", "postern"),
]  # fmt: skip


def test_application_sets_no_cookie_of_the_gateway(attacked: Opened, raw: RawTarget) -> None:
    lines = "".join([f"Set-Cookie: {cookie}\r\n" for cookie in COOKIES])
    raw.answers["/evil"] = f"HTTP/1.1 200 OK\r\n{lines}Set-Cookie: own=1\r\nContent-Length: 2\r\n\r\nok".encode()
    for url in (attacked.url, attacked.plain):
        answer = httpx.get(f"{url}/evil", auth=attacked.login, verify=attacked.context)
        names = [cookie.partition("=")[0] for cookie in answer.headers.get_list("set-cookie")]
        # Without TLS, cookies of the application whose names need it are renamed, and so are these.
        renamed = ["postern__Host-postern", "postern__Host-postern-login-abc"] if url == attacked.plain else []
        assert names == [*renamed, "own"]


# Masking


LEAKS: dict[str, bytes] = {
    "a part": b"HTTP/1.1 206 A\r\nContent-Type: text/css\r\nContent-Range: bytes 0-3/9\r\nContent-Length: 24\r\n\r\n%b",
    "text that is JSON": b'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 30\r\n\r\n{"a":"%b"}',
    "an image that is HTML": b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 31\r\n\r\n<p>%b</p>",
    "no type": b"HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n%b",
    "two types": b"HTTP/1.1 200\r\nContent-Type: image/png\r\nContent-Type: text/css\r\nContent-Length: 24\r\n\r\n%b",
    "a type that is none": b"HTTP/1.1 200 OK\r\nContent-Type: evil\r\nContent-Length: 24\r\n\r\n%b",
    "a header": b"HTTP/1.1 200 OK\r\nX-User: %b\r\nContent-Length: 0\r\n\r\n",
    "a redirect": b"HTTP/1.1 302 Found\r\nLocation: /?user=%b\r\nContent-Length: 0\r\n\r\n",
    "a trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-User: %b\r\n\r\n",
    "a reason": b"HTTP/1.1 200 %b\r\nContent-Length: 0\r\n\r\n",
    "an error": b"HTTP/1.1 500 Error\r\nContent-Type: text/html\r\nContent-Length: 24\r\n\r\n%b",
    "a hint": b"HTTP/1.1 103 Early Hints\r\nX-User: %b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "a form": b"HTTP/1.1 200\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 29\r\n\r\nuser=%b",
    "until the end": b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n%b",
    "a coding that is none": b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 24\r\n\r\n%b",
    "an unknown coding": b"HTTP/1.1 200 OK\r\nContent-Encoding: dcb\r\nContent-Length: 24\r\n\r\n%b",
    "an unknown charset": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=x\r\nContent-Length: 24\r\n\r\n%b",
}  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("name", LEAKS)
def test_masked_value_does_not_get_around_masking(masked: Opened, raw: RawTarget, name: str, method: str) -> None:
    raw.answers["/leak"] = LEAKS[name].replace(b"%b", EMAIL.encode())
    raw.closes = {"/leak"}
    sent = {
        "Range": "bytes=0-30",
        "If-Range": "x",
        "Accept-Encoding": "br, gzip",
        "If-None-Match": '"x"',
        "TE": "trailers",
    }
    for http2 in (False, True):
        with masked.client(http2=http2) as client:
            try:
                answer = client.request(method, "/leak", headers=sent)
            except httpx.RemoteProtocolError:
                continue
            assert "alice" not in f"{answer.text} {answer.headers} {answer.reason_phrase}".lower()
    with RawClient(masked.port) as client:
        client.send(
            head(masked, f"{method} /leak", "TE: trailers", *(["Content-Length: 0"] if method == "POST" else []))
        )
        assert b"alice" not in client.read().lower()
    received = raw.received.lower()
    assert b"\r\nrange:" not in received
    assert b"accept-encoding: identity" in received


@pytest.mark.parametrize("chunk", [1, 3, 7])
@pytest.mark.parametrize("kind", ["text/plain", "application/x-ndjson", "text/event-stream", "application/json"])
def test_value_in_pieces_is_masked(masked: Opened, raw: RawTarget, kind: str, chunk: int) -> None:
    line = f'{{"mail": "{EMAIL}"}}\n'.encode()
    body = (b"data: " + line + b"\n") if kind == "text/event-stream" else line
    parts = [body[at : at + chunk] for at in range(0, len(body), chunk)]
    chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]
    answer = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    raw.answers["/pieces"] = [answer, *chunks, b"0\r\n\r\n"]
    with masked.client() as client:
        text = client.get("/pieces").text
    assert "mail" in text
    assert "alice" not in text


def answer_of(body: bytes, content_type: str, coding: str) -> bytes:
    fields = f"Content-Type: {content_type}\r\nContent-Encoding: {coding}\r\nContent-Length: {len(body)}"
    return f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode() + body


ENCODED = [
    ("text/html", f"<p>{EMAIL}</p>"),
    ("text/html", "<p>alice.miller&#64;example.com</p>"),
    ("text/html", "<a href='mailto:alice.miller%40example.com'>x</a>"),
    ("text/html", "<script>x = 'alice.miller\\u0040example.com'</script>"),
    ("text/html", f"<iframe src='data:text/html;base64,{base64.b64encode(EMAIL.encode()).decode()}'></iframe>"),
    ("application/xml", "<a>alice.miller&#x40;example.com<![CDATA[ alice.miller@example.com ]]></a>"),
    ("application/json", '{"a": "alice.miller\\u0040example.com", "b": "/?c=alice.miller%40example.com"}'),
    ("application/x-ndjson", f'{{"a": 1}}\n{{"a": "{EMAIL}"}}\n'),
    ("text/event-stream", f"data: {EMAIL}\n\n"),
    ("multipart/form-data; boundary=b", f"--b\r\nX: {EMAIL}\r\n\r\n{EMAIL}\r\n--b--"),
]


@pytest.mark.parametrize("coding", CODINGS)
def test_value_in_encoded_content_is_masked(masked: Opened, raw: RawTarget, coding: str) -> None:
    name, compress = CODINGS[coding]
    for number, (content_type, text) in enumerate(ENCODED):
        raw.answers[f"/encoded/{number}"] = answer_of(compress(text.encode()), content_type, name)
    with masked.client() as client:
        for number in range(len(ENCODED)):
            answer = client.get(f"/encoded/{number}")
            assert answer.status_code == 200
            assert "lice.miller" not in decode_escapes(answer.content).decode()


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd", "br, gzip"])
def test_decompression_bomb_ends_its_own_response(masked: Opened, raw: RawTarget, coding: str) -> None:
    bomb = bytes(200 << 20 if coding in ("gzip", "zstd") else 60 << 20)
    for name in coding.split(", "):
        bomb = CODINGS[name][1](bomb)
    raw.answers["/bomb"] = answer_of(bomb, "text/plain", coding)
    worker = masked.gateway.worker
    before = worker.resident()
    with masked.client() as client:
        for _ in range(3):
            try:
                assert len(client.get("/bomb").content) < 64 << 20
            except httpx.RemoteProtocolError:
                continue
        assert client.get("/other").text == "ok"
    assert worker.resident() - before < 150 << 20


def test_head_and_conditions_are_no_oracle_of_masked_content(masked: Opened, raw: RawTarget) -> None:
    raw.answers["/doc"] = b'HTTP/1.1 200 OK\r\nETag: "digest"\r\nContent-Length: 24\r\n\r\n'
    with masked.client() as client:
        answer = client.head("/doc", headers={"If-Match": '"guess"', "If-None-Match": '"digest"'})
    assert "etag" not in answer.headers
    assert "content-length" not in answer.headers
    assert b"\r\nif-" not in raw.received.lower()


# Users


def test_nobody_gets_the_answer_or_cookie_of_another(gateway: Gateway, app: WebApp) -> None:
    opened = Opened(gateway, app)
    users = [person(gateway, f"mix-{number}-{opened.name}@example.com", "admin") for number in range(3)]
    logins = [gateway.credential(opened.name, principal=user) for user in users]

    async def use(number: int) -> int:
        issued = logins[number % 3]
        login = (issued.credential.username, issued.password.reveal())
        http2 = number % 2 == 0
        count = 0
        async with httpx.AsyncClient(base_url=opened.url, auth=login, http2=http2, verify=opened.context) as client:

            async def ask(turn: int) -> bool:
                mark = f"{number}-{turn}-{uuid4().hex}"
                answer = (await client.post(f"/echo?{mark}", headers={"Cookie": f"c={mark}"}, content=mark)).json()
                return (answer["query"], answer["headers"]["cookie"], answer["body"]) == (mark, f"c={mark}", mark)

            for turn in range(5):
                count += sum(await asyncio.gather(*[ask(turn * 10 + one) for one in range(10)]))
        return count

    async def all_of_them() -> list[int]:
        return await asyncio.gather(*[use(number) for number in range(6)])

    assert asyncio.run(all_of_them()) == [50] * 6
    sessions = gateway.sessions(connection=opened.name)
    assert {session.user for session in sessions} == {user.email for user in users}
    for session in sessions:
        (number,) = [place for place, user in enumerate(users) if user.email == session.user]
        queries = re.findall(r"/echo\?(\d+)-", gateway.text(session.id))
        assert {int(query) % 3 for query in queries} == {number}


# Credentials


def test_credentials_cannot_be_guessed_fast(gateway: Gateway, app: WebApp) -> None:
    """A wrong password costs the connection, and takes as long for a user name that nobody has."""
    opened = Opened(gateway, app)
    user, password = opened.login
    for login in (
        (user, "wrong"),
        (f"{user[:-4]}aaaa", password),
        (user, ""),
        (user, password + "x"),
        (user, password[:-1]),
    ):
        value = base64.b64encode(":".join(login).encode()).decode()
        with RawClient(opened.port) as client:
            client.send(f"GET /echo HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {value}\r\n\r\n".encode() * 2)
            answer = client.read()
            assert answer.count(b"HTTP/1.1 401") == 1
            assert answer.count(b"HTTP/1.1 ") == 1
            assert client.is_closed
    assert gateway.sessions(connection=opened.name) == []
    assert app.seen == [] or all("wrong" not in str(seen) for seen in app.seen)


def guess(opened: Opened, user: str, password: str, *, address: str = "127.0.0.1", http2: bool = False) -> int:
    """The status of a request on a connection of its own, from an address of this machine."""
    transport = httpx.HTTPTransport(verify=opened.context, http2=http2, local_address=address)
    with httpx.Client(base_url=f"https://localhost:{opened.port}", transport=transport, timeout=60) as client:
        return client.get("/echo", auth=(user, password)).status_code


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
def test_guesses_are_limited_for_a_user_and_an_address(gateway: Gateway, app: WebApp, http2: bool) -> None:
    """On connections of their own, at the same time. Other users, and other addresses, are not affected."""
    opened, other = Opened(gateway, app), Opened(gateway, app)
    user, password = opened.login
    with ThreadPoolExecutor(8) as pool:
        guesses = [pool.submit(guess, opened, user, f"wrong{number}", http2=http2) for number in range(25)]
        answers = Counter(each.result() for each in guesses)
    assert answers == {401: MOST_OF_USER, 429: 25 - MOST_OF_USER}
    assert guess(opened, user, password, http2=http2) == 429
    assert guess(opened, user, password, address="127.0.0.2", http2=http2) == 200
    assert guess(opened, *other.login, http2=http2) == 200


def test_guesses_at_the_same_time_on_one_http2_connection_are_limited(gateway: Gateway, app: WebApp) -> None:
    opened = Opened(gateway, app)

    async def work() -> Counter[int]:
        async with httpx.AsyncClient(base_url=opened.url, verify=opened.context, http2=True, timeout=60) as client:
            guesses = [client.get("/echo", auth=(opened.login[0], f"wrong{number}")) for number in range(60)]
            answers = await asyncio.gather(*guesses, return_exceptions=True)
            return Counter(each.status_code for each in answers if isinstance(each, httpx.Response))

    answers = asyncio.run(work())
    assert answers[401] <= MOST_OF_USER
    assert set(answers) <= {401, 429}
    assert gateway.sessions(connection=opened.name) == []


def test_browser_whose_cookie_is_old_can_still_log_in(gateway: Gateway, app: WebApp) -> None:
    """A page of it has asked many times meanwhile."""
    opened = Opened(gateway, app)
    host = f"{gateway.services.app_logins.domain.host_of(opened.name)}:{opened.port}"
    old = {"Host": host, "Cookie": f"postern={opened.login[0]}.wrong"}
    with httpx.Client(base_url=opened.plain, timeout=60) as client:
        statuses = {client.get("/echo", headers=old).status_code for _ in range(MOST_OF_USER + 5)}
        assert statuses == {401, 429}
        page = client.get("/echo", headers={**old, "Accept": "text/html", "Sec-Fetch-Mode": "navigate"})
        assert (page.is_redirect, "open-app" in page.headers["location"]) == (True, True)


def test_credential_that_expires_ends_a_connection_that_is_kept_alive(gateway: Gateway, app: WebApp) -> None:
    opened = Opened(gateway, app)
    for http2 in (False, True):
        issued = gateway.credential(opened.name, seconds=3)
        login = (issued.credential.username, issued.password.reveal())
        with httpx.Client(base_url=opened.url, verify=opened.context, auth=login, http2=http2) as client:
            assert client.get("/echo").status_code == 200

            def is_refused(client: httpx.Client = client) -> bool:
                return client.get("/echo").status_code in (401, 403)

            wait_until(is_refused, 15)
    for session in gateway.sessions(connection=opened.name):
        assert gateway.finished(session.id).metadata["end_reason"] == "expired"


SECRET = "s3cret-value"


def test_secrets_are_neither_recorded_nor_logged(gateway: Gateway, raw: RawTarget) -> None:
    added = {"HEADER_AUTHORIZATION": f"Bearer {SECRET}-target", "HEADER_X_API_KEY": f"{SECRET}-key"}
    opened = Opened(gateway, raw, **added)  # type: ignore[arg-type]
    raw.answers["/a"] = (
        f"HTTP/1.1 302 Found\r\nSet-Cookie: sid={SECRET}-cookie\r\nX-Subject-Token: {SECRET}-subject\r\n"
        f"Location: /cb?code={SECRET}-code#access_token={SECRET}-fragment\r\nContent-Length: 2\r\n\r\nok"
    ).encode()
    sent = {
        "Cookie": f"sid={SECRET}-mine",
        "X-Auth-Token": f"{SECRET}-auth",
        "Private-Token": f"{SECRET}-private",
        "Referer": f"http://a/?token={SECRET}-referer",
        "X_Api_Key": f"{SECRET}-forged",
        "X-Api-Key": f"{SECRET}-forged",
        "User-Agent": "agent",
    }
    with opened.client() as client:
        assert client.get(f"/a?access_token={SECRET}-query&a=1&api_key={SECRET}-query", headers=sent).status_code == 302
        client.post("/b", json={"password": f"{SECRET}-json"}, headers=sent)
        client.post("/c", data={"password": f"{SECRET}-form"}, headers=sent)
    received = raw.received.decode()
    assert f"{SECRET}-forged" not in received
    assert received.count(f"{SECRET}-target") == received.count(f"{SECRET}-key") == 3
    assert opened.login[1] not in received
    (session,) = gateway.sessions(connection=opened.name)
    gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
    gateway.finished(session.id)
    recorded = b"".join([repr(event).encode() for event in gateway.records(session.id)]).decode()
    assert "access_token=[not recorded]" in recorded
    shown = recorded + gateway.text(session.id) + gateway.worker.log() + repr(gateway.session(session.id))
    assert SECRET not in shown
    assert opened.login[1] not in shown


def test_errors_of_the_gateway_show_nothing_as_markup(gateway: Gateway, app: WebApp) -> None:
    opened = Opened(gateway, app)
    script = "<script>alert(1)</script>"
    gateway.guardrail(f"<b>{opened.name}", opened.connection, deny="forbidden")
    browser = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate"}
    with opened.client(headers=browser) as client:
        answers = [
            client.get(f"/echo?forbidden={script}"),
            client.get("/echo", headers={"X-A": f"forbidden {script}"}),
            httpx.get(f"{opened.url}/{script}", headers=browser, verify=opened.context),
            httpx.get(f"{opened.url}/.postern/{script}", headers=browser, verify=opened.context),
            httpx.get(f"{opened.url}/", auth=(script, script), headers=browser, verify=opened.context),
        ]
    for answer in answers:
        assert answer.status_code in (401, 403, 404)
        assert answer.headers["content-type"].startswith("text/html")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors" in answer.headers["content-security-policy"]
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "<script" not in answer.text
        assert "<b>" not in answer.text


# WebSocket


def test_messages_are_judged_however_they_are_framed(gateway: Gateway, app: WebApp) -> None:
    opened = Opened(gateway, app)
    gateway.guardrail(opened.name, opened.connection, deny="forbidden")
    user, password = opened.login

    async def say(parts: list[str] | str, **options: Any) -> str:
        url = f"wss://{user}:{password}@localhost:{opened.port}/ws"
        async with websockets.connect(url, ssl=opened.context, **options) as socket:
            assert not socket.protocol.extensions  # no compression that could hide a message
            await socket.send(parts)
            return str(await socket.recv())

    assert asyncio.run(say("allowed")) == "ALLOWED"
    assert asyncio.run(say(["al", "lowed"])) == "ALLOWED"
    for parts in ("forbidden", ["for", "bidden"], list("forbidden"), '{"a": "\\u0066orbidden"}'):
        with pytest.raises(websockets.ConnectionClosed):
            asyncio.run(say(parts))


# Floods, beside a neighbour whose requests go on


class Neighbour:
    """Another user, who is answered all the time."""

    def __init__(self, opened: Opened) -> None:
        self._client = opened.client()
        self._client.get("/echo")
        self.longest = 0.0

    def ask(self) -> None:
        begin = time.monotonic()
        assert self._client.get("/echo").status_code == 200
        self.longest = max(self.longest, time.monotonic() - begin)

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def neighbour(gateway: Gateway, app: WebApp) -> Iterator[Neighbour]:
    made = Neighbour(Opened(gateway, app))
    yield made
    made.ask()
    made.close()
    assert made.longest < 10
    assert gateway.worker.running


def http2_client(opened: Opened) -> tuple[RawClient, h2.connection.H2Connection]:
    client = RawClient(opened.port)
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    connection.initiate_connection()
    client.send(connection.data_to_send())
    return client, connection


def http2_head(opened: Opened, path: str = "/slow?seconds=5") -> list[tuple[str, str]]:
    pseudo = [(":method", "GET"), (":path", path), (":scheme", "http"), (":authority", "localhost")]
    return [*pseudo, ("authorization", basic(opened).decode().partition(": ")[2].strip())]


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def rapid_reset(opened: Opened, client: RawClient, connection: h2.connection.H2Connection) -> None:
    for number in range(3000):
        stream = 2 * number + 1
        connection.send_headers(stream, http2_head(opened), end_stream=True)
        connection.reset_stream(stream)
        if number % 100 == 0:
            client.send(connection.data_to_send())
    client.send(connection.data_to_send())


def continuation_flood(opened: Opened, client: RawClient, connection: h2.connection.H2Connection) -> None:
    client.send(frame(1, 1, 1, b"\x82"))
    for _ in range(200):
        client.send(frame(9, 0, 1, b"\x40\x01a\x7f\x80\x7e" + b"b" * 16_000))


def hpack_bomb(opened: Opened, client: RawClient, connection: h2.connection.H2Connection) -> None:
    entry = b"\x40\x01a\x7f\xa1\x1e" + b"b" * 4000  # a header of 4,000 bytes into the table …
    client.send(frame(1, 5, 1, b"\x82\x86\x84" + entry + b"\xbe" * 15_000))  # … and 15,000 references to it


def settings_flood(opened: Opened, client: RawClient, connection: h2.connection.H2Connection) -> None:
    client.send(frame(4, 0, 0, b"") * 20_000)


def ping_flood(opened: Opened, client: RawClient, connection: h2.connection.H2Connection) -> None:
    client.send(frame(6, 0, 0, bytes(8)) * 20_000)


def empty_data_flood(opened: Opened, client: RawClient, connection: h2.connection.H2Connection) -> None:
    fields = [(":method", "POST"), *http2_head(opened, "/size")[1:]]
    connection.send_headers(1, fields)
    client.send(connection.data_to_send(), frame(0, 0, 1, b"") * 20_000)


@pytest.mark.parametrize(
    "attack", [rapid_reset, continuation_flood, hpack_bomb, settings_flood, ping_flood, empty_data_flood]
)
def test_flood_of_http2_ends_its_connection_only(
    gateway: Gateway,
    app: WebApp,
    neighbour: Neighbour,
    attack: Callable[[Opened, RawClient, h2.connection.H2Connection], None],
) -> None:
    opened = Opened(gateway, app)
    before = gateway.worker.resident()
    client, connection = http2_client(opened)
    with client:
        attack(opened, client, connection)
        neighbour.ask()
        assert client.is_closed
    assert gateway.worker.resident() - before < 100 << 20


def test_streams_beyond_the_limit_are_refused(gateway: Gateway, app: WebApp, neighbour: Neighbour) -> None:
    opened = Opened(gateway, app)
    client, connection = http2_client(opened)
    with client:
        for number in range(500):
            connection.remote_settings[h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS] = 1 << 30
            connection.send_headers(2 * number + 1, http2_head(opened, "/slow?seconds=2"), end_stream=True)
        client.send(connection.data_to_send())
        neighbour.ask()
        client.read(longest=8)
    neighbour.ask()


def test_client_that_reads_slowly_holds_only_its_own_response(
    gateway: Gateway, app: WebApp, neighbour: Neighbour
) -> None:
    opened = Opened(gateway, app)
    before = gateway.worker.resident()
    with ExitStack() as stack:
        for _ in range(20):
            client = stack.enter_context(RawClient(opened.port))
            client.send(head(opened, "GET /large/4000"))
            client.socket.recv(100)
        for _ in range(10):
            neighbour.ask()
        assert gateway.worker.resident() - before < 150 << 20


def test_slow_heads_and_idle_connections_leave_room_for_others(
    gateway: Gateway, app: WebApp, neighbour: Neighbour
) -> None:
    """Clients that have not logged in yet are limited, so that those that have are served."""
    opened = Opened(gateway, app)
    with ExitStack() as stack:
        slow = []
        for _ in range(60):
            client = stack.enter_context(RawClient(opened.port))
            client.send(b"GET / HTTP/1.1\r\nX-Slow: ")
            slow.append(client)
        for _ in range(5):
            for client in slow:
                client.send(b"a")
            neighbour.ask()


@pytest.mark.slow
def test_a_thousand_idle_connections_with_a_login(gateway: Gateway, app: WebApp, neighbour: Neighbour) -> None:
    opened = Opened(gateway, app)
    before = gateway.worker.resident()
    with ExitStack() as stack:

        def connect(_: int) -> bytes:
            client = stack.enter_context(RawClient(opened.port))
            client.send(head(opened, "GET /echo"))
            return client.socket.recv(65536)

        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(connect, range(1000)))
        assert sum(answer.startswith(b"HTTP/1.1 200") for answer in answers) == 1000
        for _ in range(10):
            neighbour.ask()
        assert gateway.worker.resident() - before < 150 << 20
    assert len(gateway.sessions(connection=opened.name)) == 1
