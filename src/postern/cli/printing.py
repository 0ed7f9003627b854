"""Output of commands: tables for users, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import click

from postern.cli.status import report_note
from postern.domain.text import json_text, one_line

json_option = click.option("--json", "as_json", is_flag=True, help="Print the API's answer as JSON.")


def as_text(value: Any, *, indent: int | None = None) -> str:
    """Return `value` as JSON."""
    return json_text(json.dumps(value, indent=indent, ensure_ascii=False))


def emit(value: Any, as_json: bool, render: Callable[[Any], None]) -> None:
    """Print `value` as JSON, or with `render`."""
    if as_json:
        click.echo(as_text(value, indent=2))
    else:
        render(value)


def table(titles: Sequence[str], rows: Sequence[Sequence[Any]], empty: str) -> None:
    """Print rows. At a terminal, columns are aligned under their titles; elsewhere values are separated by a tab,
    without titles, as `cut` and `awk` need it. `empty` is printed on standard error if there are no rows."""
    if not rows:
        report_note(empty)
        return
    cells = [[_cell(value) for value in row] for row in rows]
    if not sys.stdout.isatty():
        for row in cells:
            click.echo("\t".join(row))
        return
    widths = [max(len(row[at]) for row in [list(titles), *cells]) for at in range(len(titles))]
    for row in [[title.upper() for title in titles], *cells]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def fields(pairs: Sequence[tuple[str, Any]]) -> None:
    """Print a line for each pair whose value is not empty."""
    cells = [(name, _cell(value)) for name, value in pairs if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in cells), default=0)
    for name, value in cells:
        click.echo(f"{name.ljust(width)}  {value}")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_cell, value)) or "-"
    if isinstance(value, dict):
        return ", ".join(f"{key}={_cell(inner)}" for key, inner in value.items()) or "-"
    return one_line(str(value))


def local_time(text: str | None) -> str:
    """Return an API time in this machine's time zone, to the second."""
    if not text:
        return "-"
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def duration(start: str, end: str | None) -> str:
    """Return the time from one API time to the other."""
    if not end:
        return "-"
    return span((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def span(seconds: float) -> str:
    """Return `0.4 ms`, `1.5 s`, `2 h 03 min`."""
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
