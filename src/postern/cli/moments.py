"""Moments, and lengths of time, as people type them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

_AGO = re.compile(r"(\d{1,6})\s*(s|m|h|d|w)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(text: str, now: datetime) -> datetime:
    """`2h` (so long before `now`), `today` and `yesterday` (their beginning), or ISO 8601, in the zone of `now`
    where none is said. In UTC. Raises ValueError.
    """
    said = text.strip().lower()
    if found := _AGO.fullmatch(said):
        return (now - timedelta(**{_UNITS[found[2]]: int(found[1])})).astimezone(UTC)
    if said in ("today", "yesterday"):
        day = now - timedelta(days=said == "yesterday")
        return day.replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)
    at = datetime.fromisoformat(text.strip())
    return (at.replace(tzinfo=now.tzinfo) if at.tzinfo is None else at).astimezone(UTC)


def seconds(text: str) -> int:
    """The type of an option: `45s`, `30m`, `2h`, `1d` or `1w`, in seconds."""
    found = _AGO.fullmatch(text.strip().lower())
    if found is None or not int(found[1]):
        raise click.BadParameter(f"{text!r} is no length of time; write 45s, 30m, 2h or 1d") from None
    return int(timedelta(**{_UNITS[found[2]]: int(found[1])}).total_seconds())


def typed(text: str) -> str:
    """The type of an option: the API's spelling of it."""
    try:
        return moment(text, datetime.now().astimezone()).isoformat()
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is no time; write 2h, yesterday or 2026-01-31T12:00") from None
