"""What the clients of a user remember for them: theme, pins, columns. The gateway does not read it."""

from __future__ import annotations

from dataclasses import dataclass

MAX_PREFERENCES = 64 * 1024  # bytes of JSON
MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Preferences:
    """`content` is a JSON object; `version` counts its changes, from 0 for a user who has none."""

    content: str
    version: int


NO_PREFERENCES = Preferences("{}", 0)
