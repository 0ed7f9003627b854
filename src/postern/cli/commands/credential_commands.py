from __future__ import annotations

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.lazy import AliasGroup
from postern.cli.nouns import CONNECTION
from postern.cli.printing import emit, json_option, local_time
from postern.cli.resource_group import looking_up
from postern.cli.row_commands import Columns, array_paging_options, page_of, print_result, show_page
from postern.client.client_resources import PAGE
from postern.client.client_shapes import Row


@click.group(cls=AliasGroup, aliases={"create": "issue", "delete": "revoke", "remove": "revoke"})
def credentials() -> None:
    """Issue and revoke connection credentials: user names and passwords for native clients.

    \b
    postern credentials issue shop-demo --hours 8
    postern credentials list shop-demo
    postern credentials revoke shop-demo ID
    """


@credentials.command("list")
@click.argument("connection", shell_complete=completion.connections)
@array_paging_options
def list_(connection: str, limit: int | None, offset: int, every: bool, as_json: bool) -> None:
    """List the credentials of a connection."""
    whole = every or (limit is None and not offset)
    with client() as api, looking_up(api, CONNECTION, connection) as items:
        listed = items.below(connection, "credentials")
        page = page_of(listed, limit=limit or PAGE, offset=offset, every=whole)
    emit(page["data"], as_json, lambda _: show_page(page, _COLUMNS, as_json, "No credentials."))


def _state(one: Row) -> str:
    """Return valid, expired or revoked."""
    status: str = one.get("status") or ("revoked" if one["revoked_at"] else "active")
    return "valid" if status == "active" else status


_COLUMNS: Columns = [
    ("id", "id"),
    ("user name", "username"),
    ("created", "created_at"),
    ("expires", "expires_at"),
    ("state", _state),
]


@credentials.command()
@click.argument("connection", shell_complete=completion.connections)
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="Lifetime in hours.  [default: 12]")
@json_option
def issue(connection: str, hours: float | None, as_json: bool) -> None:
    """Issue a credential. Its password is shown only once."""
    with client() as api, looking_up(api, CONNECTION, connection):
        made = api.credentials.issue(connection, None if hours is None else round(hours * 3600))
    emit(made, as_json, _show_issued)


def _show_issued(made: Row) -> None:
    click.echo(
        f"user      {made['username']}\npassword  {made['password']}\nexpires   {local_time(made['expires_at'])}"
    )
    click.echo(f"id        {made['id']}")


@credentials.command()
@click.argument("connection", shell_complete=completion.connections)
@click.argument("credential_id", metavar="ID")
@json_option
def revoke(connection: str, credential_id: str, as_json: bool) -> None:
    """Revoke a credential. Sessions that use it end."""
    with client() as api, looking_up(api, CONNECTION, connection) as items:
        items.act(connection, "credentials", credential_id, "revoke")
    print_result({"revoked": credential_id}, as_json, f"Revoked {credential_id}.")
