"""Network rules in the browser: what they limit, and that none locks out its author."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect
from tests.support.running import Gateway
from tests.web.conftest import visiting, visiting_as
from tests.web.controls import add_name
from tests.web.people import ADMIN, People

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def test_network_rule_is_created_limits_a_user_and_is_switched_off(browser: Browser, gateway: Gateway) -> None:
    people = People(gateway)
    bob = people.create("bob@example.com", "contractors")
    with visiting_as(browser, gateway, ADMIN, "/network-rules") as visit:
        visit.expected_errors.append("422 (Unprocessable")
        page = visit.page
        expect(page.get_by_text("There are no network rules")).to_be_visible()
        page.get_by_role("link", name="New network rule").first.click()
        page.get_by_label("Name", exact=True).fill("vpn")
        page.get_by_label("Description", exact=True).fill(HOSTILE)
        networks = page.get_by_role("combobox", name="Allowed networks")
        networks.fill("10.8.0.0/16")
        networks.press("Enter")
        create = page.get_by_role("button", name="Create network rule")
        create.click()
        expect(page.get_by_text("this rule would lock you out")).to_be_visible()
        assert bob.get("/login/session").status_code == 200

        add_name(page, "Groups", "contractors")
        create.click()
        expect(page.get_by_role("heading", level=1, name="Network rule vpn")).to_be_visible()
        denied = bob.get("/login/session")
        assert (denied.status_code, "network rule 'vpn'" in denied.text) == (403, True)

        visit.open("/access-rules?view=why&user=bob@example.com&connection=shop-demo")
        expect(page.get_by_role("region", name="Why can they?")).to_contain_text("10.8.0.0/16 (network rule vpn)")

        visit.open("/network-rules")
        row = page.get_by_role("row", name="vpn")
        expect(row).to_contain_text("10.8.0.0/16")
        expect(row).to_contain_text("contractors")
        expect(row).to_contain_text("the whole gateway")
        row.get_by_role("link", name="vpn").click()
        page.get_by_text("Apply this rule").click()
        page.get_by_role("button", name="Save network rule").click()
        expect(page.get_by_text("Saved.")).to_be_visible()
        visit.open("/network-rules")
        expect(row).to_contain_text("off")
        assert bob.get("/login/session").status_code == 200


def test_user_at_a_denied_address_is_told_why_at_the_login(browser: Browser, gateway: Gateway) -> None:
    people = People(gateway)
    people.create("eve@example.com", "contractors")
    rule = {"name": "office", "allowed_networks": ["10.8.0.0/16"], "groups": ["contractors"]}
    people.ask("POST", "/network-rules", rule)
    with visiting(browser, gateway) as visit:
        visit.expected_errors.append("403 (Forbidden)")
        visit.open("/")
        visit.log_in("eve@example.com")
        expect(visit.page.get_by_text("cannot be used from your address")).to_be_visible()
