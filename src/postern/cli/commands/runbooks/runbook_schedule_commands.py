"""`postern runbooks schedules`: runbooks that run on a schedule."""

from __future__ import annotations

import click

from postern.cli.api import client
from postern.cli.nouns import CONNECTION, RUNBOOK_SCHEDULE
from postern.cli.printing import emit, json_option
from postern.cli.resource_group import (
    Argument,
    Field,
    ResourceCommands,
    item_argument,
    looking_up,
    new_name,
    resource_group,
)
from postern.cli.row_commands import print_result
from postern.cli.scripts import runbook_parameters, script_options
from postern.client.client import Client
from postern.client.client_shapes import Row
from postern.domain.text import one_line


def _prepare(_api: Client, body: Row, key: str | None) -> Row:
    """Join the values of -p and --parameters. Raises UsageError."""
    if key is None and not (body.get("connection_name") and body.get("cron")):
        raise click.UsageError("give the connection and the schedule: --connection CONNECTION --cron EXPRESSION")
    texts, file = body.pop("parameter_texts", ()), body.pop("parameter_file", None)
    if texts or file:
        values = runbook_parameters.parse_parameters(texts, file)
        body["parameters"] = {name: value.reveal() for name, value in values.items()}
    return body


schedules = resource_group(
    ResourceCommands(
        noun=RUNBOOK_SCHEDULE,
        help="""Run runbooks on a schedule, as you, at the times of a cron expression.

        Each run is a session of yours, with the permissions that you have at that time. The values of parameters, and
        of the fields of issues (--issue-field), are stored encrypted and never shown again.

        \b
        postern runbooks schedules create cleanup ops/cleanup.runbook.sql -c shop --cron "30 2 * * *" \\
            --zone Europe/Berlin
        postern runbooks schedules list
        postern runbooks schedules run cleanup
        postern runbooks schedules update cleanup --off
        """,
        columns=[
            ("name", "name"),
            ("runbook", "file_name"),
            ("connection", "connection_name"),
            ("when", "cron"),
            ("zone", "timezone"),
            ("next", "next_at"),
            ("owner", "owner"),
            ("last error", "last_error"),
        ],
        arguments=[Argument("name"), Argument("file_name", "RUNBOOK")],
        options=[
            new_name(),
            Field("--runbook", "file_name", "A different runbook, by its path.", only="update"),
            Field("--on/--off", "enabled", "Enable or disable the schedule.", only="update"),
            Field("-c --connection", "connection_name", "Connection where it runs.", completes=CONNECTION),
            Field("--repository", "repository", "Repository, by name or address.  [default: the only one]"),
            Field(
                "--cron", "cron", "Minute, hour, day of the month, month, day of the week, such as '30 2 * * MON-FRI'."
            ),
            Field("--zone", "timezone", "IANA time zone.  [default: UTC]", metavar="ZONE"),
            Field(
                "-p --parameter",
                "parameter_texts",
                "A parameter, KEY=VALUE or KEY=@FILE.",
                many=True,
                metavar="KEY=VALUE",
            ),
            Field(
                "--parameters",
                "parameter_file",
                "JSON file with an object of parameters; '-' reads standard input.",
                metavar="FILE",
            ),
            Field(
                "--issue-field",
                "tracker_fields",
                "Field of the issue that the session opens, with the tracker's name for the field.",
                many=True,
                metavar="NAME=VALUE",
                read=script_options.fields_of,
            ),
        ],
        prepare=_prepare,
        created="Created {name}; it runs next at {next_at}.",
        says={
            "list": "List your schedules, by name; for administrators and auditors, all schedules.",
            "show": "Show a schedule, by name or id, with its next run and the result of its last one.",
            "create": "Create a schedule that runs as you. RUNBOOK is its path in the repository.",
            "update": "Change your schedule. Fields that you leave out stay as they are. An administrator can "
            "disable schedules of others.",
            "delete": "Delete a schedule. A run that has started continues.",
        },
        question="Delete the schedule {key}? It then no longer runs",
    )
)


@schedules.command()
@item_argument(RUNBOOK_SCHEDULE)
@json_option
def run(key: str, as_json: bool) -> None:
    """Run your schedule now, in addition to its times. Its session shows the result."""
    with client() as api, looking_up(api, RUNBOOK_SCHEDULE, key) as items:
        begun = items.act(key, "run")
    waits = ", which waits for its review" if begun["review_id"] else ""
    print_result(begun, as_json, f"Session {begun['session_id']}{waits}: postern sessions show {begun['session_id']}")


@schedules.command()
@click.argument("cron", metavar="EXPRESSION")
@click.option("--zone", default="UTC", show_default=True, help="IANA time zone.")
@click.option("--count", type=click.IntRange(1, 20), default=5, show_default=True, help="How many.")
@json_option
def times(cron: str, zone: str, count: int, as_json: bool) -> None:
    """Print when a schedule with this cron EXPRESSION would run next, in UTC."""
    with client() as api:
        found = api.runbook_runs.times(cron, zone, count)
    emit(found, as_json, lambda answer: _show_times(answer, zone))


def _show_times(answer: Row, zone: str) -> None:
    click.echo(f"{answer['description']} ({one_line(zone)})")
    for time in answer["times"]:
        click.echo(time)
