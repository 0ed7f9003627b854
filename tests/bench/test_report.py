"""What the benchmark says about its figures."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from bench.machine import slug
from bench.results import ADDED, ANSWERED, CPU, CPU_MEGABYTE, TPS, Results
from bench.targets import judge

from bench import guardrails, masked, report
from bench import sections as c
from bench import stage as s

MACHINE = {"cores": "2", "processor": "Intel(R) Xeon(R) CPU @ 2.30GHz"}


def some(ours: float) -> Results:
    """Three rounds of one case; the median of `ours` is `ours`."""
    results = Results()
    for value in (ours - 1, ours + 1000, ours):
        results.add(c.SELECTS, "simple, 1", s.DIRECT, TPS, 20_000)
        results.add(c.SELECTS, "simple, 1", s.BOUNCER, TPS, 10_000)
        results.add(c.SELECTS, "simple, 1", s.GUARDED, TPS, value)
    return results


def test_a_figure_is_the_median_with_its_ratios() -> None:
    text = report.render(MACHINE, "3 rounds.", some(9_000))
    assert f"| {s.GUARDED} | 9,000 (0.45; 0.90) |" in text


def test_without_both_bases_there_are_no_ratios() -> None:
    results = Results()
    results.add(c.SELECTS_TLS, "prepared, 1", s.POSTERN_TLS, TPS, 5000)
    assert f"| {s.POSTERN_TLS} | 5,000 |" in report.render(MACHINE, "", results)


def test_processor_time_is_not_compared_by_ratio() -> None:
    results = Results()
    results.add(c.SELECTS, "simple, 1", s.BOUNCER, CPU, 12.34)
    assert f"| {s.BOUNCER} | 12.3 |" in report.render(MACHINE, "", results)


@pytest.mark.parametrize(("ours", "met"), [(10_000, True), (9_990, False)])
def test_a_target_is_met_or_missed(ours: float, met: bool) -> None:
    (judged,) = judge(some(ours))
    assert judged.met is met
    assert ("**missed**" in report.render(MACHINE, "", some(ours))) is not met


def test_nothing_is_judged_that_was_not_measured() -> None:
    assert judge(Results()) == []


def test_rules_are_compared_with_no_rules_alone() -> None:
    results = Results()
    for route, value in ((s.DIRECT, 20_000), (s.POSTERN, 10_000), (s.STATEMENTS, 9_000)):
        results.add(guardrails.SELECTS, "simple, 1", route, TPS, value)
    text = report.render(MACHINE, "", results)
    assert f"In brackets: ratio to {s.POSTERN}." in text
    assert f"| {s.STATEMENTS} | 9,000 (0.90) |" in text


@pytest.mark.parametrize(("added", "met"), [(5.0, True), (5.1, False)])
def test_rules_about_statements_have_a_bound(added: float, met: bool) -> None:
    results = Results()
    results.add(guardrails.SELECTS, "prepared, 8", s.READ_ONLY, ADDED, added)
    assert [one.met for one in judge(results)] == [met]


@pytest.mark.parametrize(("spent", "met"), [(6.6, True), (6.7, False)])
def test_masked_rows_have_a_bound(spent: float, met: bool) -> None:
    results = Results()
    results.add(masked.SECTION, masked.ORDINARY, s.SEARCHED, CPU_MEGABYTE, spent)
    assert [one.met for one in judge(results)] == [met]


def test_both_files_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "FOLDER", tmp_path)
    path = report.write(MACHINE, "3 rounds.", some(9_000), date(2026, 1, 2))
    assert path == tmp_path / "2026-01-02-2-cores-intel-xeon.md"
    figures = json.loads(path.with_suffix(".json").read_text())["figures"]
    assert figures[2] == {
        "section": c.SELECTS,
        "case": "simple, 1",
        "route": s.GUARDED,
        "metric": "throughput",
        "unit": "transactions/s",
        "median": 9_000,
        "rounds": [8_999, 10_000, 9_000],
    }


def test_a_run_of_some_sections_leaves_that_of_all_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "FOLDER", tmp_path)
    path = report.write(MACHINE, "", some(9_000), date(2026, 1, 2), ("guardrails", "masking"))
    assert path.name == "2026-01-02-2-cores-intel-xeon-guardrails-masking.md"


def test_the_file_name_holds_cores_and_processor_only() -> None:
    assert slug({"cores": "8", "processor": "AMD EPYC 7B13 64-Core Processor"}) == "8-cores-amd-epyc-7b13-64-core"


def test_lists_of_runbooks_are_held_against_their_bound() -> None:
    results = Results()
    results.add(c.LISTS, "names alone", "an administrator", ANSWERED, 50.0)
    results.add(c.LISTS, "with connections", "an administrator", ANSWERED, 50.1)
    assert [one.met for one in judge(results)] == [True, False]
