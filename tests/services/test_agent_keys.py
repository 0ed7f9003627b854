"""Agents as administrators manage them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import select
from tests.support.world import MACHINE, World

from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.secret import Secret
from postern.domain.server import Endpoint
from postern.domain.targets.agent import Agent, AgentKey, AgentMode
from postern.domain.targets.connection import ConnectionType
from postern.errors import Conflict, Invalid, NotFound, Unauthenticated
from postern.services.bundle import Services
from postern.services.server.audit_context import collect_change
from postern.services.server.server_configs import ServerFields
from postern.store.ports.common_ports import Topic
from postern.store.ports.target_ports import AgentFilter
from postern.store.schema.target_tables import agents as table

CONTROL = replace(MACHINE, control=Endpoint("gate.example.com", 17444), authority=lambda: b"a certificate")


@pytest.fixture
async def admin(world: World) -> Principal:
    return await world.add_user("admin", "admin")


@pytest.fixture
def services(world: World) -> Services:
    return world.services(CONTROL)


async def test_a_key_is_all_that_an_agent_needs_and_the_store_cannot_give_it_again(
    world: World, services: Services, admin: Principal
) -> None:
    issued = await services.agent_keys.create(admin, {"name": "edge", "mode": AgentMode.EMBEDDED})
    key = AgentKey.read(issued.key)
    assert (key.name, key.host, key.port) == ("edge", "gate.example.com", 17444)
    assert (key.mode, key.authority) == (AgentMode.EMBEDDED, b"a certificate")
    assert (await services.agents.enrol(key.secret, name=key.name, address="::1")).id == issued.id
    async with world.database.statement() as connection:
        row = (await connection.execute(select(*table.c))).one()
    assert key.secret.reveal() not in repr(row)
    assert key.secret.reveal().removeprefix("xagt-") not in repr(row)


async def test_the_host_is_the_one_that_is_set_while_the_gateway_runs(services: Services, admin: Principal) -> None:
    await services.server_configs.put(admin, ServerFields(public_host="reach.example.org"))
    assert AgentKey.read((await services.agent_keys.create(admin, {"name": "edge"})).key).host == "reach.example.org"


async def test_the_gateways_own_agents_are_not_managed(world: World, services: Services, admin: Principal) -> None:
    await world.add_agent("embedded")
    with pytest.raises(Invalid, match=r"^mode: "):
        await services.agent_keys.create(admin, {"name": "another", "mode": AgentMode.GATEWAY})
    with pytest.raises(Invalid, match="the gateway's built-in agent"):
        await services.agent_keys.renew(admin, "embedded")
    with pytest.raises(Invalid, match="the gateway's built-in agent"):
        await services.agent_keys.remove(admin, "embedded")
    with pytest.raises(Invalid, match="the gateway's built-in agent"):
        await services.agent_keys.drain(admin, "embedded")


async def test_a_renewed_key_ends_the_one_before_at_once(world: World, services: Services, admin: Principal) -> None:
    first = await services.agent_keys.create(admin, {"name": "edge"})
    with collect_change() as trail:
        second = await services.agent_keys.renew(admin, "edge")
    assert world.signals.of(Topic.AGENT_CHANGED) == [
        {"agent_id": str(first.id), "change": "renewed", "org_id": str(world.org_id)}
    ]
    old, new = AgentKey.read(first.key).secret, AgentKey.read(second.key).secret
    with pytest.raises(Unauthenticated):
        await services.agents.enrol(old, name="edge", address="::1")
    assert (await services.agents.enrol(new, name="edge", address="::1")).id == first.id
    assert new.reveal() not in repr(trail)
    assert trail.after is not None


async def test_an_agent_with_connections_is_not_deleted_and_they_are_named(
    world: World, services: Services, admin: Principal
) -> None:
    issued = await services.agent_keys.create(admin, {"name": "edge"})
    for number in range(7):
        await world.add_connection(f"shop-{number}", issued)
    wanted = r"serves 7 connections: shop-0, shop-1, shop-2, shop-3, shop-4 and 2 more; delete them"
    with pytest.raises(Conflict, match=wanted):
        await services.agent_keys.remove(admin, "edge")
    for number in range(7):
        await services.connections.remove(admin, f"shop-{number}")
    await services.agent_keys.remove(admin, "edge")
    assert world.signals.of(Topic.AGENT_CHANGED)[-1] == {
        "agent_id": str(issued.id),
        "change": "deleted",
        "org_id": str(world.org_id),
    }
    with pytest.raises(NotFound):
        await services.agent_keys.get(admin, "edge")
    with pytest.raises(Unauthenticated):
        await services.agents.enrol(AgentKey.read(issued.key).secret, name="edge", address="::1")
    with pytest.raises(NotFound):
        await services.agent_keys.remove(admin, "edge")


async def test_a_connection_made_while_the_agent_is_deleted_keeps_it(
    world: World, services: Services, admin: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    issued = await services.agent_keys.create(admin, {"name": "edge"})
    remove = type(world.stores.agents).remove

    async def late(self: object, agent: Agent) -> None:
        await world.add_connection("shop", issued)
        await remove(world.stores.agents, agent)

    monkeypatch.setattr(type(world.stores.agents), "remove", late)
    with pytest.raises(Conflict, match="was just assigned to agent"):
        await services.agent_keys.remove(admin, "edge")
    assert (await services.agent_keys.get(admin, "edge")).id == issued.id


async def test_what_an_embedded_agent_declared_goes_with_it(world: World, services: Services, admin: Principal) -> None:
    issued = await services.agent_keys.create(admin, {"name": "app", "mode": AgentMode.EMBEDDED})
    made = await world.add_connection("app-db", issued, managed_by="agent:app")
    await services.agent_keys.remove(admin, "app")
    assert world.signals.of(Topic.POLICY_CHANGED) == [{"connection_id": str(made.id), "org_id": str(world.org_id)}]
    with pytest.raises(NotFound):
        await services.connections.get(admin, "app-db")


async def test_what_others_gave_an_embedded_agent_keeps_it(world: World, services: Services, admin: Principal) -> None:
    issued = await services.agent_keys.create(admin, {"name": "app", "mode": AgentMode.EMBEDDED})
    await world.add_connection("app-db", issued, managed_by="agent:app")
    await world.add_connection("other", issued, type=ConnectionType.DATABASE)
    with pytest.raises(Conflict, match="app-db, other"):
        await services.agent_keys.remove(admin, "app")
    assert (await services.connections.get(admin, "app-db")).agent_id == issued.id


async def test_facts_are_for_administrators_and_auditors(world: World, services: Services, admin: Principal) -> None:
    issued = await services.agent_keys.create(admin, {"name": "edge"})
    await services.agents.store_facts(issued, {"hostname": "db-7.internal"})
    auditor, ann = await world.add_user("aud", "auditor"), await world.add_user("ann")
    for who, facts in ((admin, {"hostname": "db-7.internal"}), (auditor, {"hostname": "db-7.internal"}), (ann, {})):
        assert (await services.agent_keys.get(who, "edge")).facts == facts
        assert [one.facts for one in (await services.agent_keys.search(who, AgentFilter(), Page())).items] == [facts]


async def test_they_are_found_by_status_and_by_a_part_of_the_name(
    world: World, services: Services, admin: Principal
) -> None:
    made = {name: await services.agent_keys.create(admin, {"name": name}) for name in ("Edge-1", "edge_2", "far")}
    await services.agents.beat_for([made["Edge-1"].id, made["far"].id])
    world.clock.forward(seconds=10)
    await services.agents.beat_for([made["edge_2"].id])
    world.clock.forward(seconds=5)

    async def names(*, online: bool | None = None, search: str | None = None) -> list[str]:
        found = await services.agent_keys.search(admin, AgentFilter(search=search), Page(), online)
        assert found.total == len(found.items)
        return sorted(one.name for one in found.items)

    assert await names() == ["Edge-1", "edge_2", "far"]
    assert await names(online=True) == ["edge_2"]
    assert await names(online=False) == ["Edge-1", "far"]
    assert await names(search="EDGE") == ["Edge-1", "edge_2"]
    assert await names(search="_") == ["edge_2"]
    assert await names(search="%") == []
    assert await names(online=False, search="edge") == ["Edge-1"]


async def test_no_key_is_shown_in_a_representation(services: Services, admin: Principal) -> None:
    issued = await services.agent_keys.create(admin, {"name": "edge"})
    assert "xagt" not in repr(issued)
    assert "xagt" not in repr(AgentKey.read(issued.key))
    assert isinstance(issued.key, Secret)
