"""Polling of the reviews that this worker waits for: after a signal, and in rounds, because a signal may be lost.

review.changed ───────────────▶ its event is set at once
every few seconds, and when
signals resumed ─▶ a round ─▶ one statement finds which reviews are still pending; the events of the others are set
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from uuid import UUID

from postern.errors import PosternError
from postern.services.reviews.reviews import Reviews
from postern.store.ports.common_ports import Signals, Topic

log = logging.getLogger(__name__)

EVERY = 3.0  # average seconds from one round to the next


class ReviewPoller:
    """The poller. A round is one statement, however many reviews are pending, and rounds never overlap. An event may be
    set without a change."""

    def __init__(self, reviews: Reviews, signals: Signals) -> None:
        self._reviews = reviews
        self._events: dict[UUID, asyncio.Event] = {}
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        signals.subscribe(Topic.REVIEW_CHANGED, self._on_changed)
        signals.subscribe(Topic.RESUMED, self._on_resumed)

    @contextmanager
    def at(self, review_id: UUID) -> Iterator[asyncio.Event]:
        """Provide the event for a review. It is set at first, because the review may have been decided since it was
        read. For one waiter at a time."""
        event = self._events[review_id] = asyncio.Event()
        event.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._rounds())
        try:
            yield event
        finally:
            if self._events.get(review_id) is event:  # otherwise there is a new waiter, and this one ends late
                del self._events[review_id]
            if not self._events and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _rounds(self) -> None:
        while True:
            self._hurry.clear()
            try:
                async with asyncio.timeout(pause()):
                    await self._hurry.wait()
            except TimeoutError:
                pass
            review_ids = list(self._events)
            try:
                waiting = await self._reviews.waiting(review_ids)
            except PosternError as error:
                log.warning("reviews could not be read and stay pending: %s", error.message)
                continue
            except Exception:
                log.exception("reviews could not be read and stay pending")
                continue
            for review_id in review_ids:
                if review_id not in waiting and review_id in self._events:
                    self._events[review_id].set()

    def _on_changed(self, payload: Mapping[str, str]) -> None:
        try:
            event = self._events.get(UUID(payload.get("review_id", "")))
        except ValueError:
            return
        if event is not None:
            event.set()

    def _on_resumed(self, payload: Mapping[str, str]) -> None:
        self._hurry.set()


def pause() -> float:
    """Return the seconds until the next round, with jitter, so that workers that lost their signals together do not
    poll in step."""
    return float(EVERY * random.uniform(0.7, 1.3))  # noqa: S311
