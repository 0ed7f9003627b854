"""Access rules (spec 1 and 2.6), and why somebody may use a connection or not."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from postern.api.schemas.common import Answer, NamedResourceAnswer, ResourceBody, SortedNames
from postern.domain.reviews.review import ApprovalRequirement
from postern.domain.rules.access import Ground
from postern.domain.rules.access_rule import AccessRule
from postern.domain.sessions.session import Verb
from postern.services.reviews.requirement_lookup import RequiredReviews
from postern.services.rules.access_rules import Explained


class AccessRuleRequest(ResourceBody):
    name: str
    description: str | None = None
    groups: list[str] = Field(description="Members of any of these may see and use the connections")
    connections: list[str] | None = Field(
        None, alias="connection_names", description="Names or identifiers; answers have names"
    )
    connection_tags: dict[str, str] | None = Field(
        None, description="Also every connection that carries all of these; an empty map stands for none"
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


class ApprovalRequirementAnswer(Answer):
    """One that must be met."""

    rule: str | None = Field(description="The review rule; null for the connection's own reviewers")
    groups: list[str] = Field(description="Who may agree")
    min_approvals: int = Field(description="So many people")
    all_groups_must_approve: bool = Field(description="A person for each of the groups")
    force_approval_groups: list[str] = Field(description="Whose members may approve alone, marked")

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
    needed: bool = Field(description="Whether others must agree first")
    demands: list[ApprovalRequirementAnswer] = Field(description="Each must be met")
    access_max_duration: int | None = Field(
        description="To connect: the seconds of access that may be given at most; null where no review is needed"
    )
    reason: str

    @classmethod
    def of(cls, found: RequiredReviews) -> ReviewNeededAnswer:
        return cls(
            verb=found.verb,
            needed=bool(found.demands),
            demands=[ApprovalRequirementAnswer.of(demand) for demand in found.demands],
            access_max_duration=found.longest,
            reason=found.reason,
        )


class ConnectionAccessAnswer(Answer):
    connection: str
    user: str = Field(description="The e-mail address; the name of one that has none")
    allowed: bool = Field(description="Whether they may use it; which ways in are open is in its access modes")
    visible: bool = Field(description="Whether they may see it")
    reason: str
    ground: Ground
    rule: str | None = Field(description="The access rule that allows it, if it is one")
    group: str | None = Field(description="Their group that this rule is for")
    would_allow: list[OtherRuleAnswer] = Field(
        description="When refused: the rules that allow it to other groups; for administrators and auditors only"
    )
    reviews: list[ReviewNeededAnswer] = Field(description="Who must agree first, to connect and to run scripts")

    @classmethod
    def of(cls, found: Explained) -> ConnectionAccessAnswer:
        decision = found.decision
        return cls(
            connection=found.connection.name,
            user=found.account.principal.email,
            allowed=found.allowed,
            visible=decision.visible and found.account.principal.is_active,
            reason=found.reason,
            ground=decision.ground,
            rule=decision.rule.name if decision.rule else None,
            group=decision.group,
            would_allow=[OtherRuleAnswer.of(rule) for rule in found.others],
            reviews=[ReviewNeededAnswer.of(needed) for needed in found.reviews],
        )
