"""Decisions from a chat: pressing a button opens a form that asks for a reason, and the form decides the review.

A request is only accepted if the chat signed it for this very sink and the review was sent there. A form works once,
for the user who opened it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from postern.domain.chat import Interaction, Introduced, Press, Reasoned
from postern.domain.durations import duration_text
from postern.domain.identity.login import TokenPurpose
from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Choice, Review
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.secret import Secret
from postern.domain.sink import Sink, SinkKind, SinkStatus
from postern.errors import Conflict, Denied, Invalid, NotFound, PosternError, Unauthenticated, Unavailable
from postern.services.chat.chat_links import ChatLinks
from postern.services.identity.logins.one_time_tokens import OneTimeTokens
from postern.services.reviews.reviews import Reviews
from postern.store.ports.chat_ports import ChatStore
from postern.store.ports.common_ports import Clock

FORM_LIFE = timedelta(minutes=15)
DEADLINE = 2.5  # seconds; the chat waits for three


class ChatFormClient(Protocol):
    """The client for interactive requests of a chat. Raises Unavailable, Denied, TooMany."""

    def read(self, sink: Sink, stamp: str, signature: str, body: bytes, now: datetime) -> Interaction | None:
        """Return what the request asks for; None where it is not one of ours. Raises Unauthenticated when it is not
        signed for this sink, Malformed."""

    async def ask_why(self, sink: Sink, press: Press, form: str) -> None:
        """Ask for a reason. `form` comes back with it."""

    async def open_link_form(self, sink: Sink, trigger: str) -> None: ...

    async def whisper(self, sink: Sink, channel: str, user: str, text: str) -> None: ...

    def accepted_answer(self, interaction: Reasoned | Introduced, text: str) -> dict[str, Any]:
        """Return the answer to an accepted form or command, as JSON."""

    def rejected_answer(self, interaction: Reasoned | Introduced, text: str) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Handled:
    """The result of a request: `answer` is for the chat; `actor` is the user who acted, None where none did."""

    answer: dict[str, Any]
    actor: Principal | None = None


class ChatDecisions:
    def __init__(
        self,
        window: ChatFormClient | None,
        store: ChatStore,
        links: ChatLinks,
        reviews: Reviews,
        one_time_tokens: OneTimeTokens,
        now: Clock,
    ) -> None:
        self._client = window
        self._store = store
        self._links = links
        self._reviews = reviews
        self._one_time_tokens = one_time_tokens
        self._now = now

    async def handle(self, sink_id: UUID, stamp: str, signature: str, body: bytes) -> Handled:
        """Handle a request of a chat. Raises Unauthenticated for all that is not the chat's own, Malformed,
        Unavailable."""
        sink = None if self._client is None else await self._store.sink(sink_id)
        if (
            self._client is None
            or sink is None
            or sink.kind is not SinkKind.SLACK
            or sink.status is not SinkStatus.ACTIVE
        ):
            raise Unauthenticated("the signature is missing or wrong; check the sink's signing secret")
        press = self._client.read(sink, stamp, signature, body, self._now())
        if press is None:
            return Handled({})
        if isinstance(press, Press):
            try:
                async with asyncio.timeout(DEADLINE):
                    await self._handle_press(sink, press)
            except TimeoutError:
                raise Unavailable(f"the chat did not answer in {duration_text(DEADLINE)}") from None
            return Handled({})
        if isinstance(press, Introduced):
            return await self._handle_introduction(sink, press)
        return await self._handle_reason(sink, press)

    @property
    def _forms(self) -> ChatFormClient:
        assert self._client is not None
        return self._client

    async def _handle_press(self, sink: Sink, press: Press) -> None:
        message = await self._store.message(sink.id, press.review_id)
        if message is None or message.channel != press.channel:
            await self._forms.whisper(sink, press.channel, press.user, "This review was not sent to this channel.")
            return
        principal = await self._links.find_principal(sink, press.user)
        if principal is None:
            await self._forms.open_link_form(sink, press.trigger)
            return
        try:
            review = await self._reviews.get(principal, str(press.review_id))
            _require_open(review, principal, press)
        except PosternError as problem:
            await self._forms.whisper(sink, press.channel, press.user, problem.message)
            return
        payload = {
            "user_id": str(principal.id),
            "sink": str(sink.id),
            "chat_id": press.user,
            "review": str(review.id),
            "choice": press.choice.value,
            "force": press.force,
        }
        form = await self._one_time_tokens.issue(TokenPurpose.CHAT_FORM, payload, FORM_LIFE)
        await self._forms.ask_why(sink, press, form.reveal())

    async def _handle_reason(self, sink: Sink, interaction: Reasoned) -> Handled:
        try:
            payload = await self._one_time_tokens.take(TokenPurpose.CHAT_FORM, Secret(interaction.form))
        except Unauthenticated:
            return Handled(
                self._forms.rejected_answer(
                    interaction, "This form was already sent, or has expired. Press the button again."
                )
            )
        principal = await self._links.find_principal(sink, interaction.user)
        is_same_chat = (payload["sink"], payload["chat_id"]) == (str(sink.id), interaction.user)
        if principal is None or not is_same_chat or payload["user_id"] != str(principal.id):
            return Handled(self._forms.rejected_answer(interaction, "This form was opened by another user."), principal)
        try:
            await self._reviews.decide(
                principal,
                payload["review"],
                Choice(payload["choice"]),
                force=payload["force"],
                comment=interaction.reason,
                chat_id=interaction.user,
            )
        except (Denied, Conflict, NotFound, Invalid) as problem:
            return Handled(self._forms.rejected_answer(interaction, problem.message), principal)
        return Handled(self._forms.accepted_answer(interaction, "Done."), principal)

    async def _handle_introduction(self, sink: Sink, interaction: Introduced) -> Handled:
        try:
            principal = await self._links.redeem(sink, interaction.user, interaction.code)
        except Unauthenticated:
            text = "This code is invalid, was already used, or has expired. Run `postern chat link` to get a new one."
            return Handled(self._forms.rejected_answer(interaction, text))
        text = f"Your account here is now linked to {principal.email}. Press the button again to decide."
        return Handled(self._forms.accepted_answer(interaction, text), principal)


def _require_open(review: Review, principal: Principal, press: Press) -> None:
    """Check what can be checked before a user writes a reason; the decision itself checks all of it. Raises Conflict,
    Denied."""
    if review.status is not ReviewStatus.PENDING:
        raise Conflict(f"This review is already {review.status}.")
    if press.choice is Choice.APPROVED and not review.may_review(principal.groups):
        raise Denied("You are not in a group that can decide on this review.")
