from __future__ import annotations

import sys
from typing import IO, Any

import click

from postern.cli.api import client
from postern.cli.commands.admin.tracker_issue_admin import issues, retry
from postern.cli.printing import json_option
from postern.cli.row_commands import (
    confirm,
    drop_missing,
    page_of,
    paging_options,
    print_result,
    show_page,
    show_row,
    stdin_line,
    yes_option,
)
from postern.client.client import Client
from postern.client.client_shapes import Row
from postern.domain.issues.issue import TrackerKind, WhenDown
from postern.domain.text import one_line
from postern.errors import NotFound

_COLUMNS = [("name", "name"), ("id", "id")]


@click.group()
def tracker() -> None:
    """Show and set the issue tracker in which sessions open issues. Its token is never shown.

    \b
    postern admin tracker set jira_cloud https://acme.atlassian.net --user ann@example.com --token-stdin < token
    postern admin tracker test OPS
    postern admin tracker set --when-down go_on
    postern admin tracker issues --state given_up
    """


@tracker.command()
@json_option
def show(as_json: bool) -> None:
    """Show the issue tracker. Its token is never shown."""
    with client() as api:
        show_row(api.collection("integrations").get("tracker"), as_json)


@tracker.command("set")
@click.argument("kind", required=False, type=click.Choice([str(kind) for kind in TrackerKind]))
@click.argument("url", required=False)
@click.option("--user", help="User that the token belongs to; for jira_cloud an e-mail address.")
@click.option("--token-stdin", is_flag=True, help="Read the token from standard input; asks for it at a terminal.")
@click.option(
    "--authority",
    type=click.File(),
    metavar="FILE",
    help="PEM file of the tracker's CA, unless it is publicly trusted.",
)
@click.option("--enabled/--disabled", default=None, help="Enable or disable issues for sessions.")
@click.option(
    "--when-down",
    type=click.Choice([str(choice) for choice in WhenDown]),
    help="If the tracker is down: deny sessions that need an issue, or admit them and open the issue later.",
)
@json_option
def set_(authority: IO[str] | None, token_stdin: bool, as_json: bool, **more: Any) -> None:
    """Set up or change the issue tracker. Options that you leave out stay as they are. If you change KIND, URL or CA,
    give the token again."""
    changes = drop_missing(**more, authority=authority.read() if authority else None)
    if token_stdin:
        changes["token"] = _token()
    if not changes:
        raise click.UsageError("nothing to change: give an option; see --help")
    with client() as api:
        now = _now(api)
        if now is None:
            if not {"kind", "url", "token"} <= changes.keys():
                raise click.UsageError("no tracker is set up yet: give KIND, URL and --token-stdin")
            changed = api.collection("integrations", "tracker").create(changes)
        else:
            changed = api.collection("integrations").replace("tracker", now | changes)
    print_result(
        changed, as_json, f"Sessions open issues at {changed['url']}. Test it with: postern admin tracker test"
    )


@tracker.command()
@click.argument("project", default="")
@json_option
def test(project: str, as_json: bool) -> None:
    """Test the token, and access to PROJECT."""
    with client() as api:
        result = api.collection("integrations").act("tracker", "test", body={"project_key": project})
    print_result(result, as_json, f"{one_line(result['answer'])}.")


@tracker.command()
@click.argument("object_type")
@click.option("--query", help="Show only assets whose name contains this text.")
@paging_options
def objects(object_type: str, query: str | None, as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List assets of a type, by name, as issue templates name them."""
    with client() as api:
        collection = api.collection("integrations", "tracker", "assets", "objects")
        page = page_of(collection, limit=limit, offset=offset, every=every, object_type=object_type, query=query)
    show_page(page, _COLUMNS, as_json, "No asset matches.")


@tracker.command()
@yes_option
@json_option
def remove(yes: bool, as_json: bool) -> None:
    """Remove the issue tracker and its token. Issue templates stay."""
    confirm("Remove the tracker? Sessions then no longer open issues, and open issues are not closed", yes)
    with client() as api:
        api.collection("integrations").delete("tracker")
    print_result({"removed": "tracker"}, as_json, "Removed the tracker.")


def _token() -> str:
    if not sys.stdin.isatty():
        return stdin_line().reveal()
    answer: str = click.prompt("Token", hide_input=True, err=True)
    return answer


def _now(api: Client) -> Row | None:
    try:
        return api.collection("integrations").get("tracker")
    except NotFound:
        return None


tracker.add_command(issues)
tracker.add_command(retry)
