"""The ways to log in from a terminal: a password, a browser on this machine, a browser on another one."""

from __future__ import annotations

import base64
import hashlib
import secrets
import sys
import time
import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import click

from postern.cli.login.loopback import DEADLINE, Loopback
from postern.cli.progress import ProgressLine
from postern.cli.status import with_program_name
from postern.client.client_authentication import ClientAuthentication, SecondFactorTicket
from postern.client.client_http import Http
from postern.client.client_shapes import Device
from postern.domain.secret import Secret
from postern.domain.text import printable
from postern.errors import Denied, Invalid, TooMany, Unauthenticated, Unavailable

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
