"""The rule that an organisation with an active administrator keeps one, under concurrent changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from sqlalchemy import select

from postern.domain.identity.principal import PrincipalKind, PrincipalStatus
from postern.errors import Invalid
from postern.store.schema.identity_tables import orgs, user_groups, users
from postern.store.sql.locking import one_at_a_time
from postern.store.threaded import Executor


@asynccontextmanager
async def keeping_an_admin(transaction: Executor, org_id: UUID) -> AsyncIterator[None]:
    """Guard changes that may remove the last one. Programs do not count: they cannot log in to repair anything.

    Raises Invalid, which rolls the transaction back. Changes of this kind wait for each other, so that two
    administrators cannot remove each other.
    """
    await one_at_a_time(transaction)
    had = await _has_admin(transaction, org_id)
    yield
    if had and not await _has_admin(transaction, org_id):
        raise Invalid(
            "this is the last active administrator of the organisation; make another user an administrator first"
        )


async def _has_admin(transaction: Executor, org_id: UUID) -> bool:
    query = (
        select(users.c.id)
        .join(orgs, orgs.c.id == users.c.org_id)
        .join(user_groups, (user_groups.c.user_id == users.c.id) & (user_groups.c.name == orgs.c.admin_group))
        .where(
            users.c.org_id == org_id,
            users.c.kind == PrincipalKind.USER,
            users.c.status == PrincipalStatus.ACTIVE,
        )
        .limit(1)
    )
    return (await transaction.execute(query)).first() is not None
