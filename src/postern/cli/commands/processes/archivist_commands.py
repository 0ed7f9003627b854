from __future__ import annotations

import signal

import click

from postern.cli.options import load
from postern.descriptors import raise_limit
from postern.process import die_with_parent
from postern.wiring.processes import archivist_process as wiring


@click.command(hidden=True)
def archivist() -> None:
    """The archivist, as the supervisor starts it: it stores recordings, and does all that is done again and again."""
    die_with_parent(by=signal.SIGKILL)  # it can be killed anywhere
    raise_limit()
    wiring.run(load("archivist"))
