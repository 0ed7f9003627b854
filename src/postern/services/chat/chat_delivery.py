"""Delivery of reviews to chats: each review is one message where the chat can update it, showing its latest state."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from postern.domain.chat import Card, ChatMessage, card_of
from postern.domain.event import EventKind
from postern.domain.reviews.review import Review, ReviewKind
from postern.domain.sink import Delivery, Sink
from postern.store.ports.chat_ports import ChatStore
from postern.store.ports.review_ports import ReviewStore
from postern.store.ports.target_ports import SessionStore


class Chat(Protocol):
    """The port for every chat. Both methods raise as EventSender."""

    async def notify(self, sink: Sink, card: Card, previous: tuple[str, str] | None, event_id: UUID) -> tuple[str, str]:
        """Send the card, or replace the message `previous`, which an earlier call returned in the chat's own form.

        A second call with the same `event_id` is a retry.
        """

    async def say(self, sink: Sink, text: str) -> None: ...


class ChatSender:
    """Sends deliveries to chats. `url` returns the address of a review's page."""

    def __init__(
        self,
        chat: Chat,
        store: ChatStore,
        reviews: ReviewStore,
        sessions: SessionStore,
        url: Callable[[UUID], Awaitable[str]],
    ) -> None:
        self._chat = chat
        self._store = store
        self._reviews = reviews
        self._sessions = sessions
        self._url = url

    async def send(self, sink: Sink, deliveries: Sequence[Delivery], now: datetime) -> None:
        """Send the deliveries one after the other."""
        for delivery in deliveries:
            if delivery.event is EventKind.SINK_TEST:
                await self._chat.say(sink, f"Postern sends reviews here (sink {sink.name}). This is a test.")
            else:
                await self._send_card(sink, delivery, now)

    async def _send_card(self, sink: Sink, delivery: Delivery, now: datetime) -> None:
        review = await self._reviews.get(UUID(json.loads(delivery.body)["data"]["id"]))
        if review is None or review.org_id != sink.org_id:
            return  # deleted with its session, so there is nothing to decide
        before = await self._store.message(sink.id, review.id)
        previous = None if before is None else (before.channel, before.reference)
        script = await self._script(review) if sink.with_script else None
        card = card_of(review, script, await self._url(review.id), with_input=sink.with_script)
        channel, reference = await self._chat.notify(sink, card, previous, delivery.event_id)
        if (channel, reference) != previous:
            await self._store.keep(ChatMessage(sink.id, review.id, channel, reference, now))

    async def _script(self, review: Review) -> str | None:
        if review.kind is not ReviewKind.ONETIME or review.session_id is None:
            return None
        session = await self._sessions.get(review.org_id, review.session_id)
        return None if session is None else session.script
