"""Links to servers that people use: Node, nginx, uvicorn's kin; both versions of HTTP."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support import certificates
from tests.support.certificates import Issued
from tests.support.http_servers import NginxPorts, NodePorts, nginx_server, node_server
from tests.support.http_target_links import HttpAnswer, LinkClient, link_to
from websockets.asyncio.server import serve

from postern.protocols.http import http_frames as m
from postern.protocols.http.http_heads import RequestHead
from postern.protocols.http.target import http1_upstream

pytestmark = pytest.mark.ci

VERSIONS = ["http1", "https1", "h2c", "https2"]


@pytest.fixture(scope="module")
def issued() -> Issued:
    return certificates.issue("localhost")


@pytest.fixture(scope="module")
def node(issued: Issued) -> Iterator[NodePorts]:
    with node_server(issued) as ports:
        yield ports


@pytest.fixture(scope="module")
def nginx(issued: Issued) -> Iterator[NginxPorts]:
    with nginx_server(issued) as ports:
        yield ports


@pytest.fixture(params=VERSIONS)
def secrets(request: pytest.FixtureRequest, node: NodePorts, issued: Issued) -> dict[str, str]:
    return secrets_of(request.param, node, issued)


def secrets_of(version: str, node: NodePorts, issued: Issued) -> dict[str, str]:
    if version == "http1":
        return {"REMOTE_URL": f"http://localhost:{node.http1}"}
    if version == "h2c":
        return {"REMOTE_URL": f"http://localhost:{node.h2c}", "HTTP_VERSION": "2"}
    secrets = {"REMOTE_URL": f"https://localhost:{node.https}", "SSLROOTCERT": issued.authority}
    return secrets | ({"HTTP_VERSION": "1.1"} if version == "https1" else {})


def read(answer: HttpAnswer) -> Any:
    assert answer.failed == ""
    return json.loads(answer.body)


async def test_heads(secrets: dict[str, str]) -> None:
    secrets |= {"HEADER_AUTHORIZATION": "Bearer abc", "HEADER_X_API_KEY": "k"}
    async with link_to(secrets) as client:
        mine = ((b"authorization", b"mine"), (b"cookie", b"a=1"), (b"accept", b"*/*"))
        for number in range(3):
            head = read(await client.get(f"/head?a=%20&b={number}", *mine))
            assert head["url"] == f"/head?a=%20&b={number}"
            headers = head["headers"]
            assert headers["authorization"] == "Bearer abc"
            assert headers["x-api-key"] == "k"
            assert headers["cookie"] == "a=1"
            authority = secrets["REMOTE_URL"].split("//")[1]
            assert headers.get("host", headers.get(":authority")) == authority


@pytest.mark.parametrize("size", [0, 1, 70_000, 5_000_000])
@pytest.mark.parametrize("chunked", [False, True])
async def test_bodies_in_both_directions(secrets: dict[str, str], size: int, chunked: bool) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    async with link_to(secrets) as client:
        answer = await client.post("/echo", body, chunked=chunked)
        assert answer.failed == ""
        assert hashlib.sha256(answer.body).digest() == hashlib.sha256(body).digest()
        assert answer.head is not None
        assert dict(answer.head.headers)[b"x-length"] == (b"none" if chunked else str(size).encode())
        digest, length, _ = (await client.post("/hash", body, chunked=chunked)).body.split(b" ")
        assert (digest.decode(), int(length)) == (hashlib.sha256(body).hexdigest(), size)


async def test_trailers_of_requests(secrets: dict[str, str]) -> None:
    async with link_to(secrets) as client:
        answer = await client.exchange(RequestHead("POST", "/hash", "x", (), None), b"abc", ((b"x-sum", b"3"),))
        assert answer.body.endswith(b' 3 {"x-sum":"3"}')


async def test_trailers_of_responses(secrets: dict[str, str]) -> None:
    async with link_to(secrets) as client:
        answer = await client.get("/trailers")
        assert (answer.body, answer.trailers) == (b"abc", ((b"x-sum", b"3"),))


async def test_responses_without_a_body(secrets: dict[str, str]) -> None:
    async with link_to(secrets) as client:
        assert (await client.get("/none")).status == 204
        head = await client.exchange(RequestHead("HEAD", "/head", "x"))
        assert (head.status, head.body) == (200, b"")
        assert (await client.get("/hints")).body == b"hinted"


async def test_responses_that_break(secrets: dict[str, str]) -> None:
    async with link_to(secrets) as client:
        assert (await client.get("/drop")).failed.startswith("unavailable: the target ")
        assert (await client.get("/none")).status == 204
        answer = await client.get("/break")
        assert answer.body == b"abc"
        assert answer.failure is not None


async def test_an_early_response(secrets: dict[str, str]) -> None:
    async with link_to(secrets) as client:
        client.begin(RequestHead("POST", "/early", "x", (), 1 << 30))
        client.send(b"x" * 1000)
        answer = await client.answer()
        assert (answer.status, answer.body) == (413, b"too much")
        client.send(b"x" * 100_000)
        client.end()
        assert (await client.get("/none")).status == 204


async def test_a_large_response_to_a_slow_reader(secrets: dict[str, str]) -> None:
    async with link_to(secrets) as client:
        client.begin(RequestHead("GET", "/big?n=50000000", "x"))
        client.end()
        size = 0
        while (frame := await client.frame()).kind != m.RESPONSE_END:
            if frame.kind == m.RESPONSE_DATA:
                size += len(frame.payload)
                client.link.pause_reading()
                await asyncio.sleep(0)
                client.link.resume_reading()
        assert size == 50_000_000


async def test_links_of_one_session_run_at_the_same_time(secrets: dict[str, str]) -> None:
    async with link_to(secrets) as first, link_to(secrets) as second:
        answers = await asyncio.gather(first.get("/slow"), second.get("/slow"))
        assert [answer.body for answer in answers] == [b"slow", b"slow"]


@pytest.mark.parametrize("version", ["http1", "https1"])
async def test_upgrades(version: str, node: NodePorts, issued: Issued, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1_upstream, "LAST_WORDS", 0.2)
    async with link_to(secrets_of(version, node, issued)) as client:
        client.begin(RequestHead("GET", "/socket", "x", (), 0, "echo"))
        frame = await client.frame()
        assert frame.kind == m.RESPONSE
        assert m.read_response(frame.payload).status == 101
        client.send(b"hello")
        assert (await client.frame()).payload == b"hello"
        client.end()
        assert (await client.frame()).kind == m.RESPONSE_END
        assert (await client.get("/none")).status == 204


async def test_a_websocket() -> None:
    async def echo(socket: Any) -> None:
        async for message in socket:
            await socket.send(message)

    async with serve(echo, "127.0.0.1", 0, compression=None) as server:
        port = server.sockets[0].getsockname()[1]
        async with link_to({"REMOTE_URL": f"http://127.0.0.1:{port}"}) as client:
            key = base64.b64encode(bytes(16))
            headers = ((b"sec-websocket-key", key), (b"sec-websocket-version", b"13"))
            client.begin(RequestHead("GET", "/", "x", headers, 0, "websocket"))
            head = m.read_response((await client.frame()).payload)
            accept = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11", usedforsecurity=False).digest()
            assert dict(head.headers)[b"sec-websocket-accept"] == base64.b64encode(accept)
            client.send(b"\x81\x85\0\0\0\0hello")
            assert (await client.frame()).payload == b"\x81\x05hello"
            client.send(b"\x88\x82\0\0\0\0\x03\xe8")
            assert (await client.frame()).payload == b"\x88\x02\x03\xe8"
            assert (await client.frame()).kind == m.RESPONSE_END


async def nginx_link(client: LinkClient) -> None:
    answer = await client.get("/index.html")
    assert (answer.status, answer.body) == (200, b"<p>hello</p>")
    assert len((await client.get("/big")).body) == 32 << 20
    answer = await client.get("/big", (b"range", b"bytes=1-5"))
    assert (answer.status, len(answer.body)) == (206, 5)
    etag = dict(answer.head.headers)[b"etag"] if answer.head else b""
    assert (await client.get("/big", (b"if-none-match", etag))).status == 304
    moved = (await client.get("/old")).head
    assert moved is not None
    assert moved.status == 301
    assert (await client.get("/missing")).status == 404
    answer = await client.exchange(RequestHead("POST", "/upload", "x", (), 2 << 20), b"x" * (2 << 20))
    assert answer.status in (413, 0)
    assert (await client.post("/upload", b"x")).status == 502


async def test_nginx(nginx: NginxPorts) -> None:
    async with link_to({"REMOTE_URL": f"http://localhost:{nginx.http}"}) as client:
        await nginx_link(client)


async def test_a_server_that_closes_idle_connections(issued: Issued) -> None:
    with nginx_server(issued, keepalive="100ms") as ports:
        async with link_to({"REMOTE_URL": f"http://localhost:{ports.http}"}) as client:
            for _ in range(4):
                assert (await client.get("/index.html")).status == 200
                await asyncio.sleep(0.15)
            assert (await client.post("/index.html", b"x")).status == 405
