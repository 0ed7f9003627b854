from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from postern.cli import completion, timestamps
from postern.cli.api import client
from postern.cli.commands.sessions.session_hook_commands import hooks
from postern.cli.commands.sessions.session_keeping_commands import legal_hold, purge, purges
from postern.cli.commands.sessions.session_proof_commands import proof
from postern.cli.commands.sessions.session_view_commands import export, replay_, watch
from postern.cli.lazy import STILL_RUNS, AliasGroup
from postern.cli.printing import as_text, duration, emit, fields, json_option, local_time, span, table
from postern.cli.row_commands import print_result, say_more
from postern.cli.scripts.review_wait import display_name, status_of
from postern.cli.session_ids import session_argument
from postern.cli.status import report_note
from postern.cli.terminal import terminal_timeline
from postern.client.client import Client
from postern.client.client_shapes import ReviewShape, SessionPage, SessionShape
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.sessions.session import EndReason, SessionStatus, Verb
from postern.domain.text import one_line
from postern.errors import NotFound

KILL_PATIENCE = 10.0  # seconds that `kill` waits for the end
_LOOKS = 0.3  # seconds between two requests
_OUTPUT = 64 * 1024  # bytes of the output of each exchange


_ALIASES = {"hold": "legal-hold add", "release": "legal-hold remove", "holds": "legal-hold list"}  # of earlier versions


@click.group(cls=AliasGroup, aliases=_ALIASES, invoke_without_command=True)
@json_option
@click.pass_context
def sessions(ctx: click.Context, as_json: bool) -> None:
    """List, search, show, watch, replay, export, hold, purge and end sessions, and verify exports.

    \b
    postern sessions
    postern sessions list --connection shop-demo --status open
    postern sessions list --user ann@example.com --since yesterday
    postern sessions search '"drop table"' --since 2d
    postern sessions show ID
    postern sessions show ID --output
    postern sessions watch ID
    postern sessions replay ID --speed 4 --max-pause 2s
    postern sessions export ID --format asciicast -o session.cast
    postern sessions legal-hold add ID --name "case A" --reason "court order"
    postern sessions hooks ID
    postern sessions kill ID
    postern sessions proof ID --verify
    postern sessions verify EXPORT --key FILE
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, as_json=as_json, limit=20)


def _filters(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(
        (
            click.option(
                "--connection", help="Show only sessions on this connection.", shell_complete=completion.connections
            ),
            click.option("--user", help="Show only sessions of this user (e-mail).", shell_complete=completion.users),
            click.option("--type", help="Show only sessions on connections of this type."),
            click.option("--subtype", help="Show only sessions on connections of this subtype."),
            click.option(
                "--verb", type=click.Choice([*map(str, Verb)]), help="Show only native sessions, or only scripts."
            ),
            click.option(
                "--status", type=click.Choice([*map(str, SessionStatus)]), help="Show only sessions in this state."
            ),
            click.option(
                "--end-reason",
                type=click.Choice([*map(str, EndReason)]),
                help="Show only sessions that ended for this reason.",
            ),
            click.option(
                "--since",
                "start_date",
                type=timestamps.parse_timestamp,
                metavar="TIME",
                help="Show only sessions that began at or after this time: 2h, 7d, yesterday, 2026-01-31.",
            ),
            click.option(
                "--until",
                "end_date",
                type=timestamps.parse_timestamp,
                metavar="TIME",
                help="Show only sessions that began at or before this time.",
            ),
            click.option(
                "--longer",
                "min_duration",
                metavar="DURATION",
                type=timestamps.duration,
                help="Show only sessions that took longer: 30s, 5m.",
            ),
            click.option(
                "--shorter",
                "max_duration",
                metavar="DURATION",
                type=timestamps.duration,
                help="Show only sessions that took less time: 30s, 5m.",
            ),
            click.option(
                "--label", metavar="KEY:VALUE", multiple=True, help="Show only sessions with this label. Repeatable."
            ),
            click.option(
                "--metadata",
                metavar="KEY:VALUE",
                multiple=True,
                help="Show only sessions with this metadata. Repeatable.",
            ),
            click.option(
                "--tag",
                "tag_selector",
                metavar="KEY=VALUE",
                help="Show only sessions on connections that had this tag.",
            ),
            click.option("--correlation-id", help="Show only sessions with this correlation id."),
            click.option("--issue", metavar="KEY", help="Show only sessions for which this issue was opened."),
            click.option(
                "--refused/--not-refused",
                default=None,
                help="Show only sessions with denied operations, or without.",
            ),
            click.option(
                "--masked/--not-masked",
                default=None,
                help="Show only sessions with masked values, or without.",
            ),
            click.option(
                "--held/--not-held",
                default=None,
                help="Show only sessions under legal hold, or not; for administrators.",
            ),
            click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True),
            click.option("--cursor", help="Continue after the page that printed this cursor."),
            click.option("--all", "every", is_flag=True, help="Print all pages, each session as one line of JSON."),
            json_option,
        )
    ):
        command = option(command)
    return command


@sessions.command("list")
@_filters
@click.option("--search", metavar="WORDS", help="Show only sessions with this in their input; see `sessions search`.")
@click.option("--offset", type=click.IntRange(0), default=None, help="Skip this many; --cursor is faster.")
def list_(as_json: bool, every: bool, **filters: Any) -> None:
    """List sessions, newest first."""
    _list(as_json, every, filters)


@sessions.command()
@click.argument("words", nargs=-1, required=True)
@_filters
def search(words: tuple[str, ...], as_json: bool, every: bool, **filters: Any) -> None:
    """Search sessions by their input, newest first. A session can be found some seconds after it ended.

    \b
    postern sessions search drop customers      both words
    postern sessions search '"drop table"'      the words in this order
    postern sessions search 'cust*'             words that begin with this
    postern sessions search drop -- -audit      without the word audit
    """
    _list(as_json, every, {**filters, "search": " ".join(words), "expand": "matches"})


def _list(as_json: bool, every: bool, filters: dict[str, Any]) -> None:
    with client() as api:
        if every:
            for shape in api.sessions.each(**filters):
                click.echo(as_text(shape))
            return
        page = api.sessions.list(**filters)
    emit(page, as_json, _show_page)


def _show_page(page: SessionPage) -> None:
    rows = [
        [
            session_shape["id"],
            local_time(session_shape["start_date"]),
            duration(session_shape["start_date"], session_shape["end_date"]),
            session_shape["user"],
            session_shape["connection"],
            session_shape["verb"],
            _status(session_shape),
        ]
        for session_shape in page["data"]
    ]
    if any(session.get("matches") for session in page["data"]):
        for row, shape in zip(rows, page["data"], strict=True):
            _print_session(row, shape)
    else:
        table(["id", "started", "duration", "user", "connection", "verb", "status"], rows, "No sessions.")
    say_more(page)


def _print_session(row: list[str], session: SessionShape) -> None:
    """Print a session, and below it the places where the words occur."""
    click.echo("  ".join(one_line(cell) for cell in row))
    for match in session.get("matches") or ():
        click.echo(f"{span(match['time'] / 1000):>12}  {one_line(match['text'])}")


@sessions.command()
@session_argument()
@click.option("--output", "with_output", is_flag=True, help="Show the output, too, as the user saw it.")
@json_option
def show(session_id: str, with_output: bool, as_json: bool) -> None:
    """Show a session: its times, its input and the results."""
    with client() as api:
        if as_json:
            shape = api.sessions.get(session_id)
            if not shape.get("recording_purged_at"):
                shape = api.sessions.get(session_id, expand=True)
            emit(shape, True, lambda _: None)
            return
        session_shape = api.sessions.get(session_id)
        _show(session_shape)
        if session_shape.get("recording_purged_at"):
            return
        click.echo()
        happened = api.sessions.timeline(session_id, output=_OUTPUT if with_output else 0)
        try:
            if not terminal_timeline.show(happened, with_output=with_output):
                report_note("There was no input.")
        except NotFound:  # it has not begun, or ended before it began
            report_note("Nothing was recorded.")


def _show(session: SessionShape) -> None:
    metadata, metrics = session.get("metadata") or {}, session.get("metrics") or {}
    masked = (metrics.get("data_masking") or {}).get("info_types")
    fields(
        [
            ("session", session["id"]),
            ("status", _status(session)),
            ("user", session["user"]),
            ("connection", f"{session['connection']} ({session['connection_subtype']})"),
            ("started", local_time(session["start_date"])),
            ("duration", duration(session["start_date"], session["end_date"])),
            ("ended by", _join_parts(metadata.get("end_reason"), metadata.get("end_detail"))),
            ("exit code", session["exit_code"]),
            *_review_fields(session.get("review")),
            ("masked", masked),
            ("denied", metrics.get("refused") or None),
            ("recording", _describe_purge(session.get("recording_purged_at"))),
            ("held", session.get("held") or None),
            ("script", (session.get("script") or {}).get("data")),
        ]
    )


def _status(session: SessionShape) -> str:
    """Return the outcome of an ended session, or what it waits for."""
    review = session.get("review")
    if session["status"] == SessionStatus.OPEN and review is not None and review["status"] == ReviewStatus.PENDING:
        return "waiting for review"
    return session.get("outcome") or session["status"]


def _review_fields(review: ReviewShape | None) -> list[tuple[str, Any]]:
    if review is None:
        return []
    decisions = [
        f"{display_name(voice['reviewed_by'])} ({_join_parts(voice['status'].lower(), voice['comment'])})"
        for voice in review["voices"]
    ]
    return [
        ("review", f"{review['id']} ({status_of(review).lower()})"),
        ("review reason", review["reason"]),
        ("reviewers", [entry["group"] for entry in review["review_groups_data"]]),
        ("reviewed by", decisions),
    ]


def _join_parts(*parts: str | None) -> str | None:
    return ": ".join(part for part in parts if part) or None


def _describe_purge(at: str | None) -> str | None:
    return None if at is None else f"purged at {local_time(at)}"


@sessions.command()
@session_argument()
@json_option
def kill(session_id: str, as_json: bool) -> None:
    """End a running session, and wait until it has ended.

    The exit code is 10 if the session still runs after 10 seconds. The gateway ends it as soon as possible.
    """
    with client() as api:
        api.sessions.kill(session_id)
        has_ended = _wait_for_end(api, session_id)
    if has_ended:
        print_result({"ended": session_id}, as_json, f"Ended session {session_id}.")
        return
    text = (
        f"Session {session_id} is still running; the gateway ends it as soon as possible. Check it with "
        f"`postern sessions show {session_id}`."
    )
    print_result({"requested": session_id, "status": "open"}, as_json, text)
    sys.exit(STILL_RUNS)


def _wait_for_end(api: Client, session_id: str) -> bool:
    deadline = time.monotonic() + KILL_PATIENCE
    while api.sessions.get(session_id)["status"] != SessionStatus.DONE:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOKS)
    return True


@sessions.command()
@click.argument("path", metavar="EXPORT", type=click.Path(path_type=Path))
@click.option("--key", "keys", multiple=True, required=True, metavar="FILE", help="Public key that you stored (PEM).")
@click.option(
    "--checkpoint", "anchored", multiple=True, metavar="FILE", help="File with checkpoints that an anchor stored."
)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def verify(path: Path, keys: tuple[str, ...], anchored: tuple[str, ...], as_json: bool) -> None:
    """Verify an export. Needs only the file and the public key.

    Prints what is proven, what is not, and what was changed, removed, added or cut off. The export is a file or a
    folder that `postern recordings export` wrote. The exit code is 1 if anything was found.

    \b
    postern sessions verify may.tar --key ledger.pem
    postern sessions verify may.tar --key ledger.pem --checkpoint anchors.jsonl
    """
    # Only this command needs the import; listing sessions stays fast.
    from postern.cli import proofs
    from postern.proof.export_reading import verify_package

    public_keys, lines = proofs.read_keys(keys), proofs.read_anchors(anchored)
    report = verify_package(path, public_keys, lines, proofs.counter("MiB"))
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        proofs.show(report)
    if not report.is_good:
        raise SystemExit(1)


for _command in (watch, replay_, export, hooks, legal_hold, purge, purges, proof):
    sessions.add_command(_command)
