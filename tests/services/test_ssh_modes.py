"""The access modes of SSH channels: `exec` runs commands, `connect` is for shells, sftp and forwarding."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.world import World

from postern.domain.identity.principal import Principal
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import ConnectionType, Extra, Toggle
from postern.errors import Denied
from postern.services.bundle import Services

SERVER: dict[str, Any] = {"type": ConnectionType.APPLICATION, "subtype": "ssh"}
DATABASE: dict[str, Any] = {"type": ConnectionType.DATABASE, "subtype": "postgres"}


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann")


def modes(*enabled: Verb) -> dict[str, Any]:
    return {f"access_mode_{verb}": Toggle.ENABLED if verb in enabled else Toggle.DISABLED for verb in Verb}


async def admit(services: Services, ann: Principal, mode: Verb, name: str = "web-1") -> Any:
    return await services.access.admit_principal(
        ann, name, verb=Verb.CONNECT, source="::1", means="login:x", modes=(mode,)
    )


@pytest.mark.parametrize("asked", Verb)
@pytest.mark.parametrize("enabled", [(), (Verb.CONNECT,), (Verb.EXEC,), tuple(Verb)], ids=str)
async def test_channel_is_admitted_by_its_own_mode(
    world: World, services: Services, ann: Principal, enabled: tuple[Verb, ...], asked: Verb
) -> None:
    await world.add_connection("web-1", **SERVER, **modes(*enabled))
    if asked in enabled:
        permit = await admit(services, ann, asked)
        assert (permit.verb, permit.modes) == (Verb.CONNECT, (asked,))
        assert await services.access.still_allowed(permit) is None
    else:
        with pytest.raises(Denied, match=f"access mode {asked} is disabled on connection 'web-1', which SSH needs for"):
            await admit(services, ann, asked)


@pytest.mark.parametrize("asked", Verb)
async def test_mode_of_a_channel_means_nothing_to_a_database(
    world: World, services: Services, ann: Principal, asked: Verb
) -> None:
    await world.add_connection("db", **DATABASE, **modes(Verb.EXEC))
    with pytest.raises(Denied, match="access mode connect is disabled on connection 'db'; ask"):
        await admit(services, ann, asked, "db")


@pytest.mark.parametrize("first", Verb)
async def test_permit_of_one_channel_opens_no_channel_of_the_other_mode(
    world: World, services: Services, ann: Principal, first: Verb
) -> None:
    await world.add_connection("web-1", **SERVER, **modes(first))
    permit = await admit(services, ann, first)
    other = next(verb for verb in Verb if verb is not first)
    assert services.access.narrow(permit, (first,), None).modes == (first,)
    for extra in (None, Extra.FILE_TRANSFER):
        with pytest.raises(Denied, match=f"access mode {other} is disabled"):
            services.access.narrow(permit, (other,), extra)


@pytest.mark.parametrize("mode", Verb)
async def test_running_channel_ends_with_its_own_mode_only(
    world: World, services: Services, ann: Principal, mode: Verb
) -> None:
    root = await world.add_user("root", "admin")
    await world.add_connection("web-1", **SERVER, **modes(*Verb))
    permit = services.access.narrow(await admit(services, ann, Verb.CONNECT), (mode,), None)
    other = next(verb for verb in Verb if verb is not mode)
    await services.connections.update(root, "web-1", modes(mode))
    assert await services.access.still_allowed(permit) is None
    permit = await services.access.renew(permit)
    await services.connections.update(root, "web-1", modes(other))
    assert f"access mode {mode} is disabled" in str(await services.access.still_allowed(permit))
    assert (await services.access.renew(permit)).modes == (mode,)


@pytest.mark.parametrize("enabled", Verb)
async def test_command_at_a_terminal_needs_both_modes(
    world: World, services: Services, ann: Principal, enabled: Verb
) -> None:
    root = await world.add_user("root", "admin")
    await world.add_connection("web-1", **SERVER, **modes(*Verb))
    permit = services.access.narrow(await admit(services, ann, Verb.EXEC), tuple(Verb), None)
    assert await services.access.still_allowed(permit) is None
    await services.connections.update(root, "web-1", modes(enabled))
    assert "access mode" in str(await services.access.still_allowed(permit))
    opened = await admit(services, ann, enabled)
    with pytest.raises(Denied, match="access mode"):
        services.access.narrow(opened, tuple(Verb), None)
