"""API keys: hashes only."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Select, bindparam, select, update

from postern.domain.identity.api_key import ApiKey, digest_of
from postern.domain.identity.principal import GroupSource
from postern.store.prepared import PreparedStatement, Row
from postern.store.schema.identity_tables import api_keys, orgs, users
from postern.store.sql.identity.sql_principals import add_account, change_account
from postern.store.sql.resource_table import ResourceTable
from postern.store.sql.rows import account_of, groups_column, prefix_columns, role_groups_columns
from postern.store.threaded import Executor

_FIELDS = [column.name for column in api_keys.c if column.name not in ("principal_id", "digest")]
_WRITTEN = [name for name in _FIELDS if name not in ("id", "org_id", "created_at", "last_used_at", "version")]
_KEY = (
    select(
        *prefix_columns(api_keys, "key_"),
        *prefix_columns(users, "user_"),
        groups_column("user_"),
        *role_groups_columns("user_"),
    )
    .select_from(api_keys)
    .join(users, users.c.id == api_keys.c.principal_id)
    .join(orgs, orgs.c.id == users.c.org_id)
)
# Every request that carries a key runs it.
_BY_DIGEST = PreparedStatement(_KEY.where(api_keys.c.digest == bindparam("digest")))


class SqlApiKeys(ResourceTable[ApiKey]):
    table, noun = api_keys, "API key"

    def select_rows(self) -> Select[Any]:
        return _KEY

    async def by_digest(self, digest: bytes) -> ApiKey | None:
        async with self._database.statement() as connection:
            rows = await connection.run_sync(lambda connection: _BY_DIGEST.rows(connection, {"digest": digest}))
        return _key_of(rows[0]) if rows else None

    async def touch(self, key_id: UUID, at: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(update(api_keys).where(api_keys.c.id == key_id).values(last_used_at=at))

    async def read(self, row: Row) -> ApiKey:
        return _key_of(row)

    async def values(self, resource: ApiKey) -> dict[str, Any]:
        values = {name: getattr(resource, name) for name in _WRITTEN}
        values |= {"principal_id": resource.account.id, "allowed_networks": list(resource.allowed_networks)}
        return values | {"digest": digest_of(resource.secret)} if resource.secret else values

    async def before_write(self, transaction: Executor, resource: ApiKey, *, is_new: bool) -> None:
        """Write the principal of a key that acts for itself, which changes with it."""
        if not resource.acts_for_itself:
            return
        account, at = resource.account, resource.updated_at or resource.created_at
        if is_new:
            await add_account(transaction, account, at, GroupSource.MANUAL)
        else:
            await change_account(transaction, account, at, account.principal.groups, GroupSource.MANUAL)

    def conflict_message(self, resource: ApiKey) -> str:
        return f"name: an API key or another principal {resource.name!r} exists already; choose another name"


def _key_of(row: Row) -> ApiKey:
    values: dict[str, Any] = {name: row["key_" + name] for name in _FIELDS}
    values["allowed_networks"] = tuple(values["allowed_networks"])
    return ApiKey(**values, account=account_of(row, "user_"))
