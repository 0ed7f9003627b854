"""Reviews (spec 2.2): what is asked, of whom, and what they said."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Self
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Choice, Person, Review, ReviewKind, ReviewOutcome, ReviewStatus, Vote
from postern.domain.reviews.review_groups import (
    GroupEntry,
    GroupStatus,
    RequirementProgress,
    address,
    entries,
    progress,
    shows_estimate,
)
from postern.domain.reviews.time_window import TIME_RANGE, TimeWindow, configuration, time_window
from postern.errors import Invalid


class PersonAnswer(Answer):
    id: str = Field(description="Empty for who has no account here")
    name: str
    email: str
    chat_id: str = Field(description="Theirs in the chat that a decision came by; empty when it came by none")

    @classmethod
    def of(cls, person: Person) -> Self:
        return cls(
            id="" if person.principal_id is None else str(person.principal_id),
            name=person.name,
            email=person.email,
            chat_id=person.chat_id,
        )


class TimeWindowAnswer(Answer):
    type: str = Field(json_schema_extra={"enum": [TIME_RANGE]})
    configuration: dict[str, str] = Field(description="start_time and end_time as HH:MM, and time_zone")

    @classmethod
    def of(cls, window: TimeWindow) -> Self:
        return cls(type=TIME_RANGE, configuration=configuration(window))


class ReviewGroupAnswer(Answer):
    """What a group has said. Where all groups must agree, one person stands for one of theirs only."""

    id: UUID
    group: str = Field(description="Empty for an owner or administrator who rejects or revokes for none of the groups")
    status: GroupStatus
    forced_review: bool
    review_date: datetime | None
    reviewed_by: PersonAnswer | None

    @classmethod
    def of(cls, entry: GroupEntry) -> Self:
        voice = entry.voice
        return cls(
            id=entry.id,
            group=entry.group,
            status=entry.status,
            forced_review=voice is not None and voice.forced,
            review_date=voice.at if voice else None,
            reviewed_by=PersonAnswer.of(voice.reviewer) if voice else None,
        )


class RequirementProgressAnswer(Answer):
    """What one rule asks for. Every demand of a review must be met."""

    rule: str = Field(description="Empty for the connection's own reviewers")
    groups: list[str]
    min_approvals: int = Field(description="People, of any of the groups")
    all_groups_must_approve: bool = Field(description="And each group by a person of its own")
    force_approval_groups: list[str] = Field(description="Whose members may approve alone, by force_review")
    approvals: int = Field(description="People who have approved so far")
    is_met: bool

    @classmethod
    def of(cls, found: RequirementProgress) -> Self:
        demand = found.demand
        return cls(
            rule=demand.rule,
            groups=list(demand.groups),
            min_approvals=demand.min_approvals,
            all_groups_must_approve=demand.all_groups,
            force_approval_groups=list(demand.force_groups),
            approvals=found.approvals,
            is_met=found.is_met,
        )


class VoiceAnswer(Answer):
    """What one person said."""

    status: Choice
    reviewed_by: PersonAnswer
    groups: list[str] = Field(description="Those of the review that they spoke for")
    review_date: datetime
    forced_review: bool
    self_approved: bool = Field(description="The review was their own, which the organisation allows")
    comment: str

    @classmethod
    def of(cls, voice: Vote) -> Self:
        return cls(
            status=voice.choice,
            reviewed_by=PersonAnswer.of(voice.reviewer),
            groups=sorted(voice.groups),
            review_date=voice.at,
            forced_review=voice.forced,
            self_approved=_is_self_approval(voice),
            comment=voice.comment,
        )


class ReviewAnswer(Answer):
    id: UUID
    url: str = Field(description="Of the page on which people decide")
    session: UUID | None = Field(description="That waits for it, or whose statement it is")
    type: ReviewKind = Field(description="onetime: a script; jit: access for a while; statement: one of a session")
    status: ReviewStatus
    outcome: ReviewOutcome | None = Field(
        description="How it ended; null while something can still happen. Of what is EXPIRED: ended (access was given, "
        "and its time is over), unused (an approved script that nobody ran in time), expired (nobody decided in time)"
    )
    connection: str
    owner: PersonAnswer = Field(description="Who asked")
    reason: str = Field(description="Why they asked")
    created_at: datetime
    expires_at: datetime = Field(
        description="While it waits, its deadline; of an approved script, until when it may be started"
    )
    decided_at: datetime | None
    access_duration: int = Field(description="Seconds from the approval on; 0 for what is no access")
    revoke_at: str = Field(description="When access ends, ISO 8601; empty when unset")
    time_window: TimeWindowAnswer | None
    review_groups_data: list[ReviewGroupAnswer]
    demands: list[RequirementProgressAnswer]
    voices: list[VoiceAnswer] = Field(description="Who has said what, in order")
    rejection_reason: str
    self_approved: bool = Field(description="Somebody approved what they had asked for themselves")
    forced: bool = Field(description="Somebody approved it alone, by force_review")
    script: str | None = Field(description="That would run; left out in lists and sessions")
    input: str | None = Field(
        description="The statement with its values; of a script its arguments, and its variables without their values; "
        "left out in lists and sessions"
    )
    estimate: dict[str, Any] | None = Field(
        description="What counting told about the rows that a statement touches; `said` has it in words. For who may "
        "review, and null for whose statement it is"
    )

    @classmethod
    def of(cls, review: Review, api_url: str, viewer: Principal) -> Self:
        refusal = review.refusal
        return cls(
            id=review.id,
            url=address(api_url, review.id),
            session=review.session_id,
            type=review.kind,
            status=review.status,
            outcome=review.outcome,
            connection=review.connection,
            owner=PersonAnswer.of(review.owner),
            reason=review.reason,
            created_at=review.created_at,
            expires_at=review.expires_at,
            decided_at=review.decided_at,
            access_duration=review.access_duration,
            revoke_at=review.revoke_at.isoformat() if review.revoke_at else "",
            time_window=TimeWindowAnswer.of(review.time_window) if review.time_window else None,
            review_groups_data=[ReviewGroupAnswer.of(entry) for entry in entries(review)],
            demands=[RequirementProgressAnswer.of(one) for one in progress(review)],
            voices=[VoiceAnswer.of(voice) for voice in review.voices],
            rejection_reason=refusal.comment if refusal else "",
            self_approved=any(map(_is_self_approval, review.voices)),
            forced=any(voice.forced for voice in review.voices),
            script=None,
            input=None,
            estimate=dict(review.estimate) if review.estimate and shows_estimate(review, viewer) else None,
        )

    @classmethod
    def in_full(cls, review: Review, api_url: str, viewer: Principal, script: str | None) -> Self:
        """For who looks at this one alone; `script` is that of its session."""
        answer = cls.of(review, api_url, viewer)
        answer.script, answer.input = script, review.input or None
        return answer


class TimeWindowRequest(Body):
    type: str = Field(json_schema_extra={"enum": [TIME_RANGE]})
    configuration: dict[str, str] = Field(
        description="start_time and end_time as HH:MM, the end may be on the next day; time_zone, UTC when left out"
    )

    def window(self) -> TimeWindow:
        """Raises Invalid."""
        return time_window(self.type, self.configuration)


class DecisionRequest(Body):
    read_only: ClassVar[frozenset[str]] = frozenset(ReviewAnswer.model_fields) - {
        *("status", "time_window", "rejection_reason")
    }

    status: str = Field(description="APPROVED, REJECTED or REVOKED, in any case")
    time_window: TimeWindowRequest | None = Field(
        None, description="With an approval: the only time of the day at which it may be used"
    )
    force_review: bool = Field(False, description="Approve alone, by a member of a group that may")
    rejection_reason: str = Field("", description="Shown to who asked")
    comment: str = Field("", description="The same, of any decision; give one of both")

    def choice(self) -> Choice:
        """Raises Invalid."""
        try:
            return Choice(self.status.upper())
        except ValueError:
            raise Invalid("status: must be APPROVED, REJECTED or REVOKED", field="status") from None

    def said(self) -> str:
        """Raises Invalid."""
        if self.comment and self.rejection_reason and self.comment != self.rejection_reason:
            raise Invalid("rejection_reason: give it or comment, not two texts", field="rejection_reason")
        return self.comment or self.rejection_reason


def _is_self_approval(voice: Vote) -> bool:
    return voice.own and voice.choice is Choice.APPROVED


class AccessRequest(Body):
    """Access that somebody asks for before they connect."""

    connection: str = Field(description="Its name or identifier")
    reason: str = Field("", description="Why, for those who decide")
    access_duration: int | None = Field(
        None, gt=0, description="Seconds, from the approval on; at most what the connection and its rules allow"
    )


class AccessRequestAnswer(Answer):
    required: bool = Field(description="False: no approval is required, and there is no review")
    review: ReviewAnswer | None
