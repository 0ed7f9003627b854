"""Second factors, sealed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, delete, insert, select, update

from postern.domain.identity.second_factor import FactorKind, SecondFactor
from postern.errors import NotFound
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.schema.identity_tables import second_factors, users

_PLAIN = [column.name for column in second_factors.c if column.name != "material"]


class SqlSecondFactors:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def of(self, user_id: UUID) -> Sequence[SecondFactor]:
        query = (
            select(*second_factors.c, users.c.org_id)
            .join(users, users.c.id == second_factors.c.user_id)
            .where(second_factors.c.user_id == user_id)
        )
        async with self._database.statement() as connection:
            rows = await connection.execute(query.order_by(second_factors.c.created_at, second_factors.c.id))
            return [await self._factor_of(row) for row in rows.mappings()]

    async def add(self, factor: SecondFactor) -> None:
        values: dict[str, Any] = {name: getattr(factor, name) for name in _PLAIN}
        async with self._database.statement() as connection:
            org_id = (await connection.execute(select(users.c.org_id).where(users.c.id == factor.user_id))).scalar()
        if org_id is None:
            raise NotFound("this user was deleted")
        row = f"second_factors/{factor.id}"
        values["material"] = await self._encryption.seal(factor.material, row=row, org_id=org_id)
        async with self._database.statement() as connection:
            await connection.execute(insert(second_factors).values(values))

    async def confirm(self, factor_id: UUID, at: datetime) -> None:
        changed = update(second_factors).where(second_factors.c.id == factor_id).values(confirmed_at=at)
        async with self._database.statement() as connection:
            await connection.execute(changed)

    async def use(self, factor_id: UUID, counter: int, at: datetime) -> bool:
        changed = (
            update(second_factors)
            .where(second_factors.c.id == factor_id, second_factors.c.counter < counter)
            .values(counter=counter, last_used_at=at)
        )
        async with self._database.statement() as connection:
            return (await connection.execute(changed)).rowcount == 1

    async def touch(self, factor_id: UUID, at: datetime) -> None:
        changed = update(second_factors).where(second_factors.c.id == factor_id).values(last_used_at=at)
        async with self._database.statement() as connection:
            await connection.execute(changed)

    async def remove(self, factor_id: UUID) -> bool:
        async with self._database.statement() as connection:
            gone = await connection.execute(delete(second_factors).where(second_factors.c.id == factor_id))
            return gone.rowcount == 1

    async def clear(self, user_id: UUID, kind: FactorKind | None = None) -> int:
        statement = delete(second_factors).where(second_factors.c.user_id == user_id)
        if kind is not None:
            statement = statement.where(second_factors.c.kind == kind)
        async with self._database.statement() as connection:
            return (await connection.execute(statement)).rowcount

    async def _factor_of(self, row: RowMapping) -> SecondFactor:
        values: dict[str, Any] = {name: row[name] for name in _PLAIN}
        name = f"second_factors/{row['id']}"
        material = await self._encryption.open(row["material"], row=name, org_id=row["org_id"])
        return SecondFactor(**values | {"kind": FactorKind(row["kind"]), "material": material})
