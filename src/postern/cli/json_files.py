"""JSON files as arguments of commands."""

from __future__ import annotations

import json
from typing import Any

import click


def parse_json(name: str, text: str) -> Any:
    """Raises UsageError, which names the file."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{name}: invalid JSON: {error}") from None


def one_object(name: str, text: str) -> dict[str, Any]:
    """Raises UsageError, which names the file."""
    body = parse_json(name, text)
    if not isinstance(body, dict):
        raise click.UsageError(f"{name}: must hold one JSON object")
    return body
