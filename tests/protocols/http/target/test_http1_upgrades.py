"""Exchanges that change to another protocol, such as WebSocket."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

import pytest
from tests.support import certificates
from tests.support.http_target_links import TIMEOUT, LinkClient, link_to, tls_server, until
from tests.support.tcp_services import reset, service

from postern.protocols.http import http_frames as m
from postern.protocols.http.http_heads import RequestHead

SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\nX: y\r\n\r\n"
UPGRADE = RequestHead("GET", "/socket", "client.example", ((b"sec-websocket-version", b"13"),), 0, "websocket")


def head_of(connection: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        piece = connection.recv(1)
        if not piece:
            return data
        data += piece
    return data


async def next_frame(client: LinkClient) -> tuple[int, bytes]:
    frame = await client.frame()
    return frame.kind, frame.payload


async def upgraded(client: LinkClient) -> None:
    client.begin(UPGRADE)
    kind, payload = await next_frame(client)
    assert kind == m.RESPONSE
    assert m.read_response(payload).status == 101
    assert m.read_response(payload).headers == ((b"x", b"y"),)


async def test_bytes_pass_in_both_directions_until_each_ends() -> None:
    heads: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        heads.append(head_of(connection))
        if b"Upgrade" not in heads[-1]:
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            return
        connection.sendall(SWITCH + b"hello")  # more than the head in one segment
        while data := connection.recv(1 << 16):
            connection.sendall(data.upper())
        connection.sendall(b"last")

    with service(handle) as port:
        async with link_to({"REMOTE_URL": f"http://127.0.0.1:{port}"}) as client:
            await upgraded(client)
            assert await next_frame(client) == (m.RESPONSE_DATA, b"hello")
            client.send(b"abc")
            assert await next_frame(client) == (m.RESPONSE_DATA, b"ABC")
            client.end()
            assert await next_frame(client) == (m.RESPONSE_DATA, b"last")
            assert await next_frame(client) == (m.RESPONSE_END, b"")
            assert (await client.get()).status == 204  # the link carries the next exchange
    assert b"Connection: Upgrade\r\nUpgrade: websocket\r\n" in heads[0]


async def test_the_target_can_end_first() -> None:
    received: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        head_of(connection)
        connection.sendall(SWITCH)
        connection.shutdown(socket.SHUT_WR)
        while data := connection.recv(1 << 16):
            received.append(data)
        received.append(b"end")

    with service(handle) as port:
        async with link_to({"REMOTE_URL": f"http://127.0.0.1:{port}"}) as client:
            await upgraded(client)
            assert await next_frame(client) == (m.RESPONSE_END, b"")
            client.send(b"still")
            client.end()
            await until(lambda: b"end" in received)
    assert b"".join(received) == b"stillend"


async def test_a_reset_is_a_failure_and_ends_the_link() -> None:
    def handle(connection: socket.socket) -> None:
        head_of(connection)
        connection.sendall(SWITCH)
        connection.recv(1)
        reset(connection)

    with service(handle) as port:
        async with link_to({"REMOTE_URL": f"http://127.0.0.1:{port}"}) as client:
            await upgraded(client)
            client.send(b"x")
            kind, payload = await next_frame(client)
            assert kind == m.FAILED
            assert m.read_failure(payload).message.startswith("the connection to the target broke")
            async with asyncio.timeout(TIMEOUT):
                await client.lost.wait()


async def test_a_link_that_is_closed_resets_the_target() -> None:
    ends: list[str] = []

    def handle(connection: socket.socket) -> None:
        head_of(connection)
        connection.sendall(SWITCH)
        try:
            while connection.recv(1 << 16):
                pass
            ends.append("end")
        except ConnectionResetError:
            ends.append("reset")

    with service(handle) as port:
        async with link_to({"REMOTE_URL": f"http://127.0.0.1:{port}"}) as client:
            await upgraded(client)
            client.send(b"x")
            await asyncio.sleep(0.05)
        await until(lambda: ends)
    assert ends == ["reset"]


def answering(response: bytes) -> Callable[[socket.socket], None]:
    def handle(connection: socket.socket) -> None:
        while head_of(connection):
            connection.sendall(response)

    return handle


async def test_a_target_can_decline() -> None:
    with service(answering(b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno")) as port:
        async with link_to({"REMOTE_URL": f"http://127.0.0.1:{port}"}) as client:
            for _ in range(2):
                client.begin(UPGRADE)
                answer = await client.answer()
                assert (answer.status, answer.body) == (426, b"no")
                client.end()


@pytest.mark.parametrize(
    "response",
    [
        SWITCH.replace(b"WebSocket", b"h2c"),
        SWITCH.replace(b"WebSocket", b"websocket, h2c"),
        SWITCH.replace(b"Upgrade: WebSocket\r\n", b""),
        SWITCH.replace(b"HTTP/1.1 101", b"HTTP/1.1 199"),
    ],
    ids=["another protocol", "two protocols", "no protocol", "unknown interim response"],
)
async def test_a_wrong_change_is_a_failure(response: bytes) -> None:
    def handle(connection: socket.socket) -> None:
        head_of(connection)
        connection.sendall(response)

    with service(handle) as port:
        async with link_to({"REMOTE_URL": f"http://127.0.0.1:{port}"}) as client:
            client.begin(UPGRADE)
            assert (await client.answer()).failure is not None


async def test_bytes_before_the_change_are_not_sent() -> None:
    received: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        head_of(connection)
        received.append(connection.recv(1 << 16))

    with service(handle) as port:
        async with link_to({"REMOTE_URL": f"http://127.0.0.1:{port}"}) as client:
            client.begin(UPGRADE)
            await asyncio.sleep(0.05)
            client.send(b"GET /smuggled HTTP/1.1\r\n\r\n")
            async with asyncio.timeout(TIMEOUT):
                await client.lost.wait()
    assert received in ([], [b""])


async def test_a_request_with_a_body_changes_nothing() -> None:
    heads: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        heads.append(head_of(connection))
        connection.recv(3)
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with service(handle) as port:
        async with link_to({"REMOTE_URL": f"http://127.0.0.1:{port}"}) as client:
            answer = await client.exchange(RequestHead("POST", "/", "x", (), 3, "websocket"), b"abc")
            assert answer.status == 204
    assert b"pgrade" not in heads[0]


async def test_upgrades_over_tls() -> None:
    issued = certificates.issue("localhost")
    context = tls_server(issued, "h2", "http/1.1")
    chosen: list[str | None] = []

    def handle(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as encrypted:
            chosen.append(encrypted.selected_alpn_protocol())
            data = b""
            while not data.endswith(b"\r\n\r\n"):
                data += encrypted.recv(1 << 16)
            encrypted.sendall(SWITCH)
            assert encrypted.recv(10) == b"bye"
            encrypted.sendall(b"bye")
            try:
                encrypted.unwrap()
            except (ssl.SSLError, OSError):
                return

    with service(handle) as port:
        secrets = {
            "REMOTE_URL": f"https://localhost:{port}",
            "SSLROOTCERT": issued.authority,
            "HTTP_VERSION": "1.1",
        }
        async with link_to(secrets) as client:
            await upgraded(client)
            client.send(b"bye")
            client.end()
            assert await next_frame(client) == (m.RESPONSE_DATA, b"bye")
            assert await next_frame(client) == (m.RESPONSE_END, b"")
    assert chosen == ["http/1.1"]
