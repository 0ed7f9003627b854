"""An application behind the gateway, opened in Chromium: at its own host, by the gateway's own login, and back."""

from __future__ import annotations

import base64
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.support.promises import wait_until
from tests.support.running import Gateway
from tests.web.conftest import PHONE, Visit, visiting
from tests.web.controls import choose
from tests.web.people import PASSWORD, People

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]

PAGE = b"""<!doctype html><html lang="en"><head><title>Wiki</title><link rel="icon" href="data:,"></head><body>
<h1>Wiki</h1><p id="place"></p><p id="cookies"></p><p id="answer"></p>
<form method="post" action="/save"><button>Save</button></form>
<script>
document.getElementById("place").textContent = location.pathname + location.search + location.hash;
document.getElementById("cookies").textContent = `cookies: ${document.cookie}.`;
fetch("/api/me").then((answer) => answer.text())
  .then((text) => { document.getElementById("answer").textContent = text; });
</script></body></html>"""


@dataclass
class Wiki:
    """The application. `seen` are its requests: method, path, headers."""

    url: str = ""
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)


@pytest.fixture(scope="module")
def wiki() -> Iterator[Wiki]:
    made = Wiki()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            made.seen.append((self.command, self.path, {name.lower(): value for name, value in self.headers.items()}))
            if self.path == "/api/me":
                self._answer("text/plain", f"token {self.headers['x-token']}".encode())
            else:
                self._answer("text/html", PAGE)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            made.seen.append((self.command, self.path, {}))
            self.send_response(303)
            self.send_header("Location", f"{made.url}/saved")  # by the name that it believes to have
            self.send_header("Set-Cookie", "wiki=1; Path=/")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _answer(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield made
        server.shutdown()


@pytest.fixture(scope="module")
def people(gateway: Gateway) -> People:
    people = People(gateway)
    people.create("ann@example.com")
    people.create("bob@example.com")
    return people


@pytest.fixture(scope="module")
def address(people: People, wiki: Wiki) -> str:
    """The address of the connection, without a path."""
    return connect(people, "Team.Wiki", wiki)


def connect(people: People, name: str, wiki: Wiki, **fields: Any) -> str:
    (agent,) = people.ask("GET", "/agents")["data"]
    modes = ("access_mode_connect", "access_mode_exec", "access_mode_runbooks", "access_schema")
    values = {"REMOTE_URL": wiki.url, "HEADER_X_TOKEN": "from the agent"}
    secret = {f"envvar:{key}": base64.b64encode(value.encode()).decode() for key, value in values.items()}
    body = {"name": name, "type": "application", "subtype": "httpproxy", "agent_id": agent["id"], "secret": secret}
    made = people.ask("POST", "/connections", body | dict.fromkeys(modes, "enabled") | fields)
    return str(made["url"])


@pytest.fixture
def visit(browser: Browser, gateway: Gateway, address: str) -> Iterator[Visit]:
    with visiting(browser, gateway) as made:
        made.other_origins.append(address)
        yield made


def is_open(page: Page, address: str, place: str) -> None:
    expect(page.get_by_role("heading", level=1, name="Wiki")).to_be_visible()
    expect(page).to_have_url(address + place)
    expect(page.locator("#place")).to_have_text(place)
    expect(page.locator("#answer")).to_have_text("token from the agent")
    expect(page.locator("#cookies")).to_have_text("cookies: .")


def test_browser_logs_in_and_comes_back_to_the_page_that_it_wanted(
    visit: Visit, wiki: Wiki, address: str, people: People
) -> None:
    page = visit.page
    assert re.fullmatch(r"http://team-wiki\.localhost:\d+", address)
    page.goto(f"{address}/docs/page?x=1&y=a%20b#part")
    visit.log_in("ann@example.com")
    expect(page.get_by_role("heading", level=1, name="Open an application")).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("Team.Wiki")
    assert visit.accessibility() == []
    page.get_by_role("button", name="Open Team.Wiki").click()
    is_open(page, address, "/docs/page?x=1&y=a%20b#part")
    ((_, _, headers),) = [one for one in wiki.seen if one[1].startswith("/docs/page")]
    assert headers["x-token"] == "from the agent"
    assert "cookie" not in headers
    assert "authorization" not in headers

    page.goto(f"{address}/other")  # by the cookie
    is_open(page, address, "/other")
    page.get_by_role("button", name="Save").click()
    expect(page).to_have_url(f"{address}/saved")  # and not to the application's own address
    expect(page.locator("#cookies")).to_have_text("cookies: wiki=1.")
    ((_, _, headers),) = [one for one in wiki.seen if one[1] == "/saved"]
    assert headers["cookie"] == "wiki=1"

    cookies = {cookie["name"]: cookie for cookie in page.context.cookies(address)}
    assert set(cookies) == {"postern", "wiki"}
    assert cookies["postern"]["httpOnly"]
    page.context.clear_cookies(name="postern", domain=f"team-wiki.{cookies['postern']['domain'].partition('.')[2]}")
    page.goto(f"{address}/third")  # without a question, as it was opened before
    expect(page).to_have_url(f"{address}/third")

    sessions = people.ask("GET", "/sessions?connection=Team.Wiki")["data"]
    assert {one["user"] for one in sessions} == {"ann@example.com"}


def test_link_in_the_list_opens_a_tab_without_a_question(visit: Visit, address: str) -> None:
    visit.open("/connections?search=Team")
    visit.log_in("bob@example.com")
    with visit.page.context.expect_page() as opened:
        visit.page.get_by_role("row", name="Team.Wiki").get_by_role("link", name="Open", exact=True).click()
    is_open(opened.value, address, "/")
    visit.open("/connections/Team.Wiki")
    with visit.page.context.expect_page() as opened:
        visit.page.get_by_role("link", name="Open in the browser").click()
    is_open(opened.value, address, "/")


def test_end_of_the_login_ends_the_access_of_the_browser(visit: Visit, wiki: Wiki, people: People) -> None:
    page, address = visit.page, connect(people, "Ended", wiki)
    visit.other_origins.append(address)
    visit.expected_errors += ["401", "403"]
    page.goto(f"{address}/before")
    visit.log_in("ann@example.com")
    page.get_by_role("button", name="Open Ended").click()
    is_open(page, address, "/before")
    second = page.context.new_page()
    second.goto(f"{visit.url}/me")
    second.get_by_role("button", name="Log out", exact=True).first.click()
    expect(second.get_by_label("E-mail address")).to_be_visible()
    page.goto(f"{address}/after")
    expect(page.get_by_label("E-mail address")).to_be_visible()
    assert page.url.startswith(f"{visit.url}/login")


def test_logging_out_at_the_application_ends_its_credential(visit: Visit, address: str, people: People) -> None:
    page = visit.page
    page.goto(f"{address}/")
    visit.log_in("ann@example.com")
    is_open(page, address, "/")
    before = [one for one in _credentials(people) if one["status"] == "active"]
    page.goto(f"{address}/.postern/logout")
    expect(page.get_by_role("heading", level=1)).to_have_text("Logged out")
    assert len([one for one in _credentials(people) if one["status"] == "active"]) == len(before) - 1


def _credentials(people: People) -> list[dict[str, Any]]:
    return list(people.ask("GET", "/connections/Team.Wiki/credentials?limit=100")["data"])


def test_fresh_proof_is_asked_for_where_the_connection_requires_it(
    visit: Visit, people: People, wiki: Wiki, gateway: Gateway
) -> None:
    address = connect(people, "Strict", wiki, access_fresh_factor="enabled")
    visit.other_origins.append(address)
    visit.expected_errors.append("403")
    page = visit.page
    page.goto(f"{address}/")
    visit.log_in("ann@example.com")
    expect(page.get_by_role("button", name="Open Strict")).to_be_visible()
    age_logins(gateway)
    page.get_by_role("button", name="Open Strict").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Password").fill(PASSWORD)
    dialog.get_by_role("button", name="Confirm").click()
    is_open(page, address, "/")


def age_logins(gateway: Gateway) -> None:
    """Let all logins be older than a login is fresh."""
    with closing(sqlite3.connect(gateway.home / "postern.db")) as store, store:
        store.execute("update logins set fresh_until = '2020-01-01 00:00:00.000000'")


def test_unknown_application_is_said_on_the_page(visit: Visit, address: str) -> None:
    visit.expected_errors.append("404")
    page = visit.page
    nowhere = address.replace("team-wiki", "nowhere")
    visit.other_origins.append(nowhere)
    page.goto(f"{nowhere}/")
    visit.log_in("ann@example.com")
    expect(page.get_by_role("alert")).to_contain_text("there is no application at the host nowhere.localhost")


def test_other_site_gets_nobody_into_an_application_without_a_question(
    browser: Browser, gateway: Gateway, people: People, wiki: Wiki
) -> None:
    """A site that leads a logged-in browser to an application it never opened: the user is asked, and nothing is
    issued meanwhile. In a frame, the gateway's page is not shown at all."""
    address = connect(people, "Untouched", wiki)
    with visiting(browser, gateway) as visit:
        visit.other_origins += [address, wiki.url]
        visit.expected_errors += ["frame", "Refused", "blocked"]
        visit.open("/")
        visit.log_in("ann@example.com")
        expect(visit.page.get_by_role("navigation", name="Main navigation")).to_be_visible()
        visit.page.goto(f"{wiki.url}/evil")
        visit.page.evaluate("(url) => { location.href = url }", f"{address}/steal")
        expect(visit.page.get_by_role("button", name="Open Untouched")).to_be_visible()
        visit.page.goto(f"{wiki.url}/evil")
        visit.page.evaluate(
            "(url) => { const frame = document.createElement('iframe'); frame.src = url; document.body.append(frame) }",
            f"{address}/framed",
        )
        visit.page.wait_for_timeout(1_500)
        assert people.ask("GET", "/connections/Untouched/credentials")["data"] == []
        visit.problems.clear()  # the frame's own
    assert not [one for one in wiki.seen if one[1] in ("/steal", "/framed")]


def test_form_of_a_connection_has_rows_of_headers(visit: Visit, people: People, wiki: Wiki) -> None:
    page = visit.page
    visit.open("/connections/new")
    visit.log_in("admin@localhost")
    page.get_by_label("Name", exact=True).fill("by-form")
    choose(page, "Type", "HTTP applications")
    page.get_by_label("URL of the application").fill(wiki.url)
    page.get_by_role("button", name="Add a header").click()
    headers = page.get_by_role("group", name="Headers")
    headers.get_by_label("Header", exact=True).fill("X-Token")
    headers.get_by_label("Value", exact=True).fill("typed")
    assert visit.accessibility() == []
    page.get_by_role("button", name="Create").click()
    wait_until(lambda: people.admin.get("/connections/by-form").is_success or None)
    made = people.ask("GET", "/connections/by-form")
    assert made["secret"] == {"envvar:REMOTE_URL": None, "envvar:HEADER_X_TOKEN": None}
    assert made["target"] == {"REMOTE_URL": wiki.url}


def test_page_of_an_incomplete_address_says_what_to_do_on_a_phone(
    browser: Browser, gateway: Gateway, people: People
) -> None:
    with visiting(browser, gateway, PHONE) as visit:
        visit.open("/open-app?host=team-wiki")
        visit.log_in("ann@example.com")
        expect(visit.page.get_by_role("main")).to_contain_text("This address is not complete.")
        assert visit.accessibility() == []
