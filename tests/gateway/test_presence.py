"""The online status of agents, across workers."""

from __future__ import annotations

from uuid import uuid4

import pytest
from tests.support.promises import until
from tests.support.world import World

from postern.domain.targets.agent import Agent, AgentMode
from postern.domain.worker import RelayWorker
from postern.gateway.gateway_tunnels import GatewayTunnels
from postern.gateway.worker_heartbeat import WorkerHeartbeat
from postern.services.targets.agents import Agents
from postern.store.database import Database
from postern.transport.mux import Mux


@pytest.fixture
async def world(database: Database) -> World:
    return await World.make(database)


async def a_worker(world: World, agents: Agents) -> GatewayTunnels:
    tunnels = GatewayTunnels(wait=1)
    worker = RelayWorker(uuid4(), "w", world.clock(), world.clock())
    await WorkerHeartbeat(worker, agents, world.services().relay_workers, tunnels, world.signals).start()
    return tunnels


def a_tunnel() -> Mux:
    return Mux(dialler=False, hello={}, on_open=lambda incoming: None)


async def is_online(world: World, agents: Agents, agent: Agent) -> bool:
    found = await world.stores.agents.by_id(agent.id)
    assert found is not None
    return agents.is_online(found)


async def until_online(world: World, agents: Agents, agent: Agent, wanted: bool) -> None:
    async def so() -> bool:
        return await is_online(world, agents, agent) is wanted

    await until(so)


async def test_agent_is_offline_as_soon_as_its_last_tunnel_is_lost(world: World) -> None:
    agents = world.services().agents
    edge = Agent(uuid4(), world.org_id, "edge", AgentMode.STANDARD, None, world.clock(), b"x" * 32)
    await world.stores.agents.add(edge)
    one, other = await a_worker(world, agents), await a_worker(world, agents)
    first, second = a_tunnel(), a_tunnel()
    one.add(edge, "1", first)
    other.add(edge, "1", second)
    await until_online(world, agents, edge, True)
    first.close("cut")  # the other worker holds one yet, and says so
    await until(lambda: {"agent_id": str(edge.id), "change": "went"} in world.signals.of("agent.changed"))
    await until_online(world, agents, edge, True)
    second.close("cut")
    await until_online(world, agents, edge, False)
    one.add(edge, "1", a_tunnel())
    await until_online(world, agents, edge, True)
