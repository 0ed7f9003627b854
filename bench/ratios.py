"""A table of routes beside each other: medians, and how they stand to the first route's."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass
class Ratios:
    """Values of each round, by what was measured and by route."""

    values: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def add(self, what: str, route: str, value: float) -> None:
        self.values.setdefault((what, route), []).append(value)

    def lines(self, routes: Sequence[str]) -> Iterator[str]:
        """As Markdown. A route without a value for something has an empty cell."""
        yield "| | " + " | ".join(routes) + " |"
        yield "|---" * (len(routes) + 1) + "|"
        for what in dict.fromkeys(name for name, _ in self.values):
            medians = [
                statistics.median(found) if (found := self.values.get((what, route))) else None for route in routes
            ]
            first = medians[0]
            cells = ["" if value is None else _cell(value, first) for value in medians]
            yield f"| {what} | " + " | ".join(cells) + " |"


def _cell(value: float, first: float | None) -> str:
    return f"{value:,.1f}" + (f" ({value / first:.2f})" if first else "")
