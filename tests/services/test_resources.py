"""Resources and tags of connections, on both engines."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from tests.support.world import World

from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.targets.agent import ALIVE_FOR
from postern.domain.targets.resource import MOST_NAMED, TagUse
from postern.errors import Conflict, Denied, NotFound
from postern.services.bundle import Services
from postern.store.ports.target_ports import ConnectionFilter, SessionFilter


@pytest.fixture
async def admin(world: World) -> Principal:
    return await world.add_user("admin", "admin")


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


async def names(services: Services, principal: Principal, page: Page | None = None) -> list[str]:
    return [one.name for one in (await services.resources.find(principal, page or Page())).items]


async def test_a_resource_comes_with_its_first_connection_and_stays_after_the_last(
    world: World, services: Services, admin: Principal
) -> None:
    assert await names(services, admin) == []
    reading = await world.add_connection("reading", resource_name="warehouse")
    writing = await world.add_connection("writing", resource_name="warehouse")
    await world.add_connection("alone")
    assert await names(services, admin) == ["alone", "warehouse"]
    found = await services.resources.get(admin, "warehouse")
    assert (dict(found.connections), found.total) == ({reading.id: "reading", writing.id: "writing"}, 2)
    assert await services.resources.get(admin, str(found.id)) == found
    await services.connections.update(admin, "writing", {"resource_name": "mart"})
    assert await names(services, admin) == ["alone", "mart", "warehouse"]
    await services.connections.remove(admin, "reading")
    assert (await services.resources.get(admin, "warehouse")).total == 0


async def test_only_an_empty_resource_is_deleted(world: World, services: Services, admin: Principal) -> None:
    await world.add_connection("shop", resource_name="warehouse")
    with pytest.raises(Conflict, match="has 1 connection: shop; delete"):
        await services.resources.remove(admin, "warehouse")
    await services.connections.remove(admin, "shop")
    with pytest.raises(Denied):
        await services.resources.remove(await world.add_user("ann"), "warehouse")
    await services.resources.remove(admin, "warehouse")
    with pytest.raises(NotFound):
        await services.resources.remove(admin, "warehouse")


async def test_connections_made_at_once_share_their_new_resource(
    world: World, services: Services, admin: Principal
) -> None:
    agent = await world.add_agent()
    await asyncio.gather(*(world.add_connection(f"c-{n}", agent=agent, resource_name="warehouse") for n in range(5)))
    assert (await services.resources.get(admin, "warehouse")).total == 5


async def test_a_resource_that_gets_a_connection_at_this_moment_is_kept_or_made_anew(
    world: World, services: Services, admin: Principal
) -> None:
    agent = await world.add_agent()
    for n in range(10):
        await world.add_connection(f"first-{n}", agent=agent, resource_name=f"r-{n}")
        await services.connections.remove(admin, f"first-{n}")
        await asyncio.gather(
            services.resources.remove(admin, f"r-{n}"),
            world.add_connection(f"second-{n}", agent=agent, resource_name=f"r-{n}"),
            return_exceptions=True,
        )
        assert (await services.resources.get(admin, f"r-{n}")).total == 1


async def test_a_large_resource_names_its_first_connections(world: World, services: Services, admin: Principal) -> None:
    agent = await world.add_agent()
    for n in range(MOST_NAMED + 2):
        await world.add_connection(f"c-{n:03}", agent=agent, resource_name="warehouse")
    found = (await services.resources.find(admin, Page())).items[0]
    assert list(found.connections.values()) == [f"c-{n:03}" for n in range(MOST_NAMED)]
    assert found.total == MOST_NAMED + 2


async def test_what_rules_hide_is_in_no_resource_and_no_tag(world: World, services: Services, admin: Principal) -> None:
    bob = await world.add_user("bob", "dba")
    for name, env in (("open", "test"), ("closed", "prod"), ("hidden", "prod")):
        tags = {"env": env, "kind": "db"}
        resource = "warehouse" if name != "hidden" else "vault"
        await world.add_connection(name, connection_tags=tags, resource_name=resource)
    await services.features.put(admin, "access-control", enabled=True)
    fields = {"name": "dbas", "groups": ("dba",), "connection_tags": {"env": "test"}}
    await services.access_rules.create(admin, fields)
    assert await names(services, bob) == ["warehouse"]
    seen = await services.resources.get(bob, "warehouse")
    assert (list(seen.connections.values()), seen.total) == (["open"], 1)
    with pytest.raises(NotFound):
        await services.resources.get(bob, "vault")
    used = await services.connections.tags(bob, Page())
    assert (list(used.items), used.total) == ([TagUse("env", "test", 1), TagUse("kind", "db", 1)], 2)
    everything = await services.connections.tags(admin, Page(limit=2))
    assert list(everything.items) == [TagUse("env", "prod", 2), TagUse("env", "test", 1)]
    assert everything.total == 3


async def test_resources_of_another_organisation_are_not_seen(
    world: World, services: Services, admin: Principal
) -> None:
    await world.add_connection("shop")
    stranger = replace(admin, id=uuid4(), org_id=uuid4())
    assert await names(services, stranger) == []
    with pytest.raises(NotFound):
        await services.resources.get(stranger, "shop")
    assert (await services.connections.tags(stranger, Page())).total == 0


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (ConnectionFilter(labels=("old",)), ["alive", "gone"]),
        (ConnectionFilter(labels=("old", 'a"b')), ["alive"]),
        (ConnectionFilter(labels=("ol",)), []),
        (ConnectionFilter(labels=(", ",)), []),
        (ConnectionFilter(online=True), ["alive"]),
        (ConnectionFilter(online=False), ["gone"]),
        (ConnectionFilter(search="ONLINE"), ["alive"]),
        (ConnectionFilter(search="offline"), ["gone"]),
        (ConnectionFilter(tags=(("env", None, True),)), ["alive"]),
        (ConnectionFilter(tags=(("env", None, False),)), ["gone"]),
        (ConnectionFilter(ids=()), []),
        (ConnectionFilter(ids=(UUID(int=7),)), []),
        (ConnectionFilter(managed_by="operator"), ["gone"]),
        (ConnectionFilter(resource_name="alive"), ["alive"]),
    ],
)
async def test_filters_have_right_totals_on_both_engines(
    world: World, services: Services, admin: Principal, wanted: ConnectionFilter, found: list[str]
) -> None:
    await world.add_connection("gone", tags=("old", "b"), managed_by="operator")
    world.clock.forward(seconds=ALIVE_FOR.total_seconds())
    await world.add_connection("alive", tags=("old", 'a"b'), connection_tags={"env": "prod"})
    listed = await services.connections.search(admin, wanted, Page(limit=1))
    assert ([one.connection.name for one in listed.items], listed.total) == (found[:1], len(found))


async def test_sessions_are_found_by_the_name_and_the_id_of_their_connection(
    world: World, services: Services, admin: Principal
) -> None:
    agent = await world.add_agent()
    shop = await world.add_connection("shop", agent=agent)
    await world.add_connection("store", agent=agent)
    for name in ("shop", "store"):
        await services.sessions.submit(admin, name, "select 1", source="test")
    for key in ("shop", str(shop.id)):
        found = await services.sessions.find(admin, SessionFilter(connection=key), Page())
        assert ([one.connection for one in found.items], found.total) == (["shop"], 1)
