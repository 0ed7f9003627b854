from __future__ import annotations

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.output import emit, fields, json_option, local_time
from postern.cli.rows import confirm, page_of, paging_options, show_page, told, yes_option
from postern.client.shapes import Row

_COLUMNS = [("name", "name"), ("connections", "connection_count"), ("created", "created_at"), ("id", "id")]


@click.group()
def resources() -> None:
    """List what connections belong to. A resource comes with the first connection that names it.

    \b
    postern admin resources list
    postern connections update orders --set resource_name=warehouse
    """


@resources.command("list")
@paging_options
def list_(as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List resources, by name."""
    with client() as api:
        page = page_of(api.collection("resources"), limit=limit, offset=offset, every=every)
    show_page(page, _COLUMNS, as_json, "There are no resources yet: postern connections create --help")


@resources.command()
@click.argument("name", shell_complete=completion.resources)
@json_option
def show(name: str, as_json: bool) -> None:
    """Show one, by name or id, with its connections."""
    with client() as api:
        found = api.collection("resources").get(name)
    emit(found, as_json, _show)


def _show(one: Row) -> None:
    held = [connection["name"] for connection in one["connections"]]
    pairs = [("name", one["name"]), ("id", one["id"]), ("created", local_time(one["created_at"]))]
    fields([*pairs, ("connections", one["connection_count"]), ("they are", held)])


@resources.command()
@click.argument("name", shell_complete=completion.resources)
@yes_option
@json_option
def delete(name: str, yes: bool, as_json: bool) -> None:
    """Delete a resource that has no connections any more."""
    confirm(f"Delete resource {name}?", yes)
    with client() as api:
        api.collection("resources").delete(name)
    told({"deleted": name}, as_json, f"Deleted {name}.")
