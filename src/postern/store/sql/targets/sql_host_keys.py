"""Host keys of SSH targets, one for each target of a connection."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Select, delete, insert, select

from postern.domain.targets.host_key import HostKey
from postern.errors import Conflict
from postern.store.database import Database
from postern.store.prepared import Row
from postern.store.schema.ssh_tables import host_keys
from postern.store.schema.target_tables import connections
from postern.store.sql.identity.sql_ssh_keys import key_values, public_key_of


class SqlHostKeys:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, connection_id: UUID, place: UUID) -> HostKey | None:
        async with self._database.statement() as connection:
            row = (await connection.execute(_at(connection_id, place))).mappings().one_or_none()
        return None if row is None else _key_of(row)

    async def pin(self, key: HostKey) -> HostKey:
        # Locked, so that sessions that pin a key wait for each other, and for a change of the connection.
        leads = select(connections.c.place).where(connections.c.id == key.connection_id).with_for_update()
        async with self._database.transaction() as transaction:
            if (await transaction.execute(leads)).scalar_one_or_none() != key.place:
                raise Conflict("the connection's target was just changed, or the connection was deleted; connect again")
            result = await transaction.execute(_at(key.connection_id, key.place))
            first = result.mappings().one_or_none()
            if first is not None:
                return _key_of(first)
            await transaction.execute(delete(host_keys).where(host_keys.c.connection_id == key.connection_id))
            names = ("connection_id", "org_id", "place", "pinned_at", "session_id")
            values = {name: getattr(key, name) for name in names} | key_values(key.key)
            await transaction.execute(insert(host_keys).values(values))
        return key

    async def forget(self, connection_id: UUID) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(host_keys).where(host_keys.c.connection_id == connection_id))


def _at(connection_id: UUID, place: UUID) -> Select[Any]:
    return select(host_keys).where(host_keys.c.connection_id == connection_id, host_keys.c.place == place)


def _key_of(row: Row) -> HostKey:
    names = ("connection_id", "org_id", "place", "pinned_at", "session_id")
    return HostKey(**{name: row[name] for name in names}, key=public_key_of(row))
