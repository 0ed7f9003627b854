"""From the printed address to rows of an approved write: what a new user does first, all of it in the browser.

With POSTERN_PICTURES=FOLDER it saves the pictures of the documentation there (`make pictures`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.support.running import Gateway
from tests.web.conftest import PHONE, Visit, visiting
from tests.web.controls import add_name, choose, run_script
from tests.web.people import PASSWORD

pytestmark = pytest.mark.ci

WRITE = "update customers set phone = '555-0100' where id <= 3 returning id, phone, email"
PICTURES = os.environ.get("POSTERN_PICTURES", "")


def picture(page: Page, name: str) -> None:
    if not PICTURES:
        return
    page.wait_for_load_state("networkidle")
    page.mouse.move(0, 0)
    page.screenshot(path=Path(PICTURES) / f"{name}.png", animations="disabled", caret="hide")


def set_password(page: Page, name: str) -> None:
    page.get_by_label("Your name").fill(name)
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_role("heading", name=f"Hello, {name}")).to_be_visible()


def query_the_demo(page: Page) -> None:
    page.get_by_role("link", name="Connections", exact=True).click()
    expect(page.get_by_role("cell", name="shop-demo")).to_be_visible()
    picture(page, "connections")
    page.get_by_role("link", name="SQL").click()
    run_script(page, "select id, name, email, card, ssn from customers order by id limit 12")
    grid = page.get_by_role("grid", name="Result 1")
    expect(grid.get_by_role("row")).to_have_count(13)
    expect(grid.get_by_role("gridcell").nth(2)).to_contain_text("(masked)")
    assert not re.search(r"\w@\w+\.\w", grid.inner_text())
    picture(page, "sql")


def be_refused(page: Page) -> None:
    run_script(page, "drop table customers")
    expect(page.get_by_role("alert")).to_contain_text("blocked by guardrail")
    picture(page, "refused")


def read_the_record(page: Page) -> None:
    page.get_by_role("link", name="Open the session").click()
    statements = page.get_by_label("Statements and output")
    expect(statements).to_contain_text("drop table customers")
    expect(page.get_by_text("Refused", exact=True).first).to_be_visible()
    picture(page, "session")


def invite(page: Page, email: str) -> str:
    """Return the set-up link of a new administrator."""
    page.get_by_role("link", name="People", exact=True).click()
    page.get_by_role("button", name="Invite a person").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("E-mail address").fill(email)
    add_name(dialog, "Groups", "admin")
    dialog.get_by_role("button", name="Create account").click()
    link = page.get_by_role("group", name="Set-up link").locator("code").inner_text()
    page.get_by_role("button", name="I have it").click()
    return link


def hold_writes(page: Page) -> None:
    page.get_by_role("link", name="Guardrails", exact=True).click()
    page.get_by_role("link", name="New guardrail").click()
    choose(page, "Start with", "read-only")
    page.get_by_label("Name", exact=True).fill("writes need approval")
    choose(page, "Action", "Hold for approval")
    add_name(page, "Connections", "shop-demo")
    page.get_by_label("Statement to try").fill(WRITE)
    expect(page.get_by_text("Held", exact=True).first).to_be_visible()
    picture(page, "guardrail")
    page.get_by_role("button", name="Create guardrail").click()
    expect(page.get_by_role("heading", level=1, name="Guardrail writes need approval")).to_be_visible()


def ask_for_a_write(page: Page) -> None:
    page.get_by_role("link", name="Connections", exact=True).click()
    page.get_by_role("link", name="SQL").click()
    run_script(page, WRITE)
    expect(page.get_by_text("waits for approval")).to_be_visible()
    picture(page, "held")


def approve_on_a_phone(visit: Visit) -> None:
    visit.open("/reviews")
    visit.page.get_by_role("link", name="shop-demo").click()
    expect(visit.page.get_by_text("update customers")).to_be_visible()
    assert visit.accessibility() == []
    picture(visit.page, "review-phone")
    visit.page.get_by_role("button", name="Approve", exact=True).click()


def test_first_hour_of_a_new_user(browser: Browser, gateway: Gateway) -> None:
    with (
        visiting(browser, gateway) as ada,
        visiting(browser, gateway, PHONE) as grace,
    ):
        ada.page.goto(gateway.told["setup_url"])
        set_password(ada.page, "Ada")
        picture(ada.page, "home")
        query_the_demo(ada.page)
        be_refused(ada.page)
        read_the_record(ada.page)
        grace.page.goto(invite(ada.page, "grace@example.com"))
        set_password(grace.page, "Grace")
        hold_writes(ada.page)
        ask_for_a_write(ada.page)
        approve_on_a_phone(grace)
        grid = ada.page.get_by_role("grid", name="Result 1")
        expect(grid.get_by_role("row")).to_have_count(4)
        expect(grid.get_by_role("row").nth(1)).to_contain_text("(masked)")
        picture(ada.page, "approved")
