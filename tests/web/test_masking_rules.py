"""Masking rules in the browser: columns picked from a table, types, and what each strategy would show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from tests.support.running import Gateway
from tests.web.conftest import Visit, visiting_as
from tests.web.people import ADMIN, People

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/masking") as visit:
        yield visit


def test_rule_with_picked_columns_masks_a_query(admin: Visit, people: People) -> None:
    page = admin.page
    page.get_by_role("link", name="New masking rule").first.click()
    page.get_by_label("Name", exact=True).fill("prices")
    connections = page.get_by_role("combobox", name="Connections")
    connections.click()
    connections.fill("shop")
    page.get_by_role("option", name="shop-demo").click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Pick columns from a table").click()
    dialog = page.get_by_role("dialog", name="Pick columns")
    dialog.get_by_role("button", name="Connection").click()
    page.get_by_role("option", name="shop-demo").click()
    dialog.get_by_role("button", name="Table").click()
    page.get_by_role("option", name="public.products").click()
    dialog.get_by_text("price (").click()
    assert admin.accessibility() == []
    dialog.get_by_role("button", name="Add columns").click()
    expect(page.get_by_role("list", name="Chosen: Columns to mask")).to_contain_text("public.products.price")
    page.get_by_role("button", name="Strategy").click()
    page.get_by_role("option", name="Empty", exact=True).click()
    page.get_by_role("button", name="Create masking rule").click()
    expect(page.get_by_role("heading", level=1, name="Masking rule prices")).to_be_visible()
    run = {"connection": "shop-demo", "script": "select price from products limit 1", "format": "json"}
    answer = people.admin.post("/sessions", json=run, headers={"Prefer": "wait=20"}).json()
    results = people.ask("GET", f"/sessions/{answer['session_id']}/results?format=json")
    assert results[0]["rows"] == [[None]]
    page.get_by_role("button", name="Delete masking rule").click()
    confirm = page.get_by_role("dialog", name="Delete prices?")
    expect(confirm).to_contain_text("answers of 1 connection")
    confirm.get_by_role("button", name="Delete masking rule").click()
    expect(page).to_have_url(f"{admin.url}/masking")


def test_preview_shows_samples_with_each_strategy_while_typing(admin: Visit) -> None:
    admin.expected_errors.append("422 (Unprocessable")
    page = admin.page
    admin.open("/masking/new")
    preview = page.get_by_role("region", name="Preview")
    expect(preview.get_by_text("Choose columns or information types to see")).to_be_visible()
    page.get_by_role("button", name="Add group of types").click()
    group = page.get_by_role("region", name="Group 1")
    types = group.get_by_role("combobox", name="Types")
    for name in ("EMAIL_ADDRESS", "CUSIP"):
        types.click()
        types.fill(name)
        page.get_by_role("option", name=name, exact=True).click()
        page.keyboard.press("Escape")
    expect(group).to_contain_text("their form alone scores less: CUSIP")
    page.get_by_label("Texts, one in each line").fill(f"ask ann@example.com {HOSTILE}")
    sample = preview.get_by_role("region", name="Text 1")
    expect(sample.locator("dd")).to_contain_text(
        ["ask ann@", "ask ****@****", "ask a***@example.com", "ask h_", "ask "]
    )
    expect(sample).to_contain_text("U+202E")
    assert page.locator("main img[src=x]").count() == 0
    expect(preview.get_by_text("EMAIL_ADDRESS: ")).to_be_visible()
    assert admin.accessibility() == []
    page.get_by_role("button", name="Add custom type").click()
    page.get_by_role("region", name="Custom type 1").get_by_label("Regular expression").fill("(")
    expect(preview.get_by_role("alert")).to_contain_text("custom_entity_types")


def test_auditor_sees_a_rule_and_its_preview_only(browser: Browser, gateway: Gateway, people: People) -> None:
    people.create("carol@example.com", "auditor")
    people.ask("POST", "/datamasking-rules", {"name": "mails", "description": HOSTILE, "columns": ["*email"]})
    with visiting_as(browser, gateway, "carol@example.com", "/masking/mails") as visit:
        page = visit.page
        expect(page.get_by_label("Name", exact=True)).to_be_disabled()
        expect(page.get_by_role("button", name="Save masking rule")).to_have_count(0)
        expect(page.get_by_role("region", name="Cell 1: customers.email")).to_contain_text("****")
        page.get_by_role("link", name="All masking rules").click()
        expect(page.get_by_text("<img src=x onerror=alert(1)>")).to_be_visible()
        expect(page.get_by_role("link", name="New masking rule")).to_have_count(0)
