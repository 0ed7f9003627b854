"""Signing keys, sealed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from uuid import UUID, uuid4

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.schema import signing_keys


class SqlKeys:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def signing_key(self, purpose: str, make: Callable[[], bytes], at: datetime) -> tuple[UUID, bytes]:
        found = await self._find(purpose)
        if found is None:
            await self._add(purpose, make(), at)
            found = await self._find(purpose)
        if found is None:
            raise RuntimeError(f"the signing key for {purpose} is gone right after it was stored")
        return found

    async def _find(self, purpose: str) -> tuple[UUID, bytes] | None:
        wanted = select(signing_keys.c.id, signing_keys.c.private).where(signing_keys.c.purpose == purpose)
        async with self._database.statement() as connection:
            row = (await connection.execute(wanted)).one_or_none()
        if row is None:
            return None
        return row.id, self._encryption.open(row.private, row=f"signing_keys/{row.id}")

    async def _add(self, purpose: str, private: bytes, at: datetime) -> None:
        key = uuid4()
        sealed = self._encryption.seal(private, row=f"signing_keys/{key}")
        try:
            async with self._database.statement() as connection:
                await connection.execute(
                    insert(signing_keys).values(id=key, purpose=purpose, private=sealed, created_at=at)
                )
        except IntegrityError:
            return  # another process was first; its key is the one to use
