"""Review rules, with their groups, each in its part, and the connections they list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, RowMapping, delete, exists, insert, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.lists import Listed, Page
from postern.domain.principal import Group
from postern.domain.review_rule import AccessType, ReviewRule
from postern.errors import Conflict, NotFound
from postern.store.database import Database
from postern.store.ports.reviews import NamedReviewRule
from postern.store.schema.reviews import review_rule_connections, review_rule_groups, review_rules
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

# Part of a rule's groups → the field that has them.
_PARTS: Mapping[str, str] = {
    "reviewers": "reviewers_groups",
    "force": "force_groups",
    "required": "required_groups",
    "skip": "skip_groups",
}
_part = review_rule_groups.c.part + ":" + review_rule_groups.c.name
_RULES = select(
    *review_rules.c,
    joined_column(review_rules, review_rule_groups, _part, "groups"),
    connection_ids_column(review_rules, review_rule_connections),
).order_by(review_rules.c.name)
_NAMED = _RULES.add_columns(connection_names_column(review_rules, review_rule_connections))


class SqlReviewRules:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self, org_id: UUID) -> list[ReviewRule]:
        async with self._database.statement() as connection:
            rows = (await connection.execute(_RULES.where(review_rules.c.org_id == org_id))).mappings().all()
        return [_rule_of(row) for row in rows]

    async def find(self, org_id: UUID, page: Page) -> Listed[NamedReviewRule]:
        own = review_rules.c.org_id == org_id
        async with self._database.statement() as connection:
            wanted = _NAMED.where(own).limit(page.limit).offset(page.offset)
            rows = (await connection.execute(wanted)).mappings().all()
            total = (await connection.execute(count_of(review_rules, own))).scalar_one()
        return Listed([_named(row) for row in rows], total)

    async def get(self, org_id: UUID, name_or_id: str) -> NamedReviewRule | None:
        async with self._database.statement() as connection:
            wanted = one_of(review_rules, _NAMED, org_id, name_or_id)
            row = (await connection.execute(wanted)).mappings().one_or_none()
        return None if row is None else _named(row)

    async def add(self, rule: ReviewRule) -> None:
        fixed = {"id": rule.id, "org_id": rule.org_id, "created_at": rule.created_at}
        try:
            async with self._database.transaction() as transaction:
                await transaction.execute(insert(review_rules).values(_values(rule) | fixed))
                await _associate(transaction, rule)
        except IntegrityError:
            raise _taken(rule) from None

    async def update(self, rule: ReviewRule) -> None:
        changed = update(review_rules).where(review_rules.c.id == rule.id).values(_values(rule))
        try:
            async with self._database.transaction() as transaction:
                if (await transaction.execute(changed)).rowcount != 1:
                    raise NotFound(f"there is no review rule {rule.name!r} any more")
                await _associate(transaction, rule)
        except IntegrityError:
            raise _taken(rule) from None

    async def remove(self, rule_id: UUID) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(review_rules).where(review_rules.c.id == rule_id))


async def rename_in_review_rules(transaction: Executor, group: Group, name: str) -> None:
    """A part of a rule that has both, the old name and the new one, has the new one once."""
    other = review_rule_groups.alias()
    both = exists().where(
        other.c.rule_id == review_rule_groups.c.rule_id, other.c.part == review_rule_groups.c.part, other.c.name == name
    )
    await transaction.execute(delete(review_rule_groups).where(*_of(group), both))
    await transaction.execute(update(review_rule_groups).where(*_of(group)).values(name=name))


async def remove_from_review_rules(transaction: Executor, group: Group) -> None:
    """The group's row must be locked. Raises Conflict, naming the rule, where fewer would have to be asked without it,
    or fewer would have to agree."""
    for row in (await transaction.execute(_RULES.where(review_rules.c.org_id == group.org_id))).mappings():
        rule = _rule_of(row)
        reason = _needed_by(rule, group.name)
        if reason is not None:
            raise Conflict(f"the review rule {rule.name!r} needs the group {group.name!r}: {reason}; change it first")
    await transaction.execute(delete(review_rule_groups).where(*_of(group)))


def _needed_by(rule: ReviewRule, group: str) -> str | None:
    """What the rule is not without it. Who may force an approval, and who is not asked, only become fewer."""
    if group in rule.required_groups:
        return "it asks the members of this group for a review"
    if rule.reviewers_groups == (group,):
        return "nobody else may approve"
    if rule.all_groups and group in rule.reviewers_groups:
        return "this group must agree, too"
    return None


def _of(group: Group) -> list[ColumnElement[bool]]:
    """Where rules name this group; another organisation may have one of the same name."""
    own = select(review_rules.c.id).where(review_rules.c.org_id == group.org_id)
    return [review_rule_groups.c.name == group.name, review_rule_groups.c.rule_id.in_(own)]


async def _associate(transaction: Executor, rule: ReviewRule) -> None:
    """Replaces its groups and connections."""
    named = [{"part": part, "name": name} for part, field in _PARTS.items() for name in sorted(getattr(rule, field))]
    await hold_groups(transaction, rule.org_id, frozenset(row["name"] for row in named))
    await replace_parts(transaction, review_rule_groups, rule.id, named)
    listed = [{"connection_id": key} for key in sorted(rule.connection_ids)]
    await replace_parts(transaction, review_rule_connections, rule.id, listed)


def _values(rule: ReviewRule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "description": rule.description,
        "access_type": rule.access_type,
        "connection_tags": dict(rule.connection_tags),
        "all_groups": rule.all_groups,
        "min_approvals": rule.min_approvals,
        "max_duration": rule.max_duration,
        "updated_at": rule.updated_at,
    }


def _rule_of(row: RowMapping) -> ReviewRule:
    """Groups and connections in order, so that the same rule makes the same demand."""
    parts: dict[str, list[str]] = {part: [] for part in _PARTS}
    for text in sorted(split(row["groups"])):
        part, _, name = text.partition(":")
        parts[part].append(name)
    return ReviewRule(
        id=row["id"],
        org_id=row["org_id"],
        name=row["name"],
        description=row["description"],
        access_type=AccessType(row["access_type"]),
        reviewers_groups=tuple(parts["reviewers"]),
        force_groups=tuple(parts["force"]),
        required_groups=frozenset(parts["required"]),
        skip_groups=frozenset(parts["skip"]),
        connection_ids=listed_ids(row),
        connection_tags=row["connection_tags"],
        all_groups=row["all_groups"],
        min_approvals=row["min_approvals"],
        max_duration=row["max_duration"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _named(row: RowMapping) -> NamedReviewRule:
    return NamedReviewRule(_rule_of(row), listed_names(row))


def _taken(rule: ReviewRule) -> Conflict:
    """Services check connections first, so only a change at the same moment leads to the second."""
    return Conflict(
        f"name: a review rule {rule.name!r} exists already, or a connection of it was just removed", field="name"
    )
