"""Scripts in the browser: rows with masked values, errors in their place, and approval in the same tab."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.support.running import Gateway
from tests.web.conftest import PHONE, Visit, visiting, visiting_as
from tests.web.controls import opened_result, result_tabs, run_script
from tests.web.people import ADMIN, People

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]


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
    expect(admin.page.get_by_text("3 rows", exact=True)).to_be_visible()
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
    expect(result_tabs(admin.page)).to_have_text(["1: 1 row", "2: 1 row"])
    assert admin.accessibility() == []
    admin.page.get_by_role("tab", name="2: 1 row").click()
    expect(admin.page.get_by_role("grid", name="Result 2").get_by_role("gridcell")).to_have_text(["2"])


def test_error_is_seen_beside_each_result(admin: Visit) -> None:
    page = admin.page
    run_script(page, "set application_name = 'mine'; select id from customers where id < 3; select 1 / 0")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("division by zero")
    expect(opened_result(page)).to_have_text("2: 2 rows")
    page.get_by_role("tab", name="1: SET").click()
    expect(page.get_by_role("region", name="Result 1")).to_contain_text("SET")
    expect(alert).to_be_visible()
    assert admin.accessibility() == []


def test_rows_are_sorted_found_and_viewed(admin: Visit) -> None:
    page = admin.page
    run_script(page, "select id, email, to_jsonb(name) from customers order by id limit 12")
    grid = page.get_by_role("grid", name="Result 1")
    cells = grid.locator("[role=gridcell][aria-colindex='1']")
    expect(cells).to_have_text([str(number) for number in range(1, 13)])
    grid.get_by_role("columnheader", name="id").click()
    grid.get_by_role("columnheader", name="id").click()
    expect(cells).to_have_text([str(number) for number in range(12, 0, -1)])
    page.get_by_role("searchbox", name="Find in these rows").fill("12")
    expect(page.get_by_text("of 12 rows")).to_be_visible()
    assert admin.accessibility() == []
    grid.press("Control+Home")
    grid.press("Enter")
    record = page.get_by_role("dialog")
    expect(record.get_by_role("definition").first).to_have_text("12")
    expect(record.get_by_role("definition").nth(1)).to_contain_text("(masked)")
    assert admin.accessibility() == []


def test_plan_of_a_query_is_a_tree_or_a_text(admin: Visit) -> None:
    page = admin.page
    query = "select * from orders o join customers c on c.id = o.customer_id order by c.name"
    run_script(page, f"explain (analyze, format json) {query}")
    steps = page.get_by_role("region", name="Steps")
    expect(steps.get_by_role("listitem").first).to_contain_text("Sort")
    expect(steps).to_contain_text("Seq Scan customers c")
    expect(steps).to_contain_text("% of the time")
    expect(page.get_by_role("region", name="Plan as text")).to_contain_text('"Node Type": "Sort"')
    assert admin.accessibility() == []
    run_script(page, f"explain {query}")
    expect(steps).to_have_count(0)
    expect(page.get_by_role("region", name="Plan as text")).to_contain_text("->")
    expect(page.get_by_role("grid")).to_have_count(0)


# The most cells that a grid has while it is scrolled in both directions, by a little and far.
MOST_CELLS = """async (grid) => {
  let most = 0;
  for (let frame = 0; frame < 40; frame += 1) {
    grid.scrollTop += frame % 2 ? 84 : 2_800;
    grid.scrollLeft = (frame * 37) % (grid.scrollWidth - grid.clientWidth);
    await new Promise(requestAnimationFrame);
    most = Math.max(most, grid.querySelectorAll("[role=gridcell]").length);
  }
  return most;
}"""


def test_large_result_has_only_the_cells_in_view_and_moves_by_keyboard(admin: Visit) -> None:
    columns = ", ".join(f"n as c{number}" for number in range(40))
    run_script(admin.page, f"select {columns} from generate_series(1, 5000) n")
    grid = admin.page.get_by_role("grid", name="Result 1")
    expect(grid).to_have_attribute("aria-rowcount", "5001")
    assert grid.get_by_role("gridcell").count() <= 400
    assert grid.evaluate(MOST_CELLS) <= 400
    grid.focus()
    grid.press("Control+End")
    expect(grid.get_by_role("gridcell", name="5000").last).to_be_visible()
    grid.press("Home")
    expect(grid.locator("[data-current]")).to_have_text("5000")
    assert grid.get_by_role("gridcell").count() <= 400


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


SLOW = "select n, repeat('x', 1000) as filling, pg_sleep(0.04) from generate_series(1, {rows}) n"
# PostgreSQL sends rows by 8 KiB, so there are some after a third of a second.


def running(page: Page) -> Locator:
    """The button that is there as long as the script runs."""
    return page.get_by_role("button", name="Stop")


def test_rows_of_slow_statements_are_shown_before_the_script_ends(admin: Visit) -> None:
    page = admin.page
    run_script(page, f"{SLOW.format(rows=200)}; select 'between' as b; {SLOW.format(rows=2_000)}")
    grid = page.get_by_role("grid", name="Result 1")
    expect(grid.get_by_role("gridcell", name="1", exact=True)).to_be_visible()
    first = page.get_by_role("region", name="Result 1")
    expect(first).to_contain_text("rows so far")
    expect(page.get_by_text("Statement 1 of 3,")).to_be_visible()
    expect(running(page)).to_be_visible()
    assert int(grid.get_attribute("aria-rowcount") or 0) < 201
    expect(page.get_by_text("Statement 3 of 3,")).to_be_visible()
    expect(first).to_contain_text("200 rows")
    expect(first).not_to_contain_text("so far")
    expect(opened_result(page)).to_have_text("1: 200 rows")
    page.get_by_role("tab", name="2: 1 row").click()
    expect(page.get_by_role("grid", name="Result 2").get_by_role("gridcell")).to_have_text(["between"])
    page.get_by_role("tab", name="rows so far").click()
    expect(page.get_by_role("region", name="Result 3")).to_contain_text("rows so far")
    assert admin.accessibility() == []
    running(page).click()
    expect(page.get_by_role("alert")).to_contain_text("killed", timeout=15_000)
    expect(page.get_by_text("so far")).to_have_count(0)
    expect(page.get_by_role("grid", name="Result 3")).to_be_visible()


def test_cells_are_marked_as_masked_while_the_script_runs(admin: Visit) -> None:
    page = admin.page
    run_script(page, "select email, repeat('x', 4000), pg_sleep(0.5) from customers limit 20")
    grid = page.get_by_role("grid", name="Result 1")
    expect(grid.get_by_role("gridcell").first).to_contain_text("(masked)")
    expect(page.get_by_role("list", name="Masked columns")).to_contain_text("email: Masked by")
    expect(running(page)).to_be_visible()
    assert not re.search(r"\w@\w+\.\w", grid.inner_text())
    running(page).click()
    expect(page.get_by_role("alert")).to_contain_text("killed", timeout=15_000)


# The first stream breaks once it has brought rows.
BREAK = """
const ask = window.fetch;
window.asked = [];
window.fetch = async (request, options) => {
  const answer = await ask(request, options);
  if (!request.url?.includes("follow=true")) return answer;
  window.asked.push(Number(new URL(request.url).searchParams.get("from_row") ?? 0));
  if (window.asked.length > 1) return answer;
  const reader = answer.body.getReader();
  let text = "";
  return new Response(new ReadableStream({ async pull(controller) {
    const { value, done } = await reader.read();
    text += new TextDecoder().decode(value);
    controller.enqueue(value);
    if (done || text.includes('"type": "rows"')) {
      await reader.cancel();
      controller.error(new TypeError("network error"));
    }
  } }, { highWaterMark: 0 }), { status: answer.status, headers: answer.headers });
};
"""


def test_stream_that_breaks_continues_with_the_next_row(admin: Visit) -> None:
    page = admin.page
    page.add_init_script(BREAK)
    admin.open("/sql/shop-demo")
    run_script(page, SLOW.format(rows=60))
    grid = page.get_by_role("grid", name="Result 1")
    expect(running(page)).to_be_visible()
    expect(running(page)).to_have_count(0)
    expect(page.get_by_text("60 rows", exact=True)).to_be_visible()
    first, *rest = page.evaluate("() => window.asked")
    assert first == 0
    assert len(rest) == 1
    assert 0 < rest[0] < 60
    expect(grid.get_by_role("gridcell", name=str(rest[0] + 1), exact=True)).to_have_count(1)
    grid.press("Control+End")
    expect(grid.get_by_role("gridcell", name="60", exact=True)).to_be_visible()


def test_rows_beyond_the_limit_of_the_recording_are_said_to_be_missing(admin: Visit) -> None:
    page = admin.page
    run_script(page, "select repeat('x', 10000) as filling from generate_series(1, 2000)")
    expect(page.get_by_role("region", name="Result 1")).to_contain_text("the recording holds no more rows")
    count = int(page.get_by_role("grid", name="Result 1").get_attribute("aria-rowcount") or 0) - 1
    assert 1_000 < count < 2_000
    expect(page.get_by_role("region", name="Result 1")).to_contain_text(f"{count} rows")


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
