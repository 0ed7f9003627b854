"""Reports, from sessions that ended to sums in any time zone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.ended import begin, end, had
from tests.support.world import World

from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.report import SLOT, Counts, GroupBy, Interval, MaskedCount, ReportFilter
from postern.domain.sessions.session import EndReason
from postern.domain.targets.connection import Connection
from postern.errors import Conflict, Denied, Invalid
from postern.services.bundle import Services
from postern.services.leases import Lease
from postern.services.notifications.reports import ReportDays, _offset, _steady
from postern.services.notifications.session_postprocessing import LEASE, count_session
from postern.store.ports.notification_ports import Settled

ALL = ReportFilter()
DAY = ReportDays(date(2026, 1, 2), date(2026, 1, 3))
PAGE = Page()


@dataclass
class Office:
    world: World
    services: Services
    auditor: Principal
    admin: Principal
    ann: Principal
    bob: Principal
    shop: Connection
    staging: Connection
    follow: Callable[[], Awaitable[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.follow = self.services.postprocessing.once


@pytest.fixture
async def office(world: World) -> Office:
    auditor, admin, ann, bob = [await world.add_user(name, name) for name in ("auditor", "admin", "ann", "bob")]
    agent = await world.add_agent()
    shop, staging = await world.add_connection("shop", agent), await world.add_connection("staging", agent)
    return Office(world, world.services(), auditor, admin, ann, bob, shop, staging)


async def test_masked_values_are_counted_by_information_type(office: Office) -> None:
    first = await had(office.world, office.ann, office.shop, {"EMAIL": 3, "PHONE": 1})
    await had(office.world, office.ann, office.staging, {"EMAIL": 10})
    second = await had(office.world, office.bob, office.shop, {"EMAIL": 4})
    await had(office.world, office.bob, office.shop)
    assert await office.follow() == 4
    assert await office.follow() == 0

    async def lines(group: GroupBy, wanted: ReportFilter = ALL) -> list[MaskedCount]:
        found = await office.services.reports.masking(office.auditor, wanted, DAY, group, PAGE)
        assert found.redact_count == sum(one.redact_total for one in found.lines.items)
        assert found.lines.total == len(found.lines.items)
        return list(found.lines.items)

    assert await lines(GroupBy.CONNECTION) == [
        MaskedCount("staging", "EMAIL", 10),
        MaskedCount("shop", "EMAIL", 7),
        MaskedCount("shop", "PHONE", 1),
    ]
    assert await lines(GroupBy.USER, ReportFilter(connection="shop")) == [
        MaskedCount("bob@example.com", "EMAIL", 4),
        MaskedCount("ann@example.com", "EMAIL", 3),
        MaskedCount("ann@example.com", "PHONE", 1),
    ]
    assert await lines(GroupBy.ID, ReportFilter(connection="shop", user="bob@example.com")) == [
        MaskedCount(str(second), "EMAIL", 4)
    ]
    assert await lines(GroupBy.ID, ReportFilter(first)) == [
        MaskedCount(str(first), "EMAIL", 3),
        MaskedCount(str(first), "PHONE", 1),
    ]
    with pytest.raises(Invalid):
        await lines(GroupBy.USER, ReportFilter(first))
    for group in (GroupBy.TYPE, GroupBy.SUBTYPE, GroupBy.VERB):
        assert sum(one.redact_total for one in await lines(group)) == 18
    report = await office.services.reports.masking(office.auditor, ALL, DAY, GroupBy.USER, Page(1, 1))
    assert (report.lines.total, report.counts.sessions, report.counts.transformed_bytes) == (3, 4, 28)


async def test_a_session_is_counted_once_and_only_when_it_has_ended(office: Office) -> None:
    key = await begin(office.world, office.ann, office.shop)
    assert await office.follow() == 0
    await end(office.world, key, {"EMAIL": 1})
    pending = await office.world.stores.postprocessing.pending(7, 10)
    others = office.world.services().postprocessing
    assert await office.follow() == 1
    assert await others.once() == 0
    # A process that lost its lease and goes on where it was.
    assert (
        await office.world.stores.postprocessing.settle([Settled(one, tuple(count_session(one))) for one in pending])
        == 0
    )
    report = await office.services.reports.masking(office.auditor, ALL, DAY, GroupBy.USER, PAGE)
    assert report.redact_count == 1


@pytest.mark.ci
async def test_one_process_at_a_time_follows_up(office: Office) -> None:
    dead = Lease(office.world.stores.leases, LEASE, office.world.clock)
    assert await dead.have()
    await had(office.world, office.ann, office.shop)
    assert await office.follow() == 0
    with pytest.raises(Conflict):
        await office.services.postprocessing.rebuild(office.admin)
    office.world.clock.forward(seconds=31)
    assert await office.follow() == 1
    assert await dead.have()  # nobody keeps it without work
    await dead.release()
    await office.services.postprocessing.rebuild(office.admin)


async def test_a_rebuild_counts_the_same_again(office: Office) -> None:
    await begin(office.world, office.ann, office.shop)
    for _ in range(3):
        await had(office.world, office.ann, office.shop, {"EMAIL": 2})
    await office.follow()
    await had(office.world, office.bob, office.shop, {"EMAIL": 1})  # not counted yet
    for _ in range(2):
        await office.services.postprocessing.rebuild(office.admin)
        empty = await office.services.reports.masking(office.auditor, ALL, DAY, GroupBy.ID, PAGE)
        assert (empty.lines.total, empty.counts) == (0, Counts())
        assert await office.follow() == 4
        full = await office.services.reports.masking(office.auditor, ALL, DAY, GroupBy.ID, PAGE)
        assert (full.lines.total, full.redact_count, full.counts.sessions) == (4, 7, 4)
    with pytest.raises(Denied):
        await office.services.postprocessing.rebuild(office.auditor)


async def test_activity_over_time(office: Office) -> None:
    day = datetime(2026, 1, 5, 22, 50, tzinfo=UTC)  # a Monday; 23:50 in Berlin
    await had(office.world, office.ann, office.shop, {"EMAIL": 1}, day, refused=2)
    await had(office.world, office.bob, office.shop, at=day + timedelta(minutes=20), reason=EndReason.KILLED)
    await had(office.world, office.bob, office.staging, at=day + timedelta(days=7), reason=EndReason.FAILED)
    await office.follow()

    async def sums(
        by: Interval, zone: str = "UTC", group: GroupBy | None = None, wanted: ReportFilter = ALL
    ) -> list[tuple[str, str | None, int]]:
        days = ReportDays(date(2026, 1, 1), date(2026, 2, 1), zone)
        found = await office.services.reports.activity(office.auditor, wanted, days, by, group)
        assert found.total.sessions == sum(line.counts.sessions for line in found.lines)
        shown = [(f"{line.start:%m-%d %H:%M}", line.group, line.counts.sessions) for line in found.lines]
        return [line for line in shown if line[2]]

    assert await sums(Interval.DAY) == [("01-05 00:00", None, 2), ("01-12 00:00", None, 1)]
    assert await sums(Interval.DAY, "Europe/Berlin") == [
        ("01-05 00:00", None, 1),
        ("01-06 00:00", None, 1),
        ("01-12 00:00", None, 1),
    ]
    assert await sums(Interval.HOUR, "Asia/Kolkata") == [
        ("01-06 04:00", None, 2),
        ("01-13 04:00", None, 1),
    ]
    assert await sums(Interval.WEEK) == [("01-05 00:00", None, 2), ("01-12 00:00", None, 1)]
    assert await sums(Interval.MONTH, group=GroupBy.CONNECTION) == [
        ("01-01 00:00", "shop", 2),
        ("01-01 00:00", "staging", 1),
    ]
    assert await sums(Interval.MONTH, wanted=ReportFilter(user="bob@example.com")) == [("01-01 00:00", None, 2)]
    days = ReportDays(date(2026, 1, 1), date(2026, 2, 1))
    found = await office.services.reports.activity(office.auditor, ALL, days, Interval.DAY, None)
    assert len(found.lines) == 31  # empty days, too
    assert found.total == Counts(
        sessions=3,
        failed=1,
        killed=1,
        operations=9,
        refused=2,
        masked=1,
        transformed_bytes=21,
        recorded_bytes=300,
        milliseconds=6000,
    )


async def test_an_hour_that_the_clock_shows_twice_is_two(office: Office) -> None:
    for minute in (30, 90):  # half past two, in summer and in winter time
        await had(
            office.world,
            office.ann,
            office.shop,
            at=datetime(2026, 10, 25, 0, 0, tzinfo=UTC) + timedelta(minutes=minute),
        )
    await office.follow()
    days = ReportDays(date(2026, 10, 25), date(2026, 10, 26), "Europe/Berlin")
    found = await office.services.reports.activity(office.auditor, ALL, days, Interval.HOUR, None)
    assert len(found.lines) == 25
    shown = [line.start.isoformat() for line in found.lines if line.counts.sessions]
    assert shown == ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"]


@given(
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut"]),
    st.dates(date(2000, 1, 1), date(2030, 1, 1)),
    st.integers(1, 366),
)
def test_the_days_are_cut_where_the_offset_changes(name: str, start: date, days: int) -> None:
    zone = ZoneInfo(name)
    place: int | None = None
    for span, offset in _steady(start, start + timedelta(days=days), zone):
        assert place in (None, span.first)
        assert span.first < span.last
        for slot in (span.first, (span.first + span.last) // 2, span.last - 1):
            assert _offset(slot, zone) == offset
        place = span.last
    assert place is not None
    assert datetime.fromtimestamp(place * SLOT, zone).date() == start + timedelta(days=days)


@pytest.mark.parametrize(
    ("days", "field"),
    [
        (ReportDays(date(2026, 1, 2), date(2026, 1, 2)), "end_date"),
        (ReportDays(date(2024, 1, 2), date(2026, 1, 2)), "end_date"),
        (ReportDays(date(1, 1, 1), date(1, 1, 2)), "start_date"),
        (ReportDays(time_zone="Europe/Nowhere"), "time_zone"),
        (ReportDays(time_zone="../../etc/passwd"), "time_zone"),
        (ReportDays(time_zone="Europe"), "time_zone"),
    ],
)
async def test_days_that_cannot_be_reported(office: Office, days: ReportDays, field: str) -> None:
    with pytest.raises(Invalid) as raised:
        await office.services.reports.masking(office.auditor, ALL, days, GroupBy.USER, PAGE)
    assert raised.value.field == field


async def test_hours_of_a_year_are_too_many(office: Office) -> None:
    days = ReportDays(date(2026, 1, 1), date(2026, 6, 1))
    with pytest.raises(Invalid, match="31 days"):
        await office.services.reports.activity(office.auditor, ALL, days, Interval.HOUR, None)


async def test_reports_are_for_administrators_and_auditors(office: Office) -> None:
    """The facts' mistake 17: any user reads reports of the whole organisation."""
    with pytest.raises(Denied):
        await office.services.reports.masking(office.ann, ALL, DAY, GroupBy.USER, PAGE)
    with pytest.raises(Denied):
        await office.services.reports.activity(office.ann, ALL, DAY, Interval.DAY, None)
