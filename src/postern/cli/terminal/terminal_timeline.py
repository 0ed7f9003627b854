"""Exchanges of a session as text. Recorded text cannot control the terminal."""

from __future__ import annotations

from collections.abc import Iterable

import click

from postern.cli.printing import span
from postern.client.client_shapes import Row
from postern.domain.text import one_line, printable

_INDENT = " " * 14


def show(exchanges: Iterable[Row], *, with_output: bool) -> bool:
    """Print the exchanges; return whether there were any."""
    found = False
    for exchange in exchanges:
        show_exchange(exchange, with_output=with_output)
        found = True
    return found


def show_exchange(one: Row, *, with_output: bool) -> None:
    at = f"{span(one['at'] / 1000):>12}  "
    if one["note"]:
        click.echo(at + one_line(one["note"]))
        return
    if one["statement"] is not None:
        lines = printable(one["statement"]).strip().splitlines() or [""]
        click.echo(at + lines[0])
        for line in lines[1:]:
            click.echo(_INDENT + line)
        for number, value in enumerate(one["values"], 1):
            click.echo(f"{_INDENT}-- ${number} = {'NULL' if value is None else one_line(repr(value))}")
        if one["truncated"]:
            click.echo(f"{_INDENT}-- truncated: the statement has {one['statement_size']} bytes")
    if with_output:
        for name in ("output", "errors"):
            _block(printable(one.get(name) or ""), "! " if name == "errors" else "")
        if one.get("output_truncated"):
            click.echo(f"{_INDENT}[truncated]")
    if one["refusal"]:
        _block(printable(one["refusal"]["message"]), "! ")
    elif one["error"] and not (with_output and one.get("errors")):
        _block(printable(one["error"]), "! ")
    if one["statement"] is not None:
        _end(one)


def _end(one: Row) -> None:
    if one["duration"] is None:
        return
    took = f"  ({span(one['duration'] / 1000)})"
    if one["error"] or one["refusal"]:
        click.echo(f"{_INDENT}-> failed{took}")
    else:
        click.echo(f"{_INDENT}-> {one_line(one['tag']) or 'done'}{took}")


def _block(text: str, lead: str) -> None:
    for line in text.rstrip("\n").split("\n") if text else ():
        click.echo(_INDENT + lead + line)
