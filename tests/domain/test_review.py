"""Who decides on a review, and what becomes of it: the table, and that voices never make more than they say."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.domain.identity.principal import Principal
from postern.domain.reviews.approval_requirements import (
    DEFAULT_ACCESS,
    MAX_ACCESS,
    access_duration,
    demands_of,
    longest_access,
)
from postern.domain.reviews.review import (
    FEW_OF_OWNER,
    MAX_LATELY,
    MAX_OF_ORGANISATION,
    MAX_OF_OWNER,
    MAX_OF_SESSION,
    RUN_WITHIN,
    TRANSITIONS,
    WAITS,
    ApprovalRequirement,
    Binding,
    Choice,
    Crowd,
    Person,
    Review,
    ReviewEvent,
    ReviewKind,
    Vote,
    after,
    is_final,
    sources,
)
from postern.domain.reviews.review_rule import AccessType, ReviewRule
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.review_weighing import Ruling, Seat, Weighed, is_met, weigh
from postern.domain.reviews.time_window import TimeWindow
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import Connection, ConnectionType
from postern.errors import Conflict, Denied, Invalid

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ORG = UUID(int=1)
TABLE = {
    ("onetime", "PENDING"): {
        "approved": "APPROVED",
        "rejected": "REJECTED",
        "expired": "EXPIRED",
        "withdrawn": "WITHDRAWN",
    },
    ("onetime", "APPROVED"): {
        "started": "PROCESSING",
        "revoked": "REVOKED",
        "expired": "EXPIRED",
        "withdrawn": "WITHDRAWN",
    },
    ("onetime", "PROCESSING"): {"finished": "EXECUTED"},
    ("jit", "PENDING"): {
        "approved": "APPROVED",
        "rejected": "REJECTED",
        "expired": "EXPIRED",
        "withdrawn": "WITHDRAWN",
    },
    ("jit", "APPROVED"): {"revoked": "REVOKED", "expired": "EXPIRED", "withdrawn": "WITHDRAWN"},
    ("statement", "PENDING"): {
        "approved": "APPROVED",
        "rejected": "REJECTED",
        "expired": "EXPIRED",
        "withdrawn": "WITHDRAWN",
    },
}


def person(name: str, **fields: Any) -> Person:
    return replace(Person(uuid4(), name, f"{name}@example.com", name.title()), **fields)


OWNER = person("olga")
ANN, BOB, CAT = person("ann"), person("bob"), person("cat")


def review(*demands: ApprovalRequirement, **fields: Any) -> Review:
    kind = fields.get("kind", ReviewKind.JIT)
    assert OWNER.principal_id is not None
    values: dict[str, Any] = {
        "id": uuid4(),
        "org_id": ORG,
        "kind": kind,
        "status": ReviewStatus.PENDING,
        "owner": OWNER,
        "binding": Binding(OWNER.principal_id, UUID(int=2), UUID(int=3), "192.0.2.1", "credential:1"),
        "connection": "shop",
        "demands": demands or (ApprovalRequirement("", ("dba",)),),
        "created_at": AT,
        "expires_at": AT + WAITS[kind],
        "access_duration": DEFAULT_ACCESS if kind is ReviewKind.JIT else 0,
    }
    return Review(**(values | fields))


def seated(groups: Mapping[Person, Sequence[str]], **fields: Any) -> dict[UUID, Seat]:
    seats = {one.principal_id: Seat(True, True, frozenset(names)) for one, names in groups.items()}
    return {key: replace(seat, **fields) for key, seat in seats.items() if key is not None}


def heard(of: Review, said: Weighed) -> Review:
    """As the store keeps it."""
    others = [one for one in of.voices if not one.reviewer.is_same(said.voice.reviewer)]
    status = of.status if said.event is None else after(of.kind, of.status, said.event)
    assert status is not None
    return replace(of, voices=(*others, said.voice), status=status, time_window=said.time_window)


def test_the_table_is_this_one() -> None:
    for kind, status, event in itertools.product(ReviewKind, ReviewStatus, ReviewEvent):
        expected = TABLE.get((kind.value, status.value), {}).get(event.value)
        assert after(kind, status, event) == expected
        assert (status in sources(kind, event)) == (expected is not None)
    assert len(TRANSITIONS) == sum(map(len, TABLE.values()))


def test_nothing_leads_out_of_what_is_final() -> None:
    open_ = {
        (kind, status) for kind, status in itertools.product(ReviewKind, ReviewStatus) if not is_final(kind, status)
    }
    assert {(kind.value, status.value) for kind, status in open_} == set(TABLE)


@pytest.mark.parametrize("choice", list(Choice))
@pytest.mark.parametrize("status", list(ReviewStatus))
@pytest.mark.parametrize("kind", list(ReviewKind))
def test_a_voice_counts_in_the_states_of_the_table_only(kind: ReviewKind, status: ReviewStatus, choice: Choice) -> None:
    of = review(kind=kind, status=status, revoke_at=AT + timedelta(hours=1))
    event = ReviewEvent(choice.value.lower())
    seats = seated({ANN: ["dba"]})
    if after(kind, status, event) is None:
        with pytest.raises(Conflict):
            weigh(of, ANN, Ruling(choice, AT), seats, own_allowed=False)
    else:
        assert weigh(of, ANN, Ruling(choice, AT), seats, own_allowed=False).event is event


@pytest.mark.parametrize("choice", list(Choice))
@pytest.mark.parametrize("status", [ReviewStatus.PENDING, ReviewStatus.APPROVED])
@pytest.mark.parametrize("kind", list(ReviewKind))
def test_nobody_decides_once_its_time_is_over(kind: ReviewKind, status: ReviewStatus, choice: Choice) -> None:
    of = review(kind=kind, status=status, revoke_at=AT + timedelta(hours=30))
    late = Ruling(choice, AT + timedelta(hours=30))
    with pytest.raises(Conflict):
        weigh(of, ANN, late, seated({ANN: ["dba"]}), own_allowed=False)


def test_an_approval_that_was_kept_lasts_for_the_duration_and_a_script_has_its_time_to_start() -> None:
    given_ = review().approve(AT, None)
    assert (given_.status, given_.revoke_at) == (ReviewStatus.APPROVED, AT + timedelta(seconds=DEFAULT_ACCESS))
    assert given_.is_usable(AT)
    assert not given_.is_usable(AT + timedelta(seconds=DEFAULT_ACCESS))
    script = review(kind=ReviewKind.ONETIME).approve(AT, None)
    assert (script.revoke_at, script.expires_at) == (None, AT + RUN_WITHIN)
    assert script.is_usable(AT + RUN_WITHIN - timedelta(seconds=1))
    assert script.has_lapsed(AT + RUN_WITHIN)


def test_access_in_a_time_window_lasts_from_when_that_opens() -> None:
    night = TimeWindow(time(22), time(6))
    given_ = review().approve(AT, night)
    opens = AT.replace(hour=22)
    assert given_.revoke_at == opens + timedelta(seconds=DEFAULT_ACCESS)
    assert not given_.is_usable(AT)
    assert given_.is_usable(opens)
    assert review().approve(opens, night).revoke_at == opens + timedelta(seconds=DEFAULT_ACCESS)


@pytest.mark.parametrize(
    ("window", "hours", "ends"),
    [
        (TimeWindow(time(22), time(6)), 2, timedelta(hours=24)),
        (TimeWindow(time(22), time(6)), 8, timedelta(hours=30)),
        (TimeWindow(time(22), time(6)), 9, timedelta(hours=30)),  # closed, and does not open again before its end
        (TimeWindow(time(22), time(6)), 24, timedelta(hours=30)),
        (TimeWindow(time(22), time(6)), 25, timedelta(hours=47)),  # opens again for an hour
        (TimeWindow(time(22), time(6)), 48, timedelta(hours=54)),
        (TimeWindow(time(9), time(9)), 48, timedelta(hours=60)),  # is always open
    ],
)
def test_access_ends_when_its_window_closes_for_the_last_time(window: TimeWindow, hours: int, ends: timedelta) -> None:
    """Else who has it could neither use it nor ask anew. `ends` is counted from the midnight before."""
    given_ = review(access_duration=hours * 3600).approve(AT, window)
    assert given_.revoke_at == AT.replace(hour=0) + ends
    assert given_.is_usable(given_.revoke_at - timedelta(seconds=1))
    assert given_.has_lapsed(given_.revoke_at)


@pytest.mark.parametrize("fields", [{"is_active": False}, {"is_person": False}])
@pytest.mark.parametrize("choice", list(Choice))
def test_whoever_decides_is_an_active_person(choice: Choice, fields: dict[str, bool]) -> None:
    with pytest.raises(Denied):
        weigh(review(), ANN, Ruling(choice, AT), seated({ANN: ["dba"]}, **fields), own_allowed=False)


def test_nobody_decides_who_is_not_there_any_more() -> None:
    with pytest.raises(Denied):
        weigh(review(), ANN, Ruling(Choice.APPROVED, AT), {}, own_allowed=False)


def test_an_approval_is_for_members_only_and_administrators_are_none() -> None:
    for seats in (seated({ANN: ["dev"]}), seated({ANN: ["admin"]}, is_admin=True)):
        with pytest.raises(Denied):
            weigh(review(), ANN, Ruling(Choice.APPROVED, AT), seats, own_allowed=True)


def test_owner_administrators_and_reviewers_take_back_and_nobody_else() -> None:
    for who, seats in (
        (ANN, seated({ANN: ["dba"]})),
        (ANN, seated({ANN: []}, is_admin=True)),
        (OWNER, seated({OWNER: []})),
    ):
        said = weigh(review(), who, Ruling(Choice.REJECTED, AT), seats, own_allowed=False)
        assert said.event is ReviewEvent.REJECTED
    with pytest.raises(Denied):
        weigh(review(), ANN, Ruling(Choice.REJECTED, AT), seated({ANN: ["dev"]}), own_allowed=False)


@pytest.mark.parametrize(
    "other",
    [
        replace(OWNER, subject="x", email="x@example.com"),
        replace(OWNER, principal_id=uuid4(), email="x@example.com"),
        replace(OWNER, principal_id=uuid4(), subject="x", email=" OLGA@example.com"),
    ],
)
def test_attack_own_approval_by_a_second_account_of_the_same_person(other: Person) -> None:
    for of in (review(), review(owner=person("program"), makers=(OWNER,))):
        with pytest.raises(Denied, match="your own request"):
            weigh(of, other, Ruling(Choice.APPROVED, AT), seated({other: ["dba"]}), own_allowed=False)
        said = weigh(of, other, Ruling(Choice.APPROVED, AT), seated({other: ["dba"]}), own_allowed=True)
        assert (said.voice.own, said.event) == (True, ReviewEvent.APPROVED)


def test_empty_subjects_and_addresses_are_nobody_in_common() -> None:
    assert not Person(uuid4(), "", "").is_same(Person(uuid4(), "", ""))
    assert not Person(None, "", "").is_same(Person(None, "", ""))


def test_own_approvals_count_no_more_once_the_organisation_forbids_them() -> None:
    seats = seated({OWNER: ["dba"], ANN: ["dba"], BOB: ["dba"]})
    of = review(ApprovalRequirement("", ("dba",), min_approvals=2))
    of = heard(of, weigh(of, OWNER, Ruling(Choice.APPROVED, AT), seats, own_allowed=True))
    assert weigh(of, ANN, Ruling(Choice.APPROVED, AT), seats, own_allowed=True).event is ReviewEvent.APPROVED
    said = weigh(of, ANN, Ruling(Choice.APPROVED, AT), seats, own_allowed=False)
    assert said.event is None
    of = heard(of, said)
    assert weigh(of, BOB, Ruling(Choice.APPROVED, AT), seats, own_allowed=False).event is ReviewEvent.APPROVED


def test_a_reviewer_who_left_the_group_counts_no_more() -> None:
    of = review(ApprovalRequirement("", ("dba",), min_approvals=2))
    of = heard(of, weigh(of, ANN, Ruling(Choice.APPROVED, AT), seated({ANN: ["dba"]}), own_allowed=False))
    for left in (seated({ANN: ["dev"], BOB: ["dba"]}), seated({BOB: ["dba"]})):
        assert weigh(of, BOB, Ruling(Choice.APPROVED, AT), left, own_allowed=False).event is None
    still = seated({ANN: ["dba"], BOB: ["dba"]})
    assert weigh(of, BOB, Ruling(Choice.APPROVED, AT), still, own_allowed=False).event is ReviewEvent.APPROVED


def test_nobody_approves_twice_unless_they_say_more() -> None:
    rules = (ApprovalRequirement("one", ("dba",)), ApprovalRequirement("two", ("ops",), force_groups=("boss",)))
    of = review(*rules)
    of = heard(of, weigh(of, ANN, Ruling(Choice.APPROVED, AT), seated({ANN: ["dba"]}), own_allowed=False))
    with pytest.raises(Conflict, match="already"):
        weigh(of, ANN, Ruling(Choice.APPROVED, AT), seated({ANN: ["dba"]}), own_allowed=False)
    joined = seated({ANN: ["dba", "ops"]})
    assert weigh(of, ANN, Ruling(Choice.APPROVED, AT), joined, own_allowed=False).event is ReviewEvent.APPROVED
    boss = seated({ANN: ["dba", "boss"]})
    forced = weigh(of, ANN, Ruling(Choice.APPROVED, AT, force=True), boss, own_allowed=False)
    assert (forced.voice.forced, forced.event) == (True, ReviewEvent.APPROVED)


def test_a_force_counts_for_the_demands_that_name_its_group_only() -> None:
    of = review(ApprovalRequirement("one", ("dba",), force_groups=("boss",)), ApprovalRequirement("two", ("ops",)))
    seats = seated({ANN: ["boss"], BOB: ["dba"], CAT: ["ops"]})
    with pytest.raises(Denied):
        weigh(of, BOB, Ruling(Choice.APPROVED, AT, force=True), seats, own_allowed=False)
    said = weigh(of, ANN, Ruling(Choice.APPROVED, AT, force=True), seats, own_allowed=False)
    assert said.event is None
    of = heard(of, said)
    assert weigh(of, CAT, Ruling(Choice.APPROVED, AT), seats, own_allowed=False).event is ReviewEvent.APPROVED


def test_a_member_of_a_force_group_alone_approves_nothing_without_force() -> None:
    of = review(ApprovalRequirement("one", ("dba",), force_groups=("boss",)))
    with pytest.raises(Denied):
        weigh(of, ANN, Ruling(Choice.APPROVED, AT), seated({ANN: ["boss"]}), own_allowed=False)


def test_the_first_time_window_stands() -> None:
    night, day = TimeWindow(time(22), time(6)), TimeWindow(time(8), time(18))
    seats = seated({ANN: ["dba"], BOB: ["dba"]})
    of = review(ApprovalRequirement("", ("dba",), min_approvals=2))
    of = heard(of, weigh(of, ANN, Ruling(Choice.APPROVED, AT, time_window=night), seats, own_allowed=False))
    assert of.time_window == night
    with pytest.raises(Conflict, match="22:00 to 06:00"):
        weigh(of, BOB, Ruling(Choice.APPROVED, AT, time_window=day), seats, own_allowed=False)
    for again in (night, None):
        said = weigh(of, BOB, Ruling(Choice.APPROVED, AT, time_window=again), seats, own_allowed=False)
        assert (said.event, said.time_window) == (ReviewEvent.APPROVED, night)


@pytest.mark.parametrize("extra", [{"force": True}, {"time_window": TimeWindow(time(1), time(2))}])
def test_force_and_windows_go_with_approvals(extra: dict[str, Any]) -> None:
    for choice in (Choice.REJECTED, Choice.REVOKED):
        with pytest.raises(Invalid):
            weigh(review(), ANN, Ruling(choice, AT, **extra), seated({ANN: ["dba"]}), own_allowed=False)


def test_a_statement_has_no_time_window() -> None:
    ruling = Ruling(Choice.APPROVED, AT, time_window=TimeWindow(time(1), time(2)))
    with pytest.raises(Invalid):
        weigh(review(kind=ReviewKind.STATEMENT), ANN, ruling, seated({ANN: ["dba"]}), own_allowed=False)


# Groups, people and their accounts, for Hypothesis.
GROUPS = ("a", "b", "c", "d")
FORCES = ("a", "boss")
some_groups = st.frozensets(st.sampled_from((*GROUPS, "boss")))
demand_of = st.builds(
    ApprovalRequirement,
    rule=st.sampled_from(["", "one", "two"]),
    groups=st.lists(st.sampled_from(GROUPS), min_size=1, max_size=4, unique=True).map(tuple),
    min_approvals=st.integers(1, 3),
    all_groups=st.booleans(),
    force_groups=st.lists(st.sampled_from(FORCES), max_size=2, unique=True).map(tuple),
)


def account(who: int, number: int) -> Person:
    """Accounts of one person have an e-mail address in common, or a subject."""
    subject = f"s{who}" if number != 1 else f"s{who}-other"
    email = f"p{who}@example.com" if number != 2 else f"P{who}-second@example.com"
    return Person(UUID(int=100 + 10 * who + number), subject, email)


# Two accounts of each person, who are known for one by address or by subject. (Of a third one, which has its address in
# common with the one and its subject with the other, nobody knows before it speaks.)
ACCOUNTS = {account(who, number): who for who in range(4) for number in (0, 1 + who % 2)}
FIRST = account(0, 0)  # the owner


@dataclass(frozen=True)
class Step:
    by: Person
    force: bool
    own_allowed: bool
    groups: Mapping[Person, frozenset[str]]
    inactive: frozenset[Person]


step = st.builds(
    Step,
    by=st.sampled_from(list(ACCOUNTS)),
    force=st.booleans(),
    own_allowed=st.booleans(),
    groups=st.fixed_dictionaries(dict.fromkeys(ACCOUNTS, some_groups)),
    inactive=st.frozensets(st.sampled_from(list(ACCOUNTS)), max_size=3),
)


def brute(
    demand: ApprovalRequirement, spoken: Mapping[int, frozenset[str]], forced: Mapping[int, frozenset[str]]
) -> bool:
    """`spoken`: the groups that each person speaks for now. Every way to give groups to people is tried."""
    if any(groups & set(demand.force_groups) for groups in forced.values()):
        return True
    able = {who: groups & set(demand.groups) for who, groups in spoken.items() if groups & set(demand.groups)}
    if len(able) < demand.min_approvals:
        return False
    if not demand.all_groups:
        return True
    return any(
        all(group in able[who] for group, who in zip(demand.groups, chosen, strict=True))
        for chosen in itertools.permutations(able, len(demand.groups))
    )


@given(demands=st.lists(demand_of, min_size=1, max_size=3).map(tuple), steps=st.lists(step, max_size=8))
def test_only_what_every_demand_asks_for_approves(demands: tuple[ApprovalRequirement, ...], steps: list[Step]) -> None:
    of = review(*demands, owner=FIRST)
    for one in steps:
        groups = {who: names for who, names in one.groups.items() if who not in one.inactive}
        ruling = Ruling(Choice.APPROVED, AT, one.force)
        try:
            said = weigh(
                of, one.by, ruling, seated({who: tuple(g) for who, g in groups.items()}), own_allowed=one.own_allowed
            )
        except (Denied, Conflict):
            continue
        is_own = ACCOUNTS[one.by] == 0
        assert one.by not in one.inactive
        assert one.own_allowed or not is_own
        assert said.voice.own == is_own
        of = heard(replace(of, status=ReviewStatus.PENDING), said)
        counted = [v for v in of.voices if v.reviewer in groups and (one.own_allowed or ACCOUNTS[v.reviewer] != 0)]
        spoken: dict[int, frozenset[str]] = {}
        forced: dict[int, frozenset[str]] = {}
        for voice in counted:
            now = voice.groups & groups[voice.reviewer]
            who = ACCOUNTS[voice.reviewer]
            assert who not in spoken  # each person once
            spoken[who] = now
            if voice.forced:
                forced[who] = now
        expected = all(brute(demand, spoken, forced) for demand in demands)
        assert (said.event is ReviewEvent.APPROVED) == expected
        if expected:
            return


@given(demand=demand_of, people=st.lists(some_groups, max_size=5))
def test_groups_are_given_to_people_wherever_that_is_possible(
    demand: ApprovalRequirement, people: list[frozenset[str]]
) -> None:
    voices = [Vote(person(f"p{n}"), Choice.APPROVED, groups, AT) for n, groups in enumerate(people)]
    assert is_met(demand, voices) == brute(demand, dict(enumerate(people)), {})
    refused = [replace(voice, choice=Choice.REJECTED) for voice in voices]
    assert not is_met(demand, refused)


@given(demand=demand_of, groups=some_groups, accounts=st.integers(1, 3))
def test_one_person_counts_once_by_however_many_accounts(
    demand: ApprovalRequirement, groups: frozenset[str], accounts: int
) -> None:
    voices = [Vote(account(1, number), Choice.APPROVED, groups, AT) for number in range(accounts)]
    assert is_met(demand, voices) == brute(demand, {1: groups}, {})


def test_demands_are_the_connections_own_and_those_of_rules_that_ask() -> None:
    connection = replace(
        Connection(UUID(int=5), ORG, "shop", ConnectionType.DATABASE, "postgres", UUID(int=6)),
        reviewers=("dba", "ops"),
        force_approve_groups=("boss",),
        connection_tags={"env": "prod"},
        access_max_duration=900,
    )
    who = Principal(uuid4(), ORG, "olga", "olga@example.com", "Olga", frozenset({"dev"}))
    rule = ReviewRule(uuid4(), ORG, "b", AccessType.JIT, ("dba",), connection_ids=frozenset({connection.id}))
    rules = [
        rule,
        replace(rule, name="a", connection_ids=frozenset(), connection_tags={"env": "prod"}, max_duration=600),
        replace(rule, name="of others", required_groups=frozenset({"ops"})),
        replace(rule, name="skipped", skip_groups=frozenset({"dev"})),
        replace(rule, name="scripts", access_type=AccessType.COMMAND),
        replace(rule, name="elsewhere", org_id=uuid4()),
        replace(rule, name="nothing", connection_ids=frozenset()),
    ]
    own = ApprovalRequirement("", ("dba", "ops"), 1, True, ("boss",))
    assert [one.rule for one in demands_of(who, connection, rules, Verb.CONNECT)] == ["", "a", "b"]
    assert demands_of(who, connection, rules, Verb.CONNECT)[0] == own
    assert [one.rule for one in demands_of(who, connection, rules, Verb.EXEC)] == ["", "scripts"]
    assert longest_access(who, connection, rules, Verb.CONNECT) == 600
    assert longest_access(who, connection, [], Verb.CONNECT) == 900
    bare = replace(connection, reviewers=(), access_max_duration=None)
    assert demands_of(who, bare, [], Verb.CONNECT) == ()
    assert longest_access(who, bare, [], Verb.CONNECT) == MAX_ACCESS


def test_access_lasts_as_long_as_asked_within_what_may_be_given() -> None:
    assert access_duration(None, MAX_ACCESS) == DEFAULT_ACCESS
    assert access_duration(None, 60) == 60
    assert access_duration(60, 60) == 60
    for asked in (0, -1, 61):
        with pytest.raises(Invalid):
            access_duration(asked, 60)


def test_what_waits_is_bounded() -> None:
    half = MAX_OF_ORGANISATION // 2
    assert Crowd(MAX_OF_SESSION - 1, MAX_OF_OWNER - 1, half - 1, MAX_LATELY - 1).full() is None
    assert Crowd(0, FEW_OF_OWNER - 1, MAX_OF_ORGANISATION - 1, 0).full() is None
    assert "pending reviews, which is the limit; withdraw one" in (Crowd(0, FEW_OF_OWNER, half, 0).full() or "")
    for crowd in (
        Crowd(MAX_OF_SESSION, 0, 0, 0),
        Crowd(0, MAX_OF_OWNER, 0, 0),
        Crowd(0, 0, MAX_OF_ORGANISATION, 0),
        Crowd(0, 0, 0, MAX_LATELY),
    ):
        assert crowd.full() is not None


def test_who_forced_it_has_forced_it_when_they_speak_for_more() -> None:
    of = review(ApprovalRequirement("one", ("dba",), force_groups=("leads",)), ApprovalRequirement("two", ("ops",), 2))
    seats = seated({BOB: ["leads", "ops"]})
    of = heard(of, weigh(of, BOB, Ruling(Choice.APPROVED, AT, force=True), seated({BOB: ["leads"]}), own_allowed=False))
    of = heard(of, weigh(of, BOB, Ruling(Choice.APPROVED, AT), seats, own_allowed=False))
    assert [(voice.forced, voice.groups) for voice in of.voices] == [(True, frozenset({"leads", "ops"}))]
    seats = seated({BOB: ["leads", "ops"], CAT: ["ops"]})
    assert weigh(of, CAT, Ruling(Choice.APPROVED, AT), seats, own_allowed=False).event is ReviewEvent.APPROVED
