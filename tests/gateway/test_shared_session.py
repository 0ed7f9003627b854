"""Sessions of several links: they share what ends them, and a link that ends does not end the others."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from tests.gateway.test_live import OVER, permit_of
from tests.support.links import Asks
from tests.support.promises import until
from tests.support.protocols import postgres_test_messages as pg

from postern.domain.rules.permit import Permit
from postern.domain.rules.policy import Policy
from postern.domain.sessions.session import EndReason
from postern.errors import RecordingFailed, Unavailable
from postern.gateway.engine import Engine, Parts
from postern.gateway.link_registry import LinkRegistry
from postern.gateway.rules.held_requests import HeldRequests
from postern.gateway.session_opening import SessionAborted
from postern.gateway.shared_session import SharedSession
from postern.interception.events import Event, Note
from postern.interception.pipeline import Pipeline, SessionView
from postern.protocols.postgres.wire.postgres_wire import PostgresWire
from postern.protocols.wire_base import Side
from postern.relay.driver import Driver
from postern.relay.link import HoldEffect
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start, Target
from postern.services.admission import Access
from postern.services.sessions import Sessions
from postern.store.ports.common_ports import Topic
from postern.store.signals import LocalSignals
from postern.transport.memory import MemoryTransport


class End(asyncio.Protocol):
    """One side of a link, as its client or its target sees it."""

    def __init__(self) -> None:
        self.received = b""
        self.lost = False
        self.transport = MemoryTransport(self)
        self.stream = StreamHandshake()
        self.stream.connection_made(self.transport)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True

    def send(self, data: bytes) -> None:
        link = self.transport.get_protocol()
        assert isinstance(link, asyncio.Protocol)
        link.data_received(data)


class Kept:
    """A recording."""

    size, truncated = 1, False

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.finished: list[str] = []
        self.broken = False

    def record(self, events: list[Event], micros: int) -> None:
        if self.broken:
            raise RecordingFailed("the disk is full")
        self.events += events

    async def finish(self, reason: str, micros: int, *, soon: bool) -> None:
        self.finished.append(reason)


class Site:
    """An engine, a registry, and a target that always answers its dialler, unless `problem` says otherwise."""

    def __init__(self, idle_timeout: float = 0) -> None:
        self.signals = LocalSignals()
        self.over: set[UUID | None] = set()
        self.policy: Policy | None = None
        self.recordings: list[Kept] = []
        self.closed: list[tuple[EndReason, dict[str, Any]]] = []
        self.targets: list[End] = []
        self.views: list[SessionView] = []
        self.parked: list[tuple[Permit, Driver]] = []
        self.problem: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        access = cast("Access", SimpleNamespace(still_allowed=self._still_allowed, renew=self._renew))
        self.links = LinkRegistry(access, self.signals, self._pipeline, idle_timeout=idle_timeout)
        parts = Parts(
            pipeline=self._pipeline,
            recording=self._recording,
            wire=lambda permit, start, parameters: PostgresWire(),
        )
        sessions = cast("Sessions", SimpleNamespace(open=self._open, close=self._close))
        held = cast("HeldRequests", SimpleNamespace(on_park=self._park))
        self.engine = Engine(
            "w1", sessions, cast("Any", self), self.links, parts, max_duration=3600, held_requests=held
        )

    def _recording(self, session_id: UUID, permit: Permit, at: datetime) -> Any:
        self.recordings.append(Kept())
        return self.recordings[-1]

    def _pipeline(self, permit: Permit, view: SessionView) -> Pipeline:
        self.views.append(view)
        return Pipeline([Asks()], view)

    def _park(self, _id: UUID, permit: Permit, _start: Start, driver: Driver, _park: HoldEffect) -> None:
        self.parked.append((permit, driver))

    async def _still_allowed(self, permit: Permit) -> str | None:
        return OVER if permit.review_id in self.over else None

    async def _renew(self, permit: Permit) -> Permit:
        return permit if self.policy is None else replace(permit, policy=self.policy)

    async def _open(self, permit: Permit, *, session_id: UUID, **_: Any) -> Any:
        return SimpleNamespace(id=session_id, start_date=datetime.now(UTC))

    async def _close(self, session_id: UUID, **ended: Any) -> None:
        self.closed.append((ended["reason"], ended["metrics"]))

    async def dial(self, permit: Permit, start: Start, session_id: UUID) -> Target:
        await self.gate.wait()
        if self.problem is not None:
            raise self.problem
        self.targets.append(End())
        return Target(self.targets[-1].stream)

    async def cancel(self, permit: Permit, target: Target) -> None: ...

    async def open(self, permit: Permit | None = None, idle: float = 0) -> tuple[SharedSession, Link]:
        permit = permit or shop_permit()
        since = self.links.changes
        opened, target = await self.engine.open(permit, Start(), {}, since=since)
        shared = self.engine.share(opened, target.schema, since=since, idle=idle)
        link = self.run(shared, target)
        await asyncio.sleep(0)
        return shared, link

    def run(self, shared: SharedSession, target: Target) -> Link:
        client = End()
        task = asyncio.get_running_loop().create_task(self.engine.run_link(shared, client.stream, target))
        return Link(client, self.targets[-1], task)

    async def again(self, shared: SharedSession) -> Link:
        link = self.run(shared, await self.engine.dial_again(shared))
        await asyncio.sleep(0)
        return link


class Link:
    def __init__(self, client: End, target: End, task: asyncio.Task[EndReason]) -> None:
        self.client, self.target, self.task = client, target, task


def shop_permit(review_id: UUID | None = None, expires_at: datetime | None = None) -> Permit:
    permit = permit_of(review_id, expires_at)
    connection = SimpleNamespace(
        id=uuid4(),
        org_id=uuid4(),
        name="shop",
        type="application",
        subtype="postgres",
        protocol="postgres",
        connection_tags={},
        issue_template_id=None,
    )
    return replace(permit, connection=cast("Any", connection), policy=Policy())


@pytest.fixture
async def site() -> Site:
    return Site()


async def two(site: Site, permit: Permit | None = None, idle: float = 0) -> tuple[SharedSession, Link, Link]:
    shared, first = await site.open(permit, idle)
    second = await site.again(shared)
    return shared, first, second


async def test_links_run_at_the_same_time_and_end_alone(site: Site) -> None:
    shared, first, second = await two(site)
    first.client.send(pg.query("select 1"))
    second.client.send(pg.query("select 22"))
    await until(lambda: b"select 22" in second.target.received)
    assert b"select 1" in first.target.received
    assert site.links.running == 1
    first.client.transport.close()
    assert await first.task is EndReason.CLIENT_CLOSED
    assert shared.end_reason is None
    third = await site.again(shared)
    third.client.send(pg.query("select 333"))
    await until(lambda: b"select 333" in third.target.received)
    relayed = site.links.count_relayed_bytes(Side.CLIENT)
    assert relayed == sum(len(pg.query(text)) for text in ("select 1", "select 22", "select 333"))
    shared.end(EndReason.COMPLETED, "over")
    await until(lambda: site.closed)
    ((reason, metrics),) = site.closed
    assert (reason, metrics["client_bytes"], metrics["operations"]) == (EndReason.COMPLETED, relayed, 3)
    assert site.links.count_relayed_bytes(Side.CLIENT) == relayed
    assert (site.links.running, len(site.recordings), site.recordings[0].finished) == (0, 1, ["completed"])


async def test_killed_session_ends_with_all_its_links(site: Site) -> None:
    shared, first, second = await two(site)
    await site.signals.publish(Topic.SESSION_KILL, session_id=str(shared.session_id))
    assert [await first.task, await second.task] == [EndReason.KILLED] * 2
    await until(lambda: site.closed)
    assert site.closed[0][0] is EndReason.KILLED
    assert first.client.lost
    assert second.target.lost


async def test_killed_session_without_a_link_ends(site: Site) -> None:
    shared, link = await site.open()
    link.client.transport.close()
    await link.task
    await site.signals.publish(Topic.SESSION_KILL, session_id=str(shared.session_id))
    await until(lambda: site.closed)
    with pytest.raises(SessionAborted, match="killed"):
        await site.engine.dial_again(shared)
    with pytest.raises(SessionAborted, match="killed"):
        shared.begin_exchange()


async def test_link_that_is_dialled_while_the_session_is_killed_never_runs(site: Site) -> None:
    shared, _first = await site.open()
    site.gate.clear()
    dialling = asyncio.ensure_future(site.engine.dial_again(shared))
    await asyncio.sleep(0.01)
    await site.signals.publish(Topic.SESSION_KILL, session_id=str(shared.session_id))
    with pytest.raises(SessionAborted):
        await dialling
    await until(lambda: site.closed)


async def test_target_that_cannot_be_dialled_again_ends_nothing(site: Site) -> None:
    shared, first = await site.open()
    site.problem = Unavailable("the target is away")
    with pytest.raises(Unavailable):
        await site.engine.dial_again(shared)
    first.client.send(pg.query("select 1"))
    await until(lambda: first.target.received)
    assert shared.end_reason is None


async def test_ended_review_ends_the_session(site: Site) -> None:
    review = uuid4()
    _, first, second = await two(site, shop_permit(review))
    site.over.add(review)
    await site.signals.publish(Topic.REVIEW_CHANGED, review_id=str(review), status="REVOKED")
    assert [await first.task, await second.task] == [EndReason.REVOKED] * 2


async def test_changed_policy_applies_to_all_links_and_to_later_ones(site: Site) -> None:
    shared, *links = await two(site)
    site.policy = Policy(max_duration=7)
    before = len(site.views)
    await site.signals.publish(Topic.POLICY_CHANGED)
    await until(lambda: len(site.views) == before + 2)
    assert shared.permit.policy.max_duration == 7
    links.append(await site.again(shared))
    for link in links:
        link.client.send(pg.query("review this"))
    await until(lambda: len(site.parked) == 3)
    assert {permit.policy.max_duration for permit, _ in site.parked} == {7}
    assert len({driver for _, driver in site.parked}) == 3


async def test_views_of_links_share_only_counters(site: Site) -> None:
    shared, *_ = await two(site)
    first, second = site.views
    assert first.metrics is second.metrics is shared.view.metrics
    assert first.id == second.id
    assert first.notes is not second.notes
    assert first.marks is not second.marks
    assert first.carried_over is not second.carried_over


@pytest.mark.parametrize("with_link", [True, False])
async def test_expired_permit_ends_the_session(site: Site, with_link: bool) -> None:
    shared, link = await site.open(shop_permit(None, datetime.now(UTC) + timedelta(seconds=0.2)))
    if not with_link:
        link.client.transport.close()
    sweeping = asyncio.ensure_future(site.links.sweep())
    await until(lambda: site.closed)
    sweeping.cancel()
    assert shared.end_reason is EndReason.EXPIRED


async def test_session_without_exchanges_is_idle(site: Site) -> None:
    shared, first = await site.open(idle=0.2)
    shared.begin_exchange()
    await asyncio.sleep(0.3)
    shared.end_if_idle(0)
    assert shared.end_reason is None
    shared.end_exchange()
    shared.end_if_idle(0)
    assert shared.end_reason is None
    await asyncio.sleep(0.25)
    shared.end_if_idle(0)
    assert await first.task is EndReason.IDLE
    await until(lambda: site.closed)


async def test_idle_timeout_of_the_gateway_holds_where_it_is_shorter(site: Site) -> None:
    shared, _first = await site.open(idle=60)
    await asyncio.sleep(0.15)
    shared.end_if_idle(0.1)
    assert shared.end_reason is EndReason.IDLE


async def test_silent_link_in_an_exchange_ends_alone(site: Site) -> None:
    """Such as a WebSocket on which neither side says anything."""
    shared, first = await site.open(idle=60)
    shared.begin_exchange()
    await asyncio.sleep(0.15)
    shared.end_if_idle(0.1)
    assert await first.task is EndReason.IDLE
    assert shared.end_reason is None


async def test_numbers_of_exchanges_are_unique_in_the_session(site: Site) -> None:
    shared, _ = await site.open()
    assert [shared.next_number() for _ in range(3)] == [1, 2, 3]
    shared.end(EndReason.COMPLETED, "over")
    with pytest.raises(SessionAborted):
        shared.next_number()


async def test_recording_that_fails_ends_all_links(site: Site) -> None:
    shared, first, second = await two(site)
    site.recordings[0].broken = True
    first.client.send(pg.query("select 1"))
    assert await first.task is EndReason.RECORDING_FAILED
    assert await second.task is EndReason.RECORDING_FAILED
    assert first.target.received == b""
    await until(lambda: site.closed)
    assert shared.end_reason is EndReason.RECORDING_FAILED


async def test_broken_protocol_ends_its_link_with_a_note(site: Site) -> None:
    shared, first, second = await two(site)
    first.client.send(b"Q\x00\x00\x00\x01")
    assert await first.task is EndReason.PROTOCOL_VIOLATION
    notes = [event for event in site.recordings[0].events if isinstance(event, Note)]
    assert [note.details["reason"] for note in notes] == [EndReason.PROTOCOL_VIOLATION]
    assert shared.end_reason is None
    assert not second.task.done()


async def test_stopping_gateway_closes_the_session_in_time(site: Site) -> None:
    shared, *links = await two(site)
    await site.links.stop(2)
    await site.engine.shared_sessions.stop(2)
    assert [reason for reason, _ in site.closed] == [EndReason.GATEWAY_STOPPED]
    assert {await link.task for link in links} == {EndReason.GATEWAY_STOPPED}
    assert shared.end_text == "the gateway is stopping"
