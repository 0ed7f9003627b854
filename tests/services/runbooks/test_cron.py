"""When a schedule comes next: in its zone, once, also where clocks are changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from postern.errors import Invalid
from postern.services.runbooks.schedules import explain, next_time, next_times

BERLIN = "Europe/Berlin"  # goes forward on 29 March 2026 at 01:00 UTC, and back on 25 October at 01:00 UTC


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "zone", "after", "then"),
    [
        ("*/5 * * * *", "UTC", "2026-01-02T03:04:05", "2026-01-02T03:05:00"),
        ("5 3 * * *", "UTC", "2026-01-02T03:05:00", "2026-01-03T03:05:00"),  # after that moment, never at it
        ("0 9 * * MON-FRI", "America/New_York", "2026-01-02T14:00:00", "2026-01-05T14:00:00"),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("0 0 L * *", "UTC", "2026-02-01T00:00:00", "2026-02-28T00:00:00"),
        # What clocks skip comes right behind that, once.
        ("30 2 * * *", BERLIN, "2026-03-29T00:59:59", "2026-03-29T01:00:00"),
        ("30 2 * * *", BERLIN, "2026-03-29T01:00:00", "2026-03-30T00:30:00"),
        ("0 2,3 * * *", BERLIN, "2026-03-29T00:00:00", "2026-03-29T01:00:00"),
        ("0 2,3 * * *", BERLIN, "2026-03-29T01:00:00", "2026-03-30T00:00:00"),
        # What comes twice by the clock comes once.
        ("30 2 * * *", BERLIN, "2026-10-25T00:00:00", "2026-10-25T00:30:00"),
        ("30 2 * * *", BERLIN, "2026-10-25T00:30:00", "2026-10-26T01:30:00"),
        # It begins in the second of the two hours: the first one's time is over, and comes no more.
        ("45 2 * * *", BERLIN, "2026-10-25T01:30:00", "2026-10-26T01:45:00"),
        ("0-59 2 * * *", BERLIN, "2026-10-25T01:10:00", "2026-10-26T01:00:00"),
        # Every hour is every hour.
        ("0 * * * *", BERLIN, "2026-10-25T00:00:00", "2026-10-25T01:00:00"),
        ("0 * * * *", BERLIN, "2026-10-25T01:00:00", "2026-10-25T02:00:00"),
        ("0 * * * *", BERLIN, "2026-03-29T00:00:00", "2026-03-29T01:00:00"),
    ],
)
def test_the_next_time(expression: str, zone: str, after: str, then: str) -> None:
    assert next_time(expression, zone, at(after)) == at(then)


@pytest.mark.parametrize("expression", ["*/20 * * * *", "*/20 2 * * *", "10 1,2 * * *", "0-59/20 2 * * *"])
@pytest.mark.parametrize(
    ("zone", "day"),
    [
        (BERLIN, "2026-03-28"),
        (BERLIN, "2026-10-24"),
        ("America/St_Johns", "2026-11-01"),
        ("Pacific/Auckland", "2026-04-04"),
        ("UTC", "2026-10-24"),
    ],
)
def test_times_only_go_forward(expression: str, zone: str, day: str) -> None:
    """From whichever moment one asks; and between that and what is told there is none that is told later."""
    begin = at(f"{day}T00:00:00")
    told = [next_time(expression, zone, begin + timedelta(minutes=7 * step)) for step in range(300)]
    assert told == sorted(told)
    assert all(one > begin + timedelta(minutes=7 * step) for step, one in enumerate(told))


@pytest.mark.parametrize(
    ("expression", "zone", "says"),
    [
        ("* * * *", "UTC", "cron: must be five fields"),
        ("0 * * * * *", "UTC", "cron: must be five fields"),  # seconds
        ("@daily", "UTC", "cron: must be five fields"),
        ("", "UTC", "cron: must be five fields"),
        ("0,0,0 * * * *" + ",0" * 100, "UTC", "cron: must be five fields"),
        ("60 * * * *", "UTC", "cron: '60 . . . .' cannot be read: Bad minute"),
        ("*/0 * * * *", "UTC", "Bad minute"),
        ("5-1 * * * *", "UTC", "Bad minute"),
        ("0 0 * * XYZ", "UTC", "Bad day-of-week"),
        ("\u0661 * * * *", "UTC", "Bad minute"),
        ("0 0 30 2 *", "UTC", "Bad day-of-month"),
        ("0 0 */40 * MON#5", "UTC", "never occurs"),  # no first of a month is its fifth Monday
        ("0 0 * * *", "Europe/Bielefeld", "zone: 'Europe/Bielefeld' is not an IANA time zone"),
        ("0 0 * * *", "../../../etc/passwd", "zone"),
        ("0 0 * * *", "/etc/localtime", "zone"),
        ("0 0 * * *", "Europe", "zone"),
        ("0 0 * * *", "", "zone"),
        ("0 0 * * *", "a\0b", "zone"),
        ("0 0 * * *", "x" * 300, "zone"),
    ],
)
def test_what_cannot_be_read_is_said(expression: str, zone: str, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        next_time(expression, zone, at("2026-01-01T00:00:00"))


def test_next_times_are_in_order_without_repetition() -> None:
    first, second, third = next_times("30 2 * * *", BERLIN, at("2026-03-28T00:00:00"), 3)
    assert [first, second, third] == [at("2026-03-28T01:30:00"), at("2026-03-29T01:00:00"), at("2026-03-30T00:30:00")]
    times = next_times("*/20 * * * *", BERLIN, at("2026-10-24T23:30:00"), 20)
    assert times == sorted(set(times))  # also while the clocks go back


def test_expression_in_words() -> None:
    assert explain("30 2 * * MON-FRI") == "At 02:30 on Monday through Friday"
    with pytest.raises(Invalid, match="Bad minute"):
        explain("61 * * * *")
