"""The replay of a terminal in Chromium, with recordings that the test makes: the page gets them in place of what the
gateway recorded. The gateway, its headers and the rest of the page are real."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from tests.support.running import Gateway, started
from tests.support.sitting import Sitting
from tests.web.conftest import Visit, require, visiting
from tests.web.controls import choose
from tests.web.people import ADMIN, PASSWORD, People

from postern.web.web_assets import BUILT

pytestmark = pytest.mark.ci

Event = tuple[float, str, bytes]  # milliseconds, kind, content
SECOND = 1_000
TICKS: list[Event] = [(at * SECOND, "o", b"tick-%d\r\n" % at) for at in range(10)]
WATCH_EFFECTS = """
window.__effects = [];
navigator.clipboard.writeText = async (text) => void window.__effects.push(`clipboard ${text}`);
window.open = (url) => void window.__effects.push(`window ${url}`);
"""


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """A gateway whose connection `shell` is a terminal."""
    require((BUILT / "index.html").is_file(), "the web application is not built; run `make web`")
    with started("--no-demo", "--gateway-commands") as running:
        created = running.run("connections", "create", "shell", "--command", "bash --norc")
        assert created.returncode == 0, created.stderr
        yield running


@pytest.fixture(scope="module")
def session(gateway: Gateway) -> str:
    """A session that has ended."""
    People(gateway)
    login = ("login", gateway.told["api_url"], "--email", ADMIN, "--password-stdin")
    assert gateway.run(*login, stdin=PASSWORD + "\n").returncode == 0
    sitting = Sitting(gateway, "connect", "shell")
    try:
        sitting.shows("bash-")
        sitting.type("exit\r")
        sitting.leaves()
    finally:
        sitting.close()
    return str(json.loads(gateway.run("sessions", "list", "--limit", "1", "--json").stdout)["data"][0]["id"])


@pytest.fixture
def visit(browser: Browser, gateway: Gateway, session: str) -> Iterator[Visit]:
    with visiting(browser, gateway) as made:
        made.page.add_init_script(WATCH_EFFECTS)
        made.open("/sessions")
        made.log_in(ADMIN)
        expect(made.page.get_by_role("heading", level=1, name="Sessions")).to_be_visible()
        yield made


def replay(visit: Visit, session: str, events: Sequence[Event]) -> Page:
    """Open the replay of a session with these events."""
    recorded = [[at, kind, b64encode(content).decode()] for at, kind, content in events]

    def answer(route: Route) -> None:
        real = route.fetch()
        headers = {name: value for name, value in real.headers.items() if name != "next-cursor"}
        route.fulfill(response=real, headers=headers, json=real.json() | {"event_stream": recorded})

    visit.page.route(re.compile(rf"/api/sessions/{session}\?.*expand=event_stream"), answer)
    visit.open(f"/sessions/{session}")
    expect(visit.page.get_by_role("slider", name="Position")).to_be_visible()
    expect(visit.page.get_by_text("(loading)")).to_have_count(0)
    return visit.page


def press(page: Page, key: str) -> None:
    page.get_by_role("slider", name="Position").focus()
    page.keyboard.press(key)


def shows(page: Page, text: str) -> None:
    expect(page.locator(".xterm-rows")).to_contain_text(text)


def shows_not(page: Page, text: str) -> None:
    expect(page.locator(".xterm-rows")).not_to_contain_text(text)


def duration(page: Page) -> str:
    return (page.get_by_role("slider", name="Position").get_attribute("aria-valuetext") or "").partition(" / ")[2]


@pytest.mark.parametrize(("speed", "seconds"), [("0.5×", 1), ("1×", 2), ("4×", 8)])
def test_speed_is_how_much_is_played_in_a_second(visit: Visit, session: str, speed: str, seconds: int) -> None:
    page = visit.page
    page.clock.install()
    replay(visit, session, TICKS)
    choose(page, "Speed", speed)
    expect(page.get_by_role("option")).to_have_count(0)
    page.clock.pause_at(page.evaluate("Date.now() + 1_000"))
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(2 * SECOND + 100)
    shows(page, f"tick-{seconds}")
    shows_not(page, f"tick-{seconds + 1}")
    page.clock.resume()


def test_long_pauses_are_skipped_until_the_user_wants_them(visit: Visit, session: str) -> None:
    page = replay(visit, session, [(0, "o", b"before "), (60 * SECOND, "o", b"after")])
    short = duration(page)
    page.get_by_text("Skip pauses over 2 seconds").click()
    expect(page.get_by_role("slider", name="Position")).to_have_attribute("max", str(60 * SECOND))
    long = duration(page)
    page.get_by_text("Skip pauses over 2 seconds").click()
    expect(page.get_by_role("slider", name="Position")).to_have_attribute("max", str(2 * SECOND))
    assert (short, long) == ("0:02", "1:00")
    press(page, "End")
    shows(page, "before after")


def test_output_is_found_and_its_moments_lead_to_it(visit: Visit, session: str) -> None:
    events: list[Event] = [*TICKS, (10 * SECOND, "o", b"\x1b[31mTick\x1b[0m-3 again")]
    page = replay(visit, session, events)
    page.get_by_label("Find in the output").fill("tick-3")
    expect(page.get_by_text("shown at 2 moments")).to_be_visible()
    moments = page.get_by_role("list", name="Moments at which it was shown").get_by_role("button")
    moments.nth(1).click()
    shows(page, "Tick-3 again")
    moments.nth(0).click()
    shows(page, "tick-3")
    shows_not(page, "tick-4")


def test_size_of_the_terminal_changes_as_it_was_recorded(visit: Visit, session: str) -> None:
    events: list[Event] = [
        (0, "r", b"100x30"),
        (1, "o", b"wide "),
        (SECOND, "r", b"40x10"),
        (SECOND + 1, "o", b"narrow"),
        (SECOND + 2, "r", b"999999x999999"),  # of no terminal; it is drawn as the largest one
    ]
    page = replay(visit, session, events[:4])
    rows = page.locator(".xterm-rows > div")
    press(page, "End")
    shows(page, "wide narrow")
    expect(rows).to_have_count(10)
    press(page, "Home")
    shows_not(page, "narrow")
    expect(rows).to_have_count(30)
    page.unroute_all()
    replay(visit, session, events)
    press(page, "End")
    expect(rows).to_have_count(500)


def test_attack_recording_only_draws(visit: Visit, session: str) -> None:
    """Titles, the clipboard, links and questions to the terminal have no effect, and nothing is sent for them."""
    hostile = (
        b"\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1b]8;;https://evil.example\x07link\x1b]8;;\x07\x1b[6n\x1b[c\x1b[21t"
    )
    page = replay(visit, session, [(0, "o", b"safe"), (SECOND, "o", hostile), (2 * SECOND, "o", b"\x1bP$qm\x1b\\ end")])
    title = page.title()
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    page.on("websocket", lambda socket: sent.append(socket.url))
    press(page, "End")
    shows(page, "safelink end")
    box = page.locator(".xterm-rows > div").first.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 40, box["y"] + box["height"] / 2)  # the link
    page.keyboard.type("typed")
    expect(page.locator(".xterm-rows")).not_to_contain_text("typed")
    assert page.locator(".xterm a").count() == 0
    assert page.title() == title
    assert page.evaluate("window.__effects") == []
    assert [one for one in sent if one != "GET"] == []


def test_recording_that_was_cut_plays_to_where_it_ends(visit: Visit, session: str) -> None:
    page = replay(visit, session, [*TICKS[:3], (3 * SECOND, "o", b"last \xe6\xbc"), (3 * SECOND, "o", b"\xa2 \x1b[3")])
    press(page, "End")
    shows(page, "last \u6f22")
    page.get_by_role("button", name="Play").click()  # from the beginning, as it is at its end
    shows(page, "last \u6f22")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    assert visit.accessibility() == []
