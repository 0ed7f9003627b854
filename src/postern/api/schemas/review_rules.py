"""Review rules: who must agree before somebody is let in. Fields are called as in requests for access elsewhere."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.domain.review_rule import AccessType
from postern.services.review_rules import NamedReviewRule, ReviewRuleFields

Kind = Annotated[
    AccessType, Field(strict=False, description="`jit`: connecting; `command`: running scripts; `jit_command`: both")
]
_LONGEST = "Seconds of access that may be given at most; null for no bound of this rule"


class ReviewRuleChange(Body):
    """The body of PUT: what is left out or null stays as it is, but for `access_max_duration`, which null takes
    away."""

    read_only: ClassVar[frozenset[str]] = frozenset({"id", "created_at", "updated_at"})

    name: str | None = None
    description: str | None = None
    access_type: Kind | None = None
    connection_names: list[str] | None = Field(None, description="Names or identifiers; answers have names")
    connection_tags: dict[str, str] | None = Field(
        None, description="Also every connection that carries all of these; an empty map stands for none"
    )
    approval_required_groups: list[str] | None = Field(
        None, description="Members of these are asked for a review; everybody when empty"
    )
    skip_review_groups: list[str] | None = Field(
        None, description="Members of these are not; only where approval_required_groups is empty"
    )
    reviewers_groups: list[str] | None = Field(None, description="Who may agree; at least one")
    all_groups_must_approve: bool | None = Field(None, description="A person for each of the reviewers' groups")
    min_approvals: int | None = Field(None, description="So many people of any of the reviewers' groups; 1 to 20")
    force_approval_groups: list[str] | None = Field(None, description="Whose members may approve alone, marked")
    access_max_duration: int | None = Field(None, description=_LONGEST)

    def fields(self) -> ReviewRuleFields:
        return ReviewRuleFields(
            name=self.name,
            description=self.description,
            access_type=self.access_type,
            connections=_tuple(self.connection_names),
            connection_tags=self.connection_tags,
            required_groups=_tuple(self.approval_required_groups),
            skip_groups=_tuple(self.skip_review_groups),
            reviewers_groups=_tuple(self.reviewers_groups),
            force_groups=_tuple(self.force_approval_groups),
            all_groups=self.all_groups_must_approve,
            min_approvals=self.min_approvals,
            max_duration=self.access_max_duration,
            unbounded="access_max_duration" in self.model_fields_set and self.access_max_duration is None,
        )


class ReviewRuleRequest(ReviewRuleChange):
    name: str
    access_type: Kind
    reviewers_groups: list[str]


class ReviewRuleAnswer(Answer):
    id: UUID
    name: str
    description: str
    access_type: AccessType
    connection_names: list[str]
    connection_tags: dict[str, str]
    approval_required_groups: list[str]
    skip_review_groups: list[str]
    reviewers_groups: list[str]
    all_groups_must_approve: bool
    min_approvals: int
    force_approval_groups: list[str]
    access_max_duration: int | None = Field(description=_LONGEST)
    created_at: datetime | None
    updated_at: datetime | None

    @classmethod
    def of(cls, found: NamedReviewRule) -> ReviewRuleAnswer:
        rule = found.rule
        return cls(
            id=rule.id,
            name=rule.name,
            description=rule.description,
            access_type=rule.access_type,
            connection_names=list(found.connections),
            connection_tags=dict(rule.connection_tags),
            approval_required_groups=sorted(rule.required_groups),
            skip_review_groups=sorted(rule.skip_groups),
            reviewers_groups=list(rule.reviewers_groups),
            all_groups_must_approve=rule.all_groups,
            min_approvals=rule.min_approvals,
            force_approval_groups=list(rule.force_groups),
            access_max_duration=rule.max_duration,
            created_at=rule.created_at,
            updated_at=rule.updated_at,
        )


def _tuple(given: list[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(given)
