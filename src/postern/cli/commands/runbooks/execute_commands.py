from __future__ import annotations

import sys
from typing import IO

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.scripts import outcome, script_options
from postern.cli.scripts.preview_output import show_preview
from postern.cli.scripts.runbook_parameters import parse_parameters
from postern.client.client import Client
from postern.client.client_shapes import ExecResult
from postern.domain.text import one_line


@click.command("exec")
@click.argument("name", required=False, shell_complete=completion.connections)
@click.argument("arguments", nargs=-1)
@click.option("-i", "--input", "script", help="The script itself.")
@click.option("-f", "--file", "file", type=click.File(), help="A file with the script.")
@click.option(
    "-p",
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="A value for :NAME in the script; @FILE reads it from a file. Repeatable.",
)
@click.option("--preview", is_flag=True, help="Print what rules would say to the script; do not run it.")
@script_options.issue_fields
@script_options.options
def execute(
    name: str | None,
    arguments: tuple[str, ...],
    script: str | None,
    file: IO[str] | None,
    parameters: tuple[str, ...],
    preview: bool,
    fields: tuple[str, ...],
    environment: tuple[str, ...],
    form: str | None,
    reason: str,
    patience: float | None,
    at_once: bool,
    resume: str | None,
    as_json: bool,
) -> None:
    """Run a script on a connection and print its output.

    The script comes from -i, from -f, or from standard input. Output goes to standard output, errors to standard error.
    The exit code is 1 when the script failed. On a connection that runs a command, it is the command's exit code.

    Several statements run as one request: it stops at the first error and rolls back, unless the script has its own
    begin and commit. --json prints the API's answer, with at most 1 MiB of output. --format prints all output in the
    recording.

    With -p, :NAME in the script stands for a value, outside of quotes and comments. The database binds values if its
    protocol can, otherwise they become quoted literals. Values are never read as SQL.

    --preview runs nothing. It prints whether the script would be denied, held or warned about, and the approvals that
    it needs first. The exit code is 1 if it would be denied.

    A command reads the script as its standard input. Arguments after -- go to the command. With --json, `stdout` and
    `stderr` are separate, and `output` has both in order.

    Ctrl-C kills the script at the gateway, and the exit code is 130. If this program ends otherwise, the script
    continues, and `postern sessions kill` ends it.

    If the script needs a review, this prints who must approve and where, and runs the script once it is approved. Exit
    codes: 7 the review is pending, 8 it was rejected, revoked or has expired, 9 it was withdrawn or the script was
    killed before it ran. Ctrl-C stops waiting and leaves the review; --resume continues, also on another machine.

    If scripts open an issue in a tracker, --issue-field fills in the fields that its template requires.

    \b
    postern exec shop-demo -i 'select count(*) from orders'
    postern exec shop-demo -i 'select * from orders where id = :id' -p id=7
    postern exec shop-demo -f report.sql --format csv > report.csv
    echo 'select now()' | postern exec shop-demo
    postern exec shop-console -f clean-up.rb -e MODE=dry -- --quiet
    postern exec orders -f fix.sql --reason "ticket 4711" --no-wait
    postern exec --resume SESSION
    """
    waits = script_options.patience_of(patience, at_once=at_once, form=form, as_json=as_json)
    if resume is not None:
        given = (name, script, file, *environment, *parameters, *fields, reason or None, preview or None)
        if any(option is not None for option in given):
            raise click.UsageError("--resume continues a script as it was submitted; leave out its other options")
        outcome.resume(resume, form, waits, as_json=as_json)
        return
    if name is None:
        raise click.UsageError("give the name of a connection: `postern exec NAME -i SCRIPT`")
    text, variables = _read(script, file, arguments), script_options.variables_of(environment)
    named = script_options.fields_of(fields)
    values = {key: value.reveal() for key, value in parse_parameters(parameters, None).items()}
    with client() as api:
        if preview:
            body = {"script": text, **({"parameters": values} if values else {})}
            show_preview(api.connections.act(name, "preview", body=body), text, as_json=as_json)
            return
        if arguments or variables:
            _require_command(api, name)

        def begin(seconds: int) -> ExecResult:
            return api.sessions.execute(
                name,
                text,
                arguments,
                variables,
                reason=reason,
                parameters=values,
                tracker_fields=named,
                wait=seconds,
            )

        outcome.carry_out(api, begin, waits, form, lambda: api.connections.get(name)["subtype"], as_json=as_json)


def _require_command(api: Client, name: str) -> None:
    """Raise UsageError if the connection has no command that could take arguments and variables."""
    from postern.domain.targets.connection import TERMINAL, protocol_of  # costs more than running a short script

    connection = api.connections.get(name)
    if protocol_of(connection["subtype"], connection["command"] or ()) != TERMINAL:
        raise click.UsageError(
            f"connection {one_line(name)!r} does not run a command, so it takes no arguments and no --env; give "
            f"the script with -i: `postern exec {one_line(name)} -i 'select 1'`"
        )


def _read(script: str | None, file: IO[str] | None, arguments: tuple[str, ...]) -> str:
    """Return the script; it can be empty for a command that has arguments."""
    if script is not None and file is not None:
        raise click.UsageError("give -i or -f, not both")
    if script is None:
        if file is None and sys.stdin.isatty() and not arguments:
            raise click.UsageError("there is no script: give -i, -f, or a script on standard input")
        script = "" if file is None and sys.stdin.isatty() else (file or sys.stdin).read()
    if not script.strip() and not arguments:
        raise click.UsageError("the script is empty")
    return script
