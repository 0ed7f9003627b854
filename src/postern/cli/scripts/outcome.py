"""Waiting for a script, printing its result, and exiting with its exit code.

While the gateway runs the script, progress is shown until there is output to print, and Ctrl-C kills it there. A script
that needs a review runs automatically once it is approved.
"""

from __future__ import annotations

import base64
import codecs
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import click

from postern.cli.api import client
from postern.cli.lazy import FAILED
from postern.cli.mask_lines import masked_columns_line
from postern.cli.printing import emit
from postern.cli.progress import ProgressLine, count_pieces
from postern.cli.scripts import review_wait
from postern.cli.scripts.live_output import STREAMS, LineOutput, LiveOutput, OutputPart, PartPrinter, TextOutput
from postern.cli.scripts.review_wait import Patience
from postern.cli.session_ids import resolve
from postern.cli.status import Status, report, status_line
from postern.client.client import Client
from postern.client.client_shapes import ExecResult, SessionShape
from postern.domain.text import one_line, printable
from postern.errors import NotFound, PosternError, Unavailable

AT_FIRST = 1  # seconds for the end, before the gateway is asked for the id of the session
INTERRUPTED = 130  # the exit code: 128 + SIGINT
_AWAY = 30.0  # seconds that the gateway can be unavailable before the command fails
_PAUSE = 1.0


def wait(
    api: Client,
    begin: Callable[[int], ExecResult],
    progress: ProgressLine,
    patience: Patience | None = None,
    live: LiveOutput | None = None,
) -> ExecResult:
    """Run a script until it ends, or until it has waited for a review for longer than `patience`; return the answer.
    `begin` submits it, and waits at most that many seconds; after them, `live` prints its output. Ctrl-C kills the
    session and ends this program; a session that waits for its review is left alone."""
    try:
        with _defer_interrupt() as is_interrupted:
            result = begin(AT_FIRST)
    except KeyboardInterrupt:
        progress.end()
        report(
            Status.INFO, "the script can still be running; `postern sessions list --verb exec --status open` shows it"
        )
        sys.exit(INTERRUPTED)
    if result["output_status"] == review_wait.WAITING:
        result = _run_when_approved(api, result, progress, patience or Patience(), is_interrupted())
        if result["output_status"] != "running":
            return result
        with ProgressLine("running; Ctrl-C kills it", quiet=patience is not None and patience.quiet) as again:
            return _wait_for_end(api, result, again, live, is_interrupted=False)
    progress.say(
        "running; Ctrl-C kills it",
        note=status_line(
            Status.INFO,
            f"session {result['session_id']}; in a different terminal, `postern sessions show "
            f"{result['session_id']}` shows its progress",
            is_terminal=True,
        ),
    )
    return _wait_for_end(api, result, progress, live, is_interrupted=is_interrupted())


def _wait_for_end(
    api: Client, result: ExecResult, progress: ProgressLine, live: LiveOutput | None, *, is_interrupted: bool
) -> ExecResult:
    """Wait for the end. `is_interrupted`: Ctrl-C was pressed already."""
    session_id = result["session_id"]
    if live is not None:
        live.begin = progress.end
    try:
        if is_interrupted:
            raise KeyboardInterrupt
        while result["output_status"] == "running":
            if live is not None:
                live.follow(api, session_id)
            result = _fetch_result(api, session_id)
    except KeyboardInterrupt:
        progress.end()
        _kill(api, session_id)
        sys.exit(INTERRUPTED)
    return result


def _run_when_approved(
    api: Client, result: ExecResult, progress: ProgressLine, patience: Patience, is_interrupted: bool
) -> ExecResult:
    session_id = result["session_id"]
    try:
        if is_interrupted:
            raise KeyboardInterrupt
        return review_wait.run_when_approved(api, result, progress, patience, AT_FIRST)
    except KeyboardInterrupt:
        progress.end()
        review_wait.print_lines(
            f"session {session_id} still waits for its review: `postern exec --resume {session_id}` continues once "
            f"it is approved, `postern reviews withdraw {session_id}` withdraws it"
        )
        sys.exit(INTERRUPTED)


def _fetch_result(api: Client, session_id: str) -> ExecResult:
    """Ask again for a while: a gateway that restarts ends the session, or hands it over."""
    end = time.monotonic() + _AWAY
    while True:
        began = time.monotonic()
        try:
            return api.sessions.execution(session_id)
        except Unavailable as error:
            if began > end:
                raise Unavailable(
                    f"{error.message}; `postern sessions show {session_id}` shows what happened to the session"
                ) from None
        time.sleep(_PAUSE)


def _kill(api: Client, session_id: str) -> None:
    try:
        api.sessions.kill(session_id)
    except PosternError as error:
        report(
            Status.ERROR,
            f"session {session_id} could not be killed and can still be running: {printable(error.message)}",
        )
    else:
        hint = f"`postern sessions show {session_id} --output` shows what it printed"
        report(Status.INFO, f"killed session {session_id}; {hint}")


@contextmanager
def _defer_interrupt() -> Iterator[Callable[[], bool]]:
    """Remember one Ctrl-C, as long as the session's id is unknown; return whether there was one. A second one ends this
    program."""
    interrupted = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: interrupted
    finally:
        signal.signal(signal.SIGINT, before)


_OF_VALUES = ("json", "csv", "ndjson")


def resume(session_id: str, form: str | None, waits: review_wait.Patience, *, as_json: bool) -> None:
    """Like `carry_out`, for a script that was submitted before."""
    (session_id,) = resolve((session_id,))
    with client() as api:

        def begin(seconds: int) -> ExecResult:
            return api.sessions.execution(session_id, wait=0)

        carry_out(api, begin, waits, form, lambda: api.sessions.get(session_id)["connection_subtype"], as_json=as_json)


def _require_values(form: str | None, subtype: Callable[[], str]) -> None:
    """Check the output's form before anything runs. Raises UsageError if the output could not be printed in it."""
    if form not in _OF_VALUES:
        return
    from postern.domain.targets.connection import OF_TABLES  # costs more than printing a text

    if (actual_subtype := subtype()) not in OF_TABLES:
        raise click.UsageError(
            f"--format {form} is for tables, but connections of subtype {one_line(actual_subtype)} print text; "
            "nothing was run. Leave out --format"
        )


def carry_out(
    api: Client,
    begin: Callable[[int], ExecResult],
    waits: review_wait.Patience,
    form: str | None,
    subtype: Callable[[], str],
    *,
    as_json: bool,
) -> None:
    """Print the result, as it comes where its form permits, and exit with the script's exit code. `subtype`: that of
    the connection, requested only if it matters."""
    _require_values(form, subtype)
    printer = PartPrinter()
    text, lines = TextOutput(printer), LineOutput()
    live: LiveOutput | None = lines if form == "ndjson" else None if as_json or form in _OF_VALUES else text
    with ProgressLine("starting", quiet=as_json) as progress:
        result = wait(api, begin, progress, waits, live)
    code = review_wait.exit_code(result)
    if as_json:
        emit(result, True, lambda _: None)
    elif code is not None:
        review_wait.print_outcome(result)
    else:
        if form == "ndjson":
            lines.finish(api, result["session_id"])
        elif form in _OF_VALUES:
            _pass_on(api, result["session_id"], str(form))
        _show(api, result, form, printer, text)
    if code is not None:
        sys.exit(code)
    if result["output_status"] != "success":
        sys.exit(result["exit_code"] or FAILED)


def _show(api: Client, result: ExecResult, form: str | None, printer: PartPrinter, text: TextOutput) -> None:
    """Print the output, without what is printed already, or only its errors if it is printed as values; then what is
    known about it."""
    structured = form in _OF_VALUES
    parts = _answered_parts(result)
    is_cut = False
    if parts is None:
        session = api.sessions.get(result["session_id"])
        parts = _recorded_parts(api, session)
        is_cut = bool((session["metrics"] or {}).get("truncated"))
    if not structured or result["output_status"] != "success":
        for stream, part in text.rest(parts):
            if stream != "stdout" or not structured:
                printer.print(stream, part)
    printer.finish()
    _point_at(result.get("error") or {})
    for entry in result.get("masked") or ():
        report(Status.INFO, masked_columns_line(entry))
    report(Status.INFO, f"session {result['session_id']}")
    if is_cut:
        report(Status.INFO, "the output was truncated at the gateway's limit")


def _answered_parts(result: ExecResult) -> Iterator[OutputPart] | None:
    """Return the parts of the output in the answer; None if they are incomplete."""
    streams = result.get("output_streams")
    if streams is None or result["truncated"]:
        return None
    return _split(result["output"] or "", streams)


def _split(output: str, streams: Iterable[tuple[str, int]]) -> Iterator[OutputPart]:
    start = 0
    for stream, length in streams:
        yield stream, output[start : start + length]
        start += length


def _recorded_parts(api: Client, session: SessionShape) -> Iterator[OutputPart]:
    """Read the parts of the output from the session's recording. A script that never started has the gateway's reason
    instead."""
    decoders = {kind: codecs.getincrementaldecoder("utf-8")("replace") for kind in STREAMS}
    is_recorded = False
    with suppress(NotFound):
        for _, kind, content in api.sessions.events(session["id"]):
            is_recorded = True
            if kind in STREAMS:
                yield STREAMS[kind], decoders[kind].decode(base64.b64decode(content))
    for kind, decoder in decoders.items():
        yield STREAMS[kind], decoder.decode(b"", final=True)
    detail = (session.get("metadata") or {}).get("end_detail")
    if detail and not is_recorded:
        yield "gateway", str(detail)


def _pass_on(api: Client, session_id: str, form: str) -> None:
    """Print the output unchanged, as it arrives; show progress if it goes to a file."""
    with (
        api.sessions.results(session_id, form) as pieces,
        count_pieces(pieces, "reading the results", quiet=sys.stdout.isatty()) as counted_pieces,
    ):
        for piece in counted_pieces:
            sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _point_at(error: Mapping[str, Any]) -> None:
    """Print the line that the database could not parse, and mark the column."""
    if error.get("line_text") is None:
        return
    lead = f"LINE {error['line']}: "
    click.echo(lead + one_line(error["line_text"]), err=True)
    click.echo(" " * (len(lead) + error["column"] - 1) + "^", err=True)
