"""What people write about a review, and what others are told of one."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import datetime

from postern.domain.review import MAX_REASON, Demand, Review, ReviewStatus
from postern.domain.time_window import TimeWindow
from postern.errors import Invalid

_REFUSED = frozenset({"Cc", "Cs", "Zl", "Zp"})
# They make a text read otherwise than it is written.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def check_words(text: str, field: str) -> str:
    """What is shown to others as it is: one line. Raises Invalid."""
    if len(text) > MAX_REASON:
        raise Invalid(f"{field}: at most {MAX_REASON} characters", field=field)
    if any(sign in _BIDI or unicodedata.category(sign) in _REFUSED for sign in text):
        raise Invalid(f"{field}: no control characters, and none that change the direction of writing", field=field)
    return text


def who(demands: Sequence[Demand]) -> str:
    """Whom they ask for."""
    return ", ".join(dict.fromkeys(group for demand in demands for group in demand.groups)) or "nobody"


def opens(window: TimeWindow, now: datetime) -> str:
    return f"it may be used from {window}, next at {moment(window.opens_at(now))}"


def over(review: Review) -> str:
    """Why what was asked for is not given, or not given any more."""
    by = review.refusal
    said = f" by {by.reviewer.email}" + (f": {by.comment}" if by.comment else "") if by is not None else ""
    return {
        ReviewStatus.PENDING: f"it waits for {who(review.demands)}",
        ReviewStatus.APPROVED: "it is approved",
        ReviewStatus.REJECTED: f"it was rejected{said}",
        ReviewStatus.REVOKED: f"it was revoked{said}",
        ReviewStatus.EXPIRED: "it has expired",
        ReviewStatus.WITHDRAWN: "it was withdrawn",
        ReviewStatus.PROCESSING: "it is being run",
        ReviewStatus.EXECUTED: "it has been run, which it may once",
    }[review.status]


def moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")
