"""Access rules: what admins write, and the explanation of what follows from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

from postern.domain.access import Decision, explain
from postern.domain.access_rule import AccessRule
from postern.domain.connection import Connection, check_tags
from postern.domain.lists import Listed, Page
from postern.domain.names import fold_name
from postern.domain.principal import Account, Principal, PrincipalKind
from postern.domain.session import Verb
from postern.errors import Denied, Invalid, NotFound
from postern.services.access_control import AccessControl
from postern.services.identity.users import checked_groups, require_admin, require_reader
from postern.services.review_needed import Needed, ReviewNeeded
from postern.services.rule_fields import MAX_GROUPS, check_description, check_room, checked_connections
from postern.services.server.trail import changed
from postern.store.ports.common import Clock, Signals, Topic
from postern.store.ports.identity import PrincipalStore
from postern.store.ports.targets import AccessRuleStore, ConnectionStore, NamedRule

__all__ = ["AccessRuleFields", "AccessRules", "Explained", "NamedRule"]

_NAME = re.compile(r"[A-Za-z0-9_](?:[-. ]?[A-Za-z0-9_]){0,127}")


@dataclass(frozen=True, slots=True)
class AccessRuleFields:
    """What a writer sets; `connections` are names or ids. None leaves as it is, where there is something already."""

    name: str | None = None
    description: str | None = None
    groups: tuple[str, ...] | None = None
    connections: tuple[str, ...] | None = None
    connection_tags: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Explained:
    """Why `account` may or may not use the connection. `others` are rules that would let them, if they were in one of
    their groups; only for administrators and auditors. `reviews`: who must agree first, for each way in."""

    connection: Connection
    account: Account
    decision: Decision
    allowed: bool
    reason: str
    others: tuple[AccessRule, ...]
    reviews: tuple[Needed, ...]


class AccessRules:
    def __init__(
        self,
        *,
        store: AccessRuleStore,
        connections: ConnectionStore,
        principals: PrincipalStore,
        control: AccessControl,
        needed: ReviewNeeded,
        signals: Signals,
        now: Clock,
    ) -> None:
        self._store = store
        self._connections = connections
        self._principals = principals
        self._control = control
        self._needed = needed
        self._signals = signals
        self._now = now

    async def find(self, principal: Principal, page: Page) -> Listed[NamedRule]:
        """By name. Raises Denied."""
        require_reader(principal, "access rules")
        return await self._store.find(principal.org_id, page)

    async def get(self, principal: Principal, name_or_id: str) -> NamedRule:
        """Raises Denied, NotFound."""
        require_reader(principal, "access rules")
        return await self._existing(principal, name_or_id)

    async def create(self, principal: Principal, given: AccessRuleFields) -> NamedRule:
        """Raises Denied, Invalid, Conflict."""
        require_admin(principal, "change access rules")
        check_room((await self._store.find(principal.org_id, Page(limit=1))).total, "access rules")
        at = self._now()
        empty = AccessRule(uuid4(), principal.org_id, "", created_at=at)
        rule = replace(await self._merged(empty, given), updated_at=at)
        await self._store.add(rule)
        changed(None, rule)
        return await self._told(principal, rule)

    async def update(self, principal: Principal, name_or_id: str, given: AccessRuleFields) -> NamedRule:
        """Whose access it takes away is out at once. Raises Denied, NotFound, Invalid, Conflict."""
        require_admin(principal, "change access rules")
        current = (await self._existing(principal, name_or_id)).rule
        rule = replace(await self._merged(current, given), updated_at=self._now())
        await self._store.update(rule)
        changed(current, rule)
        return await self._told(principal, rule)

    async def remove(self, principal: Principal, name_or_id: str) -> None:
        """Whose access it gave is out at once, unless another rule gives it. Raises Denied, NotFound."""
        require_admin(principal, "change access rules")
        current = (await self._existing(principal, name_or_id)).rule
        await self._store.remove(current.id)
        changed(current, None)
        await self._tell(principal.org_id)

    async def explain(self, principal: Principal, connection: str, whose: str | None) -> Explained:
        """Why oneself, or `whose` (an identifier, a subject or an e-mail address), may use it or not.

        Raises Denied when somebody else asks for another, and NotFound for a user that is not there, or for a
        connection that is hidden from who asks: nobody learns here what is hidden from them.
        """
        account = await self._account(principal, whose)
        found = await self._control.find(principal, connection)
        if found is None:
            raise NotFound(f"there is no connection {connection!r}")
        subject = account.principal
        decision = await self._control.decide(subject, found)
        allowed, reason = decision.allowed, explain(decision)
        if not subject.is_active:
            allowed, reason = False, f"this user is {subject.status}, and only active ones may use anything"
        others = decision.would if principal.sees_all else ()
        reviews = [await self._needed.explained(subject, found, verb) for verb in (Verb.CONNECT, Verb.EXEC)]
        return Explained(found, account, decision, allowed, reason, others, tuple(reviews))

    async def _account(self, principal: Principal, whose: str | None) -> Account:
        own = await self._principals.get(principal.org_id, principal.id)
        if own is None:
            raise NotFound("this account was deleted")
        if whose is None or whose in (principal.subject, str(principal.id)) or fold_name(whose) == principal.email:
            return own
        if not principal.sees_all:
            raise Denied("only administrators and auditors may ask what others may use")
        for kind in (PrincipalKind.USER, PrincipalKind.SERVICE_ACCOUNT):
            found = await self._principals.by_subject_or_email(principal.org_id, kind, whose)
            if found is not None:
                return found
        key = _uuid(whose)
        by_id = await self._principals.get(principal.org_id, key) if key else None
        if by_id is None:
            raise NotFound(f"there is no user {whose!r}")
        return by_id

    async def _existing(self, principal: Principal, name_or_id: str) -> NamedRule:
        found = await self._store.get(principal.org_id, name_or_id)
        if found is None:
            raise NotFound(f"there is no access rule {name_or_id!r}")
        return found

    async def _merged(self, current: AccessRule, given: AccessRuleFields) -> AccessRule:
        merged = replace(
            current,
            name=current.name if given.name is None else _checked_name(given.name),
            description=current.description if given.description is None else given.description,
            groups=current.groups if given.groups is None else checked_groups(given.groups),
            connection_tags=current.connection_tags if given.connection_tags is None else dict(given.connection_tags),
        )
        if given.connections is not None:
            ids = await checked_connections(self._connections, current.org_id, given.connections)
            merged = replace(merged, connection_ids=ids)
        _check(merged)
        return merged

    async def _told(self, principal: Principal, rule: AccessRule) -> NamedRule:
        await self._tell(principal.org_id)
        return await self._existing(principal, str(rule.id))

    async def _tell(self, org_id: UUID) -> None:
        """Which connections a rule covers changes with their tags: everybody of the organisation is checked again."""
        await self._signals.publish(Topic.POLICY_CHANGED, org_id=str(org_id))


def _check(rule: AccessRule) -> None:
    if not rule.name:
        raise Invalid("name: is required", field="name")
    if not 1 <= len(rule.groups) <= MAX_GROUPS:
        raise Invalid(f"groups: must be 1 to {MAX_GROUPS}; a rule is for the members of any of them", field="groups")
    check_description(rule.description)
    check_tags(rule.connection_tags)


def _checked_name(name: str) -> str:
    if len(name) > 128 or not _NAME.fullmatch(name) or _uuid(name) is not None:
        raise Invalid(
            "name: must have 1 to 128 letters, digits and underscores, with single blanks, dots or hyphens between, "
            "and not look like an identifier",
            field="name",
        )
    return name


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
