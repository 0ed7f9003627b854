from __future__ import annotations

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.output import emit, json_option, local_time, table
from postern.cli.rows import told
from postern.client.shapes import Credential, IssuedCredential


@click.group()
def credentials() -> None:
    """Issue and revoke connection credentials: user names and passwords for native clients.

    \b
    postern credentials issue shop-demo --hours 8
    postern credentials list shop-demo
    postern credentials revoke shop-demo ID
    """


@credentials.command("list")
@click.argument("connection", shell_complete=completion.connections)
@json_option
def list_(connection: str, as_json: bool) -> None:
    """List the credentials of a connection."""
    with client() as api:
        found = api.credentials.list(connection)
    emit(found, as_json, _show_list)


def _show_list(found: list[Credential]) -> None:
    rows = [
        [one["id"], one["username"], local_time(one["created_at"]), local_time(one["expires_at"]), _state(one)]
        for one in found
    ]
    table(["id", "user name", "created", "expires", "state"], rows, "No credentials.")


def _state(one: Credential) -> str:
    """Return valid, expired or revoked."""
    status = one.get("status") or ("revoked" if one["revoked_at"] else "active")
    return "valid" if status == "active" else status


@credentials.command()
@click.argument("connection", shell_complete=completion.connections)
@click.option(
    "--hours", type=click.FloatRange(min=0, min_open=True), help="How long it is valid, in hours.  [default: 12]"
)
@json_option
def issue(connection: str, hours: float | None, as_json: bool) -> None:
    """Issue a credential. Its password is shown only once."""
    with client() as api:
        made = api.credentials.issue(connection, None if hours is None else round(hours * 3600))
    emit(made, as_json, _show_issued)


def _show_issued(made: IssuedCredential) -> None:
    click.echo(
        f"user      {made['username']}\npassword  {made['password']}\nexpires   {local_time(made['expires_at'])}"
    )
    click.echo(f"id        {made['id']}")


@credentials.command()
@click.argument("connection", shell_complete=completion.connections)
@click.argument("credential_id", metavar="ID")
@json_option
def revoke(connection: str, credential_id: str, as_json: bool) -> None:
    """Revoke a credential; sessions that run with it end."""
    with client() as api:
        api.credentials.revoke(connection, credential_id)
    told({"revoked": credential_id}, as_json, f"Revoked {credential_id}.")
