from __future__ import annotations

import click

from postern.cli.options import load_process
from postern.descriptors import raise_limit
from postern.process import die_with_parent
from postern.wiring.processes import api_process as wiring


@click.command(hidden=True)
def api() -> None:
    """The API process, which the supervisor starts."""
    die_with_parent()
    raise_limit()
    wiring.run(load_process("api"))
