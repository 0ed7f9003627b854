"""Queries about reviews: lists, grants, pending notifications, and deletion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import event, func, select
from tests.support.reviews import (
    REVIEWERS,
    asked,
    decided,
    kept,
    others_than,
    session_now,
)
from tests.support.world import START, World

from postern.domain.identity.api_key import ApiKey
from postern.domain.identity.credential import Credential, Verifier
from postern.domain.identity.principal import Account, Principal
from postern.domain.lists import Page
from postern.domain.reviews.review import (
    ApprovalRequirement,
    Choice,
    Person,
    Review,
    ReviewEvent,
    ReviewKind,
    person_of,
)
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.time_window import time_window
from postern.domain.secret import Secret
from postern.domain.sessions.retention import Purge, PurgeScope
from postern.domain.sessions.session import SessionStatus
from postern.store.ports.review_ports import ReviewFilter
from postern.store.ports.target_ports import SessionFilter
from postern.store.schema.review_tables import review_groups

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


async def test_grant_is_found_only_by_its_exact_binding_and_requirements(
    world: World, ann: Principal, bob: Principal
) -> None:
    grant = world.stores.reviews.grant
    review = await asked(world, ann, demands=(ApprovalRequirement("", (REVIEWERS, "ops")),))
    assert await grant(review.binding, review.demands, START) == review  # it waits
    assert await grant(review.binding, review.demands, review.expires_at) is None
    given = (await decided(world, review, bob)).review
    assert given.revoke_at is not None
    assert (
        await grant(review.binding, (ApprovalRequirement("", ("ops", REVIEWERS)),), given.revoke_at - SECOND) == given
    )
    assert await grant(review.binding, review.demands, given.revoke_at) is None
    for other in others_than(review.binding):
        assert await grant(other, review.demands, START) is None
    for demands in ((), (ApprovalRequirement("", (REVIEWERS,)),), (replace(review.demands[0], min_approvals=2),)):
        assert await grant(review.binding, demands, START) is None
    await decided(world, review, bob, Choice.REVOKED)
    assert await grant(review.binding, review.demands, START) is None


async def test_grant_that_gives_access_now_is_preferred(world: World, ann: Principal, bob: Principal) -> None:
    closed = await asked(world, ann)
    await decided(world, closed, bob, window=time_window("time_range", {"start_time": "10:00", "end_time": "11:00"}))
    store = world.stores.reviews
    found = await store.grant(closed.binding, closed.demands, START)
    assert found is not None
    assert found.id == closed.id
    waits = await asked(world, ann, binding=closed.binding)
    found = await store.grant(closed.binding, closed.demands, START)
    assert found is not None
    assert found.id == closed.id
    await decided(world, waits, bob)
    found = await store.grant(closed.binding, closed.demands, START)
    assert found is not None
    assert found.id == waits.id


async def test_grant_is_found_with_one_query(world: World, ann: Principal, bob: Principal) -> None:
    review = await asked(world, ann)
    await decided(world, review, bob)
    heard: list[str] = []

    def hear(_: Any, __: Any, statement: str, *___: Any) -> None:
        heard.append(statement)

    engine = world.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", hear)
    try:
        assert await world.stores.reviews.grant(review.binding, review.demands, START) is not None
    finally:
        event.remove(engine, "before_cursor_execute", hear)
    assert len(heard) == 1


@pytest.mark.ci
async def test_review_list_has_pending_reviews_first_and_then_newest_first(
    world: World, ann: Principal, bob: Principal
) -> None:
    made = []
    for n in range(12):
        owner = ann if n % 2 else bob
        groups = (REVIEWERS,) if n % 3 else ("ops",)
        fields: dict[str, Any] = {
            "kind": list(ReviewKind)[n % 3],
            "demands": (ApprovalRequirement("", groups, force_groups=("boss",) if n % 4 == 0 else ()),),
            "created_at": START + n * SECOND,
            "connection": "shop" if n < 8 else "crm",
        }
        review = await asked(world, owner, **fields)
        if n in (1, 5, 7):
            moved = await world.stores.reviews.move(review.id, ReviewEvent.WITHDRAWN, START)
            assert moved is not None
            review = moved.review
        made.append(review)
    made.sort(key=lambda one: (one.status is ReviewStatus.PENDING, one.created_at), reverse=True)

    def may(review: Review, *groups: str) -> bool:
        return review.may_review(groups)

    ops = frozenset({"ops", "boss"})
    cases: list[tuple[ReviewFilter, Callable[[Review], bool]]] = [
        (ReviewFilter(), lambda _: True),
        (ReviewFilter(status=ReviewStatus.PENDING), lambda one: one.status is ReviewStatus.PENDING),
        (ReviewFilter(status=ReviewStatus.WITHDRAWN), lambda one: one.status is ReviewStatus.WITHDRAWN),
        (ReviewFilter(kind=ReviewKind.JIT), lambda one: one.kind is ReviewKind.JIT),
        (ReviewFilter(connection="crm"), lambda one: one.connection == "crm"),
        (ReviewFilter(connection=str(UUID(int=7))), lambda _: True),
        (ReviewFilter(session_id=made[0].session_id), lambda one: one.id == made[0].id),
        (ReviewFilter(owner=ann.id), lambda one: one.owner.principal_id == ann.id),
        (ReviewFilter(groups=ops), lambda one: may(one, "ops", "boss")),
        (ReviewFilter(groups=frozenset()), lambda _: False),
        (
            ReviewFilter(mine=(ann.id, frozenset({"ops"}))),
            lambda one: one.owner.principal_id == ann.id or may(one, "ops"),
        ),
        (ReviewFilter(groups=ops, connection="crm"), lambda one: one.connection == "crm" and may(one, *ops)),
    ]
    for wanted, fits in cases:
        expected = [one for one in made if fits(one)]
        for limit in (1, 4, 50):
            found: list[Review] = []
            while True:
                page = await world.stores.reviews.find(world.org_id, wanted, Page(limit, len(found)))
                assert page.total == len(expected)
                if not page.items:
                    break
                found += page.items
            assert found == expected, wanted
    assert (await world.stores.reviews.find(uuid4(), ReviewFilter(), Page())).total == 0


async def test_creators_of_a_principals_credentials_are_found(world: World, ann: Principal, bob: Principal) -> None:
    shop = await world.add_connection()
    fields: Any = {"org_id": world.org_id, "created_at": START}
    for name, maker, by in (("one", bob.id, bob.email), ("old", None, "old@example.com"), ("own", ann.id, ann.email)):
        key = ApiKey(
            id=uuid4(), account=Account(ann), name=name, shown="pst", allowed_networks=(), created_by=by,
            maker_id=maker, revoked_at=START, secret=Secret(name), **fields,
        )  # fmt: skip
        await world.stores.api_keys.add(key)
    verifier = Verifier(4096, b"s", b"k", b"v")
    cat = await world.add_user("cat")
    issued = []
    for name, maker in (("a", cat.id), ("b", None), ("c", bob.id)):
        made = Credential(
            id=uuid4(), user_id=ann.id, connection_id=shop.id, username=name, expires_at=None, maker_id=maker, **fields
        )
        await world.stores.credentials.add(made, verifier)
        issued.append(made)
    makers = world.stores.reviews.makers
    old = Person(None, "", "old@example.com")
    known = {one.email: person_of(one) for one in (bob, cat)} | {old.email: old}
    for credential, emails in (
        (None, {bob.email, old.email}),
        (issued[0].id, {bob.email, cat.email, old.email}),
        (issued[1].id, {bob.email, old.email}),
        (issued[2].id, {bob.email, old.email}),
    ):
        assert set(await makers(ann.id, credential)) == {known[email] for email in emails}
    assert await makers(bob.id, None) == ()
    assert await makers(bob.id, issued[2].id) == ()


async def test_row_count_is_stored_only_for_a_pending_review(world: World, ann: Principal) -> None:
    review = await asked(world, ann, kind=ReviewKind.STATEMENT)
    assert await world.stores.reviews.store_estimate(review.id, {"rows": 3})
    assert (await kept(world, review)).estimate == {"rows": 3}
    await world.stores.reviews.move(review.id, ReviewEvent.EXPIRED, START)
    assert not await world.stores.reviews.store_estimate(review.id, {"rows": 4})
    assert (await kept(world, review)).estimate == {"rows": 3}


async def test_review_news_is_in_order_with_the_current_review(world: World, ann: Principal, bob: Principal) -> None:
    store = world.stores.reviews
    one = await asked(world, ann, demands=(ApprovalRequirement("", (REVIEWERS,), min_approvals=2),))
    two = await asked(world, ann, kind=ReviewKind.ONETIME, created_at=START + SECOND)
    await decided(world, one, bob, at=START + 2 * SECOND)
    await decided(world, two, bob, at=START + 3 * SECOND)
    await store.move(one.id, ReviewEvent.WITHDRAWN, START + 4 * SECOND)
    told = await store.news(100)
    assert [(news.review.id, news.kind) for news in told] == [
        (one.id, "created"),
        (two.id, "created"),
        (one.id, "voiced"),
        (two.id, "approved"),
        (one.id, "withdrawn"),
    ]
    assert [news.at for news in told] == [START + n * SECOND for n in range(5)]
    assert told[0].review == await kept(world, one)
    assert await store.news(2) == told[:2]


async def test_old_reviews_are_deleted_with_their_votes_and_groups(
    world: World, ann: Principal, bob: Principal
) -> None:
    old, new, waits = [await asked(world, ann) for _ in range(3)]
    await decided(world, old, bob, Choice.REJECTED)
    await decided(world, new, bob, Choice.REJECTED, at=START + SECOND)
    await world.stores.reviews.prune(START + SECOND)
    assert await world.stores.reviews.get(old.id) is None
    assert await world.stores.reviews.get(new.id) is not None
    assert await world.stores.reviews.get(waits.id) is not None
    assert await rows(world, review_groups) == 2
    assert (await session_now(world, old)).status is SessionStatus.DONE


async def test_purged_recording_clears_the_statements_of_its_reviews(world: World, ann: Principal) -> None:
    quoting = {"kind": ReviewKind.STATEMENT, "input": "delete from t where name = 'x'", "estimate": {"rows": 1}}
    gone, stays = [await asked(world, ann, **quoting) for _ in range(2)]
    assert gone.session_id is not None
    purge = Purge(gone.session_id, world.org_id, PurgeScope.RECORDING, "", 1, START, 0, START, "")
    await world.stores.purges.mark_done([purge])
    assert await kept(world, gone) == replace(gone, input="", estimate=None)
    assert await kept(world, stays) == stays


async def test_sessions_are_found_by_the_status_of_their_review(world: World, ann: Principal, bob: Principal) -> None:
    approved, waits = await asked(world, ann), await asked(world, ann)
    await decided(world, approved, bob)
    expectations: list[tuple[ReviewStatus, list[Review]]] = [
        (ReviewStatus.APPROVED, [approved]),
        (ReviewStatus.PENDING, [waits]),
        (ReviewStatus.REVOKED, []),
    ]
    for status, expected in expectations:
        found = await world.stores.sessions.find(world.org_id, SessionFilter(review=status), Page())
        assert [one.id for one in found.items] == [one.session_id for one in expected]
