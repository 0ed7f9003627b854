"""Machine identities: their principals, and what is told of them besides."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, RowMapping, and_, insert, or_, select, update

from postern.domain.identity.machine import MachineIdentity
from postern.domain.identity.principal import Account, GroupSource, PrincipalKind
from postern.domain.lists import Listed, Page
from postern.store.database import Database
from postern.store.schema.people import machines, users
from postern.store.schema.target_tables import connections, credentials
from postern.store.sql.identity.sql_principals import ACCOUNT, add_account, taken_as_conflict
from postern.store.sql.rows import account_of, count_of

_OWN = (machines.c.description, machines.c.attributes, machines.c.updated_at.label("changed_at"))
_MACHINE = ACCOUNT.add_columns(*_OWN).join(machines, machines.c.user_id == users.c.id)


class SqlMachines:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, machine: MachineIdentity) -> None:
        account = Account(machine.principal)
        with taken_as_conflict("name", machine.principal.name):
            async with self._database.transaction() as transaction:
                await add_account(transaction, account, machine.created_at, GroupSource.MANUAL)
                await transaction.execute(
                    insert(machines).values(
                        user_id=machine.principal.id,
                        description=machine.description,
                        attributes=dict(machine.attributes),
                        updated_at=machine.updated_at,
                    )
                )

    async def get(self, org_id: UUID, name_or_id: str, now: datetime) -> MachineIdentity | None:
        named = or_(users.c.name == name_or_id, users.c.subject == name_or_id)
        found = await self._find([users.c.org_id == org_id, named], Page(limit=1), now)
        return found[0] if found else None

    async def find(self, org_id: UUID, page: Page, now: datetime) -> Listed[MachineIdentity]:
        conditions = [users.c.org_id == org_id, users.c.kind == PrincipalKind.MACHINE]
        found = await self._find(conditions, page, now)
        async with self._database.statement() as connection:
            total = (await connection.execute(count_of(users, *conditions))).scalar_one()
        return Listed(found, total)

    async def update(self, machine: MachineIdentity) -> None:
        key = machine.principal.id
        values = {"description": machine.description, "attributes": dict(machine.attributes)}
        async with self._database.transaction() as transaction:
            await transaction.execute(
                update(machines).where(machines.c.user_id == key).values(**values, updated_at=machine.updated_at)
            )

    async def _find(self, conditions: list[ColumnElement[bool]], page: Page, now: datetime) -> list[MachineIdentity]:
        wanted = _MACHINE.where(*conditions).order_by(users.c.name, users.c.id).limit(page.limit).offset(page.offset)
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted)).mappings().all()
            if not rows:
                return []
            live = (
                select(credentials.c.user_id, connections.c.name)
                .join(connections, connections.c.id == credentials.c.connection_id)
                .where(credentials.c.user_id.in_([row["id"] for row in rows]), _is_live(now))
                .distinct()
            )
            held = (await connection.execute(live)).all()
        return [_machine_of(row, sorted(one.name for one in held if one.user_id == row["id"])) for row in rows]


def _is_live(now: datetime) -> ColumnElement[bool]:
    expiry = or_(credentials.c.expires_at.is_(None), credentials.c.expires_at > now)
    return and_(credentials.c.revoked_at.is_(None), expiry)


def _machine_of(row: RowMapping, held: list[str]) -> MachineIdentity:
    account = account_of(row)
    created_at = account.created_at
    assert created_at is not None
    return MachineIdentity(
        account.principal, row["description"], created_at, row["changed_at"], row["attributes"], tuple(held)
    )
