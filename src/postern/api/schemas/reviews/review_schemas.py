"""Bodies of reviews (spec 2.2): the request, the approvers, and their votes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Self
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer, Body, Identifier
from postern.domain.identity.principal import Principal
from postern.domain.page_addresses import review_address
from postern.domain.reviews.review import (
    Choice,
    Person,
    Review,
    ReviewedCredential,
    ReviewKind,
    ReviewOutcome,
    Vote,
)
from postern.domain.reviews.review_groups import (
    GroupEntry,
    GroupStatus,
    RequirementProgress,
    allowed_decisions,
    entries,
    progress,
    shows_estimate,
)
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.time_window import TIME_RANGE, TimeWindow, configuration, time_window
from postern.errors import Invalid


class PersonAnswer(Answer):
    id: str = Field(description="Empty for a reviewer without an account")
    name: str
    email: str
    chat_id: str = Field(description="Their id in the chat in which they decided; empty if in none")

    @classmethod
    def of(cls, person: Person) -> Self:
        return cls(
            id="" if person.principal_id is None else str(person.principal_id),
            name=person.name,
            email=person.email,
            chat_id=person.chat_id,
        )


class ReviewedCredentialAnswer(Answer):
    id: UUID
    username: str

    @classmethod
    def of(cls, credential: ReviewedCredential) -> Self:
        return cls(id=credential.id, username=credential.username)


class TimeWindowAnswer(Answer):
    type: str = Field(json_schema_extra={"enum": [TIME_RANGE]})
    configuration: dict[str, str] = Field(description="start_time and end_time as HH:MM, and time_zone")

    @classmethod
    def of(cls, window: TimeWindow) -> Self:
        return cls(type=TIME_RANGE, configuration=configuration(window))


class ReviewGroupAnswer(Answer):
    """The decision of a group. If all groups must approve, a reviewer counts for only one of theirs."""

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
    """An approval requirement of one rule. A review must meet all of its requirements."""

    rule: str = Field(description="Empty for the connection's own reviewers")
    groups: list[str]
    min_approvals: int = Field(description="Number of reviewers from any of the groups")
    all_groups_must_approve: bool = Field(description="Whether each group needs a reviewer of its own")
    force_approval_groups: list[str] = Field(description="Groups whose members can approve alone, by force_review")
    approvals: int = Field(description="Number of approvals so far")
    is_met: bool

    @classmethod
    def of(cls, requirement: RequirementProgress) -> Self:
        demand = requirement.demand
        return cls(
            rule=demand.rule,
            groups=list(demand.groups),
            min_approvals=demand.min_approvals,
            all_groups_must_approve=demand.all_groups,
            force_approval_groups=list(demand.force_groups),
            approvals=requirement.approvals,
            is_met=requirement.is_met,
        )


class VoiceAnswer(Answer):
    """The vote of one reviewer."""

    status: Choice
    reviewed_by: PersonAnswer
    groups: list[str] = Field(description="Groups of the review for which the reviewer voted")
    review_date: datetime
    forced_review: bool
    self_approved: bool = Field(description="The reviewer decided their own request, which the organisation allows")
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
    url: str = Field(description="URL of the page on which reviewers decide")
    session: UUID | None = Field(description="The session that waits for it, or whose statement it is")
    type: ReviewKind = Field(
        description="onetime: a script; jit: access for a time; statement: a statement of a session"
    )
    status: ReviewStatus
    outcome: ReviewOutcome | None = Field(
        description="How it ended; null while it can still change. An EXPIRED review is: ended (access was given and "
        "has expired), unused (an approved script was not run in time), expired (it was not decided in time)"
    )
    connection: str
    owner: PersonAnswer = Field(description="The requester")
    client_address: str = Field(description="Address of the client that it is for")
    credential: ReviewedCredentialAnswer | None = Field(
        description="The credential with which that client logs in, even if it was revoked since; null for a client "
        "with the owner's own login or API key"
    )
    in_advance: bool = Field(
        description="Whether access was requested before connecting, so that no client waits for it. With `credential` "
        "it is for clients with this credential, else for those with the requester's login"
    )
    reason: str = Field(description="The requester's reason")
    created_at: datetime
    expires_at: datetime = Field(
        description="While it is pending, its deadline; for an approved script, the time until which it can be started"
    )
    decided_at: datetime | None
    access_duration: int = Field(description="Seconds of access from the approval; 0 if the review is not for access")
    revoke_at: str = Field(description="When access ends, ISO 8601; empty if unset")
    time_window: TimeWindowAnswer | None
    review_groups_data: list[ReviewGroupAnswer]
    demands: list[RequirementProgressAnswer]
    voices: list[VoiceAnswer] = Field(description="The votes, in order")
    rejection_reason: str
    withdrawal_reason: str = Field(
        description="Why the gateway withdrew it, such as a revoked credential; empty if its owner withdrew it"
    )
    self_approved: bool = Field(description="A reviewer approved their own request")
    forced: bool = Field(description="A reviewer approved it alone, by force_review")
    script: str | None = Field(description="The script that would run; left out in lists and sessions")
    input: str | None = Field(
        description="The statement with its values; for a script its arguments, and its variables without their "
        "values; left out in lists and sessions"
    )
    allowed_decisions: list[str] = Field(
        description="What the caller can decide now: approve, force (approve alone, with force_review), reject, revoke",
        json_schema_extra={"items": {"enum": ["approve", "force", "reject", "revoke"], "type": "string"}},
    )
    estimate: dict[str, Any] | None = Field(
        description="Number of rows that a statement affects, as counted before; `said` is the same as text. For "
        "reviewers, and null for the statement's own user"
    )

    @classmethod
    def of(cls, review: Review, api_url: str, viewer: Principal) -> Self:
        refusal = review.refusal
        return cls(
            id=review.id,
            url=review_address(api_url, review.id),
            session=review.session_id,
            type=review.kind,
            status=review.status,
            outcome=review.outcome,
            connection=review.connection,
            owner=PersonAnswer.of(review.owner),
            client_address=review.binding.source,
            credential=ReviewedCredentialAnswer.of(review.credential) if review.credential else None,
            in_advance=review.is_in_advance,
            reason=review.reason,
            created_at=review.created_at,
            expires_at=review.expires_at,
            decided_at=review.decided_at,
            access_duration=review.access_duration,
            revoke_at=review.revoke_at.isoformat() if review.revoke_at else "",
            time_window=TimeWindowAnswer.of(review.time_window) if review.time_window else None,
            review_groups_data=[ReviewGroupAnswer.of(entry) for entry in entries(review)],
            demands=[RequirementProgressAnswer.of(requirement) for requirement in progress(review)],
            voices=[VoiceAnswer.of(voice) for voice in review.voices],
            rejection_reason=refusal.comment if refusal else "",
            withdrawal_reason=review.withdrawal_reason,
            self_approved=any(map(_is_self_approval, review.voices)),
            forced=any(voice.forced for voice in review.voices),
            script=None,
            input=None,
            allowed_decisions=list(allowed_decisions(review, viewer)),
            estimate=dict(review.estimate) if review.estimate and shows_estimate(review, viewer) else None,
        )

    @classmethod
    def in_full(cls, review: Review, api_url: str, viewer: Principal, script: str | None) -> Self:
        """Return a single review; `script` is that of its session."""
        answer = cls.of(review, api_url, viewer)
        answer.script, answer.input = script, review.input or None
        return answer


class TimeWindowRequest(Body):
    type: str = Field(json_schema_extra={"enum": [TIME_RANGE]})
    configuration: dict[str, str] = Field(
        description="start_time and end_time as HH:MM, the end can be on the next day; time_zone, default UTC"
    )

    def window(self) -> TimeWindow:
        """Raises Invalid."""
        return time_window(self.type, self.configuration)


class DecisionRequest(Body):
    read_only: ClassVar[frozenset[str]] = frozenset(ReviewAnswer.model_fields) - {
        *("status", "time_window", "rejection_reason")
    }

    status: str = Field(description="APPROVED, REJECTED or REVOKED, ignoring case")
    time_window: TimeWindowRequest | None = Field(
        None, description="With an approval: the only hours of the day at which it can be used"
    )
    force_review: bool = Field(False, description="Approve alone, as a member of a force group")
    rejection_reason: str = Field("", description="Shown to the requester")
    comment: str = Field("", description="The same, for any decision; give only one of them")

    def choice(self) -> Choice:
        """Raises Invalid."""
        try:
            return Choice(self.status.upper())
        except ValueError:
            raise Invalid("status: must be APPROVED, REJECTED or REVOKED", field="status") from None

    def merge_comments(self) -> str:
        """Raises Invalid."""
        if self.comment and self.rejection_reason and self.comment != self.rejection_reason:
            raise Invalid("rejection_reason: cannot be combined with comment; give only one", field="rejection_reason")
        return self.comment or self.rejection_reason


def _is_self_approval(voice: Vote) -> bool:
    return voice.own and voice.choice is Choice.APPROVED


class AccessRequest(Body):
    """A request for access before connecting."""

    connection: str = Field(description="Name or identifier of the connection")
    credential_id: Identifier | None = Field(
        None,
        description="An own credential of the connection: the access is for clients that log in with it, instead of "
        "those with the caller's login",
    )
    reason: str = Field("", description="Reason, for the reviewers")
    access_duration: int | None = Field(
        None, gt=0, description="Seconds from the approval; at most what the connection and its rules allow"
    )
    time_window: TimeWindowRequest | None = Field(
        None, description="The only hours of the day at which you need access; a reviewer can set others"
    )


class AccessRequestAnswer(Answer):
    required: bool = Field(description="False: no approval is required, and there is no review")
    review: ReviewAnswer | None
