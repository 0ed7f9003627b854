"""A server that says again what it hears, and clients that send it something and read all of its answer."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_TIMEOUT = 120.0  # seconds


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(1 << 16):
            self.request.sendall(data)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64


@contextmanager
def echoing() -> Iterator[int]:
    """Its port on the loopback."""
    with _Server(("127.0.0.1", 0), _Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


def through_tcp(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), _TIMEOUT) as stream:
        return _exchange(stream, data)


def through_socks(port: int, goal: int, data: bytes) -> bytes:
    """By the SOCKS 5 server at `port` (RFC 1928) to a port of its own machine; nothing where that cannot be reached."""
    with socket.create_connection(("127.0.0.1", port), _TIMEOUT) as stream:
        stream.sendall(b"\5\1\0" + b"\5\1\0\1\x7f\0\0\1" + goal.to_bytes(2, "big"))
        greeting = _read(stream, 2)
        answer = _read(stream, 10)
        if greeting != b"\5\0" or answer[1:2] != b"\0":
            return b""
        try:
            return _exchange(stream, data)
        except ConnectionError:
            return b""


@contextmanager
def standing(port: int) -> Iterator[None]:
    """Somebody who sends until nothing more is taken, and reads nothing."""
    with socket.create_connection(("127.0.0.1", port), _TIMEOUT) as stream:
        stream.settimeout(1)
        with suppress(TimeoutError):
            while True:
                stream.sendall(bytes(1 << 20))
        yield


def _exchange(stream: socket.socket, data: bytes) -> bytes:
    """All that is answered up to its end; both directions at a time."""

    def send() -> None:
        with suppress(OSError):  # it was hung up on
            stream.sendall(data)
            stream.shutdown(socket.SHUT_WR)

    sending = threading.Thread(target=send)
    sending.start()
    parts = []
    while part := stream.recv(1 << 16):
        parts.append(part)
    sending.join()
    return b"".join(parts)


def _read(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := stream.recv(size - len(data))):
        data += part
    return data
