"""The stores of reviews and review rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from postern.domain.lists import Page, Stretch
from postern.domain.reviews.review import (
    ApprovalRequirement,
    Binding,
    Person,
    Review,
    ReviewedCredential,
    ReviewEvent,
    ReviewKind,
)
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.review_weighing import Seat, Weighed
from postern.domain.sessions.session import Session
from postern.domain.targets.command import NOTHING_ADDED, Invocation

# Called with the review, whose row is locked, and the seats of its reviewers. Raises the errors of
# `domain.review_weighing.weigh`.
Weigh = Callable[[Review, Mapping[UUID, Seat]], Weighed]


@dataclass(frozen=True, slots=True)
class ReviewFilter:
    """All given conditions apply. `groups`: a member of one of these can review; `owner` is a principal. `mine`
    joins both: theirs to review or their own."""

    status: ReviewStatus | None = None
    kind: ReviewKind | None = None
    connection: str | None = None
    session_id: UUID | None = None
    owner: UUID | None = None
    groups: frozenset[str] | None = None
    mine: tuple[UUID, frozenset[str]] | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """A changed review. `session_ended`: the change ended its session, which had not run."""

    review: Review
    session_ended: bool = False


@dataclass(frozen=True, slots=True)
class ReviewChange:
    """One change of a review to announce. `kind` is `created`, `voiced` or a ReviewEvent."""

    id: UUID
    review: Review
    kind: str
    at: datetime


class ReviewStore(Protocol):
    async def add(
        self, review: Review, session: Session | None, *, source: str, invocation: Invocation = NOTHING_ADDED
    ) -> Review:
        """Add a review with the session that waits for it, if it is new, and its invocation, in one transaction.

        For access (`jit`) return an existing review with the same binding and requirements instead, if one is pending
        or was approved a moment ago for as much; then `session` is not added. Raises TooMany, with the reason.
        """

    async def get(self, review_id: UUID) -> Review | None:
        """Return the review, of any organisation."""

    async def waiting(self, review_ids: Collection[UUID], now: datetime) -> set[UUID]:
        """Return the pending ones before their deadline. One statement."""

    async def of_sessions(self, org_id: UUID, session_ids: Sequence[UUID]) -> Mapping[UUID, Review]:
        """Return the reviews of these sessions, not those of their statements."""

    async def find(self, org_id: UUID, criteria: ReviewFilter, page: Page) -> Stretch[Review]:
        """Return reviews, pending ones first, then the newest."""

    async def grant(self, binding: Binding, demands: Sequence[ApprovalRequirement], now: datetime) -> Review | None:
        """Return live access with exactly this binding and these requirements, else a pending one. One statement."""

    async def decide(self, review_id: UUID, reviewer_id: UUID, weigh: Weigh, at: datetime) -> Moved:
        """Lock the review, read its current reviewers, and apply the decision, in one transaction.

        The session that waits for it follows: APPROVED → ready, all final states → done. Sets `decided_at`, `revoke_at`
        from its access_duration, and the end of a script's approval. Raises NotFound, and what `weigh` raises: then
        nothing changes.
        """

    async def move(self, review_id: UUID, event: ReviewEvent, at: datetime) -> Moved | None:
        """Apply an event that is not a vote: expired, withdrawn, started, finished.

        None when the state does not allow it, so of concurrent calls one succeeds.
        """

    async def finish(self, session_id: UUID, at: datetime) -> None:
        """Record that the script of this session has ended."""

    async def lapse(self, now: datetime) -> list[Moved]:
        """Close all that has expired: deadlines, grants, unused approvals, scripts and statements whose session is
        done, reviews of deleted connections, and pending reviews of credentials that are no longer valid."""

    async def withdraw_unusable(self, now: datetime, credential_id: UUID | None = None) -> list[Moved]:
        """Withdraw pending reviews whose credential was revoked or deleted, or has expired: those of this credential,
        or of all. Such a review can no longer be approved either."""

    async def find_credential(self, credential_id: UUID) -> ReviewedCredential | None:
        """Return the credential, valid or not."""

    async def store_estimate(self, review_id: UUID, estimate: Mapping[str, object]) -> bool:
        """Store the row estimate, while it is pending."""

    async def makers(self, principal_id: UUID, credential_id: UUID | None) -> tuple[Person, ...]:
        """Return the creators of this principal's API keys, revoked or not, and of this credential. The principal
        itself is not among them."""

    async def news(self, most: int) -> list[ReviewChange]:
        """Return changes without events, the oldest first; PostprocessingStore.queue_review_events queues them."""

    async def prune(self, before: datetime) -> None:
        """Delete those that ended before that."""
