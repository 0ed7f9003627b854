"""What came of a script: it is waited for, printed, and its exit code is this program's."""

from __future__ import annotations

import base64
import codecs
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import click

from postern.cli.api import client
from postern.cli.lazy import FAILED
from postern.cli.printing import emit
from postern.cli.progress import ProgressLine, counted
from postern.cli.scripts import reviewed, script_waiting
from postern.cli.session_ids import resolve
from postern.cli.status import Status, report
from postern.client.client import Client
from postern.client.client_shapes import ExecResult, SessionShape
from postern.domain.targets.connection import OF_TABLES
from postern.domain.text import one_line, printable
from postern.errors import NotFound

_OF_VALUES = ("json", "csv")
_STREAMS = {"o": "stdout", "e": "stderr"}  # by the kind of a recorded event
_Part = tuple[str, str]  # a stream's name and a text


def resume(session_id: str, form: str | None, waits: reviewed.Patience, *, as_json: bool) -> None:
    """Like `carry_out`, for a script that was submitted before."""
    (session_id,) = resolve((session_id,))
    with client() as api:

        def begin(seconds: int) -> ExecResult:
            return api.sessions.execution(session_id, wait=0)

        carry_out(api, begin, waits, form, lambda: api.sessions.get(session_id)["connection_subtype"], as_json=as_json)


def _require_values(form: str | None, subtype: Callable[[], str]) -> None:
    """Before anything runs. Raises UsageError where the output could not be printed in that form."""
    if form in _OF_VALUES and (found := subtype()) not in OF_TABLES:
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
    with ProgressLine("starting", quiet=as_json) as progress:
        result = script_waiting.wait(api, begin, progress, waits)
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
    parts = _answered_parts(result)
    is_cut = False
    if parts is None:
        session = api.sessions.get(result["session_id"])
        parts = _recorded_parts(api, session)
        is_cut = bool((session["metrics"] or {}).get("truncated"))
    if not structured or result["output_status"] != "success":
        _print_parts(parts, errors_only=structured)
    _point_at(result.get("error") or {})
    report(Status.INFO, f"session {result['session_id']}")
    if is_cut:
        report(Status.INFO, "the output was cut at the gateway's limit")


def _answered_parts(result: ExecResult) -> Iterator[_Part] | None:
    """Return the parts of the output that the answer has; None where it does not have all of them."""
    streams = result.get("output_streams")
    if streams is None or result["truncated"]:
        return None
    return _split(result["output"] or "", streams)


def _split(output: str, streams: Iterable[tuple[str, int]]) -> Iterator[_Part]:
    start = 0
    for stream, length in streams:
        yield stream, output[start : start + length]
        start += length


def _recorded_parts(api: Client, session: SessionShape) -> Iterator[_Part]:
    """Read the parts of the output from the session's recording. A script that never began has the gateway's reason
    instead."""
    decoders = {kind: codecs.getincrementaldecoder("utf-8")("replace") for kind in _STREAMS}
    is_recorded = False
    with suppress(NotFound):
        for _, kind, content in api.sessions.events(session["id"]):
            is_recorded = True
            if kind in _STREAMS:
                yield _STREAMS[kind], decoders[kind].decode(base64.b64decode(content))
    for kind, decoder in decoders.items():
        yield _STREAMS[kind], decoder.decode(b"", final=True)
    detail = (session.get("metadata") or {}).get("end_detail")
    if detail and not is_recorded:
        yield "gateway", str(detail)


def _pass_on(api: Client, session_id: str, form: str) -> None:
    """Byte for byte, as it comes; where it goes to a file it cannot be seen to come."""
    with (
        api.sessions.results(session_id, form) as pieces,
        counted(pieces, "reading the results", quiet=sys.stdout.isatty()) as told,
    ):
        for piece in told:
            sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _point_at(error: Mapping[str, Any]) -> None:
    """Print the line that the database could not parse, and mark the column."""
    if error.get("line_text") is None:
        return
    lead = f"LINE {error['line']}: "
    click.echo(lead + one_line(error["line_text"]), err=True)
    click.echo(" " * (len(lead) + error["column"] - 1) + "^", err=True)


def _print_parts(parts: Iterable[_Part], *, errors_only: bool = False) -> None:
    """Print output and errors on their own streams, in order. Files and programs get the output unchanged; a terminal
    gets it without control characters."""
    shown = printable if sys.stdout.isatty() else str
    last = ""  # of what went to standard error; a program may write a line in parts
    for stream, text in parts:
        if stream == "gateway":
            report(Status.ERROR, printable(text))
        elif stream == "stderr":
            click.echo(printable(text), nl=False, err=True)
            last = text or last
        elif not errors_only:
            click.echo(shown(text), nl=False)
    if last and not last.endswith("\n"):
        click.echo(err=True)
