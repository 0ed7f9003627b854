"""Users and groups as a provisioning system (SCIM) manages them.

It sees all users and groups of its organisation, and the members of each group that it added itself: each source of a
membership removes only what it added. A user that it creates is invited: the first login by the identity provider,
matched by external identifier or a verified e-mail address, takes the account over.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

from postern.domain.identity.names import fold_name, is_plain
from postern.domain.identity.principal import (
    Account,
    GroupSource,
    Principal,
    PrincipalFilter,
    PrincipalKind,
    PrincipalStatus,
    Role,
    UserGroup,
)
from postern.domain.lists import Listed, Page
from postern.errors import Conflict, Invalid, NotFound
from postern.services.identity.groups import Groups, check_roleless, checked_group
from postern.services.identity.user_accounts import Users
from postern.services.identity.users import (
    checked_email,
    checked_name,
    require_admin,
    require_person,
    require_person_for_role,
    require_person_for_role_name,
    require_reader,
)
from postern.services.server.audit_context import record_change as note
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.identity_ports import GroupStore, PrincipalStore

MAX_MEMBERS = 10_000  # added or removed by one request
_DEED = "provision users and groups"


@dataclass(frozen=True, slots=True)
class ProvisionedUser:
    """A user as provisioned. `email` is empty for one without; then their user name stands in for it."""

    user_name: str
    name: str
    email: str
    active: bool
    external_id: str | None


@dataclass(frozen=True, slots=True)
class ProvisionedGroup:
    """A group; `members` are those that the provisioning system added."""

    group: UserGroup
    members: list[Principal]


class Provisioning:
    def __init__(
        self,
        *,
        principals: PrincipalStore,
        groups: GroupStore,
        users: Users,
        group_service: Groups,
        signals: Signals,
        now: Clock,
    ) -> None:
        self._principals = principals
        self._groups = groups
        self._users = users
        self._group_service = group_service
        self._signals = signals
        self._now = now

    async def find_users(self, principal: Principal, where: PrincipalFilter, page: Page) -> Listed[Account]:
        """Return users. Raises Denied for all but admins and auditors."""
        require_reader(principal, "provisioned users and groups")
        return await self._principals.find(principal.org_id, where, page)

    async def get_user(self, principal: Principal, user_id: UUID) -> Account:
        """Return a user. Raises Denied, NotFound."""
        require_reader(principal, "provisioned users and groups")
        account = await self._principals.get(principal.org_id, user_id)
        if account is None or account.principal.kind is not PrincipalKind.USER:
            raise NotFound(f"there is no user {user_id}")
        return account

    async def create_user(self, principal: Principal, provisioned_user: ProvisionedUser) -> Account:
        """Create an invited user. Raises Denied, Invalid, Conflict."""
        require_admin(principal, _DEED)
        key = uuid4()
        user = Principal(key, principal.org_id, str(key), "", "", role_groups=principal.role_groups)
        fresh = Account(replace(user, status=PrincipalStatus.INVITED), verified=True)
        account = await self._merge(fresh, provisioned_user)
        require_person_for_role(principal, None, account.principal)
        await self._principals.add(account, self._now(), source=GroupSource.SCIM)
        new_account = await self.get_user(principal, key)
        note(None, new_account)
        return new_account

    async def replace_user(self, principal: Principal, user_id: UUID, user: ProvisionedUser) -> Account:
        """Replace a user. Deactivation ends their logins and sessions at once. Raises Denied, NotFound, Invalid,
        Conflict."""
        require_admin(principal, _DEED)
        before = await self.get_user(principal, user_id)
        account = await self._merge(before, user)
        require_person_for_role(principal, before.principal, account.principal)
        if before.principal.role is not Role.STANDARD and _known_by(account) != _known_by(before):
            require_person(
                principal, "change the e-mail address, user name or external id of an administrator or auditor"
            )
        if user_id == principal.id and not account.principal.is_active:
            raise Invalid("active: you cannot deactivate yourself", field="active")
        await self._principals.update(account, self._now())
        if account.principal.status is not before.principal.status:
            await self._users.announce(before, account)
        after = await self.get_user(principal, user_id)
        note(before, after)
        return after

    async def remove_user(self, principal: Principal, user_id: UUID) -> None:
        """Remove a user. Raises Denied, NotFound, Invalid."""
        require_admin(principal, _DEED)
        await self._users.remove(principal, str((await self.get_user(principal, user_id)).id))

    async def find_groups(
        self,
        principal: Principal,
        page: Page,
        *,
        name: str | None = None,
        external_id: str | None = None,
        with_members: bool = True,
    ) -> Listed[ProvisionedGroup]:
        """Return groups; members cost one more query for each. Raises Denied for all but admins and auditors."""
        require_reader(principal, "provisioned users and groups")
        listed = await self._groups.find_provisioned(principal.org_id, page, name=name, external_id=external_id)
        if not with_members:
            return Listed([ProvisionedGroup(group, []) for group in listed.items], listed.total)
        return Listed([await self._with_members(group) for group in listed.items], listed.total)

    async def get_group(self, principal: Principal, group_id: UUID) -> ProvisionedGroup:
        """Return a group. Raises Denied, NotFound."""
        require_reader(principal, "provisioned users and groups")
        group = await self._groups.get(principal.org_id, str(group_id))
        if group is None or group.id != group_id:
            raise NotFound(f"there is no group {group_id}")
        return await self._with_members(group)

    async def create_group(
        self, principal: Principal, name: str, external_id: str | None, members: frozenset[UUID]
    ) -> ProvisionedGroup:
        """Create a group. Raises Denied, Invalid, Conflict."""
        require_admin(principal, _DEED)
        group = UserGroup(uuid4(), principal.org_id, checked_group(name), self._now(), _checked_id(external_id))
        require_person_for_role_name(principal, group.name)
        await self._groups.add(group)
        try:
            await self._change_members(group, members, frozenset())
        except Invalid:
            with suppress(Conflict):  # a connection has reviewers of that name: then it is there, and empty
                await self._groups.remove(group)
            raise
        new_group = await self.get_group(principal, group.id)
        note(None, new_group)
        return new_group

    async def change_group(
        self,
        principal: Principal,
        group_id: UUID,
        name: str,
        external_id: str | None,
        *,
        added: frozenset[UUID],
        removed: frozenset[UUID],
    ) -> ProvisionedGroup:
        """Change a group. Only added and removed members change, so that concurrent changes do not undo each other.

        Raises Denied, NotFound, Invalid (also for a new name of a group that gives a role), Conflict.
        """
        require_admin(principal, _DEED)
        before = await self.get_group(principal, group_id)
        group, renamed = before.group, checked_group(name)
        if renamed != group.name:
            check_roleless(principal, group)
        if added or renamed != group.name:
            require_person_for_role_name(principal, renamed)
        await self._change_members(group, added, removed)
        if (renamed, external_id) != (group.name, group.external_id):
            record_change = replace(group, name=renamed, external_id=_checked_id(external_id), updated_at=self._now())
            await self._group_service.write(group, record_change)
        after = await self.get_group(principal, group_id)
        note(before, after)
        return after

    async def remove_group(self, principal: Principal, group_id: UUID) -> None:
        """Remove a group with all memberships.

        Raises Denied, NotFound, Invalid for a group that gives a role, and Conflict for one whose members must approve
        or need a review.
        """
        require_admin(principal, _DEED)
        before = await self.get_group(principal, group_id)
        check_roleless(principal, before.group)
        await self._group_service.delete(before.group)
        note(before, None)

    async def _merge(self, account: Account, user: ProvisionedUser) -> Account:
        current = account.principal
        if not 1 <= len(user.user_name) <= 255 or any(ord(character) < 32 for character in user.user_name):
            raise Invalid("userName: must have 1 to 255 characters and no control characters", field="userName")
        if not is_plain(user.user_name):
            raise Invalid(
                "userName: it has characters that look like others (full-width, ligatures, invisible)", field="userName"
            )
        same = await self._principals.find(current.org_id, PrincipalFilter(user_name=user.user_name), Page(limit=2))
        if any(other.principal.id != current.id for other in same.items):
            raise Conflict(f"userName: {user.user_name!r} is already in use", field="userName")
        principal = replace(
            current,
            email=checked_email(user.email) if user.email else fold_name(user.user_name),
            name=checked_name(user.name or user.user_name),
            status=_status(account, user.active),
        )
        external_id = _checked_id(user.external_id)
        return replace(account, principal=principal, user_name=user.user_name, external_id=external_id)

    async def _with_members(self, group: UserGroup) -> ProvisionedGroup:
        return ProvisionedGroup(group, await self._groups.members(group, GroupSource.SCIM))

    async def _change_members(self, group: UserGroup, added: frozenset[UUID], removed: frozenset[UUID]) -> None:
        if len(added) + len(removed) > MAX_MEMBERS:
            raise Invalid(f"members: at most {MAX_MEMBERS} can change in one request", field="members")
        if added or removed:
            await self._groups.change_members(group, added, removed, GroupSource.SCIM)
            await self._signal_changes(added | removed)

    async def _signal_changes(self, record_change: frozenset[UUID]) -> None:
        for key in sorted(record_change):
            await self._signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(key))


def _known_by(account: Account) -> tuple[str | None, ...]:
    """Return what a login finds this account by. An external id binds the first login of an invited account."""
    email, is_invited = account.principal.email, account.principal.status is PrincipalStatus.INVITED
    return email, fold_name(account.user_name or email), account.external_id if is_invited else None


def _status(account: Account, active: bool) -> PrincipalStatus:
    """Return the status. A reactivated account is invited, unless its user can already log in."""
    current = account.principal
    if not active:
        return PrincipalStatus.INACTIVE
    if current.status is not PrincipalStatus.INACTIVE:
        return current.status
    has_logged_in = account.password_hash or current.issuer or account.last_login_at
    return PrincipalStatus.ACTIVE if has_logged_in else PrincipalStatus.INVITED


def _checked_id(external_id: str | None) -> str | None:
    if external_id is not None and not 1 <= len(external_id) <= 255:
        raise Invalid("externalId: must have 1 to 255 characters", field="externalId")
    return external_id
