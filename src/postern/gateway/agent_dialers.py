"""Dialling of targets by the agent of their connection: the gateway's own, or a remote one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol
from uuid import UUID

from postern.domain.hook import HookOutcome
from postern.domain.rules.permit import Permit
from postern.domain.targets.agent import AgentMode
from postern.domain.targets.connection import OPAQUE
from postern.errors import PosternError, Unavailable
from postern.gateway.gateway_tunnels import GatewayTunnels
from postern.gateway.worker_hooks import HookRunner
from postern.relay import relay_hooks
from postern.relay.orders import CANCEL, DIAL, Order, decode_error, read_answer
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_hooks import Hook, build_hook_order
from postern.relay.relay_target import Dialer, Start, Target
from postern.transport.mux import Mux, Refused
from postern.transport.pipe import PipeEnd

log = logging.getLogger(__name__)

# Added to the agent's own timeout, for the way there and back.
MARGIN = 5.0


class ReachableAgent(Dialer, HookRunner, Protocol):
    """An agent that can be asked to dial, wherever it runs."""


class Dialers:
    """Chooses between the embedded and the remote agents, by `mode_of` the connection's agent."""

    def __init__(
        self, embedded: ReachableAgent, remote: ReachableAgent, mode_of: Callable[[UUID], Awaitable[AgentMode]]
    ) -> None:
        self._own = embedded
        self._remote = remote
        self._mode_of = mode_of

    async def dial(self, permit: Permit, start: Start, session_id: UUID) -> Target:
        return await (await self._of(permit)).dial(permit, start, session_id)

    async def cancel(self, permit: Permit, target: Target) -> None:
        try:
            dialer = await self._of(permit)
        except PosternError as error:
            log.warning("a request on the target of %r could not be cancelled: %s", permit.connection.name, error)
            return
        await dialer.cancel(permit, target)

    async def hook(self, permit: Permit, session_id: UUID, hook: Hook) -> HookOutcome:
        return await (await self._of(permit)).hook(permit, session_id, hook)

    async def _of(self, permit: Permit) -> ReachableAgent:
        mode = await self._mode_of(permit.connection.agent_id)
        return self._own if mode is AgentMode.GATEWAY else self._remote


class RemoteAgents:
    """The agents with tunnels. `timeout` is the agent's time limit for a target."""

    def __init__(self, tunnels: GatewayTunnels, *, timeout: float) -> None:
        self._tunnels = tunnels
        self._timeout = timeout

    async def dial(self, permit: Permit, start: Start, session_id: UUID) -> Target:
        """Dial through an instance of the agent. An instance that is lost meanwhile is replaced by another, once."""
        order = Order.of(permit, start, session_id, self._timeout)
        mux = await self._tunnel(permit)
        try:
            return await self._dial(mux, order)
        except _Lost as lost:
            other = await self._tunnels.of(permit.connection.agent_id, beside=mux)
            if other is None:
                raise Unavailable(
                    f"the agent of connection {order.connection!r} disconnected before the target answered: {lost}"
                ) from None
            return await self._dial(other, order)

    async def cancel(self, permit: Permit, target: Target) -> None:
        order = Order.of(permit, Start(), UUID(int=0), self._timeout)
        message = {**order.message(CANCEL), "process": target.process, "key": target.key.hex()}
        try:
            mux = await self._tunnels.of(permit.connection.agent_id)
            if mux is not None:
                async with asyncio.timeout(self._timeout + MARGIN):
                    stream, _ = await mux.open(message, PipeEnd())
                    stream.close()
        except (Unavailable, Refused, TimeoutError) as error:
            log.warning("a request on the target of %r could not be cancelled: %s", permit.connection.name, error)

    async def hook(self, permit: Permit, session_id: UUID, hook: Hook) -> HookOutcome:
        """Run a hook, without a retry: a lost instance may have run it. Raises Denied, Unavailable."""
        mux, order = await self._tunnel(permit), build_hook_order(permit, session_id, self._timeout)
        try:
            async with asyncio.timeout(hook.seconds + 2 * MARGIN):
                stream, answer = await mux.open(hook.message(order), PipeEnd())
                stream.close()
        except Refused as refused:
            raise decode_error(refused) from None
        except TimeoutError:
            raise _late(order) from None
        return relay_hooks.read_answer(answer)

    async def _tunnel(self, permit: Permit) -> Mux:
        """Return a tunnel of the connection's agent. Raises Unavailable if there is none."""
        mux = await self._tunnels.of(permit.connection.agent_id)
        if mux is None:
            name = permit.connection.name
            raise Unavailable(f"the agent of connection {name!r} is offline; start it, or ask its operator to")
        return mux

    async def _dial(self, mux: Mux, order: Order) -> Target:
        stream = StreamHandshake(half_open=order.subtype in OPAQUE)
        target = Target(stream)
        try:
            async with asyncio.timeout(self._timeout + MARGIN):
                _, answer = await mux.open(order.message(DIAL), stream)
            read_answer(target, answer)
        except Refused as refused:
            raise decode_error(refused) from None
        except TimeoutError:
            raise _late(order) from None
        except Unavailable as error:
            if mux.lost.done() or mux.drained:
                raise _Lost(error.message) from None
            raise
        except BaseException:
            stream.close()
            raise
        return target


def _late(order: Order) -> Unavailable:
    return Unavailable(f"the agent of connection {order.connection!r} did not answer in time")


class _Lost(Exception):
    """The tunnel was lost before the target answered."""
