"""Measures Postern side by side with a direct connection, pgbouncer and two bare forwarders.

    python -m bench                      # about 25 minutes
    python -m bench --quick              # about 5 minutes, one round: a rough look
    python -m bench --only selects --only large

Prints the tables and writes them to bench/results/. How to read them: docs/performance.md.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import click
from bench.plan import Plan
from bench.results import Results
from bench.sections import SECTIONS
from bench.stage import Stage
from bench.web import web_section
from tests.support.postgres import binaries

from bench import bouncer, data, machine, report

_ONCE = ("memory", "store")  # no round changes these


@click.command(help=__doc__)
@click.option("--rounds", type=click.IntRange(1), default=None, help="Interleaved rounds; 3 unless --quick.")
@click.option("--seconds", type=click.FloatRange(0.5), default=None, help="Length of each run; 2 unless --quick.")
@click.option("--quick", is_flag=True, help="One round of short runs on smaller tables.")
@click.option("--only", multiple=True, type=click.Choice(list(SECTIONS)), help="Only this section; may be repeated.")
@click.option("--no-file", is_flag=True, help="Print only.")
def main(rounds: int | None, seconds: float | None, quick: bool, only: tuple[str, ...], no_file: bool) -> None:
    sections = only or tuple(SECTIONS)
    _look_for_tools(sections)
    if not machine.is_compiled():
        print("The hot path is not compiled here; `POSTERN_COMPILE=1 pip install .` says why.", file=sys.stderr)
    plan = Plan(rounds=rounds or (1 if quick else 3), seconds=seconds or (1.0 if quick else 2.0))
    results = Results()
    _say("preparing the target, the gateway and its rivals")
    with Stage(data.QUICK if quick else data.FULL) as stage:
        described = machine.describe(stage.versions)
        for name, reason in stage.rivals.unavailable.items():
            _say(f"left out: {name}: {reason}")
            described[f"left out: {name}"] = reason
        for number in range(1, plan.rounds + 1):
            for name in sections:
                if number == 1 or name not in _ONCE:
                    _say(f"round {number} of {plan.rounds}: {name}")
                    SECTIONS[name](stage, results, plan)
    how_often = "1 round" if plan.rounds == 1 else f"{plan.rounds} interleaved rounds"
    words = f"{how_often}, {plan.seconds:g} s for each run{', smaller tables' if quick else ''}."
    print(report.render(described, words, results))
    if not no_file:
        print(f"Written to {report.write(described, words, results, datetime.now(UTC).date(), only)}")


def _look_for_tools(sections: Sequence[str]) -> None:
    missing = {
        "postgresql": binaries() is None,
        "postgresql-contrib": shutil.which("pgbench") is None,
        "pgbouncer": bouncer.program() is None,
    }
    wanted = [package for package, is_missing in missing.items() if is_missing]
    if wanted:
        sys.exit(f"The benchmark needs more programs; on Debian: apt-get install {' '.join(wanted)}")
    what = web_section.missing()
    if what and "web" in sections:
        sys.exit(what)


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
