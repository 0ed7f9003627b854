"""Guardrails in the browser: written from a preset, tried while typing, simulated, switched off and on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect
from tests.support.running import Gateway
from tests.web.conftest import Visit, visiting, visiting_as
from tests.web.controls import add_name, choose
from tests.web.people import ADMIN, People

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@pytest.fixture(scope="module")
def bob(people: People) -> httpx.Client:
    return people.create("bob@example.com")


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/guardrails") as visit:
        yield visit


def run(user: httpx.Client, script: str) -> dict[str, Any]:
    """Return what came of a script on the demo's connection."""
    answer = user.post("/sessions", json={"connection": "shop-demo", "script": script}, headers={"Prefer": "wait=20"})
    assert answer.is_success, answer.text
    ran: dict[str, Any] = answer.json()
    return ran


def test_guardrail_from_files_says_that_changes_will_be_overwritten(admin: Visit, people: People) -> None:
    people.ask("POST", "/guardrails", {"name": "from-files", "input": {"rules": []}, "managed_by": "team/a"})
    admin.open("/guardrails/from-files")
    expect(admin.page.get_by_text("This is managed by team/a, a configuration in files;")).to_be_visible()
    admin.page.get_by_label("Description").fill("by hand")
    admin.page.get_by_role("button", name="Save guardrail").click()
    expect(admin.page.get_by_text("Saved.")).to_be_visible()
    assert people.ask("GET", "/guardrails/from-files")["managed_by"] == "team/a"
    assert people.admin.delete("/guardrails/from-files").status_code == 204


def test_guardrail_from_a_preset_is_tried_created_and_applies(admin: Visit, bob: httpx.Client) -> None:
    page = admin.page
    assert run(bob, "set statement_timeout = 1000")["exit_code"] == 0
    page.get_by_role("link", name="New guardrail").click()
    choose(page, "Start with", "warn-unsafe-writes")
    expect(page).to_have_url(f"{admin.url}/guardrails/new?preset=warn-unsafe-writes")
    expect(page.get_by_label("Name", exact=True)).to_have_value("warn-unsafe-writes")
    page.get_by_label("Name", exact=True).fill("no settings")
    rule = page.get_by_role("region", name="Rules for input: Rule 1")
    choose(rule.page, "Type", "Statements by what they do")
    rule.get_by_role("checkbox", name="changes settings of the session").check(force=True)
    choose(page, "Action", "Deny")
    rule.get_by_label("Message to the user").fill("Ask for a longer timeout.")
    page.get_by_label("Statement to try").fill("set statement_timeout = 1000")
    expect(page.get_by_text("Denied", exact=True)).to_be_visible()
    expect(page.get_by_text("Ask for a longer timeout. [no settings")).to_be_visible()
    expect(page.get_by_role("table", name="What is read in it")).to_contain_text("session")
    page.get_by_label("Statement to try").fill("select 1")
    expect(page.get_by_text("Allowed", exact=True)).to_be_visible()
    add_name(page, "Connections", "shop-demo")
    assert admin.accessibility() == []
    page.get_by_role("button", name="Create guardrail").click()
    expect(page.get_by_role("heading", level=1, name="Guardrail no settings")).to_be_visible()
    refused = run(bob, "set statement_timeout = 1000")
    assert "Ask for a longer timeout." in refused["error"]["text"]


def test_switched_off_it_applies_no_longer(admin: Visit, people: People, bob: httpx.Client) -> None:
    shop = people.ask("GET", "/connections/shop-demo")["id"]
    rules = {"rules": [{"type": "deny_words_list", "words": ["forbidden"]}]}
    people.ask("POST", "/guardrails", {"name": "words", "connection_ids": [shop], "input": rules})
    assert run(bob, "select 'forbidden'")["error"]
    page = admin.page
    page.reload()
    row = page.get_by_role("row").filter(has_text="words")
    expect(row.get_by_text("shop-demo")).to_be_visible()
    row.get_by_role("button", name="Switch off").click()
    dialog = page.get_by_role("dialog", name="Switch off words?")
    expect(dialog).to_contain_text("1 connection")
    dialog.get_by_role("button", name="Switch off").click()
    expect(row.get_by_text("Off", exact=True)).to_be_visible()
    assert run(bob, "select 'forbidden'")["exit_code"] == 0
    row.get_by_role("button", name="Switch on").click()
    expect(row.get_by_text("On", exact=True)).to_be_visible()
    assert run(bob, "select 'forbidden'")["error"]


def test_simulation_counts_by_user_and_compares_with_the_saved_rules(
    admin: Visit, people: People, bob: httpx.Client
) -> None:
    rules = {"rules": [{"type": "pattern_match", "pattern_regex": "never-matches", "name": "marker"}]}
    people.ask("POST", "/guardrails", {"name": "counted", "input": rules})
    run(bob, f"select 'marker-47' as \"{HOSTILE.replace(chr(34), '')}\"")
    page = admin.page
    admin.open("/guardrails/counted?panel=simulate")
    expect(page.get_by_role("button", name="Compare with saved rules")).to_have_count(0)
    page.get_by_label("Regular expression").fill("marker-[0-9]+")
    page.get_by_role("button", name="Compare with saved rules").click()
    summary = page.get_by_role("table", name="What the rules would have done")
    expect(summary.get_by_role("row").filter(has_text="Rule marker")).to_contain_text("+1", timeout=60_000)
    users = page.get_by_role("table", name="By connection and user")
    expect(users).to_contain_text("bob@example.com")
    examples = page.get_by_role("table", name="Examples")
    expect(examples).to_contain_text("U+202E")
    assert page.locator("main img[src=x]").count() == 0
    assert admin.accessibility() == []
    with page.expect_popup() as opened:
        users.get_by_role("link", name="Session 1").click()
    expect(opened.value.get_by_text("marker-47").first).to_be_visible()
    opened.value.close()


def test_change_of_a_colleague_meanwhile_is_not_overwritten(admin: Visit, people: People) -> None:
    admin.expected_errors += ["412 (Precondition Failed)", "422 (Unprocessable"]
    people.ask("POST", "/guardrails", {"name": "shared"})
    page = admin.page
    admin.open("/guardrails/shared")
    page.get_by_label("Description").fill("mine")
    people.ask("PATCH", "/guardrails/shared", {"description": "theirs"})
    page.get_by_role("button", name="Save guardrail").click()
    expect(page.get_by_text("Another user changed it while you edited.")).to_be_visible()
    page.get_by_role("button", name="Load it again").click()
    expect(page.get_by_label("Description")).to_have_value("theirs")
    page.get_by_role("button", name="Add input rule").click()
    page.get_by_role("button", name="Save guardrail").click()
    expect(page.get_by_role("alert")).to_contain_text("deny_statements needs effects, objects, or both")
    page.get_by_role("button", name="Delete guardrail").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete guardrail").click()
    expect(page).to_have_url(f"{admin.url}/guardrails")
    assert people.admin.get("/guardrails/shared").status_code == 404


def test_auditor_tries_a_guardrail_and_cannot_change_it(browser: Browser, gateway: Gateway, people: People) -> None:
    people.create("carol@example.com", "auditor")
    rules = {"rules": [{"type": "deny_words_list", "words": [HOSTILE], "name": "hostile"}]}
    people.ask("POST", "/guardrails", {"name": "read me", "description": HOSTILE, "input": rules})
    with visiting_as(browser, gateway, "carol@example.com", "/guardrails/read me") as visit:
        page = visit.page
        expect(page.get_by_label("Name", exact=True)).to_be_disabled()
        expect(page.get_by_role("button", name="Save guardrail")).to_have_count(0)
        expect(page.get_by_role("button", name="Delete guardrail")).to_have_count(0)
        page.get_by_label("Statement to try").fill("drop table x")
        expect(page.get_by_text("Allowed", exact=True)).to_be_visible()
        page.get_by_role("link", name="All guardrails").click()
        expect(page.get_by_text("<img src=x onerror=alert(1)>").first).to_be_visible()
        expect(page.get_by_role("link", name="New guardrail")).to_have_count(0)
        assert visit.accessibility() == []


def test_standard_user_reads_no_guardrails(browser: Browser, gateway: Gateway, bob: httpx.Client) -> None:
    with visiting(browser, gateway) as visit:
        visit.expected_errors.append("403 (Forbidden)")
        visit.open("/guardrails")
        visit.log_in("bob@example.com")
        expect(visit.page.get_by_role("alert")).to_contain_text("administrators and auditors")
        expect(visit.page.get_by_role("link", name="Guardrails")).to_have_count(0)
