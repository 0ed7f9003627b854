"""What happens at the gateway appears on open pages, by one event stream for all tabs of a browser."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from tests.support.running import Gateway
from tests.web.conftest import Visit, visiting, visiting_as
from tests.web.people import ADMIN, People

SOON = 15_000  # milliseconds; pages that only ask again by themselves would need 60,000

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def bob(people: People) -> httpx.Client:
    """A user whose scripts on the demo's connection need a reviewer of the group dba."""
    people.create("ann@example.com", "dba")
    people.ask("PATCH", "/connections/shop-demo", {"reviewers": ["dba"]})
    return people.create("bob@example.com")


@pytest.fixture
def ann(browser: Browser, gateway: Gateway, bob: httpx.Client) -> Iterator[Visit]:
    with visiting_as(browser, gateway, "ann@example.com", "/reviews") as visit:
        yield visit


def submit(bob: httpx.Client) -> str:
    """Return the identifier of the review for which a script waits."""
    answer = bob.post("/sessions", json={"connection": "shop-demo", "script": "select 1", "reason": "live"})
    assert answer.status_code == 202, answer.text
    review: str = answer.json()["review"]["id"]
    return review


def streams_of(page: Page) -> list[str]:
    """Return a list that grows with each event stream that the page opens."""
    opened: list[str] = []
    page.on("request", lambda request: opened.append(request.url) if request.resource_type == "eventsource" else None)
    return opened


def test_review_is_counted_in_all_tabs_by_one_stream_and_after_its_tab_closed(ann: Visit, bob: httpx.Client) -> None:
    first, second = ann.page, ann.page.context.new_page()
    opened = streams_of(second)
    second.goto(f"{ann.url}/sessions")
    expect(second.get_by_role("heading", level=1, name="Sessions")).to_be_visible()
    review = submit(bob)
    for page in (first, second):
        expect(page.get_by_role("link", name="Reviews 1 waiting for you")).to_be_visible(timeout=SOON)
    expect(first.get_by_role("table", name="Reviews").get_by_role("link", name="shop-demo")).to_be_visible()
    assert opened == []
    first.close()
    bob.post(f"/reviews/{review}/withdraw")
    expect(second.get_by_role("link", name="Reviews", exact=True)).to_be_visible(timeout=SOON)
    assert len(opened) == 1
    ann.page = second


def test_decision_of_another_reviewer_appears_on_the_open_review(ann: Visit, bob: httpx.Client, people: People) -> None:
    review = submit(bob)
    ann.open(f"/reviews/{review}")
    expect(ann.page.get_by_role("button", name="Approve", exact=True)).to_be_visible()
    people.create("rolf@example.com", "dba").put(f"/reviews/{review}", json={"status": "REJECTED"})
    expect(ann.page.get_by_text("Rejected").first).to_be_visible(timeout=SOON)
    expect(ann.page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)


def test_new_session_and_a_changed_connection_appear(browser: Browser, gateway: Gateway, people: People) -> None:
    with visiting_as(browser, gateway, ADMIN, "/sessions") as admin:
        expect(admin.page.get_by_role("heading", level=1, name="Sessions")).to_be_visible()
        admin.page.wait_for_load_state("networkidle")
        rows = admin.page.get_by_role("table", name="Sessions").get_by_role("row")
        before = rows.count()
        people.admin.post("/sessions", json={"connection": "shop-demo", "script": "select 'live'"})
        expect(rows).not_to_have_count(before, timeout=SOON)
        admin.page.get_by_role("link", name="Connections", exact=True).click()
        row = admin.page.get_by_role("table", name="Connections").get_by_role("row").filter(has_text="shop-demo")
        expect(row).to_be_visible()
        people.ask("PATCH", "/connections/shop-demo", {"description": "Ask <b>Ann</b>\u202e first"})
        expect(row).to_contain_text("Ask <b>Ann</b>", timeout=SOON)
        expect(row).to_contain_text("U+202E")


def test_login_that_ends_elsewhere_leads_to_the_login_page(browser: Browser, gateway: Gateway, people: People) -> None:
    api = people.create("cleo@example.com")
    with visiting(browser, gateway) as cleo:
        cleo.open("/connections")
        cleo.log_in("cleo@example.com")
        expect(cleo.page.get_by_role("heading", level=1, name="Connections")).to_be_visible()
        cleo.page.wait_for_load_state("networkidle")
        assert api.delete("/logins").is_success
        expect(cleo.page.get_by_role("heading", name="Log in")).to_be_visible(timeout=SOON)
        expect(cleo.page).to_have_url(f"{cleo.url}/login?next=%2Fconnections")
