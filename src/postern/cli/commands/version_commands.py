from __future__ import annotations

import click

from postern import __version__
from postern.cli.printing import emit, json_option


@click.command()
@json_option
def version(as_json: bool) -> None:
    """Show the version."""
    emit({"version": __version__}, as_json, lambda value: click.echo(f"postern {value['version']}"))
