"""Access rules: their management, and explanations of what they allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from postern.domain.identity.names import fold_name
from postern.domain.identity.principal import Account, Principal, PrincipalKind
from postern.domain.rules.access import Decision, Ground, explain
from postern.domain.rules.access_rule import AccessRule
from postern.domain.rules.network_rule import NetworkRule
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import Connection, check_tags
from postern.errors import Denied, Invalid, NotFound
from postern.services.identity.users import checked_groups
from postern.services.named_resources import ResourceService
from postern.services.reviews.requirement_lookup import RequiredReviews, RequirementLookup
from postern.services.rules.access_control import AccessControl
from postern.services.rules.network_control import NetworkControl
from postern.services.rules.rule_fields import MAX_GROUPS, with_connection_ids
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.identity_ports import PrincipalStore
from postern.store.ports.named_resource_ports import NamedResourceStore
from postern.store.ports.target_ports import ConnectionStore


@dataclass(frozen=True, slots=True)
class Explained:
    """Why `account` can or cannot use the connection.

    `others` are rules that would allow it, if they were in one of their groups, and `once_enforced` is what would apply
    if access control was on; `networks` are the network rules that limit it. All three only for administrators and
    auditors.
    `reviews`: the required approvers, for each verb.
    """

    connection: Connection
    account: Account
    decision: Decision
    allowed: bool
    reason: str
    others: tuple[AccessRule, ...]
    reviews: tuple[RequiredReviews, ...]
    once_enforced: Decision | None
    networks: tuple[NetworkRule, ...] = ()


class AccessRules(ResourceService[AccessRule]):
    """A change at once ends the sessions of users that lose access."""

    noun = "access rule"

    def __init__(
        self,
        *,
        store: NamedResourceStore[AccessRule],
        connections: ConnectionStore,
        principals: PrincipalStore,
        control: AccessControl,
        networks: NetworkControl,
        needed: RequirementLookup,
        signals: Signals,
        now: Clock,
    ) -> None:
        super().__init__(store, signals, now)
        self._connections = connections
        self._principals = principals
        self._control = control
        self._networks = networks
        self._needed = needed

    def blank(self, key: UUID, org_id: UUID) -> AccessRule:
        return AccessRule(key, org_id, "")

    async def resolve(self, current: AccessRule, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        resolved = dict(fields)
        if "groups" in resolved:
            resolved["groups"] = checked_groups(resolved["groups"])
        return await with_connection_ids(self._connections, current.org_id, resolved)

    async def check(self, resource: AccessRule) -> None:
        if not 1 <= len(resource.groups) <= MAX_GROUPS:
            raise Invalid(
                f"groups: must be 1 to {MAX_GROUPS}; a rule is for the members of any of them", field="groups"
            )
        check_tags(resource.connection_tags)

    async def explain(self, principal: Principal, connection: str, whose: str | None) -> Explained:
        """Explain whether the principal, or `whose` (an identifier, a subject or an e-mail address), can use a
        connection.

        Raises Denied when a standard user asks about another, and NotFound for an unknown user, or a connection that is
        hidden from the principal: an explanation never reveals what is hidden.
        """
        account = await self._account(principal, whose)
        found_connection = await self._control.find(principal, connection)
        if found_connection is None:
            raise NotFound(f"there is no connection {connection!r}")
        subject = account.principal
        decision = await self._control.decide(subject, found_connection)
        allowed, reason = decision.allowed, explain(decision)
        if not subject.is_active:
            allowed, reason = False, f"this user is {subject.status}; only active users can use connections"
        others = decision.would if principal.sees_all else ()
        reviews = [await self._needed.explain(subject, found_connection, verb) for verb in (Verb.CONNECT, Verb.EXEC)]
        preview = None
        if principal.sees_all and decision.ground is Ground.NOT_ENFORCED and subject.is_active:
            preview = await self._control.decide_once_enforced(subject, found_connection)
        networks = await self._networks.find_rules(subject, found_connection) if principal.sees_all else ()
        return Explained(
            found_connection, account, decision, allowed, reason, others, tuple(reviews), preview, tuple(networks)
        )

    async def _account(self, principal: Principal, whose: str | None) -> Account:
        own_account = await self._principals.get(principal.org_id, principal.id)
        if own_account is None:
            raise NotFound("this account was deleted")
        if whose is None or whose in (principal.subject, str(principal.id)) or fold_name(whose) == principal.email:
            return own_account
        if not principal.sees_all:
            raise Denied("only administrators and auditors can see what others can use")
        for kind in (PrincipalKind.USER, PrincipalKind.SERVICE_ACCOUNT):
            account = await self._principals.by_subject_or_email(principal.org_id, kind, whose)
            if account is not None:
                return account
        key = _uuid(whose)
        by_id = await self._principals.get(principal.org_id, key) if key else None
        if by_id is None:
            raise NotFound(f"there is no user {whose!r}")
        return by_id


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
