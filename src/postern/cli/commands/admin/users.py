from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.output import emit, json_option, local_time
from postern.cli.rows import confirm, given, page_of, paging_options, show_page, show_row, stdin_line, told, yes_option
from postern.cli.status import report_note
from postern.client.client import Client
from postern.client.shapes import Row

_COLUMNS = [
    ("e-mail", "email"),
    ("name", "name"),
    ("role", "role"),
    ("status", "status"),
    ("groups", "groups"),
    ("last login", "last_login_at"),
]


@click.group()
def users() -> None:
    """List and manage users. USER is an e-mail address or an id.

    \b
    postern admin users list --group dba
    postern admin users create ann@example.com --name Ann --group dba
    postern admin users create eve@example.com --role auditor
    postern admin users setup-link ann@example.com
    postern admin users deactivate ann@example.com
    """


@users.command("list")
@click.option("--search", metavar="TEXT", help="Only those whose name or e-mail holds this.")
@click.option("--group", help="Only those in this group.", shell_complete=completion.groups)
@click.option("--status", help="Only those that are active, inactive, or in another state.")
@paging_options
def list_(as_json: bool, limit: int, offset: int, every: bool, **filters: str | None) -> None:
    """List users, by e-mail."""
    with client() as api:
        page = page_of(api.collection("users"), limit=limit, offset=offset, every=every, **filters)
    show_page(page, _COLUMNS, as_json, "No such users.")


@users.command()
@click.argument("user", shell_complete=completion.users)
@json_option
def get(user: str, as_json: bool) -> None:
    """Show one user."""
    with client() as api:
        show_row(api.collection("users").get(user), as_json)


@users.command()
@click.argument("email")
@click.option("--name", help="What they are called.")
@click.option(
    "--group", "groups", multiple=True, help="A group they are in; repeatable.", shell_complete=completion.groups
)
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice(["admin", "auditor"]),
    help="What they may do beyond a user: they join the organisation's group for it; repeatable.",
)
@click.option("--password-stdin", is_flag=True, help="Read a password from standard input; better: a setup-link.")
@json_option
def create(
    email: str,
    name: str | None,
    groups: tuple[str, ...],
    roles: tuple[str, ...],
    password_stdin: bool,
    as_json: bool,
) -> None:
    """Create a user. With local login a setup-link lets them choose a password.

    A role is a group: `postern admin auth show` says which groups make administrators and auditors.
    """
    password = stdin_line().reveal() if password_stdin else None
    with client() as api:
        groups = tuple(dict.fromkeys((*groups, *_groups_of(api, roles))))
        made = api.collection("users").create(given(email=email, name=name, groups=groups, password=password))
    how = "" if password_stdin else f" A password is set by: postern admin users setup-link {email}"
    told(made, as_json, f"Created {made['email']}.{how}")


def _groups_of(api: Client, roles: Sequence[str]) -> list[str]:
    """Return the groups whose members have these roles in the caller's organisation."""
    if not roles:
        return []
    organisation = api.collection("orgs").get("self")
    return [str(organisation[f"{role}_role_name"]) for role in roles]


@users.command()
@click.argument("user", shell_complete=completion.users)
@click.option("--email", help="The new e-mail address.")
@click.option("--name", help="The new name.")
@click.option(
    "--group",
    "groups",
    multiple=True,
    help="A group they are in from now on; repeatable, replaces all.",
    shell_complete=completion.groups,
)
@click.option("--no-groups", is_flag=True, help="In no group from now on.")
@click.option("--password-stdin", is_flag=True, help="Read a new password from standard input; ends their logins.")
@json_option
def update(user: str, no_groups: bool, password_stdin: bool, as_json: bool, **changes: Any) -> None:
    """Change a user; what is left out stays as it is."""
    body = given(**changes) | ({"groups": []} if no_groups else {})
    if password_stdin:
        body["password"] = stdin_line().reveal()
    _update(user, body, as_json, "Changed")


@users.command()
@click.argument("user", shell_complete=completion.users)
@json_option
def activate(user: str, as_json: bool) -> None:
    """Let a user in again."""
    _update(user, {"status": "active"}, as_json, "Activated")


@users.command()
@click.argument("user", shell_complete=completion.users)
@yes_option
@json_option
def deactivate(user: str, yes: bool, as_json: bool) -> None:
    """Keep a user out: ends their logins and live sessions at once."""
    confirm(f"Deactivate {user}? Their live sessions end", yes)
    _update(user, {"status": "inactive"}, as_json, "Deactivated")


def _update(user: str, body: Row, as_json: bool, done: str) -> None:
    with client() as api:
        changed = api.collection("users").update(user, body)
    told(changed, as_json, f"{done} {changed['email']}.")


@users.command()
@click.argument("user", shell_complete=completion.users)
@yes_option
@json_option
def delete(user: str, yes: bool, as_json: bool) -> None:
    """Delete a user, with their logins, keys and credentials."""
    confirm(f"Delete {user}? This cannot be undone", yes)
    with client() as api:
        api.collection("users").delete(user)
    told({"deleted": user}, as_json, f"Deleted {user}.")


@users.command("setup-link")
@click.argument("user", shell_complete=completion.users)
@json_option
def setup_link(user: str, as_json: bool) -> None:
    """Make a link by which a user sets their password, once; older links are void."""
    with client() as api:
        link = api.collection("users").act(user, "setup-link")
    emit(link, as_json, _show_link)


def _show_link(link: Row) -> None:
    click.echo(link["url"])
    report_note(
        f"For {link['email']}, who runs `postern setup` with it in quotes, once, until "
        f"{local_time(link['expires_at'])}; send it to nobody else."
    )


@users.command("reset-second-factors")
@click.argument("user", shell_complete=completion.users)
@yes_option
@json_option
def reset_second_factors(user: str, yes: bool, as_json: bool) -> None:
    """Remove all second factors of a user who lost theirs; ends their logins."""
    confirm(f"Remove the second factors of {user}? Be sure that it is they who ask", yes)
    with client() as api:
        api.collection("users").act(user, "second-factors", method="DELETE")
    told({"reset": user}, as_json, f"Removed the second factors of {user}.")
