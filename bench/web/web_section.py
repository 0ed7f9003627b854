"""The section of the benchmark: all parts, one after the other, on a site and in a browser of their own."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from bench.plan import Plan
from bench.results import Results
from bench.stage import Stage
from bench.web.chromium import chromium
from bench.web.editor import editor
from bench.web.lists import lists
from bench.web.loading import loading
from bench.web.sizes import FULL, WebSizes
from bench.web.terminals import terminals
from bench.web.web_site import WebSite, web_site
from playwright.sync_api import Browser

from postern.web.web_assets import BUILT

Part = Callable[[Browser, WebSite, Results], None]
PARTS: dict[str, Part] = {"loading": loading, "lists": lists, "editor": editor, "terminals": terminals}


def web(stage: Stage, results: Results, plan: Plan) -> None:
    """Nothing of the stage takes part, nor does it work meanwhile."""
    measure(results, FULL)


def measure(results: Results, sizes: WebSizes, parts: tuple[str, ...] = ()) -> None:
    with web_site(sizes) as site, chromium() as browser:
        for name in parts or PARTS:
            PARTS[name](browser, site, results)


def missing() -> str | None:
    """Return what the section needs and does not find."""
    if shutil.which("chromium") is None:
        return "Chromium is missing; run `make services`."
    if not (BUILT / "index.html").is_file():
        return "The web application is not built; run `make web`."
    return None
