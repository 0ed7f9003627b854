"""Terminals in the browser: watched while they are open, replayed afterwards, and safe against what they show."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.support.running import Gateway, started
from tests.support.sitting import Sitting
from tests.web.conftest import Visit, require, visiting_as
from tests.web.people import ADMIN, PASSWORD, People

from postern.web.web_assets import BUILT

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """A gateway whose connection `shell` is a terminal."""
    require((BUILT / "index.html").is_file(), "the web application is not built; run `make web`")
    with started("--no-demo", "--gateway-commands") as running:
        created = running.run("connections", "create", "shell", "--command", "bash --norc")
        assert created.returncode == 0, created.stderr
        yield running


@pytest.fixture(scope="module")
def people(gateway: Gateway) -> People:
    """Setting the administrator's password ended the command line's login, so it logs in again."""
    people = People(gateway)
    login = ("login", gateway.told["api_url"], "--email", ADMIN, "--password-stdin")
    assert gateway.run(*login, stdin=PASSWORD + "\n").returncode == 0
    return people


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/sessions") as visit:
        yield visit


def newest(gateway: Gateway) -> str:
    sessions = json.loads(gateway.run("sessions", "list", "--limit", "1", "--json").stdout)
    return str(sessions["data"][0]["id"])


def screen_of(page: Page) -> str:
    """Return what the terminal on the page shows."""
    return "\n".join(page.locator(".xterm-rows > div").all_text_contents())


def shows(page: Page, text: str) -> None:
    expect(page.locator(".xterm-rows")).to_contain_text(text)


def test_open_terminal_is_watched_and_then_replayed(admin: Visit, gateway: Gateway) -> None:
    sitting = Sitting(gateway, "connect", "shell")
    try:
        sitting.shows("bash-")
        sitting.type("echo first-$((40 + 2))\r")
        sitting.shows("first-42")
        admin.open(f"/sessions/{newest(gateway)}")
        shows(admin.page, "first-42")
        sitting.type("printf '\\033[38;2;10;200;100mgreen\\033[0m\\n'\r")
        shows(admin.page, "green")
        sitting.type("exit\r")
        assert sitting.leaves() == 0
    finally:
        sitting.close()
    page = admin.page
    play = page.get_by_role("button", name="Play")
    expect(play).to_be_visible()
    play.click()
    shows(page, "first-42")
    shows(page, "green")
    expect(play).to_be_visible()
    page.get_by_label("Find in the output").fill("FIRST-42")
    expect(page.get_by_text(re.compile("shown at [12] moments?"))).to_be_visible()
    page.get_by_role("list", name="Moments at which it was shown").get_by_role("button").first.click()
    expect(page.locator(".xterm-rows")).not_to_contain_text("green")
    page.get_by_role("slider", name="Position").focus()
    page.keyboard.press("End")
    shows(page, "green")
    page.keyboard.press("Home")
    expect(page.locator(".xterm-rows")).not_to_contain_text("first-42")
    assert admin.accessibility() == []


def test_attack_recorded_sequences_only_draw(admin: Visit, gateway: Gateway) -> None:
    """Titles, links, the clipboard, questions to the terminal and endless repetitions have no effect."""
    hostile = r"\033]0;owned\007\033]8;;https://evil.example\007link\033]8;;\007\033]52;c;b3duZWQ=\007\033[6n\033[c"
    sitting = Sitting(gateway, "connect", "shell")
    try:
        sitting.shows("bash-")
        sitting.type(f"printf '{hostile}x\\033[2147483647b\\342\\200\\256turned\\n'; exit\r")
        sitting.leaves()
    finally:
        sitting.close()
    session = newest(gateway)
    admin.open(f"/sessions/{session}")
    admin.page.get_by_role("button", name="Play").click()
    shows(admin.page, "turned")
    assert "\u202e" not in screen_of(admin.page)
    assert admin.page.locator(".xterm a").count() == 0
    expect(admin.page).to_have_title(re.compile("Session"))
    admin.page.get_by_role("link", name="Statements").click()
    expect(admin.page).to_have_url(re.compile(f"{session}\\?tab=statements"))


def test_held_session_is_not_purged_until_the_hold_is_released(admin: Visit, gateway: Gateway, people: People) -> None:
    sitting = Sitting(gateway, "connect", "shell")
    try:
        sitting.shows("bash-")
        sitting.type("exit\r")
        sitting.leaves()
    finally:
        sitting.close()
    session, page = newest(gateway), admin.page
    admin.open(f"/sessions/{session}?tab=record")
    page.get_by_label("Name of the hold").fill("case-7")
    page.get_by_label("Reason", exact=True).fill("an <b>incident</b>")
    page.get_by_role("button", name="Hold this session").click()
    expect(page.get_by_role("table", name="Holds")).to_contain_text("an <b>incident</b>")
    assert admin.accessibility() == []
    admin.expected_errors.append("409 (Conflict)")
    page.get_by_role("button", name="Purge recording").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason for the purge").fill("asked by its owner")
    dialog.get_by_label(f"Type {session} to confirm").fill(session)
    dialog.get_by_role("button", name="Purge recording").click()
    expect(dialog.get_by_role("alert")).to_contain_text("case-7")
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Release").click()
    page.get_by_role("dialog").get_by_role("button", name="Release").click()
    expect(page.get_by_text("No hold keeps this session.")).to_be_visible()
