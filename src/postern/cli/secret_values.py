"""Secrets of a connection, from the command line to the form of the API.

    --env KEY                  from the environment variable KEY
    --env KEY=-                a line of standard input, or a key in PEM's form; asked for at a terminal
    --env KEY=file://PATH      a file's text, without its last line end
    --env KEY=base64://…       decoded
    --env KEY=_provider:…:…    a reference: the agent asks the provider
    --env KEY=VALUE            anything else, as it is
    --secret-file KEY=PATH     a file's bytes, and a file is what the command gets; also -, base64://… and references

Only text on the command line is interpreted; the content of a variable, standard input or a file is never a reference.
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

HELD = 1024 * 1024  # bytes of a file; the API accepts 4 MiB in all
ASKED, FILE, BASE64 = "-", "file://", "base64://"

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LIKE_A_REFERENCE = re.compile(r"_[A-Za-z0-9]+:")
# Names of variables whose value should not be in a shell's history: PASS, DB_PASSWORD, API_KEY.
_SENSITIVE = re.compile(r"(?:.*_)?(?:PASS|PASSWD|PASSWORD|PASSPHRASE|PWD|TOKEN|SECRET|KEY|CREDENTIALS?)", re.IGNORECASE)
_FORMS = {SecretKind.VARIABLE: "KEY=VALUE or KEY", SecretKind.FILE: "KEY=PATH"}

Secrets = dict[str, str]


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `variables` and `files`, which `read_secrets` reads."""
    for option in (
        click.option(
            "--secret-file",
            "files",
            multiple=True,
            metavar="KEY=PATH",
            help="A secret that the command gets as a file, from PATH. Repeatable.",
        ),
        click.option(
            "--env", "variables", multiple=True, metavar="KEY[=VALUE]", help="A secret of the target. Repeatable."
        ),
    ):
        command = option(command)
    return command


def read_secrets(variables: Sequence[str], files: Sequence[str]) -> Secrets:
    """Return the secrets by the API's keys. Warns on standard error of values in clear text. Raises UsageError, which
    repeats no value."""
    prompts = [text.partition("=")[2] for text in files].count(ASKED)
    if prompts > 1 or (prompts and any(text.partition("=")[2] == ASKED for text in variables)):
        raise click.UsageError("--secret-file KEY=- reads all of standard input, so no other option can read it")
    secrets: Secrets = {}
    for option, kind, texts in (("--env", SecretKind.VARIABLE, variables), ("--secret-file", SecretKind.FILE, files)):
        for text in texts:
            key, equals, value = text.partition("=")
            if not _KEY.fullmatch(key) or (kind is SecretKind.FILE and not value):
                # The text can be a mistyped password, so it is not repeated.
                raise click.UsageError(f"{option}: write it as {_FORMS[kind]}")
            if any(name.partition(":")[2] == key for name in secrets):
                raise click.UsageError(f"{option}: {key} is given twice")
            read = _file_value if kind is SecretKind.FILE else _value
            secrets[f"{kind.value}:{key}"] = read(option, key, value) if equals else _from_environment(key)
    return secrets


def merge_secrets(stored: dict[str, Any], new: Secrets) -> dict[str, Any]:
    """Return the stored and the new secrets; a name occurs once, as a variable or as a file."""
    names = {key.partition(":")[2] for key in new}
    return {key: value for key, value in stored.items() if key.partition(":")[2] not in names} | new


def keys_of(stored: dict[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    """Return the API's keys of these names; those of variables if there are none."""
    stored_keys = {key.partition(":")[2]: key for key in stored}
    return tuple(stored_keys.get(name, f"{SecretKind.VARIABLE.value}:{name}") for name in names)


def _value(option: str, key: str, value: str) -> str:
    if value == ASKED:
        return _encode_base64(_prompt_value(key).encode())
    if value.startswith(FILE):
        return _encode_base64(_without_line_end(_read(option, key, value.removeprefix(FILE))))
    if _LIKE_A_REFERENCE.match(value):
        return _reference(option, key, value)
    if _SENSITIVE.fullmatch(key) and value:
        report(
            Status.WARNING,
            f"the value of {key} is now in the shell's history and in the list of processes; {option} "
            f"{key}=- prompts for it instead",
        )
    if value.startswith(BASE64):
        return _check_base64(option, key, value.removeprefix(BASE64))
    return _encode_base64(value.encode(errors="surrogateescape"))


def _file_value(option: str, key: str, value: str) -> str:
    if value == ASKED:
        return _encode_base64(_check_size(option, key, sys.stdin.buffer.read(HELD + 1)))
    if _LIKE_A_REFERENCE.match(value):
        return _reference(option, key, value)
    if value.startswith(BASE64):
        return _check_base64(option, key, value.removeprefix(BASE64))
    return _encode_base64(_read(option, key, value.removeprefix(FILE)))


def _from_environment(key: str) -> str:
    if key not in os.environ:
        raise click.UsageError(
            f"--env: give {key}=VALUE, {key}=- to be prompted for it, or set the environment variable {key}"
        )
    return _encode_base64(os.environ[key].encode(errors="surrogateescape"))


def _prompt_value(key: str) -> str:
    if not sys.stdin.isatty():
        line = stdin_line().reveal()
        return _block(line) if line.startswith("-----BEGIN ") else line
    answer: str = click.prompt(key, hide_input=True, err=True)
    return answer


def _block(first: str) -> str:
    """Read the rest of a key whose first line was read, up to its last line."""
    lines = [first]
    while not lines[-1].startswith("-----END ") and (line := sys.stdin.readline(HELD)):
        lines.append(line.rstrip("\r\n"))
    return "\n".join(lines) + "\n"


def _reference(option: str, key: str, value: str) -> str:
    try:
        return str(Reference.read(value))
    except Invalid as problem:
        raise click.UsageError(
            f"{option}: {key}: {problem.message}; give a value that only looks like a reference as {key}=- or "
            f"{key}={BASE64}…"
        ) from None


def _check_base64(option: str, key: str, value: str) -> str:
    try:
        return _encode_base64(base64.b64decode(value, validate=True))
    except ValueError:
        pass  # the exception's context would contain the value
    raise click.UsageError(f"{option}: {key}: the text after {BASE64} is not base64")


def _read(option: str, key: str, path: str) -> bytes:
    try:
        with Path(path).expanduser().open("rb") as file:
            return _check_size(option, key, file.read(HELD + 1))
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"{option}: {key}: the file cannot be read: {reason}") from None


def _check_size(option: str, key: str, content: bytes) -> bytes:
    if len(content) > HELD:
        raise click.UsageError(f"{option}: {key}: the secret is larger than {HELD} bytes")
    return content


def _without_line_end(content: bytes) -> bytes:
    """Remove the line end that an editor added, like `$(cat FILE)`."""
    return content.removesuffix(b"\n").removesuffix(b"\r")


def _encode_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
