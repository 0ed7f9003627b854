from __future__ import annotations

from typing import Any

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.moments import duration
from postern.cli.output import emit, json_option, local_time
from postern.cli.rows import confirm, given, page_of, paging_options, pairs, show_page, show_row, told, yes_option
from postern.cli.status import report_note
from postern.client.shapes import Row, RowPage

_COLUMNS = [
    ("name", "name"),
    ("description", "description"),
    ("connections", "connection_names"),
    ("attributes", "attributes"),
]
_CREDENTIALS = [
    ("connection", "connection_name"),
    ("user name", "username"),
    ("created", "created_at"),
    ("expires", "expires_at"),
    ("revoked", "revoked_at"),
]
_PATH = "machineidentities"
_hours = click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="Life of new credentials.")


@click.group()
def machines() -> None:
    """List and manage machine identities: programs that reach connections with a native client.

    \b
    postern admin machines create billing --connection orders --attribute team=payments
    postern admin machines rotate billing orders --overlap 3600
    """


@machines.command("list")
@paging_options
def list_(as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List machine identities, by name."""
    with client() as api:
        page = page_of(api.collection(_PATH), limit=limit, offset=offset, every=every)
    show_page(page, _COLUMNS, as_json, "There are no machine identities yet: postern admin machines create NAME")


@machines.command()
@click.argument("name", shell_complete=completion.machines)
@json_option
def get(name: str, as_json: bool) -> None:
    """Show one machine identity."""
    with client() as api:
        show_row(api.collection(_PATH).get(name), as_json)


@machines.command()
@click.argument("name")
@click.option("--description", help="What it is for.")
@click.option(
    "--connection",
    "connection_names",
    multiple=True,
    help="What it may reach; repeatable.",
    shell_complete=completion.connections,
)
@click.option("--attribute", "attributes", multiple=True, metavar="KEY=VALUE", help="A label; repeatable.")
@_hours
@json_option
def create(name: str, as_json: bool, **more: Any) -> None:
    """Create a machine identity; its passwords are printed this once."""
    with client() as api:
        made = api.collection(_PATH).create({"name": name, **_body(**more)})
    emit(made, as_json, lambda one: _show_made(f"Created {name}.", one["credentials"]))


@machines.command()
@click.argument("name", shell_complete=completion.machines)
@click.option("--description", help="The new description.")
@click.option(
    "--connection",
    "connection_names",
    multiple=True,
    help="What it may reach from now on; replaces all.",
    shell_complete=completion.connections,
)
@click.option("--no-connections", is_flag=True, help="It may reach nothing from now on.")
@click.option("--attribute", "attributes", multiple=True, metavar="KEY=VALUE", help="A label; replaces all.")
@_hours
@json_option
def update(name: str, no_connections: bool, as_json: bool, **more: Any) -> None:
    """Change a machine identity: added connections get a credential, removed ones lose theirs."""
    body = _body(**more) | ({"connection_names": []} if no_connections else {})
    with client() as api:
        changed = api.collection(_PATH).update(name, body)
    emit(changed, as_json, lambda one: _show_made(f"Changed {name}.", one["new_credentials"]))


def _body(hours: float | None, attributes: tuple[str, ...], **more: Any) -> Row:
    seconds = None if hours is None else round(hours * 3600)
    body = given(access_duration_seconds=seconds, **more)
    return body | ({"attributes": pairs("--attribute", attributes)} if attributes else {})


@machines.command()
@click.argument("name", shell_complete=completion.machines)
@yes_option
@json_option
def delete(name: str, yes: bool, as_json: bool) -> None:
    """Delete a machine identity, with its credentials; its live sessions end."""
    confirm(f"Delete {name}? Programs that use its credentials stop working", yes)
    with client() as api:
        api.collection(_PATH).delete(name)
    told({"deleted": name}, as_json, f"Deleted {name}.")


@machines.command()
@click.argument("name", shell_complete=completion.machines)
@json_option
def credentials(name: str, as_json: bool) -> None:
    """List its credentials, newest first; never a password."""
    with client() as api:
        page: RowPage = api.collection(_PATH).act(name, "credentials", method="GET")
    show_page(page, _CREDENTIALS, as_json, "No credentials.")


@machines.command()
@click.argument("name", shell_complete=completion.machines)
@click.argument("connection", shell_complete=completion.connections)
@click.option("--overlap", type=duration, metavar="DURATION", help="How long the old password stays valid: 10m.")
@_hours
@json_option
def rotate(name: str, connection: str, overlap: float | None, hours: float | None, as_json: bool) -> None:
    """Make a new password for a connection; it is printed this once."""
    seconds = None if hours is None else round(hours * 3600)
    body = given(overlap_seconds=None if overlap is None else round(overlap), access_duration_seconds=seconds)
    with client() as api:
        issued = api.collection(_PATH).act(name, "credentials", connection, "rotate", body=body)
    emit(issued, as_json, lambda one: _show_made("", [one]))


def _show_made(text: str, issued: list[Row]) -> None:
    if text:
        click.echo(text, err=bool(issued))
    for one in issued:
        click.echo(f"connection  {one['connection_name']}")
        click.echo(f"user        {one['username']}\npassword    {one['password']}")
        click.echo(f"address     {one['host']}:{one['port']}\nexpires     {local_time(one['expires_at'])}\n")
    if issued:
        report_note("The passwords are shown this once.")
