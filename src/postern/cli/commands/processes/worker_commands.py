from __future__ import annotations

import click

from postern.cli.options import load_process
from postern.descriptors import raise_limit
from postern.process import die_with_parent
from postern.wiring.processes import worker_process as wiring


@click.command(hidden=True)
@click.option("--name", required=True)
def worker(name: str) -> None:
    """A relay worker, which the supervisor starts."""
    die_with_parent()
    raise_limit()
    wiring.run_worker(load_process(name), name)
