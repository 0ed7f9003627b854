"""Logins from a terminal: a password, a browser on this machine, a browser on a different one.

After a login, a browser on this machine is redirected to a loopback listener (RFC 8252 section 7.3). The listener
accepts one request: with the right method, path, Host (a page of another site that resolves to 127.0.0.1 has a
different one) and state (known only to the browser window that was opened). It rejects all other requests, and they
change nothing.
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
from postern.domain.durations import duration_text
from postern.domain.secret import Secret
from postern.domain.text import printable
from postern.errors import Denied, Invalid, TooMany, Unauthenticated, Unavailable

HOST = "127.0.0.1"
PATH = "/callback"
DEADLINE = 180.0  # seconds for the user in the browser
_PATIENCE = 10  # seconds for a request to be sent; browsers open connections in advance that they may never use
_AT_ONCE = 16  # connections; any user of this machine can open them
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
    """The loopback listener, used as a context; `redirect` is the address for the gateway's redirect."""

    def __init__(self, port: int = 0) -> None:
        self.state = Secret(secrets.token_urlsafe(24))
        self._heard: _Heard | None = None
        self._done = threading.Event()
        self._lock = threading.Lock()
        try:
            self._server = _Server((HOST, port), _Handler)
        except OSError as error:
            raise Unavailable(f"no port of {HOST} can be used ({error}); log in with --no-browser") from None
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
        """Return the code that the browser sent. Raises Unauthenticated if the login failed or timed out."""
        if not self._done.wait(deadline):
            raise Unauthenticated(f"no login in the browser within {duration_text(deadline)}; try again")
        heard = self._heard
        assert heard is not None
        if heard.code is None:
            raise Unauthenticated(heard.problem)
        return heard.code

    def take(self, host: str, target: str) -> bool:
        """Return whether this is the expected request; only the first one is."""
        try:
            parts = urlsplit(target)
            query = parse_qs(parts.query, max_num_fields=20)
        except ValueError:
            return False
        parameters = {name: values[0] for name, values in query.items() if len(values) == 1}
        right = hmac.compare_digest(parameters.get("state", "").encode(errors="replace"), self.state.reveal().encode())
        if host != f"{HOST}:{self.port}" or parts.path != PATH or not right:
            return False
        code, problem = parameters.get("code", ""), parameters.get("error_description") or parameters.get("error", "")
        if not (code or problem) or len(code) > _LONGEST:
            return False
        with self._lock:
            if self._heard is not None:
                return False
            self._heard = _Heard(Secret(code), "") if code else _Heard(None, problem[:_LONGEST])
        return True

    def mark_page_sent(self) -> None:
        """Note that the page was sent."""
        self._done.set()

    @property
    def worked(self) -> bool:
        return self._heard is not None and self._heard.code is not None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    loopback: Loopback

    def __init__(self, *arguments: Any) -> None:
        self._room = threading.BoundedSemaphore(_AT_ONCE)
        super().__init__(*arguments)

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
        """Ignore a client that disconnected."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE
    server: _Server
    server_version, sys_version = "Postern", ""

    def do_GET(self) -> None:
        loopback = self.server.loopback
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not loopback.take(hosts[0], self.path):
            self._show(404, "Page not found. Go back to the terminal.")
            return
        try:
            text = "Go back to the terminal; you can close this page." if loopback.worked else "The login failed."
            self._show(200, text if loopback.worked else f"{text} The terminal shows the reason.")
        finally:
            loopback.mark_page_sent()

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
        """Log nothing: the request's line contains a secret."""


SLOWER = 5.0  # seconds that `slow_down` adds (RFC 8628 section 3.5)
_TRIES = 3
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Gateway:
    """`authority` is PEM text; empty for the system's CAs. `organisation` is None for the default one."""

    api_url: str
    authority: str = ""
    organisation: str | None = None

    def http(self, token: Secret | None = None) -> Http:
        return Http(self.api_url, token, authority=self.authority or None)


def address_of(text: str) -> str:
    """Return a gateway's address in normal form. Raises Invalid."""
    address = text.strip().rstrip("/").removesuffix("/api").rstrip("/")
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError as error:
        raise Invalid(f"{text!r} is not the address of a gateway: {error}", field="url") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid(f"{text!r} is not an http or https address; write it as https://gateway.example.com:7480")
    if parts.username is not None or parts.query or parts.fragment:
        raise Invalid("the address of a gateway has no user name, query or fragment; remove it", field="url")
    return address


def is_in_clear(address: str) -> bool:
    """Return whether others on the network could read what is sent there."""
    parts = urlsplit(address)
    return parts.scheme == "http" and parts.hostname not in _LOOPBACK


def has_browser(environ: Mapping[str, str]) -> bool:
    """Return whether a browser can be opened on the user's machine."""
    if environ.get("BROWSER"):
        return True
    if sys.platform in ("darwin", "win32"):
        return not environ.get("SSH_CONNECTION")
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def by_password(
    gateway: Gateway, email: str, password: Secret, ask_code: Callable[[str], Secret], *, can_retry: bool
) -> Secret:
    """Return the token. `ask_code` gets the question for a code. Raises Unauthenticated, Denied."""
    with gateway.http() as http:
        door = ClientAuthentication(http)
        step = door.password(email, password, gateway.organisation)
        if not isinstance(step, SecondFactorTicket):
            return step
        if step.kinds == {"webauthn"}:
            prompt = "Recovery code (for a security key, use a browser: --no-browser)"
        else:
            prompt = "Code of your authenticator app, or a recovery code"
        return _second_factor(door, step, prompt, ask_code, _TRIES if can_retry else 1)


def _second_factor(
    door: ClientAuthentication, ticket: SecondFactorTicket, prompt: str, ask_code: Callable[[str], Secret], tries: int
) -> Secret:
    while True:
        tries -= 1
        try:
            return door.second_factor(ticket, ask_code(prompt))
        except Unauthenticated as refused:
            if not tries:
                raise
            print_progress(refused.message)


def by_browser(
    gateway: Gateway,
    method: str,
    open_browser: Callable[[str], bool] = webbrowser.open,
    *,
    deadline: float = DEADLINE,
) -> Secret:
    """Return the token. Raises Unauthenticated if the login in the browser failed or timed out."""
    verifier = Secret(secrets.token_urlsafe(64))
    with gateway.http() as http, Loopback() as loopback:
        door = ClientAuthentication(http)
        url = door.begin_browser(method, loopback.redirect, challenge_of(verifier), gateway.organisation)
        _require_web(url)
        print_progress(f"Log in with the browser. If it does not open, open this address on this machine:\n\n  {url}\n")
        if not _try_browser(open_browser, url):
            print_progress("No browser could be opened from here.")
        print_progress("Waiting for the browser (Ctrl-C cancels; --no-browser uses a browser on a different machine).")
        with ProgressLine(f"waiting for the browser, at most {duration_text(deadline)}", after=0):
            code = loopback.wait(deadline)
        return door.exchange(code, verifier)


def by_device(gateway: Gateway, sleep: Callable[[float], None] = time.sleep) -> Secret:
    """Return the token once a user has confirmed the code that is shown. Raises Unauthenticated on a timeout, Denied if
    the user rejected it."""
    with gateway.http() as http:
        door = ClientAuthentication(http)
        device = door.begin_device(gateway.organisation)
        print_progress(
            f"Open this address in any browser:\n\n  {device['verification_url']}\n\nand enter this code:  "
            f"{device['user_code']}\n\nWaiting (Ctrl-C cancels)."
        )
        with ProgressLine(f"waiting for {device['user_code']} to be confirmed", after=0):
            return _wait_for_confirmation(door, device, sleep)


def _wait_for_confirmation(door: ClientAuthentication, device: Device, sleep: Callable[[float], None]) -> Secret:
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
            raise Denied("this login was rejected in the browser") from None
        else:
            if token is not None:
                return token
    raise Unauthenticated("the code was not confirmed in time; log in again")


def challenge_of(verifier: Secret) -> str:
    """Return the S256 challenge, RFC 7636 section 4.2."""
    digest = hashlib.sha256(verifier.reveal().encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def print_progress(text: str) -> None:
    """Print progress on standard error."""
    click.echo(with_program_name(printable(text)), err=True)


def _try_browser(open_browser: Callable[[str], bool], url: str) -> bool:
    try:
        return open_browser(url)
    except (webbrowser.Error, OSError):
        return False


def _require_web(url: str) -> None:
    """Check that the address is a web address: a browser also opens `file:` and runs `javascript:`. Raises
    Unavailable."""
    if urlsplit(url).scheme not in ("http", "https") or any(ord(character) < 33 for character in url):
        raise Unavailable("the gateway's answer contains no web address for the login; check the gateway's address")
