"""Agents: who dials in, and which are alive."""

from __future__ import annotations

import secrets
from dataclasses import replace
from uuid import uuid4

import pytest
from tests.support.world import World

from postern.domain.secret import Secret
from postern.domain.targets.agent import ALIVE_FOR, MAX_FACT, Agent, AgentMode
from postern.errors import NotFound, TooMany, Unauthenticated
from postern.services.targets.agents import AgentChange, digest_of
from postern.store.ports.common_ports import Topic


def make_secret() -> Secret:
    return Secret("xagt-" + secrets.token_urlsafe(32))


async def dialling(world: World, name: str = "edge") -> tuple[Agent, Secret]:
    """An agent and its secret."""
    secret = make_secret()
    agent = Agent(uuid4(), world.org_id, name, AgentMode.STANDARD, None, world.clock(), digest_of(secret))
    await world.stores.agents.add(agent)
    return agent, secret


async def test_an_agent_enrols_by_its_secret_with_its_name_or_without(world: World) -> None:
    agents = world.services().agents
    agent, secret = await dialling(world)
    assert await agents.enrol(secret, name="edge", address="192.0.2.1") == agent
    assert await agents.enrol(secret, name=None, address="192.0.2.1") == agent


@pytest.mark.parametrize("name", ["Edge", "edg", "", "édge", "other"])
async def test_a_secret_with_another_name_is_refused(world: World, name: str) -> None:
    agents = world.services().agents
    _, secret = await dialling(world)
    await dialling(world, "other")
    with pytest.raises(Unauthenticated, match="not known here"):
        await agents.enrol(secret, name=name, address="192.0.2.1")


@pytest.mark.parametrize("text", ["", "xagt-", "xagt-" + "A" * 43, "\x00", "\ud800", "x" * 100_000])
async def test_an_unknown_secret_is_refused(world: World, text: str) -> None:
    agents = world.services().agents
    await dialling(world)
    await world.add_agent()  # has no secret at all
    for name in ("edge", "embedded", None):
        with pytest.raises(Unauthenticated, match="not known here"):
            await agents.enrol(Secret(text), name=name, address="192.0.2.1")


async def test_guessing_is_slowed_by_address_but_a_good_agent_beside_the_guesser_comes_back(world: World) -> None:
    agents = world.services().agents
    _, known = await dialling(world)
    _, newcomer = await dialling(world, "newcomer")
    await agents.enrol(known, name="edge", address="2001:db8::1")
    for number in range(50):
        with pytest.raises(Unauthenticated):
            await agents.enrol(make_secret(), name="edge", address=f"2001:db8::{number:x}")
    for secret in (make_secret(), newcomer):
        with pytest.raises(TooMany):
            await agents.enrol(secret, name=None, address="2001:db8::ffff")
    assert (await agents.enrol(known, name="edge", address="2001:db8::1")).name == "edge"
    assert (await agents.enrol(newcomer, name="newcomer", address="2001:db8:0:1::1")).name == "newcomer"
    world.clock.forward(minutes=15)
    assert (await agents.enrol(newcomer, name="newcomer", address="2001:db8::ffff")).name == "newcomer"


async def test_the_mode_is_asked_of_the_store_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    agents = world.services().agents
    agent, _ = await dialling(world)
    embedded = await world.add_agent()
    assert await agents.mode_of(agent.id) is AgentMode.STANDARD
    assert await agents.mode_of(embedded.id) is AgentMode.GATEWAY
    asked = []

    async def by_id(agent_id: object) -> None:
        asked.append(agent_id)

    monkeypatch.setattr(world.stores.agents, "by_id", by_id)
    assert await agents.mode_of(agent.id) is AgentMode.STANDARD
    assert not asked
    await agents.announce(agent.id, AgentChange.DELETED)
    with pytest.raises(NotFound):
        await agents.mode_of(agent.id)
    assert await agents.mode_of(embedded.id) is AgentMode.GATEWAY
    await world.signals.publish(Topic.RESUMED)  # what was missed is not known
    with pytest.raises(NotFound):
        await agents.mode_of(embedded.id)


async def test_a_beat_touches_those_that_exist_and_no_other(world: World) -> None:
    agents = world.services().agents
    (edge, _), (other, _) = await dialling(world), await dialling(world, "other")
    gone = uuid4()
    assert await agents.beat_for([]) == frozenset()
    assert await agents.beat_for([edge.id, gone]) == {edge.id}
    assert await agents.beat_for([uuid4() for _ in range(2_500)] + [edge.id]) == {edge.id}
    found = {agent.name: agent for agent in await world.stores.agents.all(world.org_id)}
    assert agents.is_online(found["edge"])
    assert not agents.is_online(found["other"])
    world.clock.forward(seconds=ALIVE_FOR.total_seconds())
    assert not agents.is_online(found["edge"])
    assert found["other"].id == other.id


async def test_who_missed_a_signal_learns_whose_key_is_good_no_more(world: World) -> None:
    agents = world.services().agents
    (edge, _), (other, _), (gone, _) = [await dialling(world, name) for name in ("edge", "other", "gone")]
    assert await agents.still_good([edge, other, gone]) == {edge.id, other.id, gone.id}
    await world.stores.agents.update(replace(other, digest=digest_of(make_secret())))
    await world.stores.agents.remove(gone)
    assert await agents.still_good([edge, other, gone]) == {edge.id}
    assert await agents.still_good([await world.add_agent()]) == frozenset()  # one without any key


async def test_facts_that_would_steer_a_terminal_or_fill_the_store_are_cleaned(world: World) -> None:
    agents = world.services().agents
    agent, secret = await dialling(world)
    told = {
        "hostname": "edge\x1b[2J\nroot",
        "version": "1" * 10_000,
        "platform": "\n" * MAX_FACT,
        "kernel_version": "",
        "role": "admin",
    }
    await agents.store_facts(agent, told)
    facts = (await agents.enrol(secret, name="edge", address="192.0.2.1")).facts
    assert facts["hostname"] == "edge\\x1b[2J\\nroot"
    assert facts["version"] == "1" * MAX_FACT
    assert len(facts["platform"]) == MAX_FACT
    assert set(facts) == {"hostname", "version", "platform"}
