"""Registry of the sessions that this worker runs or opens, and of the signals that end or change them."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol
from uuid import UUID

from postern.domain.durations import duration_text
from postern.domain.rules.permit import Permit
from postern.domain.sessions.session import EndReason
from postern.domain.targets.target_schema import TargetSchema
from postern.errors import PosternError
from postern.gateway.rules.target_schemas import next_reading
from postern.gateway.session_opening import AbortableDial, PendingSession, time_is_over
from postern.interception.pipeline import Pipeline, SessionView
from postern.protocols.wire_base import Side
from postern.relay.driver import Driver
from postern.services.admission import Access
from postern.services.identity.logins.login_throttle import neighbourhood
from postern.store.ports.common_ports import Signals, Topic

log = logging.getLogger(__name__)

_REASONS = {
    EndReason.KILLED: "this session was killed",
    EndReason.REVOKED: "the connection of this session was deleted",
    EndReason.GATEWAY_STOPPED: "the gateway is stopping",
}


# Wrong secrets for the process id of one link, per address and in total, until its cancel key is ignored.
MAX_WRONG_KEYS_PER_ADDRESS: Final = 100
MAX_WRONG_KEYS: Final = 10_000
PID: Final = 4  # bytes of a cancel key with the process id; the secret follows


class WrongKeys:
    """Counts cancel requests with a link's process id and a wrong secret.

    Clients know the process id, and the secret of protocol 3.0 has only 32 bits. Without a limit, an attacker could try
    all of them.
    """

    def __init__(self) -> None:
        self._by_address: Counter[str] = Counter()
        self._total = 0

    def add(self, address: str) -> bool:
        """Count one. Return True if it reaches a limit."""
        if self.blocks(address):
            return False
        self._by_address[neighbourhood(address)] += 1
        self._total += 1
        return self.blocks(address)

    def blocks(self, address: str) -> bool:
        """Return True if cancel requests from that address are ignored for this link."""
        return self._total >= MAX_WRONG_KEYS or self._by_address[neighbourhood(address)] >= MAX_WRONG_KEYS_PER_ADDRESS


def _cause(permit: Permit) -> EndReason:
    """Return the reason of an end: the permit has expired, or was revoked earlier."""
    expires = permit.expires_at
    return EndReason.EXPIRED if expires is not None and expires <= datetime.now(UTC) else EndReason.REVOKED


def _read(driver: Driver, side: Side) -> int:
    return driver.client_bytes if side is Side.CLIENT else driver.target_bytes


class RunningSession(Protocol):
    """A session of this worker: one link, or several that share it (`shared_session.py`)."""

    permit: Permit
    schema_until: float

    @property
    def session_id(self) -> UUID: ...

    @property
    def view(self) -> SessionView: ...

    @property
    def renewing(self) -> asyncio.Lock: ...

    @property
    def deadline(self) -> float:
        """Return the deadline by the current permit: a changed limit applies to connected sessions."""

    @property
    def done(self) -> asyncio.Future[EndReason]:
        """Return the future of its end."""

    def end(self, reason: EndReason, message: str) -> None:
        """End the session and tell its client why."""

    def adopt(self, permit: Permit, pipeline: Callable[[Permit, SessionView], Pipeline]) -> None:
        """Apply a renewed permit, and its policy if that has changed."""

    def end_if_idle(self, limit: float) -> None:
        """End the session, or its idle parts, after `limit` seconds without traffic; 0 for no limit."""

    def read_bytes(self, side: Side) -> int:
        """Return the bytes read from that side so far."""

    async def read_schema(self) -> None:
        """Read the schema. If that fails, the older one stays."""


def idle_text(limit: float) -> str:
    return f"this session was idle for {duration_text(limit)}"


def is_idle(driver: Driver, limit: float) -> bool:
    """Return True if the link is idle. A client that waits for a response is not idle, however long the target is
    quiet."""
    running = driver.link
    return bool(limit) and not (running.awaiting_response or running.held_request is not None) and driver.idle >= limit


@dataclass(slots=True, eq=False)
class RegisteredLink:
    """A session with one link. `started` is on the monotonic clock; `longest` is the gateway's maximum duration of a
    session in seconds. `schema` reads the target's catalogue if the permit's policy needs it; it is read again at
    `schema_until`."""

    session_id: UUID
    permit: Permit
    view: SessionView
    driver: Driver
    started: float
    longest: float
    cancel_key: bytes = b""
    schema: Callable[[Permit], Awaitable[TargetSchema | None]] | None = None
    schema_until: float = math.inf
    renewing: asyncio.Lock = field(default_factory=asyncio.Lock)
    wrong_keys: WrongKeys = field(default_factory=WrongKeys)

    async def read_schema(self) -> None:
        """Read the schema. If that fails, the older one stays."""
        if self.schema is not None:
            self.schema_until = math.inf  # no concurrent reading
            schema = await self.schema(self.permit)
            self.view.schema = schema or self.view.schema
            self.schema_until = next_reading(self.permit, self.view.schema)

    @property
    def deadline(self) -> float:
        return self.started + min(self.longest, self.permit.policy.max_duration or self.longest)

    @property
    def done(self) -> asyncio.Future[EndReason]:
        return self.driver.done

    def end(self, reason: EndReason, message: str) -> None:
        self.driver.end(reason, message)

    def adopt(self, permit: Permit, pipeline: Callable[[Permit, SessionView], Pipeline]) -> None:
        before, self.permit = self.permit, permit
        if permit.policy != before.policy:  # otherwise a held request would need another approval
            self.driver.renew(pipeline(permit, self.view))

    def end_if_idle(self, limit: float) -> None:
        if is_idle(self.driver, limit):
            self.driver.end(EndReason.IDLE, idle_text(limit))

    def read_bytes(self, side: Side) -> int:
        return _read(self.driver, side)


class LinkRegistry:
    """The registry, which also ends expired sessions. `pipeline` builds the interceptors of a policy for a session."""

    def __init__(
        self,
        access: Access,
        signals: Signals,
        pipeline: Callable[[Permit, SessionView], Pipeline],
        *,
        idle_timeout: float,
    ) -> None:
        self._access = access
        self._pipeline = pipeline
        self._idle_timeout = idle_timeout
        self._links: set[RunningSession] = set()
        self._relayed = dict.fromkeys(Side, 0)
        self._openings: set[PendingSession] = set()
        self._by_key: dict[bytes, RegisteredLink] = {}
        self._by_pid: dict[bytes, set[RegisteredLink]] = {}  # targets may assign the same process id to several links
        self._tasks: set[asyncio.Task[None]] = set()
        self._cancels: set[asyncio.Task[None]] = set()
        self.is_stopping = False
        self.changes = 0  # number of signals that may have ended or changed a permit
        signals.subscribe(Topic.SESSION_KILL, self._on_kill)
        signals.subscribe(Topic.CREDENTIAL_REVOKED, self._on_revoked)
        signals.subscribe(Topic.PRINCIPAL_CHANGED, self._on_principal)
        signals.subscribe(Topic.POLICY_CHANGED, self._on_policy)
        signals.subscribe(Topic.REVIEW_CHANGED, self._on_review)
        signals.subscribe(Topic.RESUMED, self._on_resumed)
        signals.subscribe(Topic.CANCEL, self._on_cancel)

    @contextmanager
    def opening(self, session_id: UUID) -> Iterator[PendingSession]:
        """Register a session that is being opened: from before its row is visible until its link is added, with no wait
        in between."""
        opening = PendingSession(session_id)
        self._openings.add(opening)
        try:
            yield opening
        finally:
            self._openings.discard(opening)

    def dialling(self, opening: PendingSession, permit: Permit, *, since: int) -> AbortableDial:
        """Guard a dial: raises SessionAborted as soon as the session is killed or its permit ends. `since` as in
        `add`."""
        dialling = opening.dialling(permit)
        if since != self.changes:
            self._start(self._check_opening(opening, permit))
        return dialling

    def add(self, link: RunningSession, *, since: int) -> None:
        """Add a session. `since` is the value of `changes` from before its permit was requested; if it has changed, the
        permit is checked again."""
        self._links.add(link)
        if isinstance(link, RegisteredLink) and link.cancel_key:
            self._by_key[link.cancel_key] = link
            self._by_pid.setdefault(link.cancel_key[:PID], set()).add(link)
        if since != self.changes:
            self._start(self._check(link, renew=True))

    def remove(self, link: RunningSession) -> None:
        if link in self._links:
            for side in Side:
                self._relayed[side] += link.read_bytes(side)
        self._links.discard(link)
        if isinstance(link, RegisteredLink):
            self._forget_key(link)

    def _forget_key(self, link: RegisteredLink) -> None:
        if self._by_key.get(link.cancel_key) is link:
            del self._by_key[link.cancel_key]
        named = self._by_pid.get(link.cancel_key[:PID])
        if named is not None:
            named.discard(link)
            if not named:
                del self._by_pid[link.cancel_key[:PID]]

    def cancel(self, key: bytes, address: str) -> bool:
        """Cancel what runs on the link with this key; `address` is the origin of the request. Return True if the key
        belongs to a link of this worker."""
        link = self._by_key.get(key)
        if link is None:
            return False
        if not link.wrong_keys.blocks(address):
            link.driver.cancel()
        return True

    def _count_wrong_key(self, key: bytes, address: str) -> None:
        for link in self._by_pid.get(key[:PID], ()):
            if link.wrong_keys.add(address):
                log.warning(
                    "session %s ignores further cancel requests from %s: too many had a wrong secret",
                    link.session_id,
                    address,
                )

    def kill(self, key: bytes, by: UUID, *, query: bool) -> bool:
        """Cancel as `cancel` does, for keys that can be guessed: only links of that principal. Without `query` the link
        ends."""
        link = self._by_key.get(key)
        if link is None or link.permit.principal.id != by:
            return False
        if query:
            link.driver.cancel()
        else:
            link.driver.end(EndReason.KILLED, _REASONS[EndReason.KILLED])
        return True

    def cancelling(self, work: Coroutine[None, None, None]) -> asyncio.Future[None]:
        """Run `work`, which asks a target to cancel a link's request; the link may end before that is done."""
        task = asyncio.get_running_loop().create_task(work)
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)
        return task

    @property
    def running(self) -> int:
        """Return how many sessions run."""
        return len(self._links)

    def count_relayed_bytes(self, side: Side) -> int:
        """Return the bytes read from that side by all links, including ended ones."""
        now = sum(link.read_bytes(side) for link in self._links)
        return self._relayed[side] + now

    async def sweep(self) -> None:
        """End expired sessions, once a second, until cancelled."""
        while True:
            await asyncio.sleep(1)
            now, wall = time.monotonic(), datetime.now(UTC)
            for link in list(self._links):
                over = time_is_over(link.permit, wall)
                if now >= link.deadline:
                    link.end(EndReason.EXPIRED, "this session reached its maximum duration")
                elif over is not None:
                    link.end(EndReason.EXPIRED, over)
                elif now >= link.schema_until:
                    self._start(link.read_schema())
                else:
                    link.end_if_idle(self._idle_timeout)
            for opening in list(self._openings):
                late = None if opening.permit is None else time_is_over(opening.permit, wall)
                if late is not None:
                    opening.end(EndReason.EXPIRED, late)

    async def stop(self, grace: float) -> None:
        """End every session, and wait until their links are closed and their targets have stopped, `grace` seconds at
        most."""
        self.is_stopping = True
        for link in list(self._links):
            link.end(EndReason.GATEWAY_STOPPED, _REASONS[EndReason.GATEWAY_STOPPED])
        waiting: list[asyncio.Future[Any]] = [*(link.done for link in self._links), *self._cancels]
        if waiting:
            await asyncio.wait(waiting, timeout=grace)

    def _on_kill(self, payload: Mapping[str, str]) -> None:
        reason = EndReason.REVOKED if payload.get("reason") == EndReason.REVOKED else EndReason.KILLED
        for link in list(self._links):
            if str(link.session_id) == payload.get("session_id"):
                link.end(reason, _REASONS[reason])
        for opening in list(self._openings):
            if str(opening.session_id) == payload.get("session_id"):
                opening.end(reason, _REASONS[reason])

    def _on_cancel(self, payload: Mapping[str, str]) -> None:
        key, by = bytes.fromhex(payload.get("key", "")), payload.get("by")
        if by:
            self.kill(key, UUID(by), query=bool(payload.get("query")))
        elif not self.cancel(key, payload.get("address", "")):
            self._count_wrong_key(key, payload.get("address", ""))

    def _on_revoked(self, payload: Mapping[str, str]) -> None:
        credential = payload.get("credential_id")
        self._recheck(lambda permit: str(permit.credential_id) == credential, renew=True)  # its end may have moved

    def _on_principal(self, payload: Mapping[str, str]) -> None:
        self._recheck(lambda permit: str(permit.principal.id) == payload.get("principal_id"))

    def _on_policy(self, payload: Mapping[str, str]) -> None:
        """Recheck the links of one connection, of one organisation, or all."""
        connection, org = payload.get("connection_id"), payload.get("org_id")

        def is_affected(permit: Permit) -> bool:
            if connection:
                return str(permit.connection.id) == connection
            return not org or str(permit.connection.org_id) == org

        self._recheck(is_affected, renew=True)

    def _on_review(self, payload: Mapping[str, str]) -> None:
        self._recheck(lambda permit: str(permit.review_id) == payload.get("review_id"))

    def _on_resumed(self, payload: Mapping[str, str]) -> None:
        self._recheck(lambda permit: True, renew=True)

    def _recheck(self, is_affected: Callable[[Permit], bool], *, renew: bool = False) -> None:
        self.changes += 1
        for link in self._links:
            if is_affected(link.permit):
                self._start(self._check(link, renew))
        for opening in self._openings:
            if opening.permit is not None and is_affected(opening.permit):
                self._start(self._check_opening(opening, opening.permit))

    def _start(self, check: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(check)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check_opening(self, opening: PendingSession, permit: Permit) -> None:
        """End the opening session if its permit is no longer valid. A changed policy is loaded once there is a link,
        see `add`."""
        try:
            reason = await self._access.still_allowed(permit)
        except PosternError as error:
            reason = f"this session's permit could not be checked: {error.message}"
        except Exception:
            log.exception("the permit of session %s could not be checked, so it ends", opening.session_id)
            reason = "this session's permit could not be checked"
        if reason is not None:
            opening.end(_cause(permit), reason)

    async def _check(self, link: RunningSession, renew: bool) -> None:
        """End the session if its permit is no longer valid; otherwise give it the current policy if that has
        changed."""
        try:
            reason = await self._access.still_allowed(link.permit)
            if reason is not None:
                link.end(_cause(link.permit), reason)
            elif renew:
                await self._renew(link)
        except PosternError as error:
            link.end(EndReason.REVOKED, f"this session's policy could not be renewed: {error.message}")
        except Exception:
            log.exception("the permit of session %s could not be checked, so it ends", link.session_id)
            link.end(EndReason.REVOKED, "this session's permit could not be checked")

    async def _renew(self, link: RunningSession) -> None:
        """Renew permits one after the other: a later request has the newer state."""
        async with link.renewing:
            link.adopt(await self._access.renew(link.permit), self._pipeline)
        if link.view.schema is None:  # the new policy may be the first that needs it
            await link.read_schema()
