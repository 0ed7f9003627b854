"""Access rules and review rules in the browser: what they cover now, what they would hide, and why a user can or
cannot use a connection."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from tests.support.running import Gateway
from tests.web.conftest import Visit, visiting, visiting_as
from tests.web.controls import add_name
from tests.web.people import ADMIN, People

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@pytest.fixture(scope="module")
def people(gateway: Gateway) -> People:
    made = People(gateway)
    made.ask("PATCH", "/connections/shop-demo", {"connection_tags": {"stage": "prod"}})
    return made


@pytest.fixture(scope="module")
def bob(people: People) -> httpx.Client:
    people.create("ann@example.com", "dba")
    return people.create("bob@example.com", "developers")


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, bob: httpx.Client) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/access-rules") as visit:
        yield visit


def tag(page: Page, key: str, value: str) -> None:
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_label("Value", exact=True).fill(value)


def test_access_rules_are_previewed_explained_and_switched_on(admin: Visit, people: People, bob: httpx.Client) -> None:
    page = admin.page
    expect(page.get_by_text("Access control is off")).to_be_visible()
    page.get_by_role("button", name="Switch on access control").click()
    expect(page.get_by_role("dialog")).to_contain_text("Only administrators could use 1 connection:")
    expect(page.get_by_role("dialog").get_by_text("shop-demo", exact=True)).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("link", name="New access rule").first.click()
    page.get_by_label("Name", exact=True).fill("production")
    add_name(page, "Groups", "dba")
    tag(page, "stage", "prod")
    expect(page.get_by_text("Covers now: 1 connection")).to_be_visible()
    page.get_by_role("button", name="Create access rule").click()
    expect(page.get_by_role("heading", level=1, name="Access rule production")).to_be_visible()

    admin.open("/access-rules?view=groups")
    expect(page.get_by_role("row").filter(has_text="dba")).to_contain_text("shop-demo")
    page.get_by_role("link", name="Why can they?").click()
    add_name(page, "User", "bob@example.com")
    add_name(page, "Connection", "shop-demo")
    answer = page.get_by_role("region", name="Why can they?")
    expect(answer).to_contain_text("bob@example.com can use shop-demo.")
    later = answer.get_by_role("region", name="Once access control is on")
    expect(later).to_contain_text("This user can no longer use it.")
    expect(later).to_contain_text("production for dba")
    assert admin.accessibility() == []

    page.get_by_role("button", name="Switch on access control").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Each connection is covered by a rule.")
    dialog.get_by_role("button", name="Switch on access control").click()
    try:
        expect(page.get_by_text("Access control is on")).to_be_visible()
        expect(answer).to_contain_text("bob@example.com cannot use shop-demo.")
        expect(later).to_have_count(0)
        assert bob.get("/connections/shop-demo").status_code == 404
    finally:
        people.ask("PUT", "/feature-flags/access-control", {"enabled": False})


def test_review_rule_covers_by_tag_and_holds_a_script(admin: Visit, bob: httpx.Client) -> None:
    admin.expected_errors.append("422 (Unprocessable")
    page = admin.page
    admin.open("/review-rules/new")
    page.get_by_label("Name", exact=True).fill("pairs")
    tag(page, "stage", "prod")
    expect(page.get_by_text("Covers now: 1 connection")).to_be_visible()
    page.get_by_label("Longest access, in minutes").fill("60")
    page.get_by_role("button", name="Create review rule").click()
    expect(page.get_by_role("alert")).to_contain_text("reviewers_groups")
    add_name(page, "Reviewer groups", "dba")
    page.get_by_role("button", name="Users").click()
    page.get_by_role("option", name="Only members of some groups").click()
    add_name(page, "Groups that need approval", "developers")
    assert admin.accessibility() == []
    page.get_by_role("button", name="Create review rule").click()
    expect(page.get_by_role("heading", level=1, name="Review rule pairs")).to_be_visible()
    held = bob.post("/sessions", json={"connection": "shop-demo", "script": "select 1"})
    assert held.status_code == 202, held.text
    page.get_by_role("link", name="All review rules").click()
    expect(page.get_by_role("row").filter(has_text="pairs")).to_contain_text("all with stage=prod")
    admin.open("/access-rules?view=why&user=bob@example.com&connection=shop-demo")
    expect(page.get_by_role("region", name="Why can they?")).to_contain_text("rule 'pairs'")
    admin.open("/review-rules/pairs")
    page.get_by_role("button", name="Delete review rule").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete review rule").click()
    expect(page).to_have_url(f"{admin.url}/review-rules")


def test_auditor_reads_rules_with_hostile_texts_and_changes_nothing(
    browser: Browser, gateway: Gateway, people: People, bob: httpx.Client
) -> None:
    people.create("carol@example.com", "auditor")
    rule = {"name": "hostile", "description": HOSTILE, "groups": ["dba"], "connection_names": ["shop-demo"]}
    people.ask("POST", "/access-rules", rule)
    with visiting_as(browser, gateway, "carol@example.com", "/access-rules") as visit:
        page = visit.page
        expect(page.get_by_text("<img src=x onerror=alert(1)>")).to_be_visible()
        expect(page.get_by_text("U+202E")).to_be_visible()
        expect(page.get_by_role("button", name="Switch on access control")).to_have_count(0)
        page.get_by_role("link", name="hostile").click()
        expect(page.get_by_label("Name", exact=True)).to_be_disabled()
        expect(page.get_by_role("button", name="Delete access rule")).to_have_count(0)
        assert page.locator("main img[src=x]").count() == 0
        assert visit.accessibility() == []


def test_standard_user_has_no_rules(browser: Browser, gateway: Gateway, bob: httpx.Client) -> None:
    with visiting(browser, gateway) as visit:
        visit.expected_errors.append("403 (Forbidden)")
        visit.open("/review-rules")
        visit.log_in("bob@example.com")
        expect(visit.page.get_by_role("alert")).to_contain_text("administrators and auditors")
        expect(visit.page.get_by_role("link", name="Review rules")).to_have_count(0)
