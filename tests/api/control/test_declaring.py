"""Agents that declare their connection when they attend: real gRPC, with the client that agents have."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import uuid4

import grpc
import pytest
from tests.api.control.conftest import Attend
from tests.api.control.test_control_stream import rest, stub
from tests.support.control import Place
from tests.support.promises import until, within

from postern.domain.targets.agent import AgentKey, AgentMode
from postern.domain.targets.connection import ConnectionType
from postern.domain.targets.control import Welcome
from postern.domain.targets.declaration import Declaration
from postern.errors import Conflict, Invalid, Malformed, NotFound, Unauthenticated, Unavailable
from postern.transport.control import control_pb2 as messages

pytestmark = pytest.mark.ci

SHOP = Declaration("shop-db", ConnectionType.DATABASE, "postgres", (), ("dba",), ("US_SSN",), {"a": "b"}, "shop")


@pytest.fixture
async def key(place: Place) -> AgentKey:
    return await place.key("shop", AgentMode.EMBEDDED)


async def test_it_is_let_in_when_its_connection_is_there(place: Place, attend: Attend, key: AgentKey) -> None:
    agent = attend(key, declaration=SHOP)
    welcome = await agent.next()
    assert isinstance(welcome, Welcome)
    made = await place.services.connections.get(place.admin, "shop-db")
    assert (made.agent_id, made.command, made.reviewers) == (welcome.agent_id, (), ("dba",))
    assert (made.redact_types, made.connection_tags, made.default_database) == (("US_SSN",), {"a": "b"}, "shop")


async def test_a_taken_name_and_what_breaks_a_rule_are_final(place: Place, attend: Attend, key: AgentKey) -> None:
    await place.world.add_connection("taken")
    with pytest.raises(Conflict, match="agent 'shop' did not declare it; choose another one with `postern run --name`"):
        await attend(key, declaration=replace(SHOP, name="taken")).ended()
    with pytest.raises(Malformed, match="cannot be enforced yet"):
        await attend(key, declaration=replace(SHOP, subtype="mysql", command=())).ended()


async def test_another_name_waits_until_the_instance_before_has_gone(
    place: Place, attend: Attend, key: AgentKey, caplog: pytest.LogCaptureFixture
) -> None:
    first = attend(key, declaration=SHOP)
    await first.next()
    second = attend(key, declaration=replace(SHOP, name="shop-2"))
    await until(lambda: "an instance of agent 'shop' serves connection 'shop-db'" in caplog.text)
    assert second.orders.empty()
    await first.stop()
    assert isinstance(await second.next(60), Welcome)
    with pytest.raises(NotFound):
        await place.services.connections.get(place.admin, "shop-db")


async def test_replicas_stand_beside_each_other(place: Place, attend: Attend, key: AgentKey) -> None:
    agents = [attend(key, declaration=SHOP) for _ in range(8)]
    for agent in agents:
        assert isinstance(await agent.next(), Welcome)
    assert not any(agent.task.done() for agent in agents)


async def test_a_store_that_does_not_answer_is_no_refusal(
    place: Place, attend: Attend, key: AgentKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise Unavailable("the store does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(type(place.world.stores.connections), "add", fail)
        agent = attend(key, declaration=SHOP)
        with pytest.raises(TimeoutError):
            await agent.next(0.8)
    assert isinstance(await agent.next(60), Welcome)


async def test_the_mode_of_the_key_says_who_declares(place: Place, attend: Attend, key: AgentKey) -> None:
    with pytest.raises(Malformed, match="must declare its connection; start it with `postern run -- COMMAND`"):
        await attend(key).ended()
    with pytest.raises(Malformed, match="not embedded, and cannot declare a connection; start it with `postern agent`"):
        await attend(await place.key(), declaration=SHOP).ended()
    with pytest.raises(NotFound):
        await place.services.connections.get(place.admin, "shop-db")


async def test_one_that_is_deleted_ends_and_its_connection_is_gone(place: Place, attend: Attend, key: AgentKey) -> None:
    agent = attend(key, declaration=SHOP)
    await agent.next()
    await place.services.agent_keys.remove(place.admin, "shop")
    with pytest.raises(Unauthenticated, match="deleted"):
        await agent.ended(within(2))
    with pytest.raises(NotFound):
        await place.services.connections.get(place.admin, "shop-db")


async def test_what_is_too_long_is_refused_before_it_is_sent(attend: Attend, key: AgentKey) -> None:
    with pytest.raises(Invalid, match="put a long command in a script file"):
        await attend(key, declaration=replace(SHOP, command=("x" * 1_000,) * 100)).ended()


@pytest.mark.parametrize(
    ("declaration", "code"),
    [
        (messages.Declaration(name="shop\x1b[2J", type="custom"), grpc.StatusCode.INVALID_ARGUMENT),
        (messages.Declaration(name="shop-db", type="nonsense"), grpc.StatusCode.INVALID_ARGUMENT),
        (messages.Declaration(), grpc.StatusCode.INVALID_ARGUMENT),
        (
            messages.Declaration(
                name="shop-db", type="custom", connection_tags={str(number): "" for number in range(6_000)}
            ),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (
            messages.Declaration(name="shop-db", type="custom", reviewers=["g" * 3_000_000]),
            grpc.StatusCode.RESOURCE_EXHAUSTED,
        ),
    ],
)
async def test_attack_a_key_that_declares_what_our_agents_never_say(
    place: Place, key: AgentKey, declaration: messages.Declaration, code: grpc.StatusCode
) -> None:
    async with stub(place) as call_of:
        call = call_of(key)
        hello = messages.Hello(name="shop", instance=str(uuid4()), declaration=declaration)
        await call.write(messages.AgentReport(hello=hello))
        assert await asyncio.wait_for(rest(call), 60) == []
        assert await call.code() is code
        assert "\x1b" not in (await call.details() or "")


async def test_attack_a_secret_that_is_none_declares_nothing(place: Place, attend: Attend, key: AgentKey) -> None:
    with pytest.raises(Unauthenticated):
        await attend(replace(key, name="edge"), declaration=SHOP).ended()
    with pytest.raises(NotFound):
        await place.services.connections.get(place.admin, "shop-db")
