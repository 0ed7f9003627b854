"""The service Control: agents connect, and receive the addresses of the relay workers and changes of their key."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from uuid import UUID

import grpc

from postern.api.control.control_calls import Context, Room, address_of, bearer_of, code_of, first_hello, write
from postern.domain.secret import Secret
from postern.domain.targets.agent import MOST_INSTANCES, Agent, AgentMode
from postern.domain.targets.connection import ConnectionType
from postern.domain.targets.control import HEARTBEAT, SILENCE
from postern.domain.targets.declaration import Declaration
from postern.domain.text import one_line
from postern.errors import Malformed, PosternError, TooMany, Unauthenticated
from postern.protocols.registry import DEFAULT_PROTOCOL
from postern.services.targets.agents import AgentChange, Agents
from postern.services.targets.declarations import Declarations
from postern.services.targets.relay_workers import RelayWorkers
from postern.transport.control import control_pb2 as messages
from postern.transport.control.control_pb2_grpc import ControlServicer

log = logging.getLogger(__name__)

_MOST_REPORTS = 50  # between two heartbeats of the server
_REASONS = {
    AgentChange.RENEWED: "this agent's key was renewed; start it with the new key",
    AgentChange.DELETED: "this agent was deleted",
}
_DRAINED = "an administrator drained this agent: it terminates when its sessions have ended"
_SOME_REASON = "this agent's key was renewed, or the agent was deleted"


@dataclass(eq=False, slots=True)
class _Stream:
    """A connected agent. Its next message waits here as the newest state, never as a queue."""

    agent: Agent
    instance: UUID
    heard_at: float
    declared: str | None  # the name of its connection
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    workers: frozenset[UUID] | None = None
    revoked: str | None = None
    drain: bool = False
    replaced: bool = False
    left: bool = False
    reports: int = 0


class Control(ControlServicer):
    """`tunnel_url` is sent to agents. `watch` must run concurrently."""

    def __init__(
        self,
        agents: Agents,
        declarations: Declarations,
        relay_workers: RelayWorkers,
        room: Room,
        *,
        tunnel_url: str,
    ) -> None:
        self._agents = agents
        self._declarations = declarations
        self._relay_workers = relay_workers
        self._tunnel_url = tunnel_url
        self._room = room
        self._streams: dict[UUID, dict[UUID, _Stream]] = {}
        self._changes: dict[UUID, AgentChange] = {}
        self._changed = asyncio.Event()
        agents.listen(self._on_agent)
        relay_workers.listen(self._changed.set)

    async def Attend(  # noqa: N802 - the proto's name
        self, _requests: object, context: Context
    ) -> None:
        try:
            secret, address = bearer_of(context), address_of(context)
            with self._room.one(address):
                workers = await self._workers()
                stream = await self._enrol_agent(context, secret, address)
                self._admit(stream)
        except PosternError as error:
            if isinstance(error, Unauthenticated):  # few, by the limits of `enrol`
                log.warning("an agent from %s was denied: %s", one_line(context.peer()), error.message)
            await context.abort(code_of(error), error.message)
        reading = asyncio.create_task(_read(context, stream))
        log.info("agent %s connected from %s", stream.agent.name, address)
        try:
            welcome = messages.Welcome(
                agent_id=str(stream.agent.id), tunnel_url=self._tunnel_url, worker_ids=_texts(workers)
            )
            await write(context, messages.AgentOrder(welcome=welcome))
            await self._attend(context, stream, workers)
        finally:
            self._forget(stream)
            reading.cancel()
            log.info("agent %s disconnected from %s", stream.agent.name, address)

    async def watch(self) -> None:
        """Notify streams of changes: upon signals, and every few seconds, since a worker that is killed sends none.
        Runs until cancelled."""
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            try:
                await self._look()
            except PosternError as error:  # the store does not answer: the next round tries again
                log.warning("agents were not notified of changes: %s", error)

    async def _look(self) -> None:
        streams = [stream for of_one in self._streams.values() for stream in of_one.values()]
        if not streams:
            self._changes.clear()
            return
        changes, self._changes = self._changes, {}
        workers = await self._workers()
        enrolled = {(stream.agent.id, stream.agent.digest): stream.agent for stream in streams}
        good = await self._good(list(enrolled.values()))
        for stream in streams:
            if changes.get(stream.agent.id) is AgentChange.DRAINED:
                stream.drain = True
                stream.wake.set()
            if (stream.agent.id, stream.agent.digest) not in good:
                stream.revoked = _REASONS.get(changes.get(stream.agent.id, AgentChange.CAME), _SOME_REASON)
                stream.wake.set()
            elif stream.workers != workers:
                stream.workers = workers
                stream.wake.set()

    async def _good(self, agents: list[Agent]) -> set[tuple[UUID, bytes | None]]:
        """Check each stream by its own key: for a moment an agent can be connected with its old and its new key."""
        good: set[tuple[UUID, bytes | None]] = set()
        waiting = agents
        while waiting:
            once = {agent.id: agent for agent in waiting}
            valid_keys = await self._agents.still_good(list(once.values()))
            good |= {(key, once[key].digest) for key in valid_keys}
            waiting = [agent for agent in waiting if agent is not once[agent.id]]
        return good

    async def _enrol_agent(self, context: Context, secret: Secret, address: str) -> _Stream:
        """Admit an agent. Raises Unauthenticated, TooMany, Malformed, Unavailable, and what Declarations do."""
        hello, instance = await first_hello(context)
        agent = await self._agents.enrol(secret, name=hello.name, address=address)
        declaration = _declaration(agent, hello)
        if declaration is not None:
            beside = self._attends_by_another_name(agent, instance, declaration.name)
            await self._declarations.declare(agent, declaration, address=address, beside=beside)
        await self._agents.store_facts(agent, dict(hello.facts))
        declared = None if declaration is None else declaration.name
        return _Stream(agent, instance, asyncio.get_running_loop().time(), declared)

    def _attends_by_another_name(self, agent: Agent, instance: UUID, name: str) -> bool:
        others = self._streams.get(agent.id, {}).items()
        return any(key != instance and stream.declared not in (None, name) for key, stream in others)

    def _admit(self, stream: _Stream) -> None:
        """Raises TooMany."""
        of_one = self._streams.setdefault(stream.agent.id, {})
        older = of_one.get(stream.instance)
        if older is None and len(of_one) >= MOST_INSTANCES:
            raise TooMany(
                f"{MOST_INSTANCES} instances of this agent are connected already; stop one, or create another agent"
            )
        of_one[stream.instance] = stream
        if older is not None:  # most likely half-open: it must not block the live one
            older.replaced = True
            older.wake.set()

    def _forget(self, stream: _Stream) -> None:
        of_one = self._streams.get(stream.agent.id, {})
        if of_one.get(stream.instance) is stream:
            del of_one[stream.instance]
            if not of_one:
                del self._streams[stream.agent.id]

    async def _attend(self, context: Context, stream: _Stream, worker_ids: frozenset[UUID]) -> None:
        clock = asyncio.get_running_loop().time
        beat_at = clock()
        while not stream.left:
            try:
                async with asyncio.timeout_at(beat_at + HEARTBEAT):
                    await stream.wake.wait()
            except TimeoutError:
                await write(context, messages.AgentOrder(heart_beat=messages.HeartBeat()))
                beat_at, stream.reports = clock(), 0
            stream.wake.clear()
            if stream.revoked is not None:
                await write(context, messages.AgentOrder(revoked=messages.Revoked(reason=stream.revoked)))
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, stream.revoked)
            if stream.replaced:
                await context.abort(grpc.StatusCode.ABORTED, "a newer stream of this instance replaced this one")
            if stream.reports > _MOST_REPORTS:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the agent sends more reports than allowed")
            if clock() - stream.heard_at > SILENCE:
                await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"no report arrived for {SILENCE:.0f} s")
            if stream.drain:
                stream.drain = False
                await write(context, messages.AgentOrder(drain=messages.Drain(reason=_DRAINED)))
            if stream.workers is not None and stream.workers != worker_ids:
                worker_ids = stream.workers
                changed = messages.WorkersChanged(worker_ids=_texts(worker_ids))
                await write(context, messages.AgentOrder(workers_changed=changed))

    async def _workers(self) -> frozenset[UUID]:
        return frozenset(worker.id for worker in await self._relay_workers.living())

    def _on_agent(self, agent_id: UUID, change: AgentChange) -> None:
        heard = change in _REASONS or change is AgentChange.DRAINED
        if heard and agent_id in self._streams:
            if self._changes.get(agent_id) not in _REASONS:  # the end of its key is never forgotten
                self._changes[agent_id] = change
            self._changed.set()


def _declaration(agent: Agent, hello: messages.Hello) -> Declaration | None:
    """Raises Malformed."""
    declares = hello.HasField("declaration")
    if agent.mode is not AgentMode.EMBEDDED:
        if declares:
            raise Malformed(
                f"agent {agent.name!r} is not embedded, and cannot declare a connection; start it with "
                "`postern agent`, or create an embedded one with `postern admin agents create NAME --mode "
                "embedded`"
            )
        return None
    if not declares:
        raise Malformed(
            f"agent {agent.name!r} is embedded in an application, and must declare its connection; start "
            f"it with `postern run -- COMMAND` or `postern run --{DEFAULT_PROTOCOL} VARIABLE`"
        )
    declaration = hello.declaration
    try:
        kind = ConnectionType(declaration.type)
    except ValueError:
        raise Malformed(f"declaration: the type must be one of {', '.join(sorted(ConnectionType))}") from None
    return Declaration(
        name=declaration.name,
        type=kind,
        subtype=declaration.subtype,
        command=tuple(declaration.command),
        reviewers=tuple(declaration.reviewers),
        redact_types=tuple(declaration.redact_types),
        connection_tags=dict(declaration.connection_tags),
        default_database=declaration.default_database,
    )


async def _read(context: Context, stream: _Stream) -> None:
    """Read the reports after the first, which are heartbeats; unknown kinds are ignored."""
    clock = asyncio.get_running_loop().time
    try:
        while stream.reports <= _MOST_REPORTS and await context.read() is not grpc.aio.EOF:
            stream.heard_at = clock()
            stream.reports += 1
    except grpc.aio.BaseError as error:  # the call has ended meanwhile
        log.debug("reports of agent %s ended: %s", stream.agent.name, error)
    stream.left = stream.reports <= _MOST_REPORTS
    stream.wake.set()


def _texts(workers: frozenset[UUID]) -> list[str]:
    return sorted(map(str, workers))
