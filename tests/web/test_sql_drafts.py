"""What is typed in the SQL editor stays: in tabs, after a reload, and until the user logs out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.support.promises import wait_until
from tests.support.running import Gateway
from tests.web.conftest import Visit, visiting_as
from tests.web.controls import run_script
from tests.web.people import ADMIN, People

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]

PATH = "/sql/shop-demo"
# The scripts of all drafts that the browser has stored, of any user.
STORED = """() => new Promise((resolve, reject) => {
  const opening = indexedDB.open("postern drafts");
  opening.onerror = () => reject(opening.error);
  opening.onsuccess = () => {
    const database = opening.result;
    if (!database.objectStoreNames.contains("drafts")) return resolve([]);
    const reading = database.transaction("drafts").objectStore("drafts").getAll();
    reading.onsuccess = () => { database.close(); resolve(reading.result.map(({ script }) => script).sort()); };
  };
})"""


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, PATH) as visit:
        yield visit


def editor_of(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Script", exact=True)


def write(page: Page, script: str) -> None:
    editor = editor_of(page)
    editor.press("Control+a")
    editor.press("Delete")
    page.keyboard.insert_text(script)


def tab(page: Page, name: str) -> Locator:
    return page.get_by_role("tablist", name="Scripts").get_by_role("tab", name=name, exact=True)


def stored(page: Page) -> Any:
    return page.evaluate(STORED)


def expect_stored(page: Page, *scripts: str) -> None:
    wait_until(lambda: stored(page) == sorted(scripts))


def test_script_survives_another_screen_and_a_reload_at_once(admin: Visit) -> None:
    page = admin.page
    write(page, "select 'kept' as a where 1 = :one")
    page.get_by_label(":one").fill("1")
    page.get_by_label("Reason, if a review is needed").fill("ticket 12")
    page.get_by_role("link", name="Connections").first.click()
    expect(page.get_by_role("heading", level=1, name="Connections")).to_be_visible()
    page.go_back()
    expect(editor_of(page)).to_have_text("select 'kept' as a where 1 = :one")
    expect(page.get_by_label(":one")).to_have_value("1")
    editor_of(page).press("Control+End")
    page.keyboard.insert_text(" -- last words")
    page.reload()
    expect(editor_of(page)).to_have_text("select 'kept' as a where 1 = :one -- last words")
    expect(page.get_by_label("Reason, if a review is needed")).to_have_value("ticket 12")


def test_run_button_runs_what_was_typed_just_before(admin: Visit) -> None:
    page = admin.page
    write(page, "select 'a' as letter")
    run = page.get_by_role("button", name="Run", exact=True)
    expect(run).to_be_enabled()
    editor_of(page).press("Control+End")
    run.evaluate("""async (button) => {
      document.execCommand("insertText", false, " union all select 'b'");
      await null; // the editor reads what has changed
      button.click();
    }""")
    cells = page.get_by_role("grid", name="Result 1").get_by_role("gridcell")
    expect(cells).to_have_text(["a", "b"])


def test_each_tab_has_its_script_and_run_and_comes_back_after_a_reload(admin: Visit) -> None:
    page = admin.page
    run_script(page, "select n, repeat('x', 1000) as f, pg_sleep(0.02) from generate_series(1, 200) n")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.get_by_role("button", name="New script").click()
    expect(editor_of(page)).to_be_focused()
    run_script(page, "select 'second' as b")
    expect(page.get_by_role("grid", name="Result 1").get_by_role("columnheader")).to_have_text(["b text"])
    assert admin.accessibility() == []
    page.get_by_role("button", name="Rename").click()
    page.get_by_role("dialog").get_by_label("Name").fill("Totals")
    page.get_by_role("button", name="Save").click()
    tab(page, "Totals").focus()
    page.keyboard.press("ArrowLeft")
    expect(tab(page, "Script 1")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_text("200 rows", exact=True)).to_be_visible()
    tab(page, "Totals").click()
    page.reload()
    expect(tab(page, "Totals")).to_have_attribute("aria-selected", "true")
    expect(editor_of(page)).to_have_text("select 'second' as b")
    expect(page.get_by_role("grid", name="Result 1").get_by_role("gridcell")).to_have_text(["second"])
    tab(page, "Script 1").click()
    expect(page.get_by_text("200 rows", exact=True)).to_be_visible()


def test_closed_script_can_be_reopened_and_delete_closes_a_tab(admin: Visit) -> None:
    page = admin.page
    write(page, "select 1")
    page.get_by_role("button", name="New script").click()
    write(page, "select 2")
    expect_stored(page, "select 1", "select 2")
    tab(page, "Script 2").focus()
    page.keyboard.press("Delete")
    expect(page.get_by_text("Script 2 is closed.")).to_be_visible()
    expect(tab(page, "Script 2")).to_have_count(0)
    expect(tab(page, "Script 1")).to_be_focused()
    expect(editor_of(page)).to_have_text("select 1")
    expect_stored(page, "select 1")
    page.get_by_role("button", name="Reopen").click()
    expect(editor_of(page)).to_have_text("select 2")
    expect_stored(page, "select 1", "select 2")
    page.get_by_role("button", name="Close script").click()
    page.get_by_role("button", name="Close script").click()
    expect(editor_of(page)).to_have_text("")
    expect(page.get_by_role("tab")).to_have_count(1)
    assert admin.accessibility() == []


def test_two_browser_tabs_do_not_touch_each_others_scripts(admin: Visit) -> None:
    page = admin.page
    write(page, "select 'first'")
    expect_stored(page, "select 'first'")
    other = page.context.new_page()
    other.goto(admin.url + PATH)
    expect(editor_of(other)).to_have_text("")
    write(other, "select 'other'")
    expect_stored(page, "select 'first'", "select 'other'")
    page.reload()
    expect(editor_of(page)).to_have_text("select 'first'")
    expect(page.get_by_role("tab")).to_have_count(1)
    other.close()
    page.reload()
    expect(page.get_by_role("tab")).to_have_count(2)


def test_held_script_is_followed_again_after_a_reload(browser: Browser, gateway: Gateway, people: People) -> None:
    ann = people.create("ann-drafts@example.com", "dba")
    people.create("bob-drafts@example.com")
    people.ask("PATCH", "/connections/shop-demo", {"reviewers": ["dba"]})
    try:
        with visiting_as(browser, gateway, "bob-drafts@example.com", PATH) as bob:
            page = bob.page
            run_script(page, "select 'approved' as a")
            expect(page.get_by_text("This script waits for approval by dba.")).to_be_visible()
            page.get_by_role("button", name="New script").click()
            write(page, "select 'meanwhile'")
            expect_stored(page, "select 'approved' as a", "select 'meanwhile'")
            with page.expect_response(lambda answer: answer.url.endswith("/exec")):
                page.reload()  # the tab that is not looked at follows its run
            expect(editor_of(page)).to_have_text("select 'meanwhile'")
            review = ann.get("/reviews", params={"status": "PENDING"}).json()["data"][0]["id"]
            answer = ann.put(f"/reviews/{review}", json={"status": "APPROVED"})
            assert answer.is_success, answer.text
            tab(page, "Script 1").click()
            grid = page.get_by_role("grid", name="Result 1")
            expect(grid.get_by_role("gridcell")).to_have_text(["approved"], timeout=30_000)
    finally:
        people.ask("PATCH", "/connections/shop-demo", {"reviewers": []})


def test_attack_no_draft_is_left_for_others_after_a_log_out(admin: Visit, people: People) -> None:
    admin.expected_errors.append("401 (Unauthorized)")  # what is under way when the login ends
    page = admin.page
    write(page, "select 'secret'")
    other = page.context.new_page()
    other.goto(admin.url + PATH)
    write(other, "select 'secret, too'")
    expect_stored(page, "select 'secret'", "select 'secret, too'")
    editor_of(other).press("Control+End")
    other.keyboard.insert_text(" -- not stored yet")
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(f"{admin.url}/login")
    expect(other).to_have_url(f"{admin.url}/login?next=%2Fsql%2Fshop-demo")
    expect_stored(page)
    other.wait_for_timeout(1_000)  # longer than drafts wait to be stored
    assert stored(page) == []


def test_attack_drafts_of_a_login_that_expired_are_not_left_for_the_next_user(admin: Visit, people: People) -> None:
    people.create("carol-drafts@example.com")
    admin.expected_errors.append("401 (Unauthorized)")
    page = admin.page
    write(page, "select 'secret'")
    expect_stored(page, "select 'secret'")
    page.context.clear_cookies()
    admin.open(PATH)
    admin.log_in(ADMIN)
    expect(editor_of(page)).to_have_text("select 'secret'")  # the same user has it back
    page.context.clear_cookies()
    admin.open(PATH)
    admin.log_in("carol-drafts@example.com")
    expect(editor_of(page)).to_have_text("")
    assert stored(page) == []


def test_error_is_marked_at_its_place_in_the_selection_and_moves_with_the_text(admin: Visit) -> None:
    page = admin.page
    run_script(page, "select '😀';\nselect nothing from customers")
    problems = page.get_by_role("region", name="Problems in the script")
    button = problems.get_by_role("button", name='Line 2: error. column "nothing" does not exist')
    expect(button).to_be_visible()
    marked = page.locator(".cm-mark-error")
    expect(marked).to_have_text("nothing")
    expect(page.locator(".cm-signs [title*=nothing]")).to_have_text("✕")
    assert admin.accessibility() == []
    editor = editor_of(page)
    editor.press("Control+Home")
    page.keyboard.insert_text("-- a\n")
    expect(problems.get_by_role("button", name="Line 3: error")).to_be_visible()
    problems.get_by_role("button", name="Line 3: error").click()
    expect(editor).to_be_focused()
    page.keyboard.insert_text("x")
    expect(editor).to_contain_text("select xnothing from")
    editor.press("Control+z")
    editor.press("Control+Shift+Enter")  # only the statement at the cursor
    expect(problems.get_by_role("button", name="Line 3: error")).to_be_visible()
    expect(marked).to_have_text("nothing")
    page.reload()
    expect(problems.get_by_role("button", name="Line 3: error")).to_be_visible()
    expect(marked).to_have_text("nothing")
    editor.press("Control+Home")
    editor.press("F8")
    expect(page.locator(".cm-announced")).to_contain_text('Line 3: error. column "nothing" does not exist')
    run_script(page, "select 1")
    expect(marked).to_have_count(0)


def test_statements_that_would_be_refused_are_marked(admin: Visit) -> None:
    page = admin.page
    write(page, "select 1;\ndrop table customers")
    problems = page.get_by_role("region", name="Problems in the script")
    expect(problems.get_by_role("button", name="Line 2: would be refused")).to_be_visible()
    expect(page.locator(".cm-mark-deny")).to_have_text("drop table customers")
    assert admin.accessibility() == []
    write(page, "select 1")
    expect(problems).to_have_count(0)


def test_script_is_formatted_in_one_step_and_stays_if_it_cannot_be_read(admin: Visit) -> None:
    page = admin.page
    script = "Select a,b from t where x=:id"
    write(page, script)
    editor = editor_of(page)
    editor.press("Shift+Alt+F")
    lines = editor.locator(".cm-line")
    expect(lines).to_have_text(["Select", "  a,", "  b", "from", "  t", "where", "  x = :id"])
    expect(page.get_by_label(":id")).to_be_visible()
    editor.press("Control+z")
    expect(editor).to_have_text(script)
    write(page, "select 'open")
    page.get_by_role("button", name="Format").click()
    expect(page.get_by_text("The formatter cannot read this script")).to_be_visible()
    expect(editor).to_have_text("select 'open")
    assert admin.accessibility() == []
