"""Access rules, with the groups they are for and the connections they list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Label, RowMapping, String, case, cast, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.access_rule import AccessRule
from postern.domain.lists import Listed, Page
from postern.domain.principal import Group
from postern.errors import Conflict, NotFound
from postern.store.database import Database
from postern.store.ports import NamedRule
from postern.store.schema import access_rule_connections, access_rule_groups, access_rules, connections
from postern.store.sql.principals import ensure_groups
from postern.store.sql.rows import SEPARATOR, as_uuid, count_of, split
from postern.store.threaded import Executor


def _groups_column() -> Label[str]:
    """The groups as one text, so that a rule is one row."""
    joined = select(func.aggregate_strings(access_rule_groups.c.name, SEPARATOR))
    own = joined.where(access_rule_groups.c.rule_id == access_rules.c.id)
    return own.correlate(access_rules).scalar_subquery().label("groups")


def _connection_ids_column() -> Label[str]:
    joined = select(func.aggregate_strings(cast(access_rule_connections.c.connection_id, String), SEPARATOR))
    own = joined.where(access_rule_connections.c.rule_id == access_rules.c.id)
    return own.correlate(access_rules).scalar_subquery().label("connection_ids")


def _connection_names_column() -> Label[str]:
    joined = select(func.aggregate_strings(connections.c.name, SEPARATOR)).join(
        access_rule_connections, access_rule_connections.c.connection_id == connections.c.id
    )
    own = joined.where(access_rule_connections.c.rule_id == access_rules.c.id)
    return own.correlate(access_rules).scalar_subquery().label("connection_names")


_RULES = select(*access_rules.c, _groups_column(), _connection_ids_column()).order_by(access_rules.c.name)
_NAMED = _RULES.add_columns(_connection_names_column())


class SqlAccessRules:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self, org_id: UUID) -> list[AccessRule]:
        async with self._database.statement() as connection:
            rows = (await connection.execute(_RULES.where(access_rules.c.org_id == org_id))).mappings().all()
        return [_rule_of(row) for row in rows]

    async def find(self, org_id: UUID, page: Page) -> Listed[NamedRule]:
        own = access_rules.c.org_id == org_id
        async with self._database.statement() as connection:
            wanted = _NAMED.where(own).limit(page.limit).offset(page.offset)
            rows = (await connection.execute(wanted)).mappings().all()
            total = (await connection.execute(count_of(access_rules, own))).scalar_one()
        return Listed([_named(row) for row in rows], total)

    async def get(self, org_id: UUID, name_or_id: str) -> NamedRule | None:
        key = as_uuid(name_or_id)
        named: ColumnElement[bool] = access_rules.c.name == name_or_id
        meant = named if key is None else or_(named, access_rules.c.id == key)
        wanted = _NAMED.where(access_rules.c.org_id == org_id, meant).order_by(None).order_by(case((named, 0), else_=1))
        async with self._database.statement() as connection:
            row = (await connection.execute(wanted.limit(1))).mappings().one_or_none()
        return None if row is None else _named(row)

    async def connection_ids(self, org_id: UUID, names_or_ids: Sequence[str]) -> Mapping[str, UUID]:
        keys = [key for key in map(as_uuid, names_or_ids) if key is not None]
        meant = or_(connections.c.name.in_(names_or_ids), connections.c.id.in_(keys))
        wanted = select(connections.c.id, connections.c.name).where(connections.c.org_id == org_id, meant)
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted)).all()
        by_name: dict[str, UUID] = {row.name: row.id for row in rows}
        by_id: dict[UUID | None, UUID] = {row.id: row.id for row in rows}
        found = {given: by_name.get(given) or by_id.get(as_uuid(given)) for given in names_or_ids}
        return {given: key for given, key in found.items() if key is not None}

    async def add(self, rule: AccessRule) -> None:
        fixed = {"id": rule.id, "org_id": rule.org_id, "created_at": rule.created_at}
        try:
            async with self._database.transaction() as transaction:
                await transaction.execute(insert(access_rules).values(_values(rule) | fixed))
                await _associate(transaction, rule)
        except IntegrityError:
            raise _taken(rule) from None

    async def update(self, rule: AccessRule) -> None:
        changed = update(access_rules).where(access_rules.c.id == rule.id).values(_values(rule))
        try:
            async with self._database.transaction() as transaction:
                if (await transaction.execute(changed)).rowcount != 1:
                    raise NotFound(f"there is no access rule {rule.name!r} any more")
                await _associate(transaction, rule)
        except IntegrityError:
            raise _taken(rule) from None

    async def remove(self, rule_id: UUID) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(access_rules).where(access_rules.c.id == rule_id))


async def rename_in_rules(transaction: Executor, group: Group, name: str) -> None:
    """A rule that is for both, the old name and the new one, is for the new one."""
    both = select(access_rule_groups.c.rule_id).where(access_rule_groups.c.name == name)
    await transaction.execute(delete(access_rule_groups).where(*_of(group), access_rule_groups.c.rule_id.in_(both)))
    await transaction.execute(update(access_rule_groups).where(*_of(group)).values(name=name))


async def remove_from_rules(transaction: Executor, group: Group) -> None:
    await transaction.execute(delete(access_rule_groups).where(*_of(group)))


def _of(group: Group) -> list[ColumnElement[bool]]:
    """Where rules name this group; another organisation may have one of the same name."""
    own = select(access_rules.c.id).where(access_rules.c.org_id == group.org_id)
    return [access_rule_groups.c.name == group.name, access_rule_groups.c.rule_id.in_(own)]


async def _associate(transaction: Executor, rule: AccessRule) -> None:
    """Replaces its groups and connections."""
    await ensure_groups(transaction, rule.org_id, rule.groups, datetime.now(UTC))
    for table, column, keys in (
        (access_rule_groups, "name", sorted(rule.groups)),
        (access_rule_connections, "connection_id", sorted(rule.connection_ids)),
    ):
        await transaction.execute(delete(table).where(table.c.rule_id == rule.id))
        rows = [{"rule_id": rule.id, column: key} for key in keys]
        if rows:
            await transaction.execute(insert(table), rows)


def _values(rule: AccessRule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "description": rule.description,
        "connection_tags": dict(rule.connection_tags),
        "updated_at": rule.updated_at,
    }


def _rule_of(row: RowMapping) -> AccessRule:
    return AccessRule(
        id=row["id"],
        org_id=row["org_id"],
        name=row["name"],
        description=row["description"],
        groups=frozenset(split(row["groups"])),
        connection_ids=frozenset(UUID(key) for key in split(row["connection_ids"])),
        connection_tags=row["connection_tags"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _named(row: RowMapping) -> NamedRule:
    return NamedRule(_rule_of(row), tuple(sorted(split(row["connection_names"]))))


def _taken(rule: AccessRule) -> Conflict:
    """Services check connections first, so only a change at the same moment leads to the second."""
    return Conflict(
        f"name: an access rule {rule.name!r} exists already, or a connection of it was just removed", field="name"
    )
