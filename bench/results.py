"""What was measured: one value for each round, kept by section, case, route and metric."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True)
class Metric:
    """`digits` behind the point; `compared` ones are shown as ratios too."""

    name: str
    unit: str
    digits: int = 0
    compared: bool = False


TPS = Metric("throughput", "transactions/s", compared=True)
P50 = Metric("p50", "µs", compared=True)
P99 = Metric("p99", "µs", compared=True)
CPU = Metric("processor time of the proxy", "µs per transaction", 1)
ADDED = Metric("processor time above that of no rules", "µs per transaction", 1)
SPEED = Metric("speed", "MB/s", compared=True)
PER_CORE = Metric("speed for each core that the proxy uses", "MB per second of processor time")
CPU_MEGABYTE = Metric("processor time of the proxy", "ms for each MB", 1)
CONNECTS = Metric("connects", "connects/s", compared=True)
CPU_CONNECT = Metric("processor time of the proxy", "µs per connect")
MEMORY = Metric("memory", "KiB", 1)
STATEMENTS = Metric("statements", "SQL statements", 1)
APPROVED = Metric("from an approval to the client's session", "ms", 1)
REVOKED = Metric("from a revoke to the end of the session", "ms", 1)
WORST_APPROVED = Metric("from an approval to the client's session, the longest", "ms", 1)
WORST_REVOKED = Metric("from a revoke to the end of the session, the longest", "ms", 1)
IDLE_CPU = Metric("processor time of the proxy while nothing happens", "ms each second", 1)
DESCRIPTORS = Metric("file descriptors of the proxy", "in all")
ANSWERED = Metric("until the list is answered, p50", "ms", 1)
WORST_ANSWERED = Metric("until the list is answered, the longest", "ms", 1)
CPU_ANSWER = Metric("processor time of an answer, the client's included", "ms", 1)
STALL = Metric("the event loop stands still, the longest", "ms", 1)
READY = Metric("until it is ready", "s", 2)
PROCESSOR = Metric("processor time of all processes until then", "s", 2)
EXEC = Metric("`postern exec` of a short statement", "s", 2)
SHARED_MEMORY = Metric("memory of all processes, shared pages counted once", "MB")
REQUESTS = Metric("load", "API requests/s")


@dataclass(frozen=True, slots=True)
class Series:
    section: str
    case: str
    route: str
    metric: Metric
    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """How far the rounds lie apart, as a part of their median."""
        return (max(self.values) - min(self.values)) / self.median if self.median else 0.0


class Results:
    """In the order in which things were first measured."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str, str, str], Series] = {}

    def add(self, section: str, case: str, route: str, metric: Metric, value: float) -> None:
        key = (section, case, route, metric.name)
        self._series.setdefault(key, Series(section, case, route, metric)).values.append(value)

    def median(self, section: str, case: str, route: str, metric: Metric) -> float | None:
        """None when it was not measured."""
        found = self._series.get((section, case, route, metric.name))
        return found.median if found else None

    def all(self) -> list[Series]:
        return list(self._series.values())

    def as_json(self) -> list[dict[str, object]]:
        return [
            {
                **{name: value for name, value in asdict(one).items() if name not in ("metric", "values")},
                "metric": one.metric.name,
                "unit": one.metric.unit,
                "median": round(one.median, 3),
                "rounds": [round(value, 3) for value in one.values],
            }
            for one in self.all()
        ]
