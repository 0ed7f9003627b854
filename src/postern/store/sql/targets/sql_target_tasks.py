"""Target tasks: rows that live for seconds."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from uuid import UUID

from sqlalchemy import delete, insert, select, update

from postern.domain.targets.target_task import TargetTask, TargetTaskKind, TargetTest
from postern.store.database import Database
from postern.store.encryption.encryption_vault import Encryption
from postern.store.schema.target_tables import connections, target_tasks, target_tests

_OWN = ("id", "org_id", "principal_id", "connection_id", "source", "created_at")


# Values of a script's parameters, which are sealed in sessions, too.
_SEALED = frozenset({"parameters"})


class SqlTargetTasks:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def add(self, target_task: TargetTask) -> None:
        values = {name: getattr(target_task, name) for name in _OWN}
        arguments = {
            name: await self._seal(target_task.id, value) if name in _SEALED else value
            for name, value in target_task.arguments.items()
        }
        values |= {"kind": target_task.kind, "arguments": arguments}
        async with self._database.statement() as connection:
            await connection.execute(insert(target_tasks).values(values))

    async def claim(self, task_id: UUID, worker: str, since: datetime) -> TargetTask | None:
        """Claim a task. The condition on the worker makes the UPDATE the lock: only one of many finds it empty."""
        statement = (
            update(target_tasks)
            .where(target_tasks.c.id == task_id, target_tasks.c.worker.is_(None), target_tasks.c.created_at > since)
            .values(worker=worker)
            .returning(*target_tasks.c)
        )
        async with self._database.statement() as connection:
            row = (await connection.execute(statement)).mappings().one_or_none()
        if row is None:
            return None
        arguments = {
            name: await self._open(task_id, value) if name in _SEALED else value
            for name, value in row["arguments"].items()
        }
        return TargetTask(kind=TargetTaskKind(row["kind"]), arguments=arguments, **{name: row[name] for name in _OWN})

    async def _seal(self, task_id: UUID, value: str) -> str:
        sealed = await self._encryption.seal(value.encode(), row=f"errands/{task_id}", org_id=None)
        return base64.b64encode(sealed).decode()

    async def _open(self, task_id: UUID, value: str) -> str:
        sealed = base64.b64decode(value)
        return (await self._encryption.open(sealed, row=f"errands/{task_id}", org_id=None)).decode()

    async def answer(self, task_id: UUID, worker: str, answer: str, at: datetime) -> bool:
        condition = (target_tasks.c.id == task_id, target_tasks.c.worker == worker, target_tasks.c.done_at.is_(None))
        async with self._database.statement() as connection:
            done = await connection.execute(update(target_tasks).where(*condition).values(answer=answer, done_at=at))
        return done.rowcount == 1

    async def look(self, task_id: UUID) -> tuple[str | None, str | None]:
        query = select(target_tasks.c.worker, target_tasks.c.answer).where(target_tasks.c.id == task_id)
        async with self._database.statement() as connection:
            row = (await connection.execute(query)).one_or_none()
        return (None, None) if row is None else (row.worker, row.answer)

    async def remove(self, task_id: UUID) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(target_tasks).where(target_tasks.c.id == task_id))

    async def prune(self, before: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(target_tasks).where(target_tasks.c.created_at <= before))

    async def save_test(self, test: TargetTest) -> None:
        # The connection's row is locked, so that two tests that end together, or a deletion, wait for each other.
        exists = select(connections.c.id).where(connections.c.id == test.connection_id).with_for_update()
        async with self._database.transaction() as transaction:
            if (await transaction.execute(exists)).scalar_one_or_none() is None:
                return
            await transaction.execute(delete(target_tests).where(target_tests.c.connection_id == test.connection_id))
            await transaction.execute(insert(target_tests).values(asdict(test)))

    async def last_tests(self, connection_ids: Sequence[UUID]) -> Mapping[UUID, TargetTest]:
        if not connection_ids:
            return {}
        query = select(target_tests).where(target_tests.c.connection_id.in_(connection_ids))
        async with self._database.statement() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return {row["connection_id"]: TargetTest(**row) for row in rows}
