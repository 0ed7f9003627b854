"""What an approval is bound to: where a connection leads, and who made what somebody logs in with."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.world import World

from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import person_of
from postern.domain.secret import Secret
from postern.domain.targets.connection import ConnectionType, Toggle
from postern.services.bundle import Services

HOST, OTHER = Secret("ZGIuZXhhbXBsZQ=="), Secret("b3RoZXIuZXhhbXBsZQ==")


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
async def root(world: World) -> Principal:
    return await world.add_user("root", "admin")


@pytest.mark.parametrize(
    "changes",
    [
        {"subtype": "mysql"},
        {"subtype": "mssql"},
        {"subtype": "oracledb"},
        {"type": ConnectionType.CUSTOM, "subtype": "", "command": ("psql", "-h", "elsewhere")},
        {"secret": {"envvar:HOST": OTHER, "envvar:USER": None, "envvar:DB": None}},
        {"secret": {"envvar:HOST": HOST, "envvar:USER": None}},
        {"secret": {"envvar:HOST": None, "envvar:USER": None, "envvar:PORT": Secret("NTQzMw==")}},
    ],
)
async def test_a_connection_that_leads_elsewhere_has_another_place(
    services: Services, world: World, root: Principal, changes: dict[str, Any]
) -> None:
    await world.add_connection("shop")
    before = await services.connections.get(root, "shop")
    answered = await services.connections.update(root, "shop", changes)
    after = await services.connections.get(root, "shop")
    assert answered.place == after.place
    assert None not in (before.place, after.place)
    assert after.place != before.place


async def test_another_agent_is_another_place(services: Services, world: World, root: Principal) -> None:
    before = await world.add_connection("shop")
    there = (await services.connections.get(root, "shop")).place
    other = await world.add_agent("other")
    moved = await services.connections.update(root, "shop", {"agent_id": other.id})
    assert moved.place != there
    back = await services.connections.update(root, "shop", {"agent_id": before.agent_id})
    assert back.place not in (there, moved.place)  # what was approved before stays gone


async def test_whatever_else_changes_of_a_connection_its_place_stays(
    services: Services, world: World, root: Principal
) -> None:
    await world.add_connection("shop")
    before = await services.connections.get(root, "shop")
    others: list[dict[str, Any]] = [
        {"access_mode_exec": Toggle.DISABLED},
        {"connection_tags": {"env": "prod"}, "access_max_duration": 600},
        {"secret": {"envvar:HOST": HOST, "envvar:USER": None, "envvar:DB": None}},
    ]
    for changes in others:
        await services.connections.update(root, "shop", changes)
    assert (await services.connections.get(root, "shop")).place == before.place


async def test_who_logs_in_is_admitted_to_the_place_as_it_is(services: Services, world: World, root: Principal) -> None:
    await world.add_connection("shop")
    issued = await services.credentials.issue(root, "shop", None)
    moved = await services.connections.update(
        root, "shop", {"secret": {"envvar:HOST": OTHER, "envvar:USER": None, "envvar:DB": None}}
    )
    grant = await world.stores.access.find_grant(issued.credential.username)
    assert grant is not None
    assert grant.connection.place == moved.place


async def test_new_connections_have_places_of_their_own(services: Services, world: World, root: Principal) -> None:
    one = await world.add_connection("one")
    places = [(await services.connections.get(root, "one")).place]
    for name in ("two", "three"):
        created = await services.connections.create(root, {"name": name, "type": one.type, "agent_id": one.agent_id})
        places.append(created.place)
    assert len(set(places)) == 3
    assert None not in places


async def test_makers_are_those_who_could_use_it_themselves(services: Services, world: World, root: Principal) -> None:
    await world.add_connection("shop")
    boss = await world.add_user("boss", "admin")
    machine = await services.machines.create(root, {"name": "batch", "connection_names": ("shop",)})
    (first,) = machine.issued
    second = await services.machines.rotate(boss, "batch", "shop", overlap=60, seconds=None)
    own = await services.credentials.issue(root, "shop", None)
    key = await services.api_keys.create(boss, {"name": "ci"})
    makers = world.stores.reviews.makers
    acting = machine.id
    assert await makers(acting, first.credential.id) == (person_of(root),)
    assert await makers(acting, second.credential.id) == (person_of(boss),)
    assert await makers(root.id, own.credential.id) == ()
    assert await makers(key.account.id, None) == (person_of(boss),)
