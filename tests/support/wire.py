"""A PostgreSQL client made of a socket, for what no driver would do."""

from __future__ import annotations

import socket
import struct

PROTOCOL_3_0 = 3 << 16
PROTOCOL_3_2 = (3 << 16) | 2


def message(tag: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return tag + struct.pack("!I", len(body) + 4) + body


def startup(protocol: int = PROTOCOL_3_0, **parameters: str) -> bytes:
    pairs = b"".join(f"{name}\0{value}\0".encode() for name, value in parameters.items())
    body = struct.pack("!I", protocol) + pairs + b"\0"
    return struct.pack("!I", len(body) + 4) + body


def connect(port: int, timeout: float = 10.0) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=timeout)


def cancel(port: int, pid: int, key: bytes) -> None:
    """A CancelRequest, and the close that answers it."""
    with connect(port) as stream:
        stream.sendall(struct.pack("!III", 12 + len(key), 80877102, pid) + key)
        assert stream.recv(1) == b""


def closed_by_peer(stream: socket.socket) -> bytes:
    """All that still comes, up to the end of the stream. Raises TimeoutError when there is no end."""
    received = b""
    try:
        while data := stream.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    return received
