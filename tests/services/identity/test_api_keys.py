"""API keys and service accounts: what they may, and when they are refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import event
from tests.support.world import World

from postern.domain.identity.api_key import ApiKey, digest_of
from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import Account, Principal, PrincipalKind, PrincipalStatus
from postern.domain.lists import Page
from postern.domain.secret import Secret
from postern.errors import Conflict, Denied, Invalid, NotFound, Unauthenticated
from postern.services.bundle import Services
from postern.services.identity.api_keys import is_well_formed, make_key
from postern.store.ports.common_ports import Topic


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
async def root(world: World) -> Principal:
    return await world.add_user("root", "admin")


async def made(services: Services, root: Principal, name: str = "ci", **fields: object) -> ApiKey:
    return await services.api_keys.create(root, {"name": name, **fields})


async def used(services: Services, secret: Secret, address: str = "192.0.2.7") -> Principal:
    return (await services.authentication.caller(secret, address=address)).principal


async def refused(services: Services, secret: Secret, why: str, address: str = "192.0.2.7") -> None:
    with pytest.raises(Unauthenticated, match=why):
        await used(services, secret, address)


async def test_a_key_acts_for_itself_with_its_groups(services: Services, root: Principal) -> None:
    issued = await made(services, root, groups=("dba",))
    principal = await used(services, issued.secret)
    assert (principal.email, principal.groups, principal.kind) == ("ci", frozenset({"dba"}), PrincipalKind.API_KEY)
    assert issued.secret.reveal() not in repr(issued)
    assert issued.shown == issued.secret.reveal()[:10]
    await services.api_keys.update(root, "ci", {"name": "cd", "groups": ("sre",)})
    principal = await used(services, issued.secret)
    assert (principal.email, principal.groups) == ("cd", frozenset({"sre"}))


async def test_a_typo_is_told_apart_without_asking_the_store(services: Services, world: World, root: Principal) -> None:
    issued = await made(services, root)
    text = issued.secret.reveal()
    assert text.startswith("pst_")
    assert len(text) == 53
    asked: list[str] = []
    engine = getattr(world.database.engine, "sync_engine")  # noqa: B009 - both engines have one
    event.listen(engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    swapped = text[:10] + ("A" if text[10] != "A" else "B") + text[11:]
    for wrong in (swapped, text[:-1], text + "A", "pst_", "pst_" + text[4:].upper(), text + "\n", "pst_" + "é" * 49):
        assert not is_well_formed(Secret(wrong))
        await refused(services, Secret(wrong), "not an API key of this gateway")
    assert asked == []
    await refused(services, make_key(), "unknown")
    assert len(asked) == 1


async def test_only_a_hash_is_stored(services: Services, world: World, root: Principal) -> None:
    issued = await made(services, root)
    found = await world.stores.api_keys.by_digest(digest_of(issued.secret))
    assert found is not None
    assert issued.secret.reveal()[10:] not in repr(found)


async def test_a_key_ignores_no_address_limit(services: Services, root: Principal) -> None:
    """The limit is asked at every use, not only at the first."""
    issued = await made(services, root, allowed_networks=("192.0.2.0/24", "2001:db8::/32"))
    for good in ("192.0.2.7", "2001:db8::1", "::ffff:192.0.2.9"):
        await used(services, issued.secret, good)
    for bad in ("192.0.3.1", "2001:db9::1", "::ffff:192.0.3.1", "unknown", ""):
        await refused(services, issued.secret, "cannot be used from", bad)
    await used(services, issued.secret)
    await services.api_keys.update(root, "ci", {"allowed_networks": ("198.51.100.1",)})
    await refused(services, issued.secret, "cannot be used from")
    await services.api_keys.update(root, "ci", {"allowed_networks": ()})
    await used(services, issued.secret, "203.0.113.1")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "x@example.com"}, "name"),
        ({"name": ""}, "name"),
        ({"allowed_networks": ("10.0.0.1/8",)}, "allowed_networks"),
        ({"allowed_networks": ("here",)}, "allowed_networks"),
        ({"allowed_networks": ("::ffff:192.0.2.0/120",)}, "allowed_networks"),
        ({"expires_in_seconds": 0}, "expires_in_seconds"),
        ({"service_account": "nobody"}, "service_account"),
        ({"groups": (" x",)}, "groups"),
    ],
)
async def test_what_cannot_be(services: Services, root: Principal, fields: dict[str, object], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        await made(services, root, **{"name": "ci"} | fields)  # type: ignore[arg-type]
    assert caught.value.field == field
    assert (await services.api_keys.find(root, Page())).total == 0


async def test_an_expired_key_is_refused(services: Services, world: World, root: Principal) -> None:
    issued = await made(services, root, expires_in_seconds=60)
    world.clock.forward(seconds=59)
    await used(services, issued.secret)
    world.clock.forward(seconds=1)
    await refused(services, issued.secret, "expired")
    with pytest.raises(Invalid, match="past"):
        await made(services, root, "late", expires_at=world.clock())
    await services.api_keys.update(root, "ci", {"expires_at": world.clock() + timedelta(days=1)})
    await used(services, issued.secret)


async def test_a_revoked_key_is_out_with_what_it_runs(services: Services, world: World, root: Principal) -> None:
    issued = await made(services, root)
    acting = await used(services, issued.secret)
    await services.api_keys.remove(root, "ci")
    await refused(services, issued.secret, "revoked")
    assert world.signals.of(Topic.PRINCIPAL_CHANGED) == [{"principal_id": str(acting.id)}]
    account = await world.stores.principals.get(world.org_id, acting.id)
    assert account is not None
    assert account.principal.status is PrincipalStatus.INACTIVE
    key = await services.api_keys.get(root, "ci")
    assert (key.revoked_by, key.revoked_at) == (root.email, world.clock())
    with pytest.raises(NotFound, match="already"):
        await services.api_keys.remove(root, "ci")
    await services.api_keys.reactivate(root, "ci")
    await used(services, issued.secret)
    with pytest.raises(Invalid, match="not revoked"):
        await services.api_keys.reactivate(root, "ci")


async def test_last_use_is_written_once_a_minute(services: Services, world: World, root: Principal) -> None:
    issued = await made(services, root)
    seen = []
    for _ in range(5):
        await used(services, issued.secret)
        seen.append((await services.api_keys.get(root, "ci")).last_used_at)
        world.clock.forward(seconds=20)
    assert len(set(seen)) == 2


async def test_keys_of_a_service_account(services: Services, world: World, root: Principal) -> None:
    accounts = services.service_accounts
    await accounts.create(root, {"subject": "deploy@build", "groups": ("sre",)})
    with pytest.raises(Conflict, match="deploy@build"):
        await accounts.create(root, {"subject": "deploy@build"})
    with pytest.raises(Invalid, match="groups"):
        await made(services, root, groups=("admin",), service_account="deploy@build")
    one = await made(services, root, "one", service_account="deploy@build")
    two = await made(services, root, "two", service_account="deploy@build")
    with pytest.raises(Invalid, match="groups"):
        await services.api_keys.update(root, "one", {"groups": ("admin",)})
    assert (await used(services, one.secret)).groups == {"sre"}
    await services.api_keys.remove(root, "one")
    await refused(services, one.secret, "revoked")
    principal = await used(services, two.secret)
    assert principal.subject == "deploy@build"
    await accounts.update(root, "deploy@build", {"status": PrincipalStatus.INACTIVE})
    await refused(services, two.secret, "not active")
    await accounts.update(root, "deploy@build", {"status": PrincipalStatus.ACTIVE})
    await used(services, two.secret)
    await accounts.remove(root, "deploy@build")
    await refused(services, two.secret, "unknown")
    with pytest.raises(NotFound):
        await accounts.get(root, "deploy@build")
    assert world.signals.of(Topic.PRINCIPAL_CHANGED) == [{"principal_id": str(principal.id)}] * 3


async def test_a_key_gives_nobody_a_new_way_in(services: Services, root: Principal) -> None:
    """A key that leaked cannot outlive its revocation by keys or passwords that it made."""
    key = await used(services, (await made(services, root, groups=("admin",))).secret)
    assert key.is_admin
    password = Secret("a long enough password")
    for deed in (
        services.api_keys.create(key, {"name": "other"}),
        services.api_keys.update(key, "ci", {"expires_in_seconds": 999}),
        services.api_keys.reactivate(key, "ci"),
        services.users.create(key, {"email": "eve@example.com", "password": password}),
        services.users.update(key, root.email, {"password": password}),
    ):
        with pytest.raises(Denied, match="an API key cannot"):
            await deed
    await services.users.create(key, {"email": "ann@example.com"})


async def test_only_administrators_manage_and_auditors_read(services: Services, world: World, root: Principal) -> None:
    auditor, ann = await world.add_user("auditor", "auditor"), await world.add_user("ann")
    await made(services, root)
    await services.service_accounts.create(root, {"subject": "deploy"})
    await services.machines.create(root, {"name": "batch"})
    for reader in (auditor, root):
        assert (await services.api_keys.find(reader, Page())).total == 1
        assert (await services.service_accounts.find(reader, Page())).total == 1
    for reading in (
        services.api_keys.find(ann, Page()),
        services.api_keys.get(ann, "ci"),
        services.service_accounts.find(ann, Page()),
        services.service_accounts.get(ann, "deploy"),
        services.machines.credentials(ann, "batch"),
    ):
        with pytest.raises(Denied):
            await reading
    for other in (auditor, ann):
        for deed in (
            services.api_keys.create(other, {"name": "x"}),
            services.api_keys.update(other, "ci", {}),
            services.api_keys.remove(other, "ci"),
            services.api_keys.reactivate(other, "ci"),
            services.service_accounts.create(other, {"subject": "x"}),
            services.service_accounts.update(other, "deploy", {}),
            services.service_accounts.remove(other, "deploy"),
            services.machines.rotate(other, "batch", "shop", overlap=0, seconds=None),
        ):
            with pytest.raises(Denied):
                await deed


async def test_nothing_of_another_organisation_is_seen(services: Services, world: World, root: Principal) -> None:
    await made(services, root)
    await services.service_accounts.create(root, {"subject": "deploy"})
    await services.machines.create(root, {"name": "batch"})
    organisation = Organisation(uuid4(), "elsewhere", world.clock())
    await world.stores.organisations.add(organisation)
    stranger = replace(root, id=uuid4(), org_id=organisation.id, subject="s", email="s@example.com")
    await world.stores.principals.add(Account(stranger), world.clock())
    for deed in (
        services.machines.get(stranger, "batch"),
        services.machines.remove(stranger, "batch"),
    ):
        with pytest.raises(NotFound):
            await deed


async def test_attack_who_came_by_a_key_stands_for_nobody_once_it_is_revoked(
    services: Services, root: Principal
) -> None:
    issued = await made(services, root, groups=("dba",))
    caller = await services.authentication.caller(issued.secret, address="192.0.2.7")
    await services.api_keys.update(root, "ci", {"groups": ("sre",)})
    assert (await services.authentication.standing(caller, address="192.0.2.7")).groups == frozenset({"sre"})
    await services.api_keys.remove(root, "ci")
    with pytest.raises(Unauthenticated, match="was revoked"):
        await services.authentication.standing(caller, address="192.0.2.7")
