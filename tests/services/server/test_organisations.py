"""Organisations: who makes them, whose they are, and that nobody loses a role by its new name."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import func, select
from tests.support.world import World

from postern.domain.identity.login import TokenPurpose
from postern.domain.identity.principal import Account, GroupSource, Principal, PrincipalStatus, Role
from postern.domain.lists import Page
from postern.errors import Conflict, Denied, Invalid, NotFound, TooMany
from postern.services.bundle import Services
from postern.services.server.organisations import OrganisationFields
from postern.services.targets.connections import ConnectionFilter
from postern.store.schema.identity_tables import groups, one_time_tokens, orgs, user_groups, users
from postern.store.schema.target_tables import agents


async def now_is(world: World, principal: Principal) -> Principal:
    """As the store knows them now."""
    account = await world.stores.principals.get(principal.org_id, principal.id)
    assert account is not None
    return account.principal


async def admin_of(world: World, services: Services, runner: Principal, name: str, **more: bool) -> Principal:
    """The administrator of a new organisation, after they set their password."""
    made = await services.organisations.create(runner, name, f"boss@{name}.example", **more)
    active = replace(made.admin, status=PrincipalStatus.ACTIVE)
    await world.stores.principals.update(Account(active), world.clock())
    return await now_is(world, active)


async def test_who_runs_the_server_makes_organisations(world: World) -> None:
    services = world.services()
    runner = await world.add_user("root", "admin")
    made = await services.organisations.create(runner, "Acme & Sons", "Boss@acme.example")
    assert made.admin.status is PrincipalStatus.INVITED
    assert (made.admin.email, made.admin.role) == ("boss@acme.example", Role.ADMIN)
    payload = await services.one_time_tokens.take(TokenPurpose.SETUP, made.setup.token)
    assert payload["user_id"] == str(made.admin.id)
    assert payload["org_id"] == str(made.organisation.id)
    groups = await world.stores.groups.find(made.organisation.id, Page())
    assert [group.name for group in groups.items] == ["admin", "auditor"]
    with pytest.raises(Conflict):
        await services.organisations.create(runner, "Acme & Sons", "x@y")
    everybody = await services.organisations.find(runner, Page())
    assert [one.name for one in everybody.items] == ["Acme & Sons", "default"]


@pytest.mark.parametrize("embedded_agent", [False, True])
async def test_an_organisation_is_made_whole_or_not_at_all(
    world: World, monkeypatch: pytest.MonkeyPatch, embedded_agent: bool
) -> None:
    services = world.services()
    runner = await world.add_user("root", "admin")
    before = await rows(world)
    monkeypatch.setattr(
        "postern.store.sql.identity.sql_one_time_tokens.MOST", 0
    )  # the last step fails: no room for the set-up link
    with pytest.raises(TooMany):
        await services.organisations.create(runner, "Acme", "boss@acme.example", embedded_agent=embedded_agent)
    assert await rows(world) == before
    monkeypatch.undo()
    await services.organisations.create(runner, "Acme", "boss@acme.example", embedded_agent=embedded_agent)
    after = await rows(world)
    with pytest.raises(Conflict, match="an organisation 'Acme' exists already"):
        await services.organisations.create(runner, "Acme", "boss@acme.example", embedded_agent=embedded_agent)
    assert await rows(world) == after
    assert {name: after[name] - before[name] for name in after} == {
        "agents": int(embedded_agent),
        "groups": 2,
        "orgs": 1,
        "user_groups": 1,
        "users": 1,
        "vouchers": 1,
    }


async def rows(world: World) -> dict[str, int]:
    """How many there are, by table, of what an organisation begins with."""
    async with world.database.statement() as connection:
        return {
            table.name: (await connection.execute(select(func.count()).select_from(table))).scalar_one()
            for table in (agents, groups, orgs, user_groups, users, one_time_tokens)
        }


@pytest.mark.parametrize(
    "name", ["", "a", " acme", "acme ", "a  b", "a\nb", "a/b", "<b>acme</b>", "x" * 101, "default"]
)
async def test_names_that_organisations_cannot_have(world: World, name: str) -> None:
    runner = await world.add_user("root", "admin")
    with pytest.raises((Invalid, Conflict)):
        await world.services().organisations.create(runner, name, "x@y")


async def test_nobody_else_makes_organisations(world: World) -> None:
    services = world.services()
    runner = await world.add_user("root", "admin")
    other = await admin_of(world, services, runner, "acme")
    assert other.is_admin
    for principal in (other, await world.add_user("ann"), await world.add_user("audrey", "auditor")):
        with pytest.raises(Denied):
            await services.organisations.create(principal, "more", "x@y")
    assert [one.name for one in (await services.organisations.find(other, Page())).items] == ["acme"]


async def test_attack_049_nothing_of_one_organisation_is_seen_from_another(world: World) -> None:
    services = world.services()
    runner = await world.add_user("root", "admin")
    connection = await world.add_connection()
    await world.add_agent()
    other = await admin_of(world, services, runner, "acme")
    assert (await services.connections.search(other, ConnectionFilter(), Page())).items == []
    for key in (connection.name, str(connection.id)):
        with pytest.raises(NotFound):
            await services.connections.get(other, key)
        with pytest.raises(NotFound):
            await services.credentials.issue(other, key, None)
    assert (await services.agent_keys.find(other, Page())).items == []
    with pytest.raises(NotFound):
        await services.users.get(other, runner.email)


async def test_an_organisation_reaches_this_machines_network_only_when_it_was_given_that(world: World) -> None:
    services = world.services()
    runner = await world.add_user("root", "admin")
    without = await admin_of(world, services, runner, "without")
    given = await admin_of(world, services, runner, "given", embedded_agent=True)
    assert (await services.agent_keys.find(without, Page())).items == []
    (agent,) = (await services.agent_keys.find(given, Page())).items
    assert not services.agents.is_online(agent)
    await services.agents.ensure_embedded()
    await services.agents.beat()
    (agent,) = (await services.agent_keys.find(given, Page())).items
    assert services.agents.is_online(agent)


async def test_a_role_by_another_name_keeps_who_has_it(world: World) -> None:
    services = world.services()
    first, second = await world.add_user("root", "admin"), await world.add_user("two", "dba")
    await world.stores.principals.set_groups(second.id, frozenset({"admin", "dba"}), GroupSource.PROVIDER)
    auditor = await world.add_user("audrey", "auditor")
    joined = await world.add_user("ann", "owners")
    changed = OrganisationFields(admin_role_name="owners", auditor_role_name="watchers")
    after = await services.organisations.update(first, changed)
    assert (after.role_groups.admin, after.role_groups.auditor) == ("owners", "watchers")
    assert (await now_is(world, first)).groups == {"owners"}
    assert (await now_is(world, second)).groups == {"admin", "owners", "dba"}  # what the provider gave is its own
    assert (await now_is(world, auditor)).role is Role.AUDITOR
    assert (await now_is(world, joined)).is_admin
    assert not (await now_is(world, await world.add_user("late", "admin"))).is_admin


async def test_roles_cannot_be_mixed_up(world: World) -> None:
    services = world.services()
    admin = await world.add_user("root", "admin")
    for fields in (
        OrganisationFields(admin_role_name="auditor"),
        OrganisationFields(auditor_role_name="admin"),
        OrganisationFields(admin_role_name="auditor", auditor_role_name="admin"),
        OrganisationFields(admin_role_name="x", auditor_role_name="x"),
        OrganisationFields(admin_role_name=" "),
        OrganisationFields(name="another"),
    ):
        with pytest.raises(Invalid):
            await services.organisations.update(admin, fields)
    with pytest.raises(Denied):
        await services.organisations.update(await world.add_user("audrey", "auditor"), OrganisationFields())
    assert (await now_is(world, admin)).is_admin


async def test_one_organisations_role_names_are_not_anothers(world: World) -> None:
    services = world.services()
    runner = await world.add_user("root", "admin")
    other = await admin_of(world, services, runner, "acme")
    await services.organisations.update(other, OrganisationFields(admin_role_name="owners"))
    assert (await now_is(world, other)).groups == {"owners"}
    assert (await now_is(world, runner)).groups == {"admin"}
    renamed = await services.organisations.update(await now_is(world, other), OrganisationFields(name="Acme Ltd"))
    assert renamed.name == "Acme Ltd"
