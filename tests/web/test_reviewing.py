"""A reviewer decides requests in the browser, also on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect
from tests.support.running import Gateway
from tests.web.conftest import PHONE, Visit, visiting_as
from tests.web.people import PASSWORD, People

UPDATE = "update products set price = price * 2 where id = 1"
HOSTILE = "select 1 -- \u202e<img src=x onerror=alert(1)>\u200b"

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]


@pytest.fixture(scope="module")
def bob(people: People) -> httpx.Client:
    """A user whose scripts on the demo's connection need a reviewer of the group dba."""
    people.create("ann@example.com", "dba")
    people.ask("PATCH", "/connections/shop-demo", {"reviewers": ["dba"]})
    return people.create("bob@example.com")


@pytest.fixture
def ann(browser: Browser, gateway: Gateway, bob: httpx.Client) -> Iterator[Visit]:
    with visiting_as(browser, gateway, "ann@example.com", "/reviews", size=PHONE) as visit:
        yield visit


def submit(bob: httpx.Client, script: str, reason: str = "ticket 4711") -> dict[str, Any]:
    """Return the answer: the script waits for a review."""
    answer = bob.post("/sessions", json={"connection": "shop-demo", "script": script, "reason": reason})
    assert answer.status_code == 202, answer.text
    waiting: dict[str, Any] = answer.json()
    return waiting


def test_reviewer_on_a_phone_sees_the_whole_script_and_approves_it(ann: Visit, bob: httpx.Client) -> None:
    waiting = submit(bob, UPDATE)
    page = ann.page
    page.reload()
    page.get_by_role("link", name="shop-demo").first.click()
    expect(page.get_by_text(UPDATE)).to_be_visible()
    expect(page.get_by_text("ticket 4711")).to_be_visible()
    expect(page.get_by_text("Bob (bob@example.com)")).to_be_visible()
    assert ann.accessibility() == []
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.get_by_label("Comment for the requester").fill("fine")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_text("Approved").first).to_be_visible()
    expect(page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
    done = bob.post(f"/sessions/{waiting['session_id']}/exec")
    assert done.status_code in {200, 202}, done.text


def test_rejection_reaches_the_requester_with_its_reason(ann: Visit, bob: httpx.Client) -> None:
    waiting = submit(bob, UPDATE)
    ann.page.goto(waiting["review"]["url"])  # as in notifications
    ann.page.get_by_label("Comment for the requester").fill("not on a Friday")
    ann.page.get_by_role("button", name="Reject").click()
    expect(ann.page.get_by_text("Rejected").first).to_be_visible()
    review = bob.get(f"/reviews/{waiting['review']['id']}").json()
    assert (review["status"], review["rejection_reason"]) == ("REJECTED", "not on a Friday")


def test_review_is_decided_without_javascript(browser: Browser, ann: Visit, bob: httpx.Client) -> None:
    waiting = submit(bob, UPDATE)
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(waiting["review"]["url"])
        page.get_by_role("link", name="continue without JavaScript").click()
        page.get_by_label("E-mail address").fill("ann@example.com")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("main")).to_contain_text(UPDATE)
        page.get_by_role("button", name="Approve", exact=True).click()
        expect(page.get_by_role("main")).to_contain_text("APPROVED")
    assert bob.get(f"/reviews/{waiting['review']['id']}").json()["status"] == "APPROVED"


def test_decision_of_another_reviewer_meanwhile_is_reported(ann: Visit, bob: httpx.Client, people: People) -> None:
    ann.expected_errors.append("409 (Conflict)")
    waiting = submit(bob, UPDATE)
    ann.page.route("**/api/events/stream*", lambda _: None)  # the page is not told before the click
    ann.open(f"/reviews/{waiting['review']['id']}")
    approve = ann.page.get_by_role("button", name="Approve", exact=True)
    expect(approve).to_be_visible()
    people.ask("PUT", f"/reviews/{waiting['review']['id']}", {"status": "REJECTED", "comment": "no"})
    approve.click()
    expect(ann.page.get_by_text("Rejected").first).to_be_visible()
    expect(ann.page.get_by_text("no", exact=True).first).to_be_visible()


def test_request_for_a_credential_names_it_and_is_withdrawn_when_it_is_revoked(ann: Visit, bob: httpx.Client) -> None:
    credential = bob.post("/connections/shop-demo/credentials", json={}).json()
    body = {"connection": "shop-demo", "credential_id": credential["id"], "access_duration": 600}
    review = bob.post("/reviews", json=body).json()["review"]
    ann.page.reload()
    row = ann.page.get_by_role("row").filter(has_text=credential["username"])
    expect(row).to_contain_text("Access for a time (in advance, for this credential)")
    expect(row).to_contain_text(review["client_address"])
    assert ann.accessibility() == []
    assert ann.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    row.get_by_role("link", name="shop-demo").click()
    main = ann.page.get_by_role("main")
    expect(main).to_contain_text(f"with credential {credential['username']} ({credential['id']})")
    assert ann.accessibility() == []
    assert ann.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert bob.post(f"/credentials/{credential['id']}/revoke").is_success
    expect(main).to_contain_text("Withdrawn")
    expect(main).to_contain_text(f"credential '{credential['username']}' was revoked")
    expect(ann.page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
    ann.open("/reviews")
    expect(ann.page.get_by_role("heading", level=1, name="Reviews")).to_be_visible()
    expect(ann.page.get_by_text(credential["username"])).to_have_count(0)


def test_attack_invisible_characters_and_markup_of_a_script_are_shown_as_text(ann: Visit, bob: httpx.Client) -> None:
    waiting = submit(bob, HOSTILE, reason="<b>urgent</b>")
    ann.open(f"/reviews/{waiting['review']['id']}")
    script = ann.page.get_by_label("Script", exact=True)
    expect(script).to_contain_text("<img src=x onerror=alert(1)>")
    expect(script).to_contain_text("U+202E")
    expect(script).to_contain_text("U+200B")
    expect(ann.page.get_by_text("<b>urgent</b>")).to_be_visible()
    assert ann.page.locator("main img[src=x]").count() == 0


def test_requester_sees_the_request_and_no_approval_button(
    browser: Browser, gateway: Gateway, bob: httpx.Client
) -> None:
    submit(bob, UPDATE)
    with visiting_as(browser, gateway, "bob@example.com", "/reviews?view=mine") as visit:
        visit.page.get_by_role("link", name="shop-demo").first.click()
        expect(visit.page.get_by_text(UPDATE)).to_be_visible()
        expect(visit.page.get_by_role("button", name="Approve")).to_have_count(0)
        assert visit.accessibility() == []


def test_review_of_another_organisation_or_none_is_not_found(ann: Visit) -> None:
    ann.expected_errors.append("404 (Not Found)")
    ann.open("/reviews/7a4c3d0e-0000-4000-8000-000000000000")
    expect(ann.page.get_by_role("alert")).to_be_visible()
