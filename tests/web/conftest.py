"""The web application in Chromium, served by a whole gateway. Each test fails if its page breaks the content security
policy, asks another origin for anything, or logs an error."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, ViewportSize, expect, sync_playwright
from tests.support.running import Gateway, started
from tests.web.people import PASSWORD, People
from tests.web.sharing import AsFound

from postern.web.web_assets import BUILT

expect.set_options(timeout=20_000)  # a busy machine; what is there earlier passes earlier
ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
DESKTOP, PHONE = ViewportSize(width=1280, height=800), ViewportSize(width=360, height=740)
QUIET = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
# Errors that are answers: the page needs a login; there is no tracker or repository of runbooks yet.
_ANSWERS_WITH_AN_ERROR = ("/api/login/session", "/api/userinfo", "/api/integrations/tracker", "/api/runbooks")
WATCH = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.__violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""
# Only what is wrong leaves the page: all of axe's result is a quarter of a megabyte, which takes seconds to pass on.
VIOLATIONS = """async ([place, options]) => {
  const { violations } = await window.axe.run(place, { ...options, resultTypes: ["violations"] });
  return violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]);
}"""
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def require(found: bool, what: str) -> None:
    """Skip the test without it; continuous integration fails."""
    if found:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for each file: its event loop, which runs as long as the browser, would be in the way of other tests'."""
    program = shutil.which("chromium") or ""
    require(bool(program), "Chromium is missing; run `make services`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def gateway_settings() -> dict[str, str]:
    """Variables of the gateway, without their POSTERN_, for files that need others than the defaults."""
    return {}


@contextmanager
def _serving(**settings: str) -> Iterator[Gateway]:
    require((BUILT / "index.html").is_file(), "the web application is not built; run `make web`")
    with started(again=False, **settings) as running:
        yield running


@pytest.fixture(scope="session")
def shared_gateway() -> Iterator[Gateway]:
    with _serving() as running:
        yield running


@pytest.fixture(scope="module")
def gateway(request: pytest.FixtureRequest, gateway_settings: dict[str, str]) -> Iterator[Gateway]:
    """A new one for each file, or that of the files that are marked `shares_gateway`, which is then left as it was
    found."""
    if request.node.get_closest_marker("shares_gateway") is None:
        with _serving(**gateway_settings) as running:
            yield running
    else:
        assert not gateway_settings, "a gateway with settings of its own is not shared"
        shared: Gateway = request.getfixturevalue("shared_gateway")
        found = AsFound(People(shared))
        yield shared
        found.restore()


@pytest.fixture(scope="module")
def people(gateway: Gateway) -> People:
    return People(gateway)


@dataclass
class Visit:
    """One browser with its page. `problems` are what no page may have, `other_origins` where it may go all the same."""

    page: Page
    url: str
    expected_errors: list[str] = field(default_factory=list)
    other_origins: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.add_init_script(WATCH)
        self.page.on("request", self._see_request)
        self.page.on("console", self._see_message)
        self.page.on("pageerror", lambda error: self._see_error(str(error)))

    def _see_request(self, request: Request) -> None:
        parts, own = urlsplit(request.url), urlsplit(self.url)
        if request.url.startswith(tuple(self.other_origins)):
            return
        if parts.scheme not in {"blob", "data"} and parts.netloc.rpartition(":")[2] != own.netloc.rpartition(":")[2]:
            self.problems.append(f"request to another origin: {request.url}")

    def _see_message(self, message: ConsoleMessage) -> None:
        # Chromium logs each answer that is an error.
        path = message.location["url"].partition("?")[0]
        if message.type == "error" and not path.endswith(_ANSWERS_WITH_AN_ERROR):
            self._see_error(message.text)

    def _see_error(self, text: str) -> None:
        if not any(expected in text for expected in self.expected_errors):
            self.problems.append(f"console: {text}")

    def check(self) -> None:
        self.problems += [f"policy: {violation}" for violation in self.page.evaluate("window.__violations ?? []")]
        assert self.problems == []

    def open(self, path: str = "/") -> None:
        self.page.goto(self.url + path)

    def log_in(self, email: str, password: str = PASSWORD) -> None:
        self.page.get_by_label("E-mail address").fill(email)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in").click()

    def accessibility(self) -> list[str]:
        """Return the violations of WCAG 2.2 AA that axe finds, each with the elements."""
        found = violations(self.page, "html", runOnly={"type": "tag", "values": WCAG})
        return [f"{rule}: {elements}" for rule, elements in found.items()]


def violations(page: Page, place: str, **options: Any) -> dict[str, list[str]]:
    """Return the rules of axe that are broken at this place of the page, each with the elements."""
    page.evaluate(AXE.read_text())
    return dict(page.evaluate(VIOLATIONS, [place, options]))


@contextmanager
def storing_preferences(page: Page) -> Iterator[None]:
    """Wait until the gateway has stored what is changed inside: the page shows it before."""
    with page.expect_response(
        lambda answer: answer.request.method == "PUT" and answer.url.endswith("/preferences") and answer.ok
    ):
        yield


@pytest.fixture
def visit(browser: Browser, gateway: Gateway) -> Iterator[Visit]:
    with visiting(browser, gateway) as made:
        yield made


@contextmanager
def visiting(browser: Browser, gateway: Gateway, size: ViewportSize = DESKTOP, **options: Any) -> Iterator[Visit]:
    """A browser of its own, with no cookies. At its end all that went wrong in it fails the test."""
    context = browser.new_context(viewport=size, locale="en-GB", **options)
    context.set_default_timeout(30_000)  # a busy machine
    made = Visit(context.new_page(), gateway.told["api_url"])
    made.watch()
    try:
        yield made
        made.check()
    finally:
        context.close()


@contextmanager
def visiting_as(browser: Browser, gateway: Gateway, email: str, path: str = "/", **options: Any) -> Iterator[Visit]:
    """A browser of its own in which this user is logged in, at this path. The login is made without its page, and may
    be that of an earlier visit: tests of logging in, or of the login itself, use `visiting` and `log_in`."""
    with visiting(browser, gateway, **options) as visit:
        be_logged_in(visit, email)
        visit.open(path)
        expect(visit.page.get_by_role("navigation", name="Main navigation")).to_be_visible()
        expect(visit.page.get_by_role("main").get_by_role("heading").first).to_be_visible()
        yield visit


_LOGIN_LASTS = 300.0  # seconds: shorter than a login counts as fresh, which some changes need
_logins: dict[tuple[str, str], tuple[float, list[Any]]] = {}  # by address and user: when, and the cookies


def be_logged_in(visit: Visit, email: str) -> None:
    """Take the cookie of this user's last login at the gateway, unless that is old or has ended; else log in."""
    context = visit.page.context
    made_at, cookies = _logins.get((visit.url, email), (0.0, []))
    if cookies and time.monotonic() - made_at < _LOGIN_LASTS:
        context.add_cookies(cookies)
        if context.request.get(f"{visit.url}/api/login/session").ok:
            return
        context.clear_cookies()
    answer = context.request.post(
        f"{visit.url}/api/localauth/login?session=cookie",
        data={"email": email, "password": PASSWORD},
        headers={"Origin": visit.url},
    )
    assert answer.ok, answer.text()
    _logins[visit.url, email] = (time.monotonic(), list(context.cookies()))


LOOKS = {
    "light": (DESKTOP, "light"),
    "dark": (DESKTOP, "dark"),
    "phone": (PHONE, "light"),
    "dark phone": (PHONE, "dark"),
}


@contextmanager
def visiting_with(browser: Browser, gateway: Gateway, email: str, look: str) -> Iterator[Visit]:
    """A browser in one of LOOKS, in which this user is logged in; nothing moves in it."""
    size, scheme = LOOKS[look]
    with visiting_as(browser, gateway, email, size=size, color_scheme=scheme, reduced_motion="reduce") as visit:
        yield visit
