"""Rows that several transactions change are locked in one order, so that none of them is a deadlock victim."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError
from tests.support.promises import until
from tests.support.sessions import add_session
from tests.support.world import START, World

from postern.domain.sessions.ledger import EntryKind
from postern.domain.sessions.session import EndReason
from postern.proof.proof_ledger import LedgerWriter
from postern.services.recordings.recording_ledger import Ledger
from postern.store.database import Database
from postern.store.ports.notification_ports import ALL, Settled
from postern.store.ports.target_ports import SessionEnd
from postern.store.schema.session_tables import sessions

Work = Callable[[World, list[UUID]], Coroutine[None, None, None]]


@pytest.fixture
async def world(database: Database) -> World:
    if database.is_sqlite:
        pytest.skip("a transaction of SQLite is the only one that writes")
    return await World.make(database)


async def tell(world: World, ids: list[UUID]) -> None:
    writer = LedgerWriter(world.org_id, await Ledger(world.stores.ledger, world.clock).head(world.org_id))
    for session_id in reversed(ids):
        writer.add(EntryKind.OPENED, START, session_id)
    assert await world.stores.ledger.append(writer.entries)


async def settle(world: World, ids: list[UUID]) -> None:
    found = {one.session.id: one for one in await world.stores.postprocessing.pending(ALL, 100)}
    await world.stores.postprocessing.settle([Settled(found[session_id]) for session_id in reversed(ids)])


async def end(world: World, ids: list[UUID]) -> None:
    ended = SessionEnd(START + timedelta(minutes=1), EndReason.CLIENT_CLOSED)
    await asyncio.gather(*(world.stores.sessions.end(session_id, ended) for session_id in reversed(ids)))


@asynccontextmanager
async def locked(database: Database, session_id: UUID) -> AsyncIterator[None]:
    async with database.transaction() as transaction:
        await transaction.execute(select(sessions.c.id).where(sessions.c.id == session_id).with_for_update())
        yield


async def is_free(database: Database, session_id: UUID) -> bool:
    try:
        async with database.transaction() as transaction:
            own = select(sessions.c.id).where(sessions.c.id == session_id)
            await transaction.execute(own.with_for_update(nowait=True))
    except DBAPIError:
        return False
    return True


@pytest.mark.parametrize("work", [tell, settle, end])
async def test_rows_are_locked_in_the_order_of_their_ids(world: World, work: Work) -> None:
    """While another transaction holds the first row, the next one waits and holds none of the others."""
    owner = await world.add_user("ann")
    ids = sorted(uuid4() for _ in range(6))
    for session_id in reversed(ids):  # so that they lie in another order
        await add_session(world, owner, seconds=None, id=session_id)
    async with locked(world.database, ids[0]):
        doing = asyncio.create_task(work(world, ids))
        await waits(world.database)
        assert [await is_free(world.database, session_id) for session_id in ids[1:]] == [True] * 5
    await asyncio.wait_for(doing, 60)


async def waits(database: Database) -> None:
    """Until a transaction waits for another one's."""
    waiting = text("select count(*) from pg_locks where not granted")

    async def one() -> int:
        async with database.statement() as statement:
            return int((await statement.execute(waiting)).scalar_one())

    await until(one)
