"""The data keys, wrapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, insert, select, update

from postern.store.database import Database
from postern.store.ports.keys import DataKey
from postern.store.schema.server_tables import data_keys
from postern.store.sql.locking import one_at_a_time
from postern.store.sql.rows import count_of

_FIELDS = [spec.name for spec in fields(DataKey)]


class SqlDataKeys:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[DataKey]:
        query = select(*data_keys.c).order_by(data_keys.c.created_at, data_keys.c.id)
        async with self._database.statement() as connection:
            return [DataKey(**row) for row in (await connection.execute(query)).mappings()]

    async def add_first(self, key: DataKey) -> bool:
        async with self._database.transaction() as transaction:
            await one_at_a_time(transaction)
            if (await transaction.execute(count_of(data_keys, *_in_use(key.org_id)))).scalar_one():
                return False
            await transaction.execute(insert(data_keys).values(_values(key)))
        return True

    async def renew(self, key: DataKey) -> None:
        retired = update(data_keys).where(*_in_use(key.org_id)).values(retired_at=key.created_at)
        async with self._database.transaction() as transaction:
            await one_at_a_time(transaction)
            await transaction.execute(retired)
            await transaction.execute(insert(data_keys).values(_values(key)))

    async def rewrap(self, keys: Sequence[DataKey], known_masters: Mapping[UUID, str]) -> int:
        changed = 0
        async with self._database.transaction() as transaction:
            for key in keys:
                still = data_keys.c.id == key.id, data_keys.c.master == known_masters[key.id]
                values = {"wrapped": key.wrapped, "master": key.master}
                changed += (await transaction.execute(update(data_keys).where(*still).values(values))).rowcount
        return changed


def _in_use(org_id: UUID | None) -> list[ColumnElement[bool]]:
    owner = data_keys.c.org_id.is_(None) if org_id is None else data_keys.c.org_id == org_id
    return [owner, data_keys.c.retired_at.is_(None)]


def _values(key: DataKey) -> dict[str, Any]:
    return {name: getattr(key, name) for name in _FIELDS}
