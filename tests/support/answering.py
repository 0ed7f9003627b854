"""A small HTTP server on loopback that plays another service: one function answers every request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Asked:
    """`headers` by their names in lower case; `query` with the first value of each."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Said:
    """`fields` are sent as JSON, unless `raw` is given."""

    status: int
    fields: Mapping[str, object] | None = None
    raw: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()


@contextmanager
def answering(answer: Callable[[Asked], Said]) -> Iterator[str]:
    """Its URL, without a slash at the end."""

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            said = answer(Asked(self.command, parts.path, query, headers, body))
            content = json.dumps(said.fields).encode() if said.raw is None else said.raw
            self.send_response(said.status)
            for name, value in (("Content-Type", "application/json"), *said.headers):
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with suppress(ConnectionError):  # who asked may have heard enough
                self.wfile.write(content)

        do_GET = do_POST = do_PUT = _do  # noqa: N815 - the server's names

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
