from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.printing import emit, json_option, span, table
from postern.cli.row_commands import print_result
from postern.cli.status import report_note
from postern.cli.timestamps import day
from postern.client.client_shapes import Row

_GROUPS = ("user", "connection", "type", "subtype", "verb")


@click.group()
def reports() -> None:
    """Show reports: masked values, sessions and reviews over time.

    \b
    postern reports sessions --group-by user --since 2026-01-01 --until 2026-02-01
    postern reports activity --by week --time-zone Europe/Berlin
    postern reports activity --by hour --connection shop-demo
    postern reports reviews --group-by group
    """


def _days(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--time-zone", help="Time zone of the days, such as Europe/Berlin.  [default: UTC]"),
        click.option(
            "--until",
            "end_date",
            type=day,
            metavar="DATE",
            help="End of the period: the day after the last one, such as 2026-02-01.",
        ),
        click.option(
            "--since",
            "start_date",
            type=day,
            metavar="DATE",
            help="Start of the period, the first day: 7d, 2026-01-01.",
        ),
    ):
        command = option(command)
    return command


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        json_option,
        click.option(
            "--verb", type=click.Choice(["connect", "exec"]), help="Show only native sessions, or only scripts."
        ),
        click.option("--type", help="Show only connections of this type."),
        click.option("--connection", help="Show only this connection (name).", shell_complete=completion.connections),
        click.option("--user", help="Show only this user (e-mail).", shell_complete=completion.users),
    ):
        command = option(command)
    return _days(command)


@reports.command()
@click.option("--group-by", type=click.Choice(["id", *_GROUPS]), default="connection", show_default=True)
@click.option("--id", help="Show only this session.")
@click.option("--limit", type=click.IntRange(1, 100), default=50, show_default=True)
@click.option("--offset", type=click.IntRange(0), default=0, show_default=True)
@_options
def sessions(as_json: bool, **query: Any) -> None:
    """Show how many values were masked, by information type. The default period is today."""
    with client() as api:
        report = api.reports.masking(**query)
    emit(report, as_json, _show_masking)


def _show_masking(report: Row) -> None:
    rows = [[item["resource"], item["info_type"], item["redact_total"]] for item in report["items"]]
    table([report["group_by"], "information type", "masked"], rows, "Nothing was masked.")
    if report["has_next_page"]:
        report_note(f"{report['total']} rows in total; continue with --offset")


@reports.command()
@click.option("--by", type=click.Choice(["hour", "day", "week", "month"]), default="day", show_default=True)
@click.option("--group-by", type=click.Choice(_GROUPS), help="Group by this; one line for each.")
@_options
def activity(as_json: bool, **query: Any) -> None:
    """Show sessions, and how many were denied, over time. The default period is the last 30 days."""
    with client() as api:
        report = api.reports.activity(**query)
    emit(report, as_json, _show_activity)


def _show_activity(report: Row) -> None:
    titles = ["start", "sessions", "failed", "killed", "operations", "denied", "masked", "duration"]
    grouped = [report["group_by"]] if report["group_by"] else []
    rows = [
        [_start(item["start"], report["by"]), *([item["group"]] if grouped else []), *_numbers(item)]
        for item in report["items"]
    ]
    table([titles[0], *grouped, *titles[1:]], rows, "No sessions.")


def _start(text: str, by: str) -> str:
    """Return the time in the report's time zone, as the API answers it."""
    return text[:16].replace("T", " ") if by == "hour" else text[:10]


def _numbers(item: Row) -> list[Any]:
    names = ("sessions", "failed", "killed", "operations", "refused", "masked")
    return [*(item[name] for name in names), span(item["duration_ms"] / 1000) if item["duration_ms"] else "-"]


@reports.command()
@click.option("--group-by", type=click.Choice(["connection", "group", "kind"]), default="connection", show_default=True)
@_days
@json_option
def reviews(as_json: bool, **query: Any) -> None:
    """Show the outcome of reviews, and how long they waited for a decision. The default period is the last 30 days."""
    with client() as api:
        report = api.reports.reviews(**query)
    emit(report, as_json, _show_reviews)


def _show_reviews(report: Row) -> None:
    names = ("asked", "waiting", "approved", "rejected", "expired", "withdrawn", "revoked", "forced", "own")
    rows = [
        [
            item["resource"],
            *(item[name] for name in names),
            _wait(item["median_seconds"]),
            _wait(item["longest_seconds"]),
        ]
        for item in report["items"]
    ]
    table([report["group_by"], *names, "median", "longest"], rows, "No reviews.")


def _wait(seconds: float | None) -> str:
    return "-" if seconds is None else span(seconds)


@reports.command()
@json_option
def rebuild(as_json: bool) -> None:
    """Recount all ended sessions, in the background; for administrators."""
    with client() as api:
        api.reports.rebuild()
    print_result({}, as_json, "All ended sessions are being recounted.")
