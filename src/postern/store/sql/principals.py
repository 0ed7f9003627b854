"""Users and their groups."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.principal import Principal
from postern.errors import Conflict, NotFound
from postern.store.database import Database
from postern.store.ports import Account
from postern.store.schema import orgs, user_groups, users
from postern.store.sql.rows import groups_column, principal_of
from postern.store.threaded import Executor

_ALL = select(*users.c, groups_column())


class SqlPrincipals:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def default_org(self) -> UUID:
        async with self._database.statement() as connection:
            key: UUID = (await connection.execute(select(orgs.c.id).where(orgs.c.name == "default"))).scalar_one()
            return key

    async def get(self, user_id: UUID) -> Account | None:
        return await self._one(users.c.id == user_id)

    async def by_email(self, org_id: UUID, email: str) -> Account | None:
        return await self._one(users.c.org_id == org_id, users.c.email == email.lower())

    async def by_subject_or_email(self, org_id: UUID, key: str) -> Account | None:
        return await self._one(users.c.org_id == org_id, or_(users.c.subject == key, users.c.email == key.lower()))

    async def _one(self, *conditions: ColumnElement[bool]) -> Account | None:
        async with self._database.statement() as connection:
            row = (await connection.execute(_ALL.where(*conditions).limit(1))).mappings().one_or_none()
        return None if row is None else Account(principal_of(row), row["password_hash"], row["token_generation"])

    async def all(self, org_id: UUID) -> list[Principal]:
        async with self._database.statement() as connection:
            found = await connection.execute(_ALL.where(users.c.org_id == org_id).order_by(users.c.email))
            return [principal_of(row) for row in found.mappings()]

    async def count(self, org_id: UUID) -> int:
        async with self._database.statement() as connection:
            wanted = select(func.count()).select_from(users).where(users.c.org_id == org_id)
            return int((await connection.execute(wanted)).scalar_one())

    async def add(self, principal: Principal, password_hash: str | None, at: datetime) -> None:
        taken = ("id", "org_id", "subject", "name", "kind", "status")
        values = {name: getattr(principal, name) for name in taken} | {
            "email": principal.email.lower(),
            "password_hash": password_hash,
            "token_generation": 1,
            "created_at": at,
            "updated_at": at,
        }
        try:
            async with self._database.transaction() as transaction:
                await transaction.execute(insert(users).values(values))
                await _set_groups(transaction, principal)
        except IntegrityError:
            raise Conflict(f"email: a user {principal.email!r} exists already", field="email") from None

    async def update(self, principal: Principal, at: datetime) -> None:
        async with self._database.transaction() as transaction:
            result = await transaction.execute(
                update(users)
                .where(users.c.id == principal.id)
                .values(name=principal.name, status=principal.status, updated_at=at)
            )
            if result.rowcount != 1:
                raise NotFound(f"there is no user {principal.email!r} any more")
            await _set_groups(transaction, principal)

    async def set_password(self, user_id: UUID, password_hash: str, at: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(
                update(users)
                .where(users.c.id == user_id)
                .values(password_hash=password_hash, token_generation=users.c.token_generation + 1, updated_at=at)
            )


async def _set_groups(transaction: Executor, principal: Principal) -> None:
    await transaction.execute(delete(user_groups).where(user_groups.c.user_id == principal.id))
    rows = [{"user_id": principal.id, "name": name} for name in principal.groups]
    if rows:
        await transaction.execute(insert(user_groups), rows)
