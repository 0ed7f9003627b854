"""HTTP applications in the browser: scripts of requests, their results, what sessions show, and rules about paths."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from tests.support.http_gateway import web_app
from tests.support.running import Gateway
from tests.web.conftest import Visit, visiting_as
from tests.web.controls import choose, run_script
from tests.web.people import ADMIN, People

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]

SCRIPT = """# a comment
GET /echo?name=Al
X-Team: shop

###
POST /echo

{"mail": "ann@example.com"}
"""


@pytest.fixture(scope="module")
def connection(people: People) -> Iterator[str]:
    with web_app() as app:
        secret = {"envvar:REMOTE_URL": base64.b64encode(app.url.encode()).decode()}
        agent = people.ask("GET", "/connections/shop-demo")["agent_id"]
        body = {"name": "shop-app", "type": "application", "subtype": "httpproxy", "agent_id": agent, "secret": secret}
        toggles = dict.fromkeys(("access_mode_connect", "access_mode_exec", "access_mode_runbooks"), "enabled")
        people.ask("POST", "/connections", {**body, **toggles, "access_schema": "disabled"})
        yield "shop-app"


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People, connection: str) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, f"/sql/{connection}") as visit:
        yield visit


def test_requests_are_run_and_their_session_is_read(admin: Visit) -> None:
    page = admin.page
    expect(page.get_by_text("POST /api/users")).to_be_visible()  # the example of an empty editor
    expect(page.get_by_role("button", name="Format")).to_have_count(0)
    run_script(page, SCRIPT)
    page.get_by_role("tab", name="2: 1 row").click()
    grid = page.get_by_role("grid", name="Result 2")
    expect(grid.get_by_role("columnheader")).to_have_text(["method", "path", "query", "headers", "body"])
    expect(grid.get_by_role("gridcell").first).to_have_text("POST")
    assert admin.accessibility() == []
    page.get_by_role("link", name="Open the session").click()
    timeline = page.get_by_label("Statements and output")
    expect(timeline.get_by_role("listitem").filter(has_text="GET /echo?name=Al")).to_contain_text("200 ·")
    expect(timeline.get_by_role("listitem").filter(has_text="POST /echo")).to_contain_text("200 ·")
    assert admin.accessibility() == []
    page.get_by_role("link", name="Results").click()
    expect(page.get_by_role("tab", name="1: 1 row")).to_be_visible()
    page.get_by_role("link", name="Download").click()
    expect(page.get_by_role("link", name="asciicast")).to_have_count(0)
    with page.expect_download() as download:
        page.get_by_role("link", name="HAR").click()
    entries = json.loads(download.value.path().read_bytes())["log"]["entries"]
    assert [entry["request"]["method"] for entry in entries] == ["GET", "POST"]
    assert [entry["response"]["status"] for entry in entries] == [200, 200]


def test_placeholders_of_requests_are_filled_in(admin: Visit) -> None:
    page = admin.page
    editor = page.get_by_role("textbox", name="Script")
    editor.press("Control+a")
    editor.press("Delete")
    page.keyboard.insert_text("GET /echo?name=:name\nAccept: text/html;q=0.1, */*")
    page.get_by_label(":name").fill("Al & Co")
    editor.press("Control+Enter")
    expect(page.get_by_role("grid", name="Result 1")).to_contain_text("name=Al%20%26%20Co")


def test_error_of_a_script_is_marked_at_its_place(admin: Visit) -> None:
    run_script(admin.page, "GET /echo\n\n###\nGET http://elsewhere.example/")
    expect(admin.page.get_by_role("region", name="Preview")).to_contain_text("the connection chooses the host")
    expect(admin.page.locator(".cm-mark-unreadable, .cm-mark-error").first).to_be_visible()


def test_rule_about_paths_is_tried_on_a_request(admin: Visit) -> None:
    admin.open("/guardrails/new?preset=unsafe-writes")
    page = admin.page
    choose(page, "Read as", "HTTP")
    expect(page.get_by_text("Objects are paths, such as /admin/*")).to_be_visible()
    page.get_by_label("Statement to try").fill("DELETE /api/orders/7")
    expect(page.get_by_role("table", name="Statements").or_(page.get_by_text("/api/orders/7")).last).to_be_visible()
