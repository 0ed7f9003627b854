"""Small TCP services for tests, each connection of which is handled by a function in a thread of its own."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

TIMEOUT = 120.0  # seconds


@contextmanager
def service(handle: Callable[[socket.socket], None]) -> Iterator[int]:
    """Its port on loopback. The connection is closed once `handle` returns."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.settimeout(TIMEOUT)
            with suppress(OSError):
                handle(self.request)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 64

        def shutdown_request(self, request: object) -> None:
            assert isinstance(request, socket.socket)
            self.close_request(request)  # without a shutdown, which would hide a reset

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


def reset(connection: socket.socket) -> None:
    """Close with a reset instead of an end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def read_all(connection: socket.socket) -> bytes:
    """Everything up to the end. Raises ConnectionResetError."""
    parts = []
    while data := connection.recv(1 << 16):
        parts.append(data)
    return b"".join(parts)


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), TIMEOUT)
