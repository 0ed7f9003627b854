"""Logins: user, client and expiry."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, bindparam, delete, insert, or_, select, update

from postern.domain.identity.federation import FederatedLogin
from postern.domain.identity.login import ClientKind, Login, LoginMethod, Provided, TokenPurpose
from postern.domain.identity.principal import Account
from postern.domain.secret import Secret
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.prepared import PreparedStatement, Row
from postern.store.schema.identity_tables import logins, one_time_tokens, orgs, users
from postern.store.schema.target_tables import credentials
from postern.store.sql.rows import account_of, groups_column, prefix_columns, role_groups_columns
from postern.store.threaded import Executor

MOST_LIVE = 100  # logins of one user; the oldest make room
MOST_FEDERATED = 1_000  # of one service account, which many jobs of a CI system use at the same time
_MOST_VALUES = 500  # in one statement
_PLAIN = (
    *("id", "org_id", "user_id", "source", "user_agent", "created_at", "expires_at", "ends_at", "ended_at"),
    *("method", "client", "fresh_until"),
)
# One-time tokens that open a login without asking the user again.
_BECOME_LOGINS = (
    *(TokenPurpose.EXCHANGE, TokenPurpose.DEVICE),
    *(TokenPurpose.SSH_LOGIN, TokenPurpose.SECOND_FACTOR, TokenPurpose.APP_LOGIN),
)
# Every request of the API runs it.
_STANDING = PreparedStatement(
    select(
        *prefix_columns(logins, "login_"),
        *prefix_columns(users, "user_"),
        groups_column("user_"),
        *role_groups_columns("user_"),
    )
    .select_from(logins)
    .join(users, users.c.id == logins.c.user_id)
    .join(orgs, orgs.c.id == users.c.org_id)
    .where(logins.c.id == bindparam("login_id"))
)


class SqlLogins:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def add(self, login: Login) -> None:
        values = {name: getattr(login, name) for name in _PLAIN} | await self._provider_columns(
            login.org_id, login.id, login.provided
        )
        values |= _federation_columns(login.federation)
        most = MOST_LIVE if login.federation is None else MOST_FEDERATED
        others = (
            select(logins.c.id)
            .where(*_live(login.user_id, login.created_at), logins.c.id != login.id)
            .order_by(logins.c.created_at.desc(), logins.c.id)
            .offset(most - 1)
            .limit(most)
        )
        async with self._database.transaction() as transaction:
            await transaction.execute(insert(logins).values(values))
            oldest = list((await transaction.execute(others)).scalars())
            if oldest:
                ended = update(logins).where(logins.c.id.in_(oldest)).values(ended_at=login.created_at)
                await transaction.execute(ended)
                await _revoke_of(transaction, oldest, login.created_at)

    async def standing(self, login_id: UUID) -> tuple[Login, Account] | None:
        async with self._database.statement() as connection:
            rows = await connection.run_sync(lambda connection: _STANDING.rows(connection, {"login_id": login_id}))
        if not rows:
            return None
        return await self._login_of(rows[0], "login_"), account_of(rows[0], "user_")

    async def extend(self, login_id: UUID, expires_at: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(update(logins).where(logins.c.id == login_id).values(expires_at=expires_at))

    async def confirm(self, login_id: UUID, fresh_until: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(update(logins).where(logins.c.id == login_id).values(fresh_until=fresh_until))

    async def store_renewal(self, login_id: UUID, provided: Provided) -> None:
        async with self._database.statement() as connection:
            org_id = (await connection.execute(select(logins.c.org_id).where(logins.c.id == login_id))).scalar()
        if org_id is None:
            return
        values = await self._provider_columns(org_id, login_id, provided)
        async with self._database.statement() as connection:
            await connection.execute(update(logins).where(logins.c.id == login_id).values(values))

    async def end(self, login_id: UUID, at: datetime) -> bool:
        ended = update(logins).where(logins.c.id == login_id, logins.c.ended_at.is_(None)).values(ended_at=at)
        async with self._database.transaction() as transaction:
            if (await transaction.execute(ended)).rowcount != 1:
                return False
            await _revoke_of(transaction, [login_id], at)
        return True

    async def end_all(self, user_id: UUID, at: datetime, *, but: UUID | None = None) -> int:
        ended = update(logins).where(logins.c.user_id == user_id, logins.c.ended_at.is_(None)).values(ended_at=at)
        if but is not None:
            ended = ended.where(logins.c.id != but)
        under_way = delete(one_time_tokens).where(
            one_time_tokens.c.user_id == user_id, one_time_tokens.c.purpose.in_(_BECOME_LOGINS)
        )
        async with self._database.transaction() as transaction:
            await transaction.execute(under_way)
            login_ids = list((await transaction.execute(ended.returning(logins.c.id))).scalars())
            await _revoke_of(transaction, login_ids, at)
        return len(login_ids)

    async def end_of_rule(self, rule_id: UUID, at: datetime) -> list[UUID]:
        live = (logins.c.federation_rule_id == rule_id, logins.c.ended_at.is_(None))
        async with self._database.transaction() as transaction:
            ended = update(logins).where(*live).values(ended_at=at).returning(logins.c.user_id)
            return sorted(set((await transaction.execute(ended)).scalars()))

    async def live(self, user_id: UUID, now: datetime) -> list[Login]:
        query = select(*logins.c).where(*_live(user_id, now))
        async with self._database.statement() as connection:
            rows = await connection.execute(query.order_by(logins.c.created_at.desc(), logins.c.id))
            return [await self._login_of(row) for row in rows.mappings()]

    async def due(self, method: LoginMethod, now: datetime, most: int) -> list[Login]:
        live = (logins.c.ended_at.is_(None), logins.c.expires_at > now, logins.c.ends_at > now)
        overdue = (logins.c.provider_expires_at <= now, logins.c.provider_refresh.is_not(None))
        query = select(*logins.c).where(logins.c.method == method, *live, *overdue)
        async with self._database.statement() as connection:
            rows = await connection.execute(query.order_by(logins.c.provider_expires_at, logins.c.id).limit(most))
            return [await self._login_of(row) for row in rows.mappings()]

    async def prune(self, before: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(logins).where(or_(logins.c.ended_at < before, logins.c.ends_at < before)))

    async def _provider_columns(self, org_id: UUID, login_id: UUID, provided: Provided | None) -> dict[str, Any]:
        if provided is None:
            return {"provider_expires_at": None, "provider_refresh": None}
        sealed = None
        if provided.refresh:
            clear = provided.refresh.reveal().encode()
            sealed = await self._encryption.seal(clear, row=f"logins/{login_id}", org_id=org_id)
        return {"provider_expires_at": provided.expires_at, "provider_refresh": sealed}

    async def _login_of(self, row: Row, prefix: str = "") -> Login:
        plain: dict[str, Any] = {name: row[prefix + name] for name in _PLAIN}
        plain |= {"method": LoginMethod(plain["method"]), "client": ClientKind(plain["client"])}
        plain["federation"] = _federation_of(row, prefix)
        expires_at, sealed = row[f"{prefix}provider_expires_at"], row[f"{prefix}provider_refresh"]
        if expires_at is None:
            return Login(**plain)
        refresh = None
        if sealed:
            clear = await self._encryption.open(sealed, row=f"logins/{plain['id']}", org_id=plain["org_id"])
            refresh = Secret(clear.decode())
        return Login(**plain, provided=Provided(expires_at, refresh))


async def _revoke_of(transaction: Executor, login_ids: Sequence[UUID], at: datetime) -> None:
    """Revoke the credentials that end with these logins."""
    for start in range(0, len(login_ids), _MOST_VALUES):
        some = credentials.c.login_id.in_(login_ids[start : start + _MOST_VALUES])
        revoked = update(credentials).where(some, credentials.c.revoked_at.is_(None)).values(revoked_at=at)
        await transaction.execute(revoked)


def _federation_columns(federation: FederatedLogin | None) -> dict[str, Any]:
    if federation is None:
        return {}
    known = {"rule": federation.rule, "claims": dict(federation.claims), "allow_admin": federation.allow_admin}
    return {"federation_rule_id": federation.rule_id, "federation": known}


def _federation_of(row: Row, prefix: str) -> FederatedLogin | None:
    rule_id = row[f"{prefix}federation_rule_id"]
    return None if rule_id is None else FederatedLogin(rule_id, **row[f"{prefix}federation"])


def _live(user_id: UUID, now: datetime) -> tuple[ColumnElement[bool], ...]:
    """Return the condition of `Login.is_live`."""
    return (logins.c.user_id == user_id, logins.c.ended_at.is_(None), logins.c.expires_at > now, logins.c.ends_at > now)
