"""Host keys of targets: the first one that is met is pinned, for as long as the connection leads there."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest
from tests.support.public_keys import ecdsa_line, ed25519_line
from tests.support.world import World

from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.domain.targets.connection import Connection, ConnectionType
from postern.errors import Conflict, Denied, Invalid, NotFound
from postern.services.bundle import Services

SESSION = uuid4()


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
async def root(world: World) -> Principal:
    return await world.add_user("root", "admin")


@pytest.fixture
async def web(world: World, services: Services, root: Principal) -> Connection:
    await world.add_connection("web-1", type=ConnectionType.APPLICATION, subtype="ssh")
    return await services.connections.get(root, "web-1")


async def test_the_first_key_is_pinned_and_no_other_counts(
    world: World, services: Services, root: Principal, web: Connection
) -> None:
    first, other = ed25519_line(), ecdsa_line()
    assert await services.host_keys.find_known(web) == ()
    await services.host_keys.pin(web, f"{first} root@web-1", SESSION)
    assert await services.host_keys.find_known(web) == (first,)
    await services.host_keys.pin(web, first, uuid4())  # met again
    with pytest.raises(Denied) as caught:
        await services.host_keys.pin(web, other, uuid4())
    _, (pinned,) = await services.host_keys.find(root, "web-1")
    assert (pinned.session_id, pinned.pinned_at) == (SESSION, world.clock.now)
    said = str(caught.value)
    assert pinned.key.fingerprint in said
    assert "ecdsa-sha2-nistp256 SHA256:" in said
    assert "postern connections host-keys web-1 --forget" in said
    assert await services.host_keys.find_known(web) == (first,)


async def test_of_two_that_meet_one_at_the_same_time_one_is_first(
    services: Services, root: Principal, web: Connection
) -> None:
    met = [ed25519_line() for _ in range(6)]
    done = await asyncio.gather(*(services.host_keys.pin(web, key, uuid4()) for key in met), return_exceptions=True)
    won = [key for key, answer in zip(met, done, strict=True) if answer is None]
    assert len(won) == 1
    assert {type(answer) for answer in done if answer is not None} == {Denied}
    assert await services.host_keys.find_known(web) == tuple(won)


async def test_what_was_pinned_holds_only_for_where_it_leads(
    services: Services, root: Principal, web: Connection
) -> None:
    first, second = ed25519_line(), ed25519_line()
    await services.host_keys.pin(web, first, SESSION)
    elsewhere = {"envvar:HOST": Secret("b3RoZXI="), "envvar:USER": None}
    moved = await services.connections.update(root, "web-1", {"secret": elsewhere})
    assert await services.host_keys.find_known(moved) == ()
    with pytest.raises(Denied):  # who is on the way to where it led before has the key of there
        await services.host_keys.pin(web, second, SESSION)
    await services.host_keys.pin(moved, second, SESSION)
    assert await services.host_keys.find_known(moved) == (second,)
    assert await services.host_keys.find_known(web) == ()  # what is for other places went
    with pytest.raises(Conflict, match="target was just changed"):
        await services.host_keys.pin(web, first, SESSION)
    assert await services.host_keys.find_known(moved) == (second,)


async def test_administrators_have_it_forgotten(
    world: World, services: Services, root: Principal, web: Connection
) -> None:
    ann, eve = await world.add_user("ann"), await world.add_user("eve", "auditor")
    await services.host_keys.pin(web, ed25519_line(), SESSION)
    for principal in (ann, eve):
        with pytest.raises(Denied):
            await services.host_keys.forget(principal, "web-1")
    with pytest.raises(Denied):
        await services.host_keys.find(ann, "web-1")
    assert len((await services.host_keys.find(eve, "web-1"))[1]) == 1
    await services.host_keys.forget(root, "web-1")
    assert await services.host_keys.find_known(web) == ()
    second = ed25519_line()
    await services.host_keys.pin(web, second, SESSION)
    assert await services.host_keys.find_known(web) == (second,)
    with pytest.raises(NotFound):
        await services.host_keys.find(root, "web-2")


async def test_it_goes_with_its_connection(services: Services, root: Principal, web: Connection) -> None:
    await services.host_keys.pin(web, ed25519_line(), SESSION)
    await services.connections.remove(root, "web-1")
    assert await services.host_keys.find_known(web) == ()
    with pytest.raises(Conflict, match="was deleted"):
        await services.host_keys.pin(web, ed25519_line(), SESSION)


async def test_what_is_no_key_is_not_pinned(services: Services, web: Connection) -> None:
    with pytest.raises(Invalid, match="host_key: "):
        await services.host_keys.pin(web, "ssh-ed25519 AAAA", SESSION)
    assert await services.host_keys.find_known(web) == ()
