"""`postern runbooks schedules`: runbooks that run by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from postern.cli import completion, runbook_parameters, script_options
from postern.cli.api import client
from postern.cli.output import json_option
from postern.cli.rows import (
    Decorator,
    confirm,
    given,
    page_of,
    paging_options,
    show_page,
    show_row,
    told,
    yes_option,
)
from postern.client.shapes import Row

_COLUMNS = [
    ("name", "name"),
    ("runbook", "file_name"),
    ("connection", "connection_name"),
    ("when", "cron"),
    ("zone", "timezone"),
    ("next", "next_at"),
    ("owner", "owner"),
    ("trouble", "last_error"),
]
_PATH = ("runbooks", "schedules")

Command = Callable[..., Any]


def _fields(command: Command) -> Command:
    """What creating and changing a schedule have in common."""
    options: list[Decorator] = [
        click.option("-c", "--connection", help="Where it runs.", shell_complete=completion.connections),
        click.option("--repository", help="Its name or address.  [default: the only one]"),
        click.option("--cron", help="Minute, hour, day of the month, month, day of the week: '30 2 * * MON-FRI'."),
        click.option("--zone", "timezone", metavar="ZONE", help="IANA time zone.  [default: UTC]"),
        click.option(
            "-p",
            "--parameter",
            "parameters",
            multiple=True,
            metavar="KEY=VALUE",
            help="A value, or KEY=@FILE; repeatable, replaces all.",
        ),
        click.option("--parameters", "file", metavar="FILE", help="A JSON object with values; - is standard input."),
        script_options.issue_fields,
        json_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.group("schedules")
def schedules() -> None:
    """Run runbooks by themselves, as you, at the times of a cron expression.

    A run is a session of yours, with the rights that you have at that moment. The values of parameters, and of
    the fields of issues (--issue-field), are kept encrypted, and nobody is shown them again.

    \b
    postern runbooks schedules create cleanup ops/cleanup.runbook.sql -c shop --cron "30 2 * * *" --zone Europe/Berlin
    postern runbooks schedules list
    postern runbooks schedules run cleanup
    postern runbooks schedules update cleanup --off
    """


@schedules.command("list")
@paging_options
def list_(as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List your schedules, by name; all of them for administrators and auditors."""
    with client() as api:
        page = page_of(api.collection(*_PATH), limit=limit, offset=offset, every=every)
    show_page(page, _COLUMNS, as_json, "There are no schedules yet: postern runbooks schedules create NAME RUNBOOK")


@schedules.command()
@click.argument("name", shell_complete=completion.runbook_schedules)
@json_option
def get(name: str, as_json: bool) -> None:
    """Show one schedule: when it runs next, and what came of its last time."""
    with client() as api:
        show_row(api.collection(*_PATH).get(name), as_json)


@schedules.command()
@click.argument("name")
@click.argument("runbook")
@_fields
def create(name: str, runbook: str, as_json: bool, **more: Any) -> None:
    """Create a schedule that runs as you. RUNBOOK is its path in the repository."""
    if not more["connection"] or not more["cron"]:
        raise click.UsageError("say where and when: --connection CONNECTION --cron EXPRESSION")
    with client() as api:
        made = api.collection(*_PATH).create({"name": name, "file_name": runbook, **_given(**more)})
    told(made, as_json, f"Created {made['name']}; it runs next at {made['next_at']}.")


@schedules.command()
@click.argument("name", shell_complete=completion.runbook_schedules)
@click.option("--name", "new_name", help="The new name.")
@click.option("--runbook", "file_name", help="Another runbook, by its path.")
@click.option("--on/--off", "enabled", default=None, help="Whether it runs.")
@_fields
def update(
    name: str, new_name: str | None, file_name: str | None, enabled: bool | None, as_json: bool, **more: Any
) -> None:
    """Change a schedule of yours; what is left out stays as it is. An administrator may switch off that of others."""
    body = given(name=new_name, file_name=file_name, enabled=enabled) | _given(**more)
    with client() as api:
        changed = api.collection(*_PATH).update(name, body)
    told(changed, as_json, f"Changed {changed['name']}.")


@schedules.command()
@click.argument("name", shell_complete=completion.runbook_schedules)
@json_option
def run(name: str, as_json: bool) -> None:
    """Run a schedule of yours now, beside its times; its session says what comes of it."""
    with client() as api:
        begun = api.collection(*_PATH).act(name, "run")
    waits = ", which waits for its review" if begun["review_id"] else ""
    told(begun, as_json, f"Session {begun['session_id']}{waits}: postern sessions show {begun['session_id']}")


@schedules.command()
@click.argument("name", shell_complete=completion.runbook_schedules)
@yes_option
@json_option
def delete(name: str, yes: bool, as_json: bool) -> None:
    """Delete a schedule; what runs goes on."""
    confirm(f"Delete the schedule {name}? It does not run any more", yes)
    with client() as api:
        api.collection(*_PATH).delete(name)
    told({"deleted": name}, as_json, f"Deleted {name}.")


def _given(
    connection: str | None, parameters: tuple[str, ...], file: str | None, fields: tuple[str, ...], **more: Any
) -> Row:
    body = given(connection_name=connection, **more)
    if parameters or file:
        values = runbook_parameters.given(parameters, file)
        body["parameters"] = {name: value.reveal() for name, value in values.items()}
    if fields:
        body["tracker_fields"] = script_options.fields_of(fields)
    return body
