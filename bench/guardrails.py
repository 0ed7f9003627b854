"""pgbench under guardrails and masking rules, none of which hits: what it costs to leave them on."""

from __future__ import annotations

from bench.plan import CLIENTS, MODES, Plan, add_run, case
from bench.results import ADDED, Results
from bench.stage import Stage

from bench import pgbench
from bench import stage as s
from postern.domain.rules.masking import Strategy

SELECTS = "Guardrails on point queries (pgbench, select-only)"
TPCB = "Guardrails on transactions of seven statements (pgbench, tpcb-like)"

MARKED = s.MARKED[Strategy.REPLACE]
_ROUTES = {
    SELECTS: (s.POSTERN, s.GUARDED, s.READ_ONLY, s.SEARCHED, MARKED, s.EVERYTHING),
    TPCB: (s.POSTERN, s.STATEMENTS, s.EVERYTHING),
}
_LONGEST = 1.5  # seconds of a window, so that pgbench ends after two
_SCRIPTS = {SELECTS: pgbench.SELECT_ONLY, TPCB: pgbench.TPCB_LIKE}


def pgbench_under_rules(stage: Stage, results: Results, plan: Plan) -> None:
    """In windows that are short, since there are many."""
    seconds = min(plan.seconds, _LONGEST)
    for section, names in _ROUTES.items():
        for mode in MODES:
            for clients in CLIENTS:
                runs = {
                    name: pgbench.run(
                        stage.routes[name], clients=clients, mode=mode, seconds=seconds, script=_SCRIPTS[section]
                    )
                    for name in names
                }
                keep(results, section, case(mode, clients), runs)


def keep(results: Results, section: str, name: str, runs: dict[str, pgbench.Run]) -> None:
    """Processor time above that of no rules is told for each round by itself."""
    without = runs[s.POSTERN].cpu
    for route, run in runs.items():
        add_run(results, section, name, route, run)
        if route != s.POSTERN and run.cpu is not None and without is not None:
            results.add(section, name, route, ADDED, run.cpu - without)
