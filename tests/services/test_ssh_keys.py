"""Whose SSH keys there are, who is let in by one, and what ends with it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.support.public_keys import ed25519_line, private_key
from tests.support.world import World

from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import Account, Principal, PrincipalKind, PrincipalStatus
from postern.domain.identity.ssh_key import MOST_KEYS, SshKey
from postern.domain.lists import Page
from postern.domain.sessions.session import Verb
from postern.errors import Conflict, Denied, Invalid, NotFound, Unauthenticated
from postern.protocols.ssh.listener.ssh_users import by_key
from postern.services.bundle import Services
from postern.store.ports.common_ports import Topic

PAGE = Page()


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann")


@pytest.fixture
async def root(world: World) -> Principal:
    return await world.add_user("root", "admin")


async def test_a_key_says_whose_it_is_and_when_it_was_used(world: World, services: Services, ann: Principal) -> None:
    key = await services.ssh_keys.add(ann, "laptop", ed25519_line() + " ann@laptop")
    found = await services.ssh_keys.find("ann", key.key.fingerprint)
    assert (found.principal.id, found.principal.email, found.means) == (ann.id, ann.email, f"ssh-key:{key.id}")
    await services.ssh_keys.record_use(found)
    first = world.clock.now
    (kept,) = (await services.ssh_keys.list_page(ann, PAGE)).items
    assert kept == replace(key, last_used_at=first)
    world.clock.forward(seconds=59)
    await services.ssh_keys.record_use(await services.ssh_keys.find("ann", key.key.fingerprint))
    assert (await services.ssh_keys.list_page(ann, PAGE)).items[0].last_used_at == first
    world.clock.forward(seconds=1)
    await services.ssh_keys.record_use(await services.ssh_keys.find("ann", key.key.fingerprint))
    assert (await services.ssh_keys.list_page(ann, PAGE)).items[0].last_used_at == world.clock.now


async def test_one_is_called_by_ones_own_names_alone(services: Services, ann: Principal) -> None:
    key = (await services.ssh_keys.add(ann, "laptop", ed25519_line())).key
    for user in ("ann", "ANN", "ann@example.com", "Ann@Example.com", ann.subject):
        assert (await services.ssh_keys.find(user, key.fingerprint)).principal.id == ann.id
    for user in ("", "bob", "an", "ann@", "@example.com", "ann@example.org", "root"):
        with pytest.raises(Unauthenticated):
            await services.ssh_keys.find(user, key.fingerprint)
    with pytest.raises(Unauthenticated):
        await services.ssh_keys.find("ann", "SHA256:" + "A" * 43)


async def test_a_key_belongs_to_one_user(world: World, services: Services, ann: Principal) -> None:
    bob, line = await world.add_user("bob"), ed25519_line()
    await services.ssh_keys.add(ann, "laptop", line)
    with pytest.raises(Conflict, match="you already have this key, as 'laptop'"):
        await services.ssh_keys.add(ann, "another", line)
    with pytest.raises(Conflict, match="a user already has this key"):
        await services.ssh_keys.add(bob, "laptop", line)
    with pytest.raises(Conflict, match="an SSH key 'laptop' exists already"):
        await services.ssh_keys.add(ann, "laptop", ed25519_line())
    await services.ssh_keys.add(bob, "laptop", ed25519_line())  # names are each one's own


async def test_nobody_has_more_than_a_few_however_fast_they_add(world: World, services: Services) -> None:
    ann = await world.add_user("ann")
    lines = [ed25519_line() for _ in range(MOST_KEYS + 5)]
    done = await asyncio.gather(
        *(services.ssh_keys.add(ann, f"key {number}", line) for number, line in enumerate(lines)),
        return_exceptions=True,
    )
    refused = [one for one in done if isinstance(one, BaseException)]
    assert [type(one) for one in refused] == [Invalid] * 5
    assert (await services.ssh_keys.list_page(ann, PAGE)).total == MOST_KEYS


async def test_programs_and_auditors_add_none_and_private_keys_are_not_kept(
    world: World, services: Services, root: Principal
) -> None:
    auditor = await world.add_user("eve", "auditor")
    program = replace(root, kind=PrincipalKind.API_KEY)
    for principal in (program, auditor):
        with pytest.raises(Denied):
            await services.ssh_keys.add(principal, "laptop", ed25519_line())
    with pytest.raises(Invalid, match="private key"):
        await services.ssh_keys.add(root, "laptop", private_key())
    assert (await services.ssh_keys.list_page(root, PAGE)).total == 0


async def test_others_are_seen_and_removed_by_administrators_alone(
    world: World, services: Services, ann: Principal, root: Principal
) -> None:
    bob, eve = await world.add_user("bob"), await world.add_user("eve", "auditor")
    key = await services.ssh_keys.add(ann, "laptop", ed25519_line())
    for reader in (root, eve):
        assert (await services.ssh_keys.list_page(reader, PAGE, user="ann@example.com")).items == [key]
        for called in ("laptop", key.key.fingerprint, str(key.id)):
            assert await services.ssh_keys.get(reader, called, "ann@example.com") == key
    with pytest.raises(Denied):
        await services.ssh_keys.list_page(bob, PAGE, user="ann@example.com")
    with pytest.raises(Denied):
        await services.ssh_keys.get(bob, "laptop", "ann@example.com")
    for called in ("laptop", key.key.fingerprint, str(key.id)):
        with pytest.raises(NotFound):
            await services.ssh_keys.get(bob, called)
    for principal in (bob, eve):
        with pytest.raises(NotFound):
            await services.ssh_keys.remove(principal, str(key.id))
    with pytest.raises(NotFound):
        await services.ssh_keys.remove(root, "made up")
    await services.ssh_keys.remove(root, str(key.id))
    assert (await services.ssh_keys.list_page(ann, PAGE)).items == []
    assert world.signals.of(Topic.PRINCIPAL_CHANGED) == [{"principal_id": str(ann.id)}]
    with pytest.raises(Unauthenticated):
        await services.ssh_keys.find("ann", key.key.fingerprint)


async def test_who_is_not_active_is_not_let_in(world: World, services: Services, ann: Principal) -> None:
    root = await world.add_user("root", "admin")
    key = await services.ssh_keys.add(ann, "laptop", ed25519_line())
    holder = await services.ssh_keys.find("ann", key.key.fingerprint)
    assert (await services.ssh_keys.standing(holder)).principal == holder.principal
    await services.users.update(root, ann.email, {"status": PrincipalStatus.INACTIVE})
    with pytest.raises(Unauthenticated):
        await services.ssh_keys.find("ann", key.key.fingerprint)
    with pytest.raises(Unauthenticated, match="not active"):
        await services.ssh_keys.standing(holder)
    await services.users.remove(root, ann.email)
    with pytest.raises(Unauthenticated, match="removed"):
        await services.ssh_keys.standing(holder)


async def test_an_organisation_may_take_no_keys(services: Services, ann: Principal, root: Principal) -> None:
    key = await services.ssh_keys.add(ann, "laptop", ed25519_line())
    holder = await services.ssh_keys.find("ann", key.key.fingerprint)
    await services.features.put(root, "ssh-keys", enabled=False)
    with pytest.raises(Unauthenticated):
        await services.ssh_keys.find("ann", key.key.fingerprint)
    with pytest.raises(Unauthenticated, match="switched off"):
        await services.ssh_keys.standing(holder)


async def test_what_runs_by_a_key_ends_with_it(world: World, services: Services, ann: Principal) -> None:
    await world.add_connection()
    root = await world.add_user("root", "admin")
    key = await services.ssh_keys.add(ann, "laptop", ed25519_line())
    holder = await services.ssh_keys.find("ann", key.key.fingerprint)
    permit = await services.access.admit_principal(
        holder.principal, "shop", verb=Verb.CONNECT, source="::1", means=holder.means
    )
    assert await services.access.still_allowed(permit) is None
    await services.features.put(root, "ssh-keys", enabled=False)
    assert "switched off" in str(await services.access.still_allowed(permit))
    await services.features.put(root, "ssh-keys", enabled=True)
    assert await services.access.still_allowed(await services.access.renew(permit)) is None
    await services.ssh_keys.remove(ann, str(key.id))
    assert await services.access.still_allowed(permit) == "the SSH key of this login was removed"


async def test_one_key_in_two_organisations_needs_the_name_of_one(
    world: World, services: Services, ann: Principal
) -> None:
    line = ed25519_line()
    key = await services.ssh_keys.add(ann, "laptop", line)
    other, found = await elsewhere(world, services, "ann", line)
    with pytest.raises(Unauthenticated, match="name yours"):
        await services.ssh_keys.find("ann", key.key.fingerprint)
    by_name = await services.ssh_keys.find("ann", key.key.fingerprint, organisation="elsewhere")
    assert (by_name.principal.org_id, by_name.key.id) == (other.id, found.id)
    by_username = await by_key(services.ssh_keys, "elsewhere/ann", key.key.fingerprint)
    assert by_username.principal == by_name.principal
    for unknown in ("nowhere/ann", "/ann", "elsewhere/", "elsewhere/bob"):
        with pytest.raises(Unauthenticated):
            await by_key(services.ssh_keys, unknown, key.key.fingerprint)
    assert (await services.ssh_keys.find(ann.subject, key.key.fingerprint)).principal.id == ann.id
    with pytest.raises(Unauthenticated):
        await services.ssh_keys.find("ann", key.key.fingerprint, organisation="nowhere")
    with pytest.raises(NotFound):
        await services.ssh_keys.remove(ann, str(found.id))
    root = await world.add_user("root", "admin")
    with pytest.raises(NotFound):
        await services.ssh_keys.remove(root, str(found.id))


async def elsewhere(world: World, services: Services, name: str, line: str) -> tuple[Organisation, SshKey]:
    """Another organisation, with a user of that name who has this key."""
    operator = await world.add_user("operator", "admin")
    made = await services.organisations.create(operator, "elsewhere", "boss@example.com")
    org_id = made.organisation.id
    user = Principal(made.organisation.id, org_id, f"{name} elsewhere", f"{name}@example.com", name)
    await world.stores.principals.add(Account(user), world.clock())
    return made.organisation, await services.ssh_keys.add(user, "laptop", line)
