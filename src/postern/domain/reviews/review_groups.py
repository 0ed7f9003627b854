"""The groups of a review and what each has said: derived from its demands and voices (spec 2.2, `review_groups_data`).

People decide, and groups are shown. Where every group of a demand must agree, one person stands for one of them only,
so who is in two groups fills one entry; the other waits for somebody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID, uuid5

from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import ApprovalRequirement, Choice, Review, Vote, person_of
from postern.domain.reviews.review_weighing import is_met


class GroupStatus(StrEnum):
    PENDING = "PENDING"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    REVOKED = "REVOKED"


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """What a group has said, and by whom; `voice` is None while it waits. `group` is empty for who spoke for none of
    the review's groups: its owner, or an administrator, who reject and revoke."""

    id: UUID
    group: str
    status: GroupStatus
    voice: Vote | None


@dataclass(frozen=True, slots=True)
class RequirementProgress:
    """How far a demand is. `approvals` counts people, as they spoke; who has left since counts no more when the next
    one decides."""

    demand: ApprovalRequirement
    approvals: int
    is_met: bool


def address(api_url: str, review_id: UUID) -> str:
    """Of the page on which people decide. `api_url` is without `/api`."""
    return f"{api_url.rstrip('/')}/api/reviews/page/{review_id}"


def shows_estimate(review: Review, principal: Principal) -> bool:
    """Whether this principal is told how many rows it would touch. Never whose statement it is: by statements that
    wait, they could count rows that they may not read."""
    if review.is_own(person_of(principal)):
        return False
    return principal.sees_all or review.may_review(principal.groups)


def entries(review: Review) -> tuple[GroupEntry, ...]:
    """One for each group that reviews, in the order of the demands; behind them those that forced, rejected or revoked
    beside these. Identifiers are the same each time."""
    said = _approved(review)
    for voice in review.voices:
        if voice.choice is not Choice.APPROVED:
            said |= dict.fromkeys(sorted(voice.groups) or ("",), voice)
        elif voice.forced and voice.groups.isdisjoint(said):
            said |= dict.fromkeys(sorted(voice.groups), voice)
    named = dict.fromkeys((*review.groups, *said))
    return tuple(_entry(review, group, said.get(group)) for group in named)


def progress(review: Review) -> tuple[RequirementProgress, ...]:
    """Of each demand, in their order."""
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


def _approved(review: Review) -> dict[str, Vote]:
    """The groups that have agreed in each of the demands that ask them."""
    voices = _approvals(review)
    found: dict[str, Vote] = {}
    missing: set[str] = set()
    for demand in review.demands:
        agreed = _seated(demand.groups, voices) if demand.all_groups else _spoken(demand.groups, voices)
        missing |= set(demand.groups) - agreed.keys()
        found = {**agreed, **found}
    return {group: voice for group, voice in found.items() if group not in missing}


def _spoken(groups: Iterable[str], voices: Sequence[Vote]) -> dict[str, Vote]:
    """The first voice for each group."""
    return {group: voice for group in groups for voice in reversed(voices) if group in voice.groups}


def _seated(groups: Iterable[str], voices: Sequence[Vote]) -> Mapping[str, Vote]:
    """A person of its own for as many groups as can be, the earlier ones first."""
    taken: dict[int, str] = {}  # number of a voice → the group that it stands for

    def seat(group: str, tried: set[int]) -> bool:
        for number, voice in enumerate(voices):
            if group in voice.groups and number not in tried:
                tried.add(number)
                if number not in taken or seat(taken[number], tried):
                    taken[number] = group
                    return True
        return False

    for group in dict.fromkeys(groups):
        seat(group, set())
    return {group: voices[number] for number, group in taken.items()}
