"""The approval requirements of an access: those of the connection, and those of review rules.

Costs no statement while the organisation's rules are cached; they are read again when something has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from postern.domain.durations import duration_text
from postern.domain.features import Feature
from postern.domain.identity.principal import Principal
from postern.domain.reviews.approval_requirements import demands_of, longest_access
from postern.domain.reviews.review import ApprovalRequirement
from postern.domain.reviews.review_rule import ReviewRule
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import Connection
from postern.services.reviews.review_text import requirements_text
from postern.services.rules.rule_cache import RuleCache
from postern.services.server.server_features import Features
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.named_resource_ports import NamedResourceStore

_CONNECTIONS_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class RequiredReviews:
    """The approvals that an access needs; none where `demands` is empty.

    `longest` is the maximum access in seconds: None for scripts, each of which runs once.
    """

    verb: Verb
    demands: tuple[ApprovalRequirement, ...]
    longest: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class _Covering:
    """The rules `of` an organisation that cover a connection with these tags."""

    of: Sequence[ReviewRule]
    tags: Mapping[str, str]
    rules: Sequence[ReviewRule]


class RequirementLookup:
    """Looks requirements up. `signals` report changed rules.

    All methods raise Unavailable when the rules cannot be read: then no principal is admitted.
    """

    def __init__(self, store: NamedResourceStore[ReviewRule], features: Features, signals: Signals, now: Clock) -> None:
        self._features = features
        self._rules = RuleCache(store, signals, now)
        self._covering: dict[UUID, _Covering] = {}

    async def demands(
        self, principal: Principal, connection: Connection, verb: Verb
    ) -> tuple[ApprovalRequirement, ...]:
        """Return the requirements, all of which must be met; none when no approval is required."""
        return demands_of(principal, connection, await self._about(connection), verb)

    async def longest(self, principal: Principal, connection: Connection, verb: Verb) -> int:
        """Return the maximum access in seconds."""
        return longest_access(principal, connection, await self._about(connection), verb)

    async def _about(self, connection: Connection) -> Sequence[ReviewRule]:
        """Return the rules that cover the connection, for any principal; cached while the rules are, however many they
        are."""
        rules = await self._rules.get(connection.org_id)
        covering = self._covering.get(connection.id)
        if covering is not None and covering.of is rules and covering.tags == connection.connection_tags:
            return covering.rules
        if len(self._covering) >= _CONNECTIONS_KEPT:
            self._covering.clear()
        review_rules = tuple(rule for rule in rules if rule.covers(connection))
        self._covering[connection.id] = _Covering(rules, dict(connection.connection_tags), review_rules)
        return review_rules

    async def explain(self, principal: Principal, connection: Connection, verb: Verb) -> RequiredReviews:
        """Return the requirements with an explanation."""
        demands = await self.demands(principal, connection, verb)
        if not demands:
            return RequiredReviews(verb, (), None, "no approval is required")
        reason = f"needs a review: {requirements_text(demands)}"
        longest = None
        if verb is Verb.CONNECT:
            longest = await self.longest(principal, connection, verb)
            reason += f"; access lasts at most {duration_text(longest)}"
        if not await self._features.is_enabled(connection.org_id, Feature.REVIEWS):
            reason += "; reviews are switched off in this organisation, so it is denied"
        return RequiredReviews(verb, demands, longest, reason)
