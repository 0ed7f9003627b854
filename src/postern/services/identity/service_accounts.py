"""Service accounts: programs that act by themselves, by API keys that belong to them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from uuid import uuid4

from postern.domain.identity.principal import Account, Principal, PrincipalKind, PrincipalStatus
from postern.domain.lists import Listed, Page
from postern.errors import Conflict, Invalid, NotFound
from postern.services.identity.users import (
    checked_groups,
    checked_name,
    require_admin,
    require_person_for_role,
    require_reader,
)
from postern.services.server.trail import changed as note
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.identity_ports import PrincipalFilter, PrincipalStore

_SUBJECT = re.compile(r"[\x21-\x2e\x30-\x7e]{1,255}")  # no "/": it is a part of a path


@dataclass(frozen=True, slots=True)
class ServiceAccountFields:
    """None leaves as it is, where there is something already."""

    name: str | None = None
    status: PrincipalStatus | None = None
    groups: tuple[str, ...] | None = None


class ServiceAccounts:
    def __init__(self, store: PrincipalStore, signals: Signals, now: Clock) -> None:
        self._store = store
        self._signals = signals
        self._now = now

    async def find(self, principal: Principal, page: Page) -> Listed[Account]:
        """By subject. Raises Denied for all but admins and auditors."""
        require_reader(principal, "service accounts")
        return await self._store.find(principal.org_id, PrincipalFilter(kind=PrincipalKind.SERVICE_ACCOUNT), page)

    async def get(self, principal: Principal, subject: str) -> Account:
        """Raises Denied, NotFound."""
        require_reader(principal, "service accounts")
        return await self._get(principal, subject)

    async def create(self, principal: Principal, subject: str, fields: ServiceAccountFields) -> Account:
        """Raises Denied, Invalid, Conflict."""
        require_admin(principal, "change service accounts")
        if not _SUBJECT.fullmatch(subject):
            raise Invalid(
                "subject: must have 1 to 255 printable ASCII characters, no blank and no slash", field="subject"
            )
        made = Principal(
            id=uuid4(),
            org_id=principal.org_id,
            subject=subject,
            email=subject,
            name=checked_name(fields.name or subject),
            groups=checked_groups(fields.groups or ()),
            kind=PrincipalKind.SERVICE_ACCOUNT,
            status=_checked(fields.status or PrincipalStatus.ACTIVE),
            role_groups=principal.role_groups,
        )
        require_person_for_role(principal, None, made)
        try:
            await self._store.add(Account(made), self._now())
        except Conflict:
            raise Conflict(f"subject: a principal is called {subject!r} already", field="subject") from None
        account = await self._get(principal, subject)
        note(None, account)
        return account

    async def update(self, principal: Principal, subject: str, fields: ServiceAccountFields) -> Account:
        """An inactive one is out at once, with what it runs. Raises Denied, NotFound, Invalid."""
        require_admin(principal, "change service accounts")
        account = await self._get(principal, subject)
        current = account.principal
        changed = replace(
            current,
            name=current.name if fields.name is None else checked_name(fields.name),
            status=_checked(fields.status or current.status),
        )
        groups = None if fields.groups is None else checked_groups(fields.groups)
        require_person_for_role(
            principal, current, replace(changed, groups=current.groups if groups is None else groups)
        )
        await self._store.update(replace(account, principal=changed), self._now(), groups=groups)
        await self._signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(current.id))
        updated = await self._get(principal, subject)
        note(account, updated)
        return updated

    async def remove(self, principal: Principal, subject: str) -> None:
        """With its API keys; what it runs ends at once. Raises Denied, NotFound."""
        require_admin(principal, "delete service accounts")
        account = await self._get(principal, subject)
        await self._store.remove(account.principal.id)
        await self._signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(account.principal.id))
        note(account, None)

    async def _get(self, principal: Principal, subject: str) -> Account:
        found = await self._store.by_subject(principal.org_id, "", subject)
        if found is None or found.principal.kind is not PrincipalKind.SERVICE_ACCOUNT:
            raise NotFound(f"there is no service account {subject!r}")
        return found


def _checked(status: PrincipalStatus) -> PrincipalStatus:
    if status is PrincipalStatus.INVITED:
        raise Invalid("status: a service account is active or inactive", field="status")
    return status
