"""The section about the web application measures each of its figures, with little data."""

from __future__ import annotations

import pytest
from bench.results import Results
from bench.targets import judge
from bench.web import figures as f
from bench.web.sizes import SMALL
from bench.web.web_section import measure, missing
from tests.web.conftest import require

pytestmark = pytest.mark.slow


def test_each_figure_is_measured() -> None:
    what = missing()
    require(what is None, what or "")
    results = Results()
    measure(results, SMALL)
    measured = {one.route for one in results.all()}
    assert measured == {figure.name for figure in f.FIGURES}
    assert all(one.median >= 0 for one in results.all())


def test_a_figure_has_its_budget_beside_it() -> None:
    results = Results()
    f.add(results, f.FIRST_PAINT, 900)
    f.add(results, f.FIRST_PAINT, 900, f.SLOW)
    f.add(results, f.HOME_REQUESTS, 8)
    f.add(results, f.RUN, 50)
    assert {one.target: (one.measured, one.met) for one in judge(results)} == {
        "home, first visit: first paint ≤ 300 ms": ("900.0 ms", False),
        f"home, first visit: first paint, {f.SLOW} ≤ 1,200 ms": ("900.0 ms", True),
        "requests until home can be used ≤ 8": ("8", True),
    }
