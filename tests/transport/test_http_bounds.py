"""Slow and stalling HTTP clients, against a real server on loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from tests.support.promises import until

from postern.transport.http_bounds import HttpLimits, bounded_http

pytestmark = pytest.mark.ci

HEAD = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"


async def _echo(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


async def _flood(_request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65_536
            await asyncio.sleep(0)

    return StreamingResponse(pieces())


@asynccontextmanager
async def serving(**limits: object) -> AsyncIterator[int]:
    """Its port."""
    app = Starlette(routes=[Route("/echo", _echo, methods=["POST", "GET"]), Route("/flood", _flood)])
    listening = socket.create_server(("127.0.0.1", 0))
    protocol = bounded_http(HttpLimits(**limits))  # type: ignore[arg-type]
    config = uvicorn.Config(app, http=protocol, log_config=None, access_log=False, lifespan="off")
    config.timeout_graceful_shutdown = 1
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    await until(lambda: server.started)
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        with suppress(asyncio.CancelledError):
            await task


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port, limit=2**16)


async def rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionResetError:
        return b""


async def is_open(reader: asyncio.StreamReader) -> bool:
    try:
        await asyncio.wait_for(reader.read(1), 0.1)
    except TimeoutError:
        return True
    except ConnectionResetError:
        return False
    return False


@pytest.mark.parametrize("sent", [b"", b"GET /echo HTTP/1.1\r\nHo"])
async def test_unfinished_request_head_times_out_with_408(sent: bytes) -> None:
    async with serving(head=0.3) as port:
        reader, writer = await connect(port)
        writer.write(sent)
        answer = await rest(reader)
        assert answer.startswith(b"HTTP/1.1 408 ")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in head


async def test_request_head_sent_byte_by_byte_times_out_with_408() -> None:
    async with serving(head=0.4) as port:
        reader, writer = await connect(port)

        async def drip() -> None:
            while True:
                writer.write(b"X")
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        assert (await asyncio.wait_for(reader.readline(), 60)).startswith(b"HTTP/1.1 408 ")
        dripping.cancel()


async def test_unfinished_request_body_times_out_with_408() -> None:
    async with serving(body=0.3) as port:
        reader, writer = await connect(port)
        writer.write(HEAD + b"ab")
        assert (await rest(reader)).startswith(b"HTTP/1.1 408 ")


async def test_unfinished_body_of_a_pipelined_request_times_out_with_408() -> None:
    async with serving(body=0.3) as port:
        reader, writer = await connect(port)
        writer.write(HEAD + b"abcd" + HEAD + b"ab")
        answer = await rest(reader)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"HTTP/1.1 408 " in answer


async def test_unfinished_head_of_a_second_request_times_out_with_408() -> None:
    async with serving(head=0.3) as port:
        reader, writer = await connect(port)
        writer.write(HEAD + b"abcd")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"GET /ec")
        assert b"HTTP/1.1 408 " in await rest(reader)


async def test_client_that_does_not_read_its_response_is_disconnected() -> None:
    async with serving(reading=0.3) as port:
        reader, writer = await connect(port)
        writer.write(b"GET /flood HTTP/1.1\r\nHost: a\r\n\r\n")
        await reader.read(1)
        await asyncio.sleep(1.0)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(2**30), 60)


async def test_half_open_connections_do_not_block_other_clients() -> None:
    async with serving(most=20, most_per_address=10) as port:
        open_ones = []
        for _ in range(300):
            open_ones.append(await connect(port))
            open_ones[-1][1].write(b"GET /echo HT")
        for _ in range(10):
            reader, writer = await connect(port)
            writer.write(HEAD + b"abcd")
            assert (await asyncio.wait_for(reader.readline(), 60)).startswith(b"HTTP/1.1 200 ")
            writer.close()
        assert sum([await is_open(reader) for reader, _ in open_ones[-30:]]) <= 10
        for _, writer in open_ones:
            writer.close()


async def test_requests_one_after_the_other_are_served_on_one_slow_connection() -> None:
    async with serving(head=0.3, body=0.3) as port:
        reader, writer = await connect(port)
        for _ in range(3):
            writer.write(HEAD + b"abcd")
            answer = await reader.readuntil(b"\r\n\r\n4")
            assert answer.startswith(b"HTTP/1.1 200 ")
            await asyncio.sleep(0.4)  # longer than a head may take: between two requests that time does not run
        writer.close()


@pytest.mark.parametrize("request_", [b"GET /echo HTTP/1.1\r\nHost: a\r\n\r\n", HEAD + b"abcd"])
async def test_connection_over_the_limit_gets_503_and_earlier_connections_continue(request_: bytes) -> None:
    room = [True, False]
    async with serving(has_room=lambda: room.pop(0)) as port:
        reader, writer = await connect(port)
        writer.write(b"GET /echo HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        refused, asking = await connect(port)
        asking.write(request_)
        answer = await rest(refused)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 10" in head
        assert f"Content-Length: {len(body)}".encode() in head
        assert b"open files" in body
        writer.write(b"GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert b"HTTP/1.1 200 " in await rest(reader)
