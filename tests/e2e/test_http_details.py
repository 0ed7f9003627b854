"""Details of HTTP on which applications rely: cookies, origins, ranges, validators, connections, large bodies."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from tests.support.gateway import Gateway
from tests.support.http_applications import GatewayHost
from tests.support.http_details import BLOCK, ExactApp, ExactRequest, count_body, exact_app, send_blocks, send_for_ever
from tests.support.processes import resident
from tests.support.promises import wait_until

MEMORY = 40 << 20  # bytes that the worker may grow by
PAGE = b"<!doctype html><title>x</title>" + b"x" * 5_000


@pytest.fixture(scope="module")
def app() -> Iterator[ExactApp]:
    with exact_app() as app:
        yield app


@pytest.fixture(scope="module")
def host(gateway: Gateway, app: ExactApp) -> GatewayHost:
    return GatewayHost(gateway, "details", app.url)


def get(host: GatewayHost, path: str, **more: object) -> httpx.Response:
    with host.client() as client:
        return client.request(str(more.pop("method", "GET")), path, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ("a=1", "a=1"),
        ("a=1; Domain=127.0.0.1; Path=/x", "a=1; Path=/x"),
        ("a=1; Domain=.internal.example; HttpOnly", "a=1; HttpOnly"),
        ("a=1; Secure; SameSite=Strict", "a=1; SameSite=Strict"),
        ("a=1; SameSite=None; Secure", "a=1; SameSite=Lax"),
        ("__Host-a=1; Path=/; Secure", "postern__Host-a=1; Path=/"),
        ("__Secure-a=1; Secure; Partitioned", "postern__Secure-a=1"),
        ("a=1; Expires=Wed, 21 Oct 2035 07:28:00 GMT; Max-Age=60", None),
        ("postern=stolen", ""),
    ],
)
def test_cookies_of_applications_without_tls(host: GatewayHost, app: ExactApp, sent: str, received: str | None) -> None:
    app.answers["/cookie"] = lambda request: request.plain(b"", 200, ("Set-Cookie", sent))
    assert get(host, "/cookie").headers.get("set-cookie", "") == (sent if received is None else received)


def test_renamed_cookies_return_under_their_names(host: GatewayHost, app: ExactApp) -> None:
    app.answers["/"] = lambda request: request.plain()
    get(host, "/", headers={"Cookie": "postern__Host-a=1; b=2; postern__Secure-c=3"})
    assert app.seen[-1][2]["Cookie"] == "__Host-a=1; b=2; __Secure-c=3"


def test_headers_name_the_side_that_reads_them(host: GatewayHost, app: ExactApp) -> None:
    other = "http://other.localhost:1"
    for own, seen in ((host.url, app.url), (other, other), ("null", "null")):
        sent = (
            *(("Access-Control-Allow-Origin", seen), ("Location", f"{app.url}/next"), ("Alt-Svc", 'h3=":443"')),
            *(("Link", f"<{app.url}/a>; rel=next"), ("Strict-Transport-Security", "max-age=1")),
            ("Content-Security-Policy", f"default-src 'self' {app.url}; upgrade-insecure-requests"),
        )
        app.answers["/"] = lambda request, sent=sent: request.plain(b"", 302, *sent)  # type: ignore[misc]
        answer = get(host, "/", headers={"Origin": own, "Referer": f"{own}/page", "X-Forwarded-Host": "evil.example"})
        headers = app.seen[-1][2]
        assert (headers["Host"], headers["Origin"], headers["Referer"]) == (
            f"127.0.0.1:{app.port}",
            seen,
            f"{seen}/page",
        )
        assert headers["X-Forwarded-Host"] == headers["Host"]
        assert answer.headers["access-control-allow-origin"] == own
        assert answer.headers["location"] == f"{host.url}/next"
        assert answer.headers["link"] == f"<{host.url}/a>; rel=next"
        assert host.url in answer.headers["content-security-policy"]
        assert "upgrade-insecure" not in answer.headers["content-security-policy"]
        assert not {"alt-svc", "strict-transport-security"} & set(answer.headers)


def test_preflight_of_another_application_needs_a_login(host: GatewayHost) -> None:
    asked = {"Host": host.host, "Origin": "http://other.localhost:1", "Access-Control-Request-Method": "PUT"}
    answer = httpx.options(f"http://127.0.0.1:{host.port}/", headers={**asked, "Sec-Fetch-Mode": "cors"})
    assert answer.status_code == 401
    assert "access-control-allow-origin" not in answer.headers


def answer_page(request: ExactRequest) -> None:
    """Answer as servers of files do."""
    headers = (("ETag", '"v1"'), ("Accept-Ranges", "bytes"), ("Content-Type", "text/html"))
    if request.headers.get("If-None-Match") == '"v1"':
        request.head(304, *headers)
    elif request.headers.get("Range") == "bytes=10-19":
        request.plain(PAGE[10:20], 206, *headers, ("Content-Range", f"bytes 10-19/{len(PAGE)}"))
    else:
        request.plain(PAGE, 200, *headers)


@pytest.mark.parametrize(
    ("method", "asked", "status", "length", "body"),
    [
        ("GET", {}, 200, len(PAGE), PAGE),
        ("HEAD", {}, 200, len(PAGE), b""),
        ("GET", {"If-None-Match": '"v1"'}, 304, None, b""),
        ("HEAD", {"If-None-Match": '"v1"'}, 304, None, b""),
        ("GET", {"Range": "bytes=10-19"}, 206, 10, PAGE[10:20]),
    ],
)
def test_ranges_and_validators(
    host: GatewayHost, app: ExactApp, method: str, asked: dict[str, str], status: int, length: int | None, body: bytes
) -> None:
    app.answers["/page"] = answer_page
    with host.client() as client:
        for _ in range(3):  # on one connection, which a wrong length would break
            answer = client.request(method, "/page", headers=asked)
            assert (answer.status_code, answer.content, answer.headers["etag"]) == (status, body, '"v1"')
            assert answer.headers.get("content-length") == (None if length is None else str(length))


def raw(host: GatewayHost, data: bytes, *, ends: bool = True) -> bytes:
    """Send bytes on a connection of its own, and return everything until the gateway closes it."""
    with socket.create_connection(("127.0.0.1", host.port), timeout=30) as client:
        client.sendall(data.replace(b"{credential}", ".".join(host.login).encode()))
        received = b""
        while ends and (part := client.recv(65536)):
            received += part
        return received


CREDENTIAL = b"Authorization: Bearer {credential}\r\n"


def test_clients_of_http_1_0_and_connection_close(host: GatewayHost, app: ExactApp) -> None:
    def stream(request: ExactRequest) -> None:
        request.head(200, ("Transfer-Encoding", "chunked"))
        request.chunk(b"one")
        request.chunk(b"two")
        request.wfile.write(b"0\r\n\r\n")

    app.answers["/stream"], app.answers["/page"] = stream, answer_page
    old = raw(host, b"GET /stream HTTP/1.0\r\nHost: localhost\r\n" + CREDENTIAL + b"\r\n")
    head, _, body = old.partition(b"\r\n\r\n")
    assert body == b"onetwo"
    assert b"transfer-encoding" not in head.lower()
    kept = b"GET /page HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n" + CREDENTIAL + b"\r\n"
    last = b"GET /page HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + CREDENTIAL + b"\r\n"
    answers = raw(host, kept + last)
    assert answers.count(PAGE) == 2
    assert answers.lower().count(b"connection: close") == 1


def test_expect_100_continue(host: GatewayHost, app: ExactApp) -> None:
    app.answers["/count"] = count_body
    head = b"POST /count HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n" + CREDENTIAL
    head += b"Connection: close\r\n"
    with socket.create_connection(("127.0.0.1", host.port), timeout=30) as client:
        client.sendall(head.replace(b"{credential}", ".".join(host.login).encode()) + b"\r\n")
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"hello")
        answer = b"".join(iter(lambda: client.recv(1000), b""))
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"\r\n\r\n5")
    refused = raw(host, head.replace(CREDENTIAL, b"") + b"\r\n")
    assert refused.startswith(b"HTTP/1.1 401")
    assert b"100 Continue" not in refused


def test_long_cookies_and_paths(host: GatewayHost, app: ExactApp) -> None:
    app.answers["/"] = lambda request: request.plain(b"ok", 200, ("Set-Cookie", "z=" + "z" * 4_000))
    cookies = "; ".join([f"c{number}={'x' * 1_000}" for number in range(8)])
    answer = get(host, "/?" + "q" * 6_000, headers={"Cookie": cookies})
    assert answer.text == "ok"
    assert len(answer.headers["set-cookie"]) == 4_002
    assert app.seen[-1][2]["Cookie"] == cookies
    assert len(app.seen[-1][1]) == 6_002


def test_hundred_requests_at_once(host: GatewayHost, app: ExactApp) -> None:
    together = threading.Barrier(100, timeout=60)

    def meet(request: ExactRequest) -> None:
        together.wait()
        request.plain(request.path.encode())

    app.answers["/meet"] = meet
    limits = httpx.Limits(max_connections=100)
    with host.client(limits=limits) as client, ThreadPoolExecutor(100) as pool:
        found = list(pool.map(lambda number: client.get(f"/meet?{number}").text, range(100)))
    assert found == [f"/meet?{number}" for number in range(100)]
    assert len({session.id for session in host.sessions()}) == 1


def test_connection_is_used_again_after_the_application_was_started_again(host: GatewayHost, app: ExactApp) -> None:
    app.answers["/page"], app.answers["/count"] = answer_page, count_body
    with host.client() as client:
        for method, path in (("GET", "/page"), ("POST", "/count")):
            assert client.request(method, path).status_code == 200
            app.stop()
            app.start()
            time.sleep(0.2)
            assert client.request(method, path).status_code == 200
        app.stop()
        away = client.get("/page")
        app.start()
        assert away.status_code == 502
        assert "cannot be reached" in away.text
        assert client.get("/page").status_code == 200


def test_log_that_never_ends_is_read_until_its_reader_leaves(host: GatewayHost, app: ExactApp) -> None:
    over = threading.Event()

    def answer(request: ExactRequest) -> None:
        try:
            send_for_ever(request)
        finally:
            over.set()

    app.answers["/log"] = answer
    with host.client() as client, client.stream("GET", "/log") as response:
        lines = response.iter_lines()
        assert [next(lines) for _ in range(5)] == [f"line {number}" for number in range(5)]
    assert over.wait(30)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_long_poll_is_not_cut(host: GatewayHost, app: ExactApp) -> None:
    def wait(request: ExactRequest) -> None:
        time.sleep(100)
        request.plain(b"news")

    app.answers["/poll"] = wait
    with host.client() as client:
        assert client.get("/poll", timeout=200).text == "news"
        assert client.get("/poll", timeout=200).text == "news"


def transfer(host: GatewayHost, app: ExactApp, size: int) -> None:
    """Download and upload `size` bytes while the worker's memory is watched."""
    blocks = size // len(BLOCK)
    app.answers["/large"], app.answers["/count"] = send_blocks(blocks), count_body
    pid = host.gateway.worker.pid
    with host.client() as client:
        for _ in range(2):
            client.post("/count", content=iter([BLOCK] * 200))
        before, most, received = resident(pid), 0, 0
        with client.stream("GET", "/large") as response:
            for part in response.iter_raw(1 << 20):
                received += len(part)
                most = max(most, resident(pid))
        assert received == blocks * len(BLOCK)
        assert most - before < MEMORY

        def body() -> Iterator[bytes]:
            nonlocal most
            for _ in range(blocks):
                most = max(most, resident(pid))
                yield BLOCK

        headers = {"Content-Length": str(received)}
        assert client.post("/count", content=body(), headers=headers, timeout=600).text == str(received)
        assert client.post("/count", content=body(), timeout=600).text == str(received)
        assert most - before < MEMORY


def test_bodies_of_64_mib_in_constant_memory(host: GatewayHost, app: ExactApp) -> None:
    transfer(host, app, 64 << 20)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_bodies_of_1_gib_in_constant_memory(host: GatewayHost, app: ExactApp) -> None:
    transfer(host, app, 1 << 30)


@pytest.mark.huge
@pytest.mark.timeout(3600)
def test_bodies_of_5_gib_in_constant_memory(host: GatewayHost, app: ExactApp) -> None:
    transfer(host, app, 5 << 30)


@pytest.mark.parametrize("way", ["download", "upload"])
def test_slow_side_holds_the_fast_one_back(host: GatewayHost, app: ExactApp, way: str) -> None:
    sent = 0

    def answer(request: ExactRequest) -> None:
        nonlocal sent
        request.head(200, ("Content-Length", str(400 * len(BLOCK))))
        for _ in range(400):
            request.wfile.write(BLOCK)
            sent += len(BLOCK)

    def sleep(request: ExactRequest) -> None:
        time.sleep(3)
        count_body(request)

    def body() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(400):
            sent += len(BLOCK)
            yield BLOCK

    app.answers["/large"], app.answers["/count"] = answer, sleep
    before = resident(host.gateway.worker.pid)
    with host.client() as client:
        if way == "download":
            with client.stream("GET", "/large") as response:
                time.sleep(2)
                assert sent < 60 << 20
                assert resident(host.gateway.worker.pid) - before < MEMORY
                assert sum(len(part) for part in response.iter_raw()) == 400 * len(BLOCK)
        else:
            posted = ThreadPoolExecutor(1).submit(client.post, "/count", content=body())
            time.sleep(2)
            assert sent < 60 << 20
            assert posted.result().text == str(400 * len(BLOCK))
    wait_until(lambda: sent == 400 * len(BLOCK) or None)
