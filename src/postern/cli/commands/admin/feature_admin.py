from __future__ import annotations

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.printing import json_option
from postern.cli.row_commands import page_of, paging_options, show_page, told

_COLUMNS = [("name", "name"), ("on", "enabled"), ("what holds while it is on", "description")]
_PATH = "feature-flags"


@click.group()
def features() -> None:
    """Switch features of your organisation on and off; it holds at once.

    \b
    postern admin features list
    postern admin features disable NAME
    """


@features.command("list")
@paging_options
def list_(as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List features, by name."""
    with client() as api:
        page = page_of(api.collection(_PATH), limit=limit, offset=offset, every=every)
    show_page(page, _COLUMNS, as_json, "There are no features to switch.")


@features.command()
@click.argument("name", shell_complete=completion.features)
@json_option
def enable(name: str, as_json: bool) -> None:
    """Switch a feature on; sessions that it does not allow are ended."""
    _switch(name, True, as_json)


@features.command()
@click.argument("name", shell_complete=completion.features)
@json_option
def disable(name: str, as_json: bool) -> None:
    """Switch a feature off; what was open by it is ended."""
    _switch(name, False, as_json)


def _switch(name: str, enabled: bool, as_json: bool) -> None:
    with client() as api:
        changed = api.collection(_PATH).update(name, {"enabled": enabled})
    told(changed, as_json, f"{changed['name']} is {'on' if changed['enabled'] else 'off'}.")
