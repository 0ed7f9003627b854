"""The agent's end of a tunnel: each stream that the gateway opens is an order, which is run and joined to its
target."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from postern.descriptors import PER_SESSION, Descriptors
from postern.domain.hook import HookOutcome
from postern.domain.targets.connection import OPAQUE
from postern.domain.text import one_line
from postern.domain.tracing import NO_TRACER, SpanKind, Tracer, within
from postern.errors import PosternError, ProtocolViolation
from postern.relay import relay_hooks
from postern.relay.orders import CANCEL, DIAL, Order, encode_answer, encode_error
from postern.relay.relay_hooks import HOOK, Hook
from postern.relay.relay_target import Target
from postern.transport.mux import Incoming
from postern.transport.pipe import Pipe, PipeEnd

log = logging.getLogger(__name__)

_NOT_REACHED = "connection %r could not be reached: %s"


class OrderRunner(Protocol):
    """Runs orders; see agent/target_dialer.py."""

    async def dial(self, order: Order) -> Target: ...

    async def cancel(self, order: Order, process: int, key: bytes) -> None: ...

    async def hook(self, order: Order, hook: Hook) -> HookOutcome: ...


class Orders:
    """Takes the streams of all tunnels of this agent. `running` counts the joined targets and the running hooks."""

    def __init__(self, reach: OrderRunner, tracer: Tracer = NO_TRACER) -> None:
        self._reach = reach
        self._tracer = tracer
        self._descriptors = Descriptors()
        self.running = 0
        self.idle = asyncio.Event()  # nothing is running
        self.idle.set()

    def take(self, incoming: Incoming) -> None:
        incoming.serve(self._carry_out(incoming))

    async def _carry_out(self, incoming: Incoming) -> None:
        order = Order.read(incoming.request)
        kind = incoming.request.get("order")
        try:
            if kind == DIAL:
                self._join(incoming, order, await self._dial(order))
            elif kind == CANCEL:
                await self._cancel(incoming, order)
            elif kind == HOOK:
                await self._hook(incoming, order)
            else:
                raise ProtocolViolation(
                    f"this agent does not support the order {kind!r}; if it is older than the gateway, upgrade it"
                )
        except PosternError as error:
            failed = "connection %r: a hook was not run: %s" if kind == HOOK else _NOT_REACHED
            log.info(failed, order.connection, one_line(error.message))
            incoming.refuse(*encode_error(error))

    async def _dial(self, order: Order) -> Target:
        """Dial with the gateway's trace, which is trusted like its orders."""
        facts = {"postern.session.id": str(order.session_id), "postern.connection": order.connection}
        self._descriptors.require(PER_SESSION)
        with within(self._tracer.start("agent.dial", SpanKind.SERVER, facts, parent=order.trace)):
            return await self._reach.dial(order)

    def _join(self, incoming: Incoming, order: Order, target: Target) -> None:
        is_opaque = order.subtype in OPAQUE
        near, far = PipeEnd(passes_resets=is_opaque), PipeEnd(passes_resets=is_opaque)

        def over(_error: Exception | None) -> None:
            self._note_end()
            target.release()

        transport = target.stream.transport
        assert transport is not None
        try:
            far.connection_made(transport)
            rest = target.stream.hand_over(far)
            incoming.accept(encode_answer(target), near)
        except BaseException:
            target.stream.close()
            target.release()
            raise
        self._note_start()
        if rest:
            far.data_received(rest)
        if target.stream.has_ended:
            far.eof_received()
        Pipe(near, far, over)

    def _note_start(self) -> None:
        self.running += 1
        self.idle.clear()

    def _note_end(self) -> None:
        self.running -= 1
        if not self.running:
            self.idle.set()

    async def _hook(self, incoming: Incoming, order: Order) -> None:
        hook = Hook.read(incoming.request)
        self._note_start()
        try:
            outcome = await self._reach.hook(order, hook)
        finally:
            self._note_end()
        incoming.accept(relay_hooks.encode_outcome(outcome), PipeEnd())
        incoming.stream.close()

    async def _cancel(self, incoming: Incoming, order: Order) -> None:
        try:
            process, key = int(incoming.request["process"]), bytes.fromhex(incoming.request["key"])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise ProtocolViolation("a cancel order does not name its process") from None
        await self._reach.cancel(order, process, key)
        end = PipeEnd()
        incoming.accept({}, end)
        incoming.stream.close()
