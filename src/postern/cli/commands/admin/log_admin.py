from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import click

from postern.cli.api import client
from postern.cli.printing import as_text, emit, json_option, local_time
from postern.cli.status import Status, report, report_note
from postern.cli.timestamps import parse_timestamp
from postern.client.client import Client
from postern.client.client_shapes import Row
from postern.domain.text import one_line
from postern.errors import Unavailable

_AGAIN = 2.0  # seconds before an interrupted stream is requested again
_LONGEST = 1_000_000  # characters of a line


@click.command()
@click.option("--level", type=click.Choice(["debug", "info", "warning", "error"]), help="Lowest level to show.")
@click.option("--process", help="Show only lines of this process, such as api, w1 or supervisor.")
@click.option("--since", type=parse_timestamp, metavar="TIME", help="Start of the period: 2h, 7d, 2026-01-31.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000),
    default=200,
    show_default=True,
    help="Number of lines to show, counted from the newest.",
)
@click.option("--follow", is_flag=True, help="Print new lines as they are logged, until Ctrl-C.")
@json_option
def logs(as_json: bool, follow: bool, limit: int, since: str | None, **filters: str | None) -> None:
    """Show the server's log, oldest first. With --follow and --json, each log line is one line of JSON.

    \b
    postern admin logs --level warning
    postern admin logs --process w1 --follow
    """
    with client() as api:
        page = api.http.call("GET", "/server-logs", query={"limit": limit, "since": since, **filters})
        if not follow:
            emit(page, as_json, _show)
            return
        for line in page["data"]:
            _say(line, as_json)
        _follow(api, page["data"], filters, as_json)


def _show(page: Row) -> None:
    for line in page["data"]:
        _say(line, False)
    if not page["data"]:
        report_note("No log line matches.")


def _follow(api: Client, lines: list[Row], filters: dict[str, str | None], as_json: bool) -> None:
    """Print new lines. The stream ends now and then; it is resumed after the last line that was shown. An error that
    the gateway answers is raised; a gateway that cannot be reached is retried."""
    last = lines[-1]["id"] if lines else None
    while True:
        try:
            for line in _stream(api, last, filters):
                last = line["id"]
                _say(line, as_json)
        except Unavailable as error:
            report(Status.INFO, f"{one_line(error.message)}; retrying")
        time.sleep(_AGAIN)


def _stream(api: Client, last: str | None, filters: dict[str, str | None]) -> Iterator[Row]:
    headers = {"Last-Event-ID": last} if last else {}
    with api.http.lines("/server-logs/stream", query=filters, headers=headers) as lines:
        for text in lines:
            if text.startswith("data: ") and len(text) < _LONGEST:
                yield json.loads(text.removeprefix("data: "))


def _say(line: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(as_text(line))
        return
    more = " ".join(f"{name}={value}" for name, value in (line.get("more") or {}).items())
    text = f"{local_time(line['at'])}  {line['level']:<7}  {line['process']:<10}  {line['message']}  {more}"
    click.echo(one_line(text.rstrip()))
