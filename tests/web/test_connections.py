"""Connections in the browser: an administrator creates, tests and changes one; a user opens it with an own client."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect
from tests.support.running import Gateway
from tests.web.conftest import Visit, visiting_as
from tests.web.people import ADMIN, People

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/connections") as visit:
        yield visit


def demo_target(people: People) -> dict[str, str]:
    target: dict[str, str] = people.ask("GET", "/connections/shop-demo")["target"]
    return target


def test_connection_is_created_tested_and_opened(admin: Visit, people: People) -> None:
    target, page = demo_target(people), admin.page
    page.get_by_role("link", name="Create connection").click()
    page.get_by_label("Name", exact=True).fill("orders")
    page.get_by_label("Host", exact=True).fill(target["HOST"])
    page.get_by_label("Port", exact=True).fill(target["PORT"])
    page.get_by_label("User at the target").fill(target["USER"])
    page.get_by_label("Database", exact=True).fill("no-such-database")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_label("Tag", exact=True).fill("env")
    page.get_by_label("Value", exact=True).fill("test")
    assert admin.accessibility() == []
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", level=1, name="orders")).to_be_visible()
    expect(page.get_by_text("env: test")).to_be_visible()
    page.get_by_role("navigation", name="About this connection").get_by_role("link", name="Settings").click()
    admin.expected_errors.append("400 (Bad Request)")
    page.get_by_role("button", name="Test the target").click()
    answer = people.admin.get("/connections/orders/test")
    assert answer.status_code == 400, answer.text
    expect(page.get_by_role("alert")).to_have_text(answer.json()["message"])


def test_change_keeps_the_password_and_loses_no_change_of_somebody_else(admin: Visit, people: People) -> None:
    secret = {"envvar:HOST": "ZGI=", "envvar:USER": "YXBw", "envvar:PASS": "cGFzcw=="}
    modes = ("access_mode_connect", "access_mode_exec", "access_mode_runbooks", "access_schema")
    agent = people.ask("GET", "/connections/shop-demo")["agent_id"]
    body = {"name": "billing", "type": "database", "subtype": "postgres", "agent_id": agent, "secret": secret}
    people.ask("POST", "/connections", body | dict.fromkeys(modes, "enabled"))
    admin.open("/connections/billing?tab=settings")
    page = admin.page
    expect(page.get_by_label("Host", exact=True)).to_have_value("db")
    expect(page.get_by_label("Password at the target")).to_have_value("")
    people.ask("PATCH", "/connections/billing", {"connection_tags": {"team": "blue"}})
    page.get_by_label("Host", exact=True).fill("db-2")
    admin.expected_errors.append("412 (Precondition Failed)")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Another user changed it")).to_be_visible()
    page.get_by_role("button", name="Load it again").click()
    expect(page.get_by_label("Value", exact=True)).to_have_value("blue")
    page.get_by_label("Host", exact=True).fill("db-2")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    stored = people.ask("GET", "/connections/billing")
    assert stored["target"]["HOST"] == "db-2"
    assert set(stored["secret"]) == {"envvar:HOST", "envvar:USER", "envvar:PASS"}
    page.get_by_role("button", name="Delete connection").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete connection").click()
    expect(page.get_by_role("heading", level=1, name="Connections")).to_be_visible()
    assert people.admin.get("/connections/billing").status_code == 404


def test_password_of_a_credential_is_shown_once_and_works_until_it_is_revoked(
    browser: Browser, gateway: Gateway, people: People
) -> None:
    people.create("dave@example.com")
    with visiting_as(browser, gateway, "dave@example.com", "/connections/shop-demo") as dave:
        page = dave.page
        expect(page.get_by_role("link", name="Settings", exact=True)).to_have_count(0)
        page.get_by_role("button", name="Get a credential").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("it is shown only this once")
        password = dialog.get_by_role("group", name="Password").locator("code").inner_text()
        line = dialog.get_by_role("group", name="psql")
        expect(line).to_contain_text("sslmode=verify-full")
        expect(line).not_to_contain_text(password)
        expect(dialog.get_by_role("tabpanel")).to_contain_text("It asks for the password.")
        dialog.get_by_role("tab", name="Shell variables").click()
        expect(dialog.get_by_role("group", name="Shell variables")).to_contain_text(password)
        expect(dialog.get_by_role("tabpanel")).to_contain_text("The password is in it.")
        with page.expect_download() as download:
            dialog.get_by_role("button", name="Download postern-ca.crt").click()
        assert download.value.path().read_text().startswith("-----BEGIN CERTIFICATE-----")
        page.keyboard.press("Escape")
        expect(dialog).to_be_visible()
        assert dave.accessibility() == []
        dialog.get_by_role("button", name="I have it").click()
        expect(dialog).to_have_count(0)
        page.get_by_role("button", name="Revoke").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        expect(page.get_by_role("table", name="Your credentials")).to_have_count(0)


def test_user_reads_what_access_needs_and_sees_no_rules(browser: Browser, gateway: Gateway, people: People) -> None:
    people.create("erin@example.com", "dba")
    people.ask("PATCH", "/connections/shop-demo", {"reviewers": ["dba"]})
    with visiting_as(browser, gateway, "erin@example.com", "/connections/shop-demo?tab=access") as erin:
        expect(erin.page.get_by_role("region", name="To run a script")).to_contain_text(
            "1 member of the group 'dba' must approve"
        )
        expect(erin.page.get_by_role("link", name="Rules")).to_have_count(0)
        assert urlsplit(erin.page.url).query == "tab=access"
        assert erin.accessibility() == []
