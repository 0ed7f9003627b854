"""Single components in Chromium, without a gateway: the grid of results and the SQL editor.

Vite serves `web/components`, which is not part of what is built."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.web.conftest import DESKTOP, PHONE, violations
from tests.web.vite import running_vite

pytestmark = pytest.mark.ci

Show = Callable[[str], Page]


@pytest.fixture(scope="module")
def components_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("vite")
    options = ("--config", "components/vite.config.ts")
    with running_vite(home, *options, POSTERN_VITE_CACHE=str(home / "cache")) as url:
        yield url


@pytest.fixture
def show(browser: Browser, components_url: str) -> Iterator[Show]:
    """Show a scene of `web/components/main.tsx`. An error in the page fails the test."""
    context = browser.new_context(viewport=DESKTOP, permissions=["clipboard-read", "clipboard-write"])
    context.set_default_timeout(60_000)
    errors: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))

    def open_scene(scene: str) -> Page:
        page.goto(f"{components_url}/?scene={scene}")
        expect(page.locator("#root > *")).to_have_count(1, timeout=60_000)  # the first one is compiled now
        return page

    yield open_scene
    context.close()
    assert errors == []


def grid_of(page: Page) -> Locator:
    grid = page.get_by_role("grid", name="Cells")
    grid.focus()
    return grid


def copied(grid: Locator) -> str:
    grid.press("Control+c")
    text: str = grid.page.evaluate("() => navigator.clipboard.readText()")
    return text


CURSOR = "[data-current]"


def test_grid_of_5_million_cells_has_only_those_in_view(show: Show) -> None:
    grid = grid_of(show("large"))
    expect(grid).to_have_attribute("aria-rowcount", "100001")
    expect(grid).to_have_attribute("aria-colcount", "50")
    for key in ("ArrowDown", "PageDown", "Control+End", "PageUp", "Home", "Control+Home"):
        grid.press(key)
        assert 0 < grid.get_by_role("gridcell").count() <= 400


def test_keyboard_moves_to_all_corners_and_not_beyond(show: Show) -> None:
    grid = grid_of(show("large"))
    steps = [
        ("ArrowUp", "0:0"),
        ("ArrowLeft", "0:0"),
        ("End", "0:49"),
        ("ArrowRight", "0:49"),
        ("Control+End", "99999:49"),
        ("PageDown", "99999:49"),
        ("Home", "99999:0"),
        ("PageUp", "99979:0"),
        ("ArrowDown", "99980:0"),
        ("ArrowRight", "99980:1"),
        ("Control+Home", "0:0"),
        ("PageDown", "20:0"),
    ]
    for key, cell in steps:
        grid.press(key)
        expect(grid.locator(CURSOR)).to_have_text(cell)
        expect(grid.locator(CURSOR)).to_be_in_viewport()
        current = grid.locator(CURSOR).get_attribute("id")
        expect(grid).to_have_attribute("aria-activedescendant", current or "missing")


def test_selection_is_copied_with_tabs(show: Show) -> None:
    grid = grid_of(show("large"))
    assert copied(grid) == "0:0"
    grid.press("ArrowRight")
    grid.press("Shift+ArrowDown")
    grid.press("Shift+ArrowRight")
    expect(grid.get_by_role("gridcell", selected=True)).to_have_text(["0:1", "0:2", "1:1", "1:2"])
    assert copied(grid) == "0:1\t0:2\n1:1\t1:2"
    grid.get_by_role("gridcell", name="3:0", exact=True).click()
    expect(grid.get_by_role("gridcell", selected=True)).to_have_text(["3:0"])
    grid.get_by_role("gridcell", name="2:1", exact=True).click(modifiers=["Shift"])
    assert copied(grid) == "2:0\t2:1\n3:0\t3:1"
    grid.press("Control+Home")
    grid.press("Control+Shift+End")
    text = copied(grid)
    assert text.count("\n") == 99_999
    assert text.endswith("99999:48\t99999:49")


def test_attack_copied_formulas_are_texts(show: Show) -> None:
    grid = grid_of(show("texts"))
    grid.press("Control+a")
    assert copied(grid) == '\'=1+1\t"a\tb"\n\'+cmd\t"two\nlines"\n-5\t"say ""hi"""\na\u202eb\0c\t'


def test_masked_cells_are_announced_and_invisible_characters_are_marks(show: Show) -> None:
    page = show("texts")
    cells = grid_of(page).get_by_role("gridcell")
    expect(cells.nth(0)).not_to_contain_text("(masked)")
    expect(cells.nth(1)).to_contain_text("(masked)")
    expect(cells.nth(2)).to_contain_text("(masked)")
    expect(cells.nth(2).locator("[title]")).to_have_attribute("title", re.compile("replace; found as CREDIT_CARD"))
    expect(cells.nth(6)).to_have_text("aU+202EbU+0000c")
    expect(cells.nth(7)).to_contain_text("NULL")
    assert violations(page, "[role=grid]") == {}


def test_columns_are_as_wide_as_their_values_within_limits(show: Show) -> None:
    page = show("huge")
    grid = page.get_by_role("grid")
    widths = [header.bounding_box() for header in grid.get_by_role("columnheader").all()]
    assert [box and round(box["width"]) for box in widths] == [320, 112]
    wide = show("wide").get_by_role("columnheader").first.bounding_box()
    assert wide is not None
    assert wide["width"] == 80


def test_attack_10_000_columns_and_a_cell_of_100_mb_are_bounded(show: Show) -> None:
    page = show("huge")
    assert len(page.get_by_role("grid").inner_text()) < 2_000
    expect(page.get_by_role("grid")).to_contain_text("(100000000 characters in all)")
    grid = grid_of(show("wide"))
    assert grid.get_by_role("gridcell").count() <= 400
    grid.press("End")
    expect(grid.locator(CURSOR)).to_have_text("0:9999")
    assert grid.get_by_role("gridcell").count() <= 400


def test_grid_without_rows_takes_keys(show: Show) -> None:
    grid = grid_of(show("empty"))
    for key in ("ArrowDown", "Control+End", "Control+a", "Control+c"):
        grid.press(key)
    expect(grid.get_by_role("columnheader")).to_have_count(3)
    expect(grid.get_by_role("gridcell")).to_have_count(0)


def shown(grid: Locator, column: int) -> list[str]:
    """The values of a column, in the order shown."""
    return grid.locator(f'[role=gridcell][aria-colindex="{column + 1}"]').all_inner_texts()


def header_of(grid: Locator, name: str) -> Locator:
    return grid.get_by_role("columnheader", name=name)


def accessibility(page: Page) -> list[str]:
    # A page of a component has no landmarks.
    return [rule for rule in violations(page, "#root") if rule not in {"region", "page-has-heading-one"}]


def test_rows_are_sorted_by_a_click_on_a_column_and_masks_stay_on_their_cells(show: Show) -> None:
    page = show("typed")
    grid = grid_of(page)
    header = header_of(grid, "id")
    orders = [
        ("ascending", ["-2", "9", "10", "NULL"]),
        ("descending", ["10", "9", "-2", "NULL"]),
        (None, ["10", "9", "NULL", "-2"]),
    ]
    for order, values in orders:
        header.click()
        assert header.get_attribute("aria-sort") == order
        assert shown(grid, 0) == values
        (masked,) = grid.get_by_role("row").filter(has_text="(masked)").all()
        expect(masked.get_by_role("gridcell").nth(1)).to_contain_text("beta")
    expect(page.get_by_role("status")).to_be_empty()
    header_of(grid, "name").click()
    expect(page.get_by_role("status")).to_contain_text("Sorts the rows shown here by name, ascending.")
    assert accessibility(page) == []
    page.get_by_role("button", name="Order as they came").click()
    assert shown(grid, 0) == ["10", "9", "NULL", "-2"]


def test_keys_sort_and_copies_have_the_shown_order(show: Show) -> None:
    grid = grid_of(show("typed"))
    grid.press("Alt+Shift+ArrowUp")
    assert shown(grid, 0) == ["-2", "9", "10", "NULL"]
    grid.press("ArrowDown")
    grid.press("Shift+ArrowDown")
    assert copied(grid) == "9\n10"
    grid.press("Alt+Shift+ArrowDown")
    assert shown(grid, 0) == ["10", "9", "-2", "NULL"]
    assert copied(grid) == "9\n-2"
    grid.press("Alt+Shift+ArrowDown")
    assert shown(grid, 0) == ["10", "9", "NULL", "-2"]
    described = grid.get_attribute("aria-describedby")
    expect(grid.page.locator(f'[id="{described}"]')).to_contain_text("sorts the rows shown here")


def test_sorting_waits_while_rows_come(show: Show) -> None:
    page = show("growing")
    grid = grid_of(page)
    grid.press("Alt+Shift+ArrowUp")
    assert shown(grid, 0) == ["10", "9", "NULL", "-2"]
    expect(page.get_by_role("status")).to_contain_text("once all rows have come")


def test_100_000_rows_are_sorted(show: Show) -> None:
    page = show("large")
    grid = grid_of(page)
    header = header_of(grid, "c3")
    header.click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    grid.press("Control+Home")
    expect(grid.locator(CURSOR)).to_have_text("0:0")
    grid.press("ArrowDown")
    expect(grid.locator(CURSOR)).to_have_text("10000:0")  # the order of texts
    assert grid.get_by_role("gridcell").count() <= 400


def test_rows_with_a_text_are_found(show: Show) -> None:
    page = show("typed")
    grid = page.get_by_role("grid")
    find = page.get_by_role("searchbox", name="Find in these rows")
    find.fill("A")
    expect(page.get_by_role("status")).to_contain_text("3 of 4 rows")
    assert [text.split()[0] for text in shown(grid, 1)] == ["beta", "alpha", "gamma"]
    expect(grid).to_have_attribute("aria-rowcount", "4")
    find.fill("alph")
    expect(page.get_by_role("status")).to_contain_text("1 of 4 rows")
    grid.focus()
    grid.press("Control+a")
    assert copied(grid) == "9\talpha\t"
    find.fill("nowhere")
    expect(page.get_by_role("status")).to_contain_text("No row has “nowhere”.")
    expect(page.get_by_role("button", name="View row")).to_be_disabled()
    assert accessibility(page) == []


def width_of(header: Locator) -> int:
    box = header.bounding_box()
    assert box is not None
    return round(box["width"])


def test_columns_change_their_width_by_keys_and_by_dragging(show: Show) -> None:
    page = show("typed")
    grid = grid_of(page)
    header, other = header_of(grid, "id"), header_of(grid, "name")
    before, left = width_of(header), other.bounding_box()
    grid.press("Alt+Shift+ArrowRight")
    assert width_of(header) == before + 24
    grid.press("Alt+Shift+ArrowLeft")
    assert width_of(header) == before
    for _ in range(20):
        grid.press("Alt+Shift+ArrowLeft")
    assert width_of(header) == 40
    box, moved = header.bounding_box(), other.bounding_box()
    assert box is not None
    assert left is not None
    assert moved is not None
    assert round(left["x"] - moved["x"]) == before - 40
    page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] + 97, box["y"] + 10, steps=4)
    page.mouse.up()
    assert width_of(header) == 140
    assert header.get_attribute("aria-sort") is None  # the border is not the column
    box = other.bounding_box()
    assert box is not None
    page.mouse.dblclick(box["x"] + box["width"] - 3, box["y"] + 10)
    assert width_of(other) == 2_000  # at most
    grid.press("Alt+Shift+Enter")
    assert width_of(header) == len("id int4") * 8 + 24


def test_a_row_is_viewed_whole_and_left_to_its_cell(show: Show) -> None:
    page = show("typed")
    grid = grid_of(page)
    grid.press("ArrowRight")
    grid.press("Enter")
    record = page.get_by_role("dialog", name="Row 1 of 4")
    expect(record.get_by_role("term")).to_have_text(["id", "name", "data"])
    values = record.get_by_role("definition")
    expect(values.nth(1)).to_contain_text("(masked)")
    expect(values.nth(1)).to_contain_text("Masked by the rule people: hash")
    expect(values.nth(2).locator("pre")).to_have_text(
        '{\n  "id": 12345678901234567890,\n  "tags": [\n    "a",\n    "b"\n  ]\n}', use_inner_text=True
    )
    expect(record.get_by_role("button", name="Previous row")).to_be_disabled()
    assert accessibility(page) == []
    record.get_by_role("button", name="Next row").click()
    expect(page.get_by_role("dialog", name="Row 2 of 4").get_by_role("definition").nth(2)).to_have_text("NULL")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(grid).to_be_focused()
    expect(grid.locator(CURSOR)).to_have_text("alpha")
    grid.get_by_role("gridcell", name="gamma").dblclick()
    expect(page.get_by_role("dialog", name="Row 3 of 4")).to_be_visible()


def test_a_row_is_viewed_on_a_phone(show: Show) -> None:
    page = show("typed")
    page.set_viewport_size(PHONE)
    grid = grid_of(page)
    grid.press("Control+End")
    page.get_by_role("button", name="View row").click()
    record = page.get_by_role("dialog", name="Row 4 of 4")
    expect(record.get_by_role("definition").nth(1)).to_have_text("x" * 400)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
    assert record.evaluate("(dialog) => dialog.scrollWidth <= dialog.clientWidth")
    assert accessibility(page) == []


def test_attack_a_row_of_10_000_columns_and_a_value_of_100_mb_are_bounded(show: Show) -> None:
    page = show("huge")
    grid_of(page).press("Enter")
    record = page.get_by_role("dialog")
    expect(record).to_contain_text("(100000000 characters in all)")
    assert len(record.inner_text()) < 110_000
    page = show("wide")
    grid_of(page).press("Enter")
    expect(page.get_by_role("dialog").get_by_role("definition")).to_have_count(500)
    expect(page.get_by_role("dialog")).to_contain_text("The first 500 of 10000 columns.")


def test_results_of_a_long_script_are_tabs_of_which_few_are_drawn(show: Show) -> None:
    page = show("script")
    tabs = page.get_by_role("tab")
    expect(tabs).to_have_count(20)
    expect(page.get_by_role("tab", selected=True)).to_have_text("10: 9 rows")  # the first one with rows
    expect(tabs.first).to_have_text("1: INSERT 0 0")
    expect(page.get_by_role("grid")).to_have_count(1)
    expect(page.get_by_text("Results 1 to 20 of 300")).to_be_visible()
    assert accessibility(page) == []
    grid = page.get_by_role("grid", name="Result 10")
    grid.press("Control+End")
    tabs.nth(19).click()
    expect(page.get_by_role("grid", name="Result 20")).to_be_visible()
    page.get_by_role("tab", selected=True).press("ArrowLeft")
    expect(page.get_by_role("tabpanel").and_(page.locator(":visible"))).to_contain_text("INSERT 0 18")
    tabs.nth(9).click()
    expect(grid.locator(CURSOR)).to_have_text("8")  # as it was left
    for _ in range(14):
        page.get_by_role("button", name="Later results").click()
    expect(page.get_by_role("button", name="Later results")).to_be_disabled()
    expect(tabs).to_have_count(20)
    expect(tabs.last).to_have_text("300: failed")
    tabs.last.click()
    expect(page.get_by_role("region", name="Result 300")).to_contain_text("This statement failed.")


def test_plan_is_a_tree_beside_its_text(show: Show) -> None:
    page = show("plan")
    steps = page.get_by_role("region", name="Steps")
    expect(steps.get_by_role("listitem")).to_have_count(2)
    expect(steps.get_by_role("listitem").first).to_contain_text("75 % of the cost")
    inner = steps.get_by_role("listitem").nth(1)
    expect(inner).to_contain_text("Seq Scan orders")
    expect(inner).to_contain_text("9,000 rows expected · cost 25")
    expect(inner).to_contain_text("25 % of the cost")
    expect(page.get_by_role("region", name="Plan as text")).to_contain_text('"Node Type": "Sort"')
    expect(page.get_by_role("grid")).to_have_count(0)
    assert accessibility(page) == []
    page.set_viewport_size(PHONE)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]


def test_text_plan_keeps_its_lines(show: Show) -> None:
    page = show("textPlan")
    text = page.get_by_role("region", name="Plan as text")
    expect(text).to_have_text("Seq Scan on orders\n  Filter: (a = 1)", use_inner_text=True)
    expect(page.get_by_role("grid")).to_have_count(0)


def editor_of(page: Page) -> Locator:
    editor = page.get_by_role("textbox", name="Script")
    editor.focus()
    return editor


def ran(page: Page) -> list[str]:
    """The texts that the editor ran."""
    calls: list[tuple[str, dict[str, str]]] = page.evaluate("() => window.calls.filter(([name]) => name === 'run')")
    return [piece["text"] for _, piece in calls]


def test_columns_are_completed_after_an_alias(show: Show) -> None:
    page = show("editor")
    editor = editor_of(page)
    page.keyboard.insert_text("select  from orders o join customers c on true")
    editor.press("Home")
    for _ in "select ":
        editor.press("ArrowRight")
    page.keyboard.type("o.")
    expect(page.get_by_role("option")).to_have_text(["idtext", "Total Sumtext"])
    page.get_by_role("option").nth(1).click()
    expect(editor).to_have_text('select o."Total Sum" from orders o join customers c on true')


def test_selection_statement_at_the_cursor_or_all_is_run(show: Show) -> None:
    page = show("editor")
    editor = editor_of(page)
    page.keyboard.insert_text("select 1; select ';'; select 3")
    editor.press("Control+Enter")
    editor.press("Control+Shift+Enter")
    editor.press("Home")
    editor.press("Control+Shift+Enter")
    for _ in "select":
        editor.press("Shift+ArrowRight")
    editor.press("Control+Enter")
    assert ran(page) == ["select 1; select ';'; select 3", "select 3", "select 1", "select"]
    assert page.evaluate("() => window.calls.findLast(([name]) => name === 'select')[1]") == {
        "text": "select",
        "from": 0,
    }


def test_undo_brings_back_what_was_replaced(show: Show) -> None:
    page = show("editor")
    editor = editor_of(page)
    page.keyboard.insert_text("select 'mine'")
    page.get_by_role("button", name="Replace").click()
    expect(editor).to_have_text("select 'replaced'")
    expect(editor).to_be_focused()
    editor.press("Control+z")
    expect(editor).to_have_text("select 'mine'")
    editor.press("Control+y")
    expect(editor).to_have_text("select 'replaced'")
    page.get_by_role("button", name="Insert").click()
    expect(editor).to_contain_text("inserted")
    editor.press("Control+z")
    expect(editor).to_have_text("select 'replaced'")


def test_attack_invisible_characters_of_a_script_are_seen(show: Show) -> None:
    page = show("editor")
    editor = editor_of(page)
    page.keyboard.insert_text("select 'a\u202eb\u200b'")
    expect(editor.locator(".cm-specialChar")).to_have_count(2)
    editor.press("Control+Enter")
    assert ran(page) == ["select 'a\u202eb\u200b'"]
