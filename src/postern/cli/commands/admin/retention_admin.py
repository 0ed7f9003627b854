from __future__ import annotations

from typing import Any
from urllib.parse import quote

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.printing import emit, json_option, local_time, table
from postern.cli.row_commands import confirm, print_result, yes_option
from postern.client.client import Client
from postern.client.client_shapes import Row

_PATH = "retention"
_FOR_EVER = "forever"
_CONNECTION = click.option(
    "--connection",
    help="Set it for this connection.  [default: for the organisation]",
    shell_complete=completion.connections,
)


class _Days(click.ParamType[tuple[int | None]]):
    """Convert `90`, `90d`, `2y` or `forever`. The value is a pair, because "not given" differs from "forever"."""

    name = "DAYS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int | None]:
        if isinstance(value, tuple):
            return value
        if value == _FOR_EVER:
            return (None,)
        number, unit = (value[:-1], value[-1]) if value[-1:] in ("d", "y") else (value, "d")
        if not number.isascii() or not number.isdigit() or not 1 <= len(number) <= 6:
            self.fail(f"{value!r} is not a retention period; write 90, 90d, 2y or {_FOR_EVER}", param, ctx)
        return (int(number) * (365 if unit == "y" else 1),)


@click.group()
def retention() -> None:
    """Show and set how long recordings and sessions are kept. Older ones are purged.

    \b
    postern admin retention show
    postern admin retention set --recordings 90 --sessions 2y --dry-run
    postern admin retention set --recordings 90 --sessions 2y
    postern admin retention set --connection shop --recordings forever --sessions forever
    postern admin retention inherit --connection shop
    """


@retention.command()
@_CONNECTION
@json_option
def show(connection: str | None, as_json: bool) -> None:
    """Show the retention that is set, the retention in force, and when a shorter one takes effect."""
    with client() as api:
        if connection is not None:
            settings = [api.http.call("GET", _path(connection))]
        else:
            settings = [api.http.call("GET", f"/{_PATH}"), *api.http.call("GET", f"/{_PATH}/connections")["data"]]
    emit(settings, as_json, _show)


def _path(connection: str | None) -> str:
    return f"/{_PATH}" if connection is None else f"/{_PATH}/connections/{quote(connection, safe='')}"


def _show(settings: list[Row]) -> None:
    rows = [
        [
            setting["connection"] or "(organisation)",
            _days(setting["recording_days"]) if setting["is_own"] else "-",
            _days(setting["session_days"]) if setting["is_own"] else "-",
            _both(setting["in_force"]),
            local_time(setting["effective_at"]),
        ]
        for setting in settings
    ]
    table(["connection", "recordings", "sessions", "in force", "changes at"], rows, "")


def _days(days: int | None) -> str:
    return "forever" if days is None else f"{days} days"


def _both(setting: Row) -> str:
    return f"{_days(setting['recording_days'])} / {_days(setting['session_days'])}"


@retention.command("set")
@_CONNECTION
@click.option(
    "--recordings", required=True, type=_Days(), metavar="DAYS", help="How long to keep recordings: 90, 2y or forever."
)
@click.option(
    "--sessions",
    required=True,
    type=_Days(),
    metavar="DAYS",
    help="How long to keep sessions, at least as long as recordings: 90, 2y or forever.",
)
@click.option("--dry-run", is_flag=True, help="Only show what this would purge now.")
@yes_option
@json_option
def set_(
    connection: str | None,
    recordings: tuple[int | None],
    sessions: tuple[int | None],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Set how long recordings and sessions are kept, counted from the end of the session.

    A shorter retention takes effect after a day; until then you can set it back without loss.
    """
    body = {"recording_days": recordings[0], "session_days": sessions[0]}
    with client() as api:
        if dry_run:
            emit(_preview(api, body, connection), as_json, _show_preview)
            return
        if not yes:
            _show_preview(_preview(api, body, connection), err=True)
            confirm("Set this retention?", yes)
        setting = api.http.call("PUT", _path(connection), body=body)
    print_result(setting, as_json, _describe_setting(setting))


def _preview(api: Client, body: dict[str, int | None], connection: str | None) -> Row:
    preview: Row = api.http.call("GET", f"/{_PATH}/preview", query={**body, "connection": connection})
    return preview


def _show_preview(preview: Row, *, err: bool = False) -> None:
    if not preview["recordings"] and not preview["sessions"]:
        click.echo("This would purge nothing now.", err=err)
    else:
        click.echo(
            f"This would now purge {preview['recordings']} recordings ({preview['stored_size'] / 1e6:.1f} MB) and "
            f"{preview['sessions']} sessions; the oldest is from {local_time(preview['oldest'])}.",
            err=err,
        )
    if preview["held"]:
        click.echo(f"{preview['held']} more are under legal hold and are kept.", err=err)


def _describe_setting(row: Row) -> str:
    scope = row["connection"] or "the organisation"
    if row["effective_at"]:
        return (
            f"Set for {scope}. It takes effect at {local_time(row['effective_at'])}. Until then "
            f"{_both(row['in_force'])} applies, and you can set it back without loss."
        )
    return f"Set for {scope}: {_both(row['in_force'])} (recordings / sessions)."


@retention.command()
@click.option(
    "--connection", required=True, help="The connection, by name or id.", shell_complete=completion.connections
)
@json_option
def inherit(connection: str, as_json: bool) -> None:
    """Use the organisation's retention for a connection again. A shorter retention takes effect after a day."""
    with client() as api:
        setting = api.http.call("DELETE", _path(connection))
    print_result(setting, as_json, _describe_setting(setting))
