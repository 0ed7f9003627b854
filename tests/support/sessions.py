"""Ended sessions made straight in the store, for tests of lists and searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import text
from tests.support.world import World

from postern.domain.identity.principal import Principal
from postern.domain.sessions.session import EndReason, Session, SessionStatus, Verb
from postern.services.bundle import Services
from postern.store.ports.target_ports import SessionEnd
from postern.store.schema.session_tables import sessions


async def add_session(
    world: World,
    owner: Principal,
    *,
    at: datetime | None = None,
    seconds: float | None = 60,
    reason: EndReason = EndReason.CLIENT_CLOSED,
    metrics: dict[str, Any] | None = None,
    asked: Sequence[str] = (),
    **fields: Any,
) -> Session:
    """It lasted so many seconds; None leaves it open. `asked` are recorded statements, a second apart."""
    values: dict[str, Any] = {
        "id": uuid4(),
        "org_id": owner.org_id,
        "connection_id": UUID(int=7),
        "connection": "shop",
        "connection_subtype": "postgres",
        "connection_tags": {},
        "type": "database",
        "verb": Verb.CONNECT,
        "status": SessionStatus.OPEN,
        "user": owner.email,
        "user_id": owner.subject,
        "user_name": owner.name,
        "start_date": at or world.clock(),
    }
    session = Session(**(values | fields))
    await world.stores.sessions.add(session, principal_id=owner.id, source="127.0.0.1")
    if asked:
        world.recordings.stored[session.id] = [(1000.0 * n, "i", text.encode()) for n, text in enumerate(asked, 1)]
    if seconds is None:
        return session
    end = session.start_date + timedelta(seconds=seconds)
    await world.stores.sessions.end(session.id, SessionEnd(end, reason, metrics=metrics or {}))
    found = await world.stores.sessions.get(owner.org_id, session.id)
    assert found is not None
    return replace(found, script=None)


async def catch_up(world: World, services: Services) -> int:
    """The archiver's rounds that read what nobody has indexed, long after everything has ended."""
    now = world.clock.now
    world.clock.now = now + timedelta(days=3650)
    done = 0
    try:
        while more := await services.session_texts.catch_up():  # a round ends early where the machine is slow
            done += more
        return done
    finally:
        world.clock.now = now


async def multiply(world: World, bits: int = 0, many: int = 10_000) -> None:
    """So many sessions more like the one that is there, which wait for `bits`; the engine knows how many there are."""
    is_sqlite = world.database.is_sqlite
    values = {column.name: f'"{column.name}"' for column in sessions.c} | {"pending": str(bits)}
    values["id"] = "lower(hex(randomblob(16)))" if is_sqlite else "gen_random_uuid()"
    series = "with recursive n(x) as (select 1 union all select x + 1 from n where x < :many)" if is_sqlite else ""
    source = "n" if is_sqlite else "generate_series(1, :many)"
    names = ", ".join(f'"{name}"' for name in values)
    copy = f"insert into sessions ({names}) {series} select {', '.join(values.values())} from sessions, {source}"
    async with world.database.transaction() as transaction:
        await transaction.execute(text(copy), {"many": many})
        await transaction.execute(text("analyze sessions"))
