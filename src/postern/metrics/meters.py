"""Metrics of one process. Counting is one addition in a dictionary."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from postern.metrics.metric_catalogue import METRICS

MOST_SERIES = 1_000  # per metric and process; further series count as "other"

Labels = tuple[str, ...]


class Meters:
    """Counters and histograms of a process. `sample` registers a function that is called for each snapshot."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[Labels, float]] = {}
        self._times: dict[str, dict[Labels, list[float]]] = {}
        self._samples: list[tuple[str, Labels, Callable[[], float]]] = []

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        series = self._counts.setdefault(name, {})
        if labels not in series and len(series) >= MOST_SERIES:
            labels = ("other",) * len(labels)
        series[labels] = series.get(labels, 0) + by

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        series = self._times.setdefault(name, {})
        if labels not in series and len(series) >= MOST_SERIES:
            labels = ("other",) * len(labels)
        buckets = METRICS[name].buckets
        times = series.get(labels)
        if times is None:
            times = series[labels] = [0.0] * (len(buckets) + 2)
        times[bisect_left(buckets, seconds)] += 1
        times[-1] += seconds

    def sample(self, name: str, take: Callable[[], float], *labels: str) -> None:
        self._samples.append((name, labels, take))

    def snapshot(self) -> dict[str, Any]:
        """Return all metrics as JSON: by name, lists of [labels, value].

        A histogram's value is the list of its buckets, followed by the sum.
        """
        metrics: dict[str, list[list[Any]]] = {}
        for name, counted in self._counts.items():
            metrics[name] = [[list(labels), value] for labels, value in counted.items()]
        for name, timed in self._times.items():
            metrics[name] = [[list(labels), value] for labels, value in timed.items()]
        for name, labels, take in self._samples:
            metrics.setdefault(name, []).append([list(labels), take()])
        assert all(name in METRICS for name in metrics)
        return metrics
