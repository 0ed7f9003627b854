from __future__ import annotations

import sys
import time
from typing import IO

import click

from postern.cli.api import client
from postern.cli.lazy import FAILED
from postern.cli.output import emit, json_option
from postern.cli.timeline import steps
from postern.client.client import Client
from postern.client.shapes import ExecResult, Session
from postern.domain.text import printable

POLL = 1.0  # seconds between two looks at a script that runs on


@click.command("exec")
@click.argument("name")
@click.argument("arguments", nargs=-1)
@click.option("-i", "--input", "script", help="The script itself.")
@click.option("-f", "--file", "file", type=click.File(), help="A file with the script.")
@click.option("-e", "--env", "environment", multiple=True, metavar="NAME=VALUE", help="A variable for a command.")
@json_option
def execute(
    name: str,
    arguments: tuple[str, ...],
    script: str | None,
    file: IO[str] | None,
    environment: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run a script on a connection and print its output.

    The script comes from -i, from -f, or from standard input. Output goes to standard output, errors to standard
    error; the exit code is 1 when the script failed, and that of the command on a connection that has one.

    A command reads the script as its standard input. What stands behind -- are further arguments of it.

    \b
    postern exec shop-demo -i 'select count(*) from orders'
    postern exec shop-demo -f report.sql
    echo 'select now()' | postern exec shop-demo
    postern exec shop-console -f clean-up.rb -e MODE=dry -- --quiet
    """
    if script is not None and file is not None:
        raise click.UsageError("give -i or -f, not both")
    if script is None:
        if file is None and sys.stdin.isatty() and not arguments:
            raise click.UsageError("nothing to run: give -i, -f, or a script on standard input")
        script = "" if file is None and sys.stdin.isatty() else (file or sys.stdin).read()
    if not script.strip() and not arguments:
        raise click.UsageError("the script is empty")
    with client() as api:
        result = _wait(api, api.sessions.execute(name, script, arguments, _variables(environment)))
        session = api.sessions.get(result["session_id"], expand=True)
    if as_json:
        emit({**result, "exit_code": session["exit_code"]}, True, lambda _: None)
    else:
        _print_parts(session)
        click.echo(f"postern: session {result['session_id']}", err=True)
        if result["truncated"]:
            click.echo("postern: the output was cut at the gateway's limit", err=True)
    if result["output_status"] != "success":
        sys.exit(session["exit_code"] or FAILED)


def _variables(given: tuple[str, ...]) -> dict[str, str]:
    for text in given:
        if "=" not in text:
            raise click.UsageError(f"-e {text}: give a variable as NAME=VALUE")
    return dict(text.split("=", 1) for text in given)


def _wait(api: Client, result: ExecResult) -> ExecResult:
    """The API answers after 50 s at the latest; a script may run for longer."""
    while result["output_status"] == "running":
        time.sleep(POLL)
        session = api.sessions.get(result["session_id"])
        if session["status"] == "done":
            status = "success" if session["exit_code"] == 0 else "failed"
            result = {**result, "output_status": status, "exit_code": session["exit_code"]}
    return result


def _print_parts(session: Session) -> None:
    """What the script printed, as it came: output and errors on their own streams. Not made printable when it goes
    to a file or a program, which wants it byte for byte."""
    shown = printable if sys.stdout.isatty() else str
    detail = (session.get("metadata") or {}).get("end_detail")
    if not session.get("event_stream") and detail:
        click.echo(f"postern: {printable(str(detail))}", err=True)
    last = ""  # of what went to standard error; a program may write a line in parts
    for step in steps(session.get("event_stream") or []):
        for text in step.output:
            click.echo(shown(text), nl=False)
        for text in step.errors:
            click.echo(printable(text), nl=False, err=True)
            last = text or last
    if last and not last.endswith("\n"):
        click.echo(err=True)
