"""`postern runbooks`: list, show and run runbooks."""

from __future__ import annotations

import sys

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.commands.runbooks.runbook_run_commands import run
from postern.cli.commands.runbooks.runbook_schedule_commands import schedules
from postern.cli.printing import emit, fields, json_option, table
from postern.cli.status import Status, report
from postern.client.client_shapes import Row
from postern.domain.text import one_line

_NOTHING = "There are no runbooks that you can run."


@click.group()
def runbooks() -> None:
    """List, show and run runbooks: scripts in git, with parameters that you fill in.

    \b
    postern runbooks list
    postern runbooks list --connection shop
    postern runbooks show /ops/restart.runbook.sh
    postern runbooks run /ops/restart.runbook.sh --connection shop -p name=web
    postern runbooks schedules list
    """


@runbooks.command("list")
@click.option(
    "--connection", help="Show only runbooks that can run on this connection.", shell_complete=completion.connections
)
@click.option("--search", help="Show only runbooks with this text in their path.")
@click.option("--all", "every", is_flag=True, help="Also show runbooks that you cannot run on any connection.")
@json_option
def list_(connection: str | None, search: str | None, every: bool, as_json: bool) -> None:
    """List runbooks by repository and path, with the connections where you can run each."""
    with client() as api:
        with_empty = "false" if every else None
        listing = api.runbooks.list(connection_name=connection, search=search, remove_empty_connections=with_empty)
    for error in listing["errors"]:
        report(Status.ERROR, one_line(error))
    emit(listing, as_json, _show_list)


def _show_list(listing: Row) -> None:
    rows = [
        [
            runbook["name"],
            repository["repository"],
            runbook["connections"],
            list(runbook["metadata"]),
            runbook["error"] or "",
        ]
        for repository in listing["repositories"]
        for runbook in repository["items"]
    ]
    table(["runbook", "repository", "connections", "parameters", "error"], rows, _NOTHING)


@runbooks.command()
@click.argument("runbook")
@click.option("--repository", help="Repository, by name.  [default: the only one]")
@json_option
def show(runbook: str, repository: str | None, as_json: bool) -> None:
    """Show a runbook: its parameters, the connections where you can run it, and its text. Exits with 1 if it is
    invalid."""
    with client() as api:
        row = api.runbooks.get(runbook, repository)
    emit(row, as_json, _show)
    if row["error"]:
        report(Status.ERROR, f"this runbook is invalid: {one_line(row['error'])}")
        sys.exit(1)


def _show(row: Row) -> None:
    """The text alone would look like a script; so the information comes before the text, and not within it."""
    fields(
        [
            ("runbook", row["name"]),
            ("repository", row["repository"]),
            ("commit", row["commit"]),
            ("connections", row["connections"]),
        ]
    )
    parameters = [
        [
            name,
            attributes["type"],
            "required" if attributes["required"] else "",
            attributes.get("default"),
            attributes.get("options") or "",
            attributes["description"],
        ]
        for name, attributes in row["metadata"].items()
    ]
    if parameters:
        click.echo()
        table(["parameter", "type", "", "default", "options", "description"], parameters, "")
    if row["text"] is not None:
        click.echo()
        for line in row["text"].splitlines():
            click.echo(one_line(line))


runbooks.add_command(run)
runbooks.add_command(schedules)
