"""One-time tokens, with sealed payloads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.identity.login import TokenPurpose
from postern.errors import Conflict, TooMany
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.ports.identity_ports import NewOneTimeToken
from postern.store.schema.identity_tables import one_time_tokens
from postern.store.threaded import Executor

MOST = 10_000  # outstanding tokens of one purpose; unauthenticated clients can request some of them
MOST_OF_SOURCE = 200  # of these that one network of strangers can have; an office may be behind one address


class SqlOneTimeTokens:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def add(self, one_time_token: NewOneTimeToken) -> None:
        payload = await seal_row(self._encryption, one_time_token.digest, one_time_token.payload)
        try:
            async with self._database.transaction() as transaction:
                await add_one_time_token(transaction, one_time_token, payload)
        except IntegrityError:
            raise Conflict("this code is in use already; try again") from None

    async def take(self, purpose: TokenPurpose, digest: bytes, now: datetime) -> Mapping[str, Any] | None:
        returning_delete = (
            delete(one_time_tokens)
            .where(
                one_time_tokens.c.digest == digest,
                one_time_tokens.c.purpose == purpose,
                one_time_tokens.c.expires_at > now,
            )
            .returning(one_time_tokens.c.payload)
        )
        async with self._database.transaction() as transaction:
            payload = (await transaction.execute(returning_delete)).scalar_one_or_none()
        return await self._open(digest, payload)

    async def peek(self, purpose: TokenPurpose, digest: bytes, now: datetime) -> Mapping[str, Any] | None:
        query = select(one_time_tokens.c.payload).where(
            one_time_tokens.c.digest == digest, one_time_tokens.c.purpose == purpose, one_time_tokens.c.expires_at > now
        )
        async with self._database.statement() as connection:
            payload = (await connection.execute(query)).scalar_one_or_none()
        return await self._open(digest, payload)

    async def change(
        self, purpose: TokenPurpose, digest: bytes, payload: Mapping[str, Any], user_id: UUID | None = None
    ) -> bool:
        values = {"payload": await seal_row(self._encryption, digest, payload), "user_id": user_id}
        changed = (
            update(one_time_tokens)
            .where(one_time_tokens.c.digest == digest, one_time_tokens.c.purpose == purpose)
            .values(values)
        )
        async with self._database.statement() as connection:
            return (await connection.execute(changed)).rowcount == 1

    async def forget(self, purpose: TokenPurpose, user_id: UUID) -> None:
        async with self._database.statement() as connection:
            await connection.execute(
                delete(one_time_tokens).where(
                    one_time_tokens.c.purpose == purpose, one_time_tokens.c.user_id == user_id
                )
            )

    async def prune(self, now: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(one_time_tokens).where(one_time_tokens.c.expires_at <= now))

    async def _open(self, digest: bytes, sealed: bytes | None) -> Mapping[str, Any] | None:
        if sealed is None:
            return None
        clear = await self._encryption.open(sealed, row=_row(digest), org_id=None)
        payload: dict[str, Any] = json.loads(clear)
        return payload


async def seal_row(encryption: Encryption, digest: bytes, payload: Mapping[str, Any]) -> bytes:
    """Seal the payload. Uses a data key, so not inside a transaction."""
    return await encryption.seal(json.dumps(dict(payload)).encode(), row=_row(digest), org_id=None)


async def add_one_time_token(transaction: Executor, one_time_token: NewOneTimeToken, payload: bytes) -> None:
    """Add a token; `payload` is what `seal_row` returned. Raises TooMany, IntegrityError."""
    await _make_room(transaction, one_time_token.purpose, one_time_token.source, one_time_token.at)
    await transaction.execute(
        insert(one_time_tokens).values(
            digest=one_time_token.digest,
            purpose=one_time_token.purpose,
            payload=payload,
            user_id=one_time_token.user_id,
            source=one_time_token.source,
            created_at=one_time_token.at,
            expires_at=one_time_token.expires_at,
        )
    )


async def _make_room(transaction: Executor, purpose: TokenPurpose, source: str | None, at: datetime) -> None:
    """Delete the oldest token of the source that has most, so that no other client's login stops. Raises TooMany."""
    live = (one_time_tokens.c.purpose == purpose, one_time_tokens.c.expires_at > at)
    if source is not None:
        query = select(func.count()).where(*live, one_time_tokens.c.source == source)
        if (await transaction.execute(query)).scalar_one() >= MOST_OF_SOURCE:
            await _drop_oldest(transaction, purpose, source)
    if (await transaction.execute(select(func.count()).where(*live))).scalar_one() < MOST:
        return
    most = (
        select(one_time_tokens.c.source)
        .where(*live, one_time_tokens.c.source.is_not(None))
        .group_by(one_time_tokens.c.source)
        .order_by(func.count().desc(), func.min(one_time_tokens.c.created_at))
        .limit(1)
    )
    greediest = (await transaction.execute(most)).scalar_one_or_none()
    if greediest is None:
        raise TooMany("too many logins are in progress; try again in a few minutes")
    await _drop_oldest(transaction, purpose, greediest)


async def _drop_oldest(transaction: Executor, purpose: TokenPurpose, source: str) -> None:
    oldest = (
        select(one_time_tokens.c.digest)
        .where(one_time_tokens.c.purpose == purpose, one_time_tokens.c.source == source)
        .order_by(one_time_tokens.c.created_at, one_time_tokens.c.digest)
        .limit(1)
    )
    await transaction.execute(delete(one_time_tokens).where(one_time_tokens.c.digest.in_(oldest)))


def _row(digest: bytes) -> str:
    return f"vouchers/{digest.hex()}"
