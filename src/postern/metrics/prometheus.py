"""Metrics of all processes in Prometheus's text format. Importing this imports Prometheus's library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from postern import __version__
from postern.metrics.metric_catalogue import METRICS
from postern.metrics.metric_catalogue import Metric as Described

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PROCESS = "process"


def text(by_process: Mapping[str, Mapping[str, Any] | None], machine: Mapping[str, float]) -> bytes:
    """Return the metrics page. `machine` has the gauges that belong to no process."""
    registry = CollectorRegistry()
    registry.register(_ProcessCollector(by_process, machine))
    return generate_latest(registry)


class _ProcessCollector(Collector):
    def __init__(self, by_process: Mapping[str, Mapping[str, Any] | None], machine: Mapping[str, float]) -> None:
        self._by_process = by_process
        self._machine = machine

    def collect(self) -> Iterator[Metric]:
        for name, metric in METRICS.items():
            if name in self._machine:
                yield GaugeMetricFamily(name, metric.help, value=self._machine[name])
                continue
            if name == "postern_build_info":
                info = GaugeMetricFamily(name, metric.help, labels=metric.labels)
                info.add_metric([__version__], 1)
                yield info
                continue
            labels = [*metric.labels, _PROCESS]
            family: Any
            if metric.kind == "histogram":
                family = HistogramMetricFamily(name, metric.help, labels=labels)
            elif metric.kind == "counter":
                family = CounterMetricFamily(name, metric.help, labels=labels)
            else:
                family = GaugeMetricFamily(name, metric.help, labels=labels)
            for process, snapshot in self._by_process.items():
                for values, number in _series(name, metric, snapshot):
                    _add(family, metric, [*values, process], number)
            yield family


def _series(name: str, metric: Described, snapshot: Mapping[str, Any] | None) -> Sequence[Any]:
    """Return a process's samples. Counters without labels begin at 0: Prometheus sees no increase from nothing to 1, so
    that an alert about the first failure would not fire."""
    if name == "postern_process_up":
        return [[[], 0 if snapshot is None else 1]]
    if snapshot is None:
        return []
    zero = [[[], 0]] if metric.kind == "counter" and not metric.labels else []
    series: Sequence[Any] = snapshot.get(name, zero)
    return series


def _add(family: Any, metric: Described, labels: list[str], number: Any) -> None:
    if metric.kind != "histogram":
        family.add_metric(labels, number)
        return
    buckets, total = [], 0.0
    for edge, hits in zip([*map(str, metric.buckets), "+Inf"], number[:-1], strict=True):
        total += hits
        buckets.append((edge, total))
    family.add_metric(labels, buckets, sum_value=number[-1])
