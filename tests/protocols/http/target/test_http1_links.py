"""Exchanges of a link with applications that speak HTTP/1.1, or something that only looks like it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.support.http_target_links import TIMEOUT, link_to, until
from tests.support.tcp_services import reset, service

from postern.protocols.http import http_frames as m
from postern.protocols.http.http_heads import RequestHead
from postern.protocols.http.target import http1_upstream

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = RequestHead("GET", "/", "client.example")


def read_head(connection: socket.socket) -> bytes:
    """Return bytes up to the end of a head, and what came with it; nothing at the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(1 << 16)
        if not piece:
            return b""
        data += piece
    return data


class Requests:
    """An application that answers each head with the next of `answers`; the last one closes the connection."""

    def __init__(self, *answers: bytes, per_connection: int = 1000) -> None:
        self.answers = list(answers)
        self.heads: list[bytes] = []
        self.connections = 0
        self.per_connection = per_connection

    def __call__(self, connection: socket.socket) -> None:
        self.connections += 1
        for _ in range(self.per_connection):
            head = read_head(connection)
            if not head:
                return
            self.heads.append(head)
            connection.sendall(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])


@contextmanager
def application(handle: Callable[[socket.socket], None]) -> Iterator[dict[str, str]]:
    with service(handle) as port:
        yield {"REMOTE_URL": f"http://127.0.0.1:{port}"}


async def test_a_request_is_written_anew_with_the_targets_host() -> None:
    requests = Requests(OK)
    with application(requests) as secrets:
        async with link_to(secrets) as client:
            answer = await client.get("/a?b", (b"accept", b"*/*"))
            assert (answer.status, answer.body, answer.failure) == (200, b"ok", None)
            assert answer.head is not None
            assert answer.head.length == 2
    authority = secrets["REMOTE_URL"].removeprefix("http://")
    assert requests.heads == [f"GET /a?b HTTP/1.1\r\nHost: {authority}\r\nAccept: */*\r\n\r\n".encode()]


async def test_exchanges_share_one_connection() -> None:
    requests = Requests(OK)
    with application(requests) as secrets:
        async with link_to(secrets) as client:
            for _ in range(5):
                assert (await client.get()).body == b"ok"
            assert (await client.post("/", b"x" * 10)).body == b"ok"
    assert requests.connections == 1


@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS"])
async def test_an_unread_body_is_not_taken_for_a_request(method: str) -> None:
    body = b"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"
    requests = Requests(OK)  # reads heads, and no bodies
    with application(requests) as secrets:
        async with link_to(secrets) as client:
            await client.exchange(RequestHead(method, "/", "client.example", length=len(body)), body)
            assert (await client.get("/next")).body == b"ok"
    assert requests.connections == 2


@pytest.mark.parametrize("version", [b"HTTP/1.1 200 OK\r\nConnection: close", b"HTTP/1.0 200 OK"])
async def test_a_target_that_closes_is_dialled_again(version: bytes) -> None:
    requests = Requests(version + b"\r\n\r\nuntil the end", per_connection=1)
    with application(requests) as secrets:
        async with link_to(secrets) as client:
            for _ in range(3):
                answer = await client.get()
                assert (answer.status, answer.body) == (200, b"until the end")
    assert requests.connections == 3


async def test_a_repeatable_request_is_sent_again_on_a_fresh_connection() -> None:
    """The target closes just when the second request arrives, and sends no byte of a response."""
    seen: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        seen.append(read_head(connection))
        connection.sendall(OK)
        if len(seen) == 1:
            seen.append(read_head(connection))
            reset(connection)

    with application(handle) as secrets:
        async with link_to(secrets) as client:
            assert (await client.get()).body == b"ok"
            assert (await client.get("/second")).body == b"ok"
    assert [head.split()[1] for head in seen] == [b"/", b"/second", b"/second"]


@pytest.mark.parametrize("head", [RequestHead("POST", "/", "x", (), 0), RequestHead("PUT", "/", "x", (), 3)],
                         ids=["not idempotent", "with a body"])  # fmt: skip
async def test_other_requests_are_sent_once(head: RequestHead) -> None:
    seen: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        seen.append(read_head(connection))
        connection.sendall(OK)
        if seen[1:]:
            return
        seen.append(read_head(connection))

    with application(handle) as secrets:
        async with link_to(secrets) as client:
            await client.get()
            answer = await client.exchange(head, b"abc" if head.length else b"")
            assert answer.failed == "unavailable: the target closed the connection without a response"
            assert (await client.get()).body == b"ok"  # the link goes on
    assert len(seen) == 3


async def test_a_request_on_its_first_connection_is_not_repeated() -> None:
    requests = Requests(b"", per_connection=1)
    with application(requests) as secrets:
        async with link_to(secrets) as client:
            answer = await client.get()
            assert answer.failed == "unavailable: the target closed the connection without a response"
            assert requests.connections == 1


async def test_a_request_that_cannot_be_repeated_uses_no_idle_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1_upstream, "FRESH", -1.0)
    requests = Requests(OK)
    with application(requests) as secrets:
        async with link_to(secrets) as client:
            await client.get()
            await client.get()
            assert requests.connections == 1
            assert (await client.post("/", b"x")).body == b"ok"
            assert requests.connections == 2
            assert (await client.exchange(RequestHead("DELETE", "/", "x"))).body == b"ok"
            assert requests.connections == 2


async def test_a_connection_that_was_idle_since_it_was_dialled_can_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1_upstream, "FRESH", -1.0)
    accepted: list[int] = []

    def handle(connection: socket.socket) -> None:
        accepted.append(1)
        read_head(connection)
        if len(accepted) > 1:
            connection.sendall(OK)

    with application(handle) as secrets:
        async with link_to(secrets) as client:
            assert (await client.get()).body == b"ok"


@pytest.mark.parametrize("size", [1, 3, 10])
async def test_frames_in_pieces(size: int) -> None:
    requests = Requests(OK)
    with application(requests) as secrets:
        async with link_to(secrets) as client:
            for number in range(1, 4):
                head = RequestHead("POST", "/", "x", (), 5)
                body = m.data_frames(m.REQUEST_DATA, number, b"abcde")
                frames = m.request_frame(number, head) + body + m.end_frame(m.REQUEST_END, number)
                for at in range(0, len(frames), size):
                    client.link.write(frames[at : at + size])
                client.number = number
                assert (await client.answer()).body == b"ok"


async def test_a_chunked_request_and_its_trailers() -> None:
    requests = Requests(OK)
    with application(requests) as secrets:
        async with link_to(secrets) as client:
            client.begin(RequestHead("POST", "/", "x", (), None))
            await client.writable.wait()
            client.link.write(m.data_frames(m.REQUEST_DATA, 1, b"abc") + m.end_frame(m.REQUEST_END, 1, ((b"a", b"b"),)))
            assert (await client.answer()).body == b"ok"
    head, _, body = requests.heads[0].partition(b"\r\n\r\n")
    assert b"Transfer-Encoding: chunked" in head
    assert body in (b"3\r\nabc\r\n0\r\nA: b\r\n\r\n", b"")


async def test_a_chunked_response_and_its_trailers() -> None:
    response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\nX-Sum: 4\r\n\r\n"
    with application(Requests(response)) as secrets:
        async with link_to(secrets) as client:
            answer = await client.get()
            assert (answer.body, answer.trailers) == (b"abcd", ((b"x-sum", b"4"),))


async def test_interim_responses_are_dropped() -> None:
    response = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + OK
    with application(Requests(response)) as secrets:
        async with link_to(secrets) as client:
            assert (await client.get()).status == 200


async def test_responses_without_a_body() -> None:
    requests = Requests(
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
    )
    with application(requests) as secrets:
        async with link_to(secrets) as client:
            assert (await client.get()).status == 204
            assert (await client.get()).status == 304
            head = (await client.exchange(RequestHead("HEAD", "/", "x"))).head
            assert head is not None
            assert (head.length, head.has_body) == (9, False)
    assert requests.connections == 1


@pytest.mark.parametrize(
    ("response", "failed"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", "unavailable: the target closed the connection in the"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "unavailable: the target closed"),
        (b"HTTP/1.1 200 OK\r\nContent-", "unavailable: the target closed the connection in the middle of its response"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "invalid: the target's response is not valid"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", "invalid"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "invalid"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok", "invalid"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "invalid"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "invalid"),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n", "invalid"),
        (b"HTTP/1.1 200 OK\r\nA : b\r\nContent-Length: 0\r\n\r\n", "invalid"),
        (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", "invalid"),
        (b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "invalid"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", "invalid"),
        (b"HTTP/1.1 103 Early Hints\r\nA: " + b"x" * 1000 + b"\r\n\r\n", "unavailable"),
    ],
)
@pytest.mark.parametrize("piece", [1, 1 << 16])
async def test_bad_responses_are_failures_in_words(response: bytes, failed: str, piece: int) -> None:
    step = piece if len(response) < 1000 else 1 << 16

    def handle(connection: socket.socket) -> None:
        read_head(connection)
        for at in range(0, len(response), step):
            connection.sendall(response[at : at + step])

    with application(handle) as secrets:
        async with link_to(secrets) as client:
            answer = await client.get()
            assert answer.failed.startswith(failed)
            if answer.head is not None:
                async with asyncio.timeout(TIMEOUT):
                    await client.lost.wait()  # the client has a part of the response


async def test_endless_interim_responses_are_a_failure() -> None:
    def handle(connection: socket.socket) -> None:
        read_head(connection)
        while True:
            connection.sendall(b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n" * 100)

    with application(handle) as secrets:
        async with link_to(secrets) as client:
            assert (await client.get()).failed.startswith("invalid")


async def test_bytes_after_a_response_are_no_answer_to_the_next_request() -> None:
    requests = Requests(OK + OK.replace(b"ok", b"no"), OK)
    with application(requests) as secrets:
        async with link_to(secrets) as client:
            assert (await client.get()).body == b"ok"
            assert (await client.get()).body == b"ok"
    assert requests.connections == 2


async def test_bytes_on_an_idle_connection_close_it() -> None:
    unasked = asyncio.Event()
    loop = asyncio.get_running_loop()
    connections: list[int] = []

    def handle(connection: socket.socket) -> None:
        connections.append(1)
        read_head(connection)
        connection.sendall(OK)
        if len(connections) == 1:
            connection.sendall(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
            connection.recv(1)
            loop.call_soon_threadsafe(unasked.set)

    with application(handle) as secrets:
        async with link_to(secrets) as client:
            assert (await client.get()).body == b"ok"
            async with asyncio.timeout(TIMEOUT):
                await unasked.wait()
            assert (await client.get()).body == b"ok"
    assert len(connections) == 2


async def test_an_early_response_ends_the_upload() -> None:
    def handle(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nmuch")

    with application(handle) as secrets:
        async with link_to(secrets) as client:
            client.begin(RequestHead("POST", "/", "x", (), 10**9))
            client.send(b"begin")
            answer = await client.answer()
            assert (answer.status, answer.body) == (413, b"much")
            client.send(b"more of it")
            client.end()
            assert (await client.get()).status == 413


async def test_a_client_that_gives_up_does_not_complete_its_request() -> None:
    ends: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        read_head(connection)
        try:
            while data := connection.recv(1 << 16):
                ends.append(data)
            ends.append(b"end")
        except ConnectionResetError:
            ends.append(b"reset")

    with application(handle) as secrets:
        async with link_to(secrets) as client:
            client.begin(RequestHead("POST", "/", "x", (), 100))
            client.send(b"half")
            await asyncio.sleep(0.1)
            client.link.close()
            await until(lambda: len(ends) > 1 or b"reset" in ends)
    assert b"end" not in ends


@pytest.mark.parametrize("frames", [
    m.data_frames(m.REQUEST_DATA, 1, b"x"),
    m.request_frame(1, GET) + m.request_frame(2, GET),
    m.request_frame(1, GET) + m.data_frames(m.REQUEST_DATA, 1, b"x"),
    m.request_frame(1, GET) + m.data_frames(m.REQUEST_DATA, 2, b"x"),
    m.request_frame(1, RequestHead("POST", "/", "x", (), 2)) + m.data_frames(m.REQUEST_DATA, 1, b"xyz"),
    m.request_frame(1, RequestHead("POST", "/", "x", (), 2)) + m.end_frame(m.REQUEST_END, 1),
    m.frame(m.RESPONSE, 1),
    m.frame(99, 1),
    m.frame(m.REQUEST, 1, b"{"),
    bytes((m.REQUEST, 0, 0, 0, 1, 255, 255, 255, 255)),
], ids=["no request", "two requests", "body of a GET", "another exchange", "too long", "too short", "response",
        "unknown", "no head", "frame too long"])  # fmt: skip
async def test_frames_that_are_not_a_request_close_the_link(frames: bytes) -> None:
    received: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        received.append(connection.recv(1 << 16))

    with application(handle) as secrets:
        async with link_to(secrets) as client:
            client.link.write(frames)
            if not client.frames:
                await asyncio.sleep(0.05)
            if frames[:1] == bytes((m.REQUEST,)) and frames.endswith(b"{"):
                assert (await client.frame()).kind == m.FAILED
                return
            async with asyncio.timeout(TIMEOUT):
                await client.lost.wait()
    assert all(not data.endswith(b"xyz") for data in received)


@pytest.mark.parametrize("head", [
    RequestHead("GET", "/ HTTP/1.1\r\nX: y", "x"), RequestHead("GET", "/", "x", ((b"a", b"b\r\nc: d"),)),
    RequestHead("GET", "/", "x", ((b"a: b", b"c"),)), RequestHead("TRACE", "/", "x"), RequestHead("CONNECT", "/", "x"),
    RequestHead("GET", "/", "x", ((b"content-length", b"5"),)), RequestHead("G T", "/", "x"),
], ids=["target", "value", "name", "trace", "connect", "framing", "method"])  # fmt: skip
async def test_heads_that_cannot_be_written_are_not_sent(head: RequestHead) -> None:
    requests = Requests(OK)
    with application(requests) as secrets:
        async with link_to(secrets) as client:
            assert (await client.exchange(head)).failed.startswith("invalid: the request was not sent: ")
            assert (await client.get()).body == b"ok"
    assert len(requests.heads) == 1


async def test_grpc_needs_http2() -> None:
    with application(Requests(OK)) as secrets:
        async with link_to(secrets) as client:
            answer = await client.post("/", b"x", (b"content-type", b"application/grpc+proto"))
            assert "gRPC needs HTTP/2" in answer.failed
            assert (await client.post("/", b"x", (b"content-type", b"application/grpc-web"))).status == 200
