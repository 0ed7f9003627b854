"""HTTP/2 clients at the gate: many requests at once, windows, resets, trailers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.protocols.http.test_http1_clients import echo
from tests.support.http_site import PASSWORD, USER, App, AppExchange, HttpSite, ended, http_site
from tests.support.promises import until

from postern.domain.sessions.session import EndReason
from postern.protocols.http.http2 import http2_events as h2
from postern.protocols.http.http2.http2_client import Http2ClientConnection
from postern.protocols.http.http_heads import RequestHead, ResponseHead
from postern.store.ports.common_ports import Topic


@asynccontextmanager
async def clients(app: App, folder: Path) -> AsyncIterator[tuple[HttpSite, httpx.AsyncClient]]:
    """A site with TLS, and a client that is logged in."""
    async with http_site(app, tls=folder) as (site, port):
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        url = f"https://localhost:{port}"
        async with httpx.AsyncClient(
            http2=True, verify=context, base_url=url, auth=(USER, PASSWORD), timeout=20
        ) as client:
            yield site, client


async def test_requests_run_at_the_same_time_on_one_connection(tmp_path: Path) -> None:
    running, gate = 0, asyncio.Event()

    async def app(exchange: AppExchange) -> None:
        nonlocal running
        running += 1
        await gate.wait()
        await exchange.respond(200, exchange.head.path.encode())

    async with clients(app, tmp_path) as (site, client):
        waiting = [asyncio.ensure_future(client.get(f"/{number}")) for number in range(20)]
        await until(lambda: running == 20)
        gate.set()
        answers = await asyncio.gather(*waiting)
        assert [answer.text for answer in answers] == [f"/{number}" for number in range(20)]
        assert {answer.http_version for answer in answers} == {"HTTP/2"}
        assert (len(site.opened), site.verified) == (1, 1)


async def test_bodies_in_both_directions(tmp_path: Path) -> None:
    async with clients(echo, tmp_path) as (_, client):
        for size in (0, 1, 100_000, 3_000_000):
            answer = await client.post("/x", content=b"z" * size)
            assert answer.content.endswith(b"\n\n" + b"z" * size)
        assert (await client.head("/x")).content == b""


async def test_client_without_http2_gets_http1(tmp_path: Path) -> None:
    async with http_site(echo, tls=tmp_path) as (_, port):
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        async with httpx.AsyncClient(verify=context, auth=(USER, PASSWORD)) as client:
            answer = await client.get(f"https://localhost:{port}/")
            assert (answer.status_code, answer.http_version) == (200, "HTTP/1.1")


async def test_wrong_password_ends_the_connection(tmp_path: Path) -> None:
    async with clients(echo, tmp_path) as (site, client):
        answer = await client.get("/", auth=(USER, "wrong"))
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic realm=")
        assert not site.opened
        assert (await client.get("/")).status_code == 200


async def test_killed_session_resets_its_streams(tmp_path: Path) -> None:
    async def endless(exchange: AppExchange) -> None:
        await exchange.begin(ResponseHead(200))
        await exchange.write(b"begun")
        await asyncio.sleep(60)

    async with clients(endless, tmp_path) as (site, client), client.stream("GET", "/") as response:
        parts = response.aiter_bytes()
        assert await anext(parts) == b"begun"
        await site.signals.publish(Topic.SESSION_KILL, session_id=str(site.opened[0]))
        with pytest.raises(httpx.RemoteProtocolError):
            await anext(parts)
        await ended(site, 1)
        assert site.ended == [EndReason.KILLED]


class Framed:
    """A client that speaks HTTP/2 without TLS, stream by stream."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connection = Http2ClientConnection()
        self.events: list[Any] = []
        self.received = b""
        self.reads = asyncio.Event()
        self.reads.set()

    async def __aenter__(self) -> Framed:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.flush()
        self._reading = asyncio.ensure_future(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        self.writer.close()

    async def _read(self) -> None:
        while data := await self.reader.read(65536):
            self.received += data
            self.events += self.connection.receive(data)
            self.flush()
        self.events.append(None)

    def flush(self) -> None:
        self.writer.write(self.connection.data_to_send())

    def ask(self, path: str = "/", *, method: str = "GET", length: int | None = 0, login: str = USER) -> int:
        token = f"Bearer {login}.{PASSWORD}".encode()
        head = RequestHead(method, path, "gate.example", ((b"authorization", token),), length)
        stream_id = self.connection.send_request(head, "http", end=length == 0)
        self.flush()
        return int(stream_id)

    def frames(self, stream_id: int) -> list[tuple[int, int]]:
        """Return type and flags of the frames that arrived on a stream."""
        found, at = [], 0
        while at < len(self.received):
            size = int.from_bytes(self.received[at : at + 3], "big")
            if int.from_bytes(self.received[at + 5 : at + 9], "big") == stream_id:
                found.append((self.received[at + 3], self.received[at + 4]))
            at += 9 + size
        return found

    def of(self, stream_id: int, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind) and event.stream_id == stream_id]


async def test_trailers_in_both_directions_without_tls() -> None:
    async def app(exchange: AppExchange) -> None:
        body = await exchange.body()
        await exchange.begin(ResponseHead(200))
        await exchange.write(body)
        await exchange.end(exchange.trailers)

    async with http_site(app) as (_, port), Framed(port) as client:
        stream_id = client.ask(method="POST", length=None)
        client.connection.send_data(stream_id, b"hello")
        client.connection.send_end(stream_id, ((b"x-sum", b"7"),))
        client.flush()
        await until(lambda: client.of(stream_id, h2.Http2End))
        assert b"".join(event.data for event in client.of(stream_id, h2.Http2Data)) == b"hello"
        assert client.of(stream_id, h2.Http2End)[0].trailers == ((b"x-sum", b"7"),)


@pytest.mark.parametrize(
    ("trailers", "frames"),
    [((), [(1, 5)]), (((b"x-sum", b"0"),), [(1, 4), (1, 5)])],
)
async def test_empty_response_ends_with_its_head(
    trailers: tuple[tuple[bytes, bytes], ...], frames: list[tuple[int, int]]
) -> None:
    """Clients of gRPC take the status of a call from the head only if it is the end, too."""

    async def app(exchange: AppExchange) -> None:
        await exchange.begin(ResponseHead(200, ((b"grpc-status", b"9"),), 0))
        await exchange.end(trailers)

    async with http_site(app) as (_, port), Framed(port) as client:
        for _ in range(2):
            stream_id = client.ask()
            await until(partial(client.of, stream_id, h2.Http2End))
            assert client.frames(stream_id) == frames
            assert client.of(stream_id, h2.Http2End)[0].trailers == trailers


async def test_reset_ends_only_its_own_link() -> None:
    async def app(exchange: AppExchange) -> None:
        if exchange.head.path == "/hang":
            await asyncio.sleep(60)
        await exchange.respond(200, b"ok")

    async with http_site(app) as (site, port), Framed(port) as client:
        hanging = client.ask("/hang")
        await until(lambda: site.lanes)
        await asyncio.sleep(0.05)
        client.connection.reset(hanging, h2.Http2Code.CANCEL)
        client.flush()
        await until(lambda: site.lanes[0].lost)
        other = client.ask("/")
        await until(lambda: client.of(other, h2.Http2End))
        assert not site.ended


async def test_response_that_nobody_reads_waits_at_the_application() -> None:
    sent = 0

    async def app(exchange: AppExchange) -> None:
        nonlocal sent
        if exchange.head.path == "/":
            await exchange.respond(200, b"ok")
            return
        await exchange.begin(ResponseHead(200))
        for _ in range(400):
            await exchange.write(b"x" * 65536)
            sent += 65536
        await exchange.end()

    async with http_site(app) as (_, port), Framed(port) as client:
        large = client.ask("/large")
        await until(lambda: client.of(large, h2.Http2Data))
        await asyncio.sleep(0.3)
        stalled = sent
        await asyncio.sleep(0.2)
        assert stalled == sent < 3_000_000
        other = client.ask("/")  # has a window of its own, as the connection's is larger than a stream's
        await until(lambda: client.of(other, h2.Http2End))
        received = 0
        while not client.of(large, h2.Http2End):
            for event in client.of(large, h2.Http2Data):
                client.events.remove(event)
                client.connection.acknowledge(large, event.size)
                received += len(event.data)
            client.flush()
            await asyncio.sleep(0.001)
        received += sum(len(event.data) for event in client.of(large, h2.Http2Data))
        assert received == 400 * 65536


async def test_invalid_request_is_answered_and_the_connection_goes_on() -> None:
    async with http_site(echo) as (_, port), Framed(port) as client:
        refused = client.ask(method="TRACE")
        await until(lambda: client.of(refused, h2.Http2Response))
        assert client.of(refused, h2.Http2Response)[0].head.status == 405
        good = client.ask("/")
        await until(lambda: client.of(good, h2.Http2End))


async def test_attack_bytes_that_are_not_frames_end_the_connection() -> None:
    async with http_site(echo) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100)
        async with asyncio.timeout(10):
            await reader.read(-1)
        writer.close()


async def test_stopping_gateway_announces_its_end() -> None:
    async with http_site(echo) as (site, port), Framed(port) as client:
        stream_id = client.ask("/")
        await until(lambda: client.of(stream_id, h2.Http2End))
        async with asyncio.timeout(5):
            await site.stopped()
            await until(lambda: client.events[-1] is None)
        assert any(isinstance(event, h2.Http2GoingAway) for event in client.events)


async def test_local_port_speaks_http2_too() -> None:
    async with http_site(echo) as (site, port):
        site.is_local = True
        async with httpx.AsyncClient(http1=False, http2=True) as client:
            answer = await client.get(f"http://127.0.0.1:{port}/x")
            assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
