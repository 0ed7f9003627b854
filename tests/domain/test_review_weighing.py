"""Edge cases of who counts, where reviews meet persons, force groups and their last moment."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from postern.domain.identity.principal import Principal, PrincipalKind
from postern.domain.reviews.review import (
    ApprovalRequirement,
    Binding,
    Choice,
    Person,
    Review,
    ReviewKind,
    ReviewOutcome,
    Vote,
)
from postern.domain.reviews.review_groups import entries, shows_estimate
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.review_weighing import Ruling, Seat, counts, weigh
from postern.errors import Denied

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def person(number: int) -> Person:
    return Person(UUID(int=number), f"subject {number}", f"person{number}@example.com")


OWNER, ANN, BOB = person(1), person(2), person(3)


def review(*demands: ApprovalRequirement, voices: tuple[Vote, ...] = (), **fields: Any) -> Review:
    one = Review(
        id=uuid4(),
        org_id=uuid4(),
        kind=ReviewKind.JIT,
        status=ReviewStatus.PENDING,
        owner=OWNER,
        binding=Binding(UUID(int=1), uuid4(), uuid4(), "192.0.2.1", "login:1"),
        connection="shop",
        demands=demands or (ApprovalRequirement("", ("dba",)),),
        created_at=AT,
        expires_at=AT + HOUR,
        voices=voices,
    )
    return replace(one, **fields)


def voice(reviewer: Person, *groups: str, forced: bool = False) -> Vote:
    return Vote(reviewer, Choice.APPROVED, frozenset(groups), AT, forced)


def seat(*groups: str, is_active: bool = True, is_person: bool = True) -> Seat:
    return Seat(is_active, is_person, frozenset(groups))


TWO = ApprovalRequirement("", ("dba",), min_approvals=2)


@pytest.mark.parametrize(
    ("earlier", "is_approved"),
    [
        (seat("dba"), True),
        (seat("dba", is_active=False), False),
        (seat("dba", is_person=False), False),
        (seat("dev"), False),
        (None, False),
    ],
)
def test_earlier_approval_counts_only_for_active_member(earlier: Seat | None, *, is_approved: bool) -> None:
    seats = {UUID(int=3): seat("dba")} | ({UUID(int=2): earlier} if earlier else {})
    said = weigh(review(TWO, voices=(voice(ANN, "dba"),)), BOB, Ruling(Choice.APPROVED, AT), seats, own_allowed=False)
    assert (said.event is not None) == is_approved


def test_person_may_approve_again_when_their_other_account_no_longer_counts() -> None:
    other = replace(ANN, principal_id=UUID(int=20))
    one = review(TWO, voices=(voice(other, "dba"),))
    seats = {UUID(int=2): seat("dba"), UUID(int=20): seat("dba", is_active=False)}
    said = weigh(one, ANN, Ruling(Choice.APPROVED, AT), seats, own_allowed=False)
    assert said.voice.groups == {"dba"}


def test_force_counts_only_for_groups_that_reviewer_is_still_in() -> None:
    demand = ApprovalRequirement("", ("dba", "security"), all_groups=True, force_groups=("on call",))
    other = ApprovalRequirement("care", ("legal",), force_groups=("lead",))
    one = review(demand, other, voices=(voice(ANN, "on call", forced=True),))
    for groups, expected in (
        (("security", "on call"), {"security", "on call"}),
        (("security",), {"security"}),
        (("security", "lead"), {"security"}),  # a force group that they did not force it for
    ):
        said = weigh(one, ANN, Ruling(Choice.APPROVED, AT), {UUID(int=2): seat(*groups)}, own_allowed=False)
        assert said.voice.groups == expected
        assert said.voice.forced


def test_denial_names_groups_or_no_group() -> None:
    seats = {UUID(int=2): seat("dev")}
    with pytest.raises(Denied, match="only members of no group can force"):
        weigh(review(), ANN, Ruling(Choice.APPROVED, AT, force=True), seats, own_allowed=False)
    with pytest.raises(Denied, match="this review is for 'dba', 'legal'"):
        weigh(
            review(ApprovalRequirement("", ("dba", "legal"))),
            ANN,
            Ruling(Choice.APPROVED, AT),
            seats,
            own_allowed=False,
        )


@pytest.mark.parametrize(
    ("email", "is_same"),
    [("PERSON2@Example.com", True), (" person2@example.com ", True), ("person3@example.com", False), ("", False)],
)
def test_person_is_recognised_by_address_in_any_case(email: str, *, is_same: bool) -> None:
    other = Person(None, "", email)
    assert ANN.is_same(other) is is_same
    assert other.is_same(ANN) is is_same


@pytest.mark.parametrize(("group", "may"), [("dba", True), ("on call", True), ("dev", False)])
def test_members_of_force_group_are_reviewers(group: str, *, may: bool) -> None:
    one = review(ApprovalRequirement("", ("dba",), force_groups=("on call",)))
    assert one.may_review([group]) is may


def test_demands_are_compared_without_order_of_groups() -> None:
    one = ApprovalRequirement("x", ("b", "a"), force_groups=("d", "c"))
    assert one.ordered == ApprovalRequirement("x", ("a", "b"), force_groups=("c", "d")).ordered
    assert one.ordered == ApprovalRequirement("x", ("a", "b"), force_groups=("c", "d"))


@pytest.mark.parametrize(
    ("kind", "status", "field", "is_lapsed_at_end"),
    [
        *((kind, ReviewStatus.PENDING, "expires_at", True) for kind in ReviewKind),
        (ReviewKind.JIT, ReviewStatus.APPROVED, "revoke_at", True),
        (ReviewKind.ONETIME, ReviewStatus.APPROVED, "expires_at", True),
        (ReviewKind.STATEMENT, ReviewStatus.APPROVED, "expires_at", False),
        (ReviewKind.ONETIME, ReviewStatus.PROCESSING, "expires_at", False),
    ],
)
def test_time_of_review_is_over_at_its_last_moment(
    kind: ReviewKind, status: ReviewStatus, field: str, *, is_lapsed_at_end: bool
) -> None:
    times: dict[str, Any] = {"expires_at": AT + 9 * HOUR, "revoke_at": AT + 9 * HOUR, field: AT + HOUR}
    one = review(kind=kind, status=status, **times)
    assert not one.has_lapsed(AT + HOUR - timedelta(microseconds=1))
    assert one.has_lapsed(AT + HOUR) is is_lapsed_at_end


@pytest.mark.parametrize(
    ("kind", "decided", "revoke", "outcome"),
    [
        (ReviewKind.ONETIME, -1, None, ReviewOutcome.UNUSED),
        (ReviewKind.ONETIME, 0, None, ReviewOutcome.EXPIRED),
        (ReviewKind.ONETIME, None, None, ReviewOutcome.EXPIRED),
        (ReviewKind.JIT, -1, 0, ReviewOutcome.ENDED),
        (ReviewKind.JIT, 0, None, ReviewOutcome.EXPIRED),
        (ReviewKind.STATEMENT, 0, None, ReviewOutcome.EXPIRED),
    ],
)
def test_outcome_of_expired_review_tells_whether_it_was_approved(
    kind: ReviewKind, decided: int | None, revoke: int | None, outcome: ReviewOutcome
) -> None:
    """Hours from the moment at which the review expires."""
    end = AT + HOUR
    times = {"decided_at": decided, "revoke_at": revoke}
    fields: dict[str, Any] = {name: None if hours is None else end + hours * HOUR for name, hours in times.items()}
    assert review(kind=kind, status=ReviewStatus.EXPIRED, **fields).outcome is outcome


def principal(number: int, *groups: str) -> Principal:
    one = person(number)
    assert one.principal_id is not None
    return Principal(
        id=one.principal_id,
        org_id=uuid4(),
        kind=PrincipalKind.USER,
        subject=one.subject,
        email=one.email,
        name="",
        groups=frozenset(groups),
    )


@pytest.mark.parametrize(
    ("number", "groups", "is_shown"),
    [
        (2, ("dba",), True),
        (2, ("on call",), True),
        (2, ("admin",), True),
        (2, ("auditor",), True),
        (2, ("dev",), False),
        (1, ("dba",), False),
        (1, ("admin",), False),
    ],
)
def test_estimate_is_shown_to_reviewers_and_never_to_owner(
    number: int, groups: tuple[str, ...], *, is_shown: bool
) -> None:
    one = review(ApprovalRequirement("", ("dba",), force_groups=("on call",)))
    assert shows_estimate(one, principal(number, *groups)) is is_shown


def test_group_is_shown_with_its_first_approval() -> None:
    one = review(
        TWO, ApprovalRequirement("care", ("dba",), min_approvals=2), voices=(voice(ANN, "dba"), voice(BOB, "dba"))
    )
    [entry] = entries(one)
    assert entry.voice is not None
    assert entry.voice.reviewer is ANN


@pytest.mark.parametrize(
    ("number", "groups", "is_counted"),
    [
        (2, ("dba",), True),
        (2, ("on call",), True),  # they may force it
        (2, ("dba", "auditor"), False),
        (2, ("dev",), False),
        (1, ("dba",), False),
        (3, ("dba",), False),  # they have approved it already
    ],
)
def test_review_waits_for_whoever_can_still_approve_it(
    number: int, groups: tuple[str, ...], *, is_counted: bool
) -> None:
    demand = ApprovalRequirement("", ("dba",), min_approvals=3, force_groups=("on call",))
    one = review(demand, voices=(voice(BOB, "dba"),))
    assert counts(one, principal(number, *groups), AT, own_allowed=False) is is_counted
