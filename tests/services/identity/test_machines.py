"""Machine identities and the credentials they hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.world import World

from postern.domain.identity.credential import Issued
from postern.domain.identity.principal import Principal
from postern.domain.targets.connection import Toggle
from postern.errors import Conflict, Denied, Invalid, NotFound
from postern.services.bundle import Services
from postern.store.ports.common_ports import Topic


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
async def root(world: World) -> Principal:
    return await world.add_user("root", "admin")


async def admitted(services: Services, issued: Issued) -> bool:
    grant = await services.access.find_grant(issued.credential.username)
    if grant is None:
        return False
    try:
        permit = await services.access.admit(grant, source="::1")
    except Denied:
        return False
    return await services.access.still_allowed(permit) is None


async def test_a_machine_has_a_credential_for_each_connection(
    services: Services, world: World, root: Principal
) -> None:
    for name in ("shop", "stock", "third"):
        await world.add_connection(name)
    fields = {
        "description": "nightly",
        "connection_names": ["shop", "stock", "shop"],
        "attributes": {"team": "data"},
        "access_duration_seconds": 60,
    }
    made = await services.machines.create(root, {"name": "batch", **fields})
    assert made.connection_names == ("shop", "stock")
    assert [await admitted(services, issued) for issued in made.issued] == [True, True]
    changed = await services.machines.update(root, "batch", {"connection_names": ("stock", "third")})
    assert [issued.connection.name for issued in changed.issued] == ["third"]
    assert changed.connection_names == ("stock", "third")
    assert (changed.description, changed.attributes) == ("nightly", {"team": "data"})
    assert [await admitted(services, issued) for issued in made.issued] == [False, True]
    shop = made.issued[0].credential
    assert world.signals.of(Topic.CREDENTIAL_REVOKED) == [{"credential_id": str(shop.id)}]
    world.clock.forward(seconds=60)
    assert (await services.machines.get(root, "batch")).connection_names == ("third",)


async def test_it_is_made_with_all_its_credentials_or_not_at_all(
    services: Services, world: World, root: Principal
) -> None:
    await world.add_connection("shop")
    await world.add_connection("closed", access_mode_connect=Toggle.DISABLED)
    for names, error in ((("shop", "closed"), Denied), (("shop", "nothing"), Invalid)):
        with pytest.raises(error):
            await services.machines.create(root, {"name": "batch", "connection_names": names})
        with pytest.raises(NotFound):
            await services.machines.get(root, "batch")
    await services.machines.create(root, {"name": "batch"})
    for name in ("batch", "Batch"):
        with pytest.raises(Conflict):
            await services.machines.create(root, {"name": name})


async def test_refused_change_issues_and_ends_no_credential(services: Services, world: World, root: Principal) -> None:
    for name in ("shop", "stock"):
        await world.add_connection(name)
    made = await services.machines.create(root, {"name": "batch", "connection_names": ["shop"]})
    older = await services.machines.get(root, "batch")
    await services.machines.update(root, "batch", {"description": "nightly"})
    with pytest.raises(Conflict, match="changed by another request"):
        await services.machines.authorized_write(root, older, replace(older, connection_names=("stock",)))
    assert [name for _, name in await services.machines.credentials(root, "batch")] == ["shop"]
    assert await admitted(services, made.issued[0])


async def test_rotation_with_an_overlap(services: Services, world: World, root: Principal) -> None:
    await world.add_connection("shop")
    first = (await services.machines.create(root, {"name": "batch", "connection_names": ("shop",)})).issued[0]
    grant = await services.access.find_grant(first.credential.username)
    assert grant is not None
    permit = await services.access.admit(grant, source="::1")
    second = await services.machines.rotate(root, "batch", "shop", overlap=60, seconds=None)
    assert second.password != first.password
    assert (await admitted(services, first), await admitted(services, second)) == (True, True)
    ends = (await services.access.renew(permit)).expires_at  # what a live link is given: it ends with the overlap
    world.clock.forward(seconds=60)
    assert ends == world.clock()
    assert (await admitted(services, first), await admitted(services, second)) == (False, True)
    third = await services.machines.rotate(root, "batch", "shop", overlap=0, seconds=3600)
    assert (await admitted(services, second), await admitted(services, third)) == (False, True)
    shown = await services.machines.credentials(root, "batch")
    assert {connection for _, connection in shown} == {"shop"}
    assert len(shown) == 3
    with pytest.raises(Invalid, match="overlap_seconds"):
        await services.machines.rotate(root, "batch", "shop", overlap=-1, seconds=None)


async def test_rotation_gives_no_connection_that_was_not_given(
    services: Services, world: World, root: Principal
) -> None:
    for name in ("shop", "stock"):
        await world.add_connection(name)
    await services.machines.create(root, {"name": "batch", "connection_names": ("shop",)})
    with pytest.raises(NotFound, match="stock"):
        await services.machines.rotate(root, "batch", "stock", overlap=0, seconds=None)
    await services.machines.update(root, "batch", {"connection_names": ()})
    with pytest.raises(NotFound):
        await services.machines.rotate(root, "batch", "shop", overlap=0, seconds=None)


async def test_a_deleted_machine_is_out_at_once(services: Services, world: World, root: Principal) -> None:
    await world.add_connection("shop")
    made = await services.machines.create(root, {"name": "batch", "connection_names": ("shop",)})
    grant = await services.access.find_grant(made.issued[0].credential.username)
    assert grant is not None
    permit = await services.access.admit(grant, source="::1")
    await services.machines.remove(root, "batch")
    assert not await admitted(services, made.issued[0])
    assert "deleted" in str(await services.access.still_allowed(permit))
    assert world.signals.of(Topic.PRINCIPAL_CHANGED) == [{"principal_id": str(made.id)}]
