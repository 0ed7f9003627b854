"""Reports: masked values, activity over time and reviews of one organisation."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from postern.domain.identity.principal import Principal
from postern.domain.lists import Listed, Page
from postern.domain.report import (
    SLOT,
    Activity,
    Counts,
    GroupBy,
    Interval,
    MaskedCount,
    ReportFilter,
    ReportPeriod,
    slot_of,
)
from postern.domain.reviews.review_report import ReviewsBy, ReviewSums, group_reviews, sums_of
from postern.errors import Invalid
from postern.services.identity.users import require_reader
from postern.store.ports.common_ports import Clock
from postern.store.ports.notification_ports import ReportStore, ReviewReportStore

__all__ = ["ReportDays", "Reports"]

MAX_DAYS, MAX_HOURLY_DAYS = 366, 31
MAX_LINES = 20_000
MAX_REVIEWS = 20_000  # that one report reads
_DAY = 86_400 // SLOT


@dataclass(frozen=True, slots=True)
class ReportDays:
    """The days of a report, from the start of `start` until the start of `end`, in a time zone by its IANA name."""

    start: date | None = None
    end: date | None = None
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class MaskingReport:
    start: date
    end: date
    lines: Listed[MaskedCount]
    redact_count: int
    counts: Counts


@dataclass(frozen=True, slots=True)
class ActivityReport:
    start: date
    end: date
    lines: list[Activity]
    total: Counts


@dataclass(frozen=True, slots=True)
class ReviewReport:
    start: date
    end: date
    lines: list[tuple[str, ReviewSums]]
    total: ReviewSums


class Reports:
    def __init__(self, store: ReportStore, reviews: ReviewReportStore, now: Clock) -> None:
        self._store = store
        self._reviews = reviews
        self._now = now

    async def masking(
        self, principal: Principal, where: ReportFilter, days: ReportDays, group: GroupBy, page: Page
    ) -> MaskingReport:
        """Report masked values of one day, today, unless `days` give others. Raises Denied, Invalid."""
        require_reader(principal, "reports")
        if where.session_id is not None and group is not GroupBy.ID:
            raise Invalid("id: can only be used with group_by=id", field="id")
        zone = _zone(days.time_zone)
        start, end = self._days(days, zone, 1)
        span = ReportPeriod(_slot(start, zone), _slot(end, zone))
        if group is GroupBy.ID:
            by_session, redacted = await self._store.list_masked_sessions(principal.org_id, where, span, page)
            _, counts = await self._store.count_masked(principal.org_id, where, span, GroupBy.VERB)
            return MaskingReport(start, end, by_session, redacted, counts)
        lines, counts = await self._store.count_masked(principal.org_id, where, span, group)
        lines.sort(key=lambda line: (-line.redact_total, line.resource, line.info_type))
        masked_counts = lines[page.offset : page.offset + page.limit]
        return MaskingReport(start, end, Listed(masked_counts, len(lines)), counts.masked, counts)

    async def activity(
        self,
        principal: Principal,
        where: ReportFilter,
        days: ReportDays,
        interval: Interval,
        group: GroupBy | None,
    ) -> ActivityReport:
        """Report activity of the last 30 days, or today by the hour, unless `days` give others.

        Every interval has its line, also an empty one, unless it is grouped. Raises Denied, Invalid.
        """
        require_reader(principal, "reports")
        if group is GroupBy.ID:
            raise Invalid(
                "group_by: activity cannot be grouped by session; list the sessions instead", field="group_by"
            )
        zone = _zone(days.time_zone)
        hourly = interval is Interval.HOUR
        start, end = self._days(days, zone, 1 if hourly else 30)
        if hourly and (end - start).days > MAX_HOURLY_DAYS:
            raise Invalid(f"by: at most {MAX_HOURLY_DAYS} days by the hour", field="by")
        counts_by_key: dict[tuple[datetime, str | None], Counts] = {}
        if group is None:
            counts_by_key = {(begin, None): Counts() for begin in _begins(start, end, interval, zone)}
        unit = Interval.HOUR if hourly else Interval.DAY
        for span, offset in _steady(start, end, zone):
            rows = await self._store.activity(principal.org_id, where, span, unit, offset, group, MAX_LINES + 1)
            if len(rows) > MAX_LINES:
                raise Invalid(
                    "start_date: the report has too many lines; request fewer days, or set a filter", field="start_date"
                )
            for number, name, counts in rows:
                key = (_begin(number, offset, interval, zone), name)
                counts_by_key[key] = counts_by_key.get(key, Counts()) + counts
        total = sum(counts_by_key.values(), Counts())
        ordered = sorted(counts_by_key.items(), key=lambda item: (item[0][0], item[0][1] or ""))
        lines = [Activity(begin.astimezone(zone), name, counts) for (begin, name), counts in ordered]
        return ActivityReport(start, end, lines, total)

    async def reviews(self, principal: Principal, days: ReportDays, by: ReviewsBy) -> ReviewReport:
        """Report reviews requested in the last 30 days, unless `days` give others. Raises Denied, Invalid."""
        require_reader(principal, "reports")
        zone = _zone(days.time_zone)
        start, end = self._days(days, zone, 30)
        moments = (_midnight(start, zone), _midnight(end, zone))
        rows = await self._reviews.find_reviewed(principal.org_id, *moments, MAX_REVIEWS + 1)
        if len(rows) > MAX_REVIEWS:
            raise Invalid("start_date: the report has too many reviews; request fewer days", field="start_date")
        return ReviewReport(start, end, group_reviews(rows, by), sums_of(rows))

    def _days(self, days: ReportDays, zone: ZoneInfo, usual: int) -> tuple[date, date]:
        today = self._now().astimezone(zone).date()
        end = days.end or (today + timedelta(days=1) if days.start is None else days.start + timedelta(days=usual))
        start = days.start or end - timedelta(days=usual)
        if not start < end:
            raise Invalid("end_date: must be after start_date; it is the day after the last", field="end_date")
        if (end - start).days > MAX_DAYS:
            raise Invalid(f"end_date: at most {MAX_DAYS} days after start_date", field="end_date")
        if start.year < 1971 or end.year > 9000:
            raise Invalid("start_date: must be in the years 1971 to 9000", field="start_date")
        return start, end


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Invalid("time_zone: must be a name such as Europe/Berlin or UTC", field="time_zone") from None


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time(), zone).astimezone(UTC)


def _slot(day: date, zone: ZoneInfo) -> int:
    return slot_of(_midnight(day, zone))


def _steady(start: date, end: date, zone: ZoneInfo) -> Iterator[tuple[ReportPeriod, int]]:
    """Yield the days, cut where the zone's offset changes, with the offset of each piece in seconds."""
    first, last = _slot(start, zone), _slot(end, zone)
    while first < last:
        offset = _offset(first, zone)
        low = first
        while low + _DAY < last and _offset(low + _DAY, zone) == offset:
            low += _DAY
        later = range(low + 1, min(low + _DAY, last))
        cut = low + 1 + bisect_left(later, True, key=lambda slot: _offset(slot, zone) != offset)
        yield ReportPeriod(first, cut), offset
        first = cut


def _offset(slot: int, zone: ZoneInfo) -> int:
    offset = datetime.fromtimestamp(slot * SLOT, zone).utcoffset()
    return int((offset or timedelta()).total_seconds())


def _begin(number: int, offset: int, interval: Interval, zone: ZoneInfo) -> datetime:
    """Return the start of the interval with that hour or day since 1970 in local time.

    Hours are in UTC: the two instances of a repeated hour would be equal in local time.
    """
    if interval is Interval.HOUR:
        return datetime.fromtimestamp(number * 3600 - offset, UTC)
    return _midnight(_first_day(date(1970, 1, 1) + timedelta(days=number), interval), zone)


def _first_day(day: date, interval: Interval) -> date:
    if interval is Interval.WEEK:
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if interval is Interval.MONTH else day


def _begins(start: date, end: date, interval: Interval, zone: ZoneInfo) -> Iterator[datetime]:
    if interval is Interval.HOUR:
        for span, offset in _steady(start, end, zone):
            first, last = ((slot * SLOT + offset) // 3600 for slot in (span.first, span.last - 1))
            yield from (_begin(number, offset, interval, zone) for number in range(first, last + 1))
        return
    for place in range((end - start).days):
        yield _midnight(_first_day(start + timedelta(days=place), interval), zone)
