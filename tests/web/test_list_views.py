"""Filters, columns and saved views of lists: in the address, on a phone, and in all browsers of a user."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.support.running import Gateway
from tests.web.conftest import PHONE, Visit, storing_preferences, visiting_as
from tests.web.controls import choose
from tests.web.people import ADMIN, People

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def people(gateway: Gateway) -> People:
    made = People(gateway)
    for number, label in ((1, "nightly"), (2, "weekly")):
        body = {"connection": "shop-demo", "script": f"select {number}", "metadata": {"job": label}}
        assert made.admin.post("/sessions", json=body).is_success
    return made


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/sessions") as visit:
        expect(visit.page.get_by_role("heading", level=1, name="Sessions")).to_be_visible()
        yield visit


def stored_views(people: People) -> Any:
    return people.ask("GET", "/users/self/preferences")["web"]["views"]


def toggle(dialog: Locator, column: str) -> None:
    dialog.locator("label").filter(has_text=re.compile(f"{column}$")).click()


def save_view(page: Page, name: str) -> None:
    page.get_by_role("button", name="Save view").click()
    dialog = page.get_by_role("dialog", name="Save this view")
    dialog.get_by_label("Name").fill(name)
    with storing_preferences(page):
        dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)


def test_every_filter_of_the_api_is_in_the_dialog(admin: Visit, people: People) -> None:
    operation = people.ask("GET", "/openapi.json")["paths"]["/api/sessions"]["get"]
    names = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"}
    own = names - {"limit", "offset", "cursor", "count", "expand", "search"}  # the search has a field of its own
    admin.page.get_by_role("button", name="More filters").click()
    dialog = admin.page.get_by_role("dialog", name="Filters of the sessions")
    expect(dialog.locator(".react-aria-Label")).to_have_count(len(own))
    assert admin.accessibility() == []


def test_filters_are_set_together_and_removed_one_by_one(admin: Visit) -> None:
    page = admin.page
    page.get_by_role("button", name="More filters").click()
    dialog = page.get_by_role("dialog", name="Filters of the sessions")
    pairs = dialog.get_by_role("combobox", name="Metadata")
    pairs.fill("job:nightly")
    pairs.press("Enter")
    dialog.get_by_role("combobox", name="Connection").fill("shop-demo")
    dialog.get_by_label("Longest duration").fill("3600")
    choose(page, "Why it ended", "It was completed")
    dialog.get_by_label("From").fill("2026-01-31T09:30")
    dialog.get_by_role("button", name="Apply filters").click()
    expect(dialog).to_have_count(0)
    for part in ("connection=shop-demo", "end_reason=completed", "max_duration=3600", "start_date=2026-01-31T"):
        assert part in page.url
    assert "job%3Anightly" in page.url
    chips = page.get_by_role("list", name="Filters that are set")
    for words in (
        "Connection: shop-demo",
        "Why it ended: It was completed",
        "Metadata: job:nightly",
        "Longest duration: 1 hr",
    ):
        expect(chips).to_contain_text(words)
    expect(chips).to_contain_text("From: Jan 31, 2026")
    expect(page.get_by_role("table", name="Sessions").locator("tbody tr")).to_have_count(1)
    assert admin.accessibility() == []
    page.reload()
    page.get_by_role("button", name="Remove Metadata: job:nightly").click()
    expect(page.get_by_role("table", name="Sessions").locator("tbody tr")).to_have_count(2)
    chips.get_by_role("button", name="Clear filters").click()
    expect(chips).to_have_count(0)
    expect(page).to_have_url(f"{admin.url}/sessions")


def test_auditors_only_are_offered_legal_holds(browser: Browser, gateway: Gateway, people: People) -> None:
    people.create("finn@example.com")
    with visiting_as(browser, gateway, "finn@example.com", "/sessions?status=open", size=PHONE) as finn:
        page = finn.page
        expect(page.get_by_role("list", name="Filters that are set")).to_contain_text("Status: Open")
        page.get_by_role("button", name="More filters").click()
        dialog = page.get_by_role("dialog", name="Filters of the sessions")
        expect(dialog.get_by_text("Under legal hold")).to_have_count(0)
        dialog.get_by_label("Correlation ID").fill("c-" + "7" * 60)
        dialog.get_by_label("Correlation ID").press("Enter")
        expect(page.get_by_text("Nothing fits these filters.")).to_be_visible()
        assert finn.accessibility() == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_view_is_saved_with_its_columns_renamed_and_deleted(
    admin: Visit, browser: Browser, gateway: Gateway, people: People
) -> None:
    page = admin.page
    admin.open("/sessions?verb=exec")
    page.get_by_role("button", name="Columns").click()
    dialog = page.get_by_role("dialog", name="Columns")
    toggle(dialog, "User")
    toggle(dialog, "Duration")
    assert admin.accessibility() == []
    dialog.get_by_role("button", name="Done").click()
    table = page.get_by_role("table", name="Sessions")
    expect(table.get_by_role("columnheader", name="Duration")).to_be_visible()
    expect(table.get_by_role("columnheader", name="User")).to_have_count(0)
    save_view(page, "Scripts <b>")
    views = page.get_by_role("navigation", name="Saved views")
    expect(views.get_by_role("link", name="Scripts <b>")).to_have_attribute("aria-current", "page")
    page.get_by_role("navigation", name="Filters").get_by_role("link", name="All").click()
    with visiting_as(browser, gateway, ADMIN, "/sessions", size=PHONE) as other:
        other.page.get_by_role("link", name="Scripts <b>").click()
        expect(other.page.get_by_role("list", name="Filters that are set")).to_contain_text("Access: Script")
        expect(other.page.locator("td[data-title=Duration]").first).to_be_visible()
        expect(other.page.locator("td[data-title=User]")).to_have_count(0)
        assert other.accessibility() == []
        assert other.page.evaluate("document.documentElement.scrollWidth") <= 360
    page.get_by_role("button", name="Manage views").click()
    manage = page.get_by_role("dialog", name="Manage views")
    manage.get_by_label("Name of the view Scripts <b>").fill("Scripts")
    assert admin.accessibility() == []
    with storing_preferences(page):
        manage.get_by_role("button", name="Save").click()
    expect(views.get_by_role("link", name="Scripts", exact=True)).to_be_visible()
    stored = people.ask("GET", "/users/self/preferences")["web"]["views"]["sessions"]
    assert stored == [
        {"name": "Scripts", "search": {"verb": "exec", "columns": "connection,verb,status,started,duration"}}
    ]
    page.get_by_role("button", name="Manage views").click()
    manage.get_by_role("button", name="Remove Scripts").click()
    with storing_preferences(page):
        manage.get_by_role("button", name="Save").click()
    expect(views).to_have_count(0)


@pytest.mark.parametrize(
    ("path", "list_name", "column", "words"),
    [
        ("/audit?outcome=failure", "audit", "Request", "Audit log"),
        ("/reviews?view=all&status=PENDING", "reviews", None, "Reviews"),
    ],
)
def test_other_lists_have_saved_views_too(
    admin: Visit, people: People, path: str, list_name: str, column: str | None, words: str
) -> None:
    page = admin.page
    admin.open(path)
    expect(page.get_by_role("heading", level=1, name=words)).to_be_visible()
    if column:
        page.get_by_role("button", name="Columns").click()
        toggle(page.get_by_role("dialog", name="Columns"), column)
        page.keyboard.press("Escape")
    save_view(page, "Mine")
    address = parse_qs(urlsplit(page.url).query)
    page.goto(admin.url + path.partition("?")[0])
    page.get_by_role("navigation", name="Saved views").get_by_role("link", name="Mine").click()
    expect(page.get_by_role("link", name="Mine")).to_have_attribute("aria-current", "page")
    assert parse_qs(urlsplit(page.url).query) == address
    assert admin.accessibility() == []
    assert [view["name"] for view in people.ask("GET", "/users/self/preferences")["web"]["views"][list_name]] == [
        "Mine"
    ]


def test_reviews_are_narrowed_by_connection_and_state(admin: Visit) -> None:
    page = admin.page
    admin.open("/reviews?view=all")
    page.get_by_role("button", name="More filters").click()
    dialog = page.get_by_role("dialog", name="Filters of the reviews")
    choose(page, "State", "Approved")
    dialog.get_by_role("button", name="Apply filters").click()
    expect(page).to_have_url(f"{admin.url}/reviews?view=all&status=APPROVED")
    expect(page.get_by_role("list", name="Filters that are set")).to_contain_text("State: Approved")
    assert admin.accessibility() == []


def test_view_that_cannot_be_stored_says_why(admin: Visit) -> None:
    page = admin.page
    admin.open("/sessions?search=" + "x" * 4_100)
    admin.expected_errors.append("422 (Unprocessable")
    page.get_by_role("button", name="Save view").click()
    dialog = page.get_by_role("dialog", name="Save this view")
    dialog.get_by_label("Name").fill("long")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("too long to be saved")
