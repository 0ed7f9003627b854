"""The project's own targets, held against what was measured; each is a ratio within one run, or a bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bench.plan import CLIENTS, MODES, case
from bench.results import (
    ADDED,
    ANSWERED,
    CONNECTS,
    CPU_MEGABYTE,
    MEMORY,
    P50,
    P99,
    PER_CORE,
    PROCESSOR,
    READY,
    SHARED_MEMORY,
    SPEED,
    STATEMENTS,
    TPS,
    Metric,
    Results,
)
from bench.web import figures as f

from bench import guardrails, masked, start
from bench import sections as c
from bench import stage as s


@dataclass(frozen=True, slots=True)
class Judged:
    target: str
    measured: str
    met: bool


def judge(results: Results) -> list[Judged]:
    """Those targets for which there are figures."""
    makers: Iterable[Callable[[Results], Iterable[Judged]]] = (
        _selects,
        _large,
        _inspected,
        _connects,
        _memory,
        _lists,
        _start,
        _web,
    )
    return [one for make in makers for one in make(results)]


def _selects(results: Results) -> Iterable[Judged]:
    for mode in MODES:
        for clients in CLIENTS:
            name = case(mode, clients)
            at = f"{mode}, {clients} client{'s' if clients > 1 else ''}"
            yield from _at_least(results, 1.0, c.SELECTS, name, TPS, f"throughput with a guardrail, {at}")
            yield from _at_most(results, 3.0, c.SELECTS, name, P99, f"p99 with a guardrail, {at}")
        direct = results.median(c.SELECTS, case(mode, 1), s.DIRECT, P50)
        ours = results.median(c.SELECTS, case(mode, 1), s.GUARDED, P50)
        if direct and ours:
            added = ours - direct
            yield Judged(f"added p50 with a guardrail, {mode}, 1 client ≤ 45 µs", f"{added:.0f} µs", added <= 45)


def _at_least(results: Results, bound: float, section: str, name: str, metric: Metric, text: str) -> Iterable[Judged]:
    base = results.median(section, name, s.BOUNCER, metric)
    ours = results.median(section, name, s.GUARDED, metric)
    if base and ours:
        yield Judged(f"{text} ≥ {bound:g} × pgbouncer", f"{ours / base:.2f}", ours / base >= bound)


def _at_most(results: Results, bound: float, section: str, name: str, metric: Metric, text: str) -> Iterable[Judged]:
    base = results.median(section, name, s.BOUNCER, metric)
    ours = results.median(section, name, s.GUARDED, metric)
    if base and ours:
        yield Judged(f"{text} ≤ {bound:g} × pgbouncer", f"{ours / base:.2f}", ours / base <= bound)


def _large(results: Results) -> Iterable[Judged]:
    for name in (c.LINES, c.ORDINARY, c.COPY):
        direct = results.median(c.LARGE, name, s.DIRECT, SPEED)
        ours = results.median(c.LARGE, name, s.POSTERN, SPEED)
        if direct and ours:
            yield Judged(f"{name}, recorded ≥ 0.95 × direct", f"{ours / direct:.2f}", ours / direct >= 0.95)
    for name, bound in ((c.ORDINARY, 150), (c.DENSE, 30)):
        masked = results.median(c.LARGE, name, s.MASKED, PER_CORE)
        if masked:
            yield Judged(f"{name}, masked ≥ {bound} MB/s per core", f"{masked:.0f} MB/s", masked >= bound)


def _inspected(results: Results) -> Iterable[Judged]:
    for mode in MODES:
        added = results.median(guardrails.SELECTS, case(mode, 8), s.READ_ONLY, ADDED)
        if added is not None:
            yield Judged(f"rules about statements, {mode}, 8 clients: ≤ 5 µs more", f"{added:.1f} µs", added <= 5)
    for route in (s.SEARCHED, s.ALL_TYPES, *s.MARKED.values()):
        spent = results.median(masked.SECTION, masked.ORDINARY, route, CPU_MEGABYTE)
        if spent:
            target = f"{masked.ORDINARY}, {route.removeprefix('postern: ')}: ≥ 150 MB/s per core"
            yield Judged(target, f"{1000 / spent:.0f} MB/s", 1000 / spent >= 150)


def _connects(results: Results) -> Iterable[Judged]:
    ours = results.median(c.CONNECTING, c.EACH, s.POSTERN, CONNECTS)
    for base_name in (s.BOUNCER, s.FRESH_BOUNCER):
        base = results.median(c.CONNECTING, c.EACH, base_name, CONNECTS)
        if base and ours:
            yield Judged(f"connects per second ≥ 0.8 × {base_name}", f"{ours / base:.2f}", ours / base >= 0.8)
    statements = results.median(c.STORE, c.OPENING, s.POSTERN, STATEMENTS)
    if statements is not None:
        yield Judged("statements to open a session ≤ 3", f"{statements:g}", statements <= 3)


def _memory(results: Results) -> Iterable[Judged]:
    idle = results.median(c.MEMORY_USE, c.IDLE, s.POSTERN, MEMORY)
    if idle is not None:
        yield Judged("an idle session ≤ 60 KB", f"{idle * 1.024:.0f} KB", idle * 1024 <= 60_000)
    stalled = results.median(c.MEMORY_USE, c.STALLED, s.POSTERN, MEMORY)
    if stalled is not None:
        yield Judged("a stalled client ≤ 16 MiB", f"{stalled / 1024:.1f} MiB", stalled <= 16 * 1024)


def _lists(results: Results) -> Iterable[Judged]:
    for one in results.all():
        if one.section == c.LISTS and one.metric == ANSWERED:
            target = f"2,000 runbooks listed, {one.route}, {one.case}: p50 ≤ 50 ms"
            yield Judged(target, f"{one.median:.1f} ms", one.median <= 50)


def _start(results: Results) -> Iterable[Judged]:
    for name in (start.FIRST, start.LATER):
        for metric, bound in ((READY, 3), (PROCESSOR, 4), (SHARED_MEMORY, 250)):
            measured = results.median(start.SECTION, name, s.POSTERN, metric)
            if measured is not None:
                target = f"`postern up`, {name}, {metric.name} ≤ {bound} {metric.unit}"
                yield Judged(target, f"{measured:.{metric.digits}f} {metric.unit}", measured <= bound)


def _web(results: Results) -> Iterable[Judged]:
    for figure in f.FIGURES:
        for machine, budget in ((f.HERE, figure.budget), (f.SLOW, figure.slow_budget)):
            measured = results.median(f.SECTION, machine, figure.name, figure.metric)
            if budget is None or measured is None:
                continue
            where = f", {machine}" if machine == f.SLOW else ""
            target = f"{figure.name}{where} ≤ {budget:,g}{figure.unit}"
            yield Judged(target, f"{measured:,.{figure.digits}f}{figure.unit}", measured <= budget)
