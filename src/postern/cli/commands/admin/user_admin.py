from __future__ import annotations

import click

from postern.cli.api import client
from postern.cli.nouns import GROUP, USER
from postern.cli.printing import emit, json_option, local_time
from postern.cli.resource_group import Argument, Field, ResourceCommands, item_argument, looking_up, resource_group
from postern.cli.row_commands import confirm, stdin_line, told, yes_option
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


def _created(made: Row) -> None:
    has_password = made["status"] != "invited"
    how = "" if has_password else f" A password is set by: postern admin users setup-link {made['email']}"
    report_done(f"Created {made['email']}.{how}")


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
            Field("--search", "search", "Only those whose name or e-mail holds this.", metavar="TEXT"),
            Field("--group", "group", "Only those in this group.", completes=GROUP),
            Field("--status", "status", "Only those that are active, inactive, or in another state."),
        ],
        arguments=[Argument("email")],
        options=[
            Field("--email", "email", "The new e-mail address.", only="update"),
            Field("--name", "name", "The name that people see."),
            Field(
                "--group",
                "groups",
                "A group they are in.",
                many=True,
                completes=GROUP,
                clear=("--no-groups", "In no group from now on.", []),
            ),
            Field(
                "--role",
                "roles",
                "A role beyond that of a user; they join the organisation's group for it.",
                many=True,
                type=click.Choice(["admin", "auditor"]),
                only="create",
            ),
            Field(
                "--password-stdin",
                "password",
                "Read a password from standard input; a new one ends their logins. A setup-link is safer.",
                switch=True,
                reads_stdin=True,
                read=lambda _: stdin_line().reveal(),
            ),
        ],
        prepare=_prepare,
        created=_created,
        changed="Changed {email}.",
        says={
            "create": """Create a user. With local login a setup-link lets them choose a password.

            A role is a group: `postern admin auth show` says which groups make administrators and auditors.
            """,
            "delete": "Delete a user, with their logins, keys and credentials.",
        },
        question="Delete {key}? This cannot be undone",
    )
)


@users.command()
@item_argument(USER)
@json_option
def activate(key: str, as_json: bool) -> None:
    """Let a user in again."""
    _set_status(key, "active", as_json, "Activated")


@users.command()
@item_argument(USER)
@yes_option
@json_option
def deactivate(key: str, yes: bool, as_json: bool) -> None:
    """Keep a user out: ends their logins and live sessions at once."""
    confirm(f"Deactivate {key}? Their live sessions end", yes)
    _set_status(key, "inactive", as_json, "Deactivated")


def _set_status(key: str, status: str, as_json: bool, done: str) -> None:
    with client() as api, looking_up(api, USER, key) as items:
        row = items.update(key, {"status": status})
    told(row, as_json, f"{done} {row['email']}.")


@users.command("setup-link")
@item_argument(USER)
@json_option
def setup_link(key: str, as_json: bool) -> None:
    """Make a link by which a user sets their password, once; older links are void."""
    with client() as api, looking_up(api, USER, key) as items:
        link = items.act(key, "setup-link")
    emit(link, as_json, _show_link)


def _show_link(link: Row) -> None:
    click.echo(link["url"])
    report_note(
        f"For {link['email']}, who runs `postern setup` with it in quotes, once, until "
        f"{local_time(link['expires_at'])}; send it to nobody else."
    )


@users.command("reset-second-factors")
@item_argument(USER)
@yes_option
@json_option
def reset_second_factors(key: str, yes: bool, as_json: bool) -> None:
    """Remove all second factors of a user who lost theirs; ends their logins."""
    confirm(f"Remove the second factors of {key}? Be sure that it is they who ask", yes)
    with client() as api, looking_up(api, USER, key) as items:
        items.act(key, "second-factors", method="DELETE")
    told({"reset": key}, as_json, f"Removed the second factors of {key}.")
