from __future__ import annotations

import click

from postern.cli.api import client
from postern.cli.output import emit, json_option, local_time
from postern.cli.rows import given, page_of, paging_options, show_page, show_row, told
from postern.cli.status import report_note
from postern.client.shapes import Row
from postern.errors import NotFound

_COLUMNS = [
    ("name", "name"),
    ("admin group", "admin_role_name"),
    ("auditor group", "auditor_role_name"),
    ("created", "created_at"),
    ("id", "id"),
]


@click.group()
def orgs() -> None:
    """List and manage organisations.

    \b
    postern admin orgs list
    postern admin orgs create acme admin@acme.example
    postern admin orgs update --auditor-group compliance
    postern admin orgs delete acme
    postern admin orgs update --access-help "Ask in #data-access, or at https://access.example.com"
    """


@orgs.command("list")
@paging_options
def list_(as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List organisations: all for administrators of the default one, else your own."""
    with client() as api:
        page = page_of(api.collection("orgs"), limit=limit, offset=offset, every=every)
    show_page(page, _COLUMNS, as_json, "No organisations.")


@orgs.command()
@json_option
def get(as_json: bool) -> None:
    """Show your own organisation."""
    with client() as api:
        show_row(api.collection("orgs").get("self"), as_json)


@orgs.command()
@click.argument("name")
@click.argument("admin_email")
@click.option("--embedded-agent", is_flag=True, help="It may reach targets from the server's own network.")
@json_option
def create(name: str, admin_email: str, embedded_agent: bool, as_json: bool) -> None:
    """Create an organisation, and a set-up link for its first administrator."""
    body = {"name": name, "admin_email": admin_email, "embedded_agent": embedded_agent}
    with client() as api:
        made = api.collection("orgs").create(body)
    emit(made, as_json, _show_made)


def _show_made(made: Row) -> None:
    click.echo(made["setup_url"])
    report_note(
        f"Created {made['name']}. {made['admin_email']} sets a password by `postern setup` with this link in quotes, "
        f"once, until {local_time(made['setup_expires_at'])}; it is shown this once."
    )


@orgs.command()
@click.option("--name", help="The new name.")
@click.option("--admin-group", help="The group whose members are administrators from now on.")
@click.option("--auditor-group", help="The group whose members are auditors from now on.")
@click.option("--access-help", help="What people read where a rule refuses something: how, or where, to ask for it.")
@json_option
def update(
    name: str | None, admin_group: str | None, auditor_group: str | None, access_help: str | None, as_json: bool
) -> None:
    """Change your own organisation; what is left out stays as it is."""
    body = given(name=name, admin_role_name=admin_group, auditor_role_name=auditor_group, access_help=access_help)
    with client() as api:
        changed = api.collection("orgs").update("self", body)
    told(changed, as_json, f"Changed {changed['name']}.")


@orgs.command()
@click.argument("name")
@click.option("--confirm", "confirmed", metavar="NAME", help="The name again, for use without a terminal.")
@json_option
def delete(name: str, confirmed: str | None, as_json: bool) -> None:
    """Delete an organisation with its users, connections, sessions, recordings and audit log.

    All access to it ends at once. Legal holds forbid it. It cannot be undone.
    """
    with client() as api:
        found = next(
            (one for one in api.collection("orgs").everything()["data"] if name in (one["name"], one["id"])), None
        )
        if found is None:
            raise NotFound(f"there is no organisation {name!r}; `postern admin orgs list` shows them")
        if confirmed is None:
            confirmed = click.prompt(
                f"This deletes organisation {found['name']} and its record for ever. Type its name to go on", err=True
            )
        deleted = api.collection("orgs").act(str(found["id"]), method="DELETE", name=confirmed)
    told(deleted, as_json, f"Access to {found['name']} has ended; the rest is deleted in the background.")
