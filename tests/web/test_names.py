"""The list of names to choose several from: it stays open for the next one, and closes when the user leaves it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.support.running import Gateway
from tests.web.conftest import Visit, visiting_as
from tests.web.people import ADMIN, People

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]


@pytest.fixture(scope="module")
def people(gateway: Gateway) -> People:
    made = People(gateway)
    for group in ("dba", "ops", "support"):
        made.ask("POST", "/users/groups", {"name": group})
    return made


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/access-rules/new") as visit:
        expect(visit.page.get_by_role("heading", level=1, name="New access rule")).to_be_visible()
        yield visit


def choose_two(page: Page) -> None:
    page.get_by_role("combobox", name="Groups").click()
    for name in ("dba", "ops"):
        page.get_by_role("option", name=name, exact=True).click()
        expect(page.get_by_role("listbox")).to_be_visible()


@pytest.mark.parametrize("way", ["Escape", "Tab", "outside"])
def test_list_stays_open_for_several_names_and_closes_when_left(admin: Visit, way: str) -> None:
    page = admin.page
    choose_two(page)
    expect(page.get_by_text("Escape closes the list.")).to_be_visible()
    if way == "outside":
        page.mouse.click(1200, 780)
    else:
        page.keyboard.press(way)
    expect(page.get_by_role("listbox")).to_have_count(0)
    expect(page.get_by_role("list", name="Chosen: Groups").get_by_role("listitem")).to_have_count(2)
    box = page.get_by_role("combobox", name="Groups")
    expect(box).to_have_attribute("aria-expanded", "false")
    assert admin.accessibility() == []
    if way == "Escape":
        expect(box).to_be_focused()
        expect(page).to_have_url(f"{admin.url}/access-rules/new")


def test_keyboard_chooses_several_names(admin: Visit) -> None:
    page = admin.page
    box = page.get_by_role("combobox", name="Groups")
    box.focus()
    for name in ("dba", "ops"):
        box.press_sequentially(name)
        expect(page.get_by_role("option", name=name, exact=True)).to_be_visible()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("listbox")).to_have_count(0)
    expect(page.get_by_role("list", name="Chosen: Groups").get_by_role("listitem")).to_have_count(2)
