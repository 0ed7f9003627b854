"""An application that answers exactly as a test says, on threads of its own, and can be started again at its port."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from tests.support.postgres import free_port

BLOCK: Final = bytes(range(256)) * 1024  # 256 KiB
Answer = Callable[["ExactRequest"], None]


class ExactRequest(BaseHTTPRequestHandler):
    """A request, and the means to answer it."""

    protocol_version = "HTTP/1.1"
    app: ExactApp

    def setup(self) -> None:
        super().setup()
        self.app.connections.append(self.connection)

    def _serve(self) -> None:
        self.app.seen.append((self.command, self.path, dict(self.headers.items())))
        self.app.answers[self.path.partition("?")[0]](self)

    do_GET = do_HEAD = do_POST = do_PUT = do_OPTIONS = _serve  # noqa: N815 - http.server's own names

    def body(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                while size:
                    part = self.rfile.read1(min(size, len(BLOCK)))
                    size -= len(part)
                    yield part
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length", 0))
        while left:
            part = self.rfile.read1(min(left, len(BLOCK)))
            left -= len(part)
            yield part

    def plain(self, body: bytes = b"", status: int = 200, *headers: tuple[str, str]) -> None:
        """Answer with a body and its length."""
        self.head(status, *headers, ("Content-Length", str(len(body))))
        if self.command != "HEAD":
            self.wfile.write(body)

    def head(self, status: int, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 200

    def handle_error(self, *_: object) -> None:
        """Say nothing: clients that leave are part of the tests."""


class ExactApp:
    """The application. `answers` are by path; `seen` are its requests: method, path, headers."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.answers: dict[str, Answer] = {}
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.connections: list[socket.socket] = []
        self._server: _Server | None = None

    def start(self) -> None:
        handler = type("Handler", (ExactRequest,), {"app": self})
        self._server = _Server(("127.0.0.1", self.port), handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.connections.clear()


def send_blocks(count: int) -> Answer:
    """Return an answer of `count` blocks."""

    def answer(request: ExactRequest) -> None:
        request.head(200, ("Content-Length", str(count * len(BLOCK))), ("Content-Type", "application/octet-stream"))
        for _ in range(count):
            request.wfile.write(BLOCK)

    return answer


def count_body(request: ExactRequest) -> None:
    request.plain(str(sum(len(part) for part in request.body())).encode())


def send_for_ever(request: ExactRequest) -> None:
    """Send lines of a log, ten a second, until the client leaves."""
    request.head(200, ("Transfer-Encoding", "chunked"), ("Content-Type", "text/plain"))
    for number in range(10_000):
        request.chunk(b"line %d\n" % number)
        time.sleep(0.1)


@contextmanager
def exact_app() -> Iterator[ExactApp]:
    app = ExactApp()
    app.start()
    try:
        yield app
    finally:
        app.stop()
