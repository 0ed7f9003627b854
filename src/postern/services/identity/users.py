"""Users: what admins change of them, and what everybody sees."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from uuid import uuid4

from postern.domain.lists import Listed, Page
from postern.domain.principal import Account, GroupSource, Principal, PrincipalKind, PrincipalStatus
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid, NotFound
from postern.services.identity.accounts import Accounts
from postern.services.identity.logins import Logins
from postern.services.identity.passwords import check_strength
from postern.services.server.trail import changed as noted
from postern.store.ports import Clock, PrincipalFilter, PrincipalStore, Signals, Topic

__all__ = ["PrincipalFilter", "UserFields", "Users"]

_EMAIL = re.compile(r"[^@\s\x00-\x1f]+@[^@\s\x00-\x1f]+")
_GROUP = re.compile(r"[^\x00-\x1f\x7f]{1,128}")


@dataclass(frozen=True, slots=True)
class UserFields:
    """What an admin sets of a user. None leaves as it is, where there is something already."""

    email: str | None = None
    name: str | None = None
    status: PrincipalStatus | None = None
    groups: tuple[str, ...] | None = None
    password: Secret | None = None


class Users:
    def __init__(self, store: PrincipalStore, accounts: Accounts, logins: Logins, signals: Signals, now: Clock) -> None:
        self._store = store
        self._accounts = accounts
        self._logins = logins
        self._signals = signals
        self._now = now

    async def find(self, principal: Principal, wanted: PrincipalFilter, page: Page) -> Listed[Account]:
        """For admins and auditors; others find only themselves."""
        if principal.sees_all:
            return await self._store.find(principal.org_id, wanted, page)
        own = await self._store.get(principal.org_id, principal.id)
        return Listed([own] if own else [], 1 if own else 0)

    async def get(self, principal: Principal, key: str) -> Account:
        """By subject or e-mail. Raises NotFound."""
        account = await self._store.by_subject_or_email(principal.org_id, PrincipalKind.USER, key)
        if account is None or not (principal.sees_all or account.principal.id == principal.id):
            raise NotFound(f"there is no user {key!r}")
        return account

    async def own(self, principal: Principal) -> Account:
        """One's own account, of whatever kind. Raises NotFound."""
        account = await self._store.get(principal.org_id, principal.id)
        if account is None:
            raise NotFound("this account was deleted")
        return account

    async def create(self, principal: Principal, fields: UserFields) -> Account:
        """Raises Denied, Invalid, Conflict."""
        _require_admin(principal)
        email = checked_email(fields.email or "")
        if fields.password is not None:
            check_strength(fields.password, "password")
        key = uuid4()
        user = Principal(
            id=key,
            org_id=principal.org_id,
            subject=str(key),
            email=email,
            name=checked_name(fields.name or email),
            groups=checked_groups(fields.groups or ()),
            status=fields.status or PrincipalStatus.ACTIVE,
            role_groups=principal.role_groups,
        )
        await self._store.add(Account(user), self._now())
        if fields.password is not None:
            await self._accounts.set_password(user, fields.password, "password")
        made = await self.get(principal, user.subject)
        noted(None, made)
        return made

    async def update(self, principal: Principal, key: str, fields: UserFields) -> Account:
        """Raises Denied, NotFound, Invalid. A changed password ends the user's logins."""
        _require_admin(principal)
        account = await self.get(principal, key)
        current = account.principal
        if fields.email is not None and fields.email.lower() != current.email:
            raise Invalid("email: cannot be changed", field="email")
        changed = replace(
            current,
            name=current.name if fields.name is None else checked_name(fields.name),
            status=fields.status or current.status,
            groups=current.groups if fields.groups is None else checked_groups(fields.groups),
        )
        if current.id == principal.id and not changed.is_active:
            raise Invalid("status: you cannot deactivate yourself", field="status")
        if current.id == principal.id and not changed.is_admin:
            raise Invalid(f"groups: you cannot leave the group {changed.role_groups.admin!r} yourself", field="groups")
        if fields.password is not None:
            await self._accounts.set_password(current, fields.password, "password")
        await self._store.update(replace(account, principal=changed), self._now())
        if fields.groups is not None:
            await self._store.set_groups(changed.id, changed.groups, GroupSource.MANUAL)
        await self.stands_changed(changed)
        after = await self.get(principal, changed.subject)
        noted(account, after)
        return after

    async def stands_changed(self, principal: Principal) -> None:
        """Status or groups are others now: who may not be here any more is out at once, with what they run."""
        if not principal.is_active:
            await self._logins.end_all(principal.id)
        await self._signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(principal.id))


def checked_email(email: str) -> str:
    """In lower case. Raises Invalid."""
    lowered = email.lower()
    if len(lowered) > 320 or not _EMAIL.fullmatch(lowered):
        raise Invalid(f"email: {email!r} is not an e-mail address", field="email")
    return lowered


def checked_name(name: str) -> str:
    """Raises Invalid."""
    if not 1 <= len(name) <= 255 or any(ord(character) < 32 for character in name):
        raise Invalid("name: must have 1 to 255 characters and no control characters", field="name")
    return name


def checked_groups(names: Iterable[str]) -> frozenset[str]:
    """Raises Invalid."""
    for name in names:
        if not _GROUP.fullmatch(name) or name != name.strip():
            raise Invalid(
                f"groups: {name!r} must have 1 to 128 characters, no control characters, and no blanks around it",
                field="groups",
            )
    return frozenset(names)


def _require_admin(principal: Principal) -> None:
    if not principal.is_admin:
        raise Denied("only administrators may change users")
