"""`postern sessions watch`, `replay` and `export`."""

from __future__ import annotations

import base64
import codecs
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from postern.cli.api import client
from postern.cli.printing import as_text, json_option, span
from postern.cli.row_commands import print_result
from postern.cli.session_events import follow_session
from postern.cli.session_ids import session_argument
from postern.cli.status import Status, report
from postern.cli.terminal import replay, terminal_timeline
from postern.cli.terminal.screen_filter import RESTORE, ScreenFilter
from postern.cli.timestamps import duration
from postern.client.client import Client
from postern.client.client_shapes import Row, SessionShape
from postern.domain.targets.connection import OF_VALUES
from postern.domain.text import one_line, printable

_OUTPUT = 64 * 1024  # bytes of the output of each exchange
FORMATS = ("asciicast", "asciicast-v3", "json", "csv", "text", "timeline", "har")


class Screen:
    """A writer of a program's output to this terminal, unchanged or made safe."""

    def __init__(self, *, raw: bool) -> None:
        self._filter = None if raw else ScreenFilter()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> None:
        if self._filter is None:
            sys.stdout.buffer.write(data)
        else:
            sys.stdout.buffer.write(self._filter.feed(self._decoder.decode(data)).encode())
        sys.stdout.buffer.flush()

    def restore(self) -> None:
        if sys.stdout.isatty():
            sys.stdout.buffer.write(RESTORE.encode())
            sys.stdout.buffer.flush()


@click.command()
@session_argument()
@click.option("--raw", is_flag=True, help="Write terminal output unchanged. It can control your terminal.")
@json_option
def watch(session_id: str, as_json: bool, raw: bool) -> None:
    """Watch a session while it runs: first what it did so far. Ends with the session, or with Ctrl-C."""
    with client() as api:
        session = api.sessions.get(session_id)
        screen = Screen(raw=raw)
        is_terminal = not _is_spoken(session)
        shows: Callable[[str, dict[str, Any]], None] = _as_json if as_json else _shower(screen, is_terminal)
        try:
            ending = _follow(api, session_id, shows)
        finally:
            if is_terminal and not as_json:
                screen.restore()
    if not as_json:
        why = ending.get("detail") or ending.get("reason") or "its end is unknown"
        report(Status.INFO, f"the session has ended: {one_line(str(why))}")


def _follow(api: Client, session_id: str, shows: Callable[[str, dict[str, Any]], None]) -> dict[str, Any]:
    """Follow the session, and return how it ended."""
    data: dict[str, Any] = {}
    for name, _, data in follow_session(api, session_id):
        shows(name, data)
    return data


def _as_json(name: str, data: dict[str, Any]) -> None:
    click.echo(as_text({"event": name, **data}))


def _shower(screen: Screen, is_terminal: bool) -> Callable[[str, dict[str, Any]], None]:
    def show(name: str, data: dict[str, Any]) -> None:
        if name != "event":
            return
        content = base64.b64decode(data["payload"])
        if is_terminal:
            if data["type"] != "i":  # a terminal echoes its input
                screen.write(content)
            return
        text = printable(content.decode(errors="replace")).rstrip("\n")
        lead = f"{span(data['time'] / 1000):>12}  " if data["type"] == "i" else " " * 14
        for line in text.split("\n"):
            click.echo(lead + line)
            lead = " " * 14

    return show


@click.command("replay")
@session_argument()
@click.option(
    "--speed", type=click.FloatRange(0.01, 1000), default=1.0, show_default=True, help="Speed factor, such as 4."
)
@click.option("--seek", type=duration, metavar="DURATION", default="0", help="Start at this time: 90s, 1m30s.")
@click.option("--max-pause", type=duration, metavar="DURATION", help="Shorten longer pauses to this, such as 2s.")
@click.option("--raw", is_flag=True, help="Write terminal output unchanged. It can control your terminal.")
@json_option
def replay_(session_id: str, as_json: bool, speed: float, seek: float, max_pause: float | None, raw: bool) -> None:
    """Replay a session in real time, or faster.

    \b
    At a terminal: space pauses, . or the right arrow skips to the next event,
    ] skips 10 s, + and - change the speed, q quits.

    With --json, each exchange, or piece of output, is one line of JSON, printed at its time.
    """
    pace = replay.Pace(speed, max_pause)
    with client() as api, replay.keyboard() as wait:
        session = api.sessions.get(session_id)
        try:
            if _is_spoken(session):
                _replay_exchanges(api, session_id, pace, wait, seek, as_json=as_json)
            else:
                _replay_terminal(api, session_id, pace, wait, seek, raw=raw, as_json=as_json)
        except KeyboardInterrupt:
            click.echo(err=True)


def _replay_exchanges(
    api: Client, session_id: str, pace: replay.Pace, wait: replay.Wait, seek: float, *, as_json: bool
) -> None:
    exchanges = api.sessions.timeline(session_id, output=_OUTPUT, start=seek * 1000)
    events = ((exchange["at"] / 1000, exchange) for exchange in exchanges)

    def show(exchange: Row) -> None:
        if as_json:
            click.echo(as_text(exchange))
        else:
            terminal_timeline.show_exchange(exchange, with_output=True)

    replay.Player(pace, wait, show, time.monotonic).play(events, seek)


def _replay_terminal(
    api: Client, session_id: str, pace: replay.Pace, wait: replay.Wait, seek: float, *, raw: bool, as_json: bool
) -> None:
    """Everything before --seek is printed at once, because later output builds on that screen."""
    screen = Screen(raw=raw)

    def show(event: tuple[str, bytes]) -> None:
        kind, content = event
        if as_json:
            click.echo(json.dumps({"type": kind, "payload": base64.b64encode(content).decode()}))
        elif kind == "r":
            _compare(content)
        else:
            screen.write(content)

    rows = api.sessions.events(session_id, "o,e,r")
    events = ((at / 1000, (kind, base64.b64decode(content))) for at, kind, content in rows)
    try:
        replay.Player(pace, wait, show, time.monotonic).play(events, seek)
    finally:
        if not as_json:
            screen.restore()


def _compare(size: bytes) -> None:
    """Print a hint if this window is too small, since lines then appear in other places."""
    columns, _, rows = size.decode().partition("x")
    if not sys.stdout.isatty():
        return
    mine = os.get_terminal_size(sys.stdout.fileno())
    if int(columns) > mine.columns or int(rows) > mine.lines:
        click.echo("\r", err=True)
        report(Status.INFO, f"recorded at {columns}x{rows}; this window is smaller\r")


@click.command()
@session_argument()
@click.option("--format", "form", type=click.Choice(FORMATS), default="timeline", show_default=True)
@click.option("-o", "--output", "file", type=click.Path(path_type=Path), help="New file.  [default: standard output]")
@json_option
def export(session_id: str, as_json: bool, form: str, file: Path | None) -> None:
    """Export a session's recording to a file, unchanged.

    \b
    asciicast, asciicast-v3   a terminal, for `asciinema play` and web players
    timeline                  one JSON object for each exchange and line
    har                       an HTTP archive, for developer tools of browsers
    json, csv, text           the output with times, as a table, or unchanged

    In CSV, a cell that a spreadsheet would read as a formula begins with an apostrophe.
    """
    if file is None and as_json:
        raise click.UsageError("--json describes the written file; give -o FILE, too")
    if file is None and form == "text" and sys.stdout.isatty():
        raise click.UsageError(
            "recorded output can control this terminal; give -o FILE, or use `postern sessions show`"
        )
    query: dict[str, str | None] = {}
    if form in ("json", "csv", "text"):
        form, query = "file", {"extension": "txt" if form == "text" else form}
    with client() as api, api.sessions.export(session_id, form, **query) as pieces:
        size = _write(pieces, file)
    if file is not None:
        print_result({"file": str(file), "bytes": size}, as_json, f"Wrote {size} bytes to {file}.")


def _write(pieces: Iterator[bytes], file: Path | None) -> int:
    """Write a temporary file beside it first, so that an existing file is always complete."""
    if file is None:
        size = 0
        for piece in pieces:
            size += sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return size
    if file.exists():
        raise click.UsageError(f"{file} exists already; give a different name")
    partial = file.with_name(file.name + ".partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as out:
            size = sum(out.write(piece) for piece in pieces)
        os.replace(partial, file)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return size


def _is_spoken(session: SessionShape) -> bool:
    """Return whether Postern parses the protocol, so that the session has exchanges. Other sessions are of a terminal
    or of pipes."""
    return session["connection_subtype"] in OF_VALUES
