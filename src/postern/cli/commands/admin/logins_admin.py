from __future__ import annotations

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.printing import json_option
from postern.cli.row_commands import page_of, paging_options, print_result, show_page

_COLUMNS = [
    ("id", "id"),
    ("method", "method"),
    ("client", "client"),
    ("from", "source"),
    ("program", "user_agent"),
    ("since", "created_at"),
    ("expires", "ends_at"),
    ("current", "current"),
]


@click.group()
def logins() -> None:
    """List and end logins.

    \b
    postern admin logins list
    postern admin logins list --user ann@example.com
    postern admin logins end ID
    postern admin logins end-all ann@example.com
    """


@logins.command("list")
@click.option(
    "--user", help="Show logins of this user (e-mail or id).  [default: yourself]", shell_complete=completion.users
)
@paging_options
def list_(user: str | None, as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List active logins, newest first."""
    with client() as api:
        collection = api.collection("users", user, "logins") if user else api.collection("logins")
        page = page_of(collection, limit=limit, offset=offset, every=every)
    show_page(page, _COLUMNS, as_json, "No logins.")


@logins.command()
@click.argument("login_id", metavar="ID")
@json_option
def end(login_id: str, as_json: bool) -> None:
    """End a login at once, on all its connections to the gateway."""
    with client() as api:
        api.collection("logins").delete(login_id)
    print_result({"ended": login_id}, as_json, f"Ended {login_id}.")


@logins.command("end-all")
@click.argument("user", shell_complete=completion.users)
@json_option
def end_all(user: str, as_json: bool) -> None:
    """End all logins of a user (e-mail or id) at once.

    Connection credentials stay valid. To lock the user out completely, use `postern admin users deactivate`.
    """
    with client() as api:
        ended = api.collection("users").act(user, "logins", method="DELETE")["ended"]
    print_result({"user": user, "ended": ended}, as_json, f"Ended {ended} logins of {user}.")
