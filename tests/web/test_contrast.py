"""Users who prefer more contrast, or who force the colours of their system: controls, focus and states stay visible by
edges and words, not by colour alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.support.running import Gateway
from tests.web.conftest import Visit, visiting_as
from tests.web.controls import wait_until_loaded
from tests.web.people import ADMIN, People

pytestmark = pytest.mark.slow

MODES: dict[str, dict[str, Any]] = {
    "more, light": {"contrast": "more", "color_scheme": "light"},
    "more, dark": {"contrast": "more", "color_scheme": "dark"},
    "forced": {"forced_colors": "active"},
    "forced, dark": {"forced_colors": "active", "color_scheme": "dark"},
}
SCREENS = [
    *("/", "/connections", "/connections/shop-demo?tab=settings", "/sessions?refused=yes", "/reviews?view=all"),
    *("/audit", "/guardrails/new", "/masking", "/people", "/integrations/templates/new", "/reports", "/me"),
]
# Functions of the page: the contrast of two colours, and the first ground behind an element.
COLOURS = """
const channels = (colour) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
};
const luminance = (colour) => {
  const [red, green, blue] = channels(colour).map((value) =>
    value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const contrast = (one, other) => {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
};
const groundOf = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (channels(colour)[3] === 255) return colour;
  }
  return "white";
};
"""
# Controls without an edge of 4.5:1 on the ground around them, and chips without one; a quiet button is a word.
EDGELESS = f"""() => {{ {COLOURS}
  const isShown = (element) => element.getClientRects().length > 0 && !element.closest(".visually-hidden, [hidden]");
  const hasEdge = (element) => {{
    const {{ borderBottomWidth, borderBottomColor, borderBottomStyle }} = getComputedStyle(element);
    return parseFloat(borderBottomWidth) >= 1 && borderBottomStyle !== "none"
      && contrast(borderBottomColor, groundOf(element.parentElement)) >= 4.5;
  }};
  const controls = "main input:not([type=checkbox], [type=radio], [type=search]), main textarea, "
    + "main button[aria-haspopup=listbox], main [class*=_chip_], main [class*=_box_]";
  const found = [...document.querySelectorAll(controls)].filter(isShown);
  return [found.length, found.filter((element) => !hasEdge(element)).map((element) => element.outerHTML.slice(0, 200))];
}}"""
FOCUS = f"""() => {{ {COLOURS}
  const element = document.activeElement;
  const ring = [element, ...element.querySelectorAll("*"), element.parentElement, element.closest("label")]
    .filter(Boolean).map((each) => [each, getComputedStyle(each)])
    .find(([, style]) => parseFloat(style.outlineWidth) >= 2 && style.outlineStyle !== "none");
  return ring
    ? [element.outerHTML.slice(0, 200), contrast(ring[1].outlineColor, groundOf(ring[0].parentElement))]
    : [element.outerHTML.slice(0, 200), 0];
}}"""


@pytest.fixture(scope="module")
def people(gateway: Gateway) -> People:
    """A gateway with a refused session, one with masked values, and a script that waits for a review."""
    made = People(gateway)
    bob = made.create("bob@example.com", "developers")
    for script in ("drop table customers", "select email from customers limit 2"):
        made.admin.post("/sessions", json={"connection": "shop-demo", "script": script})
    made.ask("PATCH", "/connections/shop-demo", {"reviewers": ["admin"]})
    bob.post("/sessions", json={"connection": "shop-demo", "script": "select 3"}, headers={"Prefer": "wait=1"})
    return made


@pytest.fixture(scope="module", params=MODES)
def admin(request: pytest.FixtureRequest, browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, reduced_motion="reduce", **MODES[request.param]) as visit:
        expect(visit.page.get_by_role("heading", level=1)).to_contain_text("Hello")
        yield visit


def open_screen(admin: Visit, path: str) -> Page:
    admin.open(path)
    expect(admin.page.get_by_role("heading", level=1)).to_be_visible()
    wait_until_loaded(admin.page)
    return admin.page


def style_of(page: Page, selector: str, name: str) -> str:
    value: str = page.locator(selector).first.evaluate("(element, name) => getComputedStyle(element)[name]", name)
    return value


@pytest.mark.parametrize("path", SCREENS)
def test_controls_and_states_have_edges(admin: Visit, path: str) -> None:
    page = open_screen(admin, path)
    assert admin.accessibility() == []
    count, edgeless = page.evaluate(EDGELESS)
    assert edgeless == []
    assert count > 0 or path in {"/", "/masking", "/people"}


@pytest.mark.parametrize("path", ["/sessions", "/guardrails/new"])
def test_focus_ring_is_visible_at_each_stop(admin: Visit, path: str) -> None:
    page = open_screen(admin, path)
    for _ in range(30):
        page.keyboard.press("Tab")
        element, contrast = page.evaluate(FOCUS)
        if element.startswith("<body"):
            break
        assert contrast >= 3, element


def test_current_places_are_marked_by_an_edge(admin: Visit) -> None:
    page = open_screen(admin, "/sessions?refused=yes")
    here, elsewhere = "nav a[class*=place][aria-current=page]", "nav a[class*=place]:not([aria-current])"
    assert style_of(page, here, "borderInlineStartWidth") == "3px"
    assert style_of(page, elsewhere, "borderInlineStartWidth") == "0px"
    views = "nav[aria-label=Filters] a"
    marked = style_of(page, f"{views}[aria-current=page]", "borderBottomColor")
    assert marked not in {style_of(page, f"{views}:not([aria-current])", "borderBottomColor"), "rgba(0, 0, 0, 0)"}
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert style_of(page, f"{views}:not([aria-current])", "borderBottomColor") in {ground, "rgba(0, 0, 0, 0)"}


def test_refused_held_and_masked_are_said_in_words_and_edges(admin: Visit, people: People) -> None:
    page = open_screen(admin, "/sessions?refused=yes")
    refused = page.get_by_role("table", name="Sessions").get_by_text("Refused").first
    assert refused.evaluate("(element) => getComputedStyle(element).borderTopWidth") == "2px"
    open_screen(admin, "/reviews?view=all")
    held = page.get_by_role("table", name="Reviews").get_by_text("Waiting").first
    assert held.evaluate("(element) => getComputedStyle(element).borderTopWidth") == "2px"
    session = people.ask("GET", "/sessions?masked=true")["data"][0]
    open_screen(admin, f"/sessions/{session['id']}?tab=results")
    cell = page.get_by_role("gridcell").filter(has_text="(masked)").locator("span").first
    expect(cell).to_be_visible()
    assert "underline" in cell.evaluate("(element) => getComputedStyle(element).textDecorationLine")
    assert admin.accessibility() == []


def test_option_that_has_the_focus_is_outlined(admin: Visit) -> None:
    page = open_screen(admin, "/sessions")
    page.get_by_role("button", name="More filters").click()
    page.get_by_role("button", name="Why it ended").first.click()
    page.keyboard.press("ArrowDown")
    option = page.locator("[role=option][data-focused]")
    assert option.evaluate("(element) => getComputedStyle(element).outlineStyle") == "solid"
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
