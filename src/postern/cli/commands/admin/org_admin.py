from __future__ import annotations

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.nouns import ORGANISATION
from postern.cli.printing import json_option, local_time
from postern.cli.resource_group import (
    Argument,
    Field,
    ResourceCommands,
    item_argument,
    looking_up,
    print_item,
    resource_group,
)
from postern.cli.row_commands import drop_missing, print_result
from postern.cli.status import report_note
from postern.client.client_shapes import Row


def _show_created(row: Row) -> None:
    click.echo(row["setup_url"])
    report_note(
        f"Created {row['name']}. {row['admin_email']} sets a password with `postern setup` and this link "
        f"in quotes. The link works once, until {local_time(row['setup_expires_at'])}, and is shown only "
        "once."
    )


_RESOURCE = ResourceCommands(
    noun=ORGANISATION,
    help="""List and manage organisations.

    \b
    postern admin orgs list
    postern admin orgs create acme admin@acme.example
    postern admin orgs update --auditor-group compliance
    postern admin orgs delete acme
    postern admin orgs update --access-help "Ask in #data-access, or at https://access.example.com"
    """,
    columns=[
        ("name", "name"),
        ("admin group", "admin_role_name"),
        ("auditor group", "auditor_role_name"),
        ("created", "created_at"),
        ("id", "id"),
    ],
    verbs=("list", "create"),
    arguments=[Argument("name"), Argument("admin_email")],
    options=[
        Field(
            "--embedded-agent",
            "embedded_agent",
            "Let its connections reach targets through the server's built-in agent.",
            switch=True,
        )
    ],
    defaults={"embedded_agent": False},
    aliases={"get": "show", "remove": "delete"},
    created=_show_created,
    says={
        "list": "List organisations: all for administrators of the default one, else your own.",
        "create": "Create an organisation, and a set-up link for its first administrator.",
    },
)
orgs = resource_group(_RESOURCE)


@orgs.command()
@click.argument("key", metavar="[NAME]", default="self", shell_complete=completion.names(ORGANISATION))
@json_option
def show(key: str, as_json: bool) -> None:
    """Show an organisation, by name or id.  [default: your own]"""
    with client() as api, looking_up(api, ORGANISATION, key) as items:
        row = items.get(key)
    print_item(_RESOURCE, row, as_json)


@orgs.command()
@click.option("--name", help="The new name.")
@click.option("--admin-group", help="Group whose members are administrators.")
@click.option("--auditor-group", help="Group whose members are auditors.")
@click.option(
    "--access-help", help="Text shown to users when a rule denies something: how, or where, to request access."
)
@json_option
def update(
    name: str | None, admin_group: str | None, auditor_group: str | None, access_help: str | None, as_json: bool
) -> None:
    """Change your own organisation. Options that you leave out stay as they are."""
    body = drop_missing(
        name=name, admin_role_name=admin_group, auditor_role_name=auditor_group, access_help=access_help
    )
    with client() as api:
        changed = api.collection("orgs").update("self", body)
    print_result(changed, as_json, f"Changed {changed['name']}.")


@orgs.command()
@item_argument(ORGANISATION)
@click.option(
    "--confirm",
    "confirmed",
    metavar="NAME",
    help="Confirm the deletion by the organisation's name, without a question.",
)
@json_option
def delete(key: str, confirmed: str | None, as_json: bool) -> None:
    """Delete an organisation with its users, connections, sessions, recordings and audit log.

    All access to it ends at once. Legal holds prevent the deletion. It cannot be undone.
    """
    with client() as api, looking_up(api, ORGANISATION, key) as items:
        organisation = items.get(key)
        if confirmed is None:
            confirmed = click.prompt(
                f"This deletes organisation {organisation['name']} and its records permanently. "
                "Type its name to continue",
                err=True,
            )
        deleted = items.delete(str(organisation["id"]), name=str(confirmed))
    print_result(
        deleted, as_json, f"Access to {organisation['name']} has ended; its data is being deleted in the background."
    )
