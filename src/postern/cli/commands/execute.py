from __future__ import annotations

import sys
from typing import IO

import click

from postern.cli import completion, outcome, script_options
from postern.cli.api import client
from postern.client.shapes import ExecResult


@click.command("exec")
@click.argument("name", required=False, shell_complete=completion.connections)
@click.argument("arguments", nargs=-1)
@click.option("-i", "--input", "script", help="The script itself.")
@click.option("-f", "--file", "file", type=click.File(), help="A file with the script.")
@script_options.issue_fields
@script_options.options
def execute(
    name: str | None,
    arguments: tuple[str, ...],
    script: str | None,
    file: IO[str] | None,
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

    The script comes from -i, from -f, or from standard input. Output goes to standard output, errors to standard
    error; the exit code is 1 when the script failed, and that of the command on a connection that has one.

    A script of several statements is one request: it ends at the first error, and what it did before is undone, unless
    it says begin and commit itself. With --json the API's own answer is printed, with at most 1 MiB of output; --format
    prints as much as the session's recording keeps.

    A command reads the script as its standard input. What stands behind -- are further arguments of it. With --json
    `stdout` and `stderr` have what it printed apart, and `output` has both as they came.

    Ctrl-C kills the script at the gateway; the exit code is 130 then. When this program ends otherwise, the script goes
    on, and `postern sessions kill` ends it.

    Where colleagues must agree, who and where is said, and the script runs by itself once they have. Exit codes: 7 it
    waits still, 8 it was rejected, revoked or not decided in time, 9 it was withdrawn or killed before it ran. Ctrl-C
    leaves what waits; --resume goes on with it, also elsewhere.

    Where scripts open an issue in a tracker, --issue-field says what its template asks for.

    \b
    postern exec shop-demo -i 'select count(*) from orders'
    postern exec shop-demo -f report.sql --format csv > report.csv
    echo 'select now()' | postern exec shop-demo
    postern exec shop-console -f clean-up.rb -e MODE=dry -- --quiet
    postern exec orders -f fix.sql --reason "ticket 4711" --no-wait-review
    postern exec --resume SESSION
    """
    waits = script_options.patience_of(patience, at_once=at_once, form=form, as_json=as_json)
    if resume is not None:
        if name is not None or script is not None or file is not None or environment or reason or fields:
            raise click.UsageError("--resume goes on with the script as it was put up: give nothing else of it")
        outcome.resume(resume, form, waits, as_json=as_json)
        return
    if name is None:
        raise click.UsageError("say on which connection: `postern exec NAME`")
    text, variables = _read(script, file, arguments), script_options.variables_of(environment)
    named = script_options.fields_of(fields)
    with client() as api:

        def begin(seconds: int) -> ExecResult:
            return api.sessions.execute(
                name, text, arguments, variables, reason=reason, tracker_fields=named, wait=seconds
            )

        outcome.carry_out(api, begin, waits, form, lambda: api.connections.get(name)["subtype"], as_json=as_json)


def _read(script: str | None, file: IO[str] | None, arguments: tuple[str, ...]) -> str:
    """The script; an empty one is for a command that has arguments."""
    if script is not None and file is not None:
        raise click.UsageError("give -i or -f, not both")
    if script is None:
        if file is None and sys.stdin.isatty() and not arguments:
            raise click.UsageError("nothing to run: give -i, -f, or a script on standard input")
        script = "" if file is None and sys.stdin.isatty() else (file or sys.stdin).read()
    if not script.strip() and not arguments:
        raise click.UsageError("the script is empty")
    return script
