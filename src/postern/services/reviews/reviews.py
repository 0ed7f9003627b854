"""Reviews: listed, shown and decided by users; polled, closed and settled by waiting processes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from postern.domain.features import Feature
from postern.domain.identity.principal import Principal
from postern.domain.lists import Count, Page, Position, Stretch
from postern.domain.reviews.review import (
    KEPT,
    MAX_OF_ORGANISATION,
    Choice,
    Review,
    ReviewEvent,
    ReviewKind,
    person_of,
)
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.review_weighing import Ruling, Seat, Weighed, counts, weigh
from postern.domain.reviews.time_window import TimeWindow
from postern.domain.sessions.session import Session, SessionStatus
from postern.errors import Conflict, Denied, NotFound
from postern.services.reviews.review_signals import signal_change, signal_review
from postern.services.reviews.review_text import checked_text, final_state_text
from postern.services.server.audit_context import record_change
from postern.services.server.server_features import Features
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.review_ports import ReviewFilter, ReviewStore
from postern.store.ports.target_ports import SessionStore

__all__ = ["ReviewFilter", "Reviews"]


class Reviews:
    """A decision is stored first; the signal only announces it."""

    def __init__(
        self, store: ReviewStore, sessions: SessionStore, features: Features, signals: Signals, now: Clock
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._features = features
        self._signals = signals
        self._now = now

    async def find(self, principal: Principal, where: ReviewFilter, page: Page) -> Stretch[Review]:
        """Return reviews, pending ones first, then the newest.

        Users who are neither admin nor auditor see their own, and those that they can review.
        """
        if not principal.sees_all:
            where = replace(where, mine=(principal.id, principal.groups))
        return await self._store.find(principal.org_id, where, page)

    async def find_waiting(self, principal: Principal, where: ReviewFilter, page: Page) -> Stretch[Review]:
        """Return the pending reviews that this principal can approve now, and has not yet.

        They are few enough to check one by one, by the code that decides.
        """
        where = replace(where, status=ReviewStatus.PENDING, groups=principal.groups)
        own_allowed = await self._features.is_enabled(principal.org_id, Feature.SELF_REVIEW)
        stretch = await self.find(principal, where, Page(limit=MAX_OF_ORGANISATION, count=Count.NONE))
        now = self._now()
        counted = [item for item in stretch.items if counts(item, principal, now, own_allowed=own_allowed)]
        after = page.after
        ahead = [review for review in counted if after is None or (review.created_at, review.id) < (after.at, after.id)]
        reviews = ahead[page.offset : page.offset + page.limit]
        is_end = page.offset + page.limit >= len(ahead)
        following = None if is_end else Position(reviews[-1].created_at, reviews[-1].id)
        return Stretch(reviews, None if page.count is Count.NONE else len(counted), next=following)

    async def get(self, principal: Principal, review_or_session_id: str) -> Review:
        """Return a review by its own id, or that of its session. Raises NotFound also when it is hidden from them."""
        review = await self._find(principal.org_id, review_or_session_id)
        if review is None or review.org_id != principal.org_id or not _sees(principal, review):
            raise NotFound(f"there is no review {review_or_session_id!r}, or you cannot see it")
        return review

    async def decides(self, principal: Principal, session_id: UUID) -> bool:
        """Return whether the principal is a reviewer of the session's review."""
        review = (await self._store.of_sessions(principal.org_id, [session_id])).get(session_id)
        return review is not None and review.may_review(principal.groups)

    async def script(self, review: Review) -> str | None:
        """Return the script that runs after approval of a review that `get` returned; None where there is none."""
        if review.kind is not ReviewKind.ONETIME or review.session_id is None:
            return None
        session = await self._sessions.get(review.org_id, review.session_id)
        return None if session is None else session.script

    async def of_sessions(self, principal: Principal, session_ids: Sequence[UUID]) -> Mapping[UUID, Review]:
        """Return the reviews of these sessions. A principal that sees a session sees its review."""
        return await self._store.of_sessions(principal.org_id, session_ids)

    async def decide(
        self,
        principal: Principal,
        review_or_session_id: str,
        choice: Choice,
        *,
        force: bool = False,
        comment: str = "",
        time_window: TimeWindow | None = None,
        chat_id: str = "",
    ) -> Review:
        """Record a decision and return the review's new state: more approvals may be required.

        `chat_id` is the user's account in the chat that it came by. Raises NotFound, Invalid, Denied when they cannot
        decide, Conflict when it is too late or they decided before.
        """
        comment = checked_text(comment, "comment")
        review = await self.get(principal, review_or_session_id)
        if principal.is_auditor:
            raise Denied("auditors can read what others did, but cannot decide")
        if choice is Choice.APPROVED:
            await self._features.require(principal.org_id, Feature.REVIEWS)
        own_allowed = await self._features.is_enabled(principal.org_id, Feature.SELF_REVIEW)
        ruling = Ruling(choice, self._now(), force, comment, time_window)

        def weigh_locked(locked: Review, seats: Mapping[UUID, Seat]) -> Weighed:
            return weigh(locked, person_of(principal, chat_id), ruling, seats, own_allowed=own_allowed)

        moved = await self._store.decide(review.id, principal.id, weigh_locked, ruling.at)
        record_change(_audit_fields(review), _audit_fields(moved.review))
        await signal_change(self._signals, moved)
        return moved.review

    async def withdraw(self, principal: Principal, review_or_session_id: str) -> Review:
        """Withdraw a review, as its owner, and end what runs under it. Raises NotFound, Denied, and Conflict when it is
        over."""
        review = await self.get(principal, review_or_session_id)
        if review.binding.principal_id != principal.id:
            raise Denied("only the owner of a review can withdraw it; reviewers reject or revoke it")
        moved = await self._store.move(review.id, ReviewEvent.WITHDRAWN, self._now())
        if moved is None:
            now = await self._store.get(review.id) or review
            raise Conflict(f"this review cannot be withdrawn any more: {final_state_text(now)}")
        record_change(_audit_fields(review), _audit_fields(moved.review))
        await signal_change(self._signals, moved)
        return moved.review

    async def look(self, review_id: UUID) -> Review | None:
        """Return the review, for a process that waits for it."""
        return await self._store.get(review_id)

    async def waiting(self, review_ids: Collection[UUID]) -> Collection[UUID]:
        """Return those that are still pending. One statement, however many they are."""
        return await self._store.waiting(review_ids, self._now())

    async def close(self, review_id: UUID, event: ReviewEvent) -> Review | None:
        """Close a review as the worker that waits: it expired, or was withdrawn. Return its state where it was decided
        before."""
        moved = await self._store.move(review_id, event, self._now())
        if moved is None:
            return await self._store.get(review_id)
        await signal_change(self._signals, moved)
        return None

    async def give_up(self, session: Session) -> bool:
        """Withdraw the review for which this session waits, or under which it has not run yet; return whether that
        ended it."""
        if session.review_id is None or session.worker is not None or session.status is SessionStatus.DONE:
            return False
        moved = await self._store.move(session.review_id, ReviewEvent.WITHDRAWN, self._now())
        if moved is None:
            return False
        await signal_change(self._signals, moved)
        return moved.session_ended and moved.review.session_id == session.id

    async def record_estimate(self, review_id: UUID, estimate: Mapping[str, object]) -> None:
        """Store the row estimate of a pending statement."""
        if await self._store.store_estimate(review_id, estimate):
            review = await self._store.get(review_id)
            if review is not None:
                await signal_review(self._signals, review)

    async def record_finish(self, session_id: UUID) -> None:
        """Record that the run of a reviewed script has ended."""
        await self._store.finish(session_id, self._now())

    async def settle(self) -> None:
        """Close what has expired, and what its worker can no longer close; delete what is old."""
        now = self._now()
        for moved in await self._store.lapse(now):
            await signal_change(self._signals, moved)
        await self._store.prune(now - KEPT)

    async def _find(self, org_id: UUID, review_or_session_id: str) -> Review | None:
        try:
            key = UUID(review_or_session_id)
        except ValueError:
            return None
        return await self._store.get(key) or (await self._store.of_sessions(org_id, [key])).get(key)


def _sees(principal: Principal, review: Review) -> bool:
    if principal.sees_all or review.binding.principal_id == principal.id:
        return True
    return review.may_review(principal.groups)


def _audit_fields(review: Review) -> dict[str, object]:
    """Return the audited fields: what was decided, and by whom. The statement itself is in the recording."""
    return {
        "id": review.id,
        "kind": review.kind,
        "status": review.status,
        "session_id": review.session_id,
        "connection": review.connection,
        "owner": review.owner.email,
        "rules": [demand.rule for demand in review.demands if demand.rule],
        "revoke_at": review.revoke_at,
        "time_window": None if review.time_window is None else str(review.time_window),
        "voices": [
            {
                "by": voice.reviewer.email,
                "choice": voice.choice,
                "groups": sorted(voice.groups),
                "forced": voice.forced,
                "own": voice.own,
                "comment": voice.comment,
            }
            for voice in review.voices
        ],
    }
