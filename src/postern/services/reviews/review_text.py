"""Texts that users write about a review, and texts that describe one."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime

from postern.domain.reviews.review import MAX_REASON, ApprovalRequirement, Review, ReviewOutcome
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.time_window import TimeWindow
from postern.errors import Invalid

_REFUSED = frozenset({"Cc", "Cs", "Zl", "Zp"})
# They change the order in which a text is displayed.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def checked_text(text: str, field: str) -> str:
    """Return a text for others to read: one line, with blanks for the line breaks that forms allow. Raises Invalid."""
    text = text.replace("\r\n", " ").replace("\n", " ").strip()
    if len(text) > MAX_REASON:
        raise Invalid(f"{field}: at most {MAX_REASON} characters", field=field)
    if any(sign in _BIDI or unicodedata.category(sign) in _REFUSED for sign in text):
        raise Invalid(
            f"{field}: control characters and characters that change the text direction are not allowed", field=field
        )
    return text


def requirements_text(demands: Sequence[ApprovalRequirement]) -> str:
    """Describe the required approvers."""
    return ", and ".join(map(_in_words, demands))


def _in_words(demand: ApprovalRequirement) -> str:
    groups = [repr(name) for name in demand.groups]
    members = "1 member" if demand.min_approvals == 1 else f"{demand.min_approvals} members"
    if not groups:
        who = "no eligible approver remains"
    elif demand.all_groups and len(groups) > 1:
        who = f"one member of each of the groups {' and '.join(groups)} must approve"
        who += f", {members} in total" if demand.min_approvals > len(groups) else ""
    else:
        who = f"{members} of the group{'s' if len(groups) > 1 else ''} {' or '.join(groups)} must approve"
    if demand.force_groups:
        who += f", or force it as a member of {' or '.join(map(repr, demand.force_groups))}"
    return who + (f" (rule {demand.rule!r})" if demand.rule else " (the connection's reviewers)")


def opening_time_text(window: TimeWindow, now: datetime) -> str:
    return f"it can be used from {window}, next at {time_text(window.opens_at(now))}"


_EXPIRIES: Mapping[ReviewOutcome | None, str] = {
    ReviewOutcome.ENDED: "the access that it gave has expired",
    ReviewOutcome.UNUSED: "it was approved, but was not run in time",
}


def final_state_text(review: Review) -> str:
    """Describe why the requested access is not given, or not any more."""
    by = review.refusal
    reviewer_text = f" by {by.reviewer.email}" + (f": {by.comment}" if by.comment else "") if by is not None else ""
    return {
        ReviewStatus.PENDING: f"it is pending: {requirements_text(review.demands)}",
        ReviewStatus.APPROVED: "it is approved",
        ReviewStatus.REJECTED: f"it was rejected{reviewer_text}",
        ReviewStatus.REVOKED: f"it was revoked{reviewer_text}",
        ReviewStatus.EXPIRED: _EXPIRIES.get(review.outcome, "it was not decided in time"),
        ReviewStatus.WITHDRAWN: ": ".join(filter(None, ("it was withdrawn", review.withdrawal_reason))),
        ReviewStatus.PROCESSING: "it is running",
        ReviewStatus.EXECUTED: "it has already run, and can run only once",
    }[review.status]


def time_text(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")
