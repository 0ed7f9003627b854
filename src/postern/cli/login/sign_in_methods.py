"""The ways to log in from a terminal: a password, a browser on this machine, a browser on another one.

A browser on this machine returns to a loopback listener after the login (RFC 8252 section 7.3). The listener takes one
request: the right method, path, Host (a page of another site that was made to resolve to 127.0.0.1 has another) and
state (which only the browser window that we opened knows). It rejects all other requests, and they change nothing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import click

from postern.cli.progress import ProgressLine
from postern.cli.status import with_program_name
from postern.client.client_authentication import ClientAuthentication, SecondFactorTicket
from postern.client.client_http import Http
from postern.client.client_shapes import Device
from postern.domain.secret import Secret
from postern.domain.text import printable
from postern.errors import Denied, Invalid, TooMany, Unauthenticated, Unavailable

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


SLOWER = 5.0  # seconds that `slow_down` adds (RFC 8628 section 3.5)
_TRIES = 3
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Gateway:
    """`authority` is PEM text; empty for the system's CAs. `organization` is None for the default one."""

    api_url: str
    authority: str = ""
    organization: str | None = None

    def http(self, token: Secret | None = None) -> Http:
        return Http(self.api_url, token, authority=self.authority or None)


def address_of(text: str) -> str:
    """A gateway's address as it was typed, in the form in which it is kept. Raises Invalid."""
    address = text.strip().rstrip("/").removesuffix("/api").rstrip("/")
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError as error:
        raise Invalid(f"{text!r} is not the address of a gateway: {error}", field="url") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid(f"{text!r} is not an http or https address, such as https://gateway.example.com:7480")
    if parts.username is not None or parts.query or parts.fragment:
        raise Invalid("the address of a gateway has no user name, no query and no fragment", field="url")
    return address


def is_in_clear(address: str) -> bool:
    """Whether others on the way could read what is sent there."""
    parts = urlsplit(address)
    return parts.scheme == "http" and parts.hostname not in _LOOPBACK


def has_browser(environ: Mapping[str, str]) -> bool:
    """Whether a browser of the person at this terminal can be opened from here."""
    if environ.get("BROWSER"):
        return True
    if sys.platform in ("darwin", "win32"):
        return not environ.get("SSH_CONNECTION")
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def by_password(
    gateway: Gateway, email: str, password: Secret, ask_code: Callable[[str], Secret], *, can_retry: bool
) -> Secret:
    """The token. `ask_code` is given what to ask for. Raises Unauthenticated, Denied."""
    with gateway.http() as http:
        door = ClientAuthentication(http)
        step = door.password(email, password, gateway.organization)
        if not isinstance(step, SecondFactorTicket):
            return step
        if step.kinds == {"webauthn"}:
            told = "Recovery code (a security key works in a browser only: --no-browser)"
        else:
            told = "Code of your authenticator app, or a recovery code"
        return _second_factor(door, step, told, ask_code, _TRIES if can_retry else 1)


def _second_factor(
    door: ClientAuthentication, ticket: SecondFactorTicket, told: str, ask_code: Callable[[str], Secret], tries: int
) -> Secret:
    while True:
        tries -= 1
        try:
            return door.second_factor(ticket, ask_code(told))
        except Unauthenticated as refused:
            if not tries:
                raise
            say(refused.message)


def by_browser(
    gateway: Gateway,
    method: str,
    open_browser: Callable[[str], bool] = webbrowser.open,
    *,
    deadline: float = DEADLINE,
) -> Secret:
    """The token. Raises Unauthenticated when the login in the browser failed, or nobody went there in time."""
    verifier = Secret(secrets.token_urlsafe(64))
    with gateway.http() as http, Loopback() as loopback:
        door = ClientAuthentication(http)
        url = door.begin_browser(method, loopback.redirect, challenge_of(verifier), gateway.organization)
        _require_web(url)
        say(f"Log in in the browser. If it does not open by itself, open this address on this machine:\n\n  {url}\n")
        if not _opened(open_browser, url):
            say("No browser could be opened from here.")
        say("Waiting for the browser (Ctrl-C gives up; --no-browser logs in by a browser of another machine).")
        with ProgressLine(f"waiting for the browser, {deadline:g} s at most", after=0):
            code = loopback.wait(deadline)
        return door.exchange(code, verifier)


def by_device(gateway: Gateway, sleep: Callable[[float], None] = time.sleep) -> Secret:
    """The token, once somebody has confirmed the code that is shown. Raises Unauthenticated when nobody did in time,
    Denied when somebody refused."""
    with gateway.http() as http:
        door = ClientAuthentication(http)
        device = door.begin_device(gateway.organization)
        say(
            f"Open this address in any browser:\n\n  {device['verification_url']}\n\n"
            f"and type this code there:  {device['user_code']}\n\nWaiting (Ctrl-C gives up)."
        )
        with ProgressLine(f"waiting for {device['user_code']} to be confirmed", after=0):
            return _confirmed(door, device, sleep)


def _confirmed(door: ClientAuthentication, device: Device, sleep: Callable[[float], None]) -> Secret:
    interval = min(max(float(device["interval"]), 1.0), 60.0)
    left = float(device["expires_in"])
    while left > 0:
        sleep(interval)
        left -= interval
        try:
            token = door.poll_device(Secret(device["device_code"]))
        except TooMany:
            interval = min(interval + SLOWER, 60.0)
        except Unavailable:
            interval = min(interval * 2, 60.0)
        except Denied:
            raise Denied("somebody refused this login in the browser") from None
        else:
            if token is not None:
                return token
    raise Unauthenticated("nobody confirmed the code in time")


def challenge_of(verifier: Secret) -> str:
    """S256, RFC 7636 section 4.2."""
    digest = hashlib.sha256(verifier.reveal().encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def say(text: str) -> None:
    """Progress, for people: on standard error."""
    click.echo(with_program_name(printable(text)), err=True)


def _opened(open_browser: Callable[[str], bool], url: str) -> bool:
    try:
        return open_browser(url)
    except (webbrowser.Error, OSError):
        return False


def _require_web(url: str) -> None:
    """A browser opens `file:` addresses and runs `javascript:` ones. Raises Unavailable."""
    if urlsplit(url).scheme not in ("http", "https") or any(ord(character) < 33 for character in url):
        raise Unavailable("the gateway answered with something that is no web address to log in at")
