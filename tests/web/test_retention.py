"""Retention and legal holds in the browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from tests.support.running import Gateway
from tests.web.conftest import PHONE, Visit, visiting_as
from tests.web.people import ADMIN, People

pytestmark = pytest.mark.ci

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def people(gateway: Gateway) -> People:
    made = People(gateway)
    made.create("auditor@example.com", "auditor")
    return made


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/retention") as visit:
        yield visit


def test_shorter_retention_is_set_and_waits_a_day(admin: Visit, people: People) -> None:
    page = admin.page
    admin.expected_errors.append("422 (Unprocessable")
    expect(page.get_by_text("Recordings: Forever · Sessions: Forever")).to_be_visible()
    page.get_by_label("Keep recordings (days)").fill("90")
    page.get_by_label("Keep sessions (days)").fill("30")
    page.get_by_role("button", name="Save retention").click()
    expect(page.get_by_role("alert").first).to_contain_text("session_days")
    page.get_by_label("Keep sessions (days)").fill("365")
    expect(page.get_by_text("It would purge nothing now.")).to_be_visible()
    page.get_by_role("button", name="Save retention").click()
    expect(page.get_by_text("The shorter retention is not in force yet.")).to_be_visible()
    assert people.ask("GET", "/retention")["recording_days"] == 90
    assert admin.accessibility() == []


def test_connection_has_its_own_retention_and_gives_it_up(admin: Visit, people: People) -> None:
    page = admin.page
    page.get_by_role("button", name="Set retention of a connection").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Connection", exact=True).fill("shop")
    page.get_by_role("option", name="shop-demo").click()
    dialog.get_by_label("Keep recordings (days)").fill("7")
    dialog.get_by_role("button", name="Save retention").click()
    expect(dialog).to_have_count(0)
    row = page.get_by_role("table", name="Connections with their own retention").get_by_role("row")
    expect(row.filter(has_text="shop-demo")).to_contain_text("7 days")
    row.get_by_role("button", name="Use the organisation's").click()
    page.get_by_role("dialog").get_by_role("button", name="Use the organisation's").click()
    expect(row).to_have_count(0)
    assert people.ask("GET", "/retention/connections")["data"] == []


def test_legal_hold_is_added_shown_to_auditors_and_removed(
    admin: Visit, people: People, browser: Browser, gateway: Gateway
) -> None:
    session = people.ask("POST", "/sessions", {"connection": "shop-demo", "script": "select 1"})["session_id"]
    page = admin.page
    page.get_by_role("link", name="Legal holds").click()
    page.get_by_role("button", name="Add legal hold").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Session ID").fill(session)
    dialog.get_by_label("Hold", exact=True).fill("case A")
    dialog.get_by_label("Reason").fill(HOSTILE)
    dialog.get_by_role("button", name="Add legal hold").click()
    row = page.get_by_role("table", name="Legal holds").get_by_role("row").filter(has_text="case A")
    expect(row).to_contain_text(HOSTILE)
    expect(row.get_by_role("link", name=session)).to_be_visible()
    assert page.locator("main img[src=x]").count() == 0
    with visiting_as(browser, gateway, "auditor@example.com", "/retention/holds", size=PHONE) as auditor:
        expect(auditor.page.get_by_text("case A")).to_be_visible()
        expect(auditor.page.get_by_role("button", name="Remove")).to_have_count(0)
        assert auditor.accessibility() == []
        auditor.open("/retention")
        expect(auditor.page.get_by_role("button", name="Save retention")).to_be_disabled()
    row.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_text("No session is under a legal hold.")).to_be_visible()
