"""The listener on this machine to which a browser comes back after a login (RFC 8252 section 7.3).

It takes one request: the right method, path, Host (a page of another site that was made to resolve to 127.0.0.1 has
another) and state (only our own browser window knows it). All else is turned away and changes nothing.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from postern.domain.secret import Secret
from postern.errors import Unauthenticated, Unavailable

HOST = "127.0.0.1"
PATH = "/callback"
DEADLINE = 180.0  # seconds for the person in the browser
_PATIENCE = 10  # seconds for a request to be sent; browsers open connections ahead that they may never use
_AT_ONCE = 16  # connections; anybody on this machine can open them
_LONGEST = 4_096  # characters of one value

_PAGE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Postern</title></head>'
    "<body><p>{}</p></body></html>"
)
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Connection": "close",
}


@dataclass(frozen=True, slots=True)
class _Heard:
    code: Secret | None
    problem: str


class Loopback:
    """Use as a context; `redirect` is where the gateway is to send the browser."""

    def __init__(self, port: int = 0) -> None:
        self.state = Secret(secrets.token_urlsafe(24))
        self._heard: _Heard | None = None
        self._done = threading.Event()
        self._lock = threading.Lock()
        try:
            self._server = _Server((HOST, port), _Handler)
        except OSError as error:
            raise Unavailable(f"no port of {HOST} can be listened on ({error}); log in with --no-browser") from None
        self._server.loopback = self
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def redirect(self) -> str:
        return f"http://{HOST}:{self.port}{PATH}?state={self.state.reveal()}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def wait(self, deadline: float = DEADLINE) -> Secret:
        """The code that the browser brought. Raises Unauthenticated when the login came to nothing, or nobody came."""
        if not self._done.wait(deadline):
            raise Unauthenticated(f"nobody logged in in the browser within {deadline:g} seconds")
        heard = self._heard
        assert heard is not None
        if heard.code is None:
            raise Unauthenticated(heard.problem)
        return heard.code

    def take(self, host: str, target: str) -> bool:
        """Whether this is the request that is waited for; only the first is."""
        try:
            parts = urlsplit(target)
            query = parse_qs(parts.query, max_num_fields=20)
        except ValueError:
            return False
        given = {name: values[0] for name, values in query.items() if len(values) == 1}
        right = hmac.compare_digest(given.get("state", "").encode(errors="replace"), self.state.reveal().encode())
        if host != f"{HOST}:{self.port}" or parts.path != PATH or not right:
            return False
        code, problem = given.get("code", ""), given.get("error_description") or given.get("error", "")
        if not (code or problem) or len(code) > _LONGEST:
            return False
        with self._lock:
            if self._heard is not None:
                return False
            self._heard = _Heard(Secret(code), "") if code else _Heard(None, problem[:_LONGEST])
        return True

    def finished(self) -> None:
        """The page was sent."""
        self._done.set()

    @property
    def worked(self) -> bool:
        return self._heard is not None and self._heard.code is not None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    loopback: Loopback

    def __init__(self, *given: Any) -> None:
        self._room = threading.BoundedSemaphore(_AT_ONCE)
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nothing to tell."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE
    server: _Server
    server_version, sys_version = "Postern", ""

    def do_GET(self) -> None:
        loopback = self.server.loopback
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not loopback.take(hosts[0], self.path):
            self._show(404, "There is nothing here. Go back to the terminal.")
            return
        try:
            told = "Go back to the terminal; you may close this page." if loopback.worked else "The login failed."
            self._show(200, told if loopback.worked else f"{told} The terminal says why.")
        finally:
            loopback.finished()

    def _show(self, status: int, text: str) -> None:
        body = _PAGE.format(text).encode()
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Quiet: the request's line has a secret."""
