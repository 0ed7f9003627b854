"""Tables for people, in Markdown: the same on the terminal and in the file; JSON for programs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from bench.machine import slug
from bench.results import CPU, CPU_MEGABYTE, SPEED, TPS, Metric, Results, Series
from bench.sections import BASES
from bench.targets import judge

from bench import stage as s

_BASES = (s.DIRECT, s.BOUNCER)
FOLDER = Path(__file__).resolve().parent / "results"


def render(machine: dict[str, str], plan: str, results: Results) -> str:
    lines = ["# Benchmark", "", "| machine | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in machine.items()]
    lines += [
        "",
        f"{plan} Medians of the rounds. In brackets: {_against(_BASES)}, unless a section says otherwise.",
        "",
    ]
    lines += [_noise(results), ""]
    for section in dict.fromkeys(one.section for one in results.all()):
        lines += [f"## {section}", ""]
        if section in BASES:
            lines += [f"In brackets: {_against(BASES[section])}.", ""]
        inside = [one for one in results.all() if one.section == section]
        for metric in dict.fromkeys(one.metric for one in inside):
            lines += [*_table(results, [one for one in inside if one.metric == metric], metric), ""]
    lines += ["## Targets", "", "| target | measured | |", "|---|---|---|"]
    lines += [f"| {one.target} | {one.measured} | {'met' if one.met else '**missed**'} |" for one in judge(results)]
    return "\n".join(lines) + "\n"


def write(machine: dict[str, str], plan: str, results: Results, today: date, only: Sequence[str] = ()) -> Path:
    """Writes both files; answers the path of the Markdown one. `only` are the sections, where not all were measured.
    An earlier run of the same day and the same sections is replaced."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{'-'.join((today.isoformat(), slug(machine), *only))}.md"
    path.write_text(render(machine, plan, results))
    content = {"machine": machine, "plan": plan, "figures": results.as_json()}
    path.with_suffix(".json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return path


def _against(bases: tuple[str, ...]) -> str:
    return "; ".join(f"ratio to {base}" for base in bases)


def _noise(results: Results) -> str:
    """What a reader may make of small differences."""
    found = []
    for metric in (TPS, CPU, SPEED, CPU_MEGABYTE):
        spreads = [one.spread for one in results.all() if one.metric == metric and len(one.values) > 1]
        if spreads:
            found.append(f"{metric.name} {statistics.median(spreads):.0%}")
    if not found:
        return "How much the figures vary from round to round is not known."
    return f"From lowest to highest round, as a part of the median, typically: {', '.join(found)}."


def _table(results: Results, series: list[Series], metric: Metric) -> Iterable[str]:
    cases = list(dict.fromkeys(one.case for one in series))
    yield f"| {metric.name}, {metric.unit} | " + " | ".join(cases) + " |"
    yield "|---|" + "---:|" * len(cases)
    for route in dict.fromkeys(one.route for one in series):
        cells = (_cell(results, series[0].section, case, route, metric) for case in cases)
        yield f"| {route} | " + " | ".join(cells) + " |"


def _cell(results: Results, section: str, case: str, route: str, metric: Metric) -> str:
    value = results.median(section, case, route, metric)
    if value is None:
        return ""
    text = f"{value:,.{metric.digits}f}"
    if not metric.compared:
        return text
    bases = (results.median(section, case, base, metric) for base in BASES.get(section, _BASES))
    ratios = [f"{value / base:.2f}" if base else "–" for base in bases]
    return text if set(ratios) == {"–"} else f"{text} ({'; '.join(ratios)})"
