"""Chromium for measuring: pages that time what users see, with the machine and the network as they are, or slower."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.web.web_site import WebSite
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from tests.web.conftest import DESKTOP, QUIET
from tests.web.people import ADMIN, PASSWORD

CPU_FACTOR, MEGABITS, LATENCY = 4, 10, 40  # a slow machine: this much slower, Mbit/s, milliseconds
PATIENCE = 60_000  # milliseconds that anything may take

# Times count from an input's own timestamp to the frame that shows what is waited for. `loaded` is the time from the
# navigation's start to the first frame in which the page could be used.
_TIMING = """
window.__bench = {
  loaded: null,
  usable: null,
  frame(test = () => true) {
    return new Promise((resolve) => requestAnimationFrame(() => {
      const passes = test();
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => resolve([passes, performance.now()]);
      port2.postMessage(null);
    }));
  },
  async until(test) {
    const end = performance.now() + 120_000;
    while (true) {
      const [passes, now] = await this.frame(test); // what is there when a frame begins is on screen at its end
      if (passes) return now;
      if (now > end) throw new Error(`not within two minutes: ${test}`);
    }
  },
  arm(kind, test) {
    const input = new Promise((resolve) => addEventListener(kind, (event) => resolve(event.timeStamp), {
      capture: true, once: true }));
    this.answer = input.then(async (began) => (await this.until(test)) - began);
  },
};
(async () => {
  const usable = window.__usable;
  if (usable) window.__bench.loaded = await window.__bench.until(usable);
})();
"""
# Interactions as the browser counts them: a click or a key, until the next frame. Those under 16 ms are not listed.
_INTERACTIONS = """
window.__interactions = new Map();
new PerformanceObserver((list) => {
  for (const { interactionId, duration } of list.getEntries())
    if (interactionId) window.__interactions.set(interactionId,
      Math.max(duration, window.__interactions.get(interactionId) ?? 0));
}).observe({ type: "event", durationThreshold: 16, buffered: true });
"""


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=[*QUIET, "--enable-precise-memory-info"]
        )
        yield browser
        browser.close()


def percentile(values: list[float], part: float) -> float:
    """Return the value that this part of all values does not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * part) - 1, 0)]


@dataclass(frozen=True, slots=True)
class TimedPage:
    """A page of the application, in which somebody is logged in."""

    page: Page
    url: str

    def open(self, path: str) -> None:
        self.page.goto(self.url + path)

    def wait(self, test: str) -> None:
        """Wait until a JavaScript expression is true."""
        self.page.wait_for_function(f"() => Boolean({test})", timeout=PATIENCE)

    @contextmanager
    def timed(self, kind: str, test: str, into: list[float]) -> Iterator[None]:
        """Time from the next input of this kind, such as `keydown`, to the frame in which the expression is true."""
        self.page.evaluate(f"() => window.__bench.arm('{kind}', () => {test})")
        yield
        into.append(float(self.page.evaluate("() => window.__bench.answer")))

    def interactions(self) -> list[float]:
        """Return how long each click and key took until the next frame, in milliseconds; at least 16."""
        seen = self.page.evaluate("() => [[...window.__interactions.values()], performance.interactionCount]")
        listed, count = seen
        return [float(one) for one in listed] + [16.0] * max(count - len(listed), 0)

    def heap(self) -> int:
        """Return the bytes that the page's scripts hold."""
        protocol = self.page.context.new_cdp_session(self.page)
        protocol.send("HeapProfiler.collectGarbage")
        return int(protocol.send("Runtime.getHeapUsage")["usedSize"])


def login(browser: Browser, site: WebSite) -> Any:
    """Return the cookies and storage of a browser in which the administrator is logged in."""
    context = browser.new_context(viewport=DESKTOP, locale="en-GB")
    page = context.new_page()
    page.goto(site.url)
    page.get_by_label("E-mail address").fill(ADMIN)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("navigation", name="Main navigation")).to_be_visible(timeout=PATIENCE)
    state = context.storage_state()
    context.close()
    return state


@contextmanager
def visitor(browser: Browser, state: Any = None) -> Iterator[BrowserContext]:
    """A browser that has loaded nothing yet."""
    context = browser.new_context(viewport=DESKTOP, locale="en-GB", storage_state=state)
    context.set_default_timeout(PATIENCE)
    context.add_init_script(_INTERACTIONS)
    try:
        yield context
    finally:
        context.close()


def new_page(context: BrowserContext, url: str, *, usable: str = "", script: str = "", slow: bool = False) -> TimedPage:
    """`usable` is an expression that is true once the page that is opened first can be used; `script` runs before the
    page's own scripts."""
    page = context.new_page()
    if slow:
        _slow_down(page)
    page.add_init_script((f"window.__usable = () => Boolean({usable});" if usable else "") + _TIMING + script)
    return TimedPage(page, url)


def _slow_down(page: Page) -> None:
    protocol = page.context.new_cdp_session(page)
    protocol.send("Emulation.setCPUThrottlingRate", {"rate": CPU_FACTOR})
    speed = MEGABITS * 1_000_000 / 8
    protocol.send("Network.enable")
    conditions = {"offline": False, "latency": LATENCY, "downloadThroughput": speed, "uploadThroughput": speed}
    protocol.send("Network.emulateNetworkConditions", conditions)
