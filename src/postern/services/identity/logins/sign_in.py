"""Sign-in by an identity provider: its claims find an account, create it at the first login, or are denied.

An account is found by issuer and subject alone. An invited account, which waits for its first login, is also found by
the external identifier from provisioning, when that is the subject, or by the e-mail address, when the provider has
verified it. An account in use is never taken over by a name (OpenID Connect Core 5.7).
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime
from uuid import UUID, uuid4

from postern.domain.identity.identity import Identity
from postern.domain.identity.principal import (
    Account,
    GroupSource,
    Principal,
    PrincipalFilter,
    PrincipalKind,
    PrincipalStatus,
)
from postern.domain.lists import Page
from postern.errors import Conflict, Denied, Invalid
from postern.services.identity.users import checked_email, checked_groups, checked_name
from postern.services.server.audit_context import record_change
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.identity_ports import PrincipalStore
from postern.store.ports.server_ports import OrganisationStore

log = logging.getLogger(__name__)

_MAX_ISSUER, _MAX_SUBJECT = 512, 255  # characters, as the store has them
_LOWER = {capital: capital + 32 for capital in range(ord("A"), ord("Z") + 1)}  # letters of ASCII and no others


class SignIn:
    def __init__(self, store: PrincipalStore, organisations: OrganisationStore, signals: Signals, now: Clock) -> None:
        self._store = store
        self._organisations = organisations
        self._signals = signals
        self._now = now

    async def account_of(self, org_id: UUID, identity: Identity) -> Account:
        """Return the account with profile and groups as the provider gives them now. Raises Denied with a reason for
        the user."""
        if not _is_complete(identity):
            raise Denied("the identity provider sent no valid user identifier; ask an administrator")
        linked = await self._store.by_subject(org_id, identity.issuer, identity.subject)
        before = linked or await self._find_invited(org_id, identity)
        account = before or await self._new(org_id, identity)
        found_account = await self._confirm(account, identity, self._now())
        record_change(before, found_account)
        return found_account

    async def reconfirm(self, account: Account, identity: Identity) -> Account:
        """Return the same account after the provider was asked again, which is not a new login. Raises Denied."""
        principal = account.principal
        if (identity.issuer, identity.subject) != (principal.issuer, principal.subject):
            raise Denied("the identity provider answered for a different user; log in again")
        if principal.status is not PrincipalStatus.ACTIVE:
            raise _inactive()
        return await self._confirm(account, identity, account.last_login_at)

    async def _confirm(self, account: Account, identity: Identity, login_at: datetime | None) -> Account:
        principal = account.principal
        if principal.kind is not PrincipalKind.USER:
            raise Denied("this subject belongs to a service account; ask an administrator")
        if principal.status is PrincipalStatus.INACTIVE:
            raise _inactive()
        await self._update(account, identity, login_at)
        await self._synchronise(principal, identity.groups)
        found_account = await self._store.get(principal.org_id, principal.id)
        if found_account is None:
            raise Denied("this account was deleted while you logged in")
        return found_account

    async def _find_invited(self, org_id: UUID, identity: Identity) -> Account | None:
        account = await self._find_provisioned(org_id, identity)
        if account is not None:
            return account
        if identity.email:
            account = await self._store.by_email(org_id, identity.email)
        if account is None:
            return None
        if (account.principal.issuer, account.principal.subject) == (identity.issuer, identity.subject):
            return account  # created by a concurrent login of the same user
        # The look-up folds more than ASCII's capitals: an address with a Kelvin sign finds the one with a k.
        same = account.principal.email == identity.email.translate(_LOWER)
        if not same or account.principal.status is not PrincipalStatus.INVITED or not identity.email_verified:
            raise Denied(
                "there is another account with your e-mail address; ask an administrator to remove it, or to invite "
                "that address again, and make sure that the identity provider has verified it"
            )
        # The provider's login replaces the local one.
        await self._store.set_password(account.principal.id, None, self._now())
        return account

    async def _find_provisioned(self, org_id: UUID, identity: Identity) -> Account | None:
        """Return the invited account that the provider's own provisioning (SCIM) created under this identifier."""
        principal_filter = PrincipalFilter(external_id=identity.subject, status=PrincipalStatus.INVITED)
        accounts = (await self._store.find(org_id, principal_filter, Page(limit=2))).items
        return accounts[0] if len(accounts) == 1 else None

    async def _new(self, org_id: UUID, identity: Identity) -> Account:
        organisation = await self._organisations.get(org_id)
        if organisation is None:
            raise Denied("this organisation was deleted")
        roles = organisation.role_groups
        principal = Principal(
            id=uuid4(),
            org_id=org_id,
            subject=identity.subject,
            issuer=identity.issuer,
            email=_email(identity),
            name=_name(identity),
            role_groups=roles,
        )
        account = Account(principal, verified=identity.email_verified, picture=identity.picture)
        first = replace(account, principal=replace(principal, groups=frozenset({roles.admin})))
        try:
            if not await self._store.add_first(first, self._now()):
                await self._store.add(account, self._now())
        except Conflict:
            # A concurrent login of the same user was faster.
            same = await self._store.by_subject(org_id, identity.issuer, identity.subject)
            if same is not None:
                return same
            raise Denied(
                "this subject or e-mail address belongs to an account of another identity provider; "
                "ask an administrator"
            ) from None
        return account

    async def _update(self, account: Account, identity: Identity, login_at: datetime | None) -> None:
        """Update the account only while its status is what was read, so that a concurrent deactivation wins."""
        current = account.principal
        # An unverified address does not replace a verified one.
        keeps = not identity.email or (account.verified and not identity.email_verified)
        principal = replace(
            current,
            subject=identity.subject,
            issuer=identity.issuer,
            email=current.email if keeps else _email(identity),
            name=_name(identity) if identity.name else current.name,
            status=PrincipalStatus.ACTIVE,
        )
        updated = replace(
            account,
            principal=principal,
            verified=account.verified if keeps else identity.email_verified,
            picture=identity.picture,
            last_login_at=login_at,
        )
        try:
            is_written = await self._store.confirm(account, updated, self._now())
        except Conflict:
            raise Denied("another account has this e-mail address or subject; ask an administrator") from None
        if not is_written:
            raise Denied("this account was changed while you logged in; log in again")

    async def _synchronise(self, principal: Principal, groups: frozenset[str] | None) -> None:
        """Replace the groups that the provider or an administrator gave before.

        The exception is the administrators' group when it was given manually, so that no provider can lock everybody
        out.
        """
        if groups is None:
            return
        valid_groups = frozenset(name for name in groups if _is_group(name))
        if len(valid_groups) < len(groups):
            log.warning(
                "groups with invalid names were ignored: user=%s count=%d", principal.email, len(groups - valid_groups)
            )
        by_hand = await self._store.groups_by(principal.id, GroupSource.MANUAL)
        manual_groups = by_hand & {principal.role_groups.admin}
        before = await self._store.groups_by(principal.id, GroupSource.PROVIDER)
        if by_hand == manual_groups and valid_groups == before:
            return
        try:
            if by_hand != manual_groups:
                await self._store.set_groups(principal.id, manual_groups, GroupSource.MANUAL)
            if valid_groups != before:
                await self._store.set_groups(principal.id, valid_groups, GroupSource.PROVIDER)
        finally:  # also when only the first of them was done
            await self._signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(principal.id))


def _is_complete(identity: Identity) -> bool:
    names = ((identity.issuer, _MAX_ISSUER), (identity.subject, _MAX_SUBJECT))
    return all(1 <= len(name) <= longest and name.isprintable() for name, longest in names)


def _email(identity: Identity) -> str:
    if not identity.email:
        raise Denied(
            "the identity provider sent no e-mail address; ask an administrator to make it send the claim email"
        )
    try:
        identity.email.encode()
        return checked_email(identity.email)
    except (Invalid, UnicodeEncodeError):
        raise Denied("the identity provider sent an invalid e-mail address; ask an administrator") from None


def _name(identity: Identity) -> str:
    """Return a printable name. Providers may give none, or one with line ends in it."""
    printable = "".join(character if character.isprintable() else " " for character in identity.name)
    name = " ".join(printable.split())[:255]
    return checked_name(name or identity.email[:255] or identity.subject)


def _is_group(name: str) -> bool:
    """Return whether the name is valid. One with blanks around it is left out, never trimmed, since that is another
    name."""
    try:
        checked_groups([name])
        name.encode()
    except (Invalid, UnicodeEncodeError):
        return False
    return True


def _inactive() -> Denied:
    return Denied("this account is inactive; ask an administrator")
