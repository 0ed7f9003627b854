from __future__ import annotations

import signal

import click

from postern.cli.options import load_process
from postern.descriptors import raise_limit
from postern.process import die_with_parent
from postern.wiring.processes import archiver_process as wiring


@click.command(hidden=True)
def archiver() -> None:
    """The archiver, which the supervisor starts: it stores recordings and runs background jobs."""
    die_with_parent(by=signal.SIGKILL)  # it can be killed at any point
    raise_limit()
    wiring.run(load_process("archiver"))
