"""Preferences: theme and density from the first paint on, keys, and the first steps of an administrator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.support.running import Gateway
from tests.web.conftest import Visit, storing_preferences, visiting, visiting_as
from tests.web.people import ADMIN, People

pytestmark = pytest.mark.ci


@pytest.fixture
def dora(browser: Browser, gateway: Gateway, people: People, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A user of her own for each test, at her account."""
    email = f"{request.node.name[:40].replace('_', '-')}@example.com"
    people.create(email)
    with visiting_as(browser, gateway, email, "/me", color_scheme="light") as visit:
        yield visit


def choose(page: Page, label: str, option: str) -> None:
    page.get_by_role("region", name="Preferences").get_by_role("button", name=label).click()
    with storing_preferences(page):
        page.get_by_role("option", name=option).click()


def ground(page: Page) -> str:
    colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return colour


def test_theme_and_density_hold_before_the_application_runs_and_in_other_browsers(
    dora: Visit, browser: Browser, gateway: Gateway
) -> None:
    page = dora.page
    email = page.locator("main dd").first.inner_text()
    light = ground(page)
    choose(page, "Theme", "Dark")
    choose(page, "Density", "Compact")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert ground(page) != light
    assert dora.accessibility() == []
    page.route("**/assets/*.js", lambda route: route.abort())
    dora.expected_errors.append("net::ERR_FAILED")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator("html")).to_have_attribute("data-density", "compact")
    assert ground(page) != light
    page.unroute("**/assets/*.js")
    with visiting(browser, gateway, color_scheme="light") as other:
        other.open("/me")
        other.log_in(email)
        expect(other.page.locator("html")).to_have_attribute("data-theme", "dark")
        choose(other.page, "Theme", "As the system")
        expect(other.page.locator("html")).not_to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.get_by_role("region", name="Preferences")).to_be_visible()
    expect(page.locator("html")).not_to_have_attribute("data-theme", "dark")
    expect(page.locator("html")).to_have_attribute("data-density", "compact")


def test_single_letters_can_be_switched_off(dora: Visit) -> None:
    page = dora.page
    page.get_by_text("Single letters are keys").click()
    expect(page.get_by_role("checkbox", name="Single letters are keys")).not_to_be_checked()
    page.get_by_role("heading", name="My account").focus()
    page.keyboard.type("gs")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page).to_have_url(f"{dora.url}/me")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Go to")).to_be_visible()


def test_preferences_that_something_else_wrote_are_kept_or_ignored(dora: Visit, people: People) -> None:
    email = dora.page.locator("main dd").first.inner_text()
    api = people.client(email)
    odd = {"cli": {"pager": "less"}, "web": {"theme": "<img src=x onerror=alert(1)>", "pins": [1, "x"], "later": [1]}}
    assert api.put("/users/self/preferences", json=odd).is_success
    dora.open("/me")
    choose(dora.page, "Density", "Compact")
    expect(dora.page.locator("html")).to_have_attribute("data-density", "compact")
    stored = api.get("/users/self/preferences").json()
    assert stored["cli"] == {"pager": "less"}
    assert stored["web"]["later"] == [1]
    assert (stored["web"]["theme"], stored["web"]["density"]) == ("system", "compact")


def test_own_credentials_of_all_connections_are_listed_and_revoked(dora: Visit, people: People) -> None:
    api = people.client(dora.page.locator("main dd").first.inner_text())
    assert api.post("/connections/shop-demo/credentials", json={}).is_success
    dora.open("/me")
    credentials = dora.page.get_by_role("region", name="Credentials of your own clients")
    expect(credentials.get_by_role("link", name="shop-demo")).to_be_visible()
    credentials.get_by_role("button", name="Revoke").click()
    dora.page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(credentials).to_contain_text("You have no credentials.")
    assert api.get("/credentials", params={"status": "active"}).json()["data"] == []


def test_first_steps_are_ticked_as_they_are_done_and_stay_hidden(
    browser: Browser, gateway: Gateway, people: People
) -> None:
    with visiting(browser, gateway) as admin:
        page = admin.page
        admin.open("/")
        admin.log_in(ADMIN)
        steps = page.get_by_role("region", name="First steps with this gateway")
        query = steps.get_by_role("listitem").filter(has_text="Run a query on the demo")
        expect(query).to_be_visible()
        expect(query).not_to_contain_text("Done:")
        assert admin.accessibility() == []
        people.admin.post("/sessions", json={"connection": "shop-demo", "script": "select id from customers limit 1"})
        expect(query).to_contain_text("Done:", timeout=15_000)
        refused = steps.get_by_role("listitem").filter(has_text="See a denied statement")
        expect(refused).not_to_contain_text("Done:")
        people.admin.post("/sessions", json={"connection": "shop-demo", "script": "drop table customers"})
        expect(refused).to_contain_text("Done:", timeout=15_000)
        steps.get_by_role("link", name="Create a connection of your own").click()
        expect(page.get_by_role("heading", level=1, name="New connection")).to_be_visible()
        page.go_back()
        with storing_preferences(page):
            steps.get_by_role("button", name="Hide first steps").click()
        expect(steps).to_have_count(0)
        page.reload()
        expect(page.get_by_role("region", name="Your connections")).to_be_visible()
        page.wait_for_load_state("networkidle")
        expect(steps).to_have_count(0)
    people.create("eve@example.com")
    with visiting(browser, gateway) as eve:
        eve.open("/")
        eve.log_in("eve@example.com")
        expect(eve.page.get_by_role("region", name="Your connections")).to_be_visible()
        eve.page.wait_for_load_state("networkidle")
        expect(eve.page.get_by_role("region", name="First steps with this gateway")).to_have_count(0)
