"""Reviewed scripts: each runs once, as it was reviewed, for the user who requested it."""

from __future__ import annotations

import logging
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Review, ReviewEvent, ReviewKind
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.permit import Permit
from postern.domain.sessions.session import Session
from postern.errors import Conflict, Denied, Unavailable
from postern.services.admission import Access
from postern.services.reviews.review_signals import signal_change
from postern.services.reviews.review_text import final_state_text, opening_time_text, time_text
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.review_ports import ReviewStore

log = logging.getLogger(__name__)


class ReviewedScripts:
    def __init__(self, store: ReviewStore, access: Access, signals: Signals, now: Clock) -> None:
        self._store = store
        self._access = access
        self._signals = signals
        self._now = now
        self._running: set[UUID] = set()  # sessions, in this process

    async def start(self, principal: Principal, session: Session) -> Review:
        """Let a worker claim the script; a second call does not run it again.

        Raises Denied for all but its owner, outside of its time window, and when they cannot use the connection
        now; Conflict when it is not ready to run.
        """
        review = None if session.review_id is None else await self._store.get(session.review_id)
        if review is None or review.kind is not ReviewKind.ONETIME or review.session_id != session.id:
            raise Conflict(f"session {session.id} is not a reviewed script, so there is nothing to run")
        if review.binding.principal_id != principal.id:
            raise Denied("only the owner of a reviewed script can run it")
        if review.status is not ReviewStatus.APPROVED:
            raise Conflict(f"this script cannot be run: its review is {review.status}, {final_state_text(review)}")
        if self._now() >= review.expires_at:
            raise Conflict(_too_late(review))
        self._require_window(review)
        await self._access.admit_reviewed(principal, review, runbook=session.runbook)
        moved = await self._store.move(review.id, ReviewEvent.STARTED, self._now())
        if moved is None:
            raise Conflict("this script can no longer be run: it was already started, or its approval has ended")
        await signal_change(self._signals, moved)
        return moved.review

    async def admit(self, session: Session, principal: Principal) -> Permit:
        """Admit a started script, for the worker that claimed it. Raises Denied, NotFound, Unavailable."""
        review = None if session.review_id is None else await self._store.get(session.review_id)
        if review is None or review.status is not ReviewStatus.PROCESSING or review.session_id != session.id:
            raise Denied("its review does not allow it to run")
        if self._now() >= review.expires_at:  # no worker took it in time
            raise Denied(_too_late(review))
        self._require_window(review)
        permit = await self._access.admit_reviewed(principal, review, runbook=session.runbook)
        self._running.add(session.id)
        return permit

    async def settle_session(self, session_id: UUID) -> None:
        """Finish the review of a script that ran here, when its session has ended.

        If the store does not answer now, a background job does it later.
        """
        if session_id not in self._running:
            return
        self._running.discard(session_id)
        try:
            await self._store.finish(session_id, self._now())
        except Unavailable as error:
            log.warning("review could not be closed yet: session=%s error=%s", session_id, error.message)

    def cannot_run(self, session_id: UUID) -> None:
        """Note that a claimed script was denied: the caller ends its session."""
        self._running.add(session_id)

    def _require_window(self, review: Review) -> None:
        window, now = review.time_window, self._now()
        if window is not None and not window.holds(now):
            raise Denied(f"this script cannot be run now: {opening_time_text(window, now)}")


def _too_late(review: Review) -> str:
    return f"this script can no longer be run: its approval expired at {time_text(review.expires_at)}"
