"""The SQL editor with a large schema, and results of many rows."""

from __future__ import annotations

import random

from bench.results import Results
from bench.web import figures as f
from bench.web.chromium import TimedPage, login, new_page, percentile, visitor
from bench.web.web_site import DEMO, LARGE, WebSite
from playwright.sync_api import Browser
from tests.web.controls import run_script

_POPUP = "document.querySelector('.cm-tooltip-autocomplete li')"
_ROWS = "Number(document.querySelector('[role=grid]').getAttribute('aria-rowcount')) - 1"
_CELL = "document.querySelector('[role=grid] [role=gridcell]')"
_STATEMENT = "select column_1, column_2 from table_12 where column_3 = 'a' and column_4 = "
_READ = 'performance.getEntriesByType("resource").find(({ name }) => new URL(name).pathname.endsWith("/results"))'
# When the gateway recorded the first row of the page's script, by the browser's clock. Rows are sent from the record,
# whose times are milliseconds from the session's start.
_RECORDED = """async (path) => {
  const answer = await fetch(`${path.replace(/\\/results$/, "")}?expand=event_stream`);
  const { start_date, event_stream } = await answer.json();
  const [after] = event_stream.find(([, kind]) => kind === "o");
  return Date.parse(start_date) + after - performance.timeOrigin;
}"""
_SCROLL = """async ({ frames, step }) => {
  const grid = document.querySelector("[role=grid]");
  const times = [];
  let cells = 0;
  let before = await new Promise(requestAnimationFrame);
  for (let frame = 0; frame < frames; frame += 1) {
    grid.scrollTop += step;
    grid.scrollLeft = (frame * 37) % Math.max(grid.scrollWidth - grid.clientWidth, 1);
    const now = await new Promise(requestAnimationFrame);
    times.push(now - before);
    before = now;
    cells = Math.max(cells, grid.querySelectorAll("[role=gridcell]").length);
  }
  return { times, cells };
}"""
_JUMP = """async (part) => {
  const grid = document.querySelector("[role=grid]");
  const rows = Number(grid.getAttribute("aria-rowcount")) - 1;
  const began = performance.now();
  const row = Math.floor(part * (rows - 20));
  grid.scrollTop = row * 28;
  const passes = () => grid.querySelector(`[role=row][aria-rowindex="${row + 3}"] [role=gridcell]`);
  return (await window.__bench.until(passes)) - began;
}"""


def editor(browser: Browser, site: WebSite, results: Results) -> None:
    state = login(browser, site)
    with visitor(browser, state) as context:
        page = new_page(context, site.url)
        page.open(f"/sql/{LARGE}")
        page.page.get_by_role("textbox", name="Script").wait_for()
        page.wait("document.querySelector('section[aria-label=Tables] li')")
        _keys(page, site, results)
        _complete(page, site, results)
    for _ in range(site.sizes.repeats):
        with visitor(browser, state) as context:  # in one that has run a script, the page shows its rows again
            _first_rows(new_page(context, site.url), results)
    with visitor(browser, state) as context:
        _large_result(new_page(context, site.url), site, results)


def _keys(page: TimedPage, site: WebSite, results: Results) -> None:
    """Type a statement, and take the time of each key until the next frame."""
    keyboard = page.page.keyboard
    page.page.get_by_role("textbox", name="Script").click()
    keyboard.insert_text(_STATEMENT)
    times: list[float] = []
    for number in range(site.sizes.keys):
        with page.timed("keydown", "true", times):
            keyboard.press("abcdefgh"[number % 8])
        page.page.wait_for_timeout(60)
    keyboard.press("Escape")
    f.add(results, f.EDITOR_KEY, percentile(times, 0.95))


def _complete(page: TimedPage, site: WebSite, results: Results) -> None:
    """Type the first letter of a column's name; of all tables when there is none yet."""
    keyboard = page.page.keyboard
    times: list[float] = []
    for number in range(site.sizes.repeats):
        keyboard.press("Control+a")
        keyboard.press("Delete")
        keyboard.insert_text("select * from table_12 where " if number % 2 else "select * from ")
        page.wait(f"!{_POPUP}")
        page.page.wait_for_timeout(500)
        with page.timed("keydown", _POPUP, times):
            keyboard.press("c" if number % 2 else "t")
        keyboard.press("Escape")
    for value in times:
        f.add(results, f.COMPLETION, value)


def _first_rows(page: TimedPage, results: Results) -> None:
    page.open(f"/sql/{DEMO}")
    page.page.get_by_role("textbox", name="Script").wait_for()
    page.page.wait_for_load_state("networkidle")
    began, shown = _run(page, "select id, name from customers limit 10")
    f.add(results, f.RUN, shown - began)
    page.wait(_READ)
    path = page.page.evaluate(f"new URL({_READ}.name).pathname")
    f.add(results, f.FIRST_ROW, shown - float(page.page.evaluate(_RECORDED, path)))


def _run(page: TimedPage, script: str) -> tuple[float, float]:
    """Run a script; return when the key was pressed and when the first row was on screen."""
    page.page.evaluate(
        "addEventListener('keydown', (event) => { if (event.key === 'Enter') window.__began = event.timeStamp; }, true)"
    )
    page.page.evaluate(f"() => {{ window.__shown = window.__bench.until(() => {_CELL}); }}")
    run_script(page.page, script)
    shown = float(page.page.evaluate("() => window.__shown"))
    return float(page.page.evaluate("window.__began")), shown


def _rows_in_the_end(page: TimedPage) -> int:
    """Return how many rows the grid has once it gets no more; the gateway keeps a part of a large result."""
    rows, before = int(page.page.evaluate(_ROWS)), -1
    while rows != before:
        page.page.wait_for_timeout(2_000)
        rows, before = int(page.page.evaluate(_ROWS)), rows
    return rows


def _large_result(page: TimedPage, site: WebSite, results: Results) -> None:
    page.open(f"/sql/{LARGE}")
    page.page.get_by_role("textbox", name="Script").wait_for()
    page.page.wait_for_load_state("networkidle")
    began, shown = _run(page, "select * from cells")
    f.add(results, f.GRID_LOAD, shown - began)
    f.add(results, f.GRID_ROWS, _rows_in_the_end(page))
    frames = 30 * site.sizes.repeats
    for step in (84, 2_800):
        seen = page.page.evaluate(_SCROLL, {"frames": frames, "step": step})
        f.add(results, f.GRID_FRAME, percentile(seen["times"], 0.95))
        f.add(results, f.GRID_CELLS, seen["cells"])
    chance = random.Random(7)
    for _ in range(site.sizes.repeats):
        f.add(results, f.GRID_JUMP, float(page.page.evaluate(_JUMP, chance.random())))
    f.add(results, f.GRID_MEMORY, page.heap() / 1e6)
