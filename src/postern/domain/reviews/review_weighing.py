"""The decision of a review from its votes: which votes count now, and whether they meet each requirement (spec 1, 2.2).

`weigh` is the one place for it; the store calls it with the review's row locked, and with the current reviewers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from postern.domain.identity.principal import Principal, PrincipalKind
from postern.domain.reviews.review import (
    ApprovalRequirement,
    Choice,
    Person,
    Review,
    ReviewEvent,
    ReviewKind,
    Vote,
    after,
    person_of,
)
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.time_window import TimeWindow
from postern.errors import Conflict, Denied, Invalid


@dataclass(frozen=True, slots=True)
class Seat:
    """A reviewer at the time of a decision. `is_person`: programs cannot decide."""

    is_active: bool
    is_person: bool
    groups: frozenset[str]
    is_admin: bool = False


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision that a reviewer makes."""

    choice: Choice
    at: datetime
    force: bool = False
    comment: str = ""
    time_window: TimeWindow | None = None


@dataclass(frozen=True, slots=True)
class Weighed:
    """The effect of a decision. `event` is the review's change; None while more approvals are required.
    `time_window` is the review's from now on."""

    voice: Vote
    event: ReviewEvent | None
    time_window: TimeWindow | None = None


def weigh(
    review: Review, reviewer: Person, ruling: Ruling, seats: Mapping[UUID, Seat], *, own_allowed: bool
) -> Weighed:
    """Return the effect of a decision. `seats` has the reviewer and all earlier voters; missing ones no longer count.

    Raises Denied when they cannot decide, Conflict when it is too late or they decided the same before.
    """
    seat = None if reviewer.principal_id is None else seats.get(reviewer.principal_id)
    if seat is None or not seat.is_active:
        raise Denied("only an active user of this organisation can decide")
    if not seat.is_person:
        # Users who can create keys could otherwise approve their own requests by one.
        raise Denied("only users can decide on reviews; a key of a program cannot")
    if ruling.choice is Choice.APPROVED:
        return _approve(review, reviewer, ruling, seat, seats, own_allowed)
    return _refuse(review, reviewer, ruling, seat)


def counts(review: Review, principal: Principal, at: datetime, *, own_allowed: bool) -> bool:
    """Return whether this principal's approval would count now: the review is not their own, and they have not
    approved it yet."""
    if principal.is_auditor:
        return False
    seat = Seat(principal.is_active, principal.kind is PrincipalKind.USER, principal.groups, principal.is_admin)
    force = principal.groups.isdisjoint(review.groups)  # else they may force it besides, and need not
    ruling = Ruling(Choice.APPROVED, at, force)
    try:
        weigh(review, person_of(principal), ruling, {principal.id: seat}, own_allowed=own_allowed)
    except (Denied, Conflict):
        return False
    return True


def _approve(
    review: Review, reviewer: Person, ruling: Ruling, seat: Seat, seats: Mapping[UUID, Seat], own_allowed: bool
) -> Weighed:
    _require(review, ReviewEvent.APPROVED, ruling.at)
    named = (*review.groups, *(review.force_groups if ruling.force else ()))
    groups = seat.groups & frozenset(named)
    if ruling.force and not seat.groups & frozenset(review.force_groups):
        raise Denied(f"only members of {_names(review.force_groups)} can force the approval of this review")
    if not groups:
        raise Denied(f"this review is for {_names(review.groups)}, and you are in none of these groups")
    is_own = review.is_own(reviewer)
    if is_own and not own_allowed:
        raise Denied("you cannot approve your own request; ask another reviewer")
    if ruling.time_window is not None:
        if review.kind is ReviewKind.STATEMENT:
            raise Invalid(
                "time_window: cannot be set for a statement, which runs as soon as it is approved", field="time_window"
            )
        # A window without a vote is what the requester asked for.
        if review.voices and review.time_window not in (None, ruling.time_window):
            raise Conflict(f"time_window: another reviewer has already set {review.time_window}")
    earlier = next((voice for voice in review.voices if voice.reviewer.is_same(reviewer)), None)
    if earlier is not None and not _says_more(ruling, groups, earlier, seats):
        raise Conflict("you have approved this review already; it waits for others")
    # A user whose earlier vote was forced, and who now votes for a different group, has still forced it.
    forced = ruling.force or (earlier is not None and earlier.forced)
    groups |= earlier.groups & seat.groups if earlier is not None and earlier.forced else frozenset()
    voice = Vote(reviewer, Choice.APPROVED, groups, ruling.at, forced, is_own, ruling.comment)
    votes = [vote for vote in review.voices if vote is not earlier and (own_allowed or not vote.own)] + [voice]
    counted = [now for vote in votes if (now := _as_now(vote, seats)) is not None]
    met = all(is_met(demand, counted) for demand in review.demands)
    return Weighed(voice, ReviewEvent.APPROVED if met else None, ruling.time_window or review.time_window)


def _says_more(ruling: Ruling, groups: frozenset[str], earlier: Vote, seats: Mapping[UUID, Seat]) -> bool:
    """Return whether a vote adds to an earlier one that still counts: a user who joined another of the groups can
    speak for it."""
    if ruling.force and not earlier.forced:
        return True
    counted = _as_now(earlier, seats)
    return counted is None or not groups <= counted.groups


def _refuse(review: Review, reviewer: Person, ruling: Ruling, seat: Seat) -> Weighed:
    event = ReviewEvent.REJECTED if ruling.choice is Choice.REJECTED else ReviewEvent.REVOKED
    if ruling.force or ruling.time_window is not None:
        raise Invalid("force_review and time_window can be set only for an approval", field="status")
    is_own = review.is_own(reviewer)
    if not (is_own or seat.is_admin or review.may_review(seat.groups)):
        raise Denied("only its reviewers, its owner and administrators can reject or revoke a review")
    _require(review, event, ruling.at)
    groups = seat.groups & frozenset((*review.groups, *review.force_groups))
    voice = Vote(reviewer, ruling.choice, groups, ruling.at, False, is_own, ruling.comment)
    return Weighed(voice, event, review.time_window)


def _require(review: Review, event: ReviewEvent, at: datetime) -> None:
    if review.has_lapsed(at):
        raise Conflict(f"this review cannot be {event} any more: it has expired")
    if after(review.kind, review.status, event) is None:
        hint = ""
        if review.status is ReviewStatus.APPROVED and event is ReviewEvent.REJECTED:
            hint = "; revoke it to take the approval back"
        if review.status is ReviewStatus.PROCESSING:
            hint = "; kill its session to end it"
        raise Conflict(f"this review cannot be {event} any more: it is {review.status}{hint}")


def _as_now(voice: Vote, seats: Mapping[UUID, Seat]) -> Vote | None:
    """Return a vote restricted to groups that its user is still in; None for users who can no longer decide."""
    seat = None if voice.reviewer.principal_id is None else seats.get(voice.reviewer.principal_id)
    if seat is None or not seat.is_active or not seat.is_person:
        return None
    return replace(voice, groups=voice.groups & seat.groups)


def is_met(demand: ApprovalRequirement, voices: Sequence[Vote]) -> bool:
    """Return whether approvals meet a requirement, each by a person in its groups. A forced one counts only where it
    is allowed."""
    voices = [voice for voice in voices if voice.choice is Choice.APPROVED]
    if any(voice.forced and not voice.groups.isdisjoint(demand.force_groups) for voice in voices):
        return True
    people = _people([voice for voice in voices if not voice.groups.isdisjoint(demand.groups)])
    if len(people) < demand.min_approvals:
        return False
    return not demand.all_groups or _has_distinct_people(demand.groups, people)


def _people(voices: Sequence[Vote]) -> list[frozenset[str]]:
    """Return the groups of each person, over all their accounts."""
    people: list[tuple[list[Person], frozenset[str]]] = []
    for voice in voices:
        same = [entry for entry in people if any(voice.reviewer.is_same(person) for person in entry[0])]
        merged = ([voice.reviewer], voice.groups)
        for entry in same:
            people.remove(entry)
            merged = (merged[0] + entry[0], merged[1] | entry[1])
        people.append(merged)
    return [groups for _, groups in people]


def _has_distinct_people(groups: Sequence[str], people: Sequence[frozenset[str]]) -> bool:
    """Return whether each group has a person of its own: augmenting paths, the groups on one side and the people on
    the other."""
    assigned_groups: dict[int, str] = {}

    def place(group: str, tried: set[int]) -> bool:
        for number, memberships in enumerate(people):
            if group in memberships and number not in tried:
                tried.add(number)
                if number not in assigned_groups or place(assigned_groups[number], tried):
                    assigned_groups[number] = group
                    return True
        return False

    return all(place(group, set()) for group in dict.fromkeys(groups))


def _names(groups: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in groups) or "no group"
