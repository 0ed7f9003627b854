"""The audit log in the browser: finding an entry, what it changed, and taking entries along."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.support.running import Gateway
from tests.web.conftest import PHONE, Visit, visiting, visiting_as
from tests.web.people import ADMIN, People

pytestmark = pytest.mark.ci

HOSTILE = "=1+1 <img src=x onerror=alert(1)> \u202e"


@pytest.fixture(scope="module")
def people(gateway: Gateway) -> People:
    made = People(gateway)
    made.create("auditor@example.com", "auditor")
    made.create("eve@example.com")
    made.ask("PATCH", "/connections/shop-demo", {"connection_tags": {"stage": "dev"}})
    made.ask("PATCH", "/connections/shop-demo", {"connection_tags": {"stage": "prod"}})
    refused = made.admin.patch("/connections/shop-demo", json={"connection_tags": {"stage": HOSTILE}})
    assert refused.status_code == 422, refused.text
    made.admin.delete("/connections/no-such-connection")
    return made


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/audit", accept_downloads=True) as visit:
        yield visit


def test_entry_is_found_by_filters_and_shows_what_changed(admin: Visit) -> None:
    page = admin.page
    page.get_by_label("Object type").fill("connections")
    page.get_by_label("Object type").press("Enter")
    page.get_by_label("Action", exact=True).fill("update")
    page.get_by_label("Action", exact=True).press("Enter")
    rows = page.get_by_role("table", name="Audit log").get_by_role("row")
    expect(rows).to_have_count(4)
    expect(page).to_have_url(f"{admin.url}/audit?type=connections&action=update")
    rows.filter(has_text="Success").first.get_by_role("link").click()
    changes = page.get_by_role("table", name="Changes")
    changed = changes.get_by_role("row").filter(has_text="connection_tags.stage")
    expect(changed).to_contain_text("dev")
    expect(changed).to_contain_text("prod")
    expect(page.get_by_label("Request", exact=True)).to_contain_text("PATCH /api/connections/shop-demo")
    expect(page.get_by_role("group", name="Request ID")).to_be_visible()
    assert admin.accessibility() == []


def test_hostile_request_is_shown_as_text_with_marks(admin: Visit) -> None:
    admin.open("/audit?code=422")
    admin.page.get_by_role("table", name="Audit log").get_by_role("link").click()
    request = admin.page.get_by_label("Request", exact=True)
    expect(request).to_contain_text("<img src=x onerror=alert(1)>")
    expect(request).to_contain_text("U+202E")
    assert admin.page.locator("main img[src=x]").count() == 0


def test_filters_of_the_address_apply_and_refused_writes_are_found(admin: Visit) -> None:
    admin.open("/audit?outcome=failure&code=404")
    rows = admin.page.get_by_role("table", name="Audit log").get_by_role("row")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("no-such-connection")
    expect(rows.nth(1)).to_contain_text("Failure 404")
    admin.page.get_by_role("button", name="Clear filters").click()
    expect(admin.page).to_have_url(f"{admin.url}/audit")
    admin.open("/audit?action=nothing-has-this")
    expect(admin.page.get_by_text("Nothing fits these filters.")).to_be_visible()


def test_export_has_all_entries_of_the_filters_and_no_formula(admin: Visit, tmp_path: Path) -> None:
    admin.open("/audit?type=connections&action=update")
    with admin.page.expect_download() as download:
        admin.page.get_by_role("button", name="Download CSV").click()
    path = tmp_path / "audit-log.csv"
    download.value.save_as(path)
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    assert [row["resource"] for row in rows] == ["shop-demo"] * 3
    assert {row["actor_email"] for row in rows} == {ADMIN}
    with admin.page.expect_download() as download:
        admin.page.get_by_role("button", name="Download JSON").click()
    assert HOSTILE in Path(download.value.path()).read_text(encoding="utf-8")


def test_auditor_reads_it_and_others_are_refused(browser: Browser, gateway: Gateway, people: People) -> None:
    with visiting_as(browser, gateway, "auditor@example.com", "/audit", size=PHONE) as auditor:
        expect(auditor.page.get_by_role("table", name="Audit log")).to_be_visible()
        assert auditor.accessibility() == []
    with visiting(browser, gateway) as eve:
        eve.expected_errors.append("403 (Forbidden)")
        eve.open("/audit")
        eve.log_in("eve@example.com")
        expect(eve.page.get_by_role("alert")).to_contain_text("only administrators and auditors")
        expect(eve.page.get_by_role("link", name="Audit log")).to_have_count(0)
