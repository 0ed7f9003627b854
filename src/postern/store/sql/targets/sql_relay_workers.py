"""The live relay workers."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.worker import RelayWorker
from postern.store.database import Database
from postern.store.schema.target_tables import relay_workers


class SqlRelayWorkers:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def beat(self, worker: RelayWorker) -> bool:
        condition = relay_workers.c.id == worker.id
        async with self._database.statement() as connection:
            touched = await connection.execute(
                update(relay_workers).where(condition).values(last_seen=worker.last_seen, name=worker.name)
            )
            if touched.rowcount == 1:
                return False
            values = {column.name: getattr(worker, column.name) for column in relay_workers.c}
            try:
                await connection.execute(insert(relay_workers).values(values))
            except IntegrityError:  # a beat of the same worker at the same moment was first
                return False
        return True

    async def living(self, since: datetime) -> list[RelayWorker]:
        query = select(*relay_workers.c).where(relay_workers.c.last_seen > since)
        async with self._database.statement() as connection:
            rows = (await connection.execute(query.order_by(relay_workers.c.name, relay_workers.c.id))).mappings()
            return [RelayWorker(**row) for row in rows]

    async def forget(self, worker_id: UUID) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(relay_workers).where(relay_workers.c.id == worker_id))

    async def prune(self, before: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(relay_workers).where(relay_workers.c.last_seen <= before))
