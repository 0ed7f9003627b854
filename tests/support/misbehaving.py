"""S3 that misbehaves on command: an HTTP server in front of moto's. `mode` may be changed at any time.

well        passes everything on
refusing    answers 500 to everything
full        answers 507 to every put
hanging     answers nothing at all
slow        takes and gives SPEED bytes a second
lying       changes a byte of the objects that are read whose names contain `about`
"""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.support.aws import BUCKET, ObjectStorage, object_storage

SPEED = 20_000  # bytes a second
_STEP = 0.05  # seconds


@dataclass
class Misbehaving:
    storage: ObjectStorage
    mode: str = "well"
    about: str = "/000002."
    asked: Counter[str] = field(default_factory=Counter)  # requests, by mode
    port: int = 0

    @property
    def url(self) -> str:
        """As POSTERN_RECORDINGS_URL has it."""
        return f"s3://{BUCKET}/kept?endpoint=http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return {name: value for name, value in self.storage.environment.items() if name != "AWS_ENDPOINT_URL"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    made: Misbehaving

    def _serve(self) -> None:
        mode = self.made.mode
        self.made.asked[mode] += 1
        if mode == "hanging":
            while self.made.mode == "hanging":
                time.sleep(_STEP)
            self.close_connection = True
            return
        body = self._body()
        if mode == "refusing" or (mode == "full" and self.command == "PUT"):
            self._answer(500 if mode == "refusing" else 507, {}, b"<Error><Code>Planted</Code></Error>")
            return
        status, headers, content = self._pass_on(body)
        if mode == "lying" and self.command == "GET" and content and self.made.about in self.path:
            at = len(content) // 2
            content = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        self._answer(status, headers, content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - the library's names

    @property
    def _slowly(self) -> bool:
        return self.made.mode == "slow"

    def _body(self) -> bytes:
        left, found = int(self.headers.get("Content-Length") or 0), b""
        while left:
            slowly = self._slowly
            data = self.rfile.read(min(left, int(SPEED * _STEP)) if slowly else left)
            if not data:
                break
            found, left = found + data, left - len(data)
            if slowly:
                time.sleep(_STEP)
        return found

    def _pass_on(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        behind = urlsplit(self.made.storage.endpoint)
        connection = http.client.HTTPConnection(behind.hostname or "", behind.port, timeout=30)
        try:
            connection.request(self.command, self.path, body, dict(self.headers.items()))
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "date", "server"):
                self.send_header(name, value)
        size = next((value for name, value in headers.items() if name.lower() == "content-length"), str(len(content)))
        self.send_header("Content-Length", size if self.command == "HEAD" else str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return
        step = int(SPEED * _STEP)
        while content and self._slowly:
            self.wfile.write(content[:step])
            content = content[step:]
            time.sleep(_STEP)
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Tests show what they need."""


@contextmanager
def misbehaving() -> Iterator[Misbehaving]:
    with object_storage() as storage:
        made = Misbehaving(storage)
        handler = type("Handler", (_Handler,), {"made": made})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        made.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield made
        finally:
            made.mode = "well"
            server.shutdown()
            server.server_close()
            thread.join()
