"""Status messages on standard error. Results go to standard output and have no tag.

    at a terminal     [ok] Created orders (9b0b…).      [error] there is no connection 'shop'
    elsewhere         Created orders (9b0b…).           postern: there is no connection 'shop'

A program that reads the output gets the form without tags, on the stream of earlier versions.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self

import click

from postern.wiring.program import program_name


class Status(StrEnum):
    OK = "ok"
    INFO = "info"
    WARNING = "warn"
    ERROR = "error"


_PREFIXES: Mapping[Status, str] = {Status.INFO: "postern: ", Status.WARNING: "Warning: ", Status.ERROR: "postern: "}
# Matches `postern` before a command. In prose the product is called Postern; a path or `-m` names the program already.
_COMMAND = re.compile(r"(?<![\w/.@-])(?<!-m )postern(?= (?:[a-z]|-))")


def status_line(status: Status, text: str, *, is_terminal: bool) -> str:
    """Return a message with its tag, or with the prefix outside of a terminal."""
    lead = f"[{status}] " if is_terminal else _PREFIXES.get(status, "")
    return lead + with_program_name(text)


def report(status: Status, text: str) -> None:
    """Print a status message on standard error. The caller makes `text` safe for a terminal."""
    click.echo(status_line(status, text, is_terminal=sys.stderr.isatty()), err=True)


def report_note(text: str) -> None:
    """Print a note about a result on standard error, such as that there is more of it: no prefix outside of
    a terminal."""
    if sys.stderr.isatty():
        report(Status.INFO, text)
    else:
        click.echo(with_program_name(text), err=True)


def report_done(text: str) -> None:
    """Print that a command is done: tagged on standard error at a terminal, else on standard output."""
    if sys.stdout.isatty():
        report(Status.OK, text)
    else:
        click.echo(with_program_name(text))


def with_program_name(text: str) -> str:
    """Return `text` with commands that work when pasted: `postern` becomes its path if a shell does not find it."""
    return _COMMAND.sub(lambda _: program_name(), text)


class UsageMistake(click.UsageError):
    """A usage error of click, printed like all other status messages."""

    @classmethod
    def of(cls, error: click.UsageError) -> Self:
        return cls(error.format_message(), error.ctx)

    def show(self, file: Any = None) -> None:
        if self.ctx is not None:
            click.echo(self.ctx.get_usage(), err=True)
            click.echo(with_program_name(f"Try '{self.ctx.command_path} --help' for help.\n"), err=True)
        if sys.stderr.isatty():
            report(Status.ERROR, self.message)
        else:
            click.echo(f"Error: {self.message}", err=True)
