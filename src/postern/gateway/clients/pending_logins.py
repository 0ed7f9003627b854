"""Clients that wait at login for the approval of their access.

admission ─ReviewRequired─▶ the review is requested, or the pending one is found
          ─▶ the client gets a message in its protocol ─▶ it waits, without a thread and without a login deadline
                ├─ approved ─▶ admission again ─▶ Permit
                ├─ rejected, expired, withdrawn, timed out, the worker stops ─▶ denied, with the reason
                └─ it disconnects ─▶ everything is freed; the review stays, and a reconnecting client waits for it
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID

from postern.domain.reviews.review import Review, ReviewEvent
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.permit import Permit
from postern.domain.targets.connection import Connection
from postern.errors import Denied, NotFound, PosternError, TooMany, Unavailable
from postern.gateway.rules.review_poller import ReviewPoller
from postern.relay.relay_handshake import StreamHandshake
from postern.services.reviews.review_requests import RequestedAccess, ReviewRequests, ReviewRequired
from postern.services.reviews.review_text import final_state_text, requirements_text
from postern.services.reviews.reviews import Reviews
from postern.services.sessions import Sessions
from postern.store.ports.common_ports import Signals, Topic

log = logging.getLogger(__name__)

MOST = 1_000  # waiting clients in this worker
MOST_OF_ONE = 100  # per principal
FEW = 4  # per principal once half of all slots are used, so that one user cannot exhaust them
_AT_ONCE = 3  # concurrent admissions after a change for all waiting clients, so that others can log in meanwhile


class PendingClient(Protocol):
    """A waiting client, in its own protocol."""

    stream: StreamHandshake

    def send_notice(self, text: str, hint: str) -> None:
        """Show a message before the welcome. Does not wait."""

    def check(self) -> None:
        """Check the client after it sent something. Raises ConnectionError when it has disconnected, Denied when it
        cancels, and ProtocolViolation."""


@dataclass(frozen=True, slots=True)
class LoginReviewRequest:
    """The content of a review for this client. `metadata` is that of the waiting session; `duration` is in seconds."""

    metadata: Mapping[str, str]
    reason: str = ""
    duration: int | None = None


@dataclass(slots=True, eq=False)
class _Watch:
    """A review that clients wait for, with the event that wakes them. `review` is None once it is deleted."""

    review: Review | None
    waiters: set[_Waiter] = field(default_factory=set)
    task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        for waiter in self.waiters:
            waiter.woken.set()


@dataclass(slots=True, eq=False)
class _Waiter:
    """One client. `ask_again`: a change may admit or deny it, whatever its review says."""

    requested_access: RequestedAccess
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    ask_again: bool = False


class PendingLogins:
    """The waiting clients of one worker. `longest` is the maximum wait in seconds; with 0 the client is told at once
    how to return. `address` is the URL of the page for reviewers."""

    def __init__(
        self,
        asking: ReviewRequests,
        reviews: Reviews,
        sessions: Sessions,
        signals: Signals,
        address: Callable[[UUID], Awaitable[str]],
        *,
        longest: float,
    ) -> None:
        self._asking = asking
        self._reviews = reviews
        self._sessions = sessions
        self._address = address
        self._longest = longest
        self._people: Counter[UUID] = Counter()
        self._watches: dict[UUID, _Watch] = {}
        self._looks = ReviewPoller(reviews, signals)
        self._admission = asyncio.Semaphore(_AT_ONCE)
        self._closing = False
        self._empty = asyncio.Event()
        self._empty.set()
        signals.subscribe(Topic.RESUMED, self._on_resumed)
        signals.subscribe(Topic.POLICY_CHANGED, self._on_policy)
        signals.subscribe(Topic.PRINCIPAL_CHANGED, self._on_principal)
        signals.subscribe(Topic.CREDENTIAL_REVOKED, self._on_credential)

    @property
    def held(self) -> int:
        """Return how many clients wait."""
        return self._people.total()

    async def wait(
        self,
        required: ReviewRequired,
        client: PendingClient,
        request: LoginReviewRequest,
        again: Callable[[], Awaitable[Permit]],
        fits: Callable[[Connection], None],
    ) -> Permit:
        """Wait for the approval, and return the result of `again`. `fits` raises Denied for a connection that the
        client cannot use, so that no review is requested in vain. Raises the errors of `again`, Denied with the reason,
        TooMany, Unavailable, and ConnectionError when the client disconnects."""
        fits(required.requested_access.connection)
        with self._room(client.stream, required.requested_access.principal.id):
            deadline = asyncio.get_running_loop().time() + self._longest
            announced_id: UUID | None = None
            while True:
                review = await self._review(required, request)
                if not self._longest:
                    raise Denied(_come_back(review))
                if review.id != announced_id:
                    client.send_notice(*_notice(review, await self._address(review.id)))
                    announced_id = review.id
                approved = await self._wait_for_decision(review, required.requested_access, client, deadline)
                try:
                    async with nullcontext() if approved else self._admission:
                        self._require_open(review)
                        return await again()
                except ReviewRequired as still:
                    # This review does not admit it: its reason has changed, or only something else has.
                    required = still

    async def _review(self, required: ReviewRequired, request: LoginReviewRequest) -> Review:
        requested_access = required.requested_access
        if requested_access.waiting is not None:
            return requested_access.waiting
        session = self._sessions.to_wait(requested_access, metadata=request.metadata)
        return await self._asking.ask(
            requested_access, reason=request.reason, duration=request.duration, session=session
        )

    async def _wait_for_decision(
        self, review: Review, requested_access: RequestedAccess, client: PendingClient, deadline: float
    ) -> bool:
        """Wait until a new admission makes sense. Return True if the review was approved. `deadline` is on the loop's
        clock. Raises as `wait` does."""
        loop, waiter = asyncio.get_running_loop(), _Waiter(requested_access)
        with self._watching(review, waiter, client.stream) as watch:
            while True:
                self._require_open(review)
                client.check()
                approved = _is_approved(watch.review, review.id)
                if approved or waiter.ask_again:
                    return approved
                left = deadline - loop.time()
                if left <= 0:
                    raise Denied(_come_back(review))
                try:
                    await asyncio.wait_for(waiter.woken.wait(), left)
                except TimeoutError:
                    continue
                waiter.woken.clear()

    def _require_open(self, review: Review) -> None:
        if self._closing:
            raise Unavailable(f"the gateway is stopping; connect again to continue waiting for review {review.id}")

    @contextmanager
    def _room(self, stream: StreamHandshake, principal_id: UUID) -> Iterator[None]:
        """Count the client as waiting, and no longer as logging in."""
        if self._closing:
            raise Unavailable("the gateway is stopping; connect again")
        most = MOST_OF_ONE if self.held < MOST // 2 else FEW
        if self.held >= MOST or self._people[principal_id] >= most:
            raise TooMany("too many clients already wait for reviews; close some of yours, or try again later")
        self._people[principal_id] += 1
        self._empty.clear()
        stream.on_known()
        stream.on_held()
        try:
            yield
        finally:
            self._people[principal_id] -= 1
            if not self._people[principal_id]:
                del self._people[principal_id]
            if not self._people:
                self._empty.set()

    @contextmanager
    def _watching(self, review: Review, waiter: _Waiter, stream: StreamHandshake) -> Iterator[_Watch]:
        watch = self._watches.get(review.id)
        if watch is None:
            watch = self._watches[review.id] = _Watch(review)
            watch.task = asyncio.get_running_loop().create_task(self._follow(review.id, watch))
        watch.waiters.add(waiter)
        stream.on_heard = waiter.woken.set
        try:
            yield watch
        finally:
            stream.on_heard = _nothing
            watch.waiters.discard(waiter)
            if not watch.waiters:
                del self._watches[review.id]
                assert watch.task is not None
                watch.task.cancel()

    async def _follow(self, review_id: UUID, watch: _Watch) -> None:
        """Poll a review once for all clients that wait for it."""
        with self._looks.at(review_id) as look:
            while True:
                await look.wait()
                look.clear()
                await self._look(review_id, watch)

    async def _look(self, review_id: UUID, watch: _Watch) -> None:
        try:
            review = await self._reviews.look(review_id)
            if review is not None and review.status is ReviewStatus.PENDING and review.expires_at <= datetime.now(UTC):
                now = await self._reviews.close(review_id, ReviewEvent.EXPIRED)
                review = now or replace(review, status=ReviewStatus.EXPIRED)
        except PosternError as error:
            log.warning("review %s could not be read and stays pending: %s", review_id, error.message)
            return
        except Exception:
            log.exception("review %s could not be read and stays pending", review_id)
            return
        watch.review = review
        if review is None or review.status is not ReviewStatus.PENDING:
            watch.wake()

    async def stop(self, grace: float) -> None:
        """Tell all waiting clients that the worker stops, and accept no more; their reviews stay. Takes at most `grace`
        seconds."""
        self._closing = True
        for watch in self._watches.values():
            watch.wake()
        try:
            async with asyncio.timeout(grace):
                await self._empty.wait()
        except TimeoutError:
            log.warning("%d clients that waited for reviews were not notified that the gateway stops", self.held)

    def _on_resumed(self, payload: Mapping[str, str]) -> None:
        self._ask_again(lambda requested_access: True)

    def _on_policy(self, payload: Mapping[str, str]) -> None:
        """Wake the clients of one connection, of one organisation, or all."""
        connection, org = payload.get("connection_id"), payload.get("org_id")

        def is_affected(requested_access: RequestedAccess) -> bool:
            if connection:
                return str(requested_access.connection.id) == connection
            return not org or str(requested_access.connection.org_id) == org

        self._ask_again(is_affected)

    def _on_principal(self, payload: Mapping[str, str]) -> None:
        self._ask_again(lambda requested_access: str(requested_access.principal.id) == payload.get("principal_id"))

    def _on_credential(self, payload: Mapping[str, str]) -> None:
        self._ask_again(lambda requested_access: str(requested_access.credential_id) == payload.get("credential_id"))

    def _ask_again(self, is_affected: Callable[[RequestedAccess], bool]) -> None:
        for watch in self._watches.values():
            for waiter in watch.waiters:
                if is_affected(waiter.requested_access):
                    waiter.ask_again = True
                    waiter.woken.set()


def _nothing() -> None: ...


def _is_approved(review: Review | None, review_id: UUID) -> bool:
    """Return False while the review is pending. Raises Denied when it can no longer admit the client."""
    if review is None:
        raise NotFound(f"review {review_id} no longer exists; connect again to request a new one")
    if review.status is ReviewStatus.PENDING:
        return False
    if review.status is ReviewStatus.APPROVED:
        return True
    again = "" if review.status is ReviewStatus.REJECTED else "; connect again to request a new one"
    raise Denied(
        f"connection {review.connection!r} needs a review, and {final_state_text(review)} (review {review.id}){again}"
    )


def _notice(review: Review, address: str) -> tuple[str, str]:
    """Return the message for a waiting client, and how to approve."""
    return (
        f"connection {review.connection!r} needs a review before you can connect: {requirements_text(review.demands)}",
        f"Review {review.id} is pending until {review.expires_at:%Y-%m-%d %H:%M:%S} UTC. Approvers decide at {address} "
        f"or with `postern reviews approve {review.id}`",
    )


def _come_back(review: Review) -> str:
    return (
        f"connection {review.connection!r} needs a review, {requirements_text(review.demands)}: connect again once "
        f"review {review.id} is approved (`postern reviews approve {review.id}`); it is pending until "
        f"{review.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    )
