from __future__ import annotations

import sys

import click

from postern.cli.options import load_process
from postern.process import die_with_parent
from postern.wiring.processes import demo_process as wiring


@click.command(hidden=True)
def demo() -> None:
    """The demo database, which the supervisor starts."""
    die_with_parent()
    sys.exit(wiring.run(load_process("demo")))
