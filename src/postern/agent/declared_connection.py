"""The single connection that an agent in an application's container serves. Only the agent defines it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace

from postern.agent.serve import OrderRunner
from postern.domain.hook import HookOutcome
from postern.domain.secret import Secret
from postern.domain.targets.connection import protocol_of
from postern.domain.targets.declaration import Declaration
from postern.errors import Denied, Unavailable
from postern.relay.orders import Order
from postern.relay.relay_hooks import Hook
from postern.relay.relay_target import Target


class DeclaredConnection:
    """The declared connection, which implements `serve.OrderRunner`.

    Whatever an order contains, only the declared command, target and `secrets` are used, and the secrets never leave.
    So a compromised gateway cannot run anything else, except for session hooks if the policy of `reach` allows them.
    The secrets have their bare names, and a client's variables do not override them.
    """

    def __init__(self, reach: OrderRunner, declaration: Declaration, secrets: Mapping[str, Secret]) -> None:
        self._reach = reach
        self._declaration = declaration
        self._secret = {f"envvar:{name}": _encode_secret(value) for name, value in secrets.items()}

    async def dial(self, order: Order) -> Target:
        """Dial the declared target. Raises Denied for any other connection, and the errors of `TargetDialer.dial`."""
        return await self._reach.dial(self._own(order))

    async def cancel(self, order: Order, process: int, key: bytes) -> None:
        """Cancel. Raises as `dial` does."""
        await self._reach.cancel(self._own(order), process, key)

    async def hook(self, order: Order, hook: Hook) -> HookOutcome:
        """Run a hook. Raises as `dial` does."""
        return await self._reach.hook(self._own(order), hook)

    def _own(self, order: Order) -> Order:
        mine = self._declaration
        if order.connection != mine.name:
            raise Denied(f"this agent serves only connection {mine.name!r}, which it declared")
        if protocol_of(order.subtype, order.command) != protocol_of(mine.subtype, mine.command):
            # The order does not match what the gateway believes this connection to be.
            raise Unavailable(
                f"the instances of this agent declare connection {mine.name!r} in different ways; start all of them "
                "with the same arguments"
            )
        return replace(order, type=mine.type, subtype=mine.subtype, command=mine.command, secret=self._secret)


def _encode_secret(value: Secret) -> Secret:
    """Return a value in the form in which a connection stores its secrets."""
    return Secret(base64.b64encode(value.reveal().encode()).decode())
