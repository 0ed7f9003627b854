"""Durations: in messages to users, in words; in settings, as `90`, `30s` or `1h30m`."""

from __future__ import annotations

import math
import re

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


_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_PART = r"(\d+(?:\.\d+)?)(ms|s|m|h|d)"
_PARTS = re.compile(f"(?:{_PART})+", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds of `90`, `0.5`, `30s`, `10m`, `48h`, `2d` or `1h30m`. Raises ValueError."""
    text = text.strip()
    if _PARTS.fullmatch(text):
        seconds = sum(float(count) * _SECONDS[unit] for count, unit in re.findall(_PART, text, re.ASCII))
    else:
        seconds = float(text)
    if not math.isfinite(seconds):
        raise ValueError(f"{text!r} is not a duration")
    return seconds
