"""Terminals in browsers at admission: their switch, their login, and how fresh it must be."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.world import CLIENT, World

from postern.domain.identity.login import BrowserTerminal, ClientKind, Login, LoginMethod
from postern.domain.identity.principal import Principal
from postern.domain.rules.permit import Permit
from postern.domain.secret import Secret
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import ConnectionType, Toggle
from postern.errors import Denied, NotFound, StepUpRequired
from postern.services.bundle import Services
from postern.services.identity.logins.logins import FRESH
from postern.store.ports.common_ports import Topic

COMMAND: dict[str, Any] = {"type": ConnectionType.CUSTOM, "subtype": "", "command": ("bash",)}
ON: dict[str, Any] = {**COMMAND, "access_mode_web_terminal": Toggle.ENABLED}
FRESHLY: dict[str, Any] = {**ON, "access_fresh_factor": Toggle.ENABLED}
OFF = "terminals in the browser are disabled"


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann")


@pytest.fixture
async def login(services: Services, ann: Principal) -> Login:
    account = await services.users.own(ann)
    opened = await services.logins.open(account, LoginMethod.LOCAL, replace(CLIENT, kind=ClientKind.WEB))
    return opened.login


async def admit(world: World, services: Services, ann: Principal, login: Login, **more: Any) -> Permit:
    return await services.access.admit_principal(
        ann,
        "shell",
        verb=Verb.CONNECT,
        source="::1",
        means=f"login:{login.id}",
        browser=BrowserTerminal(login, more.pop("requested_at", world.clock())),
        **more,
    )


async def test_terminal_needs_its_own_switch_and_that_of_connect(
    world: World, services: Services, ann: Principal, login: Login
) -> None:
    connection = await world.add_connection("shell", **COMMAND)
    with pytest.raises(Denied, match=OFF):
        await admit(world, services, ann, login)
    await world.overwrite(connection, access_mode_web_terminal=Toggle.ENABLED)
    permit = await admit(world, services, ann, login)
    assert permit.in_browser
    assert await services.access.still_allowed(permit) is None
    await world.overwrite(connection, access_mode_connect=Toggle.DISABLED, access_mode_web_terminal=Toggle.ENABLED)
    with pytest.raises(Denied, match="access mode connect is disabled"):
        await admit(world, services, ann, login)


async def test_command_line_needs_no_switch_of_terminals(world: World, services: Services, ann: Principal) -> None:
    await world.add_connection("shell", **COMMAND)
    permit = await services.access.admit_principal(ann, "shell", verb=Verb.CONNECT, source="::1", means="login:x")
    assert not permit.in_browser
    assert await services.access.still_allowed(permit) is None


@pytest.mark.parametrize("subtype", ["postgres", "mysql", "tcp"])
async def test_targets_without_a_terminal_are_named(
    world: World, services: Services, ann: Principal, login: Login, subtype: str
) -> None:
    kind = ConnectionType.APPLICATION if subtype == "tcp" else ConnectionType.DATABASE
    await world.add_connection("shell", type=kind, subtype=subtype, access_mode_web_terminal=Toggle.ENABLED)
    with pytest.raises(Denied, match="only commands and SSH servers have one"):
        await services.access.require_terminal(ann, "shell", BrowserTerminal(login, world.clock()))


async def test_running_terminal_ends_when_it_is_switched_off(
    world: World, services: Services, ann: Principal, login: Login
) -> None:
    connection = await world.add_connection("shell", **ON)
    permit = await admit(world, services, ann, login)
    await world.overwrite(connection, access_mode_web_terminal=Toggle.DISABLED)
    assert OFF in (await services.access.still_allowed(permit) or "")


async def test_running_terminal_ends_with_its_login_and_a_command_line_does_not(
    world: World, services: Services, ann: Principal, login: Login
) -> None:
    await world.add_connection("shell", **ON)
    terminal = await admit(world, services, ann, login)
    by_command_line = replace(terminal, in_browser=False)
    signalled: list[str] = []
    world.signals.subscribe(Topic.PRINCIPAL_CHANGED, lambda payload: signalled.append(payload["principal_id"]))
    await services.logins.end(ann, login.id)
    assert signalled == [str(ann.id)]  # workers check then
    assert "login of this terminal has ended" in (await services.access.still_allowed(terminal) or "")
    assert await services.access.still_allowed(by_command_line) is None


async def test_running_terminal_ends_when_its_login_has_expired(
    world: World, services: Services, ann: Principal, login: Login
) -> None:
    await world.add_connection("shell", **ON)
    terminal = await admit(world, services, ann, login)
    world.clock.forward(seconds=(login.expires_at - world.clock.now).total_seconds() - 1)
    assert await services.access.still_allowed(terminal) is None
    world.clock.forward(seconds=1)
    assert "log in again" in (await services.access.still_allowed(terminal) or "")


async def test_attack_login_of_a_different_user_keeps_no_terminal(
    world: World, services: Services, ann: Principal, login: Login
) -> None:
    await world.add_connection("shell", **ON)
    bob = await world.add_user("bob")
    terminal = replace(await admit(world, services, ann, login), principal=bob)
    assert "login of this terminal has ended" in (await services.access.still_allowed(terminal) or "")


async def test_stale_login_must_be_confirmed_first(
    world: World, services: Services, ann: Principal, login: Login
) -> None:
    await world.add_connection("shell", **FRESHLY)
    await admit(world, services, ann, login)
    requested_at = world.clock()
    world.clock.forward(seconds=FRESH.total_seconds())
    with pytest.raises(StepUpRequired, match="POST /api/login/step-up"):
        await admit(world, services, ann, login)
    await admit(world, services, ann, login, requested_at=requested_at)  # it has waited for a review since
    with pytest.raises(StepUpRequired):
        await admit(world, services, ann, replace(login, fresh_until=None))
    await admit(world, services, ann, await services.logins.confirm(login))


async def test_running_terminal_stays_when_its_login_is_no_longer_fresh(
    world: World, services: Services, ann: Principal, login: Login
) -> None:
    await world.add_connection("shell", **FRESHLY)
    permit = await admit(world, services, ann, login)
    world.clock.forward(seconds=2 * FRESH.total_seconds())
    assert await services.access.still_allowed(permit) is None


async def test_attack_denied_user_is_not_told_to_confirm(
    world: World, services: Services, ann: Principal, login: Login
) -> None:
    """What is hidden stays hidden, and a proof would change nothing."""
    world.clock.forward(seconds=FRESH.total_seconds())
    browser = BrowserTerminal(login, world.clock())
    with pytest.raises(NotFound):
        await services.access.require_terminal(ann, "shell", browser)
    await world.add_connection("shell", **{**FRESHLY, "access_mode_web_terminal": Toggle.DISABLED})
    with pytest.raises(Denied, match=OFF):
        await services.access.require_terminal(ann, "shell", browser)


async def test_attestation_is_of_one_token_and_address(services: Services) -> None:
    attestations, token = services.terminal_attestations, Secret("token")
    issued = await attestations.issue(token, "10.0.0.1")
    await attestations.require(token, "10.0.0.1", issued)
    for other_token, address, attestation in (
        (token, "10.0.0.2", issued),
        (Secret("other"), "10.0.0.1", issued),
        (token, "10.0.0.1", Secret("")),
        (token, "10.0.0.1", Secret("ü")),
        (Secret('token", "10'), ".0.0.1", issued),
    ):
        with pytest.raises(Denied):
            await attestations.require(other_token, address, attestation)


async def test_login_is_fresh_for_ten_minutes(world: World, login: Login) -> None:
    assert login.is_fresh(world.clock())
    assert login.fresh_until == world.clock() + timedelta(minutes=10)
