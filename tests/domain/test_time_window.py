"""Daily windows on the clock of a zone: over midnight, at their edges, and where the clock is changed."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.domain.reviews.approval_requirements import MAX_ACCESS
from postern.domain.reviews.time_window import TIME_RANGE, TimeWindow, configuration, time_window
from postern.errors import Invalid

ZONES = ("UTC", "Europe/Vienna", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "America/Sao_Paulo")
clocks = st.times().map(lambda one: one.replace(second=0, microsecond=0))
windows = st.builds(TimeWindow, clocks, clocks, st.sampled_from(ZONES))
moments = st.integers(0, 2 * 365 * 86_400 * 10).map(
    lambda tenths: datetime(2025, 1, 1, tzinfo=UTC) + timedelta(milliseconds=100 * tenths)
)
# Around which some of these clocks were changed.
CHANGES = ("2025-10-26T01:00Z", "2026-03-29T01:00Z", "2026-03-08T07:00Z", "2026-10-03T15:30Z")
near_changes = st.builds(
    lambda change, minutes: datetime.fromisoformat(change) + timedelta(minutes=minutes),
    st.sampled_from(CHANGES),
    st.integers(-300, 300),
)


def at(text: str, zone: str = "UTC") -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


@pytest.mark.parametrize(
    ("window", "inside", "outside"),
    [
        (("09:00", "17:00"), ["09:00:00", "16:59:59.999999"], ["08:59:59.999999", "17:00:00"]),
        (("22:00", "06:00"), ["22:00", "23:59:59", "00:00", "05:59:59"], ["06:00", "12:00", "21:59:59"]),
        (("00:00", "06:00"), ["00:00", "05:59"], ["06:00", "23:59:59"]),
        (("18:00", "00:00"), ["18:00", "23:59:59"], ["00:00", "17:59:59"]),
        (("08:00", "08:00"), ["08:00", "07:59:59", "00:00", "20:00"], []),
    ],
)
def test_start_belongs_to_it_and_end_does_not(window: tuple[str, str], inside: list[str], outside: list[str]) -> None:
    start, end = map(time.fromisoformat, window)
    own = TimeWindow(start, end)
    assert [own.holds(at(f"2026-03-01T{one}")) for one in inside] == [True] * len(inside)
    assert [own.holds(at(f"2026-03-01T{one}")) for one in outside] == [False] * len(outside)


def test_the_clock_is_that_of_the_zone() -> None:
    office = TimeWindow(time(9), time(17), "Europe/Vienna")
    assert office.holds(at("2026-01-15T08:00"))  # 09:00 in Vienna, in winter
    assert not office.holds(at("2026-01-15T07:59"))
    assert office.holds(at("2026-07-15T07:00"))  # in summer
    assert not office.holds(at("2026-07-15T15:00"))
    assert office.closes_at(at("2026-07-15T07:00")) == at("2026-07-15T15:00")
    assert office.opens_at(at("2026-07-15T15:00")) == at("2026-07-16T07:00")
    nepal = TimeWindow(time(9), time(17), "Asia/Kathmandu")  # 5:45 ahead
    assert nepal.holds(at("2026-01-15T03:15"))
    assert not nepal.holds(at("2026-01-15T03:14:59"))


def test_a_night_closes_on_the_next_morning() -> None:
    night = TimeWindow(time(22), time(6))
    assert night.closes_at(at("2026-03-01T23:00")) == at("2026-03-02T06:00")
    assert night.closes_at(at("2026-03-02T05:59:59")) == at("2026-03-02T06:00")
    assert night.opens_at(at("2026-03-02T06:00")) == at("2026-03-02T22:00")


def test_a_clock_that_is_put_forward_skips_times() -> None:
    """Vienna, 29 March 2026: after 01:59:59 comes 03:00."""
    own = TimeWindow(time(2, 15), time(2, 45), "Europe/Vienna")
    for minutes in range(0, 180, 5):
        assert not own.holds(at("2026-03-29T00:00") + timedelta(minutes=minutes))
    early = TimeWindow(time(1), time(2, 30), "Europe/Vienna")
    assert early.holds(at("2026-03-29T00:59:59"))
    assert not early.holds(at("2026-03-29T01:00"))  # 03:00
    assert early.closes_at(at("2026-03-29T00:30")) == at("2026-03-29T01:00")
    late = TimeWindow(time(2, 30), time(4), "Europe/Vienna")
    assert late.opens_at(at("2026-03-29T00:30")) == at("2026-03-29T01:00")
    assert late.holds(at("2026-03-29T01:00"))


def test_a_clock_that_is_put_back_shows_times_twice() -> None:
    """Vienna, 25 October 2026: after 02:59:59 comes 02:00 again."""
    own = TimeWindow(time(2), time(2, 30), "Europe/Vienna")
    first, second = at("2026-10-25T00:10"), at("2026-10-25T01:10")
    assert own.holds(first)
    assert own.holds(second)
    assert not own.holds(at("2026-10-25T00:40"))
    assert own.closes_at(first) == at("2026-10-25T00:30")
    assert own.opens_at(at("2026-10-25T00:40")) == at("2026-10-25T01:00")
    assert own.closes_at(second) == at("2026-10-25T01:30")
    over = TimeWindow(time(1), time(2, 30), "Europe/Vienna")
    assert over.closes_at(at("2026-10-25T00:10")) == at("2026-10-25T00:30")
    assert over.opens_at(at("2026-10-25T00:45")) == at("2026-10-25T01:00")  # put back into it
    late = TimeWindow(time(2, 30), time(4), "Europe/Vienna")
    assert late.closes_at(at("2026-10-25T00:45")) == at("2026-10-25T01:00")  # put back out of it


def test_a_whole_day_never_closes() -> None:
    now = at("2026-03-01T10:00")
    assert TimeWindow(time(8), time(8)).closes_at(now) > now + timedelta(seconds=MAX_ACCESS)


@given(windows, moments | near_changes)
def test_it_holds_until_it_closes_and_not_until_it_opens(window: TimeWindow, moment: datetime) -> None:
    """Also around changes of the clock: nothing between now and the end that is told is different."""
    holds = window.holds(moment)
    end = window.closes_at(moment) if holds else window.opens_at(moment)
    assert moment < end
    if window.start != window.end:
        assert end <= moment + timedelta(days=2, hours=2)
    steps = int((end - moment) / timedelta(minutes=15))
    for ahead in range(steps + 1):
        between = moment + ahead * timedelta(minutes=15)
        assert between >= end or window.holds(between) == holds
    assert window.holds(end - timedelta(microseconds=1)) == holds
    assert window.holds(end) == (not holds) or window.start == window.end


@given(windows)
def test_what_was_written_is_read_again(window: TimeWindow) -> None:
    assert time_window(TIME_RANGE, configuration(window)) == window


def test_utc_is_meant_without_a_zone() -> None:
    assert time_window(TIME_RANGE, {"start_time": "08:00", "end_time": "17:30"}) == TimeWindow(time(8), time(17, 30))
    assert str(TimeWindow(time(8), time(17, 30))) == "08:00 to 17:30 UTC"


@pytest.mark.parametrize(
    ("kind", "given_"),
    [
        ("day_range", {"start_time": "08:00", "end_time": "09:00"}),
        (TIME_RANGE, {"start_time": "08:00"}),
        (TIME_RANGE, {"start_time": "8:00", "end_time": "09:00"}),
        (TIME_RANGE, {"start_time": "08:00", "end_time": "24:00"}),
        (TIME_RANGE, {"start_time": "08:00", "end_time": "09:60"}),
        (TIME_RANGE, {"start_time": "08:00", "end_time": "09:00\n"}),
        (TIME_RANGE, {"start_time": "08:00:00", "end_time": "09:00"}),
        (TIME_RANGE, {"start_time": "08:00", "end_time": "09:00", "time_zone": "Mars/Olympus"}),
        (TIME_RANGE, {"start_time": "08:00", "end_time": "09:00", "time_zone": "../etc/passwd"}),
        (TIME_RANGE, {"start_time": "08:00", "end_time": "09:00", "time_zone": "localtime"}),
        (TIME_RANGE, {"start_time": "08:00", "end_time": "09:00", "days": "mon"}),
    ],
)
def test_what_cannot_be_read_is_refused(kind: str, given_: dict[str, str]) -> None:
    with pytest.raises(Invalid):
        time_window(kind, given_)
