"""Groups: what connections, reviews and roles are given to. Their names are compared exactly."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from uuid import uuid4

from postern.domain.identity.principal import Principal, UserGroup
from postern.domain.lists import Listed, Page
from postern.errors import Invalid, NotFound
from postern.services.identity.users import checked_groups, require_admin, require_person_for_role_name
from postern.services.server.trail import changed as note
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.identity_ports import GroupStore


@dataclass(frozen=True, slots=True)
class SizedGroup:
    """`members` is None for who may not know."""

    group: UserGroup
    members: int | None


class Groups:
    def __init__(self, store: GroupStore, signals: Signals, now: Clock) -> None:
        self._store = store
        self._signals = signals
        self._now = now

    async def find(self, principal: Principal, page: Page) -> Listed[SizedGroup]:
        """By name. Everybody sees the names; admins and auditors also how many are in each."""
        found = await self._store.find(principal.org_id, page)
        if not principal.sees_all:
            return Listed([SizedGroup(group, None) for group in found.items], found.total)
        sizes = await self._store.sizes(principal.org_id, [group.name for group in found.items])
        return Listed([SizedGroup(group, sizes.get(group.name, 0)) for group in found.items], found.total)

    async def create(self, principal: Principal, name: str) -> SizedGroup:
        """Raises Denied, Invalid, Conflict."""
        require_admin(principal, "change groups")
        group = UserGroup(uuid4(), principal.org_id, checked_group(name), self._now())
        require_person_for_role_name(principal, group.name)
        await self._store.add(group)
        note(None, group)
        return SizedGroup(group, 0)

    async def rename(self, principal: Principal, key: str, name: str) -> SizedGroup:
        """With all memberships; rules and connections that name it follow. Raises Denied, NotFound, Invalid,
        Conflict."""
        require_admin(principal, "change groups")
        group = await self._changeable(principal, key)
        renamed = checked_group(name)
        require_person_for_role_name(principal, renamed)
        members = await self._store.members(group)
        await self._store.rename(group, renamed, group.external_id)
        await tell_of_group(self._signals, group, members)
        found = await self._get(principal, str(group.id))
        note(group, found)
        return SizedGroup(found, len(members))

    async def remove(self, principal: Principal, key: str) -> None:
        """With all memberships, and what access rules gave them. Raises Denied, NotFound, Invalid for a group that
        gives a role, and Conflict, naming the rule or the connection, where less would be asked for without it, or
        more given: its members must agree, or are asked for a review, or nobody else is in a runbook rule."""
        require_admin(principal, "delete groups")
        group = await self._changeable(principal, key)
        members = await self._store.members(group)
        await self._store.remove(group)
        await tell_of_group(self._signals, group, members)
        note(group, None)

    async def _get(self, principal: Principal, key: str) -> UserGroup:
        found = await self._store.get(principal.org_id, unicodedata.normalize("NFC", key))
        if found is None:
            raise NotFound(f"there is no group {key!r}")
        return found

    async def _changeable(self, principal: Principal, key: str) -> UserGroup:
        group = await self._get(principal, key)
        check_roleless(principal, group)
        return group


async def tell_of_group(signals: Signals, group: UserGroup, members: list[Principal]) -> None:
    """It has another name, or none any more: access rules name another, and members are in another."""
    await signals.publish(Topic.POLICY_CHANGED, org_id=str(group.org_id))
    for member in members:
        await signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(member.id))


def check_roleless(principal: Principal, group: UserGroup) -> None:
    """Raises Invalid for the groups that make administrators and auditors of the principal's organisation."""
    roles = principal.role_groups
    if group.name in (roles.admin, roles.auditor):
        raise Invalid(f"name: {group.name!r} gives a role in this organisation; it stays as it is", field="name")


def checked_group(name: str) -> str:
    """In Unicode's form C. Raises Invalid."""
    return next(iter(checked_groups((name,), "name")))
