"""Access rules, with the groups they are for and the connections they list."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, RowMapping, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.access_rule import AccessRule
from postern.domain.lists import Listed, Page
from postern.domain.principal import Group
from postern.errors import Conflict, NotFound
from postern.store.database import Database
from postern.store.ports.targets import NamedRule
from postern.store.schema.targets import access_rule_connections, access_rule_groups, access_rules
from postern.store.sql.principals import ensure_groups
from postern.store.sql.rows import count_of, split
from postern.store.sql.rule_parts import (
    connection_ids_column,
    connection_names_column,
    joined_column,
    listed_ids,
    listed_names,
    one_of,
    replace_parts,
)
from postern.store.threaded import Executor

_RULES = select(
    *access_rules.c,
    joined_column(access_rules, access_rule_groups, access_rule_groups.c.name, "groups"),
    connection_ids_column(access_rules, access_rule_connections),
).order_by(access_rules.c.name)
_NAMED = _RULES.add_columns(connection_names_column(access_rules, access_rule_connections))


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
        async with self._database.statement() as connection:
            wanted = one_of(access_rules, _NAMED, org_id, name_or_id)
            row = (await connection.execute(wanted)).mappings().one_or_none()
        return None if row is None else _named(row)

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
    named = [{"name": name} for name in sorted(rule.groups)]
    await replace_parts(transaction, access_rule_groups, rule.id, named)
    listed = [{"connection_id": key} for key in sorted(rule.connection_ids)]
    await replace_parts(transaction, access_rule_connections, rule.id, listed)


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
        connection_ids=listed_ids(row),
        connection_tags=row["connection_tags"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _named(row: RowMapping) -> NamedRule:
    return NamedRule(_rule_of(row), listed_names(row))


def _taken(rule: AccessRule) -> Conflict:
    """Services check connections first, so only a change at the same moment leads to the second."""
    return Conflict(
        f"name: an access rule {rule.name!r} exists already, or a connection of it was just removed", field="name"
    )
