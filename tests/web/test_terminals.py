"""Terminals in the browser: opened, used and ended by their users, and safe against what is pasted and shown."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pyotp
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.support.running import Gateway, started
from tests.web.conftest import PHONE, Visit, require, visiting
from tests.web.people import ADMIN, PASSWORD, People

from postern.web.web_assets import BUILT

pytestmark = pytest.mark.ci

MODES = ("access_mode_connect", "access_mode_exec", "access_mode_runbooks", "access_schema")
PASTE = """(textarea, text) => {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text/plain", text);
  textarea.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}"""
WATCH_CLIPBOARD = """
window.__copied = [];
navigator.clipboard.writeText = async (text) => void window.__copied.push(text);
"""


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """A gateway that runs commands."""
    require((BUILT / "index.html").is_file(), "the web application is not built; run `make web`")
    with started("--no-demo", "--gateway-commands") as running:
        yield running


def shell(people: People, name: str, **fields: Any) -> str:
    """Create a shell whose terminal is enabled in the browser."""
    (agent,) = people.ask("GET", "/agents")["data"]
    body = {"name": name, "type": "custom", "agent_id": agent["id"], "command": ["bash", "--norc"], "secret": {}}
    body |= dict.fromkeys(MODES, "enabled") | {"access_mode_web_terminal": "enabled"} | fields
    people.ask("POST", "/connections", body)
    return name


@pytest.fixture(scope="module")
def ann(people: People) -> httpx.Client:
    """A standard user."""
    return people.create("ann@example.com", "crew")


@pytest.fixture
def visit(browser: Browser, gateway: Gateway, ann: httpx.Client) -> Iterator[Visit]:
    """Ann's browser."""
    with visiting(browser, gateway) as made:
        made.page.add_init_script(WATCH_CLIPBOARD)
        made.open("/connections")
        made.log_in("ann@example.com")
        expect(made.page.get_by_role("heading", level=1, name="Connections")).to_be_visible()
        yield made


def screen(page: Page) -> Locator:
    """The terminal of the selected tab."""
    return page.get_by_role("tabpanel").locator(".xterm-rows")


def open_terminal(page: Page) -> None:
    page.get_by_role("button", name="Open terminal").click()
    expect(screen(page)).to_contain_text("bash-")


def type_line(page: Page, line: str) -> None:
    page.keyboard.type(line + "\n")


def size_of(page: Page, name: str) -> tuple[int, int]:
    """Return the rows and columns that the program has. `name` is that of this measurement."""
    type_line(page, f"echo {name}:$(stty size | tr ' ' x):")
    shown = re.compile(rf"{name}:(\d+)x(\d+):")
    expect(screen(page)).to_contain_text(shown)
    found = shown.search(screen(page).inner_text())
    assert found is not None
    return int(found[1]), int(found[2])


def click_text(page: Page, text: str) -> None:
    """Click the beginning of the last row that begins with a text."""
    box = screen(page).locator("> div").filter(has_text=re.compile(rf"^{text}")).last.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 20, box["y"] + 200)  # links are looked for in each row that the mouse enters
    page.mouse.move(box["x"] + 20, box["y"] + box["height"] / 2)
    page.wait_for_timeout(300)
    page.mouse.click(box["x"] + 20, box["y"] + box["height"] / 2)


def test_terminals_in_tabs_fit_the_window_and_end_with_their_program(
    browser: Browser, gateway: Gateway, people: People, visit: Visit
) -> None:
    page, name = visit.page, shell(people, "shell")
    visit.open(f"/connections/{name}")
    page.get_by_role("link", name="Open a terminal").click()
    expect(page.get_by_role("heading", level=1, name=f"Terminal on {name}")).to_be_visible()
    assert visit.accessibility() == []
    open_terminal(page)
    wide = size_of(page, "wide")
    page.set_viewport_size({"width": 900, "height": 500})
    page.wait_for_timeout(300)
    narrow = size_of(page, "narrow")
    assert narrow[0] < wide[0]
    assert narrow[1] < wide[1]
    page.get_by_label("Text size").click()
    page.get_by_role("option", name="20 px").click()
    page.get_by_role("textbox", name="Terminal 1").focus()
    assert size_of(page, "large")[1] < narrow[1]
    page.get_by_role("button", name="New terminal").click()
    expect(screen(page)).to_contain_text("bash-")
    expect(screen(page)).not_to_contain_text("large:")
    sessions = people.ask("GET", f"/sessions?connection={name}")["data"]
    assert [session["user"] for session in sessions] == ["ann@example.com"] * 2
    type_line(page, "exit 3")
    expect(page.get_by_text("The program has ended with exit code 3.")).to_be_visible()
    assert visit.accessibility() == []
    page.get_by_role("button", name="Open again").click()
    expect(screen(page)).to_contain_text("bash-")
    page.get_by_role("button", name="Close terminal").click()
    expect(screen(page)).to_contain_text("large:")


def test_output_waits_in_the_gateway_and_is_searched(people: People, visit: Visit) -> None:
    page, name = visit.page, shell(people, "flood")
    visit.open(f"/terminal/{name}")
    open_terminal(page)
    type_line(page, "seq 1 400000; echo need''le; seq 1 50; echo d''one")
    expect(screen(page)).to_contain_text("done")
    expect(screen(page)).not_to_contain_text("needle")
    page.keyboard.press("Control+Shift+F")
    find = page.get_by_label("Find in this terminal")
    expect(find).to_be_focused()
    find.fill("needle")
    find.press("Enter")
    expect(screen(page)).to_contain_text("needle")
    find.fill("no such text")
    expect(page.get_by_text("Not found.")).to_be_visible()
    page.keyboard.press("Tab")
    page.get_by_role("textbox", name="Terminal 1").focus()
    page.keyboard.press("Control+F6")  # the terminal takes Tab, so another key leaves it
    expect(find).to_be_focused()


def test_attack_paste_is_shown_before_it_is_typed(people: People, visit: Visit) -> None:
    page, name = visit.page, shell(people, "paste")
    visit.open(f"/terminal/{name}")
    open_terminal(page)
    keyboard = page.get_by_role("textbox", name="Terminal 1")
    keyboard.evaluate(PASTE, "echo one''line")
    expect(screen(page)).to_contain_text("echo one''line")
    page.keyboard.press("Control+C")
    keyboard.evaluate(PASTE, "echo a''b \x1b[201~\u202e\necho c''d\n")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("These 2 lines would be typed for you")
    expect(dialog).to_contain_text("1 character that steers the terminal was removed.")
    expect(dialog.get_by_label("Text to paste")).to_contain_text("echo a''b [201~U+202E")
    assert visit.accessibility() == []
    dialog.get_by_role("button", name="Cancel").click()
    keyboard.evaluate(PASTE, "echo e''f\necho g''h\n")
    expect(screen(page)).not_to_contain_text("a''b")
    dialog.get_by_role("button", name="Paste text").click()
    keyboard.press("Enter")
    expect(screen(page)).to_contain_text("ef")
    expect(screen(page)).to_contain_text("gh")


def test_attack_output_changes_nothing_but_the_screen(people: People, visit: Visit) -> None:
    """Titles are cleaned, the clipboard stays, the window has no size to tell, and addresses open after a question."""
    page, name = visit.page, shell(people, "hostile")
    visit.open(f"/terminal/{name}")
    open_terminal(page)
    type_line(page, r"printf '\033]0;own\342\200\256ed \033\\\033]52;c;b3duZWQ=\007\033[21t\033[18t'; echo tit''led")
    expect(screen(page)).to_contain_text("titled")
    expect(page.get_by_role("tab")).to_have_text("1: owned")
    expect(page).to_have_title(re.compile("^Terminal on hostile"))
    assert page.evaluate("window.__copied") == []
    type_line(page, r"clear; printf '\033]8;;javascript:alert(1)\033\\script\033]8;;\033\\\n'")
    expect(screen(page)).to_contain_text("script")
    click_text(page, "script")
    expect(page.get_by_role("dialog")).to_have_count(0)
    type_line(page, r"clear; printf '\033]8;;https://bank.example@evil.example/a\033\\harmless\033]8;;\033\\\n'")
    click_text(page, "harmless")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("https://bank.example@evil.example/a")
    expect(dialog.locator("code")).to_have_text("evil.example")
    assert visit.accessibility() == []
    dialog.get_by_role("button", name="Cancel").click()


def test_terminal_waits_for_its_review_and_says_why_it_was_ended(people: People, visit: Visit) -> None:
    people.create("dan@example.com", "dba")
    page, name = visit.page, shell(people, "reviewed", reviewers=["dba"])
    visit.open(f"/terminal/{name}")
    page.get_by_label("Reason").fill("ticket <b>4711</b>")
    page.get_by_label("Access in minutes").fill("5")
    assert visit.accessibility() == []
    page.get_by_role("button", name="Open terminal").click()
    expect(page.get_by_text("This terminal waits for a review.")).to_be_visible()
    expect(page.get_by_role("tab")).to_contain_text("Waits for a review")
    page.get_by_role("button", name="Stop waiting").click()
    expect(page.get_by_text("Stopped waiting. The request is still pending").last).to_be_visible()
    page.get_by_role("button", name="Open again").click()
    with page.expect_popup() as popup:
        page.get_by_role("link", name="Open the review").click()
    expect(popup.value.get_by_text("ticket <b>4711</b>")).to_be_visible()
    review = popup.value.url.rpartition("/")[2]
    popup.value.close()
    dan = people.client("dan@example.com")
    assert dan.get(f"/reviews/{review}").json()["access_duration"] == 300
    decided = dan.put(f"/reviews/{review}", json={"status": "APPROVED"})
    assert decided.status_code == 200, decided.text
    expect(screen(page)).to_contain_text("bash-")
    session = people.ask("GET", f"/sessions?connection={name}&limit=1")["data"][0]["id"]
    assert people.admin.post(f"/sessions/{session}/kill").is_success
    ended = page.get_by_role("status").filter(has_text="The gateway ended this terminal.")
    expect(ended).to_contain_text("killed")
    expect(ended.get_by_role("button", name="Open again")).to_be_visible()


def test_held_and_denied_lines_say_why_and_lead_to_their_review(people: People, visit: Visit) -> None:
    page, name = visit.page, shell(people, "held")
    connection = people.ask("GET", f"/connections/{name}")["id"]
    rules = [
        {"type": "pattern_match", "pattern_regex": "forbidden", "action": "deny", "message": "never do that"},
        {"type": "pattern_match", "pattern_regex": "dangerous", "action": "review", "message": "four eyes"},
    ]
    people.ask("POST", "/guardrails", {"name": "ask", "input": {"rules": rules}, "connection_ids": [connection]})
    visit.open(f"/terminal/{name}")
    open_terminal(page)
    type_line(page, "x=forbidden; echo den''ied")
    expect(screen(page)).to_contain_text("never do that")
    expect(screen(page)).to_contain_text("^C")
    type_line(page, "x=dangerous; echo appr''oved")
    expect(screen(page)).to_contain_text("four eyes")
    (review,) = people.ask("GET", f"/reviews?connection={name}")["data"]
    expect(screen(page)).not_to_contain_text("denied")
    people.ask("PUT", f"/reviews/{review['id']}", {"status": "APPROVED"})
    expect(screen(page)).to_contain_text("admin@localhost approved it")
    expect(screen(page).get_by_text("approved", exact=True)).to_be_visible()


def test_page_with_open_terminals_is_not_left_by_accident(people: People, visit: Visit) -> None:
    page, name = visit.page, shell(people, "leaving")
    visit.open(f"/terminal/{name}")
    open_terminal(page)
    page.get_by_role("link", name="Sessions", exact=True).click()
    dialog = page.get_by_role("dialog", name="End the open terminal?")
    assert visit.accessibility() == []
    dialog.get_by_role("button", name="Stay here").click()
    page.get_by_role("textbox", name="Terminal 1").focus()
    type_line(page, "echo st''ill")
    expect(screen(page)).to_contain_text("still")
    page.get_by_role("link", name="Sessions", exact=True).click()
    dialog.get_by_role("button", name="Leave and end").click()
    expect(page.get_by_role("heading", level=1, name="Sessions")).to_be_visible()
    row = page.get_by_role("row").filter(has_text=name)
    expect(row).to_be_visible()


def forget_proofs(gateway: Gateway) -> None:
    """Make all logins so old that they prove nothing any more."""
    with closing(sqlite3.connect(gateway.home / "postern.db", timeout=30)) as store:
        store.execute("UPDATE logins SET fresh_until = NULL")
        store.commit()


def test_fresh_proof_is_asked_for_before_a_terminal(browser: Browser, gateway: Gateway, people: People) -> None:
    people.create("fay@example.com")
    name = shell(people, "fresh", access_fresh_factor="enabled")
    with visiting(browser, gateway) as visit:
        page = visit.page
        visit.expected_errors.append("403 (Forbidden)")
        visit.open(f"/terminal/{name}")
        visit.log_in("fay@example.com")
        open_button = page.get_by_role("button", name="Open terminal")
        expect(open_button).to_be_visible()
        forget_proofs(gateway)
        open_button.click()
        dialog = page.get_by_role("dialog", name="Confirm that it is you")
        dialog.get_by_label("Password").fill("a wrong password")
        dialog.get_by_role("button", name="Confirm").click()
        expect(dialog.get_by_role("alert")).to_be_visible()
        assert visit.accessibility() == []
        dialog.get_by_role("button", name="Cancel").click()
        expect(page.get_by_text("prove again who you are before each terminal")).to_be_visible()
        page.get_by_role("button", name="Open again").click()
        dialog.get_by_label("Password").fill(PASSWORD)
        dialog.get_by_role("button", name="Confirm").click()
        expect(screen(page)).to_contain_text("bash-")
        type_line(page, "exit")
        expect(page.get_by_text("The program has ended.")).to_be_visible()


def test_fresh_proof_is_a_second_factor_where_there_is_one(browser: Browser, gateway: Gateway, people: People) -> None:
    codes = add_factor(people.create("gil@example.com"))
    name = shell(people, "fresh-factor", access_fresh_factor="enabled")
    with visiting(browser, gateway) as visit:
        page = visit.page
        visit.expected_errors.append("403 (Forbidden)")
        visit.open(f"/terminal/{name}")
        visit.log_in("gil@example.com")
        prove(page, codes[0])
        open_button = page.get_by_role("button", name="Open terminal")
        expect(open_button).to_be_visible()
        forget_proofs(gateway)
        open_button.click()
        dialog = page.get_by_role("dialog", name="Confirm that it is you")
        dialog.get_by_label("Code of your authenticator app").fill("000000")
        dialog.get_by_role("button", name="Continue").click()
        expect(dialog.get_by_role("alert")).to_be_visible()
        assert visit.accessibility() == []
        prove(page, codes[1])
        expect(screen(page)).to_contain_text("bash-")


def prove(page: Page, code: str) -> None:
    page.get_by_role("button", name="Use a recovery code").click()
    page.get_by_label("Recovery code").fill(code)
    page.get_by_role("button", name="Continue").click()


def add_factor(user: httpx.Client) -> list[str]:
    """Add an authenticator app. Return the recovery codes."""
    body = {"kind": "totp", "name": "phone", "current_password": PASSWORD}
    made = user.post("/users/self/second-factors", json=body).json()
    code = {"code": pyotp.TOTP(made["secret"]).now()}
    confirmed = user.post(f"/users/self/second-factors/{made['id']}/confirm", json=code)
    assert confirmed.status_code == 200, confirmed.text
    codes: list[str] = confirmed.json()["recovery_codes"]
    return codes


def test_administrator_enables_terminals_and_an_auditor_opens_none(
    browser: Browser, gateway: Gateway, people: People
) -> None:
    name = shell(people, "switched", access_mode_web_terminal="disabled")
    with visiting(browser, gateway) as admin:
        page = admin.page
        admin.open(f"/terminal/{name}")
        admin.log_in(ADMIN)
        expect(page.get_by_text("Terminals in the browser are disabled on this connection.")).to_be_visible()
        page.get_by_role("link", name="Enable them in its settings").click()
        page.get_by_label("Description").fill("the <b>shell</b>")
        page.get_by_text("Users can open terminals in the browser").click()
        page.get_by_text("Users must prove who they are").click()
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Saved.")).to_be_visible()
    stored = people.ask("GET", f"/connections/{name}")
    assert stored["access_mode_web_terminal"] == stored["access_fresh_factor"] == "enabled"
    assert stored["description"] == "the <b>shell</b>"
    people.create("eve@example.com", "auditor")
    with visiting(browser, gateway, PHONE) as auditor:
        auditor.open(f"/terminal/{name}")
        auditor.log_in("eve@example.com")
        expect(auditor.page.get_by_role("status")).to_contain_text("Auditors")
        expect(auditor.page.get_by_role("button", name="Open terminal")).to_have_count(0)
        assert auditor.accessibility() == []


def test_terminal_ends_with_its_login(browser: Browser, gateway: Gateway, people: People) -> None:
    people.create("leaver@example.com")
    name = shell(people, "ending")
    with visiting(browser, gateway, PHONE) as leaver:
        leaver.open(f"/terminal/{name}")
        leaver.log_in("leaver@example.com")
        open_terminal(leaver.page)
        assert leaver.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        people.ask("PATCH", "/users/leaver@example.com", {"status": "inactive"})
        # The terminal says that it ended. Once another request is refused, too, the page leads to the login.
        ended = leaver.page.get_by_role("link", name="Log in again").or_(leaver.page.get_by_label("Password"))
        expect(ended).to_be_visible()
        leaver.expected_errors.append("401 (Unauthorized)")
