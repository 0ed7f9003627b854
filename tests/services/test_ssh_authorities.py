"""Whose SSH certificates count, whom they let in, and what ends with them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.public_keys import ed25519_line, private_key
from tests.support.ssh_ca import Authority
from tests.support.world import World

from postern.domain.identity.principal import Account, Principal, PrincipalKind, PrincipalStatus
from postern.domain.identity.ssh_certificate import SshCertificate, read_certificate
from postern.domain.lists import Page
from postern.domain.sessions.session import Verb
from postern.errors import Conflict, Denied, Invalid, NotFound, Unauthenticated
from postern.services.bundle import Services

HERE = "192.0.2.7"
DAY = "20260102000000Z:20260103000000Z"  # the clock of the world stands in it


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
async def root(world: World) -> Principal:
    return await world.add_user("root", "admin")


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann")


@pytest.fixture
async def people(services: Services, root: Principal, tmp_path: Path) -> Authority:
    authority = Authority(tmp_path)
    await services.ssh_authorities.create(root, {"name": "people", "public_key": authority.line})
    return authority


def certificate(authority: Authority, *options: str) -> SshCertificate:
    return read_certificate(authority.sign("-V", DAY, *options))


async def test_a_certificate_says_who_one_is(services: Services, ann: Principal, people: Authority) -> None:
    for names in ("ann@example.com", f"ops,{ann.subject}"):
        given = certificate(people, "-n", names)
        for user in ("ann", "ann@example.com", ann.subject):
            holder = await services.ssh_authorities.holder_of(user, given, address=HERE)
            assert (holder.principal.id, holder.until) == (ann.id, datetime(2026, 1, 3, tzinfo=UTC))
        for user in ("root", "bob", ""):
            with pytest.raises(Unauthenticated):
                await services.ssh_authorities.holder_of(user, given, address=HERE)


async def test_what_proves_nothing_lets_nobody_in(
    services: Services, ann: Principal, people: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "stranger")
    refused = [
        certificate(stranger, "-n", "ann@example.com"),
        certificate(people, "-n", "ann"),
        certificate(people, "-n", "Ann@Example.com"),
        certificate(people, "-n", "bob@example.com"),
        certificate(people, "-h", "-n", "ann@example.com"),
        certificate(people, "-n", "ann@example.com", "-O", "source-address=198.51.100.0/24"),
        read_certificate(people.sign("-n", "ann@example.com", "-V", "20250101000000Z:20250102000000Z")),
        replace(certificate(people, "-n", "x"), principals=()),
    ]
    for given in refused:
        with pytest.raises(Unauthenticated):
            await services.ssh_authorities.holder_of("ann", given, address=HERE)


async def test_a_name_that_may_be_two_users_is_nobodys(
    world: World, services: Services, ann: Principal, people: Authority
) -> None:
    """The subject of one is the e-mail address of another."""
    key = uuid4()
    other = Principal(key, world.org_id, "ann@example.com", "eve@example.com", "Eve")
    await world.stores.principals.add(Account(other), world.clock())
    given = certificate(people, "-n", "ann@example.com")
    with pytest.raises(Unauthenticated, match="several users"):
        await services.ssh_authorities.holder_of("ann@example.com", given, address=HERE)
    assert (await services.ssh_authorities.holder_of("eve", given, address=HERE)).principal.id == key
    assert (await services.ssh_authorities.holder_of("ann", given, address=HERE)).principal.id == ann.id


async def test_an_authority_vouches_for_one_organisation(
    world: World, services: Services, root: Principal, people: Authority
) -> None:
    made = await services.organisations.create(root, "elsewhere", "boss@example.com")
    org_id = made.organisation.id
    boss = Principal(uuid4(), org_id, "boss 2", "ann@example.com", "Boss", frozenset({"admin"}))
    await world.stores.principals.add(Account(boss), world.clock())
    with pytest.raises(Conflict):
        await services.ssh_authorities.create(boss, {"name": "theirs", "public_key": people.line})
    with pytest.raises(Unauthenticated):  # whoever is called so there is not who is meant here
        await services.ssh_authorities.holder_of("ann", certificate(people, "-n", "ann@example.com"), address=HERE)
    with pytest.raises(NotFound):
        await services.ssh_authorities.remove(boss, "people")
    assert (await services.ssh_authorities.find(boss, Page())).items == []
    await services.ssh_authorities.create(
        boss, {"name": "people", "public_key": ed25519_line()}
    )  # names are each one's own


async def test_administrators_choose_them(world: World, services: Services, root: Principal, ann: Principal) -> None:
    eve = await world.add_user("eve", "auditor")
    for principal in (ann, eve, replace(root, kind=PrincipalKind.API_KEY)):
        with pytest.raises(Denied):
            await services.ssh_authorities.create(principal, {"name": "people", "public_key": ed25519_line()})
    with pytest.raises(Invalid, match="private key"):
        await services.ssh_authorities.create(root, {"name": "people", "public_key": private_key()})
    with pytest.raises(Invalid, match="name: "):
        await services.ssh_authorities.create(root, {"name": str(uuid4()), "public_key": ed25519_line()})
    made = await services.ssh_authorities.create(root, {"name": "people", "public_key": ed25519_line()})
    with pytest.raises(Conflict):
        await services.ssh_authorities.create(root, {"name": "people", "public_key": ed25519_line()})
    assert (await services.ssh_authorities.find(eve, Page())).items == [made]
    for principal in (ann, eve):
        with pytest.raises(Denied):
            await services.ssh_authorities.remove(principal, "people")
    with pytest.raises(Denied):
        await services.ssh_authorities.find(ann, Page())
    await services.ssh_authorities.remove(root, str(made.id))
    with pytest.raises(NotFound):
        await services.ssh_authorities.remove(root, "people")


async def test_what_runs_by_a_certificate_ends_with_it_and_with_who_signed(
    world: World, services: Services, root: Principal, ann: Principal, people: Authority
) -> None:
    await world.add_connection()
    given = certificate(people, "-n", "ann@example.com")
    holder = await services.ssh_authorities.holder_of("ann", given, address=HERE)
    permit = await services.access.admit_principal(
        holder.principal, "shop", verb=Verb.CONNECT, source=HERE, means=holder.means, expires_at=holder.until
    )
    assert permit.expires_at == holder.until
    assert await services.access.still_allowed(permit) is None
    assert (await services.ssh_authorities.standing(holder)).principal == holder.principal
    await services.ssh_authorities.remove(root, "people")
    assert "is no longer trusted" in str(await services.access.still_allowed(permit))
    with pytest.raises(Unauthenticated, match="no longer trusted"):
        await services.ssh_authorities.standing(holder)


async def test_a_login_stands_as_long_as_certificate_and_account_do(
    world: World, services: Services, root: Principal, ann: Principal, people: Authority
) -> None:
    given = certificate(people, "-n", "ann@example.com")
    holder = await services.ssh_authorities.holder_of("ann", given, address=HERE)
    began = world.clock.now
    world.clock.forward(days=1)
    with pytest.raises(Unauthenticated, match="not valid now"):
        await services.ssh_authorities.standing(holder)
    world.clock.now = began
    await services.users.update(root, ann.email, {"status": PrincipalStatus.INACTIVE})
    with pytest.raises(Unauthenticated, match="not active"):
        await services.ssh_authorities.standing(holder)
    with pytest.raises(Unauthenticated, match="not active"):
        await services.ssh_authorities.holder_of("ann", given, address=HERE)
