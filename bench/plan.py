"""What a run is made of: rounds and their length, and how cases of pgbench are named and kept."""

from __future__ import annotations

from dataclasses import dataclass

from bench.pgbench import Run
from bench.results import CPU, P50, P99, TPS, Results

CLIENTS = (1, 8, 32)
MODES = ("simple", "prepared")


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int
    seconds: float


def case(mode: str, clients: int) -> str:
    return f"{mode}, {clients}"


def add_run(results: Results, section: str, name: str, route: str, run: Run) -> None:
    results.add(section, name, route, TPS, run.tps)
    results.add(section, name, route, P50, run.p50)
    results.add(section, name, route, P99, run.p99)
    if run.cpu is not None:
        results.add(section, name, route, CPU, run.cpu)
