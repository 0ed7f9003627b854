"""From what an identity provider says to an account here: found, made at the first login, or refused.

An account is found by issuer and subject alone. One that still waits for its first login (invited) is also found by
the external identifier that provisioning gave it, when that is the subject, or by the e-mail address, when the
provider vouches for it: no account that somebody has used is ever taken over by a name (OpenID Connect Core 5.7).
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID, uuid4

from postern.domain.identity import Identity
from postern.domain.lists import Page
from postern.domain.principal import Account, GroupSource, Principal, PrincipalStatus
from postern.errors import Conflict, Denied
from postern.services.identity.users import checked_email, checked_groups, checked_name
from postern.store.ports import Clock, OrganisationStore, PrincipalFilter, PrincipalStore, Signals, Topic


class SignIn:
    def __init__(self, store: PrincipalStore, organisations: OrganisationStore, signals: Signals, now: Clock) -> None:
        self._store = store
        self._organisations = organisations
        self._signals = signals
        self._now = now

    async def account_of(self, org_id: UUID, identity: Identity) -> Account:
        """With profile and groups as the provider gives them now. Raises Denied with a reason for the person."""
        account = await self._store.by_subject(org_id, identity.issuer, identity.subject)
        if account is None:
            account = await self._invited(org_id, identity) or await self._new(org_id, identity)
        if account.principal.status is PrincipalStatus.INACTIVE:
            raise Denied("this account is inactive; ask an administrator")
        await self._update(account, identity)
        await self._synchronise(account.principal, identity.groups)
        found = await self._store.get(org_id, account.principal.id)
        if found is None:
            raise Denied("this account was deleted while you logged in")
        return found

    async def _invited(self, org_id: UUID, identity: Identity) -> Account | None:
        account = await self._provisioned(org_id, identity)
        if account is not None:
            return account
        if identity.email:
            account = await self._store.by_email(org_id, checked_email(identity.email))
        if account is None:
            return None
        if account.principal.status is not PrincipalStatus.INVITED or not identity.email_verified:
            raise Denied(
                f"there is another account with the e-mail address {identity.email}; "
                "ask an administrator to remove it, or to invite that address again"
            )
        return account

    async def _provisioned(self, org_id: UUID, identity: Identity) -> Account | None:
        """Whom the provider's own provisioning (SCIM) told of, by its identifier of them, before they came."""
        wanted = PrincipalFilter(external_id=identity.subject, status=PrincipalStatus.INVITED)
        found = (await self._store.find(org_id, wanted, Page(limit=2))).items
        return found[0] if len(found) == 1 else None

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
            email=checked_email(identity.email),
            name=_name(identity),
            role_groups=roles,
        )
        account = Account(principal, verified=identity.email_verified, picture=identity.picture)
        first = replace(account, principal=replace(principal, groups=frozenset({roles.admin})))
        try:
            if not await self._store.add_first(first, self._now()):
                await self._store.add(account, self._now())
        except Conflict:
            raise Denied(
                "this subject or e-mail address belongs to an account of another identity provider; "
                "ask an administrator"
            ) from None
        return account

    async def _update(self, account: Account, identity: Identity) -> None:
        principal = replace(
            account.principal,
            subject=identity.subject,
            issuer=identity.issuer,
            email=checked_email(identity.email or account.principal.email),
            name=_name(identity),
            status=PrincipalStatus.ACTIVE,
        )
        changed = replace(
            account,
            principal=principal,
            verified=identity.email_verified,
            picture=identity.picture,
            last_login_at=self._now(),
        )
        try:
            await self._store.update(changed, self._now())
        except Conflict:
            raise Denied("another account has this e-mail address or subject; ask an administrator") from None

    async def _synchronise(self, principal: Principal, groups: frozenset[str] | None) -> None:
        """What the provider gives replaces what it, or somebody by hand, gave before. The one exception is the
        administrators' group when it was given by hand, so that no provider can lock everybody out."""
        if groups is None:
            return
        by_hand = await self._store.groups_by(principal.id, GroupSource.MANUAL)
        kept = by_hand & {principal.role_groups.admin}
        if by_hand != kept:
            await self._store.set_groups(principal.id, kept, GroupSource.MANUAL)
        if groups != await self._store.groups_by(principal.id, GroupSource.PROVIDER):
            await self._store.set_groups(principal.id, checked_groups(groups), GroupSource.PROVIDER)
            await self._signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(principal.id))


def _name(identity: Identity) -> str:
    """Providers may give none, or one with line ends in it."""
    shown = " ".join(identity.name.split())[:255]
    return checked_name(shown or identity.email or identity.subject)
