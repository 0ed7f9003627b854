"""What is measured, one function for each section: one round of it, all routes in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

from bench.plan import CLIENTS, MODES, Plan, add_run, case
from bench.results import (
    ANSWERED,
    CONNECTS,
    CPU_ANSWER,
    CPU_CONNECT,
    MEMORY,
    PER_CORE,
    REQUESTS,
    SPEED,
    STALL,
    STATEMENTS,
    WORST_ANSWERED,
    Results,
)
from bench.stage import Route, Stage
from bench.stream import read
from bench.web.web_section import web

from bench import guardrails, masked, memory, pgbench, reviews, start, statements
from bench import stage as s

SELECTS = "Point queries (pgbench -S)"
SELECTS_TLS = "Point queries with TLS between client and proxy (pgbench -S, prepared)"
LARGE = "Large results"
CONNECTING = "Connects (pgbench -C, 4 clients, SCRAM on both sides)"
API_LOAD = "Point queries while the API is under load (pgbench -S, prepared, 8 clients)"
MEMORY_USE = "Memory"
STORE = "Statements to the store"
LISTS = "Lists of 2,000 runbooks of 5 repositories"
TEMPLATES = "Templates of runbooks beside the API's event loop"

EACH = "each with one query"
QUIET, LOADED = "API idle", "API under load"
IDLE, STALLED = "an idle session (of 200)", "a client that does not read its 1 GB"
OPENING, WHOLE = "to open a session", "from login to the closed session"

LINES, HASHES, ORDINARY = "lines of words, 100 B", "lines of hashes, 100 B", "ordinary rows"
DENSE, COPY = "dense rows", "COPY of ordinary rows"
_QUERIES = {
    LINES: "select line from lines",
    HASHES: "select line from hashes",
    ORDINARY: "select * from ordinary",
    DENSE: "select * from dense",
    COPY: "copy ordinary to stdout",
}


def selects(stage: Stage, results: Results, plan: Plan) -> None:
    for mode in MODES:
        for clients in CLIENTS:
            for route in stage.point_query_routes():
                _selects(results, SELECTS, route, mode, clients, plan.seconds)


def selects_tls(stage: Stage, results: Results, plan: Plan) -> None:
    for clients in CLIENTS:
        for name in (s.BOUNCER_TLS, s.POSTERN_TLS):
            _selects(results, SELECTS_TLS, stage.routes[name], "prepared", clients, plan.seconds)


def _selects(results: Results, section: str, route: Route, mode: str, clients: int, seconds: float) -> None:
    run = pgbench.run(route, clients=clients, mode=mode, seconds=seconds)
    add_run(results, section, case(mode, clients), route.name, run)


def large(stage: Stage, results: Results, plan: Plan) -> None:
    """The whole answer is read once and thrown away. A route that masks answers with fewer bytes, so that all are
    counted by the size of the direct answer: the same work, the same megabytes."""
    for name, query in _QUERIES.items():
        size = 0
        for route_name in (s.DIRECT, s.BOUNCER, s.POSTERN, s.GUARDED, s.MASKED):
            got = read(stage.routes[route_name], query)
            size = size or got.size
            results.add(LARGE, name, route_name, SPEED, size / got.seconds / 1e6)
            if got.cpu:
                results.add(LARGE, name, route_name, PER_CORE, size / got.cpu / 1e6)


def connecting(stage: Stage, results: Results, plan: Plan) -> None:
    for name in (s.DIRECT, s.BOUNCER, s.FRESH_BOUNCER, s.POSTERN, s.MASKED):
        rate, cpu = pgbench.connects(stage.routes[name], clients=4, seconds=max(2.0, plan.seconds))
        results.add(CONNECTING, EACH, name, CONNECTS, rate)
        if cpu is not None:
            results.add(CONNECTING, EACH, name, CPU_CONNECT, cpu)


def api_load(stage: Stage, results: Results, plan: Plan) -> None:
    """The direct route tells how much of a difference is the machine's: the load needs a processor, too."""
    names = (s.DIRECT, s.BOUNCER, s.POSTERN)
    for name in names:
        run = pgbench.run(stage.routes[name], clients=8, mode="prepared", seconds=plan.seconds)
        add_run(results, API_LOAD, QUIET, name, run)
    environment = {
        **os.environ,
        "BENCH_API": stage.gateway.settings.api_url,
        "BENCH_TOKEN": stage.gateway.token.reveal(),
    }
    load = subprocess.Popen(
        [sys.executable, "-m", "bench.api_load"], env=environment, stdout=subprocess.PIPE, text=True
    )
    start = time.monotonic()
    try:
        for name in names:
            run = pgbench.run(stage.routes[name], clients=8, mode="prepared", seconds=plan.seconds)
            add_run(results, API_LOAD, LOADED, name, run)
    finally:
        load.terminate()
        output, _ = load.communicate(timeout=30)
    results.add(API_LOAD, LOADED, s.POSTERN, REQUESTS, int(output) / (time.monotonic() - start))


def memory_use(stage: Stage, results: Results, plan: Plan) -> None:
    routes = [stage.routes[name] for name in (s.BOUNCER, s.POSTERN, s.MASKED)]
    for name, (idle, stalled) in memory.of_sessions(routes).items():
        results.add(MEMORY_USE, IDLE, name, MEMORY, idle / 1024)
        results.add(MEMORY_USE, STALLED, name, MEMORY, stalled / 1024)


def store(stage: Stage, results: Results, plan: Plan) -> None:
    opening, whole = statements.per_session(stage)
    results.add(STORE, OPENING, s.POSTERN, STATEMENTS, opening)
    results.add(STORE, WHOLE, s.POSTERN, STATEMENTS, whole)


def runbooks(stage: Stage, results: Results, plan: Plan) -> None:
    """In a process of its own, which is the API's: nothing of the stage is in its way."""
    rounds = str(round(25 * plan.seconds))
    command = [sys.executable, "-m", "bench.runbooks", "--as-json", "--rounds", rounds]
    for one in json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout):
        if one["case"] is None:
            results.add(TEMPLATES, "the loop", one["route"], STALL, one["longest"])
            continue
        for metric, name in ((ANSWERED, "median"), (WORST_ANSWERED, "longest"), (CPU_ANSWER, "work")):
            results.add(LISTS, one["case"], one["route"], metric, one[name])


BASES = {
    **dict.fromkeys((guardrails.SELECTS, guardrails.TPCB, masked.SECTION), (s.POSTERN,)),
    reviews.OPENING: (reviews.NO_RULES,),
    reviews.CROWD: (reviews.NOBODY,),
}
"""What figures are held against where that is neither the direct connection nor pgbouncer."""

Section = Callable[[Stage, Results, Plan], None]
SECTIONS: dict[str, Section] = {
    "memory": memory_use,  # first: a worker that has worked has memory to spare, which would hide what a session takes
    "selects": selects,
    "tls": selects_tls,
    "large": large,
    "guardrails": guardrails.pgbench_under_rules,
    "masking": masked.ordinary_results,
    "connects": connecting,
    "reviews": reviews.reviews,
    "api": api_load,
    "store": store,
    "runbooks": runbooks,
    "start": start.start,
    "web": web,
}
