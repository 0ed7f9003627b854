"""The groups of a review and their decisions, derived from its requirements and votes (spec 2.2, `review_groups_data`).

Users decide, and groups are shown. Where every group must approve, one user counts for only one of them, so a member
of two groups fills one entry; the other waits for a different user.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID, uuid5

from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import ApprovalRequirement, Choice, Review, ReviewEvent, Vote, after, person_of
from postern.domain.reviews.review_weighing import is_met


class GroupStatus(StrEnum):
    PENDING = "PENDING"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    REVOKED = "REVOKED"


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A group's decision; `voice` is None while it is pending. `group` is empty for a rejection or revocation by the
    owner or an administrator."""

    id: UUID
    group: str
    status: GroupStatus
    voice: Vote | None


@dataclass(frozen=True, slots=True)
class RequirementProgress:
    """The progress of a requirement. `approvals` counts votes as cast; a member that has left no longer counts at the
    next decision."""

    demand: ApprovalRequirement
    approvals: int
    is_met: bool


def shows_estimate(review: Review, principal: Principal) -> bool:
    """Return whether this principal sees the row estimate. The owner never does: they could count rows that they
    cannot read."""
    if review.is_own(person_of(principal)):
        return False
    return principal.sees_all or review.may_review(principal.groups)


def allowed_decisions(review: Review, principal: Principal) -> tuple[str, ...]:
    """Return the decisions that this principal can make, as far as the review tells: `approve`, `force` (approve
    alone), `reject`, `revoke`. The decision itself checks everything."""
    decisions = []
    if after(review.kind, review.status, ReviewEvent.APPROVED) is not None:
        decisions += ["approve"] if principal.groups & frozenset(review.groups) else []
        decisions += ["force"] if principal.groups & frozenset(review.force_groups) else []
    is_concerned = (
        review.may_review(principal.groups) or principal.is_admin or review.binding.principal_id == principal.id
    )
    for decision, event in (("reject", ReviewEvent.REJECTED), ("revoke", ReviewEvent.REVOKED)):
        if is_concerned and after(review.kind, review.status, event) is not None:
            decisions.append(decision)
    return tuple(decisions)


def entries(review: Review) -> tuple[GroupEntry, ...]:
    """Return an entry for each reviewing group, in the order of the requirements, then those that forced, rejected or
    revoked beside these.

    Identifiers are stable.
    """
    votes = _approving_votes(review)
    for voice in review.voices:
        if voice.choice is not Choice.APPROVED:
            votes |= dict.fromkeys(sorted(voice.groups) or ("",), voice)
        elif voice.forced and voice.groups.isdisjoint(votes):
            votes |= dict.fromkeys(sorted(voice.groups), voice)
    named = dict.fromkeys((*review.groups, *votes))
    return tuple(_entry(review, group, votes.get(group)) for group in named)


def progress(review: Review) -> tuple[RequirementProgress, ...]:
    """Return the progress of each requirement, in order."""
    voices = _approvals(review)
    return tuple(
        RequirementProgress(
            demand, sum(not voice.groups.isdisjoint(demand.groups) for voice in voices), is_met(demand, voices)
        )
        for demand in review.demands
    )


def _entry(review: Review, group: str, voice: Vote | None) -> GroupEntry:
    status = GroupStatus.PENDING if voice is None else GroupStatus(voice.choice)
    return GroupEntry(uuid5(review.id, group), group, status, voice)


def _approvals(review: Review) -> list[Vote]:
    return [voice for voice in review.voices if voice.choice is Choice.APPROVED]


def _approving_votes(review: Review) -> dict[str, Vote]:
    """Return the groups that have approved in each of the requirements that name them."""
    votes = _approvals(review)
    approved: dict[str, Vote] = {}
    missing: set[str] = set()
    for requirement in review.demands:
        matches = (
            _match_distinct_votes(requirement.groups, votes)
            if requirement.all_groups
            else _match_any_votes(requirement.groups, votes)
        )
        missing |= set(requirement.groups) - matches.keys()
        approved = {**matches, **approved}
    return {group: vote for group, vote in approved.items() if group not in missing}


def _match_any_votes(groups: Iterable[str], votes: Sequence[Vote]) -> dict[str, Vote]:
    """Return the first vote for each group."""
    return {group: vote for group in groups for vote in reversed(votes) if group in vote.groups}


def _match_distinct_votes(groups: Iterable[str], votes: Sequence[Vote]) -> Mapping[str, Vote]:
    """Return a person of its own for as many groups as possible, the earlier ones first."""
    assigned_groups: dict[int, str] = {}  # number of a voice → the group that it stands for

    def seat(group: str, tried: set[int]) -> bool:
        for number, vote in enumerate(votes):
            if group in vote.groups and number not in tried:
                tried.add(number)
                if number not in assigned_groups or seat(assigned_groups[number], tried):
                    assigned_groups[number] = group
                    return True
        return False

    for group in dict.fromkeys(groups):
        seat(group, set())
    return {group: votes[number] for number, group in assigned_groups.items()}
