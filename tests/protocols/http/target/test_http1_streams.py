"""Bodies of any size in constant memory: whoever does not read stops whoever sends."""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
from collections.abc import Callable

import pytest
from tests.support.http_target_links import TIMEOUT, LinkClient, link_to
from tests.support.tcp_services import service

from postern.protocols.http import http_frames as m
from postern.protocols.http.http_heads import RequestHead

PIECE = b"0123456789abcdef" * 4096  # 64 KiB
# What sockets on both sides, and one read of each reader, can hold; a body that is not held back passes it at once.
HELD = 16 << 20


def read_head(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 16)
    return data.partition(b"\r\n\r\n")[2]


async def test_a_reader_that_pauses_stops_the_target() -> None:
    sent = [0]

    def handle(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (100 << 20))
        for _ in range(100 << 4):
            connection.sendall(PIECE)
            sent[0] += len(PIECE)

    with service(handle) as port:
        async with link_to({"REMOTE_URL": f"http://127.0.0.1:{port}"}) as client:
            client.link.pause_reading()
            client.begin(RequestHead("GET", "/", "x"))
            client.end()
            await settled(lambda: sent[0])
            assert sent[0] < HELD
            assert client.received == 0
            client.link.resume_reading()
            await client.frame()
            client.link.pause_reading()
            await settled(lambda: client.received)
            assert client.received < HELD
            client.link.resume_reading()
            answer_size = await drained(client)
            assert answer_size == 100 << 20


async def test_a_target_that_does_not_read_stops_the_client() -> None:
    go_on = threading.Event()
    received = [0]

    def handle(connection: socket.socket) -> None:
        received[0] += len(read_head(connection))
        go_on.wait(TIMEOUT)
        while received[0] < 100 << 20:
            received[0] += len(connection.recv(1 << 16))
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with service(handle) as port:
        async with link_to({"REMOTE_URL": f"http://127.0.0.1:{port}"}) as client:
            client.begin(RequestHead("PUT", "/", "x", (), 100 << 20))
            written = 0
            while written < 100 << 20:
                if not client.writable.is_set():
                    assert written < HELD
                    go_on.set()
                    async with asyncio.timeout(TIMEOUT):
                        await client.writable.wait()
                    break
                client.send(PIECE)
                written += len(PIECE)
            assert go_on.is_set()
            while written < 100 << 20:
                async with asyncio.timeout(TIMEOUT):
                    await client.writable.wait()
                client.send(PIECE)
                written += len(PIECE)
                assert client.link.get_write_buffer_size() < HELD
            client.end()
            assert (await client.answer()).status == 204


async def test_a_paused_reader_does_not_keep_the_next_exchange_from_beginning() -> None:
    def handle(connection: socket.socket) -> None:
        for _ in range(2):
            read_head(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with service(handle) as port:
        async with link_to({"REMOTE_URL": f"http://127.0.0.1:{port}"}) as client:
            assert (await client.get()).body == b"ok"
            client.link.pause_reading()
            client.begin(RequestHead("GET", "/", "x"))
            client.end()
            await asyncio.sleep(0.05)
            assert not client.frames
            client.link.resume_reading()
            assert (await client.answer()).body == b"ok"


async def test_slow_bytes_arrive_as_they_come() -> None:
    go_on = threading.Event()

    def handle(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(3):
            connection.sendall(b"9\r\ndata: 1\n\n\r\n")
            go_on.wait(TIMEOUT)
            go_on.clear()
        connection.sendall(b"0\r\n\r\n")

    with service(handle) as port:
        async with link_to({"REMOTE_URL": f"http://127.0.0.1:{port}"}) as client:
            client.begin(RequestHead("GET", "/", "x"))
            client.end()
            assert (await client.frame()).kind == m.RESPONSE
            for _ in range(3):
                assert (await client.frame()).payload == b"data: 1\n\n"
                go_on.set()
            assert (await client.frame()).kind == m.RESPONSE_END


@pytest.mark.slow
async def test_memory_stays_constant_for_large_bodies() -> None:
    size = 1 << 30

    def handle(connection: socket.socket) -> None:
        left = size - len(read_head(connection))
        while left:
            left -= len(connection.recv(min(left, 1 << 18)))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // len(PIECE)):
            connection.sendall(PIECE)

    with service(handle) as port:
        async with link_to({"REMOTE_URL": f"http://127.0.0.1:{port}"}) as client:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            client.begin(RequestHead("PUT", "/", "x", (), size))
            for _ in range(size // len(PIECE)):
                async with asyncio.timeout(TIMEOUT):
                    await client.writable.wait()
                client.send(PIECE)
            client.end()
            assert await drained(client) == size
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


async def drained(client: LinkClient) -> int:
    """Read to the end of the response. Return the size of its body."""
    size = 0
    while True:
        frame = await client.frame()
        if frame.kind == m.RESPONSE_DATA:
            size += len(frame.payload)
        elif frame.kind == m.RESPONSE_END:
            return size


async def settled(value: Callable[[], int]) -> None:
    """Wait until `value` changes no more."""
    before = -1
    async with asyncio.timeout(TIMEOUT):
        while before != value():
            before = value()
            await asyncio.sleep(0.2)
