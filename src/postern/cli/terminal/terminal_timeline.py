"""Exchanges of a session as text. Recorded text cannot control the terminal."""

from __future__ import annotations

from collections.abc import Iterable

import click

from postern.cli.mask_lines import masked_values_line
from postern.cli.printing import span
from postern.client.client_shapes import Row
from postern.domain.text import one_line, printable

_INDENT = " " * 14


def show(exchanges: Iterable[Row], *, with_output: bool) -> bool:
    """Print the exchanges; return whether there were any."""
    has_exchanges = False
    for exchange in exchanges:
        show_exchange(exchange, with_output=with_output)
        has_exchanges = True
    return has_exchanges


def show_exchange(exchange: Row, *, with_output: bool) -> None:
    at = f"{span(exchange['at'] / 1000):>12}  "
    if exchange["note"]:
        click.echo(at + one_line(exchange["note"]))
        return
    if exchange["statement"] is not None:
        lines = printable(exchange["statement"]).strip().splitlines() or [""]
        click.echo(at + lines[0])
        for line in lines[1:]:
            click.echo(_INDENT + line)
        for number, value in enumerate(exchange["values"], 1):
            click.echo(f"{_INDENT}-- ${number} = {'NULL' if value is None else one_line(repr(value))}")
        if exchange["truncated"]:
            click.echo(f"{_INDENT}-- truncated: the statement has {exchange['statement_size']} bytes")
    if with_output:
        for name in ("output", "errors"):
            _block(printable(exchange.get(name) or ""), "! " if name == "errors" else "")
        if exchange.get("output_truncated"):
            click.echo(f"{_INDENT}[truncated]")
    if exchange["refusal"]:
        _block(printable(exchange["refusal"]["message"]), "! ")
    elif exchange["error"] and not (with_output and exchange.get("errors")):
        _block(printable(exchange["error"]), "! ")
    for entry in exchange.get("masked") or ():
        click.echo(_INDENT + masked_values_line(entry))
    if exchange["statement"] is not None:
        _end(exchange)


def _end(exchange: Row) -> None:
    if exchange["duration"] is None:
        return
    took = f"  ({span(exchange['duration'] / 1000)})"
    if exchange["error"] or exchange["refusal"]:
        click.echo(f"{_INDENT}-> failed{took}")
    else:
        click.echo(f"{_INDENT}-> {one_line(exchange['tag']) or 'done'}{took}")


def _block(text: str, lead: str) -> None:
    for line in text.rstrip("\n").split("\n") if text else ():
        click.echo(_INDENT + lead + line)
