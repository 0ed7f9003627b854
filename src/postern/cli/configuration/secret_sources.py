"""Secrets by reference. Files say where the value of a secret is, and not the value:

    {env: NAME}      a variable of the environment of `postern apply`
    {file: PATH}     a file beside it, relative to the file that names it; a last line break is left out
    {text: VALUE}    the value itself, for what the API treats as a secret and is none, such as a mode of a command
    _vaultkv2:…      a reference that the agent resolves, in the secret of a connection: passed on as it is

They are read before anything is changed, and never printed.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postern.cli.configuration import yaml_files
from postern.cli.configuration.yaml_files import FilePlace, YamlNode, YamlScalar
from postern.domain.reference import is_reference
from postern.domain.targets.target_keys import TARGET_KEYS
from postern.domain.text import one_line

_MAX_VALUE = 1 << 20  # bytes
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SOURCES = ("env", "file", "text")
_NOT_SECRET = frozenset(name for keys in TARGET_KEYS.values() for name in keys.readable)


@dataclass(frozen=True, slots=True)
class SecretReference:
    """Where a value is. `literal`: the value is not secret, or a reference that the agent resolves."""

    place: FilePlace
    source: str
    value: str

    @property
    def is_literal(self) -> bool:
        return self.source == "literal"

    def __str__(self) -> str:
        return (
            self.value if self.is_literal else f"({'text' if self.source == 'text' else f'{self.source} {self.value}'})"
        )

    def read(self, environ: Mapping[str, str]) -> bytes | None:
        """Return the value; None for a variable that is not set. Raises Invalid."""
        if self.source == "env":
            text = environ.get(self.value)
            return None if text is None else os.fsencode(text)
        if self.source != "file":
            return self.value.encode()
        path = Path(self.place.file).parent / self.value if self.place.file != "-" else Path(self.value)
        try:
            with path.open("rb") as file:
                content = file.read(_MAX_VALUE + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not a path"
            raise self.place.error(f"the file {one_line(self.value)!r} cannot be read: {reason}") from None
        if len(content) > _MAX_VALUE:
            raise self.place.error(f"the file {one_line(self.value)!r} is larger than {_MAX_VALUE >> 20} MiB")
        return content.removesuffix(b"\n")

    @staticmethod
    def schema(*, allows_text: bool) -> dict[str, Any]:
        sources = [
            {
                "type": "object",
                "required": [name],
                "additionalProperties": False,
                "properties": {name: {"type": "string"}},
            }
            for name in _SOURCES
        ]
        return {"anyOf": [*sources, *([{"type": "string"}] if allows_text else []), {"type": "null"}]}


def read_source(node: YamlNode, at: str) -> Any:
    """Return the source of a secret, or of each of a mapping; None removes one. Raises Invalid."""
    if isinstance(node, YamlScalar):
        return _plain(node, at)
    if isinstance(node, yaml_files.YamlMapping):
        if len(node.entries) == 1 and (name := next(iter(node.entries))) in _SOURCES:
            return _source(node, name, at)
        return {key: read_source(inner, f"{at}.{key}") for key, inner in node.entries.items()}
    raise node.place.error(f"{at}: {_HOW}")


_HOW = "write {env: VARIABLE} or {file: PATH}, so that the secret is not in this file"


def _source(node: yaml_files.YamlMapping, name: str, at: str) -> SecretReference:
    value = node.entries[name]
    if not isinstance(value, YamlScalar) or (not value.text and name != "text"):
        raise value.place.error(f"{at}.{name}: must be a text")
    if name == "env" and (not _VARIABLE.fullmatch(value.text) or value.text.startswith("POSTERN_")):
        raise value.place.error(f"{at}.env: {one_line(value.text)!r} is not allowed as the name of a variable")
    return SecretReference(value.place, name, value.text)


def _plain(node: YamlScalar, at: str) -> SecretReference | None:
    if node.is_plain and node.text in ("", "~", "null"):
        return None
    name = at.rpartition(":")[2]
    if is_reference(node.text) or name in _NOT_SECRET:
        return SecretReference(node.place, "literal", node.text)
    raise node.place.error(f"{at}: {_HOW}")  # without the text: it may be a secret


def encode(value: bytes, source: SecretReference, *, as_base64: bool) -> str:
    """Return the value as the API takes it. Raises Invalid."""
    if as_base64:
        is_passed_on = source.is_literal and is_reference(source.value)
        return source.value if is_passed_on else base64.b64encode(value).decode()
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise source.place.error("the value is not UTF-8 text") from None


def variable_of(*parts: str) -> str:
    """Return the name of a variable for a secret, made of the names of its resource and field."""
    name = re.sub(r"[^A-Z0-9]+", "_", "_".join(parts).upper()).strip("_")
    return f"_{name}" if name[:1].isdigit() else name
