"""Reports in the browser: sums, charts and tables of a period, and the way to the sessions that they count."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect
from tests.support.running import Gateway
from tests.web.conftest import PHONE, Visit, visiting, visiting_as
from tests.web.people import ADMIN, People

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def people(gateway: Gateway) -> People:
    made = People(gateway)
    made.create("auditor@example.com", "auditor")
    made.create("eve@example.com")
    for script in ("select email from customers", "select 2", "drop table customers"):
        made.admin.post("/sessions", json={"connection": "shop-demo", "script": script})
    return made


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/reports", accept_downloads=True) as visit:
        yield visit


def wait_for(visit: Visit, found: Locator) -> None:
    """Sessions count a moment after they have ended, and the page does not ask again by itself."""
    for _ in range(60):
        visit.page.wait_for_load_state("networkidle")
        if found.count() > 0:
            return
        visit.page.wait_for_timeout(500)
        visit.page.reload()
    expect(found).not_to_have_count(0)


def test_activity_leads_to_the_sessions_that_it_counts(admin: Visit, tmp_path: Path) -> None:
    page = admin.page
    table = page.get_by_role("table", name="By connection")
    wait_for(admin, table.get_by_role("row").filter(has_text="shop-demo").filter(has_text="3"))
    sums = page.get_by_label("Sums of the period")
    expect(sums).to_contain_text("Sessions3")
    expect(sums).to_contain_text("Denied statements1")
    expect(page.get_by_role("img", name="Sessions and denied statements")).to_be_visible()
    assert page.locator("canvas").count() == 1
    page.get_by_text("Show the numbers").click()
    expect(page.get_by_role("table", name="Activity").get_by_role("row")).to_have_count(31)
    assert admin.accessibility() == []

    with page.expect_download() as download:
        page.get_by_label("By connection", exact=True).get_by_role("button", name="Download CSV").click()
    path = tmp_path / "by-connection.csv"
    download.value.save_as(path)
    assert [(row["connection"], row["sessions"]) for row in csv.DictReader(path.open())] == [("shop-demo", "3")]

    table.get_by_role("link", name="shop-demo").click()
    expect(page.get_by_role("heading", level=1, name="Sessions")).to_be_visible()
    expect(page.get_by_role("table", name="Sessions").get_by_role("row")).to_have_count(4)
    expect(page.get_by_text("Connection: shop-demo")).to_be_visible()


def test_period_zone_and_interval_are_in_the_address(admin: Visit) -> None:
    page = admin.page
    page.get_by_role("link", name="Last 7 days").click()
    page.get_by_role("button", name="Interval").click()
    page.get_by_role("option", name="Hours").click()
    expect(page).to_have_url(re.compile(r"from=.*to=.*by=hour|by=hour.*from=.*to="))
    admin.open("/reports?from=2026-01-01&to=2026-01-31&zone=Europe/Berlin&user=nobody@example.com")
    expect(page.get_by_text("2026-01-01 – 2026-01-31 (Europe/Berlin)")).to_be_visible()
    expect(page.get_by_text("No session of this period has ended yet.")).to_be_visible()
    # What is wrong in the period is said by the gateway, and a hostile address changes nothing else.
    admin.expected_errors += ["400 (Bad Request)", "422 (Unprocessable"]
    admin.open("/reports?from=2020-01-01&to=2026-01-31&zone=<img src=x>")
    expect(page.get_by_role("alert").first).to_contain_text("366 days")
    expect(page.get_by_text("(UTC)")).to_be_visible()


def test_masked_values_are_counted_by_type(admin: Visit) -> None:
    page = admin.page
    page.get_by_role("link", name="Masked values", exact=True).click()
    row = page.get_by_role("table", name="By information type").get_by_role("row")
    wait_for(admin, row)
    resources = page.get_by_role("table", name="By resource and information type")
    expect(resources.get_by_role("link", name="shop-demo").first).to_be_visible()
    page.get_by_role("button", name="Group").click()
    page.get_by_role("option", name="Users").click()
    expect(resources.get_by_role("link", name=ADMIN).first).to_be_visible()
    expect(page).to_have_url(f"{admin.url}/reports/masking?group=user")
    assert admin.accessibility() == []


def test_auditor_reads_reports_of_reviews_on_a_phone_and_others_are_refused(
    browser: Browser, gateway: Gateway, people: People
) -> None:
    people.admin.post("/users/groups", json={"name": "dba"})
    people.ask("PATCH", "/connections/shop-demo", {"reviewers": ["dba"]})
    people.admin.post("/sessions", json={"connection": "shop-demo", "script": "select 3"})
    with visiting_as(browser, gateway, "auditor@example.com", "/reports/reviews", size=PHONE) as auditor:
        row = auditor.page.get_by_role("table", name="By connection").get_by_role("row")
        expect(row.filter(has_text="shop-demo")).to_contain_text("1")
        assert auditor.accessibility() == []
        expect(auditor.page.get_by_role("button", name="Count again")).to_have_count(0)
    with visiting(browser, gateway) as eve:
        eve.expected_errors.append("403 (Forbidden)")
        eve.open("/reports/reviews")
        eve.log_in("eve@example.com")
        expect(eve.page.get_by_role("alert").first).to_contain_text("only administrators and auditors")
