"""API keys: hashes only."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, bindparam, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.api_key import ApiKey
from postern.domain.lists import Listed, Page
from postern.domain.principal import Account, GroupSource
from postern.errors import Conflict
from postern.store.database import Database
from postern.store.prepared import Prepared, Row
from postern.store.schema.people import api_keys, orgs, users
from postern.store.sql.principals import add_account, change_account
from postern.store.sql.rows import account_of, as_uuid, count_of, groups_column, prefixed, role_groups_columns

_FIELDS = [column.name for column in api_keys.c if column.name != "digest"]
_CHANGEABLE = ("name", "allowed_networks", "expires_at", "revoked_at", "revoked_by")
_KEY = (
    select(
        *prefixed(api_keys, "key_"), *prefixed(users, "user_"), groups_column("user_"), *role_groups_columns("user_")
    )
    .select_from(api_keys)
    .join(users, users.c.id == api_keys.c.principal_id)
    .join(orgs, orgs.c.id == users.c.org_id)
)
# Every request that carries a key runs it.
_BY_DIGEST = Prepared(_KEY.where(api_keys.c.digest == bindparam("digest")))


class SqlApiKeys:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, key: ApiKey, digest: bytes, own: Account | None = None) -> None:
        try:
            async with self._database.transaction() as transaction:
                if own is not None:
                    await add_account(transaction, own, key.created_at, GroupSource.MANUAL)
                await transaction.execute(insert(api_keys).values(_values(key, _FIELDS) | {"digest": digest}))
        except IntegrityError:
            raise _taken(key) from None

    async def by_digest(self, digest: bytes) -> tuple[ApiKey, Account] | None:
        async with self._database.statement() as connection:
            rows = await connection.run_sync(lambda connection: _BY_DIGEST.rows(connection, {"digest": digest}))
        return _pair_of(rows[0]) if rows else None

    async def get(self, org_id: UUID, name_or_id: str) -> tuple[ApiKey, Account] | None:
        key = as_uuid(name_or_id)
        named: list[ColumnElement[bool]] = [api_keys.c.name == name_or_id]
        wanted = _KEY.where(api_keys.c.org_id == org_id, or_(*named, *([api_keys.c.id == key] if key else [])))
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted)).mappings().all()
        found = [_pair_of(row) for row in rows]
        return next((one for one in found if one[0].name == name_or_id), found[0] if found else None)

    async def find(self, org_id: UUID, page: Page) -> Listed[tuple[ApiKey, Account]]:
        own = api_keys.c.org_id == org_id
        rows = _KEY.where(own).order_by(api_keys.c.name).limit(page.limit).offset(page.offset)
        async with self._database.statement() as connection:
            found = (await connection.execute(rows)).mappings().all()
            total = (await connection.execute(count_of(api_keys, own))).scalar_one()
        return Listed([_pair_of(row) for row in found], total)

    async def update(
        self, key: ApiKey, at: datetime, own: Account | None = None, *, groups: frozenset[str] | None = None
    ) -> None:
        changed = update(api_keys).where(api_keys.c.id == key.id).values(_values(key, _CHANGEABLE))
        try:
            async with self._database.transaction() as transaction:
                if own is not None:
                    await change_account(transaction, own, at, groups, GroupSource.MANUAL)
                await transaction.execute(changed)
        except IntegrityError:
            raise _taken(key) from None

    async def touch(self, key_id: UUID, at: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(update(api_keys).where(api_keys.c.id == key_id).values(last_used_at=at))


def _values(key: ApiKey, names: list[str] | tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(key, name) for name in names} | {"allowed_networks": list(key.allowed_networks)}


def _pair_of(row: Row) -> tuple[ApiKey, Account]:
    values: dict[str, Any] = {name: row["key_" + name] for name in _FIELDS}
    key = ApiKey(**values | {"allowed_networks": tuple(values["allowed_networks"])})
    return key, account_of(row, "user_")


def _taken(key: ApiKey) -> Conflict:
    return Conflict(f"name: an API key or another principal is called {key.name!r} already", field="name")
