"""`postern reviews`: pending reviews, and decisions on them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.printing import as_text, emit, fields, json_option, local_time, span, table
from postern.cli.row_commands import long_paging_options, page_of, print_result, say_more
from postern.cli.scripts import review_wait
from postern.cli.scripts.review_wait import PAUSE, display_name, status_of
from postern.cli.session_ids import session_option
from postern.cli.status import Status, report_done
from postern.cli.timestamps import seconds
from postern.client.client import Client
from postern.client.client_shapes import ReviewShape, Row, RowPage
from postern.domain.reviews.review import Choice, ReviewKind
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.text import one_line, printable
from postern.errors import NotFound

_REASON = 40  # characters of it in a list
_PATH = ("reviews",)

_key = click.argument("review_id", metavar="ID", shell_complete=completion.reviews)


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def reviews(ctx: click.Context, as_json: bool) -> None:
    """List and decide reviews. ID is the id of a review, or of the session that waits for it.

    \b
    postern reviews list --for-me
    postern reviews request CONNECTION --duration 1h --reason "ticket 4711"
    postern reviews show ID
    postern reviews approve ID
    postern reviews approve ID --time-window 22:00-06:00 --time-zone Europe/Vienna
    postern reviews reject ID --comment "use the clean-up job"
    postern reviews revoke ID
    postern reviews watch
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, as_json=as_json, limit=20)


@reviews.command("list")
@click.option("--for-me", is_flag=True, help="Show only reviews that you can decide.")
@click.option("--mine", is_flag=True, help="Show only your own requests.")
@click.option(
    "--status",
    type=click.Choice([*map(str, ReviewStatus)], case_sensitive=False),
    help="Show only reviews in this state.",
)
@click.option("--type", "kind", type=click.Choice([*map(str, ReviewKind)]), help="Show only this type.")
@click.option("--connection", help="Show only reviews on this connection.", shell_complete=completion.connections)
@session_option("--session", metavar="ID", help="Show only reviews of this session.")
@long_paging_options
def list_(
    as_json: bool,
    limit: int,
    for_me: bool = False,
    mine: bool = False,
    status: str | None = None,
    kind: str | None = None,
    connection: str | None = None,
    session: str | None = None,
    offset: int = 0,
    cursor: str | None = None,
    every: bool = False,
) -> None:
    """List reviews: pending ones first, then the newest.

    Reviews with the status EXPIRED are shown as EXPIRED (not decided in time), ENDED (the access has expired) or
    UNUSED (a script was approved, but not run in time).
    """
    filters = {
        "waiting_for_me": "true" if for_me else None,
        "owner": "self" if mine else None,
        "status": status,
        "type": kind,
        "connection": connection,
        "session": session,
        "cursor": cursor,
    }
    with client() as api:
        page = page_of(api.collection(*_PATH), limit=limit, offset=offset, every=every, **filters)
    emit(page, as_json, _show_page)


def _show_page(page: RowPage) -> None:
    rows = [
        [
            review["id"],
            local_time(review["created_at"]),
            review["type"],
            status_of(review),
            review["connection"],
            display_name(review["owner"]),
            ", ".join(entry["group"] for entry in review["review_groups_data"] if entry["status"] == "PENDING"),
            one_line(review["reason"])[:_REASON],
        ]
        for review in page["data"]
    ]
    table(
        ["id", "requested", "type", "status", "connection", "requester", "waiting for", "reason"], rows, "No reviews."
    )
    say_more(page)


@reviews.command()
@_key
@json_option
def show(review_id: str, as_json: bool) -> None:
    """Show a review: the requester, the reason, the approvals it needs and those it has."""
    with client() as api:
        emit(api.reviews.get(review_id), as_json, _show)


def _show(review: ReviewShape) -> None:
    fields(
        [
            ("review", review["id"]),
            ("type", review["type"]),
            ("status", status_of(review)),
            ("connection", review["connection"]),
            ("requested by", display_name(review["owner"])),
            ("client", _client(review)),
            ("reason", review["reason"]),
            ("requested", local_time(review["created_at"])),
            ("expires", local_time(review["expires_at"]) if review["status"] in ("PENDING", "APPROVED") else None),
            ("decided", local_time(review["decided_at"]) if review["decided_at"] else None),
            ("access", span(review["access_duration"]) if review["access_duration"] else None),
            ("access ends", local_time(review["revoke_at"]) if review["revoke_at"] else None),
            ("time window", _window(review["time_window"])),
            ("forced", review["forced"] or None),
            ("self-approved", review["self_approved"] or None),
            ("withdrawn", review.get("withdrawal_reason") or None),
            ("session", review["session"]),
            ("page", review["url"]),
        ]
    )
    for demand in review["demands"]:
        click.echo(_demand(demand))
    for voice in review["voices"]:
        click.echo(_voice(voice))
    for line in (review["estimate"] or {}).get("said") or ():
        click.echo(one_line(f"rows: {line}"))
    for text in (review["input"], review["script"]):  # the script comes last, because it can be long
        if text:
            click.echo()
            click.echo(printable(text))


def _client(review: ReviewShape) -> str | None:
    """Return the client that it is for; None from gateways of earlier versions, which do not send it."""
    if not review.get("client_address"):
        return None
    credential = review.get("credential")
    means = f", with credential {credential['username']} ({credential['id']})" if credential else ""
    return f"{review['client_address']}{means}" + (", requested in advance" if review.get("in_advance") else "")


def _window(window: Row | None) -> str | None:
    if window is None:
        return None
    at = window["configuration"]
    return f"{at['start_time']} to {at['end_time']} {at.get('time_zone', 'UTC')}"


def _demand(demand: Row) -> str:
    rule = f"rule {demand['rule']}" if demand["rule"] else "the connection's reviewers"
    each = ", each of them" if demand["all_groups_must_approve"] and len(demand["groups"]) > 1 else ""
    met = "is met" if demand["is_met"] else f"has {demand['approvals']} of {demand['min_approvals']}"
    forced = demand["force_approval_groups"]
    alone = f"; {', '.join(forced)} can approve alone with --force" if forced else ""
    return one_line(f"needs: {', '.join(demand['groups'])}{each} ({rule}) {met}{alone}")


def _voice(voice: Row) -> str:
    how = [mark for mark, is_so in (("forced", voice["forced_review"]), ("own", voice["self_approved"])) if is_so]
    marked = f" ({', '.join(how)})" if how else ""
    comment = f": {voice['comment']}" if voice["comment"] else ""
    at = local_time(voice["review_date"])
    return one_line(f"{voice['status'].lower()} by {display_name(voice['reviewed_by'])}{marked} at {at}{comment}")


def _time_window(meaning: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --time-window, with its time zone."""
    zone = click.option(
        "--time-zone", metavar="ZONE", help="Time zone of --time-window, such as Europe/Vienna.  [default: UTC]"
    )
    window = click.option("--time-window", metavar="HH:MM-HH:MM", help=meaning)
    return lambda command: window(zone(command))


@reviews.command()
@click.argument("connection", shell_complete=completion.connections)
@click.option(
    "--duration", type=seconds, metavar="TIME", help="How long you need access: 30m, 2h. The access can end earlier."
)
@_time_window("Hours of each day within which you need it, such as 22:00-06:00. Reviewers can set others.")
@click.option("--reason", default="", help="Reason, shown to the reviewers.")
@click.option(
    "--credential",
    metavar="ID",
    help="Request it for this credential of yours (`postern credentials list`), instead of `postern connect`.",
)
@click.option("--wait", is_flag=True, help="Wait for the decision.")
@json_option
def request(
    connection: str,
    duration: int | None,
    time_window: str | None,
    time_zone: str | None,
    reason: str,
    credential: str | None,
    wait: bool,
    as_json: bool,
) -> None:
    """Request access to a connection before you connect.

    Once it is approved, `postern connect` works without waiting, from this machine and with this login, until the
    access ends. An SSH client or another machine needs a review of its own; so does a credential, unless --credential
    names it.

    Exit codes: 0 approved, or no approval is required; 7 pending; 8 rejected, revoked or expired; 9 withdrawn.

    \b
    postern reviews request orders --duration 1h --reason "ticket 4711"
    postern reviews request orders --wait && postern connect orders
    """
    window = _typed_window(time_window, time_zone)
    with client() as api:
        review = api.reviews.request(
            connection, reason=reason, duration=duration, time_window=window, credential_id=credential
        )
        if review is not None and wait:
            review = review_wait.wait_for_access(api, review, quiet=as_json)
    if as_json:
        print_result({"required": review is not None, "review": review}, True, "")
    elif review is None:
        report_done(f"No approval is required: {_next_step(connection, credential)}.")
    else:
        _tell_access(review, credential)
    sys.exit(review_wait.access_code(review))


def _next_step(connection: str, credential: str | None) -> str:
    return "connect with this credential now" if credential else f"run `postern connect {connection}` now"


def _tell_access(review: ReviewShape, credential: str | None) -> None:
    if review["status"] == ReviewStatus.PENDING:
        review_wait.print_lines(*review_wait.access_lines(review))
    elif _is_approved(review):
        until = local_time(review["revoke_at"])
        report_done(one_line(f"Approved until {until}: {_next_step(review['connection'], credential)}."))
    else:
        review_wait.print_lines(review_wait.outcome_line(review), status=Status.ERROR)


@reviews.command()
@_key
@click.option("--force", is_flag=True, help="Approve alone, as a member of a force group.")
@_time_window("Allow use only within these hours of each day, such as 22:00-06:00.")
@click.option("--comment", default="", help="Comment, shown to the requester.")
@json_option
def approve(
    review_id: str, force: bool, time_window: str | None, time_zone: str | None, comment: str, as_json: bool
) -> None:
    """Approve a review. Each reviewer counts once. You cannot approve your own request, unless the feature self-review
    is on.

    \b
    postern reviews approve ID
    postern reviews approve ID --force --comment "outage, ticket 4711"
    postern reviews approve ID --time-window 22:00-06:00 --time-zone Europe/Vienna
    """
    window = _typed_window(time_window, time_zone)
    _decide(review_id, Choice.APPROVED, as_json, comment=comment, force=force, time_window=window)


@reviews.command()
@_key
@click.option("--comment", default="", help="Reason, shown to the requester.")
@json_option
def reject(review_id: str, comment: str, as_json: bool) -> None:
    """Reject a review. This is final."""
    _decide(review_id, Choice.REJECTED, as_json, comment=comment)


@reviews.command()
@_key
@click.option("--comment", default="", help="Reason, shown to the requester.")
@json_option
def revoke(review_id: str, comment: str, as_json: bool) -> None:
    """Revoke an approval. Sessions that depend on it end at once."""
    _decide(review_id, Choice.REVOKED, as_json, comment=comment)


@reviews.command()
@_key
@json_option
def withdraw(review_id: str, as_json: bool) -> None:
    """Withdraw your own review. Access that it gave ends."""
    with client() as api:
        review = api.reviews.withdraw(review_id)
    print_result(review, as_json, _became(review))


def _decide(review_id: str, choice: Choice, as_json: bool, **how: Any) -> None:
    with client() as api:
        review = api.reviews.decide(review_id, choice, **how)
    print_result(review, as_json, _became(review))


def _became(review: ReviewShape) -> str:
    what = f"{review['type']} of {display_name(review['owner'])} on {review['connection']}"
    if review["status"] == ReviewStatus.PENDING:
        missing = [entry["group"] for entry in review["review_groups_data"] if entry["status"] == "PENDING"]
        return one_line(f"Recorded: {what} still waits for {', '.join(missing) or 'another reviewer'}.")
    until = f" until {local_time(review['revoke_at'])}" if review["revoke_at"] and _is_approved(review) else ""
    return one_line(f"{review['status'].capitalize()}: {what}{until}.")


def _is_approved(review: ReviewShape) -> bool:
    return review["status"] == ReviewStatus.APPROVED


def _typed_window(window: str | None, zone: str | None) -> Row | None:
    """Return the window as the API has it, which checks it."""
    if window is None:
        if zone is not None:
            raise click.UsageError("--time-zone needs --time-window")
        return None
    start, dash, end = window.partition("-")
    if not dash:
        raise click.UsageError("--time-window: write it as 22:00-06:00")
    configuration = {"start_time": start.strip(), "end_time": end.strip(), "time_zone": zone or "UTC"}
    return {"type": "time_range", "configuration": configuration}


@reviews.command()
@click.option("--all", "every", is_flag=True, help="Also show reviews that only others can decide.")
@click.option("--json", "as_json", is_flag=True, help="Print each review as one line of JSON.")
def watch(every: bool, as_json: bool) -> None:
    """Show new reviews that you can decide, and their outcome, until Ctrl-C.

    \b
    postern reviews watch
    postern reviews watch --json | jq -r .url
    """
    with client() as api:
        for review in changes(api, every=every):
            click.echo(as_text(review) if as_json else _line(review))


def changes(api: Client, *, every: bool, sleep: Callable[[float], None] = time.sleep) -> Iterator[ReviewShape]:
    """Yield each pending review once, and again when it is decided. Asks every two seconds."""
    known_ids: set[str] = set()
    filters: dict[str, str | None] = {"status": "PENDING"} if every else {"waiting_for_me": "true"}
    while True:
        waiting = {shape["id"]: shape for shape in api.reviews.all(**filters)}
        for gone in sorted(known_ids - waiting.keys()):
            with suppress(NotFound):  # it ended with its session, or is now for other reviewers
                yield api.reviews.get(gone)
        yield from (review_shape for key, review_shape in waiting.items() if key not in known_ids)
        known_ids = set(waiting)
        sleep(PAUSE)


def _line(review: ReviewShape) -> str:
    what = f"{review['id']}  {review['type']} on {review['connection']}"
    why = f": {review['reason']}" if review["reason"] else ""
    state = f"{local_time(review['created_at'])}  {status_of(review)}"
    return one_line(f"{state}  {what} by {display_name(review['owner'])}{why}")
