"""Vouchers: each is good once, and its payload is sealed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.login import VoucherPurpose
from postern.errors import Conflict, TooMany
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.schema import vouchers
from postern.store.threaded import Executor

MOST = 10_000  # outstanding vouchers of one purpose; strangers can ask for some of them
MOST_OF_SOURCE = 200  # of these that one network of strangers can have; an office may be behind one address


class SqlVouchers:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def add(
        self,
        purpose: VoucherPurpose,
        digest: bytes,
        payload: Mapping[str, Any],
        at: datetime,
        expires_at: datetime,
        user_id: UUID | None = None,
        source: str | None = None,
    ) -> None:
        values = {"digest": digest, "purpose": purpose, "payload": await self._seal(digest, payload)} | {
            "user_id": user_id,
            "source": source,
        }
        try:
            async with self._database.transaction() as transaction:
                await _make_room(transaction, purpose, source, at)
                await transaction.execute(insert(vouchers).values(**values, created_at=at, expires_at=expires_at))
        except IntegrityError:
            raise Conflict("this code is in use already; try again") from None

    async def take(self, purpose: VoucherPurpose, digest: bytes, now: datetime) -> Mapping[str, Any] | None:
        taken = (
            delete(vouchers)
            .where(vouchers.c.digest == digest, vouchers.c.purpose == purpose, vouchers.c.expires_at > now)
            .returning(vouchers.c.payload)
        )
        async with self._database.transaction() as transaction:
            sealed = (await transaction.execute(taken)).scalar_one_or_none()
        return await self._open(digest, sealed)

    async def peek(self, purpose: VoucherPurpose, digest: bytes, now: datetime) -> Mapping[str, Any] | None:
        wanted = select(vouchers.c.payload).where(
            vouchers.c.digest == digest, vouchers.c.purpose == purpose, vouchers.c.expires_at > now
        )
        async with self._database.statement() as connection:
            sealed = (await connection.execute(wanted)).scalar_one_or_none()
        return await self._open(digest, sealed)

    async def change(
        self, purpose: VoucherPurpose, digest: bytes, payload: Mapping[str, Any], user_id: UUID | None = None
    ) -> bool:
        values = {"payload": await self._seal(digest, payload), "user_id": user_id}
        changed = update(vouchers).where(vouchers.c.digest == digest, vouchers.c.purpose == purpose).values(values)
        async with self._database.statement() as connection:
            return (await connection.execute(changed)).rowcount == 1

    async def forget(self, purpose: VoucherPurpose, user_id: UUID) -> None:
        async with self._database.statement() as connection:
            await connection.execute(
                delete(vouchers).where(vouchers.c.purpose == purpose, vouchers.c.user_id == user_id)
            )

    async def prune(self, now: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(vouchers).where(vouchers.c.expires_at <= now))

    async def _seal(self, digest: bytes, payload: Mapping[str, Any]) -> bytes:
        clear = json.dumps(dict(payload)).encode()
        return await self._encryption.seal(clear, row=f"vouchers/{digest.hex()}", org_id=None)

    async def _open(self, digest: bytes, sealed: bytes | None) -> Mapping[str, Any] | None:
        if sealed is None:
            return None
        clear = await self._encryption.open(sealed, row=f"vouchers/{digest.hex()}", org_id=None)
        payload: dict[str, Any] = json.loads(clear)
        return payload


async def _make_room(transaction: Executor, purpose: VoucherPurpose, source: str | None, at: datetime) -> None:
    """A stranger who asks without end pushes out their own, so that nobody else's login stops. Raises TooMany."""
    live = (vouchers.c.purpose == purpose, vouchers.c.expires_at > at)
    if source is not None:
        held = select(func.count()).where(*live, vouchers.c.source == source)
        if (await transaction.execute(held)).scalar_one() >= MOST_OF_SOURCE:
            await _drop_oldest(transaction, purpose, source)
    if (await transaction.execute(select(func.count()).where(*live))).scalar_one() < MOST:
        return
    most = (
        select(vouchers.c.source)
        .where(*live, vouchers.c.source.is_not(None))
        .group_by(vouchers.c.source)
        .order_by(func.count().desc(), func.min(vouchers.c.created_at))
        .limit(1)
    )
    greediest = (await transaction.execute(most)).scalar_one_or_none()
    if greediest is None:
        raise TooMany("too many logins are under way; try again in a few minutes")
    await _drop_oldest(transaction, purpose, greediest)


async def _drop_oldest(transaction: Executor, purpose: VoucherPurpose, source: str) -> None:
    oldest = (
        select(vouchers.c.digest)
        .where(vouchers.c.purpose == purpose, vouchers.c.source == source)
        .order_by(vouchers.c.created_at, vouchers.c.digest)
        .limit(1)
    )
    await transaction.execute(delete(vouchers).where(vouchers.c.digest.in_(oldest)))
