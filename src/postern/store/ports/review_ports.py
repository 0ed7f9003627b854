"""The stores of reviews and of the rules that ask for them."""

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
    ReviewEvent,
    ReviewKind,
    ReviewStatus,
)
from postern.domain.reviews.review_weighing import Seat, Weighed
from postern.domain.sessions.session import Session
from postern.domain.targets.command import NOTHING_ADDED, Invocation

# Called with the review's row locked, with who the reviewers are now; raises what `domain.review_weighing.weigh` does.
Weigh = Callable[[Review, Mapping[UUID, Seat]], Weighed]


@dataclass(frozen=True, slots=True)
class ReviewFilter:
    """All given conditions hold. `groups`: one that a member of any of these may review; `owner` is a principal.
    `mine` joins both: theirs to review or their own."""

    status: ReviewStatus | None = None
    kind: ReviewKind | None = None
    connection: str | None = None
    session_id: UUID | None = None
    owner: UUID | None = None
    groups: frozenset[str] | None = None
    mine: tuple[UUID, frozenset[str]] | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """A review that something happened to, as it is now. `session_ended`: it ended its session, which had not run."""

    review: Review
    session_ended: bool = False


@dataclass(frozen=True, slots=True)
class ReviewChange:
    """One thing to be told about a review. `kind` is `created`, `voiced` or a ReviewEvent."""

    id: UUID
    review: Review
    kind: str
    at: datetime


class ReviewStore(Protocol):
    async def add(
        self, review: Review, session: Session | None, *, source: str, invocation: Invocation = NOTHING_ADDED
    ) -> Review:
        """With the session that waits for it, if it is not there yet, and what that is started with: one transaction.
        For access (`jit`) the review that is found instead, without a new one, where one with the same binding and
        demands waits already, or gives as much since a moment ago; then `session` is not added. Raises TooMany, with
        the reason."""

    async def get(self, review_id: UUID) -> Review | None:
        """In whichever organisation."""

    async def waiting(self, review_ids: Collection[UUID], now: datetime) -> set[UUID]:
        """Those of them that wait, and whose deadline has not come. One statement."""

    async def of_sessions(self, org_id: UUID, session_ids: Sequence[UUID]) -> Mapping[UUID, Review]:
        """The reviews under which these sessions run, or for which they wait; not those of their statements."""

    async def find(self, org_id: UUID, wanted: ReviewFilter, page: Page) -> Stretch[Review]:
        """Newest first; those that wait come before all others."""

    async def grant(self, binding: Binding, demands: Sequence[ApprovalRequirement], now: datetime) -> Review | None:
        """Access that was given for exactly this binding by exactly these demands and has not ended; else one that
        still waits. One statement."""

    async def decide(self, review_id: UUID, reviewer_id: UUID, weigh: Weigh, at: datetime) -> Moved:
        """One transaction in which the review is locked, and its reviewers are read as they are. What becomes of the
        review becomes of the session that waits for it: APPROVED → ready, all that ends it → done. Sets `decided_at`,
        `revoke_at` from its access_duration, and the end of a script's approval. Raises NotFound, and what `weigh`
        raises: then nothing is changed."""

    async def move(self, review_id: UUID, event: ReviewEvent, at: datetime) -> Moved | None:
        """What is nobody's voice: expired, withdrawn, started, finished. Conditional: None when it was in no state for
        it, so of several that come at once one has it."""

    async def finish(self, session_id: UUID, at: datetime) -> None:
        """The script of this session has ended."""

    async def lapse(self, now: datetime) -> list[Moved]:
        """All that is over: deadlines, grants, approvals that nobody used, scripts whose session is done, statements
        whose session is done, and what waits or is given on a connection that was deleted."""

    async def store_estimate(self, review_id: UUID, estimate: Mapping[str, object]) -> bool:
        """Adds what was counted, while it waits."""

    async def makers(self, principal_id: UUID, credential_id: UUID | None) -> tuple[Person, ...]:
        """Who made the API keys of this principal, revoked or not, and this credential; not they themselves."""

    async def news(self, most: int) -> list[ReviewChange]:
        """What is yet to be told, the oldest first; FollowUpStore.tell_reviews tells it."""

    async def prune(self, before: datetime) -> None:
        """Deletes those that ended before that."""
