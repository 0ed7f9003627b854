"""A PostgreSQL client made of a socket, for what no driver would do."""

from __future__ import annotations

import socket
import struct

from scramp import ScramClient

PROTOCOL_3_0 = 3 << 16
PROTOCOL_3_2 = (3 << 16) | 2


def message(tag: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return tag + struct.pack("!I", len(body) + 4) + body


def startup(protocol: int = PROTOCOL_3_0, **parameters: str | bytes) -> bytes:
    pairs = b"".join(name.encode() + b"\0" + _bytes(value) + b"\0" for name, value in parameters.items())
    body = struct.pack("!I", protocol) + pairs + b"\0"
    return struct.pack("!I", len(body) + 4) + body


def connect(port: int, timeout: float = 60.0) -> socket.socket:
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


def read_message(stream: socket.socket) -> tuple[bytes, bytes]:
    """The next message: (tag, body)."""
    head = _exactly(stream, 5)
    return head[:1], _exactly(stream, struct.unpack("!I", head[1:])[0] - 4)


def log_in(
    stream: socket.socket, user: str, password: str, protocol: int = PROTOCOL_3_0, **parameters: str | bytes
) -> bytes:
    """SCRAM, up to the first ReadyForQuery; answers BackendKeyData's body. Raises AssertionError with the error."""
    stream.sendall(startup(protocol, user=user, **parameters))
    client = ScramClient(["SCRAM-SHA-256"], user, password)
    key = b""
    while True:
        tag, body = read_message(stream)
        assert tag != b"E", body
        code = struct.unpack("!I", body[:4])[0] if tag == b"R" else -1
        if code == 10:
            first = client.get_client_first().encode()
            stream.sendall(message(b"p", b"SCRAM-SHA-256\0", struct.pack("!I", len(first)), first))
        elif code == 11:
            client.set_server_first(body[4:].decode())
            stream.sendall(message(b"p", client.get_client_final().encode()))
        elif code == 12:
            client.set_server_final(body[4:].decode())
        elif tag == b"K":
            key = body
        elif tag == b"Z":
            return key


def until_ready(stream: socket.socket) -> bytes:
    """The bodies of all messages up to the next ReadyForQuery, joined."""
    bodies = b""
    while True:
        tag, body = read_message(stream)
        if tag == b"Z":
            return bodies
        bodies += body


def tags(data: bytes) -> str:
    """The types of the messages that `data` is made of. Raises AssertionError when it ends inside of one."""
    found = ""
    while data:
        found += chr(data[0])
        size = 1 + struct.unpack("!I", data[1:5])[0]
        assert size <= len(data), f"a message of type {found[-1]} is cut at {len(data)} of {size} bytes"
        data = data[size:]
    return found


def _exactly(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = stream.recv(size - len(data))
        if not part:
            raise ConnectionResetError(f"the stream ended after {len(data)} of {size} bytes: {data!r}")
        data += part
    return data


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()
