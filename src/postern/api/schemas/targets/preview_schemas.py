"""Bodies of previews of scripts."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.domain.reviews.review import ApprovalRequirement
from postern.domain.rules.script_preview import PreviewOutcome
from postern.domain.rules.statement import Effect, ObjectKind
from postern.domain.sessions.script_parameters import ParameterValue
from postern.services.targets.script_previews import PreviewedScript


class ScriptPreviewRequest(Body):
    script: str = Field(description="At most 65,536 characters")
    database: str | None = Field(
        default=None, description="Whose tables and views rules know; default: the connection's own, where scripts run"
    )
    parameters: dict[str, ParameterValue] | None = Field(default=None, description="As for POST /sessions")


class PreviewMessageAnswer(Answer):
    rule: str = Field(description="The guardrail and its rule, or a check of the gateway")
    message: str
    hint: str = Field(description="What to do next; can be empty")


class JudgementAnswer(Answer):
    outcome: PreviewOutcome = Field(
        description="warn: it runs, with warnings; hold: it waits for reviewers after it has begun"
    )
    messages: list[PreviewMessageAnswer] = Field(
        description="What the author would be told; empty if it is allowed. Several only for warn"
    )
    held_by: list[str] = Field(description="For hold: groups whose members decide")


class PreviewedObjectAnswer(Answer):
    kind: ObjectKind
    schema_name: str = Field(alias="schema", description="Empty if the statement names none")
    name: str


class PreviewedStatementAnswer(JudgementAnswer):
    """A statement. Its own outcome says what the script's is about; a rule can also match across statements."""

    offset: int = Field(description="Where it begins, in characters (Unicode code points) from 0")
    length: int = Field(description="Characters, without blanks around it")
    tag: str = Field(description="Such as DELETE or CREATE TABLE; empty if it cannot be parsed")
    effects: list[Effect]
    objects: list[PreviewedObjectAnswer] = Field(description="As the statement writes them; not what views read")
    without_where: bool = Field(description="An UPDATE or DELETE in it has no condition, or one that is always true")
    reason: str = Field(description="Why its effect is unknown, or else empty")


class SyntaxErrorAnswer(Answer):
    message: str
    offset: int | None = Field(description="In characters from 0; null if it is unknown")


class PreviewRequirementAnswer(Answer):
    """The approvals that one rule requires."""

    rule: str = Field(description="Empty for the connection's own reviewers")
    groups: list[str]
    min_approvals: int = Field(description="Number of reviewers from any of the groups")
    all_groups_must_approve: bool = Field(description="Whether each group needs a reviewer of its own")
    force_approval_groups: list[str] = Field(description="Groups whose members can approve alone, by force_review")

    @classmethod
    def of(cls, requirement: ApprovalRequirement) -> Self:
        return cls(
            rule=requirement.rule,
            groups=list(requirement.groups),
            min_approvals=requirement.min_approvals,
            all_groups_must_approve=requirement.all_groups,
            force_approval_groups=list(requirement.force_groups),
        )


class PreviewReviewAnswer(Answer):
    required: bool = Field(description="Whether the script needs a review before any of it runs")
    approvers: list[PreviewRequirementAnswer] = Field(description="All of them must be met")


class ScriptPreviewAnswer(JudgementAnswer):
    """The preview of a script. `outcome` is that of the whole script, which is judged before any of it runs."""

    statements: list[PreviewedStatementAnswer]
    statements_truncated: bool = Field(description="It has more than 200 statements; `outcome` is still that of all")
    syntax_error: SyntaxErrorAnswer | None = Field(
        description="Why the gateway cannot parse it; the database may still accept it"
    )
    review: PreviewReviewAnswer

    @classmethod
    def of(cls, previewed: PreviewedScript) -> Self:
        approvers = [PreviewRequirementAnswer.of(requirement) for requirement in previewed.requirements]
        review = PreviewReviewAnswer(required=bool(approvers), approvers=approvers)
        return cls.model_validate({**previewed.result, "review": review})
