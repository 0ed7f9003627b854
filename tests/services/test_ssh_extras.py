"""What SSH clients may ask for besides a shell and commands, each by its own switch, also while it goes on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.support.world import World

from postern.domain.identity.principal import Principal
from postern.domain.rules.permit import Permit
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import ConnectionType, Extra, Toggle
from postern.errors import Denied
from postern.services.bundle import Services

WEB: dict[str, Any] = {"type": ConnectionType.APPLICATION, "subtype": "ssh"}


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann")


async def admit(services: Services, ann: Principal) -> Permit:
    return await services.access.admit_principal(ann, "web-1", verb=Verb.CONNECT, source="::1", means="login:x")


@pytest.mark.parametrize("extra", Extra)
async def test_each_has_a_switch_of_its_own(world: World, services: Services, ann: Principal, extra: Extra) -> None:
    root = await world.add_user("root", "admin")
    others: dict[str, Any] = {f"access_{one}": Toggle.ENABLED for one in Extra if one is not extra}
    await world.add_connection("web-1", **WEB, **others | {f"access_{extra}": Toggle.DISABLED})
    with pytest.raises(Denied, match=f"access_{extra}"):
        services.access.narrow(await admit(services, ann), (Verb.CONNECT,), extra)
    await services.connections.update(root, "web-1", {f"access_{extra}": Toggle.ENABLED})
    permit = await admit(services, ann)
    narrowed = services.access.narrow(permit, (Verb.CONNECT,), extra)
    assert await services.access.still_allowed(narrowed) is None
    await services.connections.update(root, "web-1", {f"access_{extra}": Toggle.DISABLED})
    assert f"access_{extra}" in str(await services.access.still_allowed(narrowed))
    assert await services.access.still_allowed(permit) is None  # a shell goes on


async def test_only_files_are_let_through_where_nobody_chose(world: World, services: Services, ann: Principal) -> None:
    await world.add_connection("web-1", **WEB)
    permit = await admit(services, ann)
    assert [extra for extra in Extra if permit.connection.allows(extra)] == [Extra.FILE_TRANSFER]


async def test_a_right_ends_with_what_was_logged_in_with_also_once_it_was_renewed(
    world: World, services: Services, ann: Principal
) -> None:
    await world.add_connection("web-1", **WEB)
    until = world.clock.now + timedelta(minutes=5)
    permit = await services.access.admit_principal(
        ann, "web-1", verb=Verb.CONNECT, source="::1", means="login:x", expires_at=until
    )
    assert permit.expires_at == until
    assert (await services.access.renew(permit)).expires_at == until
