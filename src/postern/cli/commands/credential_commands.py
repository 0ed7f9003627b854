from __future__ import annotations

import functools
import os
from pathlib import Path

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.client_certificate_files import default_folder, write_certificate_files
from postern.cli.lazy import AliasGroup
from postern.cli.nouns import CONNECTION
from postern.cli.printing import emit, json_option, local_time
from postern.cli.resource_group import looking_up
from postern.cli.row_commands import Columns, array_paging_options, page_of, print_result, show_page
from postern.client.client_resources import PAGE
from postern.client.client_shapes import Row


@click.group(cls=AliasGroup, aliases={"create": "issue", "delete": "revoke", "remove": "revoke"})
def credentials() -> None:
    """Issue and revoke connection credentials: user names with passwords, or certificates, for native clients.

    \b
    postern credentials issue shop-demo --hours 8
    postern credentials list
    postern credentials list shop-demo
    postern credentials revoke ID
    """


@credentials.command("list")
@click.argument("connection", required=False, shell_complete=completion.connections)
@array_paging_options
def list_(connection: str | None, limit: int | None, offset: int, every: bool, as_json: bool) -> None:
    """List the credentials of a connection, or without one your own of all connections."""
    whole = every or (limit is None and not offset)
    with client() as api:
        if connection is None:
            page = page_of(api.collection("credentials"), limit=limit or PAGE, offset=offset, every=whole)
        else:
            with looking_up(api, CONNECTION, connection) as items:
                listed = items.below(connection, "credentials")
                page = page_of(listed, limit=limit or PAGE, offset=offset, every=whole)
    columns = _COLUMNS if connection else [*_COLUMNS, ("connection", "connection_name")]
    emit(page["data"], as_json, lambda _: show_page(page, columns, as_json, "No credentials."))


def _state(credential: Row) -> str:
    """Return valid, expired or revoked."""
    status: str = credential.get("status") or ("revoked" if credential["revoked_at"] else "active")
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
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to write a client certificate and its key, for TCP services.",
)
@json_option
def issue(connection: str, hours: float | None, folder: Path | None, as_json: bool) -> None:
    """Issue a credential. Its password is shown only once.

    For TCP services it is a client certificate, which is written to files. --json prints it instead.
    """
    with client() as api, looking_up(api, CONNECTION, connection):
        issued = api.credentials.issue(connection, None if hours is None else round(hours * 3600))
    emit(issued, as_json, functools.partial(_show_issued, folder or default_folder(os.environ)))


def _show_issued(folder: Path, issued: Row) -> None:
    click.echo(f"user      {issued['username']}")
    if issued.get("client_certificate"):
        files = write_certificate_files(issued, folder)
        click.echo(f"cert      {files.certificate}\nkey       {files.key}")
        if files.authority is not None:
            click.echo(f"CA        {files.authority}")
    else:
        click.echo(f"password  {issued['password']}")
    click.echo(f"expires   {local_time(issued['expires_at'])}\nid        {issued['id']}")


@credentials.command()
@click.argument("words", metavar="[CONNECTION] ID", nargs=-1, required=True, shell_complete=completion.connections)
@json_option
def revoke(words: tuple[str, ...], as_json: bool) -> None:
    """Revoke a credential. Sessions that use it end.

    The ID alone suffices for your own credentials. Administrators name the connection of those of others.
    """
    if len(words) > 2:
        raise click.UsageError("give the ID of one credential, with its connection before it if it is not yours")
    credential_id = words[-1]
    with client() as api:
        if len(words) == 1:
            api.collection("credentials").act(credential_id, "revoke")
        else:
            with looking_up(api, CONNECTION, words[0]) as items:
                items.act(words[0], "credentials", credential_id, "revoke")
    print_result({"revoked": credential_id}, as_json, f"Revoked {credential_id}.")
