"""The public keys of users."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import and_, case, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.identity.principal import Account
from postern.domain.identity.ssh_key import PublicKey, SshKey
from postern.domain.lists import Listed, Page
from postern.errors import Conflict
from postern.store.database import Database
from postern.store.prepared import Row
from postern.store.schema.identity_tables import orgs, users
from postern.store.schema.ssh_tables import ssh_keys
from postern.store.sql.rows import account_of, as_uuid, count_of, groups_column, prefix_columns, role_groups_columns

_HELD = (
    select(
        *prefix_columns(ssh_keys, "key_"),
        *prefix_columns(users, "user_"),
        groups_column("user_"),
        *role_groups_columns("user_"),
        orgs.c.name.label("organisation"),
    )
    .select_from(ssh_keys)
    .join(users, users.c.id == ssh_keys.c.user_id)
    .join(orgs, orgs.c.id == ssh_keys.c.org_id)
)


class SqlSshKeys:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, key: SshKey, most: int) -> bool:
        # Concurrent additions for one user wait here for each other. SQLite allows only one transaction anyway.
        locked = select(users.c.id).where(users.c.id == key.user_id).with_for_update(key_share=True)
        try:
            async with self._database.transaction() as transaction:
                await transaction.execute(locked)
                result = await transaction.execute(count_of(ssh_keys, ssh_keys.c.user_id == key.user_id))
                if result.scalar_one() >= most:
                    return False
                await transaction.execute(insert(ssh_keys).values(_values(key)))
        except IntegrityError:
            raise Conflict(
                f"name: an SSH key {key.name!r} exists already, or a user already has this key; choose another name or "
                "another key",
                field="name",
            ) from None
        return True

    async def get(self, org_id: UUID, user_id: UUID, called: str) -> SshKey | None:
        their_condition = ssh_keys.c.user_id == user_id
        named = and_(their_condition, ssh_keys.c.name == called)
        condition = or_(
            named, and_(their_condition, ssh_keys.c.fingerprint == called), ssh_keys.c.id == as_uuid(called)
        )
        query = (
            select(ssh_keys).where(ssh_keys.c.org_id == org_id, condition).order_by(case((named, 0), else_=1)).limit(1)
        )
        async with self._database.statement() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
        return None if row is None else _key_of(row)

    async def find(self, org_id: UUID, user_id: UUID, page: Page, name: str | None = None) -> Listed[SshKey]:
        conditions = [ssh_keys.c.org_id == org_id, ssh_keys.c.user_id == user_id]
        if name is not None:
            conditions.append(ssh_keys.c.name == name)
        query = select(ssh_keys).where(*conditions).order_by(ssh_keys.c.name).limit(page.limit).offset(page.offset)
        async with self._database.statement() as connection:
            rows = (await connection.execute(query)).mappings().all()
            total = (await connection.execute(count_of(ssh_keys, *conditions))).scalar_one()
        return Listed([_key_of(row) for row in rows], total)

    async def by_fingerprint(self, fingerprint: str) -> list[tuple[SshKey, Account, str]]:
        query = _HELD.where(ssh_keys.c.fingerprint == fingerprint).order_by(orgs.c.name)
        async with self._database.statement() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return [(_key_of(row, "key_"), account_of(row, "user_"), row["organisation"]) for row in rows]

    async def holder(self, key_id: UUID) -> tuple[SshKey, Account] | None:
        async with self._database.statement() as connection:
            result = await connection.execute(_HELD.where(ssh_keys.c.id == key_id))
            row = result.mappings().one_or_none()
        return None if row is None else (_key_of(row, "key_"), account_of(row, "user_"))

    async def touch(self, key_id: UUID, at: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(update(ssh_keys).where(ssh_keys.c.id == key_id).values(last_used_at=at))

    async def remove(self, key_id: UUID) -> bool:
        async with self._database.statement() as connection:
            return (await connection.execute(delete(ssh_keys).where(ssh_keys.c.id == key_id))).rowcount == 1


def _values(key: SshKey) -> dict[str, object]:
    names = ("id", "org_id", "user_id", "name", "created_at", "last_used_at")
    return {name: getattr(key, name) for name in names} | key_values(key.key)


def _key_of(row: Row, prefix: str = "") -> SshKey:
    return SshKey(
        id=row[f"{prefix}id"],
        org_id=row[f"{prefix}org_id"],
        user_id=row[f"{prefix}user_id"],
        name=row[f"{prefix}name"],
        key=public_key_of(row, prefix),
        created_at=row[f"{prefix}created_at"],
        last_used_at=row[f"{prefix}last_used_at"],
    )


def key_values(key: PublicKey) -> dict[str, object]:
    return {"algorithm": key.algorithm, "public_key": key.text, "fingerprint": key.fingerprint}


def public_key_of(row: Row, prefix: str = "") -> PublicKey:
    return PublicKey(row[f"{prefix}algorithm"], row[f"{prefix}public_key"], row[f"{prefix}fingerprint"])
