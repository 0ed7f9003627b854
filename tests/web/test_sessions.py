"""Sessions in the browser: finding one, reading what it did, and ending it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from tests.support.promises import wait_until
from tests.support.running import Gateway
from tests.web.conftest import PHONE, Visit, visiting, visiting_as
from tests.web.people import ADMIN, People

HOSTILE = 'select 1 as "<img src=x onerror=alert(1)>" -- \u202e'

pytestmark = pytest.mark.ci


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/sessions") as visit:
        yield visit


def run(people: People, script: str) -> dict[str, Any]:
    answer: dict[str, Any] = people.admin.post("/sessions", json={"connection": "shop-demo", "script": script}).json()
    return answer


def test_session_is_found_by_a_word_of_its_statements_and_opens(admin: Visit, people: People) -> None:
    done = run(people, "select 'zanzibar' as island")
    run(people, "select 2")
    page = admin.page
    search = page.get_by_label("Search in sessions")
    # The text of a session can be searched once its recording is indexed.
    for _ in range(90):
        search.fill("zanzibar")
        search.press("Enter")
        page.wait_for_timeout(500)  # also until the list is drawn: a click on a row that is replaced is lost
        if page.get_by_role("link", name="shop-demo").count() == 1:
            break
        page.reload()
    expect(page).to_have_url(f"{admin.url}/sessions?search=zanzibar")
    page.get_by_role("link", name="shop-demo").click()
    expect(page).to_have_url(f"{admin.url}/sessions/{done['session_id']}")
    statements = page.get_by_label("Statements and output")
    expect(statements).to_contain_text("select 'zanzibar' as island")
    expect(statements).to_contain_text("1 row")
    expect(page.get_by_text("Succeeded")).to_be_visible()
    assert admin.accessibility() == []


def test_refused_statement_is_marked_and_found_by_its_filter(admin: Visit, people: People) -> None:
    refused = run(people, "drop table customers")
    admin.page.get_by_role("link", name="With refusals").click()
    expect(admin.page).to_have_url(f"{admin.url}/sessions?refused=yes")
    expect(admin.page.get_by_role("link", name="shop-demo")).to_have_count(1)
    admin.open(f"/sessions/{refused['session_id']}")
    expect(admin.page.get_by_label("Statements and output")).to_contain_text("blocked by guardrail")


def test_open_session_shows_its_statements_and_can_be_ended(admin: Visit, people: People) -> None:
    answer = people.admin.post(
        "/sessions", json={"connection": "shop-demo", "script": "select pg_sleep(60)"}, headers={"Prefer": "wait=1"}
    )
    admin.open(f"/sessions/{answer.json()['session_id']}")
    expect(admin.page.get_by_label("Statements and output")).to_contain_text("pg_sleep", timeout=15_000)
    admin.page.get_by_role("button", name="End this session").click()
    expect(admin.page.get_by_text("Killed", exact=True)).to_be_visible(timeout=15_000)
    expect(admin.page.get_by_role("button", name="End this session")).to_have_count(0)


def test_attack_statements_are_shown_as_text_with_marks(admin: Visit, people: People) -> None:
    done = run(people, HOSTILE)
    admin.open(f"/sessions/{done['session_id']}")
    statements = admin.page.get_by_label("Statements and output")
    expect(statements).to_contain_text("<img src=x onerror=alert(1)>")
    expect(statements).to_contain_text("U+202E")
    assert admin.page.locator("main img[src=x]").count() == 0


def test_session_of_another_user_is_not_found(browser: Browser, gateway: Gateway, people: People) -> None:
    people.create("eve@example.com")
    done = run(people, "select 1")
    with visiting(browser, gateway, PHONE) as eve:
        eve.expected_errors.append("404 (Not Found)")
        eve.open(f"/sessions/{done['session_id']}")
        eve.log_in("eve@example.com")
        expect(eve.page.get_by_role("alert")).to_be_visible()
        eve.open("/sessions")
        expect(eve.page.get_by_text("There are no sessions yet.")).to_be_visible()
        assert eve.accessibility() == []


def test_record_of_a_session_is_verified(admin: Visit, people: People) -> None:
    done = run(people, "select email from customers limit 2")
    proof = f"/sessions/{done['session_id']}/proof"
    wait_until(lambda: people.ask("GET", proof)["closed"], 60)
    people.ask("POST", "/recordings/checkpoints")
    admin.open(f"/sessions/{done['session_id']}")
    expect(admin.page.get_by_label("Statements and output")).to_contain_text("2 values masked")
    admin.page.get_by_role("link", name="Results").click()
    expect(admin.page.get_by_role("grid", name="Result 1")).to_contain_text("(masked)")
    admin.page.get_by_role("link", name="Proof").click()
    expect(admin.page.get_by_text("a signed checkpoint covers it")).to_be_visible()
    admin.page.get_by_role("button", name="Verify now").click()
    expect(admin.page.get_by_text("neither the session nor its recording was changed")).to_be_visible()
    assert admin.accessibility() == []
