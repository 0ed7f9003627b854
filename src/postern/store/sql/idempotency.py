"""What requests with an idempotency key were answered."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.ports import KeptAnswer
from postern.store.schema import idempotency_keys as kept


class SqlIdempotency:
    """Answers are sealed: they may hold a secret that is shown once."""

    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def begin(self, principal_id: UUID, digest: bytes, fingerprint: bytes, at: datetime) -> KeptAnswer | None:
        row = {"principal_id": principal_id, "digest": digest, "fingerprint": fingerprint, "created_at": at}
        sealed = self._encryption.seal(b"", row=_row(principal_id, digest))
        try:
            async with self._database.statement() as connection:
                await connection.execute(insert(kept).values(**row, status=0, headers={}, body=sealed))
        except IntegrityError:
            async with self._database.statement() as connection:
                found = (await connection.execute(select(*kept.c).where(_is(principal_id, digest)))).one_or_none()
            if found is None:  # forgotten this very moment: as if it were under way, to be tried again
                return KeptAnswer(fingerprint, 0, {}, b"")
            body = self._encryption.open(found.body, row=_row(principal_id, digest))
            return KeptAnswer(found.fingerprint, found.status, found.headers, body)
        return None

    async def finish(self, principal_id: UUID, digest: bytes, answer: KeptAnswer) -> None:
        sealed = self._encryption.seal(answer.body, row=_row(principal_id, digest))
        values = {"status": answer.status, "headers": dict(answer.headers), "body": sealed}
        async with self._database.statement() as connection:
            await connection.execute(update(kept).where(_is(principal_id, digest)).values(values))

    async def forget(self, principal_id: UUID, digest: bytes) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(kept).where(_is(principal_id, digest)))

    async def prune(self, before: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(kept).where(kept.c.created_at < before))


def _is(principal_id: UUID, digest: bytes) -> ColumnElement[bool]:
    return (kept.c.principal_id == principal_id) & (kept.c.digest == digest)


def _row(principal_id: UUID, digest: bytes) -> str:
    return f"idempotency_keys/{principal_id}/{digest.hex()}"
