"""How the store adds, decides, moves and ends reviews."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import time, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, insert, select, update
from tests.support.reviews import (
    REVIEWERS,
    asked,
    decided,
    kept,
    new_review,
    others_than,
    session_now,
    session_of,
)
from tests.support.world import START, World

from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import (
    RUN_WITHIN,
    ApprovalRequirement,
    Choice,
    Person,
    Review,
    ReviewEvent,
    ReviewKind,
    Vote,
    person_of,
)
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.time_window import TimeWindow, time_window
from postern.domain.sessions.session import EndReason, SessionStatus, Verb
from postern.domain.targets.command import Invocation
from postern.errors import Conflict, Denied, Invalid, NotFound, TooMany
from postern.store.ports.notification_ports import ALL
from postern.store.ports.target_ports import SessionEnd
from postern.store.schema.identity_tables import orgs
from postern.store.schema.review_tables import reviews
from postern.store.schema.session_tables import session_starts, sessions
from postern.store.sql.reviews import review_moves as module

EVENING = time_window("time_range", {"start_time": "18:00", "end_time": "02:00", "time_zone": "Europe/Vienna"})
SECOND = timedelta(seconds=1)


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann")


@pytest.fixture
async def bob(world: World) -> Principal:
    return await world.add_user("bob", REVIEWERS)


async def rows(world: World, table: Any) -> int:
    async with world.database.statement() as statement:
        return int((await statement.execute(select(func.count()).select_from(table))).scalar_one())


async def test_review_is_stored_unchanged(world: World, ann: Principal) -> None:
    maker = Person(uuid4(), "root", "root@example.com", "Root", "U123")
    demands = (
        ApprovalRequirement("", ("dba", "ops"), 1, all_groups=True, force_groups=("boss",)),
        ApprovalRequirement("prod", ("ops", "sec"), min_approvals=2),
    )
    fields: dict[str, Any] = {"makers": (maker,), "demands": demands, "reason": "INC-7", "access_duration": 600}
    review = await asked(world, ann, **fields)
    assert await kept(world, review) == review
    waits = await session_now(world, review)
    assert (waits.status, waits.worker, waits.review_id) == (SessionStatus.OPEN, None, review.id)
    assert await world.stores.reviews.of_sessions(world.org_id, [waits.id, uuid4()]) == {waits.id: review}
    assert await world.stores.reviews.of_sessions(uuid4(), [waits.id]) == {}
    assert await world.stores.reviews.get(uuid4()) is None
    statement = await asked(world, ann, kind=ReviewKind.STATEMENT, input="delete from t", estimate={"rows": 7})
    assert await kept(world, statement) == statement
    assert (await session_now(world, statement)).review_id is None


async def test_pending_reviews_are_found_among_many(world: World, ann: Principal, bob: Principal) -> None:
    first, second, over = [await asked(world, ann) for _ in range(3)]
    await decided(world, second, bob)
    ids = {first.id, second.id, over.id, uuid4()}
    assert await world.stores.reviews.waiting(ids, START) == {first.id, over.id}
    assert await world.stores.reviews.waiting(ids, first.expires_at) == set()
    assert await world.stores.reviews.waiting([], START) == set()
    assert await world.stores.reviews.waiting([uuid4() for _ in range(1_000)] + [first.id], START) == {first.id}


async def test_repeated_request_finds_the_pending_review(world: World, ann: Principal, bob: Principal) -> None:
    store = world.stores.reviews
    demand = ApprovalRequirement("prod", ("ops", "sec"))
    first = await asked(world, ann, demands=(demand,))
    same = replace(demand, groups=("sec", "ops"))
    again, waiting = session_of(new_review(world, ann, binding=first.binding, demands=(same,)))
    assert await store.add(again, waiting, source="192.0.2.1") == first
    assert await world.stores.sessions.get(world.org_id, waiting.id) is None
    others: list[dict[str, Any]] = [
        {"demands": (replace(demand, min_approvals=2),)},
        {"demands": (demand, ApprovalRequirement("more", ("ops",)))},
        {"created_at": first.expires_at},
        *({"binding": binding} for binding in others_than(first.binding)),
    ]
    for fields in others:
        other = await asked(world, ann, **({"binding": first.binding, "demands": (demand,)} | fields))
        assert other.id != first.id
    script = {"kind": ReviewKind.ONETIME, "binding": first.binding, "demands": (demand,)}
    assert len({(await asked(world, ann, **script)).id for _ in range(2)}) == 2


async def test_request_right_after_an_approval_finds_the_grant(world: World, ann: Principal, bob: Principal) -> None:
    """Another client of the same burst was faster."""
    given = (await decided(world, await asked(world, ann), bob)).review
    assert given.status is ReviewStatus.APPROVED
    same = {"binding": given.binding}
    assert (await asked(world, ann, **same)).id == given.id
    for other in (
        {"access_duration": 600},
        {"created_at": given.revoke_at},
        {"demands": (ApprovalRequirement("more", ("ops",)),)},
    ):
        assert (await asked(world, ann, **same, **other)).id != given.id
    later = await asked(world, ann)
    window = TimeWindow(time(18), time(19))
    closed = (await decided(world, later, bob, window=window)).review
    assert (await asked(world, ann, binding=closed.binding)).id != closed.id


async def test_pending_reviews_per_user_are_limited_and_slots_are_freed(
    world: World, ann: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postern.domain.reviews.review.MAX_OF_OWNER", 3)
    monkeypatch.setattr("postern.domain.reviews.review.FEW_OF_OWNER", 3)
    monkeypatch.setattr("postern.domain.reviews.review.MAX_OF_ORGANISATION", 4)
    some = [await asked(world, ann) for _ in range(3)]
    before = await rows(world, sessions)
    with pytest.raises(TooMany, match="you have 3 pending reviews"):
        await asked(world, ann)
    await asked(world)
    with pytest.raises(TooMany, match="the organisation has 4"):
        await asked(world)
    assert await rows(world, sessions) == before + 1  # nothing is left of what was refused
    await world.stores.reviews.move(some[0].id, ReviewEvent.WITHDRAWN, START)
    await asked(world, ann)
    await asked(world, ann, created_at=some[0].expires_at)  # nobody waits for the others any more


async def test_statement_reviews_per_session_are_limited(
    world: World, ann: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postern.domain.reviews.review.MAX_OF_SESSION", 2)
    first = await asked(world, ann, kind=ReviewKind.STATEMENT)
    await world.stores.reviews.move(first.id, ReviewEvent.EXPIRED, START)
    statement = replace(new_review(world, ann, kind=ReviewKind.STATEMENT), session_id=first.session_id)
    await world.stores.reviews.add(statement, None, source="")
    with pytest.raises(TooMany, match="session"):
        await world.stores.reviews.add(replace(statement, id=uuid4()), None, source="")
    await asked(world, ann, kind=ReviewKind.STATEMENT)


async def test_approval_grants_the_requested_access(world: World, ann: Principal, bob: Principal) -> None:
    review = await asked(world, ann)
    at = START + 5 * SECOND
    moved = await decided(world, review, bob, at=at, comment="go on")
    voice = Vote(person_of(bob), Choice.APPROVED, frozenset({REVIEWERS}), at, comment="go on")
    until = at + timedelta(seconds=1_800)
    expected = replace(review, status=ReviewStatus.APPROVED, decided_at=at, revoke_at=until, voices=(voice,))
    assert (moved.review, moved.session_ended) == (expected, False)
    assert await kept(world, review) == expected
    assert (await session_now(world, review)).status is SessionStatus.READY
    script = await decided(world, await asked(world, ann, kind=ReviewKind.ONETIME), bob, at=at)
    assert (script.review.expires_at, script.review.revoke_at) == (at + RUN_WITHIN, None)
    statement = await decided(world, await asked(world, ann, kind=ReviewKind.STATEMENT), bob, at=at)
    assert statement.review.status is ReviewStatus.APPROVED
    assert (await session_now(world, statement.review)).worker == "w0"


async def test_time_window_of_the_first_reviewer_is_kept(world: World, ann: Principal, bob: Principal) -> None:
    cat = await world.add_user("cat", REVIEWERS)
    review = await asked(world, ann, demands=(ApprovalRequirement("two", (REVIEWERS,), min_approvals=2),))
    first = await decided(world, review, bob, window=EVENING)
    assert (first.review.status, first.review.time_window) == (ReviewStatus.PENDING, EVENING)
    second = await decided(world, review, cat)
    assert (second.review.status, second.review.time_window) == (ReviewStatus.APPROVED, EVENING)
    assert second.review.revoke_at == EVENING.opens_at(START) + timedelta(seconds=1_800)


async def test_force_approval_replaces_the_earlier_vote_of_the_reviewer(world: World, ann: Principal) -> None:
    boss = await world.add_user("boss", REVIEWERS, "bosses")
    demand = ApprovalRequirement("two", (REVIEWERS,), min_approvals=2, force_groups=("bosses",))
    review = await asked(world, ann, demands=(demand,))
    assert (await decided(world, review, boss)).review.status is ReviewStatus.PENDING
    forced = await decided(world, review, boss, force=True)
    assert forced.review.status is ReviewStatus.APPROVED
    assert [(one.forced, one.groups) for one in forced.review.voices] == [(True, frozenset({REVIEWERS, "bosses"}))]


async def test_denied_decision_does_not_change_the_review(world: World, ann: Principal, bob: Principal) -> None:
    dev = await world.add_user("dev", "dev")
    review = await asked(world, ann)
    before = len(await world.stores.reviews.news(100))
    for who, error in ((dev, Denied), (ann, Denied)):
        with pytest.raises(error):
            await decided(world, review, who)
    with pytest.raises(Invalid):
        await decided(world, review, bob, Choice.REJECTED, force=True)
    with pytest.raises(Conflict):
        await decided(world, review, bob, at=review.expires_at)
    with pytest.raises(NotFound):
        await decided(world, replace(review, id=uuid4()), bob)
    assert await kept(world, review) == review
    assert len(await world.stores.reviews.news(100)) == before


async def test_reviewer_of_another_organisation_is_denied(world: World, ann: Principal) -> None:
    other = uuid4()
    async with world.database.statement() as statement:
        await statement.execute(insert(orgs).values(id=other, name="two", created_at=START))
    stranger = await replace(world, org_id=other).add_user("zoe", REVIEWERS, "admin")
    review = await asked(world, ann)
    for choice in Choice:
        with pytest.raises(Denied):
            await decided(world, review, stranger, choice)


async def test_administrator_can_reject_but_not_approve(world: World, ann: Principal) -> None:
    root = await world.add_user("root", "admin")
    review = await asked(world, ann)
    with pytest.raises(Denied):
        await decided(world, review, root)
    assert (await decided(world, review, root, Choice.REJECTED)).session_ended


@pytest.mark.parametrize("kind", [ReviewKind.JIT, ReviewKind.ONETIME])
@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda world, review, bob: decided(world, review, bob, Choice.REJECTED, comment="not today"), "rejected"),
        (lambda world, review, _: world.stores.reviews.move(review.id, ReviewEvent.EXPIRED, START), "expired"),
        (lambda world, review, _: world.stores.reviews.move(review.id, ReviewEvent.WITHDRAWN, START), "withdrawn"),
    ],
)
async def test_ended_review_ends_its_waiting_session(
    world: World, ann: Principal, bob: Principal, kind: ReviewKind, end: Callable[..., Any], reason: str
) -> None:
    review, waiting = session_of(new_review(world, ann, kind=kind))
    store = world.stores.reviews
    await store.add(review, waiting, source="::1", invocation=Invocation(("-n",)))
    moved = await end(world, review, bob)
    assert (moved.review.status.lower(), moved.session_ended) == (reason, True)
    ended = await session_now(world, review)
    assert (ended.status, ended.metadata["end_reason"], ended.end_date) == (SessionStatus.DONE, reason, START)
    if reason == "rejected":
        assert ended.metadata["end_detail"] == "rejected by bob@example.com: not today"
    assert await rows(world, session_starts) == 0
    async with world.database.statement() as statement:
        told = select(sessions.c.pending).where(sessions.c.id == ended.id)
        assert (await statement.execute(told)).scalar_one() == ALL
    for event_ in ReviewEvent:
        assert await store.move(review.id, event_, START) is None


async def test_reviewed_script_keeps_its_arguments(world: World, ann: Principal, bob: Principal) -> None:
    review, waiting = session_of(new_review(world, ann, kind=ReviewKind.ONETIME))
    await world.stores.reviews.add(review, waiting, source="::1", invocation=Invocation(("-n",)))
    await decided(world, review, bob)
    assert (await world.stores.sessions.take_invocation(waiting.id)).arguments == ("-n",)


async def test_reviewed_script_is_claimed_only_after_its_start(world: World, ann: Principal, bob: Principal) -> None:
    review = await asked(world, ann, kind=ReviewKind.ONETIME)
    store, claim = world.stores.reviews, world.stores.sessions.claim
    assert review.session_id is not None
    assert await claim(review.session_id, "w1", START) is None
    assert await store.move(review.id, ReviewEvent.STARTED, START) is None
    await decided(world, review, bob)
    assert await claim(review.session_id, "w1", START) is None
    assert await world.stores.sessions.ids(SessionStatus.READY, None) == []
    late = START + RUN_WITHIN
    assert await store.move(review.id, ReviewEvent.STARTED, late) is None
    assert await store.move(review.id, ReviewEvent.STARTED, late - SECOND) is not None
    assert await world.stores.sessions.ids(SessionStatus.READY, None) == [review.session_id]
    claimed = await claim(review.session_id, "w1", START)
    assert claimed is not None
    assert (claimed[0].script, claimed[1], claimed[2]) == ("select 1", ann.id, "192.0.2.1")
    await store.finish(review.session_id, late)
    await store.finish(review.session_id, late)
    assert (await kept(world, review)).status is ReviewStatus.EXECUTED


async def test_reviewed_script_is_not_started_outside_its_time_window(
    world: World, ann: Principal, bob: Principal
) -> None:
    review = await asked(world, ann, kind=ReviewKind.ONETIME)
    await decided(world, review, bob, window=EVENING)
    closes = EVENING.closes_at(EVENING.opens_at(START))
    assert await world.stores.reviews.move(review.id, ReviewEvent.STARTED, closes) is None
    assert await world.stores.reviews.move(review.id, ReviewEvent.STARTED, closes - SECOND) is not None


async def test_waiting_client_continues_with_its_own_session(world: World, ann: Principal, bob: Principal) -> None:
    review = await asked(world, ann)
    assert review.session_id is not None
    await decided(world, review, bob)
    assert await world.stores.sessions.ids(SessionStatus.READY, None) == []
    key = uuid4()
    claimed = await world.stores.sessions.claim(
        review.session_id, "w1", START, metadata={"client": "psql"}, credential_id=key
    )
    assert claimed is not None
    own = claimed[0]
    assert (own.status, own.worker, own.metadata, own.credential_id) == (
        SessionStatus.OPEN,
        "w1",
        {"client": "psql"},
        key,
    )
    assert not await world.stores.sessions.end_if_ready(own.id, SessionEnd(START, EndReason.KILLED))
    assert not (await decided(world, review, bob, Choice.REVOKED)).session_ended


async def test_review_of_an_ended_session_cannot_be_approved(world: World, ann: Principal, bob: Principal) -> None:
    for kind in ReviewKind:
        review = await asked(world, ann, kind=kind)
        assert review.session_id is not None
        await world.stores.sessions.end(review.session_id, SessionEnd(START, EndReason.KILLED))
        with pytest.raises(Conflict):
            await decided(world, review, bob)
        assert (await kept(world, review)).voices == ()


async def test_reviews_expire_at_their_deadlines(
    world: World, ann: Principal, bob: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = world.stores.reviews

    async def given(kind: ReviewKind, *, ended: bool = False, approved: bool = True) -> Review:
        review = await asked(world, ann, kind=kind)
        if approved:
            review = (await decided(world, review, bob)).review
        if ended and review.session_id is not None:
            await world.stores.sessions.end(review.session_id, SessionEnd(START, EndReason.KILLED))
        return review

    late = {kind: await given(kind, approved=False) for kind in ReviewKind}
    used = {kind: await given(kind) for kind in (ReviewKind.JIT, ReviewKind.ONETIME)}
    left = [await given(kind, ended=True, approved=False) for kind in ReviewKind]
    left.append(await given(ReviewKind.ONETIME, ended=True))
    run = await given(ReviewKind.ONETIME)
    assert run.session_id is not None
    await store.move(run.id, ReviewEvent.STARTED, START)
    await world.stores.sessions.claim(run.session_id, "w1", START)
    lasting = await given(ReviewKind.JIT, ended=True)  # a session of a grant is over, and the grant is not
    monkeypatch.setattr(module, "_MOST_LAPSING", 3)

    async def lapsed(at: Any) -> dict[UUID, ReviewStatus]:
        found: dict[UUID, ReviewStatus] = {}
        while some := await store.lapse(at):
            assert len(some) <= 3
            found |= {one.review.id: one.review.status for one in some}
        return found

    assert await lapsed(START) == {one.id: ReviewStatus.WITHDRAWN for one in left}
    await world.stores.sessions.end(run.session_id, SessionEnd(START, EndReason.COMPLETED))
    assert await lapsed(START) == {run.id: ReviewStatus.EXECUTED}
    gone = [*late.values(), *used.values(), lasting]
    moments = [one.revoke_at or one.expires_at for one in gone]
    for one, moment in zip(gone, moments, strict=True):
        assert one.id not in await lapsed(moment - SECOND)
        if (await kept(world, one)).status is not ReviewStatus.EXPIRED:
            assert (await lapsed(moment)).get(one.id) is ReviewStatus.EXPIRED
    assert {(await kept(world, one)).status for one in gone} == {ReviewStatus.EXPIRED}
    assert (await session_now(world, late[ReviewKind.JIT])).metadata["end_reason"] == "expired"
    assert (await session_now(world, late[ReviewKind.STATEMENT])).status is SessionStatus.OPEN


async def test_ready_script_without_a_review_is_claimed(world: World, ann: Principal) -> None:
    _, plain = session_of(new_review(world, ann), review_id=None, status=SessionStatus.READY, verb=Verb.EXEC)
    await world.stores.sessions.add(plain, principal_id=ann.id, source="::1")
    assert await world.stores.sessions.ids(SessionStatus.READY, None) == [plain.id]
    assert await world.stores.sessions.claim(plain.id, "w1", START) is not None


async def test_session_whose_review_is_missing_is_not_claimed(world: World, ann: Principal, bob: Principal) -> None:
    review = await asked(world, ann)
    await decided(world, review, bob)
    assert review.session_id is not None
    async with world.database.statement() as statement:
        await statement.execute(update(sessions).where(sessions.c.id == review.session_id).values(review_id=uuid4()))
    assert await world.stores.sessions.claim(review.session_id, "w1", START) is None
    assert await rows(world, reviews) == 1
