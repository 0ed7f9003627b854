"""The table of the benchmark of agents."""

from __future__ import annotations

from bench.reach import DIRECT, ONE, TWO, Figures


def test_medians_and_their_ratios() -> None:
    figures = Figures()
    for direct, one, two in ((10, 5, 2), (20, 10, 4), (30, 15, 6)):
        for route, value in ((DIRECT, direct), (ONE, one), (TWO, two)):
            figures.add("speed", route, value)
    assert list(figures.table())[2] == "| speed | 20.0 | 10.0 (0.50) | 4.0 (0.20) | 0.40 |"
