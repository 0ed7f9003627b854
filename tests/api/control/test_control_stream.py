"""Agents attend: real gRPC over TLS on loopback, with the client that agents have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

import grpc
import pytest
from tests.api.control.conftest import Attend
from tests.support.certificates import issue
from tests.support.control import TUNNEL_URL, Link, Place
from tests.support.promises import until, wait_until, within

from postern.api.control import control_stream
from postern.api.control.control_calls import Room, address_of
from postern.client import client_control as client
from postern.domain.targets.agent import AgentKey
from postern.domain.targets.control import SILENCE, Drain, Welcome, WorkersChanged
from postern.domain.worker import RelayWorker
from postern.errors import TooMany, Unauthenticated, Unavailable
from postern.services.targets.agent_keys import make_secret
from postern.transport.control import control_pb2 as messages
from postern.transport.control.control_pb2_grpc import ControlStub

pytestmark = pytest.mark.ci


def worker(place: Place, name: str = "w1") -> RelayWorker:
    return RelayWorker(uuid4(), name, place.world.clock(), place.world.clock())


async def test_an_agent_enrols_and_hears_where_tunnels_go_and_which_workers_live(place: Place, attend: Attend) -> None:
    one, two = worker(place), worker(place, "w2")
    await place.services.relay_workers.beat(one)
    agent = attend(await place.key(), facts={"hostname": "db-7", "version": "0.3"})
    kept = await place.services.agent_keys.get(place.admin, "edge")
    assert await agent.next() == Welcome(kept.id, TUNNEL_URL, frozenset({one.id}))
    assert (await place.services.agent_keys.get(place.admin, "edge")).facts == {"hostname": "db-7", "version": "0.3"}
    await place.services.relay_workers.beat(two)
    assert await agent.next(within(2)) == WorkersChanged(frozenset({one.id, two.id}))
    await place.services.relay_workers.mark_stopped(one.id)
    assert await agent.next(within(2)) == WorkersChanged(frozenset({two.id}))
    place.world.clock.forward(seconds=15)  # killed: it says nothing
    assert await agent.next(60) == WorkersChanged(frozenset())


@pytest.mark.parametrize("change", ["secret", "name"])
async def test_a_key_that_is_not_good_ends_it_and_says_why(place: Place, attend: Attend, change: str) -> None:
    key = await place.key()
    await place.key("other")
    wrong = replace(key, secret=make_secret()) if change == "secret" else replace(key, name="other")
    agent = attend(wrong)
    with pytest.raises(Unauthenticated, match=r"this agent key is not known here.*renew-key"):
        await agent.ended()


@pytest.mark.parametrize("authority", ["another", "public"])
async def test_a_gateway_with_another_authority_hears_no_key(
    place: Place, attend: Attend, authority: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Attack: somebody answers in the gateway's place."""
    key = await place.key()
    agent = attend(replace(key, authority=issue("localhost").der if authority == "another" else None))
    await until(lambda: "its certificate is not issued by" in caplog.text)
    assert agent.orders.empty()
    assert not agent.task.done()
    assert key.secret.reveal() not in caplog.text
    assert (await place.services.agent_keys.get(place.admin, "edge")).facts == {}


async def test_a_certificate_for_another_name_is_refused(
    place: Place, attend: Attend, caplog: pytest.LogCaptureFixture
) -> None:
    await place.stop()
    place.issued = issue("gate.example.com")
    await place.start()
    agent = attend(await place.key())
    await until(lambda: "its certificate is not valid for the name localhost" in caplog.text)
    assert agent.orders.empty()
    assert not agent.task.done()


async def test_a_renewed_key_ends_who_attends_by_the_old_one_and_leaves_the_new_one(
    place: Place, attend: Attend
) -> None:
    old = await place.key()
    first = attend(old)
    await first.next()
    issued = await place.services.agent_keys.renew(place.admin, "edge")
    second = attend(place.trusting(AgentKey.read(issued.key)))
    with pytest.raises(Unauthenticated, match="this agent's key was renewed; start it with the new key"):
        await first.ended(within(2))
    assert isinstance(await second.next(), Welcome)
    with pytest.raises(TimeoutError):
        await second.ended(1)


async def test_a_deleted_agent_is_told_so(place: Place, attend: Attend) -> None:
    agent = attend(await place.key())
    await agent.next()
    await place.services.agent_keys.remove(place.admin, "edge")
    with pytest.raises(Unauthenticated, match="this agent was deleted"):
        await agent.ended(within(2))


async def test_one_that_is_drained_hears_it_once_and_who_comes_later_does_not(place: Place, attend: Attend) -> None:
    key = await place.key()
    agent, other = attend(key), attend(await place.key("other"))
    await agent.next()
    await other.next()
    await place.services.agent_keys.drain(place.admin, "edge")
    assert await agent.next(within(2)) == Drain(
        "an administrator drained this agent: it terminates when its sessions have ended"
    )
    again = attend(key)
    assert isinstance(await again.next(), Welcome)
    for one in (agent, other, again):
        with pytest.raises(TimeoutError):
            await one.next(0.5)


async def test_an_end_of_the_key_is_not_forgotten_over_a_drain(place: Place, attend: Attend) -> None:
    agent = attend(await place.key())
    await agent.next()
    await place.services.agent_keys.renew(place.admin, "edge")
    await place.services.agent_keys.drain(place.admin, "edge")
    with pytest.raises(Unauthenticated, match="key was renewed"):
        await agent.next(within(2))


async def test_a_revocation_whose_signal_was_lost_is_noticed(place: Place, attend: Attend) -> None:
    agent, other = attend(await place.key()), attend(await place.key("other"))
    await agent.next()
    await other.next()
    found = await place.services.agent_keys.get(place.admin, "edge")
    await place.world.stores.agents.update(replace(found, digest=b"\x01" * 32))
    with pytest.raises(Unauthenticated, match="rejects this key"):
        await agent.ended(60)
    assert not other.task.done()


async def test_it_comes_back_by_itself_when_the_gateway_was_away(place: Place, attend: Attend) -> None:
    agent = attend(await place.key())
    assert isinstance(await agent.next(), Welcome)
    await place.stop()
    await asyncio.sleep(0.5)
    await place.start()
    assert isinstance(await agent.next(60), Welcome)


async def test_a_store_that_does_not_answer_is_no_refusal(
    place: Place, attend: Attend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that took an outage for the end of its key would have to be started by hand."""

    async def fail(*_: object) -> None:
        raise Unavailable("the store does not answer")

    key = await place.key()
    with monkeypatch.context() as broken:
        broken.setattr(place.world.stores.agents, "by_digest", fail)
        agent = attend(key)
        with pytest.raises(TimeoutError):
            await agent.next(0.8)
    assert isinstance(await agent.next(60), Welcome)
    await until(lambda: not place.server._control._room._waiting)  # type: ignore[union-attr]


async def test_several_instances_attend_side_by_side_and_the_newest_stream_of_one_wins(
    place: Place, attend: Attend, caplog: pytest.LogCaptureFixture
) -> None:
    key, instance = await place.key(), uuid4()
    older, beside = attend(key, instance=instance), attend(key)
    await older.next()
    await beside.next()
    newer = attend(key, instance=instance)
    await newer.next()
    await until(lambda: "a newer stream of this instance replaced this one" in caplog.text)
    await newer.stop()
    assert isinstance(await older.next(60), Welcome)  # it comes again, and is the newest now
    assert beside.orders.empty()
    assert not beside.task.done()


@pytest.mark.slow
async def test_a_link_that_froze_is_noticed_by_both_and_left(place: Place, attend: Attend) -> None:
    """Half-open: neither side is told that the other is not there."""
    link = Link(place.port)
    key = replace(await place.key(), port=await link.start())
    try:
        agent = attend(key)
        await agent.next()
        link.freeze()
        since = asyncio.get_running_loop().time()
        await asyncio.sleep(1)
        link.thaw()
        while link.accepted < 2:
            assert asyncio.get_running_loop().time() - since < within(SILENCE + client.FIRST_RETRY + 2)
            await asyncio.sleep(0.1)
        assert isinstance(await agent.next(), Welcome)
        await asyncio.sleep(SILENCE + 2 - (asyncio.get_running_loop().time() - since))
        await until(lambda: _streams(place) == 1)  # the frozen one is gone
    finally:
        await link.stop()


def _streams(place: Place) -> int:
    assert place.server is not None
    return sum(len(of_one) for of_one in place.server._control._streams.values())


async def test_an_agent_that_went_silent_without_the_link_breaking_is_let_go(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_stream, "HEARTBEAT", 0.5)
    monkeypatch.setattr(control_stream, "SILENCE", 1.5)
    async with stub(place) as call_of:
        call = call_of(await place.key())
        await call.write(hello())
        assert (await call.read()).WhichOneof("order") == "welcome"
        heard = await asyncio.wait_for(rest(call), 60)
        assert set(heard) == {"heart_beat"}
        assert 2 <= len(heard) <= 4
        assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: _streams(place) == 0)


@pytest.mark.slow
async def test_a_stranger_who_opens_a_thousand_streams_and_says_nothing_keeps_nobody_out_for_long(
    place: Place, attend: Attend
) -> None:
    """Over one connection hardly any are open at a time; over many, few may wait and the others are turned away."""
    async with AsyncExitStack() as opened:
        one, many = await opened.enter_async_context(stub(place)), []
        for _ in range(20):
            many.append(await opened.enter_async_context(stub(place)))
        key = AgentKey("edge", make_secret(), "localhost", place.port)
        calls = [one(key) for _ in range(500)] + [call_of(key) for call_of in many for _ in range(25)]
        assert place.server is not None
        waiting = place.server._control._room._waiting
        await asyncio.to_thread(wait_until, lambda: waiting.total() >= 32, 60.0)
        assert waiting.total() == 32
        agent = attend(await place.key())
        with pytest.raises(TimeoutError):
            await agent.next(1)  # it is of the same address, so it waits until some of these are turned away
        assert isinstance(await agent.next(120), Welcome)
        codes = {await call.code() for call in calls if call.done()}
        assert codes <= {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE}
        assert len(codes) == 2


def test_few_may_wait_to_be_let_in_and_fewer_from_one_neighbourhood() -> None:
    room = Room(3, 2)
    with room.one("192.0.2.1"), room.one("2001:db8::1"), ExitStack() as third:
        third.enter_context(room.one("2001:db8::2"))
        with pytest.raises(TooMany), room.one("198.51.100.1"):
            pass
        third.close()
        with room.one("2001:db8::3"), pytest.raises(TooMany), room.one("192.0.2.2"):
            pass
        with room.one("192.0.2.1"):
            pass
    with ExitStack() as two:
        for _ in range(2):
            two.enter_context(room.one("192.0.2.1"))
        with pytest.raises(TooMany), room.one("192.0.2.1"):
            pass
    assert not room._waiting


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:192.0.2.1:4711", "192.0.2.1"),
        ("ipv6:%5B2001:db8::1%5D:4711", "2001:db8::1"),
        ("ipv6:[::1]:4711", "::1"),
        ("ipv6:%5Bfe80::1%25eth0%5D:4711", "fe80::1"),
        ("unix:", ""),
    ],
)
def test_the_address_of_a_peer_is_read(peer: str, address: str) -> None:
    class Called:
        def peer(self) -> str:
            return peer

    assert address_of(Called()) == address  # type: ignore[arg-type]


async def test_a_stranger_without_a_bearer_is_turned_away_at_once(place: Place) -> None:
    async with channel(place) as opened:
        for metadata in ((), (("authorization", "Basic x"),), (("authorization", "Bearer a"),) * 2):
            call = ControlStub(opened).Attend(metadata=metadata)  # type: ignore[no-untyped-call]
            assert await asyncio.wait_for(call.code(), 60) is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    "report",
    [
        messages.AgentReport(heart_beat=messages.HeartBeat()),
        messages.AgentReport(),
        messages.AgentReport(hello=messages.Hello(name="edge", instance="x")),
    ],
)
async def test_a_first_report_that_is_none_is_refused(place: Place, report: messages.AgentReport) -> None:
    async with stub(place) as call_of:
        call = call_of(await place.key())
        await call.write(report)
        assert await asyncio.wait_for(call.code(), 60) is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_report_that_is_too_large_or_a_flood_of_them_ends_the_stream(place: Place) -> None:
    async with stub(place) as call_of:
        key = await place.key()
        call = call_of(key)
        await call.write(hello(facts={"hostname": "x" * 100_000}))
        assert await asyncio.wait_for(call.code(), 60) is grpc.StatusCode.RESOURCE_EXHAUSTED
        call = call_of(key)
        await call.write(hello())
        beat = messages.AgentReport(heart_beat=messages.HeartBeat())
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            for _ in range(10_000):
                await call.write(beat)
        await asyncio.wait_for(rest(call), 60)
        # INTERNAL is what gRPC's client makes of a write that failed before it read why.
        assert await call.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL)
    await until(lambda: _streams(place) == 0)


async def test_one_agent_cannot_take_all_the_streams(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_stream, "MOST_INSTANCES", 3)
    key = await place.key()
    calls = []
    async with stub(place) as call_of:
        for number in range(4):
            calls.append(call_of(key))
            await calls[-1].write(hello())
            if number < 3:
                assert (await calls[-1].read()).WhichOneof("order") == "welcome"
        assert await asyncio.wait_for(calls[3].code(), 60) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "3 instances of this agent are connected already" in await calls[3].details()
        assert not calls[0].done()


async def test_plain_text_is_not_answered(place: Place) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 9)
    assert b"postern" not in await asyncio.wait_for(reader.read(), 60)
    writer.close()


async def rest(call: Any) -> list[str]:
    """All orders until the end; only then gRPC tells the status."""
    heard: list[str] = []
    with suppress(grpc.aio.AioRpcError):
        while (order := await call.read()) is not grpc.aio.EOF:
            heard.append(order.WhichOneof("order"))
    return heard


def hello(facts: dict[str, str] | None = None) -> messages.AgentReport:
    return messages.AgentReport(hello=messages.Hello(name="edge", instance=str(uuid4()), facts=facts or {}))


def channel(place: Place) -> grpc.aio.Channel:
    credentials = grpc.ssl_channel_credentials(place.issued.authority.encode())
    own_connection = [("grpc.use_local_subchannel_pool", 1)]
    return grpc.aio.secure_channel(f"localhost:{place.port}", credentials, options=own_connection)


@asynccontextmanager
async def stub(place: Place) -> AsyncIterator[Callable[[AgentKey], Any]]:
    """Calls without our client, by which one can say what it never says."""
    async with channel(place) as opened:
        attend = ControlStub(opened).Attend  # type: ignore[no-untyped-call]
        yield lambda key: attend(metadata=(("authorization", f"Bearer {key.secret.reveal()}"),))
