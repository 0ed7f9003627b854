"""Groups, and their members by source.

A rename and a removal lock the group, then the rules and the connections that name it, then its members.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, delete, func, insert, select, update

from postern.domain.identity.principal import GroupSource, Principal, PrincipalKind, UserGroup
from postern.domain.lists import Listed, Page
from postern.errors import Invalid, NotFound
from postern.store.database import Database
from postern.store.prepared import Row
from postern.store.schema.identity_tables import groups, user_groups, users
from postern.store.sql.identity.admins import keeping_an_admin
from postern.store.sql.identity.sql_principals import ACCOUNT, count_changes
from postern.store.sql.resource_table import ResourceTable
from postern.store.sql.reviews.sql_review_rules import SqlReviewRules
from postern.store.sql.rows import principal_of
from postern.store.sql.rules.sql_access_rules import SqlAccessRules
from postern.store.sql.rules.sql_network_rules import SqlNetworkRules
from postern.store.sql.runbooks.sql_runbook_rules import SqlRunbookRules
from postern.store.sql.targets.connection_groups import remove_from_connections, rename_in_connections
from postern.store.threaded import Executor


class SqlGroups(ResourceTable[UserGroup]):
    table, noun = groups, "group"

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        kinds = (SqlAccessRules, SqlNetworkRules, SqlReviewRules, SqlRunbookRules)
        self._rules = tuple(kind(database) for kind in kinds)

    def select_rows(self) -> Select[Any]:
        members = select(func.count(user_groups.c.user_id.distinct())).join(users, users.c.id == user_groups.c.user_id)
        query = members.where(user_groups.c.name == groups.c.name, users.c.org_id == groups.c.org_id)
        return select(*groups.c, query.correlate(groups).scalar_subquery().label("members"))

    async def read(self, row: Row) -> UserGroup:
        return UserGroup(**row)

    async def values(self, resource: UserGroup) -> dict[str, Any]:
        return {name: getattr(resource, name) for name in ("name", "external_id", "updated_at")}

    async def find_provisioned(
        self, org_id: UUID, page: Page, *, name: str | None = None, external_id: str | None = None
    ) -> Listed[UserGroup]:
        criteria = {groups.c.org_id: org_id, groups.c.name: name, groups.c.external_id: external_id}
        return await self.some(page, *(column == value for column, value in criteria.items() if value is not None))

    async def before_write(self, transaction: Executor, resource: UserGroup, *, is_new: bool) -> None:
        """Rename the group wherever it is named; its members stay."""
        mine = select(groups.c.name).where(*self._this(resource)).with_for_update()
        former = None if is_new else (await transaction.execute(mine)).scalar_one_or_none()
        if former is None or former == resource.name:
            return
        group = replace(resource, name=former)
        for rules in self._rules:
            await rules.rename_group(transaction, group, resource.name)
        await rename_in_connections(transaction, group, resource.name)
        await count_changes(transaction, users.c.id.in_(_member_ids(group)))
        await transaction.execute(update(user_groups).where(*_of(group)).values(name=resource.name))

    async def before_removal(self, transaction: Executor, resource: UserGroup) -> None:
        await transaction.execute(select(groups.c.id).where(*self._this(resource)).with_for_update())
        for rules in self._rules:
            await rules.remove_group(transaction, resource)
        await remove_from_connections(transaction, resource)
        await count_changes(transaction, users.c.id.in_(_member_ids(resource)))
        await transaction.execute(delete(user_groups).where(*_of(resource)))

    async def members(self, group: UserGroup, source: GroupSource | None = None) -> list[Principal]:
        ids = _member_ids(group)
        if source is not None:
            ids = ids.where(user_groups.c.source == source)
        query = ACCOUNT.where(users.c.id.in_(ids)).order_by(users.c.email, users.c.id)
        async with self._database.statement() as connection:
            return [principal_of(row) for row in (await connection.execute(query)).mappings()]

    async def change_members(
        self, group: UserGroup, added: frozenset[UUID], removed: frozenset[UUID], source: GroupSource
    ) -> None:
        mine = (*_of(group), user_groups.c.source == source)
        query = select(groups.c.id).where(*self._this(group), groups.c.name == group.name).with_for_update(read=True)
        async with self._database.transaction() as transaction, keeping_an_admin(transaction, group.org_id):
            if (await transaction.execute(query)).first() is None:
                raise NotFound(f"the group {group.name!r} was deleted or renamed")
            await _check_users(transaction, group.org_id, added)
            there = set((await transaction.execute(select(user_groups.c.user_id).where(*mine))).scalars())
            new, gone = added - (there - removed), removed & there
            await count_changes(transaction, users.c.id.in_(new | gone))
            await transaction.execute(delete(user_groups).where(*mine, user_groups.c.user_id.in_(gone)))
            if new:
                rows = [{"user_id": key, "name": group.name, "source": source} for key in sorted(new)]
                await transaction.execute(insert(user_groups), rows)


async def _check_users(transaction: Executor, org_id: UUID, ids: frozenset[UUID]) -> None:
    query = select(users.c.id).where(users.c.org_id == org_id, users.c.kind == PrincipalKind.USER, users.c.id.in_(ids))
    unknown = ids - set((await transaction.execute(query)).scalars())
    if unknown:
        raise Invalid(f"members: there is no user {str(sorted(unknown)[0])!r}", field="members")


def _member_ids(group: UserGroup) -> Select[tuple[UUID]]:
    return select(user_groups.c.user_id).where(*_of(group))


def _of(group: UserGroup) -> list[ColumnElement[bool]]:
    """Return the condition for its memberships; a different organisation may have a group of the same name."""
    query = select(users.c.id).where(users.c.org_id == group.org_id)
    return [user_groups.c.name == group.name, user_groups.c.user_id.in_(query)]
