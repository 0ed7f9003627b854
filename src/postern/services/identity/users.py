"""Users: what admins change of them, and what everybody sees."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from uuid import uuid4

from postern.domain.identity.names import fold_name
from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import Account, GroupSource, Principal, PrincipalKind, PrincipalStatus, Role
from postern.domain.lists import Listed, Page
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid, NotFound
from postern.services.identity.accounts import Accounts
from postern.services.identity.logins.logins import Logins
from postern.services.identity.logins.passwords import check_strength
from postern.services.server.trail import changed as note
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.identity_ports import PrincipalFilter, PrincipalStore

__all__ = ["OwnProfile", "PrincipalFilter", "UserFields", "Users"]

_EMAIL = re.compile(r"[^@\s\x00-\x1f]+@[^@\s\x00-\x1f]+")
_ROLES = {Role.ADMIN: "administrator", Role.AUDITOR: "auditor"}
_GROUP = re.compile(r"[^\x00-\x1f\x7f]{1,128}")


@dataclass(frozen=True, slots=True)
class UserFields:
    """What an admin sets of a user. None leaves as it is, where there is something already."""

    email: str | None = None
    name: str | None = None
    status: PrincipalStatus | None = None
    groups: tuple[str, ...] | None = None
    password: Secret | None = None


@dataclass(frozen=True, slots=True)
class OwnProfile:
    """Somebody's own account, and where it is; `alone` says that the server has no other organisation."""

    account: Account
    organisation: Organisation
    alone: bool


class Users:
    def __init__(
        self,
        store: PrincipalStore,
        accounts: Accounts,
        logins: Logins,
        signals: Signals,
        now: Clock,
    ) -> None:
        self._store = store
        self._accounts = accounts
        self._logins = logins
        self._signals = signals
        self._now = now

    async def find(self, principal: Principal, wanted: PrincipalFilter, page: Page) -> Listed[Account]:
        """For admins and auditors; others find only themselves."""
        if principal.sees_all:
            if wanted.group is not None:
                wanted = replace(wanted, group=unicodedata.normalize("NFC", wanted.group))
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

    async def profile(self, principal: Principal) -> OwnProfile:
        """Raises NotFound."""
        found = await self._store.profile(principal.org_id, principal.id)
        if found is None:
            raise NotFound("this account was deleted")
        account, organisation, organisations = found
        return OwnProfile(account, organisation, organisations == 1)

    async def create(self, principal: Principal, fields: UserFields) -> Account:
        """Without a password the user is invited: the first login by the identity provider makes the account theirs.

        Raises Denied, Invalid, Conflict.
        """
        require_admin(principal, "change users")
        email = checked_email(fields.email or "")
        if fields.password is not None:
            require_person(principal, "set passwords")
            check_strength(fields.password, "password")
        key = uuid4()
        user = Principal(
            id=key,
            org_id=principal.org_id,
            subject=str(key),
            email=email,
            name=checked_name(fields.name or email),
            groups=checked_groups(fields.groups or ()),
            status=fields.status or (PrincipalStatus.INVITED if fields.password is None else PrincipalStatus.ACTIVE),
            role_groups=principal.role_groups,
        )
        require_person_for_role(principal, None, user)
        await self._store.add(Account(user, verified=True), self._now())
        if fields.password is not None:
            await self._accounts.set_password(user, fields.password, "password")
        made = await self.get(principal, user.subject)
        note(None, made)
        return made

    async def update(self, principal: Principal, key: str, fields: UserFields) -> Account:
        """Raises Denied, NotFound, Invalid. A changed password ends the user's logins."""
        require_admin(principal, "change users")
        account = await self.get(principal, key)
        current = account.principal
        if fields.email is not None and fold_name(fields.email) != current.email:
            raise Invalid("email: cannot be changed", field="email")
        if fields.password is not None:
            require_person(principal, "set passwords")
        changed = replace(
            current,
            name=current.name if fields.name is None else checked_name(fields.name),
            status=fields.status or _status(current.status, fields.password),
            groups=current.groups if fields.groups is None else checked_groups(fields.groups),
        )
        if current.id == principal.id and not changed.is_active:
            raise Invalid("status: you cannot deactivate yourself", field="status")
        if current.id == principal.id and not changed.is_admin:
            raise Invalid(f"groups: you cannot leave the group {changed.role_groups.admin!r} yourself", field="groups")
        require_person_for_role(principal, current, changed)
        by_hand = None if fields.groups is None else await self._by_hand(current, changed.groups)
        # What may be refused comes before anything is changed, and what is changed is told at once.
        hashed = None
        if fields.password is not None:
            hashed = await self._accounts.hashed(current, fields.password, "password")
        await self._store.update(replace(account, principal=changed), self._now(), groups=by_hand)
        await self.stands_changed(changed)
        if hashed is not None:
            await self._accounts.keep_password(current, hashed)
        updated = await self.get(principal, changed.subject)
        note(account, updated)
        return updated

    async def remove(self, principal: Principal, key: str) -> None:
        """With logins, keys and credentials; what they run ends at once.

        Raises Denied, NotFound, and Invalid for oneself and for the last active administrator.
        """
        require_admin(principal, "delete users")
        account = await self.get(principal, key)
        if account.principal.id == principal.id:
            raise Invalid("you cannot delete yourself; ask another administrator")
        await self._store.remove(account.principal.id)
        await self._signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(account.principal.id))
        note(account, None)

    async def _by_hand(self, principal: Principal, wanted: frozenset[str]) -> frozenset[str]:
        """What is to be given by hand, so that they are in the groups `wanted`. Raises Invalid for a group that
        somebody else gives and that is not wanted."""
        provider = await self._store.groups_by(principal.id, GroupSource.PROVIDER)
        scim = await self._store.groups_by(principal.id, GroupSource.SCIM)
        for names, giver in ((provider, "the identity provider"), (scim, "SCIM")):
            if names - wanted:
                raise Invalid(
                    f"groups: {min(names - wanted)!r} is given by {giver}; take it away there", field="groups"
                )
        before = await self._store.groups_by(principal.id, GroupSource.MANUAL)
        return wanted - ((provider | scim) - before)

    async def stands_changed(self, principal: Principal) -> None:
        """Status or groups are others now: who may not be here any more is out at once, with what they run."""
        if not principal.is_active:
            await self._logins.end_all(principal.id)
        await self._signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(principal.id))


def checked_email(email: str) -> str:
    """Return it as addresses are compared. Raises Invalid, also for one that looks like another one."""
    folded = fold_name(email)
    if email and not folded:
        raise Invalid(
            f"email: {email!r} has characters that look like others (full-width, ligatures, invisible); write it with "
            "plain ones",
            field="email",
        )
    if len(folded) > 320 or not _EMAIL.fullmatch(folded):
        raise Invalid(f"email: {email!r} is not an e-mail address", field="email")
    return folded


def checked_name(name: str) -> str:
    """Raises Invalid."""
    if not 1 <= len(name) <= 255 or any(ord(character) < 32 for character in name):
        raise Invalid("name: must have 1 to 255 characters and no control characters", field="name")
    return name


def checked_groups(names: Iterable[str], field: str = "groups") -> frozenset[str]:
    """In Unicode's form C, so that a name has one spelling; compared exactly from then on. Raises Invalid."""
    composed = frozenset(unicodedata.normalize("NFC", name) for name in names)
    for name in composed:
        if not _GROUP.fullmatch(name) or name != name.strip():
            raise Invalid(
                f"{field}: {name!r} must have 1 to 128 characters, no control characters, and no blanks around it",
                field=field,
            )
    return composed


def require_admin(principal: Principal, deed: str) -> None:
    """Raises Denied."""
    if not principal.is_admin:
        raise Denied(f"only administrators may {deed}")


def require_reader(principal: Principal, what: str) -> None:
    """Raises Denied."""
    if not principal.sees_all:
        raise Denied(f"only administrators and auditors may see {what}")


def require_person(principal: Principal, deed: str) -> None:
    """Programs may not give themselves, or one another, a new way in. Raises Denied."""
    if principal.kind is not PrincipalKind.USER:
        raise Denied(f"an API key may not {deed}; log in as an administrator")


def require_person_for_role(actor: Principal, before: Principal | None, after: Principal) -> None:
    """Let only people make somebody an administrator or auditor, or bring one back. Raises Denied.

    `before` is None where `after` is new. What a leaked key did would otherwise outlive its revocation: in an account
    with the role, and with the login that the account has.
    """
    gained = after.role is not Role.STANDARD and (before is None or before.role is not after.role)
    shut_out = PrincipalStatus.INACTIVE
    revived = before is not None and before.status is shut_out and after.status is not shut_out
    revived = revived and after.role is not Role.STANDARD  # invited, too: the first login makes it active
    if gained or revived:
        require_person(actor, f"{'make' if gained else 'activate'} an {_ROLES[after.role]}")


def require_person_for_role_name(actor: Principal, name: str) -> None:
    """The same for giving a group, with all who are in it, the name that gives a role. Raises Denied."""
    if name in (actor.role_groups.admin, actor.role_groups.auditor):
        require_person(actor, f"name a group {name!r}, which gives a role")


def _status(current: PrincipalStatus, password: Secret | None) -> PrincipalStatus:
    """A first password lets somebody in who was invited."""
    return PrincipalStatus.ACTIVE if password is not None and current is PrincipalStatus.INVITED else current
