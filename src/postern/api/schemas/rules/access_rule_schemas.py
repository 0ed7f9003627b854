"""Bodies of access rules (spec 1 and 2.6), and why a user can use a connection or not."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from postern.api.schemas.common import Answer, NamedResourceAnswer, ResourceBody, SortedNames, refers_to
from postern.domain.reviews.review import ApprovalRequirement
from postern.domain.rules.access import Decision, Ground, explain
from postern.domain.rules.access_rule import AccessRule
from postern.domain.rules.network_rule import NetworkRule
from postern.domain.sessions.session import Verb
from postern.services.reviews.requirement_lookup import RequiredReviews
from postern.services.rules.access_rules import Explained


class AccessRuleRequest(ResourceBody):
    name: str
    description: str | None = None
    groups: list[str] = Field(
        description="Groups whose members can see and use the connections", json_schema_extra=refers_to("group")
    )
    connections: list[str] | None = Field(
        None,
        alias="connection_names",
        description="Names or identifiers; answers have names",
        json_schema_extra=refers_to("connection"),
    )
    connection_tags: dict[str, str] | None = Field(
        None, description="Covers also every connection with all of these tags; an empty map covers none"
    )


class AccessRuleAnswer(NamedResourceAnswer):
    description: str
    groups: SortedNames
    connection_names: list[str]
    connection_tags: dict[str, str]
    created_at: datetime | None
    updated_at: datetime | None


class OtherRuleAnswer(Answer):
    rule: str
    groups: list[str]

    @classmethod
    def of(cls, rule: AccessRule) -> OtherRuleAnswer:
        return cls(rule=rule.name, groups=sorted(rule.groups))


class NetworkLimitAnswer(Answer):
    rule: str
    allowed_networks: list[str]

    @classmethod
    def of(cls, rule: NetworkRule) -> NetworkLimitAnswer:
        return cls(rule=rule.name, allowed_networks=list(rule.allowed_networks))


class ApprovalRequirementAnswer(Answer):
    """A requirement that must be met."""

    rule: str | None = Field(description="The review rule; null for the connection's own reviewers")
    groups: list[str] = Field(description="Groups whose members can approve")
    min_approvals: int = Field(description="Number of approvals")
    all_groups_must_approve: bool = Field(description="Whether each of the groups must approve")
    force_approval_groups: list[str] = Field(
        description="Groups whose members can approve alone; such an approval is marked"
    )

    @classmethod
    def of(cls, demand: ApprovalRequirement) -> ApprovalRequirementAnswer:
        return cls(
            rule=demand.rule or None,
            groups=list(demand.groups),
            min_approvals=demand.min_approvals,
            all_groups_must_approve=demand.all_groups,
            force_approval_groups=list(demand.force_groups),
        )


class ReviewNeededAnswer(Answer):
    verb: Verb
    needed: bool = Field(description="Whether approval is required")
    demands: list[ApprovalRequirementAnswer] = Field(description="Requirements, each of which must be met")
    access_max_duration: int | None = Field(
        description="For connecting: maximum seconds of access; null if no review is needed"
    )
    reason: str

    @classmethod
    def of(cls, required_reviews: RequiredReviews) -> ReviewNeededAnswer:
        return cls(
            verb=required_reviews.verb,
            needed=bool(required_reviews.demands),
            demands=[ApprovalRequirementAnswer.of(demand) for demand in required_reviews.demands],
            access_max_duration=required_reviews.longest,
            reason=required_reviews.reason,
        )


class EnforcedAccessAnswer(Answer):
    allowed: bool
    reason: str
    rule: str | None = Field(description="The access rule that would allow it, if one does")
    group: str | None = Field(description="The user's group to which this rule applies")
    would_allow: list[OtherRuleAnswer] = Field(description="If denied: the rules that allow it to other groups")

    @classmethod
    def of(cls, decision: Decision) -> EnforcedAccessAnswer:
        return cls(
            allowed=decision.allowed,
            reason=explain(decision),
            rule=decision.rule.name if decision.rule else None,
            group=decision.group,
            would_allow=[OtherRuleAnswer.of(rule) for rule in decision.would],
        )


class ConnectionAccessAnswer(Answer):
    connection: str
    user: str = Field(description="E-mail address; the name of a user without one")
    allowed: bool = Field(description="Whether they can use it; its access modes say which uses are allowed")
    visible: bool = Field(description="Whether they can see it")
    reason: str
    ground: Ground
    rule: str | None = Field(description="The access rule that allows it, if one does")
    group: str | None = Field(description="The user's group to which this rule applies")
    would_allow: list[OtherRuleAnswer] = Field(
        description="If denied: the rules that allow it to other groups; for administrators and auditors only"
    )
    once_enforced: EnforcedAccessAnswer | None = Field(
        description="While access control is off: what would apply if it was on; for administrators and auditors only"
    )
    reviews: list[ReviewNeededAnswer] = Field(description="Required approvals, to connect and to run scripts")
    network_rules: list[NetworkLimitAnswer] = Field(
        description="Network rules, each of which must allow the client's address; for administrators and auditors only"
    )

    @classmethod
    def of(cls, explained: Explained) -> ConnectionAccessAnswer:
        decision = explained.decision
        return cls(
            connection=explained.connection.name,
            user=explained.account.principal.email,
            allowed=explained.allowed,
            visible=decision.visible and explained.account.principal.is_active,
            reason=explained.reason,
            ground=decision.ground,
            rule=decision.rule.name if decision.rule else None,
            group=decision.group,
            would_allow=[OtherRuleAnswer.of(rule) for rule in explained.others],
            once_enforced=EnforcedAccessAnswer.of(explained.once_enforced) if explained.once_enforced else None,
            reviews=[ReviewNeededAnswer.of(needed) for needed in explained.reviews],
            network_rules=[NetworkLimitAnswer.of(rule) for rule in explained.networks],
        )
