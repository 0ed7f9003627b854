"""Groups: connections, reviews and roles are given to them. Their names are compared exactly."""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

from postern.domain.identity.principal import Principal, UserGroup
from postern.domain.lists import Listed, Page
from postern.domain.rules.rule_filter import ALL_RULES, RuleFilter
from postern.errors import Invalid
from postern.services.identity.users import checked_groups, require_person_for_role_name
from postern.services.named_resources import ResourceService
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.identity_ports import GroupStore


class Groups(ResourceService[UserGroup]):
    """All users see the names of groups; administrators and auditors also see how many members each has.

    Groups that give a role cannot change. A group cannot be deleted where that would remove a check or open access: its
    members must approve, or need a review, or it is the only group of a runbook rule.
    """

    noun = "group"
    preserved_fields = frozenset({"external_id", "members"})

    def __init__(self, store: GroupStore, signals: Signals, now: Clock) -> None:
        super().__init__(store, signals, now)
        self._groups = store

    def blank(self, key: UUID, org_id: UUID) -> UserGroup:
        return UserGroup(key, org_id, "")

    async def find(self, principal: Principal, page: Page, where: RuleFilter = ALL_RULES) -> Listed[UserGroup]:
        listed = await self._store.find(principal.org_id, page, where)
        return Listed([_seen_by(principal, group) for group in listed.items], listed.total)

    async def get(self, principal: Principal, name_or_id: str) -> UserGroup:
        """Return the group. Raises NotFound."""
        return _seen_by(principal, await self.existing(principal, name_or_id))

    async def existing(self, principal: Principal, name_or_id: str) -> UserGroup:
        return await super().existing(principal, unicodedata.normalize("NFC", name_or_id))

    def check_name(self, name: str) -> None:
        checked_group(name)

    async def resolve(self, current: UserGroup, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        return {name: checked_group(value) for name, value in fields.items()}

    async def authorize(self, principal: Principal, before: UserGroup | None, after: UserGroup | None) -> None:
        if before is not None and after is not None and before.name == after.name:
            return
        if before is not None:
            check_roleless(principal, before)
        if after is not None:
            require_person_for_role_name(principal, after.name)

    async def write(self, before: UserGroup | None, after: UserGroup) -> UserGroup:
        if before is None:
            return await super().write(before, after)
        async with self._notifying_members(before):
            return await super().write(before, after)

    async def delete(self, current: UserGroup) -> None:
        async with self._notifying_members(current):
            await super().delete(current)

    @asynccontextmanager
    async def _notifying_members(self, group: UserGroup) -> AsyncIterator[None]:
        """Signal a change to the users that are members before the change."""
        members = await self._groups.members(group)
        yield
        for member in members:
            await self._signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(member.id))

    async def announce(self, before: UserGroup | None, after: UserGroup | None) -> None:
        """Signal changes and removals; rules do not name a new group yet."""
        if before is not None:
            await super().announce(before, after)


def _seen_by(principal: Principal, group: UserGroup) -> UserGroup:
    return group if principal.sees_all else replace(group, members=None)


def check_roleless(principal: Principal, group: UserGroup) -> None:
    """Check that the group does not give a role in the principal's organisation. Raises Invalid."""
    roles = principal.role_groups
    if group.name in (roles.admin, roles.auditor):
        raise Invalid(f"name: {group.name!r} gives a role in this organisation and cannot be changed", field="name")


def checked_group(name: str) -> str:
    """Return the name in Unicode's form C. Raises Invalid."""
    return next(iter(checked_groups((name,), "name")))
