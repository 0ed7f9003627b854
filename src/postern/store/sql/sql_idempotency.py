"""Answers to requests with an idempotency key."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, and_, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.identity.principal import Principal
from postern.errors import TooMany
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.ports.server_ports import StoredAnswer
from postern.store.schema.server_tables import idempotency_keys as kept
from postern.store.sql.rows import count_of
from postern.store.threaded import Executor

MOST = 10_000  # keys that are kept of one principal
FORGOTTEN_AT_ONCE = 100  # of the oldest, when there are that many
LOST_AFTER = timedelta(minutes=2)


class SqlIdempotency:
    """Answers are sealed, headers too: they may hold a secret that is shown once."""

    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def begin(
        self, principal: Principal, digest: bytes, fingerprint: bytes, at: datetime, kept_for: timedelta
    ) -> StoredAnswer | None:
        mine = _is(principal.id, digest)
        row = {"principal_id": principal.id, "digest": digest, "fingerprint": fingerprint, "created_at": at}
        try:
            async with self._database.transaction() as transaction:
                old = or_(kept.c.created_at <= at - kept_for, and_(kept.c.digest == digest, _is_lost(at)))
                await transaction.execute(delete(kept).where(kept.c.principal_id == principal.id, old))
                query = count_of(kept, kept.c.principal_id == principal.id, kept.c.digest != digest)
                if (await transaction.execute(query)).scalar_one() >= MOST:
                    await _make_room(transaction, principal.id, at)
                await transaction.execute(insert(kept).values(**row, status=0, body=b""))
        except IntegrityError:
            async with self._database.statement() as connection:
                found_row = (await connection.execute(select(*kept.c).where(mine))).one_or_none()
            if found_row is None:  # forgotten this very moment: as if it were under way, to be tried again
                return StoredAnswer(fingerprint, 0, {}, b"")
            if found_row.status == 0:
                return StoredAnswer(found_row.fingerprint, 0, {}, b"")
            name = _row(principal.id, digest)
            clear = json.loads(await self._encryption.open(found_row.body, row=name, org_id=principal.org_id))
            body = base64.b64decode(clear["body"])
            return StoredAnswer(found_row.fingerprint, found_row.status, clear["headers"], body)
        return None

    async def finish(self, principal: Principal, digest: bytes, answer: StoredAnswer) -> None:
        clear = {"headers": dict(answer.headers), "body": base64.b64encode(answer.body).decode()}
        name = _row(principal.id, digest)
        sealed = await self._encryption.seal(json.dumps(clear).encode(), row=name, org_id=principal.org_id)
        finished = update(kept).where(_is(principal.id, digest), kept.c.status == 0)
        async with self._database.statement() as connection:
            await connection.execute(finished.values(status=answer.status, body=sealed))

    async def forget(self, principal: Principal, digest: bytes) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(kept).where(_is(principal.id, digest), kept.c.status == 0))

    async def prune(self, before: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(kept).where(kept.c.created_at < before))


async def _make_room(transaction: Executor, principal_id: UUID, at: datetime) -> None:
    """Delete the oldest answers, since retries come soon. Raises TooMany when all are in progress."""
    mine = kept.c.principal_id == principal_id
    done = or_(kept.c.status != 0, _is_lost(at))
    oldest = select(kept.c.digest).where(mine, done).order_by(kept.c.created_at).limit(FORGOTTEN_AT_ONCE)
    if (await transaction.execute(delete(kept).where(mine, kept.c.digest.in_(oldest)))).rowcount == 0:
        raise TooMany(f"{MOST} requests with an idempotency key are in progress; try again when some have finished")


def _is(principal_id: UUID, digest: bytes) -> ColumnElement[bool]:
    return (kept.c.principal_id == principal_id) & (kept.c.digest == digest)


def _is_lost(at: datetime) -> ColumnElement[bool]:
    """Return whether it has been in progress for longer than any request takes: its process is gone."""
    return and_(kept.c.status == 0, kept.c.created_at <= at - LOST_AFTER)


def _row(principal_id: UUID, digest: bytes) -> str:
    return f"idempotency_keys/{principal_id}/{digest.hex()}"
