"""API keys: hashes only."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, RowMapping, bindparam, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.api_key import ApiKey
from postern.domain.lists import Listed, Page
from postern.domain.principal import Account
from postern.errors import Conflict
from postern.store.database import Database
from postern.store.schema import api_keys, orgs, users
from postern.store.sql.rows import account_of, as_uuid, count_of, groups_column, prefixed, role_groups_columns

_FIELDS = [column.name for column in api_keys.c if column.name != "digest"]
_CHANGEABLE = ("name", "allowed_networks", "expires_at", "revoked_at", "revoked_by")
_SHOWN = select(*(api_keys.c[name] for name in _FIELDS))
# Built once: every request that carries a key runs it.
_BY_DIGEST = (
    select(
        *prefixed(api_keys, "key_"), *prefixed(users, "user_"), groups_column("user_"), *role_groups_columns("user_")
    )
    .select_from(api_keys)
    .join(users, users.c.id == api_keys.c.principal_id)
    .join(orgs, orgs.c.id == users.c.org_id)
    .where(api_keys.c.digest == bindparam("digest"))
)


class SqlApiKeys:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, key: ApiKey, digest: bytes) -> None:
        try:
            async with self._database.statement() as connection:
                await connection.execute(insert(api_keys).values(_values(key, _FIELDS) | {"digest": digest}))
        except IntegrityError:
            raise _taken(key) from None

    async def by_digest(self, digest: bytes) -> tuple[ApiKey, Account] | None:
        async with self._database.statement() as connection:
            row = (await connection.execute(_BY_DIGEST, {"digest": digest})).mappings().one_or_none()
        return None if row is None else (_key_of(row, "key_"), account_of(row, "user_"))

    async def get(self, org_id: UUID, name_or_id: str) -> ApiKey | None:
        key = as_uuid(name_or_id)
        named: list[ColumnElement[bool]] = [api_keys.c.name == name_or_id]
        wanted = _SHOWN.where(api_keys.c.org_id == org_id, or_(*named, *([api_keys.c.id == key] if key else [])))
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted)).mappings().all()
        found = [_key_of(row) for row in rows]
        return next((one for one in found if one.name == name_or_id), found[0] if found else None)

    async def find(self, org_id: UUID, page: Page, *, principal_id: UUID | None = None) -> Listed[ApiKey]:
        conditions = [api_keys.c.org_id == org_id]
        if principal_id is not None:
            conditions.append(api_keys.c.principal_id == principal_id)
        rows = _SHOWN.where(*conditions).order_by(api_keys.c.name).limit(page.limit).offset(page.offset)
        async with self._database.statement() as connection:
            found = (await connection.execute(rows)).mappings().all()
            total = (await connection.execute(count_of(api_keys, *conditions))).scalar_one()
        return Listed([_key_of(row) for row in found], total)

    async def update(self, key: ApiKey) -> None:
        changed = update(api_keys).where(api_keys.c.id == key.id).values(_values(key, _CHANGEABLE))
        try:
            async with self._database.statement() as connection:
                await connection.execute(changed)
        except IntegrityError:
            raise _taken(key) from None

    async def touch(self, key_id: UUID, at: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(update(api_keys).where(api_keys.c.id == key_id).values(last_used_at=at))


def _values(key: ApiKey, names: list[str] | tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(key, name) for name in names} | {"allowed_networks": list(key.allowed_networks)}


def _key_of(row: RowMapping, prefix: str = "") -> ApiKey:
    values: dict[str, Any] = {name: row[prefix + name] for name in _FIELDS}
    return ApiKey(**values | {"allowed_networks": tuple(values["allowed_networks"])})


def _taken(key: ApiKey) -> Conflict:
    return Conflict(f"name: there is an API key {key.name!r} already", field="name")
