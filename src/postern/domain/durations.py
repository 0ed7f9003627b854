"""Durations in messages to users, in words."""

from __future__ import annotations

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def duration_text(seconds: float) -> str:
    """Return a duration as `2 days`, `1 hour and 30 minutes`, `10 seconds`. Fractions of a second are left out from a
    minute on."""
    if seconds < 60 and seconds != int(seconds):
        return f"{seconds:g} seconds"
    parts, rest = [], int(seconds)
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}" if count == 1 else f"{count} {unit}s")
    *first, last = parts or ["0 seconds"]
    return f"{', '.join(first)} and {last}" if first else last
