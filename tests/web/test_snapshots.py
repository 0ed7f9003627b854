"""The main screens look as they did: pictures of them are compared with those in `snapshots/`.

`make pictures` writes them anew after a change that was meant; look at each before you commit it. Both pictures are
scaled down first, so that another version of Chromium, which draws the edges of letters in its own way, is no change.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.support.running import Gateway
from tests.web.conftest import Visit, visiting_with
from tests.web.controls import wait_until_loaded
from tests.web.people import ADMIN, People

pytestmark = pytest.mark.ci

SNAPSHOTS = Path(__file__).parent / "snapshots"
WRITES = "POSTERN_SNAPSHOTS" in os.environ
MOST_CHANGED = 0.01  # of the pixels of the small pictures
SCREENS = {
    "login": "/login",
    "connections": "/connections",
    "connection": "/connections/shop-demo",
    "sql": "/sql/shop-demo",
    "guardrail": "/guardrails/new?preset=read-only",
    "people": "/people",
    "settings": "/settings",
}
# Return the share of pixels of two pictures that differ, at a quarter of the size.
COMPARE = """async ([before, now]) => {
  const small = await Promise.all([before, now].map(async (data) => {
    const image = await createImageBitmap(await (await fetch("data:image/png;base64," + data)).blob());
    const [width, height] = [Math.ceil(image.width / 4), Math.ceil(image.height / 4)];
    const drawing = new OffscreenCanvas(width, height).getContext("2d");
    drawing.imageSmoothingQuality = "high";
    drawing.drawImage(image, 0, 0, width, height);
    return drawing.getImageData(0, 0, width, height);
  }));
  const [a, b] = small;
  if (a.width !== b.width || a.height !== b.height) return 1;
  let changed = 0;
  for (let at = 0; at < a.data.length; at += 4) {
    const differs = [0, 1, 2].some((part) => Math.abs(a.data[at + part] - b.data[at + part]) > 32);
    if (differs) changed += 1;
  }
  return changed / (a.data.length / 4);
}"""


@pytest.fixture(scope="module")
def people(gateway: Gateway) -> People:
    made = People(gateway)
    made.create("ann@example.com", "dba")
    return made


@pytest.fixture(scope="module", params=["light", "dark", "phone"])
def admin(request: pytest.FixtureRequest, browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_with(browser, gateway, ADMIN, request.param) as visit:
        yield visit


def share_of_changes(page: Page, before: bytes, now: bytes) -> float:
    blank = page.context.new_page()
    pictures = [base64.b64encode(picture).decode() for picture in (before, now)]
    share: float = blank.evaluate(COMPARE, pictures)
    blank.close()
    return share


@pytest.mark.parametrize("name", SCREENS)
def test_screen_looks_as_before(admin: Visit, name: str, request: pytest.FixtureRequest) -> None:
    admin.open(SCREENS[name])
    page = admin.page
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    wait_until_loaded(page)
    changing = [page.locator("time"), page.get_by_text(admin.url)]
    now = page.screenshot(animations="disabled", caret="hide", mask=changing, mask_color="#808080")
    stored = SNAPSHOTS / f"{name}-{request.node.callspec.params['admin']}.png"
    if WRITES:
        stored.write_bytes(now)
    share = share_of_changes(page, stored.read_bytes(), now)
    if share > MOST_CHANGED:
        seen = Path(request.config.rootpath) / "build" / "snapshots" / stored.name
        seen.parent.mkdir(parents=True, exist_ok=True)
        seen.write_bytes(now)
        pytest.fail(f"{share:.1%} of {stored.name} has changed; it looks like {seen} now. Meant? `make pictures`")
