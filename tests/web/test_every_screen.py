"""What holds for each screen: it is accessible in both themes and on a phone, and keeps to the policy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from tests.support.running import Gateway
from tests.web.conftest import Visit, visiting_with
from tests.web.controls import wait_until_loaded
from tests.web.people import ADMIN, People
from tests.web.screens import SCREENS

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module", params=["light", "dark phone"])
def admin(request: pytest.FixtureRequest, browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    """An administrator who goes from screen to screen with one login."""
    with visiting_with(browser, gateway, ADMIN, request.param) as visit:
        yield visit


@pytest.mark.parametrize(("path", "heading"), SCREENS.items(), ids=SCREENS)
def test_screen_is_accessible(admin: Visit, path: str, heading: str) -> None:
    admin.open(path)
    expect(admin.page.get_by_role("heading", level=1)).to_contain_text(heading)
    wait_until_loaded(admin.page)
    assert admin.accessibility() == []
    width = admin.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width <= 0, f"{path} is {width} pixels wider than the window"
