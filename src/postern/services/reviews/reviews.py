"""Reviews: listed, shown and decided by people; looked at, closed and settled by those who wait for them."""

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
    ReviewStatus,
    person_of,
)
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
    """A decision is in the store first; the signal only tells that it is there."""

    def __init__(
        self, store: ReviewStore, sessions: SessionStore, features: Features, signals: Signals, now: Clock
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._features = features
        self._signals = signals
        self._now = now

    async def find(self, principal: Principal, wanted: ReviewFilter, page: Page) -> Stretch[Review]:
        """Those that wait first, then the newest. Who is neither admin nor auditor sees their own, and those that they
        may review."""
        if not principal.sees_all:
            wanted = replace(wanted, mine=(principal.id, principal.groups))
        return await self._store.find(principal.org_id, wanted, page)

    async def find_waiting(self, principal: Principal, wanted: ReviewFilter, page: Page) -> Stretch[Review]:
        """Of those that wait, the ones that this principal may approve as they are now, and has not yet. They are few
        enough to be asked one by one, by what will decide."""
        wanted = replace(wanted, status=ReviewStatus.PENDING, groups=principal.groups)
        own_allowed = await self._features.is_enabled(principal.org_id, Feature.SELF_REVIEW)
        found = await self.find(principal, wanted, Page(limit=MAX_OF_ORGANISATION, count=Count.NONE))
        now = self._now()
        counted = [one for one in found.items if counts(one, principal, now, own_allowed=own_allowed)]
        after = page.after
        ahead = [one for one in counted if after is None or (one.created_at, one.id) < (after.at, after.id)]
        shown = ahead[page.offset : page.offset + page.limit]
        is_end = page.offset + page.limit >= len(ahead)
        following = None if is_end else Position(shown[-1].created_at, shown[-1].id)
        return Stretch(shown, None if page.count is Count.NONE else len(counted), next=following)

    async def get(self, principal: Principal, review_or_session_id: str) -> Review:
        """By its own id, or that of the session that waits for it or runs under it. Raises NotFound also when it is
        hidden from them."""
        found = await self._find(principal.org_id, review_or_session_id)
        if found is None or found.org_id != principal.org_id or not _sees(principal, found):
            raise NotFound(f"there is no review {review_or_session_id!r}, or you may not see it")
        return found

    async def decides(self, principal: Principal, session_id: UUID) -> bool:
        """Whether the principal is a reviewer of the review that the session waits for or runs under."""
        review = (await self._store.of_sessions(principal.org_id, [session_id])).get(session_id)
        return review is not None and review.may_review(principal.groups)

    async def script(self, review: Review) -> str | None:
        """What runs once a review that `get` gave is approved; None where it is about no script."""
        if review.kind is not ReviewKind.ONETIME or review.session_id is None:
            return None
        session = await self._sessions.get(review.org_id, review.session_id)
        return None if session is None else session.script

    async def of_sessions(self, principal: Principal, session_ids: Sequence[UUID]) -> Mapping[UUID, Review]:
        """The reviews under which these sessions run, or for which they wait. Who sees a session sees its review."""
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
        """The review as it is then: more may have to agree. `chat_id` is who they are in the chat that it came by.

        Raises NotFound, Invalid, Denied when they may not, Conflict when it is too late or they said it already.
        """
        comment = checked_text(comment, "comment")
        review = await self.get(principal, review_or_session_id)
        if principal.is_auditor:
            raise Denied("auditors read what others did, and decide on nothing")
        if choice is Choice.APPROVED:
            await self._features.require(principal.org_id, Feature.REVIEWS)
        own_allowed = await self._features.is_enabled(principal.org_id, Feature.SELF_REVIEW)
        ruling = Ruling(choice, self._now(), force, comment, time_window)

        def weighed(locked: Review, seats: Mapping[UUID, Seat]) -> Weighed:
            return weigh(locked, person_of(principal, chat_id), ruling, seats, own_allowed=own_allowed)

        moved = await self._store.decide(review.id, principal.id, weighed, ruling.at)
        record_change(_shown(review), _shown(moved.review))
        await signal_change(self._signals, moved)
        return moved.review

    async def withdraw(self, principal: Principal, review_or_session_id: str) -> Review:
        """By who asked. Ends what runs under it. Raises NotFound, Denied, and Conflict when nothing is left of it."""
        review = await self.get(principal, review_or_session_id)
        if review.binding.principal_id != principal.id:
            raise Denied("only who asked for a review may withdraw it; a reviewer rejects or revokes it")
        moved = await self._store.move(review.id, ReviewEvent.WITHDRAWN, self._now())
        if moved is None:
            now = await self._store.get(review.id) or review
            raise Conflict(f"this review cannot be withdrawn any more: {final_state_text(now)}")
        record_change(_shown(review), _shown(moved.review))
        await signal_change(self._signals, moved)
        return moved.review

    async def look(self, review_id: UUID) -> Review | None:
        """For whoever waits for it."""
        return await self._store.get(review_id)

    async def waiting(self, review_ids: Collection[UUID]) -> Collection[UUID]:
        """Those of them that wait for a decision, and may be decided on still. One statement, however many they are."""
        return await self._store.waiting(review_ids, self._now())

    async def close(self, review_id: UUID, event: ReviewEvent) -> Review | None:
        """By the worker that waits: it expired, or was withdrawn. What it is now where it was decided before that."""
        moved = await self._store.move(review_id, event, self._now())
        if moved is None:
            return await self._store.get(review_id)
        await signal_change(self._signals, moved)
        return None

    async def give_up(self, session: Session) -> bool:
        """Withdraws the review for which this session waits, or which it may run under and has not; False when that
        does not end it."""
        if session.review_id is None or session.worker is not None or session.status is SessionStatus.DONE:
            return False
        moved = await self._store.move(session.review_id, ReviewEvent.WITHDRAWN, self._now())
        if moved is None:
            return False
        await signal_change(self._signals, moved)
        return moved.session_ended and moved.review.session_id == session.id

    async def record_estimate(self, review_id: UUID, estimate: Mapping[str, object]) -> None:
        """What was counted about a statement, while it waits."""
        if await self._store.store_estimate(review_id, estimate):
            review = await self._store.get(review_id)
            if review is not None:
                await signal_review(self._signals, review)

    async def record_finish(self, session_id: UUID) -> None:
        """By a worker: the run of a reviewed script has ended."""
        await self._store.finish(session_id, self._now())

    async def settle(self) -> None:
        """What is over, and what no worker is there any more to close. And what is old goes."""
        now = self._now()
        for moved in await self._store.lapse(now):
            await signal_change(self._signals, moved)
        await self._store.prune(now - KEPT)

    async def _find(self, org_id: UUID, given: str) -> Review | None:
        try:
            key = UUID(given)
        except ValueError:
            return None
        return await self._store.get(key) or (await self._store.of_sessions(org_id, [key])).get(key)


def _sees(principal: Principal, review: Review) -> bool:
    if principal.sees_all or review.binding.principal_id == principal.id:
        return True
    return review.may_review(principal.groups)


def _shown(review: Review) -> dict[str, object]:
    """For the audit log: what was decided on, about whom, and by whom. What was asked is in the recording."""
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
