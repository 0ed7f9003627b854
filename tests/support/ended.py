"""Sessions that have ended, with what was counted in them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from tests.support.world import World

from postern.domain.identity.principal import Principal
from postern.domain.sessions.session import EndReason, Session, SessionStatus, Verb
from postern.domain.targets.connection import Connection
from postern.store.ports.target_ports import SessionEnd


def metrics(types: dict[str, int], refused: int = 0, operations: int = 3) -> dict[str, Any]:
    """As gateway/engine.py has them."""
    masking = {"info_types": types, "total_redact_count": sum(types.values()), "transformed_bytes": 7, "err_count": 0}
    return {"data_masking": masking, "operations": operations, "refused": refused, "truncated": False}


async def begin(
    world: World, user: Principal, connection: Connection, at: datetime | None = None, verb: Verb = Verb.CONNECT
) -> UUID:
    session = Session(
        id=uuid4(),
        org_id=world.org_id,
        connection_id=connection.id,
        connection=connection.name,
        connection_subtype=connection.subtype,
        connection_tags={},
        type=connection.type,
        verb=verb,
        status=SessionStatus.OPEN,
        user=user.email,
        user_id=user.subject,
        user_name=user.name,
        start_date=at or world.clock(),
    )
    await world.stores.sessions.add(session, principal_id=user.id, source="::1")
    return session.id


async def end(
    world: World,
    session_id: UUID,
    types: dict[str, int] | None = None,
    *,
    at: datetime | None = None,
    reason: EndReason = EndReason.CLIENT_CLOSED,
    refused: int = 0,
) -> None:
    ended = SessionEnd(at or world.clock(), reason, None, metrics(types or {}, refused), event_size=100)
    assert await world.stores.sessions.end(session_id, ended)


async def had(
    world: World,
    user: Principal,
    connection: Connection,
    types: dict[str, int] | None = None,
    at: datetime | None = None,
    **more: Any,
) -> UUID:
    """One that lasted two seconds."""
    begun = at or world.clock()
    key = await begin(world, user, connection, begun)
    await end(world, key, types, at=begun + timedelta(seconds=2), **more)
    return key
