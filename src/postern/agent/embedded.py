"""The embedded agent: carries orders out in the gateway's own process, with no tunnel in between."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from postern.agent.reach import Reach
from postern.domain.permit import Permit
from postern.relay.orders import Order
from postern.relay.target import Start, Target


class EmbeddedAgent:
    """Implements `relay.target.Dialer`. `environ` is what references are looked up in, for connections of the
    organisation `owner` alone: this machine's secrets are no other's to refer to."""

    def __init__(self, environ: Mapping[str, str], *, timeout: float, owner: UUID | None) -> None:
        self._own = Reach(environ)
        self._others = Reach({})
        self._owner = owner
        self._timeout = timeout

    async def dial(self, permit: Permit, start: Start, session_id: UUID) -> Target:
        return await self._reach(permit).dial(Order.of(permit, start, session_id, self._timeout))

    async def cancel(self, permit: Permit, target: Target) -> None:
        order = Order.of(permit, Start(), UUID(int=0), self._timeout)
        await self._reach(permit).cancel(order, target.process, target.key)

    def _reach(self, permit: Permit) -> Reach:
        return self._own if permit.connection.org_id == self._owner else self._others
