"""A daily time window, `time_range` of spec 2.2: from `start` to `end` on the clock of a time zone.

A window whose end is before its start lasts over midnight: 22:00 to 06:00 is the night. Equal ends are a whole day.
`start` belongs to it, `end` does not. At clock changes, the window follows the local clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from postern.errors import Invalid

TIME_RANGE = "time_range"
_CLOCK = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d")
_FIELD = "time_window"
_DAY = timedelta(days=1)
_HOUR, _SECOND = timedelta(hours=1), timedelta(seconds=1)
_AHEAD = 4 * _DAY  # that far a window is looked for, and longer than any access is given


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A window; `zone` is a name of the IANA time zone database."""

    start: time
    end: time
    zone: str = "UTC"

    def holds(self, moment: datetime) -> bool:
        at = moment.astimezone(ZoneInfo(self.zone)).time()
        if self.start < self.end:
            return self.start <= at < self.end
        return at >= self.start or at < self.end

    def closes_at(self, moment: datetime) -> datetime:
        """Return when the window that is open at this moment closes; for a whole day, far in the future."""
        return self._turns_at(moment)

    def opens_at(self, moment: datetime) -> datetime:
        """Return when the next window opens, for a moment outside of any."""
        return self._turns_at(moment)

    def last_open(self, since: datetime, until: datetime) -> datetime:
        """Return the last end of the window from `since`, when it is open, to `until`."""
        closes = self.closes_at(since)
        while closes < until:
            again = self.opens_at(closes)
            if again >= until:
                return closes
            closes = self.closes_at(again)
        return until

    def _turns_at(self, moment: datetime) -> datetime:
        """Return when it next opens or closes: at one of its times, or at a clock change beyond one."""
        zone = ZoneInfo(self.zone)
        day = moment.astimezone(zone).date()
        walls = [
            datetime.combine(day + ahead * _DAY, clock.replace(fold=fold), zone)
            for ahead in range(_AHEAD // _DAY + 1)
            for clock in (self.start, self.end)
            for fold in (0, 1)  # an hour that the clock shows twice
        ]
        turns = sorted([*(wall.astimezone(UTC) for wall in walls), *_clock_changes(zone, moment)])
        holds = self.holds(moment)
        return next((turn for turn in turns if turn > moment and self.holds(turn) != holds), moment + _AHEAD)

    def __str__(self) -> str:
        return f"{self.start:%H:%M} to {self.end:%H:%M} {self.zone}"


def _clock_changes(zone: ZoneInfo, moment: datetime) -> list[datetime]:
    """Yield clock changes, which are on whole seconds."""
    times = []
    first = moment.astimezone(UTC).replace(microsecond=0)
    for hours in range(_AHEAD // _HOUR):
        before, behind = first + hours * _HOUR, first + (hours + 1) * _HOUR
        if _offset(zone, before) == _offset(zone, behind):
            continue
        while behind - before > _SECOND:
            middle = before + (behind - before) // _SECOND // 2 * _SECOND
            if _offset(zone, middle) == _offset(zone, before):
                before = middle
            else:
                behind = middle
        times.append(behind)
    return times


def _offset(zone: ZoneInfo, moment: datetime) -> timedelta | None:
    return moment.astimezone(zone).utcoffset()


def time_window(type_: str, configuration: Mapping[str, str]) -> TimeWindow:
    """Parse a window of spec 2.2; `time_zone` is our addition, UTC where it is missing. Raises Invalid."""
    if type_ != TIME_RANGE:
        raise Invalid(f"{_FIELD}.type: {type_!r} is not known; use {TIME_RANGE!r}", field=_FIELD)
    unknown = sorted(configuration.keys() - {"start_time", "end_time", "time_zone"})
    if unknown:
        raise Invalid(f"{_FIELD}.configuration: {', '.join(unknown)} is not known", field=_FIELD)
    ends = []
    for name in ("start_time", "end_time"):
        text = configuration.get(name, "")
        if not _CLOCK.fullmatch(text):
            raise Invalid(f"{_FIELD}.configuration.{name}: must be HH:MM, from 00:00 to 23:59", field=_FIELD)
        ends.append(time.fromisoformat(text))
    zone = configuration.get("time_zone", "UTC")
    if zone not in _zones():
        raise Invalid(
            f"{_FIELD}.configuration.time_zone: {zone!r} is not a time zone; use one such as Europe/Vienna",
            field=_FIELD,
        )
    return TimeWindow(ends[0], ends[1], zone)


@cache
def _zones() -> frozenset[str]:
    """Return the names of zones, cached: it walks through files. `localtime` is left out, since it differs between
    machines."""
    return frozenset(available_timezones() - {"localtime"})


def configuration(window: TimeWindow) -> dict[str, str]:
    """Return what `time_window` parses."""
    return {
        "start_time": f"{window.start:%H:%M}",
        "end_time": f"{window.end:%H:%M}",
        "time_zone": window.zone,
    }
