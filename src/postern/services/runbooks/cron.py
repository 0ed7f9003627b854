"""When a cron expression comes next, in a time zone, also where clocks are changed."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from postern.errors import Invalid

_LONGEST, _LONGEST_ZONE = 128, 64
_FIELDS = 5


def next_time(expression: str, zone: str, after: datetime) -> datetime:
    """The next time after that moment, in UTC. A time that clocks skip is the first one behind them; one that comes
    twice is the first of the two, unless the hour is `*`. Raises Invalid."""
    place = _zone(zone)
    if len(expression) > _LONGEST or len(expression.split()) != _FIELDS:
        raise Invalid(
            "cron: must be five fields: minute, hour, day of the month, month, day of the week; such as `30 2 * * MON`",
            field="cron",
        )
    try:
        # Where clocks are set back it may begin before `after`, and repeat what was.
        for at in CronSim(expression, after.astimezone(place)):
            found = at.astimezone(UTC)
            if found > after:
                return found
    except (CronSimError, AssertionError, ValueError, OverflowError) as error:
        raise Invalid(f"cron: {expression!r} cannot be read: {error}", field="cron") from None
    raise Invalid(f"cron: {expression!r} never comes", field="cron")


def _zone(name: str) -> ZoneInfo:
    try:
        if len(name) > _LONGEST_ZONE:
            raise ValueError
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        shown = name[:_LONGEST_ZONE]
        raise Invalid(f"zone: {shown!r} is no IANA time zone, such as Europe/Berlin", field="zone") from None
