"""The embedded agent: carries orders out in the gateway's own process, with no tunnel in between."""

from __future__ import annotations

from uuid import UUID

from postern.agent.files import SecretFiles
from postern.agent.reach import Reach
from postern.agent.secrets import Resolver
from postern.domain.permit import Permit
from postern.integrations.secrets.sources import Sources
from postern.relay.orders import Order
from postern.relay.target import Start, Target


class EmbeddedAgent:
    """Implements `relay.target.Dialer`. `sources` are what references are resolved by, for connections of the
    organisation `owner` alone: this machine's secrets are no other's to refer to."""

    def __init__(self, sources: Sources, files: SecretFiles, *, timeout: float, owner: UUID | None) -> None:
        self._own = Reach(Resolver(sources, files))
        self._others = Reach(Resolver(None, files))
        self._owner = owner
        self._timeout = timeout

    async def dial(self, permit: Permit, start: Start, session_id: UUID) -> Target:
        return await self._reach(permit).dial(Order.of(permit, start, session_id, self._timeout))

    async def cancel(self, permit: Permit, target: Target) -> None:
        order = Order.of(permit, Start(), UUID(int=0), self._timeout)
        await self._reach(permit).cancel(order, target.process, target.key)

    def _reach(self, permit: Permit) -> Reach:
        return self._own if permit.connection.org_id == self._owner else self._others
