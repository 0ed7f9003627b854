"""What each screen loads at a first visit stays within its budget: bytes as they are sent, and files."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Request, expect
from tests.support.running import Gateway
from tests.web.conftest import Visit, be_logged_in, visiting
from tests.web.people import ADMIN, People

from postern.web.web_assets import BUILT

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]

SHELL = 160_000  # bytes of scripts that the home page needs, in Brotli
STYLES, FONTS = 25_000, 90_000
FILES = 10  # scripts, styles and the page itself, before the home page can be used
# On top of the shell, at the first visit of each screen. The controls for choosing are 50,000 of that, once for all.
ON_TOP = {
    "/connections": 50_000,
    "/reviews": 20_000,
    "/sessions": 20_000,
    "/sql/shop-demo": 175_000,
    "/terminal/shop-demo": 165_000,
    "/guardrails/new": 75_000,
    "/reports": 75_000,
    "/people": 75_000,
    "/me": 75_000,
}


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    """An administrator who is logged in, but whose browser has loaded nothing yet."""
    with visiting(browser, gateway) as visit:
        be_logged_in(visit, ADMIN)
        yield visit


class Loaded:
    """The built files that a page has asked for."""

    def __init__(self, visit: Visit) -> None:
        self._paths: set[str] = set()
        self.answers: list[str] = []  # of the API, with what they were asked
        visit.page.on("request", self._note)

    def _note(self, request: Request) -> None:
        url = urlsplit(request.url)
        self._paths.add(url.path.lstrip("/"))
        if url.path.startswith("/api/"):
            self.answers.append(f"{url.path}?{url.query}")

    def size(self, *endings: str) -> int:
        return sum(_sent_bytes(path) for path in self._paths if path.endswith(endings))

    def count(self, *endings: str) -> int:
        return sum(path.endswith(endings) for path in self._paths)


def _sent_bytes(path: str) -> int:
    """Return the size of a built file as the gateway sends it: compressed, where that is smaller."""
    file = BUILT / path
    compressed = file.with_name(file.name + ".br")
    return (compressed if compressed.is_file() else file).stat().st_size if file.is_file() else 0


def test_home_page_loads_little(admin: Visit) -> None:
    loaded = Loaded(admin)
    admin.open("/")
    expect(admin.page.get_by_role("region", name="Your open sessions")).to_be_visible()
    admin.page.wait_for_load_state("networkidle")
    assert len(loaded.answers) == len(set(loaded.answers))
    assert loaded.size(".js") <= SHELL
    assert loaded.size(".css") <= STYLES
    assert loaded.size(".woff2") <= FONTS
    assert 1 + loaded.count(".js", ".css") <= FILES


@pytest.mark.parametrize(("path", "budget"), ON_TOP.items(), ids=ON_TOP)
def test_screen_loads_little_on_top_of_the_shell(admin: Visit, path: str, budget: int) -> None:
    loaded = Loaded(admin)
    admin.open("/")
    expect(admin.page.get_by_role("heading", level=1)).to_contain_text("Hello")
    admin.page.wait_for_load_state("networkidle")
    before = loaded.size(".js")
    admin.open(path)
    expect(admin.page.get_by_role("heading", level=1)).to_be_visible()
    admin.page.wait_for_load_state("networkidle")
    assert loaded.size(".js") - before <= budget
