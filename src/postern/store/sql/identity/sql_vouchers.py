"""Vouchers: each is good once, and its payload is sealed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.identity.login import VoucherPurpose
from postern.errors import Conflict, TooMany
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.ports.identity_ports import NewVoucher
from postern.store.schema.people import vouchers
from postern.store.threaded import Executor

MOST = 10_000  # outstanding vouchers of one purpose; strangers can ask for some of them
MOST_OF_SOURCE = 200  # of these that one network of strangers can have; an office may be behind one address


class SqlVouchers:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def add(self, voucher: NewVoucher) -> None:
        payload = await sealed(self._encryption, voucher.digest, voucher.payload)
        try:
            async with self._database.transaction() as transaction:
                await add_voucher(transaction, voucher, payload)
        except IntegrityError:
            raise Conflict("this code is in use already; try again") from None

    async def take(self, purpose: VoucherPurpose, digest: bytes, now: datetime) -> Mapping[str, Any] | None:
        taken = (
            delete(vouchers)
            .where(vouchers.c.digest == digest, vouchers.c.purpose == purpose, vouchers.c.expires_at > now)
            .returning(vouchers.c.payload)
        )
        async with self._database.transaction() as transaction:
            payload = (await transaction.execute(taken)).scalar_one_or_none()
        return await self._open(digest, payload)

    async def peek(self, purpose: VoucherPurpose, digest: bytes, now: datetime) -> Mapping[str, Any] | None:
        wanted = select(vouchers.c.payload).where(
            vouchers.c.digest == digest, vouchers.c.purpose == purpose, vouchers.c.expires_at > now
        )
        async with self._database.statement() as connection:
            payload = (await connection.execute(wanted)).scalar_one_or_none()
        return await self._open(digest, payload)

    async def change(
        self, purpose: VoucherPurpose, digest: bytes, payload: Mapping[str, Any], user_id: UUID | None = None
    ) -> bool:
        values = {"payload": await sealed(self._encryption, digest, payload), "user_id": user_id}
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

    async def _open(self, digest: bytes, kept: bytes | None) -> Mapping[str, Any] | None:
        if kept is None:
            return None
        clear = await self._encryption.open(kept, row=_row(digest), org_id=None)
        payload: dict[str, Any] = json.loads(clear)
        return payload


async def sealed(encryption: Encryption, digest: bytes, payload: Mapping[str, Any]) -> bytes:
    """As it is kept. Asks for a data key, so not inside a transaction."""
    return await encryption.seal(json.dumps(dict(payload)).encode(), row=_row(digest), org_id=None)


async def add_voucher(transaction: Executor, voucher: NewVoucher, payload: bytes) -> None:
    """`payload` is what `sealed` made. Raises TooMany, IntegrityError."""
    await _make_room(transaction, voucher.purpose, voucher.source, voucher.at)
    await transaction.execute(
        insert(vouchers).values(
            digest=voucher.digest,
            purpose=voucher.purpose,
            payload=payload,
            user_id=voucher.user_id,
            source=voucher.source,
            created_at=voucher.at,
            expires_at=voucher.expires_at,
        )
    )


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


def _row(digest: bytes) -> str:
    return f"vouchers/{digest.hex()}"
