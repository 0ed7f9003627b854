from __future__ import annotations

import sys
from dataclasses import replace

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.printing import emit
from postern.cli.scripts import outcome, runbook_parameters, script_options
from postern.cli.status import Status, report
from postern.client.client import Client
from postern.client.client_shapes import ExecResult
from postern.client.runbook_runs import FilledRunbook, RunbookRun
from postern.domain.text import one_line, printable


@click.command("run")
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1)
@click.option("-c", "--connection", help="Connection where it runs.", shell_complete=completion.connections)
@click.option("--repository", default="", help="Repository, by name or address.  [default: the only one]")
@click.option("--commit", default="", metavar="HASH", help="Run it only if this is the newest commit.")
@click.option(
    "-p",
    "--parameter",
    "parameters",
    multiple=True,
    metavar="KEY=VALUE",
    help="A parameter, KEY=VALUE or KEY=@FILE. Repeatable.",
)
@click.option(
    "--parameters", "file", metavar="FILE", help="JSON file with an object of parameters; '-' reads standard input."
)
@click.option("--no-input", is_flag=True, help="Do not ask for missing parameters.")
@click.option("--dry-run", is_flag=True, help="Show what would run, and run nothing.")
@click.option("--batch", metavar="ID", help="Label `sessionBatchId`, to group several runs.")
@script_options.issue_fields
@script_options.options
def run(
    name: str | None,
    arguments: tuple[str, ...],
    connection: str | None,
    repository: str,
    commit: str,
    parameters: tuple[str, ...],
    file: str | None,
    no_input: bool,
    dry_run: bool,
    batch: str | None,
    fields: tuple[str, ...],
    environment: tuple[str, ...],
    form: str | None,
    reason: str,
    patience: float | None,
    at_once: bool,
    resume: str | None,
    as_json: bool,
) -> None:
    """Run a runbook on a connection and print its output.

    NAME is the path in the repository. At a terminal, it prompts for missing parameters, without echoing secret ones;
    the gateway checks every value again. A password on the command line stays in the shell's history: leave it out, and
    enter it at the prompt, or give -p KEY=@FILE.

    Reviews, guardrails, masking and recording apply as to any script, and the exit codes are those of `postern exec`.
    --env, and arguments after --, also need permission to run scripts. If it opens an issue in a tracker, --issue-field
    fills in the fields that its template requires.

    \b
    postern runbooks run users/unlock.runbook.sql -c orders -p user=ann
    postern runbooks run backup.runbook.sh -c backup-host -p table=@table.txt --dry-run
    postern runbooks run users/unlock.runbook.sql -c orders -p user=ann --reason "ticket 4711" --no-wait
    postern runbooks run --resume SESSION
    """
    waits = script_options.patience_of(patience, at_once=at_once, form=form, as_json=as_json)
    if resume is not None:
        if any((name, connection, repository, commit, parameters, file, dry_run, batch, fields, environment, reason)):
            raise click.UsageError("--resume continues a runbook as it was submitted; leave out its other options")
        outcome.resume(resume, form, waits, as_json=as_json)
        return
    if name is None or connection is None:
        raise click.UsageError(
            "give the runbook and its connection: `postern runbooks run NAME --connection CONNECTION`"
        )
    values = runbook_parameters.parse_parameters(parameters, file)
    variables, named = script_options.variables_of(environment), script_options.fields_of(fields)
    with client() as api:
        wanted = RunbookRun(connection, name, repository, commit, values, arguments, variables)
        if not no_input and not as_json and sys.stdin.isatty():
            wanted = _ask_parameters(api, wanted)
        if dry_run:
            emit(api.runbook_runs.render(wanted), as_json, _show)
            return

        def begin(seconds: int) -> ExecResult:
            return api.runbook_runs.run(wanted, batch=batch, reason=reason, tracker_fields=named, wait=seconds)

        outcome.carry_out(api, begin, waits, form, lambda: api.connections.get(connection)["subtype"], as_json=as_json)


def _ask_parameters(api: Client, run: RunbookRun) -> RunbookRun:
    runbook = api.runbooks.get(run.file, run.repository or None)
    return replace(run, parameters=runbook_parameters.ask_for_missing(runbook["metadata"], dict(run.parameters)))


def _show(filled: FilledRunbook) -> None:
    click.echo(printable(filled["text"]), nl=not filled["text"].endswith("\n"))
    report(
        Status.INFO,
        f"{one_line(filled['name'])} of {one_line(filled['repository'])} at {filled['commit'][:12]}, "
        f"on {filled['connection']}; nothing was run",
    )
    if filled["variables"]:
        report(Status.INFO, f"with the variables {', '.join(filled['variables'])}")
