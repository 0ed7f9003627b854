"""Carries orders out: secrets are resolved, the target is dialled and logged in to, all before one deadline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from postern.agent.policy import ANYTHING, LocalPolicy
from postern.agent.postgres import PostgresTargets
from postern.agent.secrets import environment_of
from postern.domain.secret import Secret
from postern.errors import Unavailable
from postern.relay.orders import Order
from postern.relay.target import Target

log = logging.getLogger(__name__)


class Targets(Protocol):
    """One kind of targets. `env` are the order's secrets by their bare names, resolved."""

    async def dial(self, order: Order, env: Mapping[str, Secret]) -> Target: ...

    async def cancel(self, order: Order, env: Mapping[str, Secret], process: int, key: bytes) -> None: ...


class Reach:
    """`environ` is what `_envjson` references are looked up in; `policy` is what the agent's owner allows."""

    def __init__(self, environ: Mapping[str, str], policy: LocalPolicy = ANYTHING) -> None:
        self._environ = {name: value for name, value in environ.items() if policy.shows(name)}
        self._policy = policy
        self._kinds: dict[str, Targets] = {"postgres": PostgresTargets(policy)}

    async def dial(self, order: Order) -> Target:
        """Raises Denied by the policy, Unavailable, or what the target says of the login."""
        kind = self._kind(order)
        try:
            async with asyncio.timeout(order.timeout):
                return await kind.dial(order, self._environment_of(order))
        except TimeoutError:
            message = f"the target of {order.connection!r} did not answer within {order.timeout:g} seconds"
            raise Unavailable(message) from None
        except ConnectionError as error:
            raise Unavailable(f"the target of {order.connection!r} closed the connection during login") from error

    async def cancel(self, order: Order, process: int, key: bytes) -> None:
        """Asks the target to stop what runs on it. Never raises."""
        try:
            async with asyncio.timeout(order.timeout):
                await self._kind(order).cancel(order, self._environment_of(order), process, key)
        except Exception as error:
            log.warning("a request on the target of %r could not be cancelled: %s", order.connection, error)

    def _kind(self, order: Order) -> Targets:
        self._policy.check_connection(order.connection)
        kind = self._kinds.get(order.subtype)
        if kind is None:
            raise Unavailable(f"this agent cannot reach targets of subtype {order.subtype!r}")
        return kind

    def _environment_of(self, order: Order) -> dict[str, Secret]:
        return environment_of(order, self._environ)
