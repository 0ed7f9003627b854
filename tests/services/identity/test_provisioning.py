"""Users and groups that a provisioning system keeps, and how they come to their first login."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import uuid4

import pytest
from tests.support.world import CLIENT, World

from postern.domain.identity.identity import Identity
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.principal import GroupSource, Principal, PrincipalFilter, PrincipalKind, PrincipalStatus
from postern.domain.lists import Page
from postern.errors import Conflict, Denied, Invalid, NotFound, Unauthenticated
from postern.services.bundle import Services
from postern.services.identity.provisioning import MAX_MEMBERS, ProvisionedUser
from postern.store.ports.common_ports import Topic

ANN = ProvisionedUser("ann", "Ann", "ann@example.com", True, "ext-1")
IDENTITY = Identity("https://idp.example", "sub-1", "ann@example.com", True, "Ann")


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
async def root(world: World) -> Principal:
    return await world.add_user("root", "admin")


def robot(root: Principal) -> Principal:
    """An administrator's API key."""
    return replace(root, id=uuid4(), kind=PrincipalKind.API_KEY)


async def test_a_provisioned_user_is_bound_by_a_verified_address(services: Services, root: Principal) -> None:
    made = await services.provisioning.create_user(robot(root), ANN)
    assert made.principal.status is PrincipalStatus.INVITED
    with pytest.raises(Denied, match="another account"):
        await services.sign_in.account_of(root.org_id, replace(IDENTITY, email_verified=False))
    account = await services.sign_in.account_of(root.org_id, IDENTITY)
    assert account.principal.id == made.principal.id
    assert (account.principal.subject, account.principal.status) == ("sub-1", PrincipalStatus.ACTIVE)
    assert (account.user_name, account.external_id) == ("ann", "ext-1")


async def test_a_provisioned_user_is_bound_by_the_providers_identifier(services: Services, root: Principal) -> None:
    made = await services.provisioning.create_user(robot(root), replace(ANN, external_id="sub-1"))
    other = replace(IDENTITY, email="changed@example.com", email_verified=False)
    assert (await services.sign_in.account_of(root.org_id, other)).principal.id == made.principal.id


async def test_an_account_that_was_used_is_not_bound_again(services: Services, root: Principal) -> None:
    """Neither an e-mail address nor an external identifier takes over an account that somebody has used."""
    await services.provisioning.create_user(robot(root), replace(ANN, external_id="sub-2"))
    first = await services.sign_in.account_of(root.org_id, IDENTITY)
    for stranger in (replace(IDENTITY, subject="sub-2"), replace(IDENTITY, issuer="https://other.example")):
        with pytest.raises(Denied):
            await services.sign_in.account_of(root.org_id, stranger)
    assert (await services.users.get(root, "ann@example.com")).principal == first.principal


async def test_a_deactivated_user_is_out_at_once_and_comes_back(
    services: Services, world: World, root: Principal
) -> None:
    made = await services.provisioning.create_user(robot(root), ANN)
    account = await services.sign_in.account_of(root.org_id, IDENTITY)
    token = (await services.logins.open(account, LoginMethod.OIDC, CLIENT)).token
    off = await services.provisioning.replace_user(robot(root), made.principal.id, replace(ANN, active=False))
    assert off.principal.status is PrincipalStatus.INACTIVE
    with pytest.raises(Unauthenticated):
        await services.authentication.caller(token, address="::1")
    assert world.signals.of(Topic.PRINCIPAL_CHANGED) == [{"principal_id": str(made.principal.id)}]
    with pytest.raises(Denied, match="inactive"):
        await services.sign_in.account_of(root.org_id, IDENTITY)
    on = await services.provisioning.replace_user(robot(root), made.principal.id, ANN)
    assert on.principal.status is PrincipalStatus.ACTIVE
    await services.sign_in.account_of(root.org_id, IDENTITY)


async def test_one_who_never_came_is_invited_again(services: Services, root: Principal) -> None:
    made = await services.provisioning.create_user(robot(root), replace(ANN, active=False))
    assert made.principal.status is PrincipalStatus.INACTIVE
    on = await services.provisioning.replace_user(robot(root), made.principal.id, ANN)
    assert on.principal.status is PrincipalStatus.INVITED


async def test_groups_dropped_by_provisioning_are_gone(services: Services, world: World, root: Principal) -> None:
    """Traits that the source dropped are not kept; those of other sources are not touched."""
    ann, bob = await world.add_user("ann", "dba"), await world.add_user("bob")
    as_robot, both = robot(root), frozenset({ann.id, bob.id})
    made = await services.provisioning.create_group(as_robot, "sre", None, both)
    assert {member.id for member in made.members} == both
    dba = (await services.provisioning.find_groups(as_robot, Page(), name="dba")).items[0]
    assert dba.members == []  # those by hand are not SCIM's to see or to take
    group = made.group.id
    changed = await services.provisioning.change_group(
        as_robot, group, "sre", "x", added=frozenset(), removed=frozenset({ann.id})
    )
    assert [member.id for member in changed.members] == [bob.id]
    assert (await services.users.get(root, ann.email)).principal.groups == {"dba"}
    assert not await world.stores.principals.groups_by(ann.id, GroupSource.SCIM)
    heard = {one["principal_id"] for one in world.signals.of(Topic.PRINCIPAL_CHANGED)}
    assert heard == {str(ann.id), str(bob.id)}


async def test_changes_of_members_at_the_same_time_do_not_undo_each_other(
    services: Services, world: World, root: Principal
) -> None:
    people = [await world.add_user(f"u{number}") for number in range(6)]
    made = await services.provisioning.create_group(robot(root), "sre", None, frozenset())
    await asyncio.gather(
        *(
            services.provisioning.change_group(
                robot(root), made.group.id, "sre", None, added=frozenset({person.id}), removed=frozenset()
            )
            for person in people
        )
    )
    found = await services.provisioning.get_group(root, made.group.id)
    assert {member.id for member in found.members} == {person.id for person in people}


async def test_provisioning_cannot_take_the_last_administrator(
    services: Services, world: World, root: Principal
) -> None:
    as_robot = robot(root)
    shown = await services.provisioning.get_user(as_robot, root.id)
    given = ProvisionedUser(root.email, root.name, root.email, False, shown.external_id)
    for deed in (
        services.provisioning.replace_user(as_robot, root.id, given),
        services.provisioning.remove_user(as_robot, root.id),
    ):
        with pytest.raises(Invalid, match="last active administrator"):
            await deed
    admins = (await services.provisioning.find_groups(as_robot, Page(), name="admin")).items[0].group
    for change in (
        services.provisioning.remove_group(as_robot, admins.id),
        services.provisioning.change_group(as_robot, admins.id, "others", None, added=frozenset(), removed=frozenset()),
    ):
        with pytest.raises(Invalid, match="gives a role"):
            await change


async def test_user_names_differ_in_more_than_case(services: Services, root: Principal) -> None:
    as_robot = robot(root)
    made = await services.provisioning.create_user(as_robot, ANN)
    for name in ("ANN", "ann", root.email.upper()):
        with pytest.raises(Conflict):
            await services.provisioning.create_user(as_robot, replace(ANN, user_name=name, email="x@example.com"))
    with pytest.raises(Conflict):
        await services.provisioning.create_user(as_robot, replace(ANN, user_name="other"))
    found = await services.provisioning.find_users(as_robot, PrincipalFilter(user_name="Ann"), Page())
    assert [account.principal.id for account in found.items] == [made.principal.id]


async def test_a_group_that_cannot_be_filled_is_not_made(services: Services, root: Principal) -> None:
    too_many = frozenset(uuid4() for _ in range(MAX_MEMBERS + 1))
    with pytest.raises(Invalid, match="at most"):
        await services.provisioning.create_group(robot(root), "sre", None, too_many)
    with pytest.raises(Invalid, match="there is no user"):
        await services.provisioning.create_group(robot(root), "sre", None, frozenset({uuid4()}))
    assert (await services.provisioning.find_groups(root, Page(), name="sre")).total == 0


async def test_only_administrators_provision(services: Services, world: World, root: Principal) -> None:
    auditor, ann = await world.add_user("auditor", "auditor"), await world.add_user("ann")
    made = await services.provisioning.create_group(robot(root), "sre", None, frozenset())
    key = made.group.id
    assert (await services.provisioning.find_users(auditor, PrincipalFilter(), Page())).total == 3
    for reading in (
        services.provisioning.find_users(ann, PrincipalFilter(), Page()),
        services.provisioning.get_user(ann, root.id),
        services.provisioning.find_groups(ann, Page()),
        services.provisioning.get_group(ann, key),
    ):
        with pytest.raises(Denied):
            await reading
    for other in (auditor, ann):
        for deed in (
            services.provisioning.create_user(other, ANN),
            services.provisioning.replace_user(other, ann.id, ANN),
            services.provisioning.remove_user(other, ann.id),
            services.provisioning.create_group(other, "x", None, frozenset()),
            services.provisioning.change_group(
                other, key, "sre", None, added=frozenset({other.id}), removed=frozenset()
            ),
            services.provisioning.remove_group(other, key),
        ):
            with pytest.raises(Denied):
                await deed
    stranger = replace(robot(root), org_id=uuid4())
    for hidden in (
        services.provisioning.get_user(stranger, root.id),
        services.provisioning.get_group(stranger, key),
        services.provisioning.remove_user(stranger, root.id),
        services.provisioning.remove_group(stranger, key),
    ):
        with pytest.raises(NotFound):
            await hidden
