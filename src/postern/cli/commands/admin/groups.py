from __future__ import annotations

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.output import json_option
from postern.cli.rows import confirm, page_of, paging_options, show_page, told, yes_option

_COLUMNS = [("name", "name"), ("members", "members"), ("created", "created_at"), ("id", "id")]
_PATH = ("users", "groups")


@click.group()
def groups() -> None:
    """List and manage groups. Who is in one: postern admin users list --group NAME

    \b
    postern admin groups create dba
    postern admin groups rename dba database-admins
    """


@groups.command("list")
@paging_options
def list_(as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List groups, by name."""
    with client() as api:
        page = page_of(api.collection(*_PATH), limit=limit, offset=offset, every=every)
    show_page(page, _COLUMNS, as_json, "There are no groups yet: postern admin groups create NAME")


@groups.command()
@click.argument("name")
@json_option
def create(name: str, as_json: bool) -> None:
    """Create a group."""
    with client() as api:
        made = api.collection(*_PATH).create({"name": name})
    told(made, as_json, f"Created {made['name']}.")


@groups.command()
@click.argument("name", shell_complete=completion.groups)
@click.argument("new_name")
@json_option
def rename(name: str, new_name: str, as_json: bool) -> None:
    """Rename a group; its members stay in it."""
    with client() as api:
        changed = api.collection(*_PATH).update(name, {"name": new_name})
    told(changed, as_json, f"{name} is called {changed['name']} now.")


@groups.command()
@click.argument("name", shell_complete=completion.groups)
@yes_option
@json_option
def delete(name: str, yes: bool, as_json: bool) -> None:
    """Delete a group; its members stay users."""
    confirm(f"Delete group {name}? Its members lose what it lets them do", yes)
    with client() as api:
        api.collection(*_PATH).delete(name)
    told({"deleted": name}, as_json, f"Deleted {name}.")
