"""Users and service accounts as named resources. Other queries of principals are in sql_principals.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, case, or_, select

from postern.domain.identity.names import fold_name
from postern.domain.identity.principal import Account, GroupSource, PrincipalFilter, PrincipalKind
from postern.domain.lists import Listed, Page
from postern.domain.rules.rule_filter import ALL_RULES, RuleFilter
from postern.errors import Invalid
from postern.store.database import Database
from postern.store.prepared import Row
from postern.store.schema.identity_tables import user_groups, users
from postern.store.sql.identity.sql_principals import ACCOUNT, SqlPrincipals, add_account, change_account
from postern.store.sql.resource_table import ResourceTable
from postern.store.sql.rows import account_of, as_uuid
from postern.store.threaded import Executor

_GIVERS = {GroupSource.PROVIDER: "the identity provider", GroupSource.SCIM: "SCIM"}


class SqlAccounts(ResourceTable[Account]):
    """The accounts of one kind. An account is written with its groups: those from no other source are manual."""

    table = users
    kind: PrincipalKind

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._principals = SqlPrincipals(database)

    def select_rows(self) -> Select[Any]:
        return ACCOUNT.where(users.c.kind == self.kind)

    async def read(self, row: Row) -> Account:
        return account_of(row)

    def matches_name(self, name: str) -> ColumnElement[bool]:
        return users.c.subject == name

    async def find(self, org_id: UUID, page: Page, where: RuleFilter = ALL_RULES) -> Listed[Account]:
        return await self._principals.find(
            org_id, PrincipalFilter(self.kind, email=where.name, search=where.search), page
        )

    async def get(self, org_id: UUID, name_or_id: str) -> Account | None:
        """Return the account: a subject takes precedence over an e-mail address or an identifier of the same
        spelling."""
        condition = or_(self.matches_name(name_or_id), users.c.id == as_uuid(name_or_id))
        first = case((users.c.subject == name_or_id, 0), else_=1)
        query = self.select_rows().where(users.c.org_id == org_id, condition).order_by(first).limit(1)
        async with self._database.statement() as statement:
            row = (await statement.execute(query)).mappings().one_or_none()
        return None if row is None else account_of(row)

    async def add(self, resource: Account) -> None:
        async with self._writing(resource, is_new=True) as transaction:
            await add_account(transaction, resource, _changed_at(resource), GroupSource.MANUAL)

    async def update(self, resource: Account) -> Account:
        async with self._writing(resource) as transaction:
            groups = await _manual_groups(transaction, resource)
            await change_account(transaction, resource, _changed_at(resource), groups, GroupSource.MANUAL)
        return replace(resource, version=resource.version + 1)

    async def remove(self, resource: Account) -> None:
        await self._principals.remove(resource.id, resource.version)

    def conflict_message(self, resource: Account) -> str:
        return f"{self.field}: a principal {resource.name!r} exists already; choose another name"


class SqlServiceAccounts(SqlAccounts):
    noun, kind, field = "service account", PrincipalKind.SERVICE_ACCOUNT, "subject"


class SqlUsers(SqlAccounts):
    noun, kind, field = "user", PrincipalKind.USER, "email"

    def matches_name(self, name: str) -> ColumnElement[bool]:
        return or_(users.c.subject == name, users.c.email == fold_name(name))


async def _manual_groups(transaction: Executor, account: Account) -> frozenset[str]:
    """Return the groups to give manually. Raises Invalid for a group from another source that the account should not
    have."""
    groups_by_source: dict[str, set[str]] = {source: set() for source in GroupSource}
    memberships = select(user_groups.c.name, user_groups.c.source).where(user_groups.c.user_id == account.id)
    for row in await transaction.execute(memberships):
        groups_by_source[row.source].add(row.name)
    groups = account.principal.groups
    for source, giver in _GIVERS.items():
        if groups_by_source[source] - groups:
            name = min(groups_by_source[source] - groups)
            raise Invalid(f"groups: {name!r} is given by {giver}; remove it there", field="groups")
    return groups - (
        (groups_by_source[GroupSource.PROVIDER] | groups_by_source[GroupSource.SCIM])
        - groups_by_source[GroupSource.MANUAL]
    )


def _changed_at(account: Account) -> datetime:
    return account.updated_at or datetime.now(UTC)
