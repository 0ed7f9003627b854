from __future__ import annotations

from typing import Any

import click

from postern.cli import completion, timeline
from postern.cli.api import client
from postern.cli.commands.session_views import export, replay_, watch
from postern.cli.output import duration, emit, fields, json_option, local_time, table
from postern.cli.rows import told
from postern.client.shapes import Session, SessionPage

_OUTPUT = 64 * 1024  # bytes of what was shown of each exchange


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def sessions(ctx: click.Context, as_json: bool) -> None:
    """List sessions, show what happened in one, watch, replay, export or end one.

    \b
    postern sessions
    postern sessions list --connection shop-demo --status open
    postern sessions show ID
    postern sessions show ID --output
    postern sessions watch ID
    postern sessions replay ID --speed 4 --max-pause 2s
    postern sessions export ID --format asciicast -o session.cast
    postern sessions kill ID
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, as_json=as_json)


@sessions.command("list")
@click.option("--connection", help="Only those on this connection.")
@click.option("--user", help="Only those of this user (e-mail).")
@click.option("--verb", type=click.Choice(["connect", "exec"]), help="Only native sessions, or only scripts.")
@click.option("--status", type=click.Choice(["open", "ready", "done"]), help="Only those in this state.")
@click.option("--since", "start_date", metavar="TIME", help="Only those that began at this time or later (ISO 8601).")
@click.option("--until", "end_date", metavar="TIME", help="Only those that began at this time or earlier (ISO 8601).")
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True)
@click.option("--offset", type=click.IntRange(0), default=0, show_default=True)
@json_option
def list_(as_json: bool, **filters: Any) -> None:
    """List sessions, newest first."""
    with client() as api:
        page = api.sessions.list(**filters)
    emit(page, as_json, _show_page)


def _show_page(page: SessionPage) -> None:
    rows = [
        [
            one["id"],
            local_time(one["start_date"]),
            duration(one["start_date"], one["end_date"]),
            one["user"],
            one["connection"],
            one["verb"],
            one["status"],
        ]
        for one in page["data"]
    ]
    table(["id", "started", "duration", "user", "connection", "verb", "status"], rows, "No sessions.")
    if page["has_next_page"]:
        click.echo(f"{page['total']} in all; go on with --offset", err=True)


@sessions.command()
@click.argument("session_id", metavar="ID", shell_complete=completion.sessions)
@click.option("--output", "with_output", is_flag=True, help="Show the output, too, as the user saw it.")
@json_option
def show(session_id: str, with_output: bool, as_json: bool) -> None:
    """Show what happened in a session: when, what was asked, what came of it."""
    with client() as api:
        if as_json:
            emit(api.sessions.get(session_id, expand=True), True, lambda _: None)
            return
        _show(api.sessions.get(session_id))
        click.echo()
        happened = api.sessions.timeline(session_id, output=_OUTPUT if with_output else 0)
        if not timeline.show(happened, with_output=with_output):
            click.echo("Nothing was asked.", err=True)


def _show(one: Session) -> None:
    metadata, metrics = one.get("metadata") or {}, one.get("metrics") or {}
    masked = (metrics.get("data_masking") or {}).get("info_types")
    fields(
        [
            ("session", one["id"]),
            ("status", one["status"]),
            ("user", one["user"]),
            ("connection", f"{one['connection']} ({one['connection_subtype']})"),
            ("started", local_time(one["start_date"])),
            ("duration", duration(one["start_date"], one["end_date"])),
            ("ended by", metadata.get("end_reason")),
            ("exit code", one["exit_code"]),
            ("masked", masked),
            ("refused", metrics.get("refused") or None),
            ("script", (one.get("script") or {}).get("data")),
        ]
    )


@sessions.command()
@click.argument("session_id", metavar="ID", shell_complete=completion.sessions)
@json_option
def kill(session_id: str, as_json: bool) -> None:
    """End a running session."""
    with client() as api:
        api.sessions.kill(session_id)
    told({"ended": session_id}, as_json, f"Ended session {session_id}.")


for _command in (watch, replay_, export):
    sessions.add_command(_command)
