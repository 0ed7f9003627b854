"""Organisations and their settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Row, Select, delete, insert, select, true, update
from sqlalchemy.dialects.postgresql import insert as upsert  # SQLite has the same ON CONFLICT, and compiles it alike
from sqlalchemy.exc import IntegrityError

from postern.domain.identity.organisation import DEFAULT, Organisation
from postern.domain.identity.principal import GroupSource, RoleGroups
from postern.domain.lists import Listed, Page
from postern.errors import Conflict, NotFound
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.schema.identity_tables import groups, orgs, user_groups, users
from postern.store.schema.server_tables import org_settings
from postern.store.sql.identity.sql_principals import count_changes, hold_groups
from postern.store.sql.locking import one_at_a_time
from postern.store.sql.resource_table import CHANGED_MEANWHILE
from postern.store.sql.rows import count_of
from postern.store.threaded import Executor


class SqlOrganisations:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def default(self) -> Organisation:
        organisation = await self.by_name(DEFAULT)
        if organisation is None:
            raise NotFound(f"the organisation {DEFAULT!r} is missing from the store; restore the store from a backup")
        return organisation

    async def get(self, org_id: UUID) -> Organisation | None:
        return await self._one(orgs.c.id == org_id, orgs.c.deleting_at.is_(None))

    async def by_name(self, name: str) -> Organisation | None:
        return await self._one(orgs.c.name == name, orgs.c.deleting_at.is_(None))

    async def _one(self, *conditions: ColumnElement[bool]) -> Organisation | None:
        async with self._database.statement() as connection:
            row = (await connection.execute(select(*orgs.c).where(*conditions))).one_or_none()
        return None if row is None else organisation_of(row)

    async def find(self, page: Page, *, deleting: bool = False) -> Listed[Organisation]:
        included = true() if deleting else orgs.c.deleting_at.is_(None)
        query = select(*orgs.c).where(included).order_by(orgs.c.name).limit(page.limit).offset(page.offset)
        async with self._database.statement() as connection:
            rows = (await connection.execute(query)).all()
            total = (await connection.execute(count_of(orgs, included))).scalar_one()
        return Listed([organisation_of(row) for row in rows], total)

    async def add(self, organisation: Organisation) -> None:
        try:
            async with self._database.transaction() as transaction:
                await add_organisation(transaction, organisation)
        except IntegrityError:
            raise organisation_taken(organisation) from None

    async def update(self, organisation: Organisation) -> Organisation:
        updated = replace(organisation, version=organisation.version + 1)
        condition = orgs.c.id == organisation.id
        roles = organisation.role_groups
        try:
            async with self._database.transaction() as transaction:
                await one_at_a_time(transaction)
                former = (await transaction.execute(select(*orgs.c).where(condition))).one()
                if former.version != organisation.version:
                    raise Conflict(f"organisation {former.name!r} {CHANGED_MEANWHILE}")
                await transaction.execute(update(orgs).where(condition).values(_changeable(updated)))
                for old, new in ((former.admin_group, roles.admin), (former.auditor_group, roles.auditor)):
                    if old != new:
                        await _succeed(transaction, organisation.id, old, new)
        except IntegrityError:
            raise organisation_taken(organisation) from None
        return updated


class SqlSettings:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def get(self, org_id: UUID, name: str) -> Mapping[str, Any] | None:
        sealed = await self._read_sealed(org_id, name)
        return None if sealed is None else await self._open(org_id, name, sealed)

    async def put(self, org_id: UUID, name: str, value: Mapping[str, Any], at: datetime) -> None:
        sealed = await self._seal(org_id, name, value)
        changed = update(org_settings).where(*_this(org_id, name))
        async with self._database.transaction() as transaction:
            await one_at_a_time(transaction)
            if (await transaction.execute(changed.values(value=sealed, updated_at=at))).rowcount == 0:
                await transaction.execute(
                    insert(org_settings).values(org_id=org_id, name=name, value=sealed, updated_at=at)
                )

    async def add(self, org_id: UUID, name: str, value: Mapping[str, Any], at: datetime) -> bool:
        row = {"org_id": org_id, "name": name, "value": await self._seal(org_id, name, value), "updated_at": at}
        async with self._database.statement() as connection:
            added = await connection.execute(upsert(org_settings).values(row).on_conflict_do_nothing())
        return added.rowcount == 1

    async def change(
        self, org_id: UUID, name: str, read: Mapping[str, Any], value: Mapping[str, Any], at: datetime
    ) -> bool:
        """Replace a setting. Each seal has different bytes, so these identify the stored value."""
        sealed = await self._read_sealed(org_id, name)
        if sealed is None or await self._open(org_id, name, sealed) != read:
            return False
        same = (*_this(org_id, name), org_settings.c.value == sealed)
        values = {"value": await self._seal(org_id, name, value), "updated_at": at}
        async with self._database.statement() as connection:
            return (await connection.execute(update(org_settings).where(*same).values(values))).rowcount == 1

    async def remove(self, org_id: UUID, name: str) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(org_settings).where(*_this(org_id, name)))

    async def _read_sealed(self, org_id: UUID, name: str) -> bytes | None:
        async with self._database.statement() as connection:
            result = await connection.execute(select(org_settings.c.value).where(*_this(org_id, name)))
            return result.scalar_one_or_none()

    async def _open(self, org_id: UUID, name: str, sealed: bytes) -> dict[str, Any]:
        clear = await self._encryption.open(sealed, row=_row(org_id, name), org_id=org_id)
        value: dict[str, Any] = json.loads(clear)
        return value

    async def _seal(self, org_id: UUID, name: str, value: Mapping[str, Any]) -> bytes:
        clear = json.dumps(dict(value)).encode()
        return await self._encryption.seal(clear, row=_row(org_id, name), org_id=org_id)


async def add_organisation(transaction: Executor, organisation: Organisation) -> None:
    """Add an organisation with the groups that give its roles. Raises IntegrityError."""
    values = {"id": organisation.id, "created_at": organisation.created_at} | _changeable(organisation)
    await transaction.execute(insert(orgs).values(values))
    roles = frozenset({organisation.role_groups.admin, organisation.role_groups.auditor})
    await hold_groups(transaction, organisation.id, roles)


async def _succeed(transaction: Executor, org_id: UUID, old: str, new: str) -> None:
    """Move the members of `old` to `new`, as manual ones; no manual member stays in `old`."""
    await hold_groups(transaction, org_id, frozenset({new}))
    successor = update(groups).where(groups.c.org_id == org_id, groups.c.name == new)
    await transaction.execute(successor.values(version=groups.c.version + 1))  # else it could be removed meanwhile
    query = select(users.c.id).where(users.c.org_id == org_id)

    def members(name: str) -> Select[tuple[UUID]]:
        named = user_groups.c.name == name
        return select(user_groups.c.user_id).where(named, user_groups.c.user_id.in_(query)).distinct()

    await count_changes(transaction, users.c.id.in_(members(old)))
    by_hand = members(new).where(user_groups.c.source == GroupSource.MANUAL)
    already = set((await transaction.execute(by_hand)).scalars())
    present = (await transaction.execute(members(old))).scalars().all()
    rows = [{"user_id": key, "name": new, "source": GroupSource.MANUAL} for key in present if key not in already]
    if rows:
        await transaction.execute(insert(user_groups), rows)
    await transaction.execute(
        delete(user_groups).where(
            user_groups.c.name == old, user_groups.c.source == GroupSource.MANUAL, user_groups.c.user_id.in_(query)
        )
    )


def _this(org_id: UUID, name: str) -> tuple[ColumnElement[bool], ...]:
    return org_settings.c.org_id == org_id, org_settings.c.name == name


def _row(org_id: UUID, name: str) -> str:
    return f"org_settings/{org_id}/{name}"


def organisation_of(row: Row[Any]) -> Organisation:
    roles = RoleGroups(row.admin_group, row.auditor_group)
    return Organisation(row.id, row.name, row.created_at, roles, row.access_help, row.deleting_at, row.version)


def _changeable(organisation: Organisation) -> dict[str, str | int]:
    roles = organisation.role_groups
    return {
        "name": organisation.name,
        "admin_group": roles.admin,
        "auditor_group": roles.auditor,
        "access_help": organisation.access_help,
        "version": organisation.version,
    }


def organisation_taken(organisation: Organisation) -> Conflict:
    return Conflict(f"name: an organisation {organisation.name!r} exists already; choose another name", field="name")
