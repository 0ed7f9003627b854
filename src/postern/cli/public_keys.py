"""Files with public keys, as arguments of commands."""

from __future__ import annotations

import sys

import click

from postern.domain.text import one_line

_MOST_READ = 65_536  # bytes


def read(path: str) -> str:
    """Read the file; `-` is standard input. Raises UsageError."""
    try:
        return (sys.stdin.buffer.read(_MOST_READ) if path == "-" else _content(path)).decode()
    except OSError as error:
        raise click.UsageError(f"FILE: {one_line(path)} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"FILE: {one_line(path)} is not a text file") from None


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(_MOST_READ)
