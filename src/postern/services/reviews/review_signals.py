"""Signals of changed reviews to every process. The store has the change already."""

from __future__ import annotations

from postern.domain.reviews.review import Review
from postern.store.ports.common_ports import Signals, Topic
from postern.store.ports.review_ports import Moved


async def signal_change(signals: Signals, moved: Moved) -> None:
    await signal_review(signals, moved.review)
    if moved.session_ended and moved.review.session_id is not None:
        await signals.publish(Topic.SESSION_DONE, session_id=str(moved.review.session_id))


async def signal_review(signals: Signals, review: Review) -> None:
    payload = {
        "review_id": str(review.id),
        "status": str(review.status),
        "principal_id": str(review.binding.principal_id),
    }
    if review.session_id is not None:
        payload["session_id"] = str(review.session_id)
    await signals.publish(Topic.REVIEW_CHANGED, **payload)
