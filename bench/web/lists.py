"""The list of many sessions: opened, filtered, searched, and read on."""

from __future__ import annotations

from bench.results import Results
from bench.session_data import COMMON, RARE
from bench.web import figures as f
from bench.web.chromium import TimedPage, login, new_page, visitor
from bench.web.loading import HOME_USABLE
from bench.web.web_site import WebSite
from playwright.sync_api import Browser

_ROWS = "document.querySelectorAll('main tbody tr').length"
_KEPT = "window.__before = document.querySelector('main').textContent"
_CHANGED = "document.querySelector('main').textContent !== window.__before"
_VIEWS = ("Open", "With masked values")
_PAGES = 9  # of 100 rows each, after the first one


def lists(browser: Browser, site: WebSite, results: Results) -> None:
    state = login(browser, site)
    for number in range(site.sizes.repeats):
        with visitor(browser, state) as context:
            page = new_page(context, site.url, usable=HOME_USABLE)
            _open(page, results)
            _filter(page, results)
            _search(page, results)
            if number == 0:
                _read_on(page, results)


def _open(page: TimedPage, results: Results) -> None:
    page.open("/")
    page.wait("window.__bench.loaded !== null")
    link = page.page.get_by_role("link", name="Sessions", exact=True)
    link.hover()
    page.page.wait_for_timeout(300)  # the screen's scripts are loaded as soon as the mouse is there
    times: list[float] = []
    with page.timed("click", f"{_ROWS} > 0", times):
        link.click()
    f.add(results, f.SESSIONS_OPEN, times[0])


def _filter(page: TimedPage, results: Results) -> None:
    times: list[float] = []
    for view in _VIEWS:
        page.page.evaluate(_KEPT)
        with page.timed("click", _CHANGED, times):
            page.page.get_by_role("link", name=view, exact=True).click()
        page.page.get_by_role("link", name="All", exact=True).click()
        page.wait(f"{_ROWS} === 100")
    for value in times:
        f.add(results, f.SESSIONS_FILTER, value)


def _search(page: TimedPage, results: Results) -> None:
    times: list[float] = []
    for words in (RARE, COMMON, "customers"):
        page.page.evaluate(_KEPT)
        field = page.page.get_by_label("Search in sessions")
        field.fill("")
        page.page.keyboard.insert_text(words)
        with page.timed("keydown", _CHANGED, times):
            page.page.keyboard.press("Enter")
        page.page.wait_for_timeout(400)  # what is typed is searched for by itself after a pause
    for value in times:
        f.add(results, f.SESSIONS_SEARCH, value)
    page.page.get_by_label("Search in sessions").fill("")
    page.page.keyboard.press("Enter")
    page.page.wait_for_load_state("networkidle")


def _read_on(page: TimedPage, results: Results) -> None:
    more = page.page.get_by_role("button", name="Load more")
    for number in range(1, _PAGES):
        more.click()
        page.wait(f"{_ROWS} >= {number + 1} * 100")
    times: list[float] = []
    with page.timed("click", f"{_ROWS} > {_PAGES} * 100", times):
        more.click()
    f.add(results, f.SESSIONS_MORE, times[0])
