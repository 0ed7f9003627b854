"""Lists fit into windows of all widths, and their words break where a reader expects it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, ViewportSize, expect
from tests.support.running import Gateway
from tests.web.conftest import Visit, visiting_as
from tests.web.controls import wait_until_loaded
from tests.web.people import ADMIN, People
from tests.web.screens import SCREENS

pytestmark = pytest.mark.ci

WIDTHS = (360, 640, 700, 720, 960, 1000, 1280)
LISTS = [
    *("/connections", "/sessions", "/reviews?view=all", "/audit", "/guardrails", "/masking", "/review-rules"),
    *(
        "/access-rules",
        "/network-rules",
        "/people",
        "/people/groups",
        "/people/service-accounts",
        "/people/federation-rules",
        "/people/api-keys",
    ),
    "/people/federation-rules",
    *("/people/machines", "/people/ssh-authorities", "/agents", "/runbooks/schedules", "/runbooks/repositories"),
    *("/runbooks/rules", "/retention/holds", "/retention/purges", "/integrations", "/integrations/templates"),
    *("/integrations/tracker", "/reports", "/reports/masking", "/reports/reviews", "/settings/organisations"),
    "/sessions?columns=connection,user,verb,status,started,duration,correlation_id",
]
EMAIL = "alexandra.featherstone@engineering.example.com"
CONNECTION = "warehouse_analytics.replica.eu-central-1"

# Exact times as long as they can be, on whatever day this runs; React writes none of them again.
LONGEST_TIMES = """() => {
  for (const time of document.querySelectorAll("main time"))
    if (time.textContent === time.title) time.textContent = "Sep 30, 2026, 10:58:58 AM UTC";
}"""
# What is wider than its place, and words of cells that are on two lines: [what, text].
FAULTS = """() => {
  const faults = [];
  const page = document.documentElement;
  if (page.scrollWidth > page.clientWidth) faults.push(["the document is wider than the window", page.scrollWidth]);
  for (const table of document.querySelectorAll("main table")) {
    const frame = table.parentElement;
    if (frame.scrollWidth > frame.clientWidth) faults.push(["a table is wider than its place", table.ariaLabel]);
  }
  const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    if (!text.parentElement.closest("td, th")) continue;
    for (const word of text.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
      if (lines.size > 1) faults.push(["a word is on two lines", text.data]);
    }
  }
  return faults;
}"""


@pytest.fixture(scope="module")
def people(gateway: Gateway) -> People:
    """With names as long as those of large organisations."""
    made = People(gateway)
    user = made.create(EMAIL, "database-administrators")
    shop = made.ask("GET", "/connections/shop-demo")
    fields = ("type", "subtype", "agent_id", "command")
    body = {name: shop[name] for name in fields if shop.get(name)} | {
        "name": CONNECTION,
        "description": "A copy of the warehouse, for reports",
        "connection_tags": {"environment": "production", "cost-center.example.com/team": "data_platform"},
        "secret": {},
    }
    made.admin.post("/connections", json=body)
    made.ask("POST", "/serviceaccounts", {"subject": "continuous_integration.nightly", "name": "Nightly builds"})
    for script in ("select 1", "drop table customers"):
        user.post("/sessions", json={"connection": "shop-demo", "script": script, "correlation_id": "f" * 64})
    return made


@pytest.fixture(scope="module")
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, reduced_motion="reduce") as visit:
        expect(visit.page.get_by_role("heading", level=1)).to_contain_text("Hello")
        yield visit


@pytest.mark.parametrize("path", LISTS)
def test_list_fits_into_windows_of_all_widths(admin: Visit, path: str) -> None:
    admin.open(path)
    expect(admin.page.get_by_role("heading", level=1)).to_be_visible()
    wait_until_loaded(admin.page)
    admin.page.evaluate(LONGEST_TIMES)
    faults: dict[int, Any] = {}
    for width in WIDTHS:
        admin.page.set_viewport_size(ViewportSize(width=width, height=800))
        admin.page.evaluate("() => new Promise(requestAnimationFrame)")
        faults[width] = admin.page.evaluate(FAULTS)
    assert not any(faults.values()), {width: found for width, found in faults.items() if found}


def test_lists_are_screens() -> None:
    assert {path.partition("?")[0] for path in LISTS} <= {path.partition("?")[0] for path in SCREENS}
