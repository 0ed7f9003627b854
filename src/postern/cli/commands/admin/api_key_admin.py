from __future__ import annotations

import click

from postern.cli.api import client
from postern.cli.nouns import API_KEY, GROUP, SERVICE_ACCOUNT
from postern.cli.printing import emit, json_option, local_time
from postern.cli.resource_group import Field, ResourceCommands, item_argument, looking_up, new_name, resource_group
from postern.cli.row_commands import confirm, in_days, print_result, yes_option
from postern.cli.status import report_note
from postern.cli.timestamps import expiry
from postern.client.client_shapes import Row


def _show_created(row: Row) -> None:
    click.echo(row["key"])
    until = f"until {local_time(row['expires_at'])}" if row["expires_at"] else "until it is revoked"
    report_note(f"API key {row['name']} is valid {until}. It is shown only once.")


api_keys = resource_group(
    ResourceCommands(
        noun=API_KEY,
        help="""Create and revoke API keys. KEY is a key's name or id.

        \b
        postern admin api-keys create nightly --service-account reports --expires 90d
        postern admin api-keys create probe --group auditor --network 192.0.2.0/24
        postern admin api-keys revoke nightly --with-credentials
        """,
        columns=[
            ("name", "name"),
            ("key", "masked_key"),
            ("status", "status"),
            ("role", "role"),
            ("service account", "service_account"),
            ("expires", "expires_at"),
            ("last used", "last_used_at"),
        ],
        verbs=("list", "show", "create", "update"),
        aliases={"delete": "revoke", "remove": "revoke"},
        options=[
            new_name(),
            Field("--group", "groups", "A group of the key itself.", many=True, completes=GROUP),
            Field(
                "--service-account",
                "service_account",
                "Service account that the key acts for.",
                metavar="SUBJECT",
                completes=SERVICE_ACCOUNT,
                only="create",
            ),
            Field(
                "--network",
                "allowed_networks",
                "Accept the key only from this network.",
                many=True,
                metavar="CIDR",
                clear=("--allow-any-network", "Accept the key from any network.", []),
                clear_alias="--any-network",
            ),
            # As older versions spelled it.
            Field("--days", "expires_at", type=click.FloatRange(min=0, min_open=True), read=in_days, hidden=True),
            Field(
                "--expires",
                "expires_at",
                "When it expires: 30d, 12h, 2026-12-31.  [default: never]",
                type=expiry,
                metavar="TIME",
            ),
        ],
        empty="There are no API keys yet: postern admin api-keys create --help",
        created=_show_created,
        says={
            "list": "List API keys, by name, including revoked ones.",
            "show": "Show an API key, by name or id. Its secret is never shown.",
            "create": "Create an API key. It is shown only once.",
        },
    )
)


@api_keys.command()
@item_argument(API_KEY)
@click.option(
    "--with-credentials", is_flag=True, help="Also revoke the credentials that the key issued to machine identities."
)
@yes_option
@json_option
def revoke(key: str, with_credentials: bool, yes: bool, as_json: bool) -> None:
    """Revoke an API key. Programs that use it are denied from now on.

    Credentials that the key issued to machine identities stay valid. They are listed, unless --with-credentials revokes
    them.
    """
    confirm(f"Revoke {key}? Programs that use it stop working", yes)
    with client() as api, looking_up(api, API_KEY, key) as keys:
        key_id = str(keys.get(key)["id"])
        keys.delete(key_id, revoke_credentials="true" if with_credentials else "false")
        left = keys.below(key_id, "credentials").everything()["data"]
    emit({"revoked": key, "credentials": left}, as_json, lambda _: _show_revoked(key, left))


def _show_revoked(key: str, credentials: list[Row]) -> None:
    click.echo(f"Revoked {key}.")
    if not credentials:
        return
    click.echo("Credentials that this key issued to machine identities are still valid:", err=True)
    for credential in credentials:
        name, connection = credential["machine_identity"], credential["connection_name"]
        click.echo(f"  {name} on {connection}: postern admin machines rotate {name} {connection}", err=True)
    click.echo("`postern admin machines delete NAME` removes a machine identity with all its credentials.", err=True)


@api_keys.command()
@item_argument(API_KEY)
@json_option
def reactivate(key: str, as_json: bool) -> None:
    """Accept a revoked API key again."""
    with client() as api, looking_up(api, API_KEY, key) as keys:
        row = keys.act(key, "reactivate")
    print_result(row, as_json, f"{row['name']} is valid again.")
