"""What is kept of a round of pgbench under rules."""

from __future__ import annotations

from bench.guardrails import SELECTS, keep
from bench.pgbench import Run
from bench.results import ADDED, CPU, Results

from bench import stage as s


def test_what_rules_add_is_told_for_each_round_by_itself() -> None:
    results = Results()
    for without, under in ((30.0, 33.0), (60.0, 62.0), (31.0, 35.0)):
        keep(results, SELECTS, "simple, 1", {s.POSTERN: run(without), s.STATEMENTS: run(under)})
    assert results.median(SELECTS, "simple, 1", s.STATEMENTS, CPU) == 35.0
    assert results.median(SELECTS, "simple, 1", s.STATEMENTS, ADDED) == 3.0
    assert results.median(SELECTS, "simple, 1", s.POSTERN, ADDED) is None


def run(cpu: float) -> Run:
    return Run(1000, 100, 200, cpu)
