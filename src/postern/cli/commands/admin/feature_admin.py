from __future__ import annotations

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.printing import json_option
from postern.cli.row_commands import page_of, paging_options, print_result, show_page

_COLUMNS = [("name", "name"), ("on", "enabled"), ("effect while enabled", "description")]
_PATH = "feature-flags"


@click.group()
def features() -> None:
    """Enable and disable features of your organisation. Changes apply at once.

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
    show_page(page, _COLUMNS, as_json, "There are no features.")


@features.command()
@click.argument("name", shell_complete=completion.features)
@json_option
def enable(name: str, as_json: bool) -> None:
    """Enable a feature. Sessions that it does not allow are terminated."""
    _switch(name, True, as_json)


@features.command()
@click.argument("name", shell_complete=completion.features)
@json_option
def disable(name: str, as_json: bool) -> None:
    """Disable a feature. Sessions that depend on it are terminated."""
    _switch(name, False, as_json)


def _switch(name: str, enabled: bool, as_json: bool) -> None:
    with client() as api:
        changed = api.collection(_PATH).update(name, {"enabled": enabled})
    print_result(changed, as_json, f"{changed['name']} is {'enabled' if changed['enabled'] else 'disabled'}.")
