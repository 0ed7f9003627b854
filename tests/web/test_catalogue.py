"""The list of connections: what one may do with each and why not, filters in the address, pins on the home page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect
from tests.support.running import Gateway
from tests.web.conftest import DESKTOP, PHONE, Visit, storing_preferences, visiting_as
from tests.web.people import ADMIN, People

MODES = ("access_mode_connect", "access_mode_exec", "access_mode_runbooks", "access_schema")
SECRET = {"envvar:HOST": "ZGI=", "envvar:USER": "YXBw", "envvar:PASS": "cGFzcw=="}

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]


@pytest.fixture(scope="module")
def bob(people: People) -> httpx.Client:
    """A user with three connections: the demo, one that needs reviews and allows no scripts, and one of MySQL."""
    add(people, "orders", "postgres", {"env": "prod", "team": "blue"}, access_mode_exec="disabled", reviewers=["dba"])
    tags = {"env": "prod", "note": "w" * 256}
    add(people, "stock", "mysql", tags, description="Read <b>only</b>\u202e at night")
    people.create("ann@example.com", "dba")
    return people.create("bob@example.com")


def add(people: People, name: str, subtype: str, tags: dict[str, str], **fields: Any) -> None:
    agent = people.ask("GET", "/connections/shop-demo")["agent_id"]
    body = {"name": name, "type": "database", "subtype": subtype, "agent_id": agent, "secret": SECRET}
    people.ask("POST", "/connections", body | dict.fromkeys(MODES, "enabled") | {"connection_tags": tags} | fields)


@pytest.fixture
def page_of_bob(browser: Browser, gateway: Gateway, bob: httpx.Client) -> Iterator[Visit]:
    with visiting_as(browser, gateway, "bob@example.com", "/connections") as visit:
        yield visit


def test_list_says_what_one_may_and_why_not(page_of_bob: Visit) -> None:
    page = page_of_bob.page
    orders = page.get_by_role("row").filter(has_text="orders")
    expect(orders).to_contain_text("connect: needs a review")
    expect(orders.get_by_role("link", name="SQL")).to_have_count(0)
    orders.get_by_text(re.compile(r"^\d not allowed$")).click()
    expect(orders.get_by_text("run scripts: ")).to_be_visible()
    stock = page.get_by_role("row").filter(has_text="stock")
    expect(stock).to_contain_text("Read <b>only</b>U+202E at night")
    expect(stock).to_contain_text("never")
    expect(stock.get_by_role("link", name="SQL")).to_be_visible()
    assert page_of_bob.accessibility() == []
    for size in (DESKTOP, PHONE):
        page.set_viewport_size(size)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_filters_are_in_the_address_and_offer_what_there_is(page_of_bob: Visit) -> None:
    page = page_of_bob.page
    page.get_by_role("button", name="Protocol").click()
    page.get_by_role("option", name="postgres (2)").click()
    expect(page.get_by_role("row").filter(has_text="stock")).to_have_count(0)
    page.get_by_role("button", name="Tag", exact=False).last.click()
    page.get_by_role("option", name="env=prod (2)").click()
    expect(page.get_by_role("row")).to_have_count(2)  # the head, and one connection
    page.reload()
    expect(page.get_by_role("row").filter(has_text="orders")).to_be_visible()
    expect(page.get_by_role("row")).to_have_count(2)
    assert "subtype=postgres" in page.url
    page.get_by_role("button", name="Remove env=prod").click()
    expect(page.get_by_role("row").filter(has_text="shop-demo")).to_be_visible()
    page.get_by_label("Search connections").fill("nothing like this")
    expect(page.get_by_text("No connection matches")).to_be_visible()
    page.get_by_role("button", name="Show all connections").click()
    expect(page.get_by_role("row").filter(has_text="stock")).to_be_visible()


def test_pinned_connection_is_first_on_the_home_page_of_all_browsers(
    page_of_bob: Visit, browser: Browser, gateway: Gateway, bob: httpx.Client
) -> None:
    page = page_of_bob.page
    with storing_preferences(page):
        page.get_by_role("button", name="Pin stock to the home page").click()
    expect(page.get_by_role("button", name="Pin stock to the home page")).to_have_attribute("aria-pressed", "true")
    done = bob.post("/sessions", json={"connection": "shop-demo", "script": "select 1"})
    assert done.is_success, done.text
    with visiting_as(browser, gateway, "bob@example.com", "/", size=PHONE) as other:
        own = other.page.get_by_role("region", name="Your connections")
        expect(own.get_by_role("listitem")).to_have_count(2)
        expect(own.get_by_role("listitem").first).to_contain_text("stock")
        expect(own.get_by_role("listitem").last).to_contain_text("shop-demo")
        assert other.accessibility() == []
        assert other.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        own.get_by_role("button", name="Pin stock to the home page").click()
        expect(own.get_by_role("listitem")).to_have_count(1)


def test_access_is_asked_for_with_a_credential_and_given_on_the_open_page(
    page_of_bob: Visit, people: People, bob: httpx.Client
) -> None:
    page = page_of_bob.page
    page_of_bob.open("/connections/orders?tab=access")
    ask = page.get_by_role("region", name="Ask for access")
    ask.get_by_role("button", name="Ask for access…").click()
    dialog = page.get_by_role("dialog", name="Ask for access to orders")
    dialog.get_by_label("Reason").fill("ticket 4711 \u202e")
    dialog.get_by_text("Only at certain hours").click()
    dialog.get_by_label("From").fill("00:00")
    dialog.get_by_label("Until").fill("00:00")
    dialog.get_by_label("Time zone").fill("Nowhere/Land")
    page_of_bob.expected_errors.append("422 (Unprocessable")
    dialog.get_by_role("button", name="Send request").click()
    page.get_by_role("dialog", name="Credential for orders").get_by_role("button", name="I have it").click()
    expect(dialog.get_by_role("alert")).to_contain_text("time_zone")
    dialog.get_by_label("Time zone").fill("UTC")
    dialog.get_by_role("button", name="Send request").click()
    expect(dialog.get_by_role("alert")).to_contain_text("reason: control characters")
    dialog.get_by_label("Reason").fill("ticket 4711")
    dialog.get_by_role("button", name="Send request").click()
    expect(dialog).to_have_count(0)
    requests = ask.get_by_role("region", name="Your requests")
    expect(requests).to_contain_text("1 member of dba")
    expect(requests).to_contain_text("Only from 00:00 to 00:00 (UTC)")
    assert page_of_bob.accessibility() == []
    (review,) = bob.get("/reviews", params={"owner": "self", "connection": "orders"}).json()["data"]
    assert review["access_duration"] == 3_600
    assert len(bob.get("/credentials", params={"status": "active"}).json()["data"]) == 1
    decided = people.client("ann@example.com").put(f"/reviews/{review['id']}", json={"status": "APPROVED"})
    assert decided.is_success, decided.text
    expect(requests).to_contain_text("Access given", timeout=15_000)
    expect(requests).to_contain_text("You can connect now")


def test_connection_that_needs_no_review_says_that_one_may_connect_now(
    browser: Browser, gateway: Gateway, bob: httpx.Client
) -> None:
    with visiting_as(browser, gateway, ADMIN, "/connections/shop-demo?tab=access") as visit:
        how = visit.page.get_by_role("region", name="How to connect")
        expect(how).to_contain_text("you can connect now")
        expect(how).to_contain_text("postern connect shop-demo")
