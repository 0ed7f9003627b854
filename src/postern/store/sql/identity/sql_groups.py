"""Groups, and who is in them by which source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Row, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.identity.principal import GroupSource, Principal, PrincipalKind, UserGroup
from postern.domain.lists import Listed, Page
from postern.errors import Conflict, Invalid, NotFound
from postern.store.database import Database
from postern.store.schema.people import groups, user_groups, users
from postern.store.sql.identity.admins import keeping_an_admin
from postern.store.sql.identity.sql_principals import ACCOUNT
from postern.store.sql.reviews.sql_review_rules import SqlReviewRules
from postern.store.sql.rows import as_uuid, count_of, principal_of
from postern.store.sql.rules.sql_access_rules import SqlAccessRules
from postern.store.sql.runbooks.sql_runbook_rules import SqlRunbookRules
from postern.store.sql.targets.connection_groups import remove_from_connections, rename_in_connections
from postern.store.threaded import Executor


class SqlGroups:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._rules = (SqlAccessRules(database), SqlReviewRules(database), SqlRunbookRules(database))

    async def find(
        self, org_id: UUID, page: Page, *, name: str | None = None, external_id: str | None = None
    ) -> Listed[UserGroup]:
        conditions = [groups.c.org_id == org_id]
        if name is not None:
            conditions.append(groups.c.name == name)
        if external_id is not None:
            conditions.append(groups.c.external_id == external_id)
        rows = select(*groups.c).where(*conditions).order_by(groups.c.name).limit(page.limit).offset(page.offset)
        async with self._database.statement() as connection:
            found = (await connection.execute(rows)).all()
            total = (await connection.execute(count_of(groups, *conditions))).scalar_one()
        return Listed([_group_of(row) for row in found], total)

    async def sizes(self, org_id: UUID, names: Sequence[str]) -> Mapping[str, int]:
        counted = (
            select(user_groups.c.name, func.count(user_groups.c.user_id.distinct()).label("members"))
            .join(users, users.c.id == user_groups.c.user_id)
            .where(users.c.org_id == org_id, user_groups.c.name.in_(names))
            .group_by(user_groups.c.name)
        )
        async with self._database.statement() as connection:
            return {row.name: row.members for row in (await connection.execute(counted)).all()}

    async def get(self, org_id: UUID, name_or_id: str) -> UserGroup | None:
        key = as_uuid(name_or_id)
        named: list[ColumnElement[bool]] = [groups.c.name == name_or_id]
        wanted = select(*groups.c).where(groups.c.org_id == org_id, or_(*named, *([groups.c.id == key] if key else [])))
        async with self._database.statement() as connection:
            found = [_group_of(row) for row in (await connection.execute(wanted)).all()]
        return next((one for one in found if one.name == name_or_id), found[0] if found else None)

    async def add(self, group: UserGroup) -> None:
        values = {name: getattr(group, name) for name in ("id", "org_id", "name", "created_at", "external_id")}
        try:
            async with self._database.statement() as connection:
                await connection.execute(insert(groups).values(values))
        except IntegrityError:
            raise _taken(group.name) from None

    async def rename(self, group: UserGroup, name: str, external_id: str | None) -> None:
        try:
            async with self._database.transaction() as transaction:
                changed = update(groups).where(groups.c.id == group.id).values(name=name, external_id=external_id)
                await transaction.execute(changed)
                await transaction.execute(update(user_groups).where(*_of(group)).values(name=name))
                for rules in self._rules:
                    await rules.rename_group(transaction, group, name)
                await rename_in_connections(transaction, group, name)
        except IntegrityError:
            raise _taken(name) from None

    async def remove(self, group: UserGroup) -> None:
        mine = select(groups.c.id).where(groups.c.id == group.id).with_for_update()
        async with self._database.transaction() as transaction:
            await transaction.execute(mine)
            for rules in self._rules:
                await rules.remove_group(transaction, group)
            await remove_from_connections(transaction, group)
            await transaction.execute(delete(user_groups).where(*_of(group)))
            await transaction.execute(delete(groups).where(groups.c.id == group.id))

    async def members(self, group: UserGroup, source: GroupSource | None = None) -> list[Principal]:
        ids = select(user_groups.c.user_id).where(user_groups.c.name == group.name)
        if source is not None:
            ids = ids.where(user_groups.c.source == source)
        wanted = ACCOUNT.where(users.c.org_id == group.org_id, users.c.id.in_(ids)).order_by(users.c.email, users.c.id)
        async with self._database.statement() as connection:
            return [principal_of(row) for row in (await connection.execute(wanted)).mappings()]

    async def change_members(
        self, group: UserGroup, added: frozenset[UUID], removed: frozenset[UUID], source: GroupSource
    ) -> None:
        mine = (*_of(group), user_groups.c.source == source)
        there = select(user_groups.c.user_id).where(*mine)
        gone = delete(user_groups).where(*mine, user_groups.c.user_id.in_(removed))
        known = select(groups.c.id).where(groups.c.id == group.id, groups.c.name == group.name)
        async with self._database.transaction() as transaction, keeping_an_admin(transaction, group.org_id):
            if (await transaction.execute(known)).first() is None:
                raise NotFound(f"the group {group.name!r} was deleted or renamed")
            await _check_users(transaction, group.org_id, added)
            await transaction.execute(gone)
            new = added - set((await transaction.execute(there)).scalars())
            rows = [{"user_id": key, "name": group.name, "source": source} for key in sorted(new)]
            if rows:
                await transaction.execute(insert(user_groups), rows)


async def _check_users(transaction: Executor, org_id: UUID, ids: frozenset[UUID]) -> None:
    known = select(users.c.id).where(users.c.org_id == org_id, users.c.kind == PrincipalKind.USER, users.c.id.in_(ids))
    unknown = ids - set((await transaction.execute(known)).scalars())
    if unknown:
        raise Invalid(f"members: there is no user {sorted(unknown)[0]}", field="members")


def _of(group: UserGroup) -> list[ColumnElement[bool]]:
    """The memberships of this group; another organisation may have one of the same name."""
    own = select(users.c.id).where(users.c.org_id == group.org_id)
    return [user_groups.c.name == group.name, user_groups.c.user_id.in_(own)]


def _group_of(row: Row[Any]) -> UserGroup:
    return UserGroup(row.id, row.org_id, row.name, row.created_at, row.external_id)


def _taken(name: str) -> Conflict:
    return Conflict(f"name: there is a group {name!r} already", field="name")
