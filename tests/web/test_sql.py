"""Scripts in the browser: rows with masked values, errors in their place, and approval in the same tab."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.support.running import Gateway
from tests.web.conftest import PHONE, Visit, visiting, visiting_as
from tests.web.controls import run_script
from tests.web.people import ADMIN, People

pytestmark = pytest.mark.ci


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/sql/shop-demo") as visit:
        yield visit


def test_rows_are_shown_with_masked_values(admin: Visit) -> None:
    run_script(admin.page, "select id, email from customers order by id limit 3")
    grid = admin.page.get_by_role("grid", name="Result 1")
    expect(grid.get_by_role("columnheader")).to_have_text(["id int4", "email text"])
    expect(grid.get_by_role("row")).to_have_count(4)
    email = grid.get_by_role("gridcell").nth(1)
    expect(email).to_contain_text("(masked)")
    expect(grid.get_by_role("gridcell").first).not_to_contain_text("(masked)")
    expect(admin.page.get_by_role("list", name="Masked columns")).to_contain_text("email: Masked by")
    expect(grid).to_contain_text("*")
    assert not re.search(r"\w@\w+\.\w", grid.inner_text())
    expect(admin.page.get_by_text("3 rows")).to_be_visible()
    link = admin.page.get_by_role("link", name="Download as CSV")
    assert "safe=true" in (link.get_attribute("href") or "")  # spreadsheets evaluate nothing in it
    assert admin.accessibility() == []


def test_refused_statement_shows_the_guardrail_and_what_to_do(admin: Visit) -> None:
    run_script(admin.page, "drop table customers")
    alert = admin.page.get_by_role("alert")
    expect(alert).to_contain_text("blocked by guardrail")
    expect(alert).to_contain_text("administrator")


def test_error_of_the_database_names_its_line(admin: Visit) -> None:
    run_script(admin.page, "select 1;\nselect nothing from customers")
    alert = admin.page.get_by_role("alert")
    expect(alert).to_contain_text('column "nothing" does not exist')
    expect(alert).to_contain_text("2: select nothing from customers")


def test_each_statement_has_its_result_and_null_differs_from_an_empty_text(admin: Visit) -> None:
    run_script(admin.page, "select null as a, '' as b; select 2 as c")
    first = admin.page.get_by_role("grid", name="Result 1")
    expect(first.get_by_role("gridcell")).to_have_text(["NULL", ""])
    expect(admin.page.get_by_role("grid", name="Result 2").get_by_role("gridcell")).to_have_text(["2"])


def test_large_result_has_only_the_cells_in_view_and_moves_by_keyboard(admin: Visit) -> None:
    columns = ", ".join(f"n as c{number}" for number in range(40))
    run_script(admin.page, f"select {columns} from generate_series(1, 5000) n")
    grid = admin.page.get_by_role("grid", name="Result 1")
    expect(grid).to_have_attribute("aria-rowcount", "5001")
    assert grid.get_by_role("gridcell").count() < 1_000
    grid.focus()
    grid.press("Control+End")
    expect(grid.get_by_role("gridcell", name="5000").last).to_be_visible()
    grid.press("Home")
    expect(grid.locator("[data-current]")).to_have_text("5000")
    assert grid.get_by_role("gridcell").count() < 1_000


def test_attack_values_and_column_names_are_shown_as_text(admin: Visit) -> None:
    name = "<script>alert(2)</script>"
    run_script(admin.page, f"select '<img src=x onerror=alert(1)>' as \"{name}\", E'a\\u202eb' as \"__proto__\"")
    grid = admin.page.get_by_role("grid", name="Result 1")
    expect(grid.get_by_role("columnheader").first).to_contain_text(name)
    expect(grid).to_contain_text("<img src=x onerror=alert(1)>")
    expect(grid).to_contain_text("U+202E")
    assert admin.page.locator("main img[src=x]").count() == 0


def write(page: Page, script: str) -> None:
    editor = page.get_by_role("textbox", name="Script")
    editor.press("Control+a")
    editor.press("Delete")
    page.keyboard.insert_text(script)


def test_refusal_and_effects_are_shown_before_the_script_runs(admin: Visit) -> None:
    preview = admin.page.get_by_role("region", name="Preview")
    write(admin.page, "drop table customers")
    expect(preview).to_contain_text("Would be refused")
    expect(preview).to_contain_text("blocked by guardrail")
    write(admin.page, "delete from orders")
    expect(preview).to_contain_text("changes all rows")
    write(admin.page, "select 1")
    expect(preview).to_contain_text("Would run")
    assert admin.accessibility() == []


def test_columns_of_the_statements_tables_are_offered_first(admin: Visit) -> None:
    page = admin.page
    expect(page.get_by_role("region", name="Tables")).to_contain_text("customers")
    write(page, "select  from customers")
    for _ in range(len(" from customers")):
        page.keyboard.press("ArrowLeft")
    page.keyboard.type("em")
    expect(page.get_by_role("option").first).to_contain_text("email")
    page.get_by_role("option").first.click()
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("grid", name="Result 1").get_by_role("columnheader")).to_have_text(["email text"])


def test_name_of_the_tree_goes_to_the_editor(admin: Visit) -> None:
    page = admin.page
    tree = page.get_by_role("region", name="Tables")
    tree.get_by_label("Find a table or column").fill("customers")
    tree.get_by_text("customers", exact=True).first.click()
    write(page, "select * from ")
    tree.get_by_role("button", name="Insert name").first.click()
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("grid", name="Result 1")).to_be_visible()


def test_values_of_placeholders_are_bound_and_not_part_of_the_sql(admin: Visit) -> None:
    page = admin.page
    write(page, "select :word as word")
    page.get_by_label(":word").fill("it's '; select 2 --")
    page.get_by_role("button", name="Run", exact=True).click()
    grid = page.get_by_role("grid", name="Result 1")
    expect(grid.get_by_role("gridcell")).to_have_text(["it's '; select 2 --"])


def test_selection_runs_alone_and_a_past_script_comes_back(admin: Visit) -> None:
    page = admin.page
    write(page, "select 'first' as a; select 'second' as b")
    page.keyboard.press("Control+Shift+Enter")
    expect(page.get_by_role("grid", name="Result 1").get_by_role("columnheader")).to_have_text(["b text"])
    page.get_by_role("button", name="History").click()
    past = page.get_by_role("dialog").get_by_role("row").filter(has_text="select 'second' as b").first
    past.get_by_role("button", name="Use this script").click()
    expect(page.get_by_role("textbox", name="Script")).to_have_text("select 'second' as b")


def test_script_that_runs_long_can_be_stopped(admin: Visit) -> None:
    run_script(admin.page, "select pg_sleep(60)")
    stop = admin.page.get_by_role("button", name="Stop")
    expect(stop).to_be_visible(timeout=15_000)
    stop.click()
    expect(admin.page.get_by_role("alert")).to_contain_text("killed", timeout=15_000)


def test_held_script_runs_in_the_same_tab_after_approval_on_a_phone(
    browser: Browser, gateway: Gateway, people: People
) -> None:
    people.create("ann@example.com", "dba")
    people.create("bob@example.com")
    people.ask("PATCH", "/connections/shop-demo", {"reviewers": ["dba"]})
    try:
        with visiting(browser, gateway) as bob, visiting(browser, gateway, PHONE) as ann:
            bob.open("/connections")
            bob.log_in("bob@example.com")
            bob.page.get_by_role("link", name="SQL").click()
            bob.page.get_by_label("Reason, if a review is needed").fill("ticket 4711")
            run_script(bob.page, "select count(*) as customers from customers")
            expect(bob.page.get_by_text("This script waits for approval by dba.")).to_be_visible()
            assert bob.accessibility() == []
            ann.open("/")
            ann.log_in("ann@example.com")
            ann.page.get_by_role("link", name="shop-demo").click()
            expect(ann.page.get_by_text("ticket 4711")).to_be_visible()
            ann.page.get_by_role("button", name="Approve", exact=True).click()
            grid = bob.page.get_by_role("grid", name="Result 1")
            expect(grid.get_by_role("columnheader")).to_have_text(["customers int8"], timeout=30_000)
            run_script(bob.page, "select 1 as once_more")
            expect(bob.page.get_by_text("This script waits for approval by dba.")).to_be_visible()
            bob.page.get_by_role("button", name="Withdraw").click()
            expect(bob.page.get_by_text("This script did not run. Its review: withdrawn.")).to_be_visible(
                timeout=30_000
            )
    finally:
        people.ask("PATCH", "/connections/shop-demo", {"reviewers": []})


def test_connection_that_is_missing_is_reported(admin: Visit) -> None:
    admin.expected_errors.append("404 (Not Found)")
    admin.open("/sql/missing")
    expect(admin.page.get_by_role("alert")).to_contain_text("missing")
