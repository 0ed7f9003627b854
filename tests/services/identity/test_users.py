"""Users and groups: who stays administrator, who is out, and which names reach whom."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import uuid4

import pytest
from tests.support.world import World

from postern.domain.identity.principal import GroupSource, Principal, PrincipalFilter, PrincipalKind, PrincipalStatus
from postern.domain.lists import Page
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid, NotFound, PosternError
from postern.services.bundle import Services
from postern.services.identity.users import checked_email, checked_groups
from postern.store.ports.common_ports import Topic

PASSWORD = Secret("a long enough password")


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


async def emails(services: Services, principal: Principal, **wanted: object) -> list[str]:
    found = await services.users.search(principal, PrincipalFilter(**wanted), Page())  # type: ignore[arg-type]
    assert found.total == len(found.items)
    return [account.principal.email.partition("@")[0] for account in found.items]


async def test_filters(services: Services, world: World) -> None:
    root = await world.add_user("root", "admin")
    await world.add_user("ann", "dba")
    await world.add_user("bob", "DBA")
    await services.users.update(root, "bob@example.com", {"status": PrincipalStatus.INACTIVE})
    assert await emails(services, root) == ["ann", "bob", "root"]
    assert await emails(services, root, search="AN") == ["ann"]
    assert await emails(services, root, search="%") == []
    assert await emails(services, root, group="dba") == ["ann"]
    assert await emails(services, root, status=PrincipalStatus.INACTIVE) == ["bob"]
    assert await emails(services, root, group="dba", status=PrincipalStatus.INACTIVE) == []


async def test_two_administrators_cannot_remove_each_other(services: Services, world: World) -> None:
    one, two = await world.add_user("one", "admin"), await world.add_user("two", "admin")
    inactive = {"status": PrincipalStatus.INACTIVE}
    for deeds in (
        (services.users.update(one, two.email, inactive), services.users.update(two, one.email, inactive)),
        (services.users.remove(one, two.email), services.users.update(two, one.email, {"groups": ()})),
    ):
        outcomes = await asyncio.gather(*deeds, return_exceptions=True)
        refused = [outcome for outcome in outcomes if isinstance(outcome, Invalid)]
        assert len(refused) == 1, outcomes
        assert "last active administrator" in refused[0].message
        left = [name for name in ("one", "two") if await _is_admin(world, f"{name}@example.com")]
        assert len(left) == 1
        again = await world.stores.principals.by_email(world.org_id, "two@example.com")
        if again is None:
            break
        for account in (again, await services.users.get(one, one.email)):
            active = replace(account.principal, status=PrincipalStatus.ACTIVE)
            await world.stores.principals.update(replace(account, principal=active), world.clock())


async def _is_admin(world: World, email: str) -> bool:
    account = await world.stores.principals.by_email(world.org_id, email)
    return account is not None and account.principal.is_admin and account.principal.is_active


async def test_a_program_does_not_count_as_the_last_administrator(services: Services, world: World) -> None:
    root = await world.add_user("root", "admin")
    key = uuid4()
    program = Principal(key, world.org_id, str(key), "deploy", "deploy", frozenset({"admin"}), PrincipalKind.API_KEY)
    for deed in (
        services.users.remove(program, root.email),
        services.users.update(program, root.email, {"groups": ("dba",)}),
        services.users.update(program, root.email, {"status": PrincipalStatus.INVITED}),
    ):
        with pytest.raises(Invalid, match="last active administrator"):
            await deed
    assert await _is_admin(world, root.email)


async def test_a_refused_change_changes_nothing(services: Services, world: World) -> None:
    root, other = await world.add_user("root", "admin"), await world.add_user("other", "admin")
    await services.users.remove(root, other.email)
    account = await services.users.get(root, root.email)
    changed = replace(account, principal=replace(root, name="Changed"))
    with pytest.raises(Invalid):
        await world.stores.principals.update(changed, world.clock(), groups=frozenset())
    assert (await services.users.get(root, root.email)).principal == root


async def test_removing_somebody_ends_all_that_is_theirs(services: Services, world: World) -> None:
    root = await world.add_user("root", "admin")
    ann = (await services.users.create(root, {"email": "ann@example.com", "password": PASSWORD})).principal
    with pytest.raises(Invalid, match="yourself"):
        await services.users.remove(root, root.email)
    with pytest.raises(Denied):
        await services.users.remove(ann, root.email)
    await services.users.remove(root, ann.email)
    assert world.signals.of(Topic.PRINCIPAL_CHANGED) == [{"principal_id": str(ann.id)}]
    for missing in (ann.email, ann.subject):
        with pytest.raises(NotFound):
            await services.users.remove(root, missing)


async def test_without_a_password_one_is_invited_until_one_is_set(services: Services, world: World) -> None:
    root = await world.add_user("root", "admin")
    made = await services.users.create(root, {"email": "ann@example.com"})
    assert (made.principal.status, made.verified) == (PrincipalStatus.INVITED, True)
    set_up = await services.users.update(root, "ann@example.com", {"password": PASSWORD})
    assert set_up.principal.status is PrincipalStatus.ACTIVE


async def test_groups_that_others_give_are_not_taken_by_hand(services: Services, world: World) -> None:
    root, ann = await world.add_user("root", "admin"), await world.add_user("ann", "dba")
    await world.stores.principals.set_groups(ann.id, frozenset({"dba", "sre"}), GroupSource.PROVIDER)
    with pytest.raises(Invalid, match="'sre' is given by the identity provider"):
        await services.users.update(root, ann.email, {"groups": ("dba",)})
    await services.users.update(root, ann.email, {"groups": ("dba", "sre", "on call")})
    by_hand = await world.stores.principals.groups_by(ann.id, GroupSource.MANUAL)
    assert by_hand == {"dba", "on call"}


async def test_folded_names_do_not_reach_another_group(services: Services, world: World) -> None:
    """A name that looks or folds like a group's is another group's, also when it gives a role."""
    root = await world.add_user("root", "admin")
    for number, name in enumerate(("Admin", "ADMIN", "ａｄｍｉｎ", "admın", "аdmin", "admin\u200b")):
        made = await services.users.create(root, {"email": f"u{number}@example.com", "groups": (name,)})
        assert not made.principal.is_admin, name
        with pytest.raises(PosternError):
            await services.groups.remove(made.principal, "admin")
    composed, decomposed = "Caf\u00e9", "Cafe\u0301"
    await services.groups.create(root, {"name": decomposed})
    assert checked_groups([composed, decomposed]) == {composed}
    await services.users.create(root, {"email": "ann@example.com", "groups": (decomposed,)})
    assert await emails(services, root, group=decomposed) == ["ann"]
    await services.groups.remove(root, decomposed)
    assert await emails(services, root, group=composed) == []


def test_folded_addresses_do_not_reach_another_account() -> None:
    """U+212A (Kelvin) and U+017F (long s) become ASCII when folded."""
    assert checked_email("ANN@Example.com") == "ann@example.com"
    assert checked_email("ÄNN@example.com") == "änn@example.com"
    for folded in ("\u212aate@example.com", "a@exam\u212ale.com", "\u017fam@example.com"):
        with pytest.raises(Invalid):
            checked_email(folded)


async def test_groups(services: Services, world: World) -> None:
    root, ann = await world.add_user("root", "admin"), await world.add_user("ann", "dba", "on call")
    await services.groups.create(root, {"name": "empty"})
    found = await services.groups.find(root, Page())
    shown = {one.name: one.members for one in found.items}
    assert shown == {"admin": 1, "auditor": 0, "dba": 1, "empty": 0, "on call": 1}
    assert {one.members for one in (await services.groups.find(ann, Page())).items} == {None}
    for name in ("admin", "auditor"):
        for deed in (services.groups.remove(root, name), services.groups.update(root, name, {"name": "x"})):
            with pytest.raises(Invalid, match="gives a role"):
                await deed
    renamed = await services.groups.update(root, "dba", {"name": "data"})
    assert (renamed.name, renamed.members) == ("data", 1)
    with pytest.raises(PosternError, match="already"):
        await services.groups.update(root, "data", {"name": "admin"})
    assert (await services.users.get(root, ann.email)).principal.groups == {"data", "on call"}
    await services.groups.remove(root, "data")
    assert (await services.users.get(root, ann.email)).principal.groups == {"on call"}
    assert world.signals.of(Topic.PRINCIPAL_CHANGED) == [{"principal_id": str(ann.id)}] * 2
    with pytest.raises(NotFound):
        await services.groups.remove(root, "data")
    for deed in (
        services.groups.create(ann, {"name": "x"}),
        services.groups.update(ann, "empty", {"name": "x"}),
        services.groups.remove(ann, "empty"),
    ):
        with pytest.raises(Denied):
            await deed
