from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import IO

import click

from postern.cli import completion, execution, reviewed
from postern.cli.api import client
from postern.cli.lazy import FAILED
from postern.cli.output import emit, json_option
from postern.cli.progress import Progress, counted
from postern.client.client import Client
from postern.client.shapes import EventTriple, ExecResult, Session
from postern.domain.text import one_line, printable
from postern.errors import NotFound


@click.command("exec")
@click.argument("name", required=False, shell_complete=completion.connections)
@click.argument("arguments", nargs=-1)
@click.option("-i", "--input", "script", help="The script itself.")
@click.option("-f", "--file", "file", type=click.File(), help="A file with the script.")
@click.option("-e", "--env", "environment", multiple=True, metavar="NAME=VALUE", help="A variable for a command.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "csv"]),
    help="Of the results: text with tabs between columns, JSON, or CSV (RFC 4180).  [default: text]",
)
@click.option("--reason", default="", help="Why; for those who must agree, where the script needs a review.")
@click.option(
    "--wait-review",
    "patience",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="How long to wait for a review.  [default: as long as the review itself waits]",
)
@click.option("--no-wait-review", "at_once", is_flag=True, help="Do not wait for a review: exit code 7.")
@click.option(
    "--resume",
    metavar="SESSION",
    help="Go on with a script that was put up before: run it if its review is approved, else wait.",
    shell_complete=completion.sessions,
)
@json_option
def execute(
    name: str | None,
    arguments: tuple[str, ...],
    script: str | None,
    file: IO[str] | None,
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

    \b
    postern exec shop-demo -i 'select count(*) from orders'
    postern exec shop-demo -f report.sql --format csv > report.csv
    echo 'select now()' | postern exec shop-demo
    postern exec shop-console -f clean-up.rb -e MODE=dry -- --quiet
    postern exec orders -f fix.sql --reason "ticket 4711" --no-wait-review
    postern exec --resume SESSION
    """
    if patience is not None and at_once:
        raise click.UsageError("give --wait-review or --no-wait-review, not both")
    waits = reviewed.Patience(0 if at_once else patience, quiet=as_json)
    if resume is not None:
        if name is not None or script is not None or file is not None or environment or reason:
            raise click.UsageError("--resume goes on with the script as it was put up: give nothing else of it")
        _resume(resume, form, waits, as_json=as_json)
        return
    if name is None:
        raise click.UsageError("say on which connection: `postern exec NAME`")
    if form is not None and as_json:
        raise click.UsageError("give --json or --format, not both")
    text, variables = _read(script, file, arguments), _variables(environment)
    with client() as api:

        def begin(seconds: int) -> ExecResult:
            return api.sessions.execute(name, text, arguments, variables, reason=reason, wait=seconds)

        _carry_out(api, begin, waits, text, form, as_json=as_json)


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


def _resume(session_id: str, form: str | None, waits: reviewed.Patience, *, as_json: bool) -> None:
    with client() as api:
        script = (api.sessions.get(session_id).get("script") or {}).get("data", "")

        def begin(seconds: int) -> ExecResult:
            return api.sessions.execution(session_id, wait=0)

        _carry_out(api, begin, waits, script, form, as_json=as_json)


def _carry_out(
    api: Client,
    begin: Callable[[int], ExecResult],
    waits: reviewed.Patience,
    script: str,
    form: str | None,
    *,
    as_json: bool,
) -> None:
    """Waits for the end, prints what came of it, and ends the program with the exit code."""
    with Progress("starting", quiet=as_json) as progress:
        result = execution.wait(api, begin, progress, waits)
    code = reviewed.exit_code(result)
    if as_json:
        emit(result, True, lambda _: None)
    elif code is not None:
        reviewed.tell(result)
    else:
        _show(api, script, result, form)
    if code is not None:
        sys.exit(code)
    if result["output_status"] != "success":
        sys.exit(result["exit_code"] or FAILED)


def _show(api: Client, script: str, result: ExecResult, form: str | None) -> None:
    structured = form in ("json", "csv")
    if structured:
        _pass_on(api, result["session_id"], str(form))
    session = api.sessions.get(result["session_id"])
    if not structured or result["output_status"] != "success":
        _print_parts(session, _events(api, result["session_id"]), errors_only=structured)
    _point_at(script, result)
    click.echo(f"postern: session {result['session_id']}", err=True)
    if (session["metrics"] or {}).get("truncated"):
        click.echo("postern: the output was cut at the gateway's limit", err=True)


def _events(api: Client, session_id: str) -> Iterator[EventTriple]:
    """A script that was never begun printed nothing."""
    with suppress(NotFound):
        yield from api.sessions.events(session_id)


def _variables(given: tuple[str, ...]) -> dict[str, str]:
    for text in given:
        if "=" not in text:
            raise click.UsageError(f"-e {text}: give a variable as NAME=VALUE")
    return dict(text.split("=", 1) for text in given)


def _pass_on(api: Client, session_id: str, form: str) -> None:
    """Byte for byte, as it comes; where it goes to a file it cannot be seen to come."""
    with (
        api.sessions.results(session_id, form) as pieces,
        counted(pieces, "reading the results", quiet=sys.stdout.isatty()) as told,
    ):
        for piece in told:
            sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _point_at(script: str, result: ExecResult) -> None:
    """The line that the database could not read, and where in it."""
    error = result.get("error") or {}
    position, line = error.get("position"), error.get("line")
    if position is None or line is None:
        return
    lead = f"LINE {line}: "
    text = script.split("\n")[line - 1]
    column = position - 1 - (script.rfind("\n", 0, position - 1) + 1)
    click.echo(lead + one_line(text), err=True)
    click.echo(" " * (len(lead) + column) + "^", err=True)


def _print_parts(session: Session, events: Iterable[EventTriple], *, errors_only: bool = False) -> None:
    """What the script printed, as it came: output and errors on their own streams. Not made printable when it goes
    to a file or a program, which wants it byte for byte."""
    shown = printable if sys.stdout.isatty() else str
    detail = (session.get("metadata") or {}).get("end_detail")
    last, is_empty = "", True  # of what went to standard error; a program may write a line in parts
    for _, kind, content in events:
        is_empty = False
        text = base64.b64decode(content).decode(errors="replace")
        if kind == "e":
            click.echo(printable(text), nl=False, err=True)
            last = text or last
        elif kind == "o" and not errors_only:
            click.echo(shown(text), nl=False)
    if is_empty and detail:
        click.echo(f"postern: {printable(str(detail))}", err=True)
    if last and not last.endswith("\n"):
        click.echo(err=True)
