"""Timestamps and durations on the command line: one grammar for all commands."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import click
import pytest

from postern.cli.lazy import LazyGroup
from postern.cli.main import cli
from postern.cli.timestamps import day, duration, expiry, moment, parse_timestamp, seconds

NOW = datetime(2026, 3, 4, 1, 30, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2h", "2026-03-03T21:30:00+00:00"),
        ("2h ago", "2026-03-03T21:30:00+00:00"),
        ("8h", "2026-03-03T15:30:00+00:00"),
        ("1h30m", "2026-03-03T22:00:00+00:00"),
        ("1.5h", "2026-03-03T22:00:00+00:00"),
        ("30 m", "2026-03-03T23:00:00+00:00"),
        ("7d", "2026-02-24T23:30:00+00:00"),
        ("1w", "2026-02-24T23:30:00+00:00"),
        ("now", "2026-03-03T23:30:00+00:00"),
        ("today", "2026-03-03T22:00:00+00:00"),
        ("Yesterday", "2026-03-02T22:00:00+00:00"),
        ("2026-01-02", "2026-01-01T22:00:00+00:00"),
        ("2026-01-02T03:04", "2026-01-02T01:04:00+00:00"),
        ("2026-01-02 03:04", "2026-01-02T01:04:00+00:00"),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05+00:00"),
    ],
)
def test_timestamp_is_read_in_the_local_time_zone(text: str, expected: str) -> None:
    assert moment(text, NOW).isoformat() == expected


@pytest.mark.parametrize("text", ["", "soon", "2", "999999w", "in 2h", "2026-13-01", "0001-01-01T00:00+23:00"])
def test_text_that_is_not_a_timestamp_is_refused_with_examples(text: str) -> None:
    with pytest.raises(click.BadParameter, match="2h, 7d, yesterday"):
        parse_timestamp(text)


def test_timestamps_are_sent_in_utc() -> None:
    assert datetime.fromisoformat(parse_timestamp("1h")).tzinfo == UTC


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", 90),
        ("0", 0),
        ("45s", 45),
        ("30m", 1800),
        (" 2 H ", 7200),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("1d", 86_400),
    ],
)
def test_duration_is_seconds_or_numbers_with_units(text: str, expected: float) -> None:
    assert duration(text) == expected
    if expected:
        assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "an hour", "-1h", "1h ago", "1 hour", "h", "1e3"])
def test_text_that_is_not_a_duration_is_refused_with_examples(text: str) -> None:
    for read in (duration, seconds):
        with pytest.raises(click.BadParameter, match="45s, 30m"):
            read(text)


@pytest.mark.parametrize("text", ["0", "0m", "0.1s"])
def test_whole_seconds_are_at_least_one(text: str) -> None:
    with pytest.raises(click.BadParameter, match="too short"):
        seconds(text)


@pytest.mark.parametrize(("text", "days_ago"), [("today", 0), ("now", 0), ("yesterday", 1), ("7d", 7)])
def test_day_of_a_timestamp(text: str, days_ago: int) -> None:
    before = datetime.now().astimezone()
    found = day(text)
    after = datetime.now().astimezone()
    assert found in {(at - timedelta(days=days_ago)).date().isoformat() for at in (before, after)}
    assert day("2026-01-31") == "2026-01-31"


def test_expiry_lies_ahead() -> None:
    ahead = datetime.fromisoformat(expiry("30d")) - datetime.now(UTC)
    assert timedelta(days=29, hours=23) < ahead < timedelta(days=30, seconds=1)
    assert expiry("2999-01-31T00:00Z") == "2999-01-31T00:00:00+00:00"
    for text in ("2020-01-31", "0s", "yesterday"):
        with pytest.raises(click.BadParameter, match="in the past"):
            expiry(text)
    with pytest.raises(click.BadParameter, match="30d or 2026-01-31"):
        expiry("soon")


def options_of(command: click.Command, path: str) -> Iterator[tuple[str, click.Option]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from options_of(below, f"{path} {name}")
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield path, parameter


def test_every_since_and_until_takes_the_same_grammar() -> None:
    assert isinstance(cli, LazyGroup)
    found = [(path, option) for path, option in options_of(cli, "postern") if {"--since", "--until"} & set(option.opts)]
    assert len(found) >= 12
    for path, option in found:
        converted = option.type.convert("7d", option, None)
        assert str(converted)[:4].isdigit(), f"{path} {option.opts} does not take 7d"


def test_every_duration_takes_the_same_grammar() -> None:
    durations = {"--duration", "--longer", "--shorter", "--wait-review", "--seek", "--max-pause", "--overlap"}
    found = [(path, option) for path, option in options_of(cli, "postern") if durations & set(option.opts)]
    assert len(found) >= 7
    for path, option in found:
        assert option.type.convert("1h30m", option, None) == 5400, f"{path} {option.opts} does not take 1h30m"
