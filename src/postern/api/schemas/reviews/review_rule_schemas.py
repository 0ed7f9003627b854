"""Bodies of review rules: the groups that must approve access. The fields have the names that access requests use."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from postern.api.schemas.common import NamedResourceAnswer, ResourceBody, SortedNames, refers_to
from postern.domain.reviews.review_rule import AccessType

Kind = Annotated[
    AccessType, Field(strict=False, description="`jit`: connecting; `command`: running scripts; `jit_command`: both")
]
_LONGEST = "Maximum seconds of access; null: this rule sets no limit"


class ReviewRuleRequest(ResourceBody):
    nullable = frozenset({"max_duration"})

    name: str
    description: str | None = None
    access_type: Kind
    connections: list[str] | None = Field(
        None,
        alias="connection_names",
        description="Names or identifiers; answers have names",
        json_schema_extra=refers_to("connection"),
    )
    connection_tags: dict[str, str] | None = Field(
        None, description="Covers also every connection with all of these tags; an empty map covers none"
    )
    required_groups: list[str] | None = Field(
        None,
        alias="approval_required_groups",
        description="Groups whose members need approval; empty: all users",
        json_schema_extra=refers_to("group"),
    )
    skip_groups: list[str] | None = Field(
        None,
        alias="skip_review_groups",
        description="Groups whose members need none; only if approval_required_groups is empty",
        json_schema_extra=refers_to("group"),
    )
    reviewers_groups: list[str] = Field(
        description="Groups whose members can approve; at least one", json_schema_extra=refers_to("group")
    )
    all_groups: bool | None = Field(
        None,
        alias="all_groups_must_approve",
        description="Whether an approval from each of the reviewers' groups is required",
    )
    min_approvals: int | None = Field(
        None, description="Number of approvals from any of the reviewers' groups; 1 to 20"
    )
    force_groups: list[str] | None = Field(
        None,
        alias="force_approval_groups",
        description="Groups whose members can approve alone; such an approval is marked",
        json_schema_extra=refers_to("group"),
    )
    max_duration: int | None = Field(None, alias="access_max_duration", description=_LONGEST)


class ReviewRuleAnswer(NamedResourceAnswer):
    description: str
    access_type: AccessType
    connection_names: list[str]
    connection_tags: dict[str, str]
    approval_required_groups: SortedNames = Field(validation_alias="required_groups")
    skip_review_groups: SortedNames = Field(validation_alias="skip_groups")
    reviewers_groups: list[str]
    all_groups_must_approve: bool = Field(validation_alias="all_groups")
    min_approvals: int
    force_approval_groups: list[str] = Field(validation_alias="force_groups")
    access_max_duration: int | None = Field(validation_alias="max_duration", description=_LONGEST)
    created_at: datetime | None
    updated_at: datetime | None
