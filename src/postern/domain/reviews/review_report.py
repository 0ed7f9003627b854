"""Statistics of reviews: how many were requested, their outcomes, and waiting times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from statistics import median

from postern.domain.reviews.review import ReviewKind
from postern.domain.reviews.review_status import ReviewStatus


class ReviewsBy(StrEnum):
    CONNECTION = "connection"
    GROUP = "group"  # a review that several groups review is a review of each
    KIND = "kind"


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A review in a report. `decided_at`: when it was approved or rejected, None for neither."""

    kind: ReviewKind
    status: ReviewStatus
    connection: str
    groups: tuple[str, ...]
    created_at: datetime
    decided_at: datetime | None
    forced: bool
    own: bool

    @property
    def was_approved(self) -> bool:
        return self.decided_at is not None and self.status is not ReviewStatus.REJECTED

    def keys(self, by: ReviewsBy) -> tuple[str, ...]:
        if by is ReviewsBy.GROUP:
            return self.groups
        return (self.connection,) if by is ReviewsBy.CONNECTION else (str(self.kind),)


@dataclass(frozen=True, slots=True)
class ReviewSums:
    """Sums of `asked` reviews: `approved`, whatever became of it later, `rejected`, `waiting` yet; the others ended
    undecided.

    `forced` were approved by one person alone, `own` by their owner. Seconds are from request to decision, None where
    nothing was decided.
    """

    asked: int
    waiting: int
    approved: int
    rejected: int
    expired: int
    withdrawn: int
    revoked: int
    forced: int
    own: int
    median_seconds: float | None
    longest_seconds: float | None


def sums_of(reviews: Iterable[Reviewed]) -> ReviewSums:
    rows = list(reviews)
    undecided = [row.status for row in rows if row.decided_at is None]
    waits = [(row.decided_at - row.created_at).total_seconds() for row in rows if row.decided_at is not None]
    return ReviewSums(
        asked=len(rows),
        waiting=undecided.count(ReviewStatus.PENDING),
        approved=sum(row.was_approved for row in rows),
        rejected=sum(row.status is ReviewStatus.REJECTED for row in rows),
        expired=undecided.count(ReviewStatus.EXPIRED),
        withdrawn=undecided.count(ReviewStatus.WITHDRAWN),
        revoked=sum(row.status is ReviewStatus.REVOKED for row in rows),
        forced=sum(row.forced for row in rows),
        own=sum(row.own for row in rows),
        median_seconds=median(waits) if waits else None,
        longest_seconds=max(waits, default=None),
    )


def group_reviews(reviews: Iterable[Reviewed], by: ReviewsBy) -> list[tuple[str, ReviewSums]]:
    """Return groups by the number of requests, largest first."""
    lines: dict[str, list[Reviewed]] = {}
    for review in reviews:
        for key in review.keys(by):
            lines.setdefault(key, []).append(review)
    return sorted(((key, sums_of(items)) for key, items in lines.items()), key=lambda line: (-line[1].asked, line[0]))
