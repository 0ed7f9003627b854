"""Secrets of a connection as they are given on the command line, and as the API wants them.

    --env KEY                  from the environment variable KEY
    --env KEY=-                a line of standard input, or a key in PEM's form; asked for at a terminal
    --env KEY=file://PATH      a file's text, without its last line end
    --env KEY=base64://…       decoded
    --env KEY=_provider:…:…    a reference: the agent asks the provider
    --env KEY=VALUE            anything else, as it is
    --secret-file KEY=PATH     a file's bytes, and a file is what the command gets; also -, base64://… and references

Only what stands on the command line is looked at: what a variable, standard input or a file holds is never a reference.
"""

from __future__ import annotations

import base64
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from postern.cli.row_commands import stdin_line
from postern.cli.status import Status, report
from postern.domain.reference import Reference
from postern.domain.targets.connection import SecretKind
from postern.errors import Invalid

HELD = 1024 * 1024  # bytes of one file; the API takes 4 MiB in all
ASKED, FILE, BASE64 = "-", "file://", "base64://"

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LIKE_A_REFERENCE = re.compile(r"_[A-Za-z0-9]+:")
# Of variables whose value should be in no shell's history: PASS, DB_PASSWORD, API_KEY.
_SENSITIVE = re.compile(r"(?:.*_)?(?:PASS|PASSWD|PASSWORD|PASSPHRASE|PWD|TOKEN|SECRET|KEY|CREDENTIALS?)", re.IGNORECASE)
_FORMS = {SecretKind.VARIABLE: "KEY=VALUE or KEY", SecretKind.FILE: "KEY=PATH"}

Secrets = dict[str, str]


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`variables` and `files`: what `given` reads."""
    for option in (
        click.option(
            "--secret-file",
            "files",
            multiple=True,
            metavar="KEY=PATH",
            help="A secret that the command gets as a file, from PATH; repeatable.",
        ),
        click.option(
            "--env", "variables", multiple=True, metavar="KEY[=VALUE]", help="A secret of the target; repeatable."
        ),
    ):
        command = option(command)
    return command


def given(variables: Sequence[str], files: Sequence[str]) -> Secrets:
    """By the API's keys. Warns of values in clear on standard error. Raises UsageError, which repeats no value."""
    asked = [text.partition("=")[2] for text in files].count(ASKED)
    if asked > 1 or (asked and any(text.partition("=")[2] == ASKED for text in variables)):
        raise click.UsageError("--secret-file KEY=-: takes all of standard input, so nothing else can come from there")
    found: Secrets = {}
    for option, kind, texts in (("--env", SecretKind.VARIABLE, variables), ("--secret-file", SecretKind.FILE, files)):
        for text in texts:
            key, equals, value = text.partition("=")
            if not _KEY.fullmatch(key) or (kind is SecretKind.FILE and not value):
                # The text may be a password that was mistyped: it is not repeated.
                raise click.UsageError(f"{option}: needs {_FORMS[kind]}")
            if any(name.partition(":")[2] == key for name in found):
                raise click.UsageError(f"{option}: {key} is given twice")
            read = _file_value if kind is SecretKind.FILE else _value
            found[f"{kind.value}:{key}"] = read(option, key, value) if equals else _from_environment(key)
    return found


def merged(stored: dict[str, Any], new: Secrets) -> dict[str, Any]:
    """A name is there once: as a variable or as a file."""
    names = {key.partition(":")[2] for key in new}
    return {key: value for key, value in stored.items() if key.partition(":")[2] not in names} | new


def keys_of(stored: dict[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    """The API's keys of these names; those of variables where there are none."""
    known = {key.partition(":")[2]: key for key in stored}
    return tuple(known.get(name, f"{SecretKind.VARIABLE.value}:{name}") for name in names)


def _value(option: str, key: str, value: str) -> str:
    if value == ASKED:
        return _encoded(_asked(key).encode())
    if value.startswith(FILE):
        return _encoded(_without_line_end(_read(option, key, value.removeprefix(FILE))))
    if _LIKE_A_REFERENCE.match(value):
        return _reference(option, key, value)
    if _SENSITIVE.fullmatch(key) and value:
        report(
            Status.WARNING,
            f"the value of {key} is in the history of the shell and in the list of processes now; "
            f"{option} {key}=- asks for it",
        )
    if value.startswith(BASE64):
        return _checked(option, key, value.removeprefix(BASE64))
    return _encoded(value.encode(errors="surrogateescape"))


def _file_value(option: str, key: str, value: str) -> str:
    if value == ASKED:
        return _encoded(_bounded(option, key, sys.stdin.buffer.read(HELD + 1)))
    if _LIKE_A_REFERENCE.match(value):
        return _reference(option, key, value)
    if value.startswith(BASE64):
        return _checked(option, key, value.removeprefix(BASE64))
    return _encoded(_read(option, key, value.removeprefix(FILE)))


def _from_environment(key: str) -> str:
    if key not in os.environ:
        raise click.UsageError(
            f"--env: give {key}=VALUE, {key}=- to be asked for it, or set the environment variable {key}"
        )
    return _encoded(os.environ[key].encode(errors="surrogateescape"))


def _asked(key: str) -> str:
    if not sys.stdin.isatty():
        line = stdin_line().reveal()
        return _block(line) if line.startswith("-----BEGIN ") else line
    answer: str = click.prompt(key, hide_input=True, err=True)
    return answer


def _block(first: str) -> str:
    """The rest of a key whose first line was read, up to its last."""
    lines = [first]
    while not lines[-1].startswith("-----END ") and (line := sys.stdin.readline(HELD)):
        lines.append(line.rstrip("\r\n"))
    return "\n".join(lines) + "\n"


def _reference(option: str, key: str, value: str) -> str:
    try:
        return str(Reference.read(value))
    except Invalid as problem:
        raise click.UsageError(
            f"{option}: {key}: {problem.message}; "
            f"a value that only looks like one is given by {key}=- or {key}={BASE64}…"
        ) from None


def _checked(option: str, key: str, value: str) -> str:
    try:
        return _encoded(base64.b64decode(value, validate=True))
    except ValueError:
        pass  # its context would be the value
    raise click.UsageError(f"{option}: {key}: what follows {BASE64} is not base64")


def _read(option: str, key: str, path: str) -> bytes:
    try:
        with Path(path).expanduser().open("rb") as file:
            return _bounded(option, key, file.read(HELD + 1))
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"{option}: {key}: the file cannot be read: {reason}") from None


def _bounded(option: str, key: str, content: bytes) -> bytes:
    if len(content) > HELD:
        raise click.UsageError(f"{option}: {key}: a secret has at most {HELD} bytes")
    return content


def _without_line_end(content: bytes) -> bytes:
    """An editor put it there, as `$(cat FILE)` knows."""
    return content.removesuffix(b"\n").removesuffix(b"\r")


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()
