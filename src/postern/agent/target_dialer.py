"""Running of orders: secrets are resolved, the target is dialled and logged in to, all within one deadline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from postern.agent.agent_hooks import AgentHooks
from postern.agent.agent_policy import ANYTHING, LocalPolicy
from postern.agent.agent_protocols import AGENT_SPECS, Targets
from postern.agent.secrets import Resolver
from postern.domain.durations import duration_text
from postern.domain.hook import HookOutcome
from postern.domain.targets.connection import protocol_of
from postern.domain.tracing import part
from postern.errors import Unavailable
from postern.relay.orders import Order
from postern.relay.relay_hooks import Hook
from postern.relay.relay_target import Target

log = logging.getLogger(__name__)


class TargetDialer:
    """Runs orders. `policy` has the limits of the agent's owner. `environ` is the agent's own environment, of which
    commands get what every program needs."""

    def __init__(
        self, resolver: Resolver, policy: LocalPolicy = ANYTHING, environ: Mapping[str, str] | None = None
    ) -> None:
        self._resolver = resolver
        self._policy = policy
        self._hooks = AgentHooks(policy, environ or {})
        self._kinds = {name: spec.targets(policy, environ or {}) for name, spec in AGENT_SPECS.items()}

    async def dial(self, order: Order) -> Target:
        """Dial the target. Raises Denied by the policy, Unavailable, or the target's login error."""
        kind = self._kind(order)
        try:
            async with asyncio.timeout(order.timeout):
                return await self._dial(kind, order)
        except TimeoutError:
            message = f"the target of {order.connection!r} did not answer within {duration_text(order.timeout)}"
            raise Unavailable(message) from None
        except ConnectionError as error:
            raise Unavailable(f"the target of {order.connection!r} closed the connection during login") from error

    async def _dial(self, kind: Targets, order: Order) -> Target:
        needs_files = AGENT_SPECS[protocol_of(order.subtype, order.command)].needs_secret_files
        with part("agent.secrets"):
            secrets = await self._resolver.resolve(order, files=needs_files)
        try:
            target = await kind.dial(order, secrets)
        except BaseException:
            secrets.release()
            self._resolver.forget(order)
            raise
        target.release = _both(target.release, secrets.release)
        return target

    async def cancel(self, order: Order, process: int, key: bytes) -> None:
        """Ask the target to stop what runs on it. Never raises."""
        spec = AGENT_SPECS.get(protocol_of(order.subtype, order.command))
        if spec is not None and not spec.has_cancel:
            return  # its request ends with its stream
        try:
            async with asyncio.timeout(order.timeout):
                secrets = await self._resolver.resolve(order, files=False)
                await self._kind(order).cancel(order, secrets, process, key)
        except Exception as error:
            log.warning("a request on the target of %r could not be cancelled: %s", order.connection, error)

    async def hook(self, order: Order, hook: Hook) -> HookOutcome:
        """Run a hook. Raises Denied by the policy, Unavailable."""
        self._policy.check_connection(order.connection)
        return await self._hooks.run(hook)

    def _kind(self, order: Order) -> Targets:
        self._policy.check_connection(order.connection)
        kind = self._kinds.get(protocol_of(order.subtype, order.command))
        if kind is None:
            raise Unavailable(f"this agent cannot reach targets of subtype {order.subtype!r}")
        return kind


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls both. It never raises, because releasing a target has further steps."""

    def release() -> None:
        try:
            first()
        except Exception:
            log.exception("releasing the target's resources of a session failed")
        second()

    return release
