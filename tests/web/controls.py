"""What users do with the controls of a page, in one way for all tests."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect


def wait_until_loaded(page: Page) -> None:
    """Wait for the rows that placeholders stand for: a slow page can be quiet before it asks for them."""
    page.wait_for_load_state("networkidle")
    expect(page.locator("main [class*=skeleton]")).to_have_count(0)


def choose(page: Page, label: str, option: str) -> None:
    """Choose an option of a list that a button opens: the first with this label."""
    page.get_by_role("button", name=label).first.click()
    page.get_by_role("option", name=option, exact=True).click()


def pick(scope: Page | Locator, label: str, name: str) -> None:
    """Find a name by typing it, and take it."""
    box = scope.get_by_role("combobox", name=label)
    box.click()
    box.fill(name)
    box.page.get_by_role("option", name=name, exact=True).click()


def add_name(scope: Page | Locator, label: str, name: str) -> None:
    """Add a name to a list of names, whose menu stays open for the next one."""
    pick(scope, label, name)
    (scope if isinstance(scope, Page) else scope.page).keyboard.press("Escape")


def run_script(page: Page, script: str) -> None:
    """Run a script instead of what is in the editor. That is deleted first: Chromium tries to give new text the style
    of a selection that it replaces, which the policy blocks. A script before it may be running: its rows come first."""
    editor = page.get_by_role("textbox", name="Script")
    editor.press("Control+a")
    editor.press("Delete")
    page.keyboard.insert_text(script)
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()
    editor.press("Control+Enter")


def result_tabs(page: Page) -> Locator:
    """The tabs of a script's results."""
    return page.get_by_role("tablist", name="Results").get_by_role("tab")


def opened_result(page: Page) -> Locator:
    return result_tabs(page).and_(page.get_by_role("tab", selected=True))
