"""The numbers of one process. Counting is one addition in a dictionary."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from postern.metrics.metric_catalogue import METRICS

MOST_SERIES = 1_000  # of one metric in one process; what is beyond goes to the series "other"

Labels = tuple[str, ...]


class Meters:
    """`samples` are asked when somebody wants to know: they give what is counted or known elsewhere already."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[Labels, float]] = {}
        self._times: dict[str, dict[Labels, list[float]]] = {}
        self._samples: list[tuple[str, Labels, Callable[[], float]]] = []

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        found = self._counts.setdefault(name, {})
        if labels not in found and len(found) >= MOST_SERIES:
            labels = ("other",) * len(labels)
        found[labels] = found.get(labels, 0) + by

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        found = self._times.setdefault(name, {})
        if labels not in found and len(found) >= MOST_SERIES:
            labels = ("other",) * len(labels)
        buckets = METRICS[name].buckets
        times = found.get(labels)
        if times is None:
            times = found[labels] = [0.0] * (len(buckets) + 2)
        times[bisect_left(buckets, seconds)] += 1
        times[-1] += seconds

    def sample(self, name: str, take: Callable[[], float], *labels: str) -> None:
        self._samples.append((name, labels, take))

    def snapshot(self) -> dict[str, Any]:
        """As JSON: by name, lists of [labels, value]; a histogram's value is its buckets, and last the sum."""
        found: dict[str, list[list[Any]]] = {}
        for name, counted in self._counts.items():
            found[name] = [[list(labels), value] for labels, value in counted.items()]
        for name, timed in self._times.items():
            found[name] = [[list(labels), value] for labels, value in timed.items()]
        for name, labels, take in self._samples:
            found.setdefault(name, []).append([list(labels), take()])
        assert all(name in METRICS for name in found)
        return found
