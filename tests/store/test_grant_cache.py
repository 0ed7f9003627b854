"""Grants of credentials: read at each login, but decoded and decrypted only when their row has changed."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import insert, update
from tests.support.world import World

from postern.store.schema.identity_tables import orgs, user_groups, users
from postern.store.schema.target_tables import connections
from postern.store.sql.rules import sql_access
from postern.store.sql.rules.sql_access import SqlAccess


@pytest.fixture
def access(world: World) -> SqlAccess:
    return SqlAccess(world.database, world.encryption)


async def issue(world: World, name: str = "ann") -> str:
    issued = await world.services().credentials.issue(await world.add_user(name), "shop", None)
    return issued.credential.username


async def test_grant_of_an_unchanged_row_is_the_same_object(world: World, access: SqlAccess) -> None:
    await world.add_connection()
    username = await issue(world)
    assert await access.find_grant(username) is await access.find_grant(username)


async def test_every_change_of_a_row_is_seen_at_once(world: World, access: SqlAccess) -> None:
    connection = await world.add_connection()
    username = await issue(world)
    grant = await access.find_grant(username)
    assert grant is not None
    changes = (
        insert(user_groups).values(user_id=grant.principal.id, name="ops", source="manual"),
        update(orgs).where(orgs.c.id == world.org_id).values(auditor_group="ops"),
        update(users).where(users.c.id == grant.principal.id).values(status="inactive"),
        update(connections).where(connections.c.id == connection.id).values(access_mode_connect="disabled"),
    )
    for change in changes:
        async with world.database.statement() as statement:
            await statement.execute(change)
        changed = await access.find_grant(username)
        assert changed is not None
        assert changed != grant
        grant = changed
    assert not grant.principal.is_active


async def test_revoked_credential_is_seen_at_once(world: World, access: SqlAccess) -> None:
    await world.add_connection()
    ann = await world.add_user("ann")
    credentials = world.services().credentials
    issued = await credentials.issue(ann, "shop", None)
    username = issued.credential.username
    before = await access.find_grant(username)
    assert before is not None
    assert before.revoked_at is None
    await credentials.revoke(ann, "shop", issued.credential.id)
    after = await access.find_grant(username)
    assert after is None or after.revoked_at is not None


async def test_secrets_do_not_stay_decrypted(world: World, access: SqlAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.add_connection()
    username = await issue(world)
    before = await access.find_grant(username)
    later = time.monotonic() + sql_access.GRANT_AGE
    monkeypatch.setattr(time, "monotonic", lambda: later)
    after = await access.find_grant(username)
    assert after == before
    assert after is not before


async def test_cache_of_grants_is_bounded(world: World, access: SqlAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_access, "MOST_GRANTS", 2)
    await world.add_connection()
    names = [await issue(world, name) for name in ("ann", "bob", "eve")]
    grants = [await access.find_grant(name) for name in names]
    assert await access.find_grant(names[2]) is grants[2]
    assert await access.find_grant(names[1]) is grants[1]
    assert await access.find_grant(names[0]) is not grants[0]
    assert await access.find_grant("nobody-shop-aaaaaa") is None
