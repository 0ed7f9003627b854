"""Proxy managers: command-line processes of users that open a local port for a connection on request.

They connect to this process, and only it knows them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeVar
from uuid import UUID, uuid4

from postern.domain.durations import duration_text
from postern.domain.identity.principal import Principal
from postern.domain.sessions.session import Verb
from postern.errors import Conflict, Invalid, NotFound, TooMany, Unavailable
from postern.services.admission import Access, ReviewRequired
from postern.store.ports.common_ports import Clock

DEFAULT_SECONDS, MAX_SECONDS = 30 * 60, 48 * 3600
ANSWER = 10.0  # time limit of one order, in seconds
_MOST = 10_000
_MOST_ORDERS = 8  # that one has not answered
T = TypeVar("T")


class ProxyStatus(StrEnum):
    READY = "ready"
    CONNECTED = "connected"


@dataclass(frozen=True, slots=True)
class ProxyState:
    """The state of a proxy manager. `id` is that of the process; the fields from `connection_name` on apply while it is
    connected."""

    id: UUID
    status: ProxyStatus = ProxyStatus.READY
    connection_name: str | None = None
    connection_type: str | None = None
    connection_subtype: str | None = None
    port: int | None = None
    access_duration_seconds: int | None = None
    connected_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ProxyOrder:
    """An order; `connection` is None for the order to disconnect."""

    id: UUID
    connection: str | None = None
    port: int = 0
    seconds: int = 0


@dataclass(frozen=True, slots=True)
class ProxyOutcome:
    """The result of an order. `failure` is empty on success; `port` is the local one."""

    failure: str
    port: int


@dataclass(frozen=True, slots=True)
class _Asked:
    """A pending order, and the state after it."""

    answer: asyncio.Future[ProxyOutcome]
    then: ProxyState


@dataclass(eq=False, slots=True)
class Attached:
    """A connected proxy manager. `orders` are to be sent; `replaced` is set when the user's newer one connects.

    Orders in `pending_orders` stay until answered, even after their caller has left: they may still be carried out.
    """

    principal: Principal
    state: ProxyState
    orders: asyncio.Queue[ProxyOrder] = field(default_factory=lambda: asyncio.Queue(_MOST_ORDERS))
    replaced: asyncio.Event = field(default_factory=asyncio.Event)
    pending_orders: dict[UUID, _Asked] = field(default_factory=dict)


class ProxyManagers:
    def __init__(self, access: Access, now: Clock) -> None:
        self._access = access
        self._now = now
        self._attached: dict[UUID, Attached] = {}

    def attach(self, principal: Principal, instance: UUID) -> Attached:
        """Register it as its user's proxy manager. Raises TooMany."""
        older = self._attached.get(principal.id)
        if older is None and len(self._attached) >= _MOST:
            raise TooMany("too many proxy managers are connected to this gateway; try again later")
        if older is not None:
            self._end(older)
        attached = self._attached[principal.id] = Attached(principal, ProxyState(instance))
        return attached

    def leave(self, attached: Attached) -> None:
        if self._attached.get(attached.principal.id) is attached:
            del self._attached[attached.principal.id]
        self._end(attached)

    def record_answer(self, attached: Attached, order_id: UUID, answer: ProxyOutcome) -> None:
        """Record an answer; one to an unknown order is ignored."""
        pending = attached.pending_orders.pop(order_id, None)
        if pending is None:
            return
        if not answer.failure:
            opened = pending.then.status is ProxyStatus.CONNECTED
            then = replace(pending.then, port=answer.port, connected_at=self._now()) if opened else pending.then
            attached.state = then
        if not pending.answer.done():
            pending.answer.set_result(answer)

    def status(self, principal: Principal) -> ProxyState:
        """Return the state of the caller's own one. Raises NotFound when none is connected."""
        return self._state(self._of(principal))

    async def connect(
        self, principal: Principal, connection: str, port: int, seconds: int | None, *, source: str, means: str = ""
    ) -> ProxyState:
        """Open a connection, and close the one before.

        Raises NotFound, Denied, Invalid, Conflict when it failed, and Unavailable when it did not answer.
        """
        seconds = DEFAULT_SECONDS if seconds is None else seconds
        if not 0 <= port <= 65_535:
            raise Invalid("port: must be 0 to 65535; 0 selects a free port", field="port")
        if not 1 <= seconds <= MAX_SECONDS:
            raise Invalid(
                f"access_duration_seconds: must be 1 to {MAX_SECONDS} ({duration_text(MAX_SECONDS)})",
                field="access_duration_seconds",
            )
        # Checked here only to notify the user at once: each connection to the port is admitted anew, and waits
        # there for reviewers, if it has to.
        try:
            asking = self._access.admit_principal(principal, connection, verb=Verb.CONNECT, source=source, means=means)
            target = (await asking).connection
        except ReviewRequired as required:
            target = required.requested_access.connection
        attached = self._of(principal)
        instance = attached.state.id
        then = ProxyState(instance, ProxyStatus.CONNECTED, target.name, target.type, target.subtype)
        then = replace(then, access_duration_seconds=seconds)
        return await self._ask(attached, ProxyOrder(uuid4(), target.name, port, seconds), then)

    async def disconnect(self, principal: Principal) -> ProxyState:
        """Close the connection. Raises NotFound when none is connected, Conflict, Unavailable."""
        attached = self._of(principal)
        return await self._ask(attached, ProxyOrder(uuid4()), ProxyState(attached.state.id))

    def _of(self, principal: Principal) -> Attached:
        attached = self._attached.get(principal.id)
        if attached is None:
            raise NotFound("none of your proxy managers is connected; start one: postern proxy-manager")
        return attached

    def _state(self, attached: Attached) -> ProxyState:
        state = attached.state
        if state.connected_at is None or state.access_duration_seconds is None:
            return state
        ends = state.connected_at + timedelta(seconds=state.access_duration_seconds)
        return state if self._now() < ends else ProxyState(state.id)

    async def _ask(self, attached: Attached, order: ProxyOrder, then: ProxyState) -> ProxyState:
        if len(attached.pending_orders) >= _MOST_ORDERS:
            raise Conflict("your proxy manager is still busy with earlier requests; try again")
        pending = _Asked(asyncio.get_running_loop().create_future(), then)
        attached.pending_orders[order.id] = pending
        attached.orders.put_nowait(order)
        answer = await _within(pending.answer)
        if answer.failure:
            raise Conflict(f"your proxy manager failed: {answer.failure}")
        return attached.state

    def _end(self, attached: Attached) -> None:
        attached.replaced.set()
        for pending in attached.pending_orders.values():
            if not pending.answer.done():
                pending.answer.set_exception(Unavailable("your proxy manager has disconnected; start it again"))


async def _within(waiting: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(ANSWER):
            return await waiting
    except TimeoutError:
        raise Unavailable(
            f"your proxy manager did not answer within {ANSWER:.0f} s; check that it is running"
        ) from None
