"""The grammar of timestamps and durations on the command line.

A duration is a number of seconds, or numbers with units: `90`, `45s`, `1h30m`, `8h`, `7d`, `2w`, `1.5h`. A timestamp is
a duration ago (`7d`, `2h ago`), `now`, `today`, `yesterday`, a date (`2026-01-31`) or ISO 8601, in this machine's time
zone if it has none. The functions that raise BadParameter are types of options.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta

import click

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([smhdw])", re.ASCII)
_DURATION = re.compile(rf"(?:{_PART.pattern}\s*)+", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,6})?", re.ASCII)
_DURATION_EXAMPLES = "45s, 30m, 1h30m, 8h or 7d"
_TIMESTAMP_EXAMPLES = "2h, 7d, yesterday, 2026-01-31 or 2026-01-31T12:00"


def _parse_duration(text: str) -> float | None:
    """Return the seconds of a duration with units, or None if `text` is not one."""
    text = text.strip().lower()
    if not _DURATION.fullmatch(text):
        return None
    return math.fsum(float(number) * _UNIT_SECONDS[unit] for number, unit in _PART.findall(text))


def moment(text: str, now: datetime) -> datetime:
    """Return the timestamp in UTC; `now` gives the time zone if `text` has none. Raises ValueError, OverflowError."""
    stripped = text.strip().lower()
    ago = _parse_duration(stripped.removesuffix("ago"))
    if ago is not None:
        return (now - timedelta(seconds=ago)).astimezone(UTC)
    if stripped == "now":
        return now.astimezone(UTC)
    if stripped in ("today", "yesterday"):
        day = now - timedelta(days=stripped == "yesterday")
        return day.replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)
    at = datetime.fromisoformat(text.strip())
    return (at.replace(tzinfo=now.tzinfo) if at.tzinfo is None else at).astimezone(UTC)


def duration(text: str) -> float:
    """Convert an option to seconds."""
    stripped = text.strip()
    seconds = float(stripped) if _NUMBER.fullmatch(stripped) else _parse_duration(stripped)
    if seconds is None:
        raise click.BadParameter(f"{text!r} is not a duration; write {_DURATION_EXAMPLES}") from None
    return seconds


def seconds(text: str) -> int:
    """Convert an option to whole seconds, at least one."""
    whole_seconds = round(duration(text))
    if whole_seconds < 1:
        raise click.BadParameter(f"{text!r} is too short; write {_DURATION_EXAMPLES}")
    return whole_seconds


def parse_timestamp(text: str) -> str:
    """Convert an option to a timestamp in the API's form."""
    try:
        return moment(text, datetime.now().astimezone()).isoformat()
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is not a time; write {_TIMESTAMP_EXAMPLES}") from None


def day(text: str) -> str:
    """Convert an option to a date in the API's form. A timestamp gives its day."""
    try:
        return date.fromisoformat(text.strip()).isoformat()
    except ValueError:
        return datetime.fromisoformat(parse_timestamp(text)).astimezone().date().isoformat()


def expiry(text: str) -> str:
    """Convert an option to a timestamp in the future, or that far ahead, in the API's form."""
    now = datetime.now().astimezone()
    ahead = _parse_duration(text)
    try:
        at = now + timedelta(seconds=ahead) if ahead is not None else moment(text, now)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is neither a duration nor a time; write 30d or 2026-01-31") from None
    if at <= now:
        raise click.BadParameter(f"{text!r} is in the past")
    return at.astimezone(UTC).isoformat()
