from __future__ import annotations

import click

from postern.cli.api import client
from postern.cli.nouns import GROUP, USER
from postern.cli.printing import emit, json_option, local_time
from postern.cli.resource_group import Argument, Field, ResourceCommands, item_argument, looking_up, resource_group
from postern.cli.row_commands import confirm, print_result, stdin_line, yes_option
from postern.cli.status import report_done, report_note
from postern.client.client import Client
from postern.client.client_shapes import Row


def _prepare(api: Client, body: Row, _key: str | None) -> Row:
    """Add the groups whose members have the chosen roles in the caller's organisation."""
    roles = body.pop("roles", [])
    if roles:
        organisation = api.collection("orgs").get("self")
        of_roles = [str(organisation[f"{role}_role_name"]) for role in roles]
        body["groups"] = list(dict.fromkeys([*body.get("groups", []), *of_roles]))
    return body


def _report_created(row: Row) -> None:
    has_password = row["status"] != "invited"
    how = "" if has_password else f" Set a password with: postern admin users setup-link {row['email']}"
    report_done(f"Created {row['email']}.{how}")


users = resource_group(
    ResourceCommands(
        noun=USER,
        help="""List and manage users. USER is an e-mail address or an id.

        \b
        postern admin users list --group dba
        postern admin users create ann@example.com --name Ann --group dba
        postern admin users create eve@example.com --role auditor
        postern admin users setup-link ann@example.com
        postern admin users deactivate ann@example.com
        """,
        columns=[
            ("e-mail", "email"),
            ("name", "name"),
            ("role", "role"),
            ("status", "status"),
            ("groups", "groups"),
            ("last login", "last_login_at"),
        ],
        filters=[
            Field("--search", "search", "Show only users whose name or e-mail contains this text.", metavar="TEXT"),
            Field("--group", "group", "Show only users in this group.", completes=GROUP),
            Field("--status", "status", "Show only users in this state: active, inactive or invited."),
        ],
        arguments=[Argument("email")],
        options=[
            Field("--email", "email", "The new e-mail address.", only="update"),
            Field("--name", "name", "Display name."),
            Field(
                "--group",
                "groups",
                "A group of the user.",
                many=True,
                completes=GROUP,
                clear=("--no-groups", "Remove the user from all groups.", []),
            ),
            Field(
                "--role",
                "roles",
                "A role; adds the user to the organisation's group for it.",
                many=True,
                type=click.Choice(["admin", "auditor"]),
                only="create",
            ),
            Field(
                "--password-stdin",
                "password",
                "Read a password from standard input; a new one ends the user's logins. A set-up link is safer.",
                switch=True,
                reads_stdin=True,
                read=lambda _: stdin_line().reveal(),
            ),
        ],
        prepare=_prepare,
        created=_report_created,
        changed="Changed {email}.",
        says={
            "create": """Create a user. With local login, the user sets a password with a set-up link.

            A role is a group: `postern admin auth show` shows the groups of administrators and auditors.
            """,
            "delete": "Delete a user with their logins, keys and credentials.",
        },
        question="Delete {key}? This cannot be undone",
    )
)


@users.command()
@item_argument(USER)
@json_option
def activate(key: str, as_json: bool) -> None:
    """Activate a user again."""
    _set_status(key, "active", as_json, "Activated")


@users.command()
@item_argument(USER)
@yes_option
@json_option
def deactivate(key: str, yes: bool, as_json: bool) -> None:
    """Deactivate a user: their logins and running sessions end at once."""
    confirm(f"Deactivate {key}? Their running sessions end", yes)
    _set_status(key, "inactive", as_json, "Deactivated")


def _set_status(key: str, status: str, as_json: bool, done: str) -> None:
    with client() as api, looking_up(api, USER, key) as items:
        row = items.update(key, {"status": status})
    print_result(row, as_json, f"{done} {row['email']}.")


@users.command("setup-link")
@item_argument(USER)
@json_option
def setup_link(key: str, as_json: bool) -> None:
    """Create a link with which a user sets a password, once. Older links stop working."""
    with client() as api, looking_up(api, USER, key) as items:
        link = items.act(key, "setup-link")
    emit(link, as_json, _show_link)


def _show_link(link: Row) -> None:
    click.echo(link["url"])
    report_note(
        f"Send this link only to {link['email']}, who runs `postern setup` with it in quotes. It works "
        f"once, until {local_time(link['expires_at'])}."
    )


@users.command("reset-second-factors")
@item_argument(USER)
@yes_option
@json_option
def reset_second_factors(key: str, yes: bool, as_json: bool) -> None:
    """Remove all second factors of a user who lost them. Their logins end."""
    confirm(f"Remove the second factors of {key}? Make sure that the request comes from this user", yes)
    with client() as api, looking_up(api, USER, key) as items:
        items.act(key, "second-factors", method="DELETE")
    print_result({"reset": key}, as_json, f"Removed the second factors of {key}.")
