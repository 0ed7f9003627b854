from __future__ import annotations

import click

from postern.cli.options import load_process
from postern.process import die_with_parent
from postern.wiring.host import claim


@click.command(hidden=True)
def release() -> None:
    """Release the store for other gateways, when the supervisor has stopped everything else."""
    die_with_parent()
    claim.release(load_process("release", keep=False))
