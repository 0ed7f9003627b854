"""A configuration file to begin with, written from the descriptions of the settings."""

from __future__ import annotations

import json
import textwrap
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from postern.settings import AgentSettings, Settings
from postern.settings_values import is_secret

_HEAD = """\
# Configuration of Postern. `postern config check` checks it, and `postern config show` shows what is in force.
# Options and environment variables (POSTERN_API_PORT for api_port) take precedence.
# {more}
"""
_SHORT = "All settings: `postern config example --all`."
_WHOLE = "Values are the defaults."


def example(*, is_whole: bool) -> str:
    """Return the file: all settings with their defaults, or the most important ones with examples."""
    parts = [_HEAD.format(more=_WHOLE if is_whole else _SHORT)]
    names: set[str] = set()
    for kind in (Settings, AgentSettings):
        for spec in fields(kind):
            if spec.name not in names and (is_whole or "essential" in spec.metadata):
                names.add(spec.name)
                parts.append(_entry(kind, spec, is_whole=is_whole))
    return "\n".join(parts)


def _entry(kind: type, spec: Field[Any], *, is_whole: bool) -> str:
    meaning: str = spec.metadata["meaning"]
    comment = textwrap.fill(
        f"{meaning[0].upper()}{meaning[1:]}.",
        118,
        initial_indent="# ",
        subsequent_indent="# ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    if is_secret(kind, spec.name) and not spec.metadata.get("holds_secret"):
        path = spec.metadata.get("essential") or f"/run/secrets/{spec.name}"
        return f"{comment}\n#{spec.name}_file = {json.dumps(path)}\n"
    value = spec.metadata.get("essential") if spec.default is MISSING or not is_whole else spec.default
    return f"{comment}\n#{spec.name} = {toml_value(value, spec.metadata.get('separator'))}\n"


def toml_value(value: object, separator: str | None = None) -> str:
    """Return a value as TOML has it. A list is a text with separators in the settings."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:.15g}"
    text = str(value) if isinstance(value, str | Path) else ""
    if separator:
        return json.dumps([part.strip() for part in text.split(separator) if part.strip()])
    return json.dumps(text)
