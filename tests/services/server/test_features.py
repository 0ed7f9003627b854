"""Every feature does something when it is off, at once, and to nobody else."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from tests.support.world import World

from postern.domain.features import FEATURES, Feature
from postern.domain.identity.api_key import PREFIX, ApiKey
from postern.domain.identity.login import Login
from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import Account, Principal
from postern.domain.secret import Secret
from postern.errors import Denied, NotFound, Unauthenticated
from postern.services.identity.logins.authentication import Authentication
from postern.store.ports.common_ports import Topic


async def test_all_are_as_by_default_until_somebody_chooses(world: World) -> None:
    services = world.services()
    admin = await world.add_user("root", "admin")
    assert {state.name: state.enabled for state in await services.features.all(admin.org_id)} == {
        name: spec.default for name, spec in FEATURES.items()
    }
    off = [name for name, spec in FEATURES.items() if not spec.default]
    assert off == [Feature.ACCESS_CONTROL, Feature.SELF_REVIEW]
    await services.features.put(admin, "script-runs", enabled=False)
    await services.features.put(admin, "api-keys", enabled=False)
    await services.features.put(admin, "access-control", enabled=True)
    switched = {state.name for state in await services.features.all(admin.org_id) if not state.enabled}
    assert switched == {Feature.SCRIPT_RUNS, Feature.API_KEYS, Feature.SELF_REVIEW}
    other = Organisation(uuid4(), "acme", world.clock())
    await world.stores.organisations.add(other)
    assert await services.features.is_enabled(other.id, Feature.SCRIPT_RUNS)
    assert not await services.features.is_enabled(other.id, Feature.ACCESS_CONTROL)


async def test_another_process_follows(world: World) -> None:
    """Two bundles over one store and one set of signals, as two processes have them."""
    here, there = world.services(), world.services()
    admin = await world.add_user("root", "admin")
    assert await there.features.is_enabled(admin.org_id, Feature.SESSION_DOWNLOAD)
    await here.features.put(admin, "session-download", enabled=False)
    assert not await there.features.is_enabled(admin.org_id, Feature.SESSION_DOWNLOAD)


async def test_only_admins_choose_and_only_what_there_is(world: World) -> None:
    services = world.services()
    for groups in ((), ("auditor",)):
        with pytest.raises(Denied):
            await services.features.put(await world.add_user(f"u{len(groups)}", *groups), "api-keys", enabled=False)
    with pytest.raises(NotFound, match="the features are access-control, api-keys, "):
        await services.features.put(await world.add_user("root", "admin"), "telepathy", enabled=True)


async def test_native_credentials_off(world: World) -> None:
    services = world.services()
    admin, ann = await world.add_user("root", "admin"), await world.add_user("ann")
    await world.add_connection()
    issued = await services.credentials.issue(ann, "shop", None)
    grant = await services.access.find_grant(issued.credential.username)
    assert grant is not None
    permit = await services.access.admit(grant, source="::1")
    assert await services.access.still_allowed(permit) is None
    await services.features.put(admin, "native-credentials", enabled=False)
    told = world.signals.of(Topic.POLICY_CHANGED)[-1]
    assert told == {"org_id": str(world.org_id)}  # live links of this organisation ask again
    assert "switched off" in str(await services.access.still_allowed(permit))
    with pytest.raises(Denied, match="switched off"):
        await services.access.admit(grant, source="::1")
    with pytest.raises(Denied, match="switched off"):
        await services.credentials.issue(ann, "shop", None)
    await services.features.put(admin, "native-credentials", enabled=True)
    assert await services.access.still_allowed(permit) is None


async def test_script_runs_off(world: World) -> None:
    services = world.services()
    admin, ann = await world.add_user("root", "admin"), await world.add_user("ann")
    await world.add_connection()
    waiting = await services.sessions.submit(ann, "shop", "select 1", source="::1")
    await services.features.put(admin, "script-runs", enabled=False)
    with pytest.raises(Denied, match="switched off"):
        await services.sessions.submit(ann, "shop", "select 1", source="::1")
    assert await services.sessions.claim(waiting.id, "w1") is None


async def test_session_download_off(world: World) -> None:
    services = world.services()
    admin = await world.add_user("root", "admin")
    await services.sessions.require_download(admin)
    await services.features.put(admin, "session-download", enabled=False)
    with pytest.raises(Denied, match="switched off"):
        await services.sessions.require_download(admin)


async def test_api_keys_off(world: World) -> None:
    services = world.services()
    admin, ann = await world.add_user("root", "admin"), await world.add_user("ann")
    key = ApiKey(uuid4(), ann.org_id, Account(ann), "ci", PREFIX, (), ann.email, world.clock())

    class Keys:
        async def authenticate(self, _key: Secret, _address: str) -> tuple[ApiKey, Principal]:
            return key, ann

        async def standing(self, _org_id: UUID, _key_id: UUID, _address: str) -> Principal:
            return ann

    class NoFactors:
        async def is_missing(self, _login: Login) -> bool:
            return False

    door = Authentication(
        logins=services.logins,
        features=services.features,
        factors=NoFactors(),
        networks=world.networks,
        principals=world.stores.principals,
        api_keys=Keys(),
    )
    given = Secret(f"{PREFIX}anything")
    caller = await door.caller(given, address="::1")
    assert caller.principal == ann
    assert await door.standing(caller, address="::1") == ann
    await services.features.put(admin, "api-keys", enabled=False)
    with pytest.raises(Unauthenticated, match="switched off"):
        await door.caller(given, address="::1")
    with pytest.raises(Unauthenticated, match="switched off"):
        await door.standing(caller, address="::1")
