"""The keys that sign access tokens, sealed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Row, delete, insert, select, update

from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.ports.identity_ports import SigningKey
from postern.store.schema.identity_tables import token_keys
from postern.store.sql.locking import one_at_a_time
from postern.store.sql.rows import count_of


class SqlSigningKeys:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def all(self) -> list[SigningKey]:
        query = select(*token_keys.c).order_by(token_keys.c.created_at.desc(), token_keys.c.id)
        async with self._database.statement() as connection:
            rows = (await connection.execute(query)).all()
        return [SigningKey(row.id, await self._open(row), row.created_at, row.retired_at) for row in rows]

    async def rotate(self, key: SigningKey, at: datetime, *, first: bool = False) -> None:
        sealed = await self._encryption.seal(key.private, row=f"token_keys/{key.id}", org_id=None)
        async with self._database.transaction() as transaction:
            await one_at_a_time(transaction)
            if first and (await transaction.execute(count_of(token_keys))).scalar_one():
                return
            await transaction.execute(update(token_keys).where(token_keys.c.retired_at.is_(None)).values(retired_at=at))
            await transaction.execute(insert(token_keys).values(id=key.id, private=sealed, created_at=key.created_at))

    async def prune(self, before: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(token_keys).where(token_keys.c.retired_at < before))

    async def _open(self, row: Row[Any]) -> bytes:
        return await self._encryption.open(row.private, row=f"token_keys/{row.id}", org_id=None)
