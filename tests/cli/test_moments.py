"""Times as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import click
import pytest

from postern.cli.moments import moment, seconds, typed

NOW = datetime(2026, 3, 4, 1, 30, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2h", "2026-03-03T21:30:00+00:00"),
        ("30 m", "2026-03-03T23:00:00+00:00"),
        ("1w", "2026-02-24T23:30:00+00:00"),
        ("today", "2026-03-03T22:00:00+00:00"),
        ("Yesterday", "2026-03-02T22:00:00+00:00"),
        ("2026-01-02", "2026-01-01T22:00:00+00:00"),
        ("2026-01-02T03:04", "2026-01-02T01:04:00+00:00"),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05+00:00"),
    ],
)
def test_what_is_understood(text: str, expected: str) -> None:
    assert moment(text, NOW).isoformat() == expected


@pytest.mark.parametrize("text", ["", "soon", "2", "999999w", "2h ago", "2026-13-01", "0001-01-01T00:00+23:00"])
def test_what_is_not_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match="2h, yesterday"):
        typed(text)


def test_the_api_gets_utc() -> None:
    assert datetime.fromisoformat(typed("1h")).tzinfo == UTC


@pytest.mark.parametrize(("text", "expected"), [("45s", 45), ("30m", 1800), (" 2 H ", 7200), ("1d", 86_400)])
def test_lengths_of_time(text: str, expected: int) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "0m", "30", "an hour", "-1h", "1.5h"])
def test_what_is_no_length_of_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match="30m, 2h"):
        seconds(text)
