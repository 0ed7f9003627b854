"""Waiting for reviews: messages for a script that needs a review, how it continues, and how it ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from postern.cli.lazy import REFUSED, WAITS, WITHDRAWN
from postern.cli.printing import local_time
from postern.cli.progress import ProgressLine
from postern.cli.status import Status, report
from postern.client.client import Client
from postern.client.client_shapes import ExecResult, ReviewShape, Row
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.text import one_line
from postern.errors import Conflict, Unavailable

WAITING = "waiting"  # an output_status
INTERRUPTED = 130  # the exit code: 128 + SIGINT
PAUSE = 2.0  # seconds between two requests; a decision by a person takes longer
_CODES = {
    ReviewStatus.REJECTED: REFUSED,
    ReviewStatus.REVOKED: REFUSED,
    ReviewStatus.EXPIRED: REFUSED,
    ReviewStatus.WITHDRAWN: WITHDRAWN,
}


_EXPIRIES = {
    "EXPIRED": "has expired: it was not decided in time; submit it again",
    "ENDED": "was approved, and the access has expired; request it again",
    "UNUSED": "was approved, but not run in time; submit it again",
}


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for the decision, in `seconds`; None is as long as the review does. `quiet`: print nothing about
    it."""

    seconds: float | None = None
    quiet: bool = False


def run_when_approved(
    api: Client, result: ExecResult, progress: ProgressLine, patience: Patience, begin_wait: int
) -> ExecResult:
    """Wait for the decision on a script, and run it when it is approved: then wait `begin_wait` seconds for its end.
    Return `waiting` if patience has run out; otherwise how the script, or its review, ended."""
    review, session_id = result.get("review"), result["session_id"]
    if review is None:
        return result
    if patience.seconds != 0 and review["status"] == ReviewStatus.PENDING:
        if not patience.quiet:
            progress.end()
            ask(review, session_id)
        with ProgressLine(f"waiting for {missing_approvals(review)}", quiet=patience.quiet, after=0):
            review = _wait_for_decision(api, review, patience.seconds)
    if review["status"] == ReviewStatus.PENDING:
        return {**result, "review": review}
    if review["status"] == ReviewStatus.APPROVED:
        if not patience.quiet:
            report(Status.INFO, "approved; running")
        return _run(api, session_id, begin_wait)
    return api.sessions.execution(session_id, wait=begin_wait)


def _run(api: Client, session_id: str, begin_wait: int) -> ExecResult:
    try:
        return api.sessions.run_reviewed(session_id, wait=begin_wait)
    except Conflict:
        result = api.sessions.execution(session_id, wait=begin_wait)
        if result["output_status"] == WAITING:
            raise
        return result  # another `--resume` was faster


def exit_code(result: ExecResult) -> int | None:
    """Return the outcome of the review; None if the script itself determines it."""
    review = result.get("review")
    if review is None:
        return None
    if result["output_status"] == WAITING:
        return WAITS
    return _CODES.get(ReviewStatus(review["status"]))


def ask(review: ReviewShape, session_id: str) -> None:
    """Print the required approvers, and where they decide."""
    print_lines(
        f"this needs approval: {missing_approvals(review)}",
        f"approvers decide at {review['url']} or with `postern reviews approve {review['id']}`",
        f"it waits until {local_time(review['expires_at'])}; Ctrl-C stops waiting and leaves the review, "
        f"and `postern exec --resume {session_id}` continues",
    )


def print_outcome(result: ExecResult) -> None:
    """Print how the review ended, or that it is still pending."""
    review = result.get("review")
    if review is None:
        return
    session_id = result["session_id"]
    if result["output_status"] == WAITING:
        if review["status"] == ReviewStatus.PENDING:
            ask(review, session_id)
        else:
            print_lines(f"approved, but not run yet; `postern exec --resume {session_id}` runs it")
        return
    print_lines(outcome_line(review), status=Status.ERROR)


def status_of(review: ReviewShape | Row) -> str:
    """Return the status for users: of an expired review whether access ended, the script was not run, or it was not
    decided."""
    outcome = review.get("outcome")  # gateways of earlier versions do not send it
    return str(outcome).upper() if outcome and review["status"] == ReviewStatus.EXPIRED else str(review["status"])


def outcome_line(review: ReviewShape) -> str:
    """Return how a review ended, with the reviewer that rejected it and the reason."""
    refused = [voice for voice in review["voices"] if voice["status"] != ReviewStatus.APPROVED]
    by = "".join(f" by {display_name(voice['reviewed_by'])}" for voice in refused)
    reason = review["rejection_reason"] or review.get("withdrawal_reason")
    why = f": {reason}" if reason else ""
    status = status_of(review)
    what = _EXPIRIES.get(status) or f"is {status}"
    return f"review {review['id']} {what}{by}{why}"


def access_lines(review: ReviewShape) -> list[str]:
    """Print the required approvers of a review of access, and where they decide."""
    return [
        f"access to {review['connection']} needs approval: {missing_approvals(review)}",
        f"approvers decide at {review['url']} or with `postern reviews approve {review['id']}`",
        f"it waits until {local_time(review['expires_at'])}; `postern reviews withdraw {review['id']}` withdraws it",
    ]


def wait_for_access(api: Client, review: ReviewShape, *, quiet: bool = False) -> ReviewShape:
    """Wait until a review of access is decided; print the required approvers, unless `quiet`. Ctrl-C leaves
    it pending."""
    if review["status"] != ReviewStatus.PENDING:
        return review
    if not quiet:
        print_lines(*access_lines(review))
    try:
        with ProgressLine(f"waiting for {missing_approvals(review)}", quiet=quiet, after=0):
            return _wait_for_decision(api, review, None)
    except KeyboardInterrupt:
        if not quiet:
            print_lines(f"stopped waiting; review {review['id']} is still pending")
        sys.exit(INTERRUPTED)


def access_code(review: ReviewShape | None) -> int:
    """Return the exit code for a review of access; None if no approval is required."""
    if review is None or review["status"] == ReviewStatus.APPROVED:
        return 0
    return WAITS if review["status"] == ReviewStatus.PENDING else _CODES[ReviewStatus(review["status"])]


def print_lines(*lines: str, status: Status = Status.INFO) -> None:
    """Print on standard error. Text of others cannot control the terminal."""
    for line in lines:
        report(status, one_line(line))


def missing_approvals(review: ReviewShape) -> str:
    """Return the approvals that are missing, such as `2 of dba, security; each of audit, legal`."""
    return (
        "; ".join(_describe_demand(demand) for demand in review["demands"] if not demand["is_met"])
        or "no further approval"
    )


def display_name(user: dict[str, Any]) -> str:
    """Return a user's e-mail address, or their name if there is none."""
    return str(user["email"] or user["name"] or user["id"])


def _describe_demand(demand: dict[str, Any]) -> str:
    groups: Sequence[str] = demand["groups"]
    missing = max(demand["min_approvals"] - demand["approvals"], 1)
    if demand["all_groups_must_approve"] and len(groups) > 1:
        return f"each of {', '.join(groups)}"
    return f"{missing} of {', '.join(groups)}"


def _wait_for_decision(api: Client, review: ReviewShape, seconds: float | None) -> ReviewShape:
    """Ask again even if the gateway is unavailable for a while: the review waits in its store."""
    end = None if seconds is None else time.monotonic() + seconds
    while review["status"] == ReviewStatus.PENDING:
        left = PAUSE if end is None else end - time.monotonic()
        if left <= 0:
            break
        time.sleep(min(PAUSE, left))
        with suppress(Unavailable):
            review = api.reviews.get(review["id"])
    return review
