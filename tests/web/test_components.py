"""Single components in Chromium, without a gateway: the grid of results and the SQL editor.

Vite serves `web/components`, which is not part of what is built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.support.postgres import free_port
from tests.support.promises import wait_until
from tests.web.conftest import AXE, DESKTOP, ROOT, require

pytestmark = pytest.mark.ci

VITE = AXE.parents[1] / "vite" / "bin" / "vite.js"
Show = Callable[[str], Page]


@pytest.fixture(scope="module")
def components_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    node = shutil.which("node", path=path)
    require(node is not None and VITE.is_file(), "Node or its packages are missing; run `make web`")
    assert node is not None
    home = tmp_path_factory.mktemp("vite")
    port, log = free_port(), home / "log"
    command = [node, str(VITE), "--config", "components/vite.config.ts", "--port", str(port), "--strictPort"]
    environment = os.environ | {"POSTERN_VITE_CACHE": str(home / "cache")}
    with log.open("w") as output:
        server = subprocess.Popen(command, cwd=ROOT / "web", env=environment, stdout=output, stderr=output)
    try:
        wait_until(lambda: "Local" in log.read_text())
        yield f"http://localhost:{port}"
    finally:
        server.terminate()
        server.wait()


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
    page.evaluate(AXE.read_text())
    result: dict[str, Any] = page.evaluate("() => window.axe.run('[role=grid]')")
    assert [found["id"] for found in result["violations"]] == []


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


def editor_of(page: Page) -> Locator:
    editor = page.get_by_role("textbox", name="Script")
    editor.focus()
    return editor


def ran(page: Page) -> list[str]:
    """The texts that the editor ran."""
    found: list[str] = page.evaluate("() => window.calls.filter(([name]) => name === 'run').map(([, text]) => text)")
    return found


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
    assert page.evaluate("() => window.calls.findLast(([name]) => name === 'select')") == ["select", "select"]


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
