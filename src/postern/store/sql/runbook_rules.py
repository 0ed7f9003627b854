"""Runbook rules, with the groups they are for and the connections they list."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, RowMapping, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.lists import Listed, Page
from postern.domain.principal import Group
from postern.domain.runbook import RunbookPattern, RunbookRule
from postern.errors import Conflict
from postern.store.database import Database
from postern.store.ports.runbooks import NamedRunbookRule
from postern.store.schema.runbooks import runbook_rule_connections, runbook_rule_groups, runbook_rules
from postern.store.sql.principals import hold_groups
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
    *runbook_rules.c,
    joined_column(runbook_rules, runbook_rule_groups, runbook_rule_groups.c.name, "groups"),
    connection_ids_column(runbook_rules, runbook_rule_connections),
).order_by(runbook_rules.c.name)
_NAMED = _RULES.add_columns(connection_names_column(runbook_rules, runbook_rule_connections))


class SqlRunbookRules:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self, org_id: UUID) -> list[RunbookRule]:
        async with self._database.statement() as connection:
            rows = (await connection.execute(_RULES.where(runbook_rules.c.org_id == org_id))).mappings().all()
        return [_rule_of(row) for row in rows]

    async def find(self, org_id: UUID, page: Page) -> Listed[NamedRunbookRule]:
        own = runbook_rules.c.org_id == org_id
        async with self._database.statement() as connection:
            wanted = _NAMED.where(own).limit(page.limit).offset(page.offset)
            rows = (await connection.execute(wanted)).mappings().all()
            total = (await connection.execute(count_of(runbook_rules, own))).scalar_one()
        return Listed([_named(row) for row in rows], total)

    async def get(self, org_id: UUID, name_or_id: str) -> NamedRunbookRule | None:
        async with self._database.statement() as connection:
            wanted = one_of(runbook_rules, _NAMED, org_id, name_or_id)
            row = (await connection.execute(wanted)).mappings().one_or_none()
        return None if row is None else _named(row)

    async def add(self, rule: RunbookRule) -> None:
        fixed = {"id": rule.id, "org_id": rule.org_id, "created_at": rule.created_at}
        try:
            async with self._database.transaction() as transaction:
                await hold_groups(transaction, rule.org_id, rule.groups)  # first: who removes a group does so, too
                await transaction.execute(insert(runbook_rules).values(_values(rule) | fixed))
                await _associate(transaction, rule)
        except IntegrityError:
            raise _taken(rule) from None

    async def update(self, rule: RunbookRule, read: RunbookRule) -> None:
        same = (runbook_rules.c.id == rule.id, runbook_rules.c.updated_at == read.updated_at)
        changed = update(runbook_rules).where(*same).values(_values(rule))
        try:
            async with self._database.transaction() as transaction:
                await hold_groups(transaction, rule.org_id, rule.groups)  # first: who removes a group does so, too
                if (await transaction.execute(changed)).rowcount != 1:
                    raise Conflict(
                        f"runbook rule {read.name!r} was changed or deleted meanwhile; look at it, and try again"
                    )
                await _associate(transaction, rule)
        except IntegrityError:
            raise _taken(rule) from None

    async def remove(self, rule_id: UUID) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(runbook_rules).where(runbook_rules.c.id == rule_id))


async def rename_in_runbook_rules(transaction: Executor, group: Group, name: str) -> None:
    """A rule that is for both, the old name and the new one, is for the new one."""
    both = select(runbook_rule_groups.c.rule_id).where(runbook_rule_groups.c.name == name)
    await transaction.execute(delete(runbook_rule_groups).where(*_of(group), runbook_rule_groups.c.rule_id.in_(both)))
    await transaction.execute(update(runbook_rule_groups).where(*_of(group)).values(name=name))


async def remove_from_runbook_rules(transaction: Executor, group: Group) -> None:
    """The group's row must be locked. Raises Conflict, naming the rule, where the rule is for nobody else: without a
    group it would be for everybody. Locks the rules first: another of their groups may be going at the same time."""
    own = select(runbook_rules.c.id).where(runbook_rules.c.org_id == group.org_id).order_by(runbook_rules.c.id)
    await transaction.execute(own.with_for_update())
    for row in (await transaction.execute(_RULES.where(runbook_rules.c.org_id == group.org_id))).mappings():
        if split(row["groups"]) == [group.name]:
            raise Conflict(
                f"the runbook rule {row['name']!r} is for the group {group.name!r} alone, and would be for everybody "
                "without it; change or delete the rule first"
            )
    await transaction.execute(delete(runbook_rule_groups).where(*_of(group)))


def _of(group: Group) -> list[ColumnElement[bool]]:
    """Where rules name this group; another organisation may have one of the same name."""
    own = select(runbook_rules.c.id).where(runbook_rules.c.org_id == group.org_id)
    return [runbook_rule_groups.c.name == group.name, runbook_rule_groups.c.rule_id.in_(own)]


async def _associate(transaction: Executor, rule: RunbookRule) -> None:
    """Replaces its groups and connections."""
    await replace_parts(transaction, runbook_rule_groups, rule.id, [{"name": name} for name in sorted(rule.groups)])
    listed = [{"connection_id": key} for key in sorted(rule.connection_ids)]
    await replace_parts(transaction, runbook_rule_connections, rule.id, listed)


def _values(rule: RunbookRule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "description": rule.description,
        "runbooks": [{"repository": one.repository, "name": one.name} for one in rule.runbooks],
        "everywhere": not rule.connection_ids and not rule.nowhere,
        "updated_at": rule.updated_at,
    }


def _rule_of(row: RowMapping) -> RunbookRule:
    listed = listed_ids(row)
    return RunbookRule(
        id=row["id"],
        org_id=row["org_id"],
        name=row["name"],
        description=row["description"],
        runbooks=tuple(RunbookPattern(one["repository"], one["name"]) for one in row["runbooks"]),
        connection_ids=listed,
        groups=frozenset(split(row["groups"])),
        nowhere=not listed and not row["everywhere"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _named(row: RowMapping) -> NamedRunbookRule:
    return NamedRunbookRule(_rule_of(row), listed_names(row))


def _taken(rule: RunbookRule) -> Conflict:
    """Services check connections first, so only a change at the same moment leads to the second."""
    return Conflict(
        f"name: a runbook rule {rule.name!r} exists already, or a connection of it was just removed", field="name"
    )
