"""Machine identities: their principals, and their other fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Label, Select, Table, func, or_, select

from postern.domain.identity.machine import MachineIdentity
from postern.domain.identity.principal import Account, PrincipalKind
from postern.domain.lists import Listed, Page
from postern.domain.rules.rule_filter import ALL_RULES, RuleFilter
from postern.store.prepared import Row
from postern.store.schema.identity_tables import machines, users
from postern.store.schema.target_tables import connections, credentials
from postern.store.sql.identity.sql_principals import ACCOUNT, account_values
from postern.store.sql.resource_table import ResourceTable, replace_rows
from postern.store.sql.rows import account_of
from postern.store.threaded import Executor


class _Particulars:
    """The fields of machine identities beside those of all principals."""

    def columns(self, table: Table) -> Sequence[Label[Any]]:
        return [machines.c[name].label(name) for name in ("description", "attributes")]

    async def hold(self, transaction: Executor, resource: MachineIdentity) -> None:
        """Lock nothing: they refer to nothing else."""

    async def replace(self, transaction: Executor, resource: MachineIdentity) -> None:
        row = {"description": resource.description, "attributes": dict(resource.attributes)}
        await replace_rows(transaction, machines.c.user_id, resource.id, [row])


class SqlMachines(ResourceTable[MachineIdentity]):
    table, noun = users, "machine identity"
    links = (_Particulars(),)

    def select_rows(self) -> Select[Any]:
        labels = [column for link in self.links for column in link.columns(users)]
        return ACCOUNT.add_columns(*labels).join(machines, machines.c.user_id == users.c.id)

    async def read(self, row: Row) -> MachineIdentity:
        account = account_of(row)
        names = ("principal", "created_at", "updated_at", "version", "managed_by")
        same = {name: getattr(account, name) for name in names}
        return MachineIdentity(**same, description=row["description"], attributes=row["attributes"])

    async def values(self, resource: MachineIdentity) -> dict[str, Any]:
        return {"updated_at": resource.updated_at}

    async def new_row(self, resource: MachineIdentity) -> dict[str, Any]:
        return account_values(Account(resource.principal)) | await super().new_row(resource)

    async def find(self, org_id: UUID, page: Page, where: RuleFilter = ALL_RULES) -> Listed[MachineIdentity]:
        conditions = (users.c.org_id == org_id, users.c.kind == PrincipalKind.MACHINE)
        return await self.some(page, *conditions, *self._conditions(where))

    def contains(self, text: str) -> ColumnElement[bool]:
        described = func.lower(machines.c.description).contains(text, autoescape=True)
        return or_(super().contains(text), users.c.id.in_(select(machines.c.user_id).where(described)))

    async def connections_of(self, ids: Sequence[UUID], now: datetime) -> Mapping[UUID, tuple[str, ...]]:
        lives = or_(credentials.c.expires_at.is_(None), credentials.c.expires_at > now)
        query = (
            select(credentials.c.user_id, connections.c.name)
            .join(connections, connections.c.id == credentials.c.connection_id)
            .where(credentials.c.user_id.in_(ids), credentials.c.revoked_at.is_(None), lives)
            .distinct()
        )
        async with self._database.statement() as statement:
            rows = (await statement.execute(query)).all()
        return {key: tuple(sorted(row.name for row in rows if row.user_id == key)) for key in ids}

    def conflict_message(self, resource: MachineIdentity) -> str:
        return f"name: a principal {resource.name!r} exists already; choose another name"
