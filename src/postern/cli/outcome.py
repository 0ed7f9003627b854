"""What came of a script: it is waited for, printed, and its exit code is this program's."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import click

from postern.cli import execution, reviewed
from postern.cli.api import client
from postern.cli.lazy import FAILED
from postern.cli.output import emit
from postern.cli.progress import Progress, counted
from postern.cli.session_ids import resolve
from postern.cli.status import Status, report
from postern.client.client import Client
from postern.client.shapes import EventTriple, ExecResult, Session
from postern.domain.connection import OF_VALUES
from postern.domain.text import one_line, printable
from postern.errors import NotFound

_OF_VALUES = ("json", "csv")


def resume(session_id: str, form: str | None, waits: reviewed.Patience, *, as_json: bool) -> None:
    """Like `carry_out`, for a script that was submitted before."""
    (session_id,) = resolve((session_id,))
    with client() as api:

        def begin(seconds: int) -> ExecResult:
            return api.sessions.execution(session_id, wait=0)

        carry_out(api, begin, waits, form, lambda: api.sessions.get(session_id)["connection_subtype"], as_json=as_json)


def _require_values(form: str | None, subtype: Callable[[], str]) -> None:
    """Before anything runs. Raises UsageError where the output could not be printed in that form."""
    if form in _OF_VALUES and (found := subtype()) not in OF_VALUES:
        raise click.UsageError(
            f"--format {form} is for values, and what runs on a connection of subtype {one_line(found)} prints text; "
            "nothing was run: leave --format out"
        )


def carry_out(
    api: Client,
    begin: Callable[[int], ExecResult],
    waits: reviewed.Patience,
    form: str | None,
    subtype: Callable[[], str],
    *,
    as_json: bool,
) -> None:
    """Waits for the end, prints what came of it, and ends the program with the exit code. `subtype`: of the connection,
    asked for only where it matters."""
    _require_values(form, subtype)
    with Progress("starting", quiet=as_json) as progress:
        result = execution.wait(api, begin, progress, waits)
    code = reviewed.exit_code(result)
    if as_json:
        emit(result, True, lambda _: None)
    elif code is not None:
        reviewed.tell(result)
    else:
        _show(api, result, form)
    if code is not None:
        sys.exit(code)
    if result["output_status"] != "success":
        sys.exit(result["exit_code"] or FAILED)


def _show(api: Client, result: ExecResult, form: str | None) -> None:
    structured = form in _OF_VALUES
    if structured:
        _pass_on(api, result["session_id"], str(form))
    session = api.sessions.get(result["session_id"])
    if not structured or result["output_status"] != "success":
        _print_parts(session, _events(api, result["session_id"]), errors_only=structured)
    _point_at((session.get("script") or {}).get("data", ""), result)
    report(Status.INFO, f"session {result['session_id']}")
    if (session["metrics"] or {}).get("truncated"):
        report(Status.INFO, "the output was cut at the gateway's limit")


def _events(api: Client, session_id: str) -> Iterator[EventTriple]:
    """A script that was never begun printed nothing."""
    with suppress(NotFound):
        yield from api.sessions.events(session_id)


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
        report(Status.ERROR, printable(str(detail)))
    if last and not last.endswith("\n"):
        click.echo(err=True)
