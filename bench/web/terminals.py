"""Terminals: a long one replayed, an open one watched, and keys that are typed in one."""

from __future__ import annotations

import os
import pty
import random
import select
import subprocess
import time

from bench.results import Results
from bench.web import figures as f
from bench.web.chromium import TimedPage, login, new_page, percentile, visitor
from bench.web.web_site import SHELL, WebSite, chunk_at
from playwright.sync_api import Browser, expect

_SEEKS = 5  # times as many as there are repeats
_SCREEN = "document.querySelector('.xterm-rows')"
_SHOWN = f"{_SCREEN}?.textContent.trim()"
# The worker answers each page of a recording with the pictures that it made of it.
_WATCH_WORKERS = """
window.__pages = { sent: 0, answered: 0 };
const Plain = window.Worker;
window.Worker = class extends Plain {
  constructor(...facts) {
    super(...facts);
    this.addEventListener("message", () => { window.__pages.answered += 1; });
  }
  postMessage(...facts) {
    window.__pages.sent += 1;
    super.postMessage(...facts);
  }
};
"""
_SEEK = """async ({ position, marker }) => {
  const slider = document.querySelector("input[type=range]");
  const setter = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
  slider.step = "any";
  const began = performance.now();
  setter.call(slider, position);
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  const shows = () => [...document.querySelectorAll(".xterm-rows > div")]
    .map(({ textContent }) => textContent.trim()).filter(Boolean).at(-1) === marker;
  return (await window.__bench.until(shows)) - began;
}"""
# Times of keys, and of what the gateway sends to the terminal.
_WATCH_SOCKETS = """
window.__echoes = [];
const PlainSocket = window.WebSocket;
window.WebSocket = class extends PlainSocket {
  constructor(...facts) {
    super(...facts);
    this.addEventListener("message", () => {
      if (window.__pressed) window.__echoes.push(performance.now() - window.__pressed);
      window.__pressed = null;
    });
  }
};
addEventListener("keydown", (event) => {
  window.__pressed = event.timeStamp;
  if (event.key === "Enter") window.__entered = performance.timeOrigin + event.timeStamp;
}, true);
"""
_SHOWS_AT = """async (marker) => {
  const shows = () => document.querySelector(".xterm-rows")?.textContent.includes(marker);
  return performance.timeOrigin + await window.__bench.until(shows);
}"""


def terminals(browser: Browser, site: WebSite, results: Results) -> None:
    state = login(browser, site)
    with visitor(browser, state) as context:
        page = new_page(context, site.url, usable=_SHOWN, script=_WATCH_WORKERS)
        _replay(page, site, results)
    with visitor(browser, state) as context:
        page = new_page(context, site.url, script=_WATCH_SOCKETS)
        _open_terminal(page)
        _type(page, site, results)
        with visitor(browser, state) as other:
            _watch(page, new_page(other, site.url), site, results)
    f.add(results, f.DIRECT_KEYSTROKE, _type_directly(site))


def _replay(page: TimedPage, site: WebSite, results: Results) -> None:
    for _ in range(site.sizes.repeats):
        page.open("/sessions?user=admin%40localhost")
        link = page.page.locator(f"a[href='/sessions/{site.recording}']")
        link.hover()
        page.page.wait_for_timeout(500)  # the screen's scripts are loaded as soon as the mouse is there
        times: list[float] = []
        indexed = "window.__pages.sent > 0 && window.__pages.sent === window.__pages.answered"
        loaded = "!document.querySelector('section[aria-label=Replay]')?.textContent.includes('(loading)')"
        with page.timed("click", _SHOWN, times):
            link.click()
        began = page.page.evaluate("performance.now()") - times[0]
        page.wait(f"{loaded} && {indexed}")
        f.add(results, f.REPLAY_OPEN, times[0])
        f.add(results, f.REPLAY_INDEX, page.page.evaluate("performance.now()") - began)
    chance = random.Random(7)
    f.add(
        results,
        f.REPLAY_SEEK,
        percentile([_seek(page, site, chance) for _ in range(_SEEKS * site.sizes.repeats)], 0.95),
    )


def _seek(page: TimedPage, site: WebSite, chance: random.Random) -> float:
    """Go to a random chunk, and wait until its last line is the last one on the screen."""
    number = chance.randrange(site.chunks)
    position = chunk_at(number, site.sizes) / 1_000 + 0.01
    return float(page.page.evaluate(_SEEK, {"position": position, "marker": f"#{number:07}"}))


def _open_terminal(page: TimedPage) -> None:
    page.open(f"/terminal/{SHELL}")
    page.page.get_by_role("button", name="Open terminal").click()
    expect(page.page.locator(".xterm-rows")).to_contain_text("bash-", timeout=60_000)


def _type(page: TimedPage, site: WebSite, results: Results) -> None:
    for _ in range(site.sizes.keys):
        page.page.keyboard.press("a")
        page.page.wait_for_timeout(40)
    page.page.keyboard.press("Control+c")
    echoes = page.page.evaluate("window.__echoes")
    f.add(results, f.KEYSTROKE, percentile(echoes[: site.sizes.keys], 0.95))


def _watch(typist: TimedPage, watcher: TimedPage, site: WebSite, results: Results) -> None:
    (session,) = site.people.ask("GET", f"/sessions?connection={SHELL}&status=open")["data"]
    watcher.open(f"/sessions/{session['id']}")
    watcher.wait(_SHOWN)
    for number in range(site.sizes.repeats):
        watcher.page.evaluate(f"() => {{ window.__at = ({_SHOWS_AT})('seen{number}seen'); }}")
        typist.page.keyboard.type(f"echo seen{number}''seen\n")
        seen = float(watcher.page.evaluate("() => window.__at"))
        f.add(results, f.WATCH, seen - float(typist.page.evaluate("window.__entered")))


def _type_directly(site: WebSite) -> float:
    """Return the p95 of keys and echoes at the same shell's own terminal, in milliseconds."""
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(["bash", "--norc"], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    try:
        _read_all(ours)
        times = []
        for _ in range(site.sizes.keys):
            began = time.perf_counter()
            os.write(ours, b"a")
            os.read(ours, 1_024)
            times.append((time.perf_counter() - began) * 1_000)
            time.sleep(0.04)
        return percentile(times, 0.95)
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


def _read_all(descriptor: int) -> None:
    while select.select([descriptor], [], [], 0.5)[0]:
        os.read(descriptor, 65_536)
