"""What the groups of a review have said, as it is shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from postern.domain.reviews.review import (
    ApprovalRequirement,
    Binding,
    Choice,
    Person,
    Review,
    ReviewKind,
    Vote,
)
from postern.domain.reviews.review_groups import GroupStatus, entries, progress
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.review_weighing import is_met

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PENDING, APPROVED, REJECTED, REVOKED = GroupStatus


def person(number: int) -> Person:
    return Person(UUID(int=number), f"subject {number}", f"person{number}@example.com", f"Person {number}")


def voice(number: int, *groups: str, choice: Choice = Choice.APPROVED, forced: bool = False) -> Vote:
    return Vote(person(number), choice, frozenset(groups), AT + timedelta(seconds=number), forced)


def review(*demands: ApprovalRequirement, voices: tuple[Vote, ...] = ()) -> Review:
    return Review(
        id=UUID(int=7),
        org_id=uuid4(),
        kind=ReviewKind.JIT,
        status=ReviewStatus.PENDING,
        owner=person(99),
        binding=Binding(UUID(int=99), uuid4(), uuid4(), "192.0.2.1", "login:x"),
        connection="shop",
        demands=demands,
        created_at=AT,
        expires_at=AT + timedelta(hours=1),
        voices=voices,
    )


def shown(found: Review) -> dict[str, tuple[GroupStatus, str]]:
    """Status and who, by group."""
    return {one.group: (one.status, one.voice.reviewer.subject if one.voice else "") for one in entries(found)}


def test_nobody_has_spoken() -> None:
    found = review(
        ApprovalRequirement("", ("dba", "security"), all_groups=True), ApprovalRequirement("care", ("dba", "legal"))
    )
    assert shown(found) == dict.fromkeys(("dba", "security", "legal"), (PENDING, ""))
    assert [(one.approvals, one.is_met) for one in progress(found)] == [(0, False), (0, False)]


def test_identifiers_stay_and_differ() -> None:
    before = review(ApprovalRequirement("", ("dba", "security"), all_groups=True))
    later = replace(before, voices=(voice(1, "dba"),))
    assert [one.id for one in entries(before)] == [one.id for one in entries(later)]
    other = replace(before, id=UUID(int=8))
    assert len({one.id for one in (*entries(before), *entries(other))}) == 4


def test_one_person_of_two_groups_fills_one_where_all_must_agree() -> None:
    one = review(ApprovalRequirement("", ("dba", "security"), all_groups=True), voices=(voice(1, "dba", "security"),))
    assert shown(one) == {"dba": (APPROVED, "subject 1"), "security": (PENDING, "")}
    # Whoever comes next may be of the first group only: then the first one stands for the other.
    two = replace(one, voices=(*one.voices, voice(2, "dba")))
    assert shown(two) == {"dba": (APPROVED, "subject 2"), "security": (APPROVED, "subject 1")}
    assert [found.is_met for found in progress(two)] == [True]


def test_where_any_of_them_may_agree_one_voice_is_that_of_all_its_groups() -> None:
    found = review(
        ApprovalRequirement("care", ("dba", "security"), min_approvals=2), voices=(voice(1, "dba", "security"),)
    )
    assert shown(found) == {"dba": (APPROVED, "subject 1"), "security": (APPROVED, "subject 1")}
    assert [(one.approvals, one.is_met) for one in progress(found)] == [(1, False)]


def test_a_group_of_two_demands_has_agreed_when_it_has_in_both() -> None:
    each, either = (
        ApprovalRequirement("", ("dba", "security"), all_groups=True),
        ApprovalRequirement("care", ("security", "legal")),
    )
    found = review(each, either, voices=(voice(1, "dba", "security"),))
    assert shown(found)["security"] == (PENDING, "")
    assert [one.is_met for one in progress(found)] == [False, True]


def test_who_forces_from_beside_is_an_entry_of_its_own() -> None:
    demand = ApprovalRequirement("", ("dba",), all_groups=True, force_groups=("oncall",))
    found = review(demand, voices=(voice(1, "oncall", forced=True),))
    assert shown(found) == {"dba": (PENDING, ""), "oncall": (APPROVED, "subject 1")}
    assert [one.voice.forced for one in entries(found) if one.voice] == [True]
    assert [(one.approvals, one.is_met) for one in progress(found)] == [(0, True)]


def test_a_refusal_is_that_of_its_groups_and_of_nobody_where_it_has_none() -> None:
    approved = review(ApprovalRequirement("", ("dba", "security"), all_groups=True), voices=(voice(1, "dba"),))
    rejected = replace(approved, voices=(*approved.voices, voice(2, "security", choice=Choice.REJECTED)))
    assert shown(rejected) == {"dba": (APPROVED, "subject 1"), "security": (REJECTED, "subject 2")}
    revoked = replace(approved, voices=(*approved.voices, voice(3, choice=Choice.REVOKED)))
    assert shown(revoked) == {
        "dba": (APPROVED, "subject 1"),
        "security": (PENDING, ""),
        "": (REVOKED, "subject 3"),
    }


GROUPS = ("a", "b", "c", "d")
_groups = st.lists(st.sampled_from(GROUPS), min_size=1, max_size=4, unique=True).map(tuple)


@given(_groups, st.lists(st.frozensets(st.sampled_from(GROUPS), max_size=4), max_size=5))
def test_a_demand_of_all_groups_is_met_when_every_entry_is_approved_and_only_then(
    groups: tuple[str, ...], said: list[frozenset[str]]
) -> None:
    demand = ApprovalRequirement("", groups, all_groups=True)
    voices = tuple(voice(number, *spoken) for number, spoken in enumerate(said))
    found = entries(review(demand, voices=voices))
    assert [one.group for one in found] == list(groups)
    assert all(one.status is APPROVED for one in found) == is_met(demand, voices)
    speakers = [one.voice.reviewer.subject for one in found if one.voice]
    assert len(speakers) == len(set(speakers))
    assert all(one.group in one.voice.groups for one in found if one.voice)
