"""Federation rules in the browser: created with claims, and changed without losing what the form does not show."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.support.running import Gateway
from tests.web.conftest import visiting_as
from tests.web.controls import pick
from tests.web.people import ADMIN, People

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]

GITHUB = "https://token.actions.githubusercontent.com"
KEYS = {"keys": [{"kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9"}]}


def claim(page: Page, row: int, name: str, value: str) -> None:
    page.get_by_label("Claim", exact=True).nth(row).fill(name)
    page.get_by_label("Value", exact=True).nth(row).fill(value)


def test_federation_rule_is_created_with_an_owner_and_changed(browser: Browser, gateway: Gateway) -> None:
    people = People(gateway)
    people.ask("POST", "/serviceaccounts", {"subject": "deployer", "status": "active"})
    with visiting_as(browser, gateway, ADMIN, "/people/federation-rules") as visit:
        visit.expected_errors.append("422 (Unprocessable")
        page = visit.page
        expect(page.get_by_text("There are no federation rules yet")).to_be_visible()
        page.get_by_role("link", name="New federation rule").first.click()
        page.get_by_label("Name", exact=True).fill("shop")
        pick(page, "Service account", "deployer")
        page.get_by_label("Issuer", exact=True).fill(GITHUB)
        expect(page.get_by_label("Audience", exact=True)).to_have_value(visit.url)
        claim(page, 0, "ref", "refs/heads/main")
        create = page.get_by_role("button", name="Create federation rule")
        create.click()
        expect(page.get_by_role("alert")).to_contain_text("a stranger's program could log in")
        for row, repository in enumerate(("acme/shop", "acme/site"), 1):
            page.get_by_role("button", name="Add", exact=True).click()
            claim(page, row, "repository", repository)
        assert visit.accessibility() == []
        create.click()
        expect(page.get_by_role("heading", level=1, name="Federation rule shop")).to_be_visible()

        people.ask("PATCH", "/federation-rules/shop", {"jwks": KEYS, "algorithms": ["ES256"]})
        visit.open("/people/federation-rules")
        listed = page.get_by_role("row", name="shop")
        expect(listed).to_contain_text("repository=acme/shop, repository=acme/site")
        listed.get_by_role("link", name="shop").click()
        page.get_by_label("A login lasts, in minutes").fill("5")
        page.get_by_role("button", name="Save federation rule").click()
        expect(page.get_by_text("Saved")).to_be_visible()
    rule = people.ask("GET", "/federation-rules/shop")
    assert (rule["login_duration_seconds"], rule["algorithms"], rule["jwks"]) == (300, ["ES256"], KEYS)
    assert rule["claims"] == {"ref": ["refs/heads/main"], "repository": ["acme/shop", "acme/site"]}
