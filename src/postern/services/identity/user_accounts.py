"""Users: what administrators change of them, and what all users see."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from postern.domain.identity.names import fold_name
from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import Account, GroupSource, Principal, PrincipalFilter, PrincipalStatus
from postern.domain.lists import Listed, Page
from postern.domain.secret import Secret
from postern.errors import Invalid, NotFound
from postern.services.identity.accounts import Accounts
from postern.services.identity.logins.logins import Logins
from postern.services.identity.users import (
    checked_email,
    checked_groups,
    checked_name,
    require_person,
    require_person_for_role,
)
from postern.services.named_resources import ResourceService
from postern.services.server.audit_context import record_change as note
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.identity_ports import PrincipalStore
from postern.store.ports.named_resource_ports import NamedResourceStore


@dataclass(frozen=True, slots=True)
class OwnProfile:
    """A user's own account and organisation; `alone` says that the server has no other organisation."""

    account: Account
    organisation: Organisation
    alone: bool


class AccountService(ResourceService[Account]):
    """What users and service accounts have in common.

    The field `name` is a display name; an account is addressed by its e-mail address or its subject, which never
    change. A replacement keeps the status, so that it does not reactivate a user.
    """

    async def merge(self, current: Account, base: Account, fields: Mapping[str, Any]) -> Account:
        if base is not current:
            fields = {"name": current.name, "groups": await self.groups_to_keep(current), **fields}
        return await super().merge(current, current, fields)

    async def groups_to_keep(self, account: Account) -> frozenset[str]:
        """Return the groups that a replacement without groups keeps."""
        return frozenset()

    def check_name(self, name: str) -> None:
        checked_name(name)

    async def authorize(self, principal: Principal, before: Account | None, after: Account | None) -> None:
        if after is not None:
            record_change = replace(after.principal, role_groups=principal.role_groups)
            require_person_for_role(principal, before.principal if before else None, record_change)

    async def announce(self, before: Account | None, after: Account | None) -> None:
        """Signal the change, so that sessions of a deactivated account end at once."""
        if before is not None:
            await self._signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(before.id))


class Users(AccountService):
    noun = "user"

    def __init__(
        self,
        *,
        store: NamedResourceStore[Account],
        principals: PrincipalStore,
        accounts: Accounts,
        logins: Logins,
        signals: Signals,
        now: Clock,
    ) -> None:
        super().__init__(store, signals, now)
        self._principals = principals
        self._accounts = accounts
        self._logins = logins

    def blank(self, key: UUID, org_id: UUID) -> Account:
        invited = PrincipalStatus.INVITED
        return Account(Principal(key, org_id, str(key), email="", name="", status=invited), verified=True)

    async def search(self, principal: Principal, where: PrincipalFilter, page: Page) -> Listed[Account]:
        """Return users, for admins and auditors; others find only themselves."""
        if principal.sees_all:
            if where.group is not None:
                where = replace(where, group=unicodedata.normalize("NFC", where.group))
            return await self._principals.find(principal.org_id, where, page)
        account = await self._principals.get(principal.org_id, principal.id)
        return Listed([account] if account else [], 1 if account else 0)

    async def get(self, principal: Principal, name_or_id: str) -> Account:
        """Return a user by e-mail address, subject or identifier. Raises NotFound, also for one that the principal
        cannot see."""
        account = await self._store.get(principal.org_id, name_or_id)
        if account is None or not (principal.sees_all or account.id == principal.id):
            raise NotFound(f"there is no user {name_or_id!r}")
        return account

    async def own(self, principal: Principal) -> Account:
        """Return the caller's own account, of any kind. Raises NotFound."""
        account = await self._principals.get(principal.org_id, principal.id)
        if account is None:
            raise NotFound("this account was deleted")
        return account

    async def profile(self, principal: Principal) -> OwnProfile:
        """Return the caller's own profile. Raises NotFound."""
        row = await self._principals.profile(principal.org_id, principal.id)
        if row is None:
            raise NotFound("this account was deleted")
        account, organisation, organisations = row
        return OwnProfile(account, organisation, organisations == 1)

    async def resolve(self, current: Account, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Resolve the fields. Without a password a new user is invited: the first login by the identity provider takes
        the account over.

        A first password activates an invited user.
        """
        before, password = current.principal, fields.get("password")
        email = before.email or checked_email(fields.get("email", ""))
        if fold_name(fields.get("email", email)) != email:
            raise Invalid("email: cannot be changed", field="email")
        is_first = password is not None and before.status is PrincipalStatus.INVITED
        principal = replace(
            before,
            email=email,
            name=fields.get("name") or before.name or email,
            status=fields.get("status", PrincipalStatus.ACTIVE if is_first else before.status),
            groups=checked_groups(fields["groups"]) if "groups" in fields else before.groups,
        )
        if password is None:
            return {"principal": principal}
        return {"principal": principal, "password_hash": await self._hash_password(principal, password)}

    async def _hash_password(self, principal: Principal, password: Secret) -> str:
        return await self._accounts.hash_password(principal, password, "password")

    async def groups_to_keep(self, account: Account) -> frozenset[str]:
        """Return the groups that other sources gave; only those remove them."""
        provider = await self._principals.groups_by(account.id, GroupSource.PROVIDER)
        return provider | await self._principals.groups_by(account.id, GroupSource.SCIM)

    async def authorize(self, principal: Principal, before: Account | None, after: Account | None) -> None:
        is_own = before is not None and before.id == principal.id
        if is_own and after is None:
            raise Invalid("you cannot delete yourself; ask another administrator")
        if after is not None:
            if after.password_hash != (before.password_hash if before else None):
                require_person(principal, "set passwords")
            if is_own and not after.principal.is_active:
                raise Invalid("status: you cannot deactivate yourself", field="status")
            if is_own and not after.principal.is_admin:
                admins = after.principal.role_groups.admin
                raise Invalid(f"groups: you cannot leave the group {admins!r} yourself", field="groups")
        await super().authorize(principal, before, after)

    async def write(self, before: Account | None, after: Account) -> Account:
        """Write the user. A changed password ends the user's logins."""
        updated = await super().write(before, after)
        if before is not None and after.password_hash not in (None, before.password_hash):
            await self._accounts.store_password(after.principal, after.password_hash)
            note(before, updated)
        return updated

    async def announce(self, before: Account | None, after: Account | None) -> None:
        if before is not None and after is not None and not after.principal.is_active:
            await self._logins.end_all(after.id)
        await super().announce(before, after)
