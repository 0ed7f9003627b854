"""Links to applications that speak HTTP/2: connections that links share, and servers that misbehave."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any
from uuid import uuid4

import grpc
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event, RequestReceived, StreamEnded
from tests.support import certificates
from tests.support.certificates import Issued
from tests.support.http_servers import NodePorts, node_server
from tests.support.http_target_links import TIMEOUT, LinkClient, http_order, link_to
from tests.support.tcp_services import service

from postern.agent.agent_policy import ANYTHING
from postern.errors import Unavailable
from postern.protocols.http import http_frames as m
from postern.protocols.http.http_heads import RequestHead
from postern.protocols.http.target.http2_target_connection import MAX_UNSENT
from postern.protocols.http.target.http_targets import HttpTargets


@pytest.fixture(scope="module")
def issued() -> Issued:
    return certificates.issue("localhost")


@pytest.fixture(scope="module")
def node(issued: Issued) -> Iterator[NodePorts]:
    with node_server(issued) as ports:
        yield ports


@pytest.fixture
def secrets(node: NodePorts, issued: Issued) -> dict[str, str]:
    return {"REMOTE_URL": f"https://localhost:{node.https}", "SSLROOTCERT": issued.authority}


async def session_of(client: LinkClient) -> int:
    """The number of its connection."""
    answer = await client.get("/head")
    assert answer.failed == ""
    head = json.loads(answer.body)
    assert head["version"] == "2.0"
    return int(head["session"])


# Sharing


async def test_links_of_a_session_share_a_connection_up_to_its_limit(secrets: dict[str, str]) -> None:
    targets, order = HttpTargets(ANYTHING), http_order()
    async with AsyncExitStack() as stack:
        entered = [stack.enter_async_context(link_to(secrets, targets, order=order)) for _ in range(3)]
        links = await asyncio.gather(*entered)
        assert len({await session_of(link) for link in links}) == 1
        for link in links:  # the server accepts three streams at a time
            link.begin(RequestHead("GET", "/slow", "x"))
            link.end()
        other = await stack.enter_async_context(link_to(secrets, targets, order=order))
        await session_of(other)
        assert [(await link.answer()).body for link in links] == [b"slow"] * 3
        assert len({await session_of(link) for link in [*links, other]}) == 2
    assert not targets._pool


async def test_a_link_without_room_gets_another_connection(secrets: dict[str, str]) -> None:
    targets, order = HttpTargets(ANYTHING), http_order()
    async with AsyncExitStack() as stack:
        links = [await stack.enter_async_context(link_to(secrets, targets, order=order)) for _ in range(7)]
        answers = await asyncio.gather(*[link.get("/slow") for link in links])
        assert [answer.body for answer in answers] == [b"slow"] * 7


async def test_sessions_do_not_share_a_connection(secrets: dict[str, str]) -> None:
    targets = HttpTargets(ANYTHING)
    async with link_to(secrets, targets) as first, link_to(secrets, targets) as second:
        assert await session_of(first) != await session_of(second)


async def test_other_secrets_have_another_connection(secrets: dict[str, str]) -> None:
    targets, order = HttpTargets(ANYTHING), http_order(session_id=uuid4())
    other = secrets | {"HEADER_HOST": "elsewhere"}
    async with link_to(secrets, targets, order=order) as first, link_to(other, targets, order=order) as second:
        assert await session_of(first) != await session_of(second)


async def test_an_upgrade_has_a_connection_of_http1(secrets: dict[str, str]) -> None:
    async with link_to(secrets) as client:
        await session_of(client)
        client.begin(RequestHead("GET", "/socket", "x", (), 0, "echo"))
        assert m.read_response((await client.frame()).payload).status == 101
        client.send(b"hello")
        assert (await client.frame()).payload == b"hello"
        client.link.close()


async def test_an_orderly_end_of_a_connection(secrets: dict[str, str]) -> None:
    async with link_to(secrets) as client:
        before = await session_of(client)
        assert (await client.get("/goaway")).body == b"last"
        assert await session_of(client) != before


async def test_a_request_that_is_given_up_leaves_the_connection_to_others(secrets: dict[str, str]) -> None:
    targets, order = HttpTargets(ANYTHING), http_order()
    async with link_to(secrets, targets, order=order) as first:
        before = await session_of(first)
        async with link_to(secrets, targets, order=order) as second:
            second.begin(RequestHead("POST", "/echo", "x", (), None))
            second.send(b"half")
            await second.frame()
        for _ in range(5):
            assert await session_of(first) == before


# Back-pressure


async def test_a_paused_link_does_not_stop_others(secrets: dict[str, str]) -> None:
    targets, order = HttpTargets(ANYTHING), http_order()
    async with AsyncExitStack() as stack:
        links = [await stack.enter_async_context(link_to(secrets, targets, order=order)) for _ in range(3)]
        for link in links[:2]:
            link.link.pause_reading()
            link.begin(RequestHead("GET", "/big?n=10000000", "x"))
            link.end()
        assert len((await links[2].get("/big?n=10000000")).body) == 10_000_000
        for link in links[:2]:
            assert link.received == 0
            assert link.link.get_write_buffer_size() == 0
            link.link.resume_reading()
            assert len((await link.answer()).body) == 10_000_000


async def test_an_upload_waits_for_the_application(secrets: dict[str, str]) -> None:
    size, piece = 20 << 20, bytes(32 << 10)
    async with link_to(secrets) as client:
        client.begin(RequestHead("POST", "/stall", "x", (), size))
        paused = 0
        for _ in range(size // len(piece)):
            if not client.writable.is_set():
                paused += 1
                async with asyncio.timeout(TIMEOUT):
                    await client.writable.wait()
            client.send(piece)
            assert client.link.get_write_buffer_size() < (4 << 20) + MAX_UNSENT
        client.end()
        assert paused
        assert (await client.answer()).body == b"read"


# gRPC


def grpc_message(data: bytes) -> bytes:
    return b"\0" + len(data).to_bytes(4, "big") + data


@pytest.fixture(scope="module")
def grpc_port() -> Iterator[int]:
    """A server whose methods are Echo, of as many messages as are sent, and Fail."""

    def echo(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        context.set_trailing_metadata((("x-count", "1"),))
        yield from messages

    def fail(message: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "no")
        return b""

    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Echo": grpc.stream_stream_rpc_method_handler(echo),
        "Fail": grpc.unary_unary_rpc_method_handler(fail),
    }
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop.Shop", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    server.stop(None)


GRPC = ((b"content-type", b"application/grpc"),)


async def test_grpc_streams_and_trailers(grpc_port: int) -> None:
    async with link_to({"REMOTE_URL": f"http://localhost:{grpc_port}", "HTTP_VERSION": "2"}) as client:
        client.begin(RequestHead("POST", "/shop.Shop/Echo", "x", GRPC, None))
        for text in (b"one", b"two" * 1000):
            client.send(grpc_message(text))
            received = b""
            while len(received) < len(text) + 5:
                frame = await client.frame()
                received += frame.payload if frame.kind == m.RESPONSE_DATA else b""
            assert received == grpc_message(text)
        client.end()
        answer = await client.answer()
        assert dict(answer.trailers)[b"grpc-status"] == b"0"
        assert dict(answer.trailers)[b"x-count"] == b"1"


async def test_grpc_errors(grpc_port: int) -> None:
    async with link_to({"REMOTE_URL": f"http://localhost:{grpc_port}", "HTTP_VERSION": "2"}) as client:
        head = RequestHead("POST", "/shop.Shop/Fail", "x", GRPC, None)
        answer = await client.exchange(head, grpc_message(b""))
        assert answer.head is not None
        metadata = dict(answer.trailers or answer.head.headers)
        assert (metadata[b"grpc-status"], metadata[b"grpc-message"]) == (b"7", b"no")


# Servers that misbehave

Answer = Callable[[H2Connection, Event], None]


def h2_service(answer: Answer):  # type: ignore[no-untyped-def]
    """A server of HTTP/2 without TLS, whose events `answer` handles."""

    def handle(connection: socket.socket) -> None:
        h2 = H2Connection(
            H2Configuration(client_side=False, validate_outbound_headers=False, normalize_outbound_headers=False)
        )
        h2.initiate_connection()
        connection.sendall(h2.data_to_send())
        while data := connection.recv(1 << 16):
            for event in h2.receive_data(data):
                if isinstance(event, DataReceived):
                    h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id or 0)
                answer(h2, event)
            connection.sendall(h2.data_to_send())

    return service(handle)


def secrets_for(port: int) -> dict[str, str]:
    return {"REMOTE_URL": f"http://127.0.0.1:{port}", "HTTP_VERSION": "2"}


async def test_a_refused_request_is_sent_once_more() -> None:
    bodies: dict[int, bytes] = {}
    refused: list[int] = []

    def answer(h2: H2Connection, event: Event) -> None:
        if isinstance(event, DataReceived):
            assert event.stream_id is not None
            bodies[event.stream_id] = bodies.get(event.stream_id, b"") + event.data
        elif isinstance(event, StreamEnded):
            assert event.stream_id is not None
            if not refused:
                refused.append(event.stream_id)
                h2.reset_stream(event.stream_id, ErrorCodes.REFUSED_STREAM)
                return
            h2.send_headers(event.stream_id, [(":status", "200")])
            h2.send_data(event.stream_id, bodies[event.stream_id], end_stream=True)

    with h2_service(answer) as port:
        async with link_to(secrets_for(port)) as client:
            answer_ = await client.post("/", b"abc", chunked=True)
            assert (answer_.failed, answer_.body) == ("", b"abc")
            refused.clear()
            answer_ = await client.post("/", b"x" * 70_000)  # too long to be kept
            assert "REFUSED_STREAM" in answer_.failed
            assert (await client.post("/", b"abc")).body == b"abc"


async def test_requests_beyond_a_goaway_are_sent_on_another_connection() -> None:
    requests: list[int] = []

    def answer(h2: H2Connection, event: Event) -> None:
        if isinstance(event, RequestReceived):
            assert event.stream_id is not None
            requests.append(event.stream_id)
            if len(requests) == 1:
                h2.close_connection(last_stream_id=0)
                return
            h2.send_headers(event.stream_id, [(":status", "204")], end_stream=True)

    with h2_service(answer) as port:
        async with link_to(secrets_for(port)) as client:
            assert (await client.post("/", b"")).status == 204
    assert requests == [1, 1]


@pytest.mark.parametrize(
    ("headers", "failed"),
    [
        ([(":status", "101")], "invalid"),
        ([(":status", "abc")], "invalid"),
        ([("x", "y")], "invalid"),
        ([(":status", "200"), ("connection", "close")], "invalid"),
        ([(":status", "200"), ("content-length", "1"), ("content-length", "2")], "invalid"),
        ([(":status", "200"), ("x", "a\r\nb: c")], "invalid"),
        ([(":status", "200"), ("x", "y" * 100_000)], "invalid"),
    ],
    ids=["101", "no number", "no status", "connection", "two lengths", "line break", "too long"],
)
async def test_bad_heads(headers: list[tuple[str, str]], failed: str) -> None:
    def answer(h2: H2Connection, event: Event) -> None:
        if isinstance(event, RequestReceived):
            assert event.stream_id is not None
            h2.send_headers(event.stream_id, headers, end_stream=headers[0][1] != "101")

    with h2_service(answer) as port:
        async with link_to(secrets_for(port)) as client:
            assert (await client.get()).failed.startswith(failed)


async def test_bodies_that_are_not_as_long_as_their_heads_say() -> None:
    def answer(h2: H2Connection, event: Event) -> None:
        if isinstance(event, RequestReceived):
            assert event.stream_id is not None
            h2.send_headers(event.stream_id, [(":status", "200"), ("content-length", "5")])
            h2.send_data(event.stream_id, b"abc", end_stream=True)

    with h2_service(answer) as port:
        async with link_to(secrets_for(port)) as client:
            answer_ = await client.get()
            assert "shorter" in answer_.failed
            async with asyncio.timeout(TIMEOUT):
                await client.lost.wait()


async def test_http1_is_not_taken_for_http2() -> None:
    def handle(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    with service(handle) as port, pytest.raises(Unavailable, match="does not speak HTTP/2"):
        async with link_to(secrets_for(port)):
            pass


async def test_a_server_that_closes_at_once() -> None:
    with service(lambda connection: None) as port, pytest.raises(Unavailable, match="does not speak HTTP/2"):
        async with link_to(secrets_for(port)):
            pass
