"""Measures the web application alone, and prints what was measured.

python -m bench.web                          # what `make bench ARGS="--only web"` measures, one round of it
python -m bench.web --small --part lists     # to see whether it runs
"""

from __future__ import annotations

import sys

import click
from bench.results import Results
from bench.web.sizes import FULL, SMALL
from bench.web.web_section import PARTS, measure, missing

from bench import machine, report


@click.command(help=__doc__)
@click.option("--small", is_flag=True, help="Little data, and each figure once.")
@click.option("--part", "parts", multiple=True, type=click.Choice(list(PARTS)), help="Only this; may be repeated.")
@click.option("--rounds", type=click.IntRange(1), default=1, show_default=True)
def main(small: bool, parts: tuple[str, ...], rounds: int) -> None:
    what = missing()
    if what:
        sys.exit(what)
    results = Results()
    for _ in range(rounds):
        measure(results, SMALL if small else FULL, parts)
    print(report.render(machine.describe("none"), f"{rounds} round(s)", results))


if __name__ == "__main__":
    main()
