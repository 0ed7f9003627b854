"""All of the application by keyboard: the palette, the keys, and where the focus is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from tests.support.promises import wait_until
from tests.support.running import Gateway
from tests.web.conftest import Visit, visiting_as
from tests.web.people import ADMIN, People

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/") as visit:
        yield visit


def test_palette_leads_to_a_connection(admin: Visit) -> None:
    page = admin.page
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Go to")).to_be_visible()
    page.keyboard.type("shop")
    expect(page.get_by_role("menuitem", name="shop-demo")).to_be_visible()
    page.keyboard.press("ArrowDown")
    wait_until(lambda: admin.accessibility() == [])  # the active item changes a moment after the list
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{admin.url}/connections/shop-demo")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_palette_opens_a_session_by_its_id(admin: Visit, people: People) -> None:
    done = people.admin.post("/sessions", json={"connection": "shop-demo", "script": "select 1"}).json()
    admin.page.keyboard.press("Control+k")
    admin.page.get_by_label("A screen, a connection, or the ID of a session").fill(done["session_id"])
    expect(admin.page.get_by_role("menuitem")).to_have_count(1)
    admin.page.keyboard.press("ArrowDown")
    admin.page.keyboard.press("Enter")
    expect(admin.page).to_have_url(f"{admin.url}/sessions/{done['session_id']}")


def test_letters_lead_to_screens_but_not_out_of_a_field(admin: Visit) -> None:
    page = admin.page
    page.keyboard.type("gs")
    expect(page).to_have_url(f"{admin.url}/sessions")
    expect(page.get_by_role("heading", level=1, name="Sessions")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_label("Search in sessions")).to_be_focused()
    page.keyboard.type("gc")
    expect(page.get_by_label("Search in sessions")).to_have_value("gc")
    expect(page).to_have_url(f"{admin.url}/sessions?search=gc")


def test_keys_are_shown_and_escape_gives_the_focus_back(admin: Visit) -> None:
    page = admin.page
    page.get_by_role("link", name="Reviews").focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_contain_text("Ctrl+Enter")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("link", name="Reviews")).to_be_focused()
