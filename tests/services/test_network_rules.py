"""Network rules in force: every way to a permit, logins and the API. On both engines."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.support.world import World

from postern.domain.identity.login import ClientKind, LoginMethod
from postern.domain.identity.principal import Principal
from postern.domain.rules.permit import Permit
from postern.domain.runbook import SCHEDULE_SOURCE
from postern.domain.sessions.session import Verb
from postern.errors import Conflict, Denied, Invalid
from postern.services.bundle import Services
from postern.services.identity.logins.logins import ClientFacts
from postern.services.server.audit_context import collect_change

INSIDE, OUTSIDE = "192.0.2.7", "198.51.100.7"


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
async def admin(world: World) -> Principal:
    return await world.add_user("root", "admin")


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann", "dba")


async def limit(services: Services, admin: Principal, **fields: Any) -> None:
    await services.network_rules.create(admin, {"name": "office", "allowed_networks": ["192.0.2.0/24"], **fields})


async def by_credential(services: Services, principal: Principal, source: str) -> Permit:
    issued = await services.credentials.issue(principal, "shop", None)
    grant = await services.access.find_grant(issued.credential.username)
    assert grant is not None
    return await services.access.admit(grant, source=source)


async def by_token(services: Services, principal: Principal, source: str) -> Permit:
    return await services.access.admit_principal(principal, "shop", verb=Verb.CONNECT, source=source)


async def by_script(services: Services, principal: Principal, source: str) -> Permit:
    return await services.access.admit_principal(principal, "shop", verb=Verb.EXEC, source=source)


async def by_schema(services: Services, principal: Principal, source: str) -> Permit:
    return await services.access.admit_target_task(principal, "shop", schema=True, source=source)


async def by_test(services: Services, principal: Principal, source: str) -> Permit:
    return await services.access.admit_target_task(principal, "shop", schema=False, source=source)


async def by_preview(services: Services, principal: Principal, source: str) -> Permit:
    return await services.access.admit_preview(principal, "shop", source=source)


Way = Callable[[Services, Principal, str], Coroutine[Any, Any, Permit]]
WAYS: list[Way] = [by_credential, by_token, by_script, by_schema, by_test, by_preview]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fields", [{"connections": ("shop",)}, {"groups": ("dba",)}, {}])
async def test_every_way_to_a_connection_checks_the_address(
    world: World, services: Services, admin: Principal, ann: Principal, way: Way, fields: dict[str, Any]
) -> None:
    await world.add_connection()
    await way(services, ann, OUTSIDE)
    await limit(services, admin, **fields)
    assert (await way(services, ann, INSIDE)).source == INSIDE
    with pytest.raises(Denied, match=r"from your address 198\.51\.100\.7 \(network rule 'office'\)"):
        await way(services, ann, OUTSIDE)
    with pytest.raises(Denied, match="from your address unknown"):
        await way(services, ann, "")


async def test_running_sessions_are_checked_again(
    world: World, services: Services, admin: Principal, ann: Principal
) -> None:
    await world.add_connection()
    inside, outside = [await by_credential(services, ann, source) for source in (INSIDE, OUTSIDE)]
    assert await services.access.still_allowed(outside) is None
    await limit(services, admin, connections=("shop",))
    assert await services.access.still_allowed(inside) is None
    assert "network rule 'office'" in (await services.access.still_allowed(outside) or "")
    with pytest.raises(Denied, match="network rule 'office'"):
        await services.access.renew(outside)
    await services.network_rules.update(admin, "office", {"enabled": False})
    assert await services.access.still_allowed(outside) is None


async def test_explanation_of_access_names_the_rules_for_those_who_see_all(
    world: World, services: Services, admin: Principal, ann: Principal
) -> None:
    await world.add_connection()
    await limit(services, admin, groups=("dba",))
    await limit(services, admin, name="others", groups=("sre",))
    explained = await services.access_rules.explain(admin, "shop", "ann@example.com")
    assert [rule.name for rule in explained.networks] == ["office"]
    assert (await services.access_rules.explain(ann, "shop", None)).networks == ()


async def test_administrators_are_limited_too(world: World, services: Services, admin: Principal) -> None:
    await world.add_connection()
    await limit(services, admin)
    with pytest.raises(Denied):
        await by_script(services, admin, OUTSIDE)


async def test_runs_of_a_schedule_have_no_address(
    world: World, services: Services, admin: Principal, ann: Principal
) -> None:
    await world.add_connection()
    await limit(services, admin)
    assert (await by_script(services, ann, SCHEDULE_SOURCE)).source == SCHEDULE_SOURCE


async def test_rule_about_the_gateway_limits_logins_and_tokens(
    world: World, services: Services, admin: Principal, ann: Principal
) -> None:
    account = await services.users.own(ann)
    facts = ClientFacts(ClientKind.CLI, OUTSIDE)
    opened = await services.logins.open(account, LoginMethod.LOCAL, facts)
    caller = await services.authentication.caller(opened.token, address=OUTSIDE)
    await limit(services, admin, groups=("dba",))
    with pytest.raises(Denied, match="this gateway cannot be used from your address"):
        await services.authentication.caller(opened.token, address=OUTSIDE)
    with pytest.raises(Denied):
        await services.authentication.standing(caller, address=OUTSIDE)
    with pytest.raises(Denied):
        await services.logins.open(account, LoginMethod.LOCAL, facts)
    assert (await services.authentication.caller(opened.token, address=INSIDE)).principal.id == ann.id


async def test_rule_about_connections_does_not_limit_logins(
    world: World, services: Services, admin: Principal, ann: Principal
) -> None:
    await world.add_connection()
    await limit(services, admin, connections=("shop",))
    account = await services.users.own(ann)
    opened = await services.logins.open(account, LoginMethod.LOCAL, ClientFacts(ClientKind.CLI, OUTSIDE))
    assert (await services.authentication.caller(opened.token, address=OUTSIDE)).principal.id == ann.id


@pytest.mark.parametrize(
    ("fields", "locks_out"),
    [({}, True), ({"groups": ("admin",)}, True), ({"groups": ("dba",)}, False), ({"enabled": False}, False)],
)
async def test_rule_that_locks_out_its_author_is_rejected(
    services: Services, admin: Principal, fields: dict[str, Any], locks_out: bool
) -> None:
    with collect_change(OUTSIDE):
        if locks_out:
            with pytest.raises(Invalid, match=r"your own address 198\.51\.100\.7"):
                await limit(services, admin, **fields)
        else:
            await limit(services, admin, **fields)
    with collect_change(INSIDE):
        await services.network_rules.create(admin, {"name": "own", "allowed_networks": ["192.0.2.0/24"], **fields})


async def test_rule_keeps_its_last_group(world: World, services: Services, admin: Principal) -> None:
    """Without groups it would be for everyone."""
    await limit(services, admin, groups=("dba", "ops"))
    await services.groups.remove(admin, "ops")
    with pytest.raises(Conflict, match="needs the group 'dba'"):
        await services.groups.remove(admin, "dba")
    await services.groups.update(admin, "dba", {"name": "databases"})
    assert (await services.network_rules.get(admin, "office")).groups == {"databases"}


async def test_rules_about_the_gateway_can_be_disabled_from_the_host(services: Services, admin: Principal) -> None:
    await limit(services, admin)
    await limit(services, admin, name="dba", groups=("dba",))
    await services.network_rules.update(admin, "dba", {"enabled": False})
    (rule,) = await services.network_rules.find_gateway_rules(admin.org_id)
    await services.network_rules.disable(rule)
    assert not (await services.network_rules.get(admin, "office")).enabled
