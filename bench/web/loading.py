"""What pages load, how soon home can be used, and how soon clicks and keys show."""

from __future__ import annotations

from typing import Any

from bench.results import Results
from bench.web import figures as f
from bench.web.chromium import TimedPage, login, new_page, percentile, visitor
from bench.web.web_site import DEMO, WebSite
from playwright.sync_api import Browser, BrowserContext

HOME_USABLE = (
    "document.querySelector('section[aria-label=\"Your open sessions\"] :is(li, p)') &&"
    "document.querySelector('section[aria-label=\"Your connections\"] ul') &&"
    "!document.querySelector('main [aria-hidden=true] > div')"
)
_LOGIN_USABLE = "document.querySelector('input[type=password]')"
_HEADING = "document.querySelector('main h1')"
# Everything that was loaded until the page could be used, the page itself included.
_LOADED = """() => {
  const until = window.__bench.loaded;
  const paint = performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
  const entries = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .map(({ name, startTime, encodedBodySize }) => ({ path: new URL(name).pathname, startTime, encodedBodySize }));
  return { until, paint, entries };
}"""


def loading(browser: Browser, site: WebSite, results: Results) -> None:
    state = login(browser, site)
    _login_page(browser, site, results)
    for _ in range(site.sizes.repeats):
        for slow in (False, True):
            _home(browser, site, state, results, slow=slow)
    for path, figure in f.ON_TOP.items():
        f.add(results, figure, _on_top(browser, site, state, path))
    _interactions(browser, site, state, results)


def _login_page(browser: Browser, site: WebSite, results: Results) -> None:
    with visitor(browser) as context:
        page = new_page(context, site.url, usable=_LOGIN_USABLE)
        page.open("/login")
        f.add(results, f.LOGIN_SCRIPTS, _size(_loaded(page), ".js"))


def _home(browser: Browser, site: WebSite, state: Any, results: Results, *, slow: bool) -> None:
    case = f.SLOW if slow else f.HERE
    with visitor(browser, state) as context:
        first = _visit_home(context, site, slow=slow)
        f.add(results, f.FIRST_PAINT, first["paint"], case)
        f.add(results, f.FIRST_USABLE, first["until"], case)
        if not slow:
            _transfers(first, results)
        again = _visit_home(context, site, slow=slow)
        f.add(results, f.AGAIN_PAINT, again["paint"], case)
        f.add(results, f.AGAIN_USABLE, again["until"], case)


def _visit_home(context: BrowserContext, site: WebSite, *, slow: bool) -> dict[str, Any]:
    page = new_page(context, site.url, usable=HOME_USABLE, slow=slow)
    page.open("/")
    page.wait("performance.getEntriesByName('first-contentful-paint').length")
    seen = _loaded(page)
    page.page.close()
    return seen


def _loaded(page: TimedPage) -> dict[str, Any]:
    page.wait("window.__bench.loaded !== null")
    page.page.wait_for_load_state("networkidle")
    seen: dict[str, Any] = page.page.evaluate(_LOADED)
    return seen


def _transfers(first: dict[str, Any], results: Results) -> None:
    f.add(results, f.HOME_SCRIPTS, _size(first, ".js"))
    f.add(results, f.HOME_STYLES, _size(first, ".css"))
    f.add(results, f.HOME_FONTS, _size(first, ".woff2"))
    before = [entry for entry in first["entries"] if entry["startTime"] <= first["until"]]
    f.add(results, f.HOME_REQUESTS, len(before))
    f.add(results, f.HOME_FILES, sum(not entry["path"].startswith("/api/") for entry in before))


def _size(seen: dict[str, Any], ending: str) -> float:
    """Return kB of the files with this ending, as they were sent."""
    return float(sum(one["encodedBodySize"] for one in seen["entries"] if one["path"].endswith(ending))) / 1_000


def _on_top(browser: Browser, site: WebSite, state: Any, path: str) -> float:
    """Return kB of scripts that a screen loads which home did not."""
    with visitor(browser, state) as context:
        home = new_page(context, site.url, usable=HOME_USABLE)
        home.open("/")
        shell = {entry["path"] for entry in _loaded(home)["entries"]}
        page = new_page(context, site.url, usable=_HEADING)
        page.open(path)
        seen = _loaded(page)
        seen["entries"] = [entry for entry in seen["entries"] if entry["path"] not in shell]
        return _size(seen, ".js")


_PLACES = ("Connections", "Sessions", "Guardrails", "Audit log")  # with rows in each


def _interactions(browser: Browser, site: WebSite, state: Any, results: Results) -> None:
    """Walk through the application by mouse and keyboard; screens that were visited are measured again."""
    with visitor(browser, state) as context:
        page = new_page(context, site.url, usable=HOME_USABLE)
        page.open("/")
        page.wait("window.__bench.loaded !== null")
        _walk(page, [])
        routes: list[float] = []
        for _ in range(site.sizes.repeats):
            _walk(page, routes)
        _use_keyboard(page, site)
        for value in routes:
            f.add(results, f.ROUTE, value)
        f.add(results, f.INTERACTION, percentile(page.interactions(), 0.95))


def _walk(page: TimedPage, into: list[float]) -> None:
    navigation = page.page.get_by_role("navigation", name="Main navigation")
    for place in _PLACES:
        shows = f"document.querySelector('main h1')?.textContent === '{place}' && document.querySelector('main table')"
        link = navigation.get_by_role("link", name=place, exact=True)
        link.hover()
        page.page.wait_for_timeout(100)
        with page.timed("click", shows, into):
            link.click()
        page.page.wait_for_load_state("networkidle")


def _use_keyboard(page: TimedPage, site: WebSite) -> None:
    """Search a list, choose in the palette, and write a statement."""
    page.page.get_by_role("link", name="Sessions", exact=True).click()
    page.page.get_by_label("Search in sessions").press_sequentially("customers", delay=80)
    page.page.wait_for_load_state("networkidle")
    for view in ("With refusals", "Open", "All"):
        page.page.get_by_role("link", name=view, exact=True).click()
        page.page.wait_for_load_state("networkidle")
    for _ in range(site.sizes.repeats):
        page.page.keyboard.press("Control+k")
        page.page.get_by_role("dialog").wait_for()
        page.page.keyboard.type("rev", delay=60)
        page.page.keyboard.press("Escape")
        page.page.keyboard.press("Escape")
        page.page.get_by_role("dialog").wait_for(state="hidden")
    page.page.get_by_role("link", name="Connections", exact=True).click()
    page.page.get_by_role("link", name=DEMO, exact=True).first.click()
    page.page.wait_for_load_state("networkidle")
