from __future__ import annotations

from collections.abc import Sequence

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.nouns import CONNECTION, MACHINE
from postern.cli.printing import emit, json_option, local_time
from postern.cli.resource_group import DESCRIPTION, Field, ResourceCommands, item_argument, looking_up, resource_group
from postern.cli.row_commands import drop_missing, parse_pairs, show_page
from postern.cli.status import report_note
from postern.cli.timestamps import duration
from postern.client.client_shapes import Row, RowPage

_CREDENTIALS = [
    ("connection", "connection_name"),
    ("user name", "username"),
    ("created", "created_at"),
    ("expires", "expires_at"),
    ("revoked", "revoked_at"),
]
_HOURS = click.FloatRange(min=0, min_open=True)


def _attributes(texts: Sequence[str]) -> dict[str, str]:
    return parse_pairs("--attribute", texts)


def _seconds(hours: float) -> int:
    return round(hours * 3600)


def _show_credentials(text: str, issued: list[Row]) -> None:
    if text:
        click.echo(text, err=bool(issued))
    for credential in issued:
        click.echo(f"connection  {credential['connection_name']}")
        click.echo(f"user        {credential['username']}")
        if certificate := credential.get("client_certificate"):
            click.echo(f"{certificate['certificate']}{certificate['private_key']}".rstrip())
        else:
            click.echo(f"password    {credential['password']}")
        click.echo(f"address     {credential['host']}:{credential['port']}")
        click.echo(f"expires     {local_time(credential['expires_at'])}\n")
    if issued:
        report_note("The passwords and private keys are shown only once.")


machines = resource_group(
    ResourceCommands(
        noun=MACHINE,
        help="""List and manage machine identities: programs that use native clients, each with its own credentials.

        \b
        postern admin machines create billing --connection orders --attribute team=payments
        postern admin machines rotate billing orders --overlap 1h
        """,
        columns=[
            ("name", "name"),
            ("description", "description"),
            ("connections", "connection_names"),
            ("attributes", "attributes"),
        ],
        options=[
            DESCRIPTION,
            Field(
                "--connection",
                "connection_names",
                "A connection that the program can use.",
                many=True,
                completes=CONNECTION,
                clear=("--no-connections", "Remove all its connections.", []),
            ),
            Field("--attribute", "attributes", "A label.", many=True, metavar="KEY=VALUE", read=_attributes),
            Field(
                "--hours",
                "access_duration_seconds",
                "Lifetime of new credentials, in hours.",
                type=_HOURS,
                read=_seconds,
            ),
        ],
        created=lambda row: _show_credentials(f"Created {row['name']}.", row["credentials"]),
        changed=lambda row: _show_credentials(f"Changed {row['name']}.", row["new_credentials"]),
        says={
            "create": "Create a machine identity. Its passwords are shown only once.",
            "update": "Change a machine identity. Added connections get a credential, removed ones lose theirs.",
            "delete": "Delete a machine identity with its credentials. Its running sessions end.",
        },
        question="Delete {key}? Programs that use its credentials stop working",
    )
)


@machines.command()
@item_argument(MACHINE)
@json_option
def credentials(key: str, as_json: bool) -> None:
    """List the credentials of a machine identity, newest first. Passwords are never shown."""
    with client() as api, looking_up(api, MACHINE, key) as items:
        page: RowPage = items.act(key, "credentials", method="GET")
    show_page(page, _CREDENTIALS, as_json, "No credentials.")


@machines.command()
@item_argument(MACHINE)
@click.argument("connection", shell_complete=completion.connections)
@click.option(
    "--overlap", type=duration, metavar="DURATION", help="How long the old password stays valid, such as 10m."
)
@click.option("--hours", type=_HOURS, help="Lifetime of the new credential, in hours.")
@json_option
def rotate(key: str, connection: str, overlap: float | None, hours: float | None, as_json: bool) -> None:
    """Replace the password for a connection. The new one is shown only once."""
    body = drop_missing(
        overlap_seconds=None if overlap is None else round(overlap),
        access_duration_seconds=None if hours is None else _seconds(hours),
    )
    with client() as api, looking_up(api, MACHINE, key) as items:
        issued = items.act(key, "credentials", connection, "rotate", body=body)
    emit(issued, as_json, lambda credential: _show_credentials("", [credential]))
