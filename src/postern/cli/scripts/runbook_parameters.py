"""The parameters of a runbook: from the command line, and from prompts for those that are missing.

-p KEY=VALUE          as it is
-p KEY=@FILE          what the file holds
-p KEY=@@VALUE        a value that begins with @
--parameters FILE     a JSON object; -p goes before it
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from postern.cli import json_files
from postern.domain.secret import Secret
from postern.domain.text import one_line

MOST = 1024 * 1024  # bytes of one file
_SECRET, _FILE, _SELECT = "password", "file", "select"

Parameters = dict[str, Secret]


def parse_parameters(texts: Sequence[str], file: str | None) -> Parameters:
    """Parse the parameters. Raises UsageError, which repeats no value."""
    secrets = {} if file is None else _of_file(file)
    named: Parameters = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.UsageError("-p: write a parameter as KEY=VALUE or KEY=@FILE")
        if key in named:
            raise click.UsageError(f"-p: {key} is given twice")
        if value.startswith("@@"):
            value = value[1:]
        elif value.startswith("@"):
            value = _read(key, value[1:])
        named[key] = Secret(value)
    return secrets | named


def ask_for_missing(metadata: Mapping[str, dict[str, Any]], values: Parameters) -> Parameters:
    """Ask for the missing parameters: Enter takes the default, or leaves out an optional one."""
    answers = dict(values)
    for name, about in metadata.items():
        if name in values:
            continue
        value = _ask(name, about)
        if value:
            answers[name] = Secret(value)
    return answers


def _ask(name: str, about: Mapping[str, Any]) -> str:
    kind, is_needed = about.get("type") or "text", bool(about.get("required"))
    default = about.get("default") or ""
    hint = one_line(about.get("description") or about.get("placeholder") or "")
    if hint:
        click.echo(hint, err=True)
    options = [str(option) for option in about.get("options") or ()] if kind == _SELECT else []
    label = one_line(name)
    if kind == _FILE or options:
        label += f" ({', '.join(map(one_line, options)) or 'a file'})"
    if default and kind != _SECRET:
        label += f" [{one_line(default)}]"  # click would print it unchanged
    while True:
        answer: str = click.prompt(
            label,
            default=default,
            hide_input=kind == _SECRET,
            show_default=False,
            err=True,
        )
        if answer == default and (answer or not is_needed):
            return ""  # the gateway has it, too
        if not answer:
            click.echo(f"{one_line(name)} is required", err=True)
        elif options and answer not in options:
            click.echo(f"{one_line(answer)!r} is not one of {', '.join(map(one_line, options))}", err=True)
        else:
            return _read(name, answer) if kind == _FILE else answer


def _of_file(file: str) -> Parameters:
    text = sys.stdin.read() if file == "-" else _read("--parameters", file)
    body = json_files.one_object(file, text)
    for key, value in body.items():
        if not isinstance(value, str):
            raise click.UsageError(f"{file}: {key}: must be a string")
    return {key: Secret(value) for key, value in body.items()}


def _read(name: str, path: str) -> str:
    try:
        with Path(path).expanduser().open("rb") as file:
            content = file.read(MOST + 1)
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"{name}: the file cannot be read: {reason}") from None
    if len(content) > MOST:
        raise click.UsageError(f"{name}: the file is larger than {MOST} bytes, the maximum of a parameter")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise click.UsageError(f"{name}: the file is not UTF-8 text; encode it as base64") from None
