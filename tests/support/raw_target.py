"""A target that records the bytes of its clients, and answers with bytes that a test gives it."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_REQUEST_LINE = re.compile(rb"(?:^|(?<=\n))[^\r\n]+ HTTP/\d\.\d\r\n")
_HEAD = re.compile(rb"^(\S+) (\S+) HTTP/1\.1\r\n(.*?)\r\n\r\n", re.DOTALL)


class RawTarget:
    """`answers` are the bytes for a path, OK for others; a list of bytes is sent with a pause between its parts. The
    connection is closed after those of `closes`."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes | list[bytes]] = {}
        self.closes: set[str] = set()
        self.streams: list[bytearray] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=500)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def requests(self) -> list[bytes]:
        """Return everything in its streams that a server could take for a request line."""
        return [line.strip() for stream in self.streams for line in _REQUEST_LINE.findall(bytes(stream))]

    @property
    def received(self) -> bytes:
        return b"\n".join(bytes(stream) for stream in self.streams)

    def forget(self) -> None:
        for stream in self.streams:
            stream.clear()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        stream = bytearray()
        self.streams.append(stream)
        waiting = b""
        with suppress(OSError), connection:
            while data := connection.recv(65536):
                stream += data
                waiting += data
                while (size := _size_of(waiting)) and len(waiting) >= size:
                    path = waiting.split(b" ", 2)[1].partition(b"?")[0].decode()
                    waiting = waiting[size:]
                    answer = self.answers.get(path, OK)
                    for part in answer if isinstance(answer, list) else [answer]:
                        connection.sendall(part)
                        if isinstance(answer, list):
                            time.sleep(0.05)
                    if path in self.closes:
                        return


def _size_of(data: bytes) -> int:
    """Return the bytes of the first request, as far as the gateway writes requests; 0 if it is not complete."""
    head = _HEAD.match(data)
    if head is None:
        return 0
    fields = head[3].lower()
    if b"transfer-encoding: chunked" in fields:
        end = data.find(b"\r\n0\r\n\r\n", head.end() - 2)
        return end + 7 if end >= 0 else 0
    length = re.search(rb"content-length: (\d+)", fields)
    return head.end() + (int(length[1]) if length else 0)


@contextmanager
def raw_target() -> Iterator[RawTarget]:
    target = RawTarget()
    try:
        yield target
    finally:
        target.close()


class RawClient:
    """A client that sends bytes, without TLS."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *parts: bytes, pause: float = 0.0) -> None:
        with suppress(OSError):  # it was refused meanwhile
            for part in parts:
                self.socket.sendall(part)
                time.sleep(pause)

    def read(self, quiet: float = 0.4, longest: float = 20.0) -> bytes:
        """Return what comes, until the end or until nothing came for a while after the first byte."""
        data = b""
        deadline = time.monotonic() + longest
        with suppress(OSError):
            while time.monotonic() < deadline:
                self.socket.settimeout(quiet if data else longest)
                part = self.socket.recv(65536)
                if not part:
                    break
                data += part
        return data

    @property
    def is_closed(self) -> bool:
        """Return whether the gateway has closed the connection; nothing else is read."""
        self.socket.settimeout(5)
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True
