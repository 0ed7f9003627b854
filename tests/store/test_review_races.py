"""Concurrent events of a review have one correct outcome: several processes, one store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, delete, update
from tests.support.examples import examples
from tests.support.reviews import REVIEWERS, asked, decided, kept, new_review, session_now, session_of
from tests.support.world import START, World

from postern.domain.identity.credential import Credential, Verifier
from postern.domain.identity.principal import Principal, PrincipalStatus
from postern.domain.reviews.review import (
    MAX_OF_OWNER,
    ApprovalRequirement,
    Choice,
    Review,
    ReviewedCredential,
    ReviewEvent,
    ReviewKind,
)
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.sessions.session import Session, SessionStatus
from postern.errors import Conflict, Denied, TooMany
from postern.store.database import Database
from postern.store.ports.review_ports import Moved
from postern.store.schema.identity_tables import user_groups, users
from postern.store.schema.target_tables import credentials
from postern.store.stores import Stores

pytestmark = pytest.mark.ci

ROUNDS = examples(5)
PROCESSES = 4
KINDS = [ReviewKind.JIT, ReviewKind.ONETIME]


@pytest.fixture
async def worlds(database_url: str) -> AsyncIterator[list[World]]:
    """The same store, as each of several processes sees it."""
    databases = [Database(database_url, pool_size=3) for _ in range(PROCESSES)]
    first = await World.make(databases[0])
    others = [replace(first, database=one, stores=Stores(one, first.encryption)) for one in databases[1:]]
    yield [first, *others]
    for one in databases:
        await one.close()


async def staff(world: World) -> tuple[Principal, Principal, Principal]:
    """Who asks, and two who review."""
    return (
        await world.add_user("ann"),
        await world.add_user("bob", REVIEWERS),
        await world.add_user("cat", REVIEWERS),
    )


async def at_once(*works: Any) -> list[Any]:
    """What each gave or raised: nothing but what a review's rules raise."""
    found = await asyncio.gather(*works, return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException) and not isinstance(one, Conflict | Denied | TooMany):
            raise one
    return found


def those(found: Sequence[Any], kind: type) -> list[Any]:
    return [one for one in found if isinstance(one, kind)]


async def state(world: World, review: Review) -> tuple[Review, Session]:
    return await kept(world, review), await session_now(world, review)


async def news(world: World, review: Review) -> list[str]:
    return [one.kind for one in await world.stores.reviews.news(10_000) if one.review.id == review.id]


@pytest.mark.parametrize("kind", KINDS)
async def test_one_of_two_concurrent_approvals_counts(worlds: list[World], kind: ReviewKind) -> None:
    one, two, *_ = worlds
    ann, bob, cat = await staff(one)
    for _ in range(ROUNDS):
        review = await asked(one, ann, kind=kind)
        found = await at_once(decided(one, review, bob), decided(two, review, cat))
        assert len(those(found, Moved)) == len(those(found, Conflict)) == 1
        now, session = await state(one, review)
        assert (now.status, session.status, len(now.voices)) == (ReviewStatus.APPROVED, SessionStatus.READY, 1)
        assert sorted(await news(one, review)) == ["approved", "created"]


async def test_second_of_two_required_concurrent_approvals_approves(worlds: list[World]) -> None:
    one, two, *_ = worlds
    ann, bob, cat = await staff(one)
    for _ in range(ROUNDS):
        review = await asked(one, ann, demands=(ApprovalRequirement("two", (REVIEWERS,), min_approvals=2),))
        found = await at_once(decided(one, review, bob), decided(two, review, cat))
        assert sorted(moved.review.status for moved in found) == [ReviewStatus.APPROVED, ReviewStatus.PENDING]
        assert sorted(await news(one, review)) == ["approved", "created", "voiced"]
        assert (await state(one, review))[1].status is SessionStatus.READY


async def test_concurrent_approvals_of_one_user_count_once(worlds: list[World]) -> None:
    ann, bob, _ = await staff(worlds[0])
    for _ in range(ROUNDS):
        review = await asked(worlds[0], ann, demands=(ApprovalRequirement("two", (REVIEWERS,), min_approvals=2),))
        found = await at_once(*(decided(world, review, bob) for world in worlds))
        assert (len(those(found, Moved)), len(those(found, Conflict))) == (1, PROCESSES - 1)
        assert (await state(worlds[0], review))[0].status is ReviewStatus.PENDING


@pytest.mark.parametrize("kind", KINDS)
async def test_one_of_a_concurrent_approval_and_rejection_counts(worlds: list[World], kind: ReviewKind) -> None:
    one, two, *_ = worlds
    ann, bob, cat = await staff(one)
    for _ in range(ROUNDS):
        review = await asked(one, ann, kind=kind)
        found = await at_once(decided(one, review, bob), decided(two, review, cat, Choice.REJECTED))
        assert len(those(found, Moved)) == len(those(found, Conflict)) == 1
        now, session = await state(one, review)
        expected = {ReviewStatus.APPROVED: SessionStatus.READY, ReviewStatus.REJECTED: SessionStatus.DONE}
        assert session.status is expected[now.status]


@pytest.mark.parametrize("kind", KINDS)
async def test_withdrawal_wins_over_a_concurrent_approval(worlds: list[World], kind: ReviewKind) -> None:
    """The approval came before the withdrawal or too late."""
    one, two, *_ = worlds
    ann, bob, _ = await staff(one)
    for _ in range(ROUNDS):
        review = await asked(one, ann, kind=kind)
        withdraw = two.stores.reviews.move(review.id, ReviewEvent.WITHDRAWN, START)
        approved, withdrawn = await at_once(decided(one, review, bob), withdraw)
        assert withdrawn.session_ended
        now, session = await state(one, review)
        assert (now.status, session.status) == (ReviewStatus.WITHDRAWN, SessionStatus.DONE)
        told = ["created", "withdrawn"] if isinstance(approved, Conflict) else ["created", "approved", "withdrawn"]
        assert sorted(await news(one, review)) == sorted(told)


@pytest.mark.parametrize("kind", [*KINDS, ReviewKind.STATEMENT])
async def test_one_of_a_concurrent_approval_and_deadline_counts(worlds: list[World], kind: ReviewKind) -> None:
    """A worker expires a review that is undecided, and never one that has just been decided."""
    one, two, *_ = worlds
    ann, bob, _ = await staff(one)
    for _ in range(ROUNDS):
        review = await asked(one, ann, kind=kind)
        expire = two.stores.reviews.move(review.id, ReviewEvent.EXPIRED, START)
        approved, expired = await at_once(decided(one, review, bob), expire)
        assert isinstance(approved, Moved) == (expired is None)
        now, session = await state(one, review)
        assert now.status is (ReviewStatus.APPROVED if expired is None else ReviewStatus.EXPIRED)
        if kind is not ReviewKind.STATEMENT:
            assert session.status is (SessionStatus.READY if expired is None else SessionStatus.DONE)


async def test_concurrent_revocation_ends_the_session_or_its_worker_is_notified(worlds: list[World]) -> None:
    """Either the client was admitted and its worker ends it, or it was never admitted."""
    one, two, *_ = worlds
    ann, bob, cat = await staff(one)
    for _ in range(ROUNDS):
        review = await asked(one, ann)
        assert review.session_id is not None
        await decided(one, review, bob)
        claim = one.stores.sessions.claim(review.session_id, "w1", START)
        claimed, revoked = await at_once(claim, decided(two, review, cat, Choice.REVOKED))
        now, session = await state(one, review)
        assert now.status is ReviewStatus.REVOKED
        assert revoked.session_ended == (claimed is None)
        assert session.status is (SessionStatus.DONE if claimed is None else SessionStatus.OPEN)


async def test_script_started_concurrently_runs_once(worlds: list[World]) -> None:
    ann, bob, _ = await staff(worlds[0])
    for _ in range(ROUNDS):
        review = await asked(worlds[0], ann, kind=ReviewKind.ONETIME)
        assert review.session_id is not None
        await decided(worlds[0], review, bob)
        moves = (world.stores.reviews.move(review.id, ReviewEvent.STARTED, START) for world in worlds)
        assert len(those(await at_once(*moves), Moved)) == 1
        claims = (world.stores.sessions.claim(review.session_id, f"w{n}", START) for n, world in enumerate(worlds))
        assert len(those(await at_once(*claims), tuple)) == 1
        ends = (world.stores.reviews.finish(review.session_id, START) for world in worlds)
        await at_once(*ends)
        assert (await state(worlds[0], review))[0].status is ReviewStatus.EXECUTED
        assert sorted(await news(worlds[0], review)) == ["approved", "created", "finished", "started"]


async def test_one_of_a_concurrent_start_and_revocation_counts(worlds: list[World]) -> None:
    one, two, *_ = worlds
    ann, bob, cat = await staff(one)
    for _ in range(ROUNDS):
        review = await asked(one, ann, kind=ReviewKind.ONETIME)
        await decided(one, review, bob)
        start = one.stores.reviews.move(review.id, ReviewEvent.STARTED, START)
        started, revoked = await at_once(start, decided(two, review, cat, Choice.REVOKED))
        assert isinstance(revoked, Conflict) == (started is not None)
        now, session = await state(one, review)
        if started is None:
            assert (now.status, session.status) == (ReviewStatus.REVOKED, SessionStatus.DONE)
        else:
            assert (now.status, session.status) == (ReviewStatus.PROCESSING, SessionStatus.READY)


@pytest.mark.parametrize("way", ["group", "account"])
async def test_decision_waits_for_the_removal_of_its_reviewer_and_is_denied(worlds: list[World], way: str) -> None:
    """The removal began before the decision and ends after it."""
    one, two, *_ = worlds
    ann, bob, _ = await staff(one)
    review = await asked(one, ann)
    gone = delete(user_groups).where(user_groups.c.user_id == bob.id)
    barred = update(users).where(users.c.id == bob.id).values(status=PrincipalStatus.INACTIVE)
    async with one.database.transaction() as transaction:
        await transaction.execute(gone if way == "group" else barred)
        deciding = asyncio.create_task(decided(two, review, bob))
        done, _pending = await asyncio.wait([deciding], timeout=0.3)
        assert not done
    with pytest.raises(Denied):
        await deciding
    assert (await state(one, review))[0].status is ReviewStatus.PENDING


async def test_concurrent_removals_and_decisions_never_deadlock(worlds: list[World]) -> None:
    one, two, three, *_ = worlds
    ann, bob, cat = await staff(one)
    group = await one.stores.groups.get(one.org_id, REVIEWERS)
    assert group is not None
    for _ in range(ROUNDS):
        review = await asked(one, ann, demands=(ApprovalRequirement("two", (REVIEWERS,), min_approvals=2),))
        found = await at_once(
            decided(one, review, bob),
            decided(two, review, cat),
            three.stores.groups.update(replace(group, name="others")),
        )
        now, _ = await state(one, review)
        assert len(now.voices) == len(those(found, Moved))
        group = await one.stores.groups.update(replace(group, version=group.version + 1))


async def test_concurrent_requests_of_a_user_respect_the_limit_of_pending_reviews(worlds: list[World]) -> None:
    ann, *_ = await staff(worlds[0])
    binding = new_review(worlds[0], ann).binding
    bindings = [replace(binding, source=f"192.0.2.{n}") for n in range(MAX_OF_OWNER + 10)]
    works = [asked(worlds[n % PROCESSES], ann, binding=binding) for n, binding in enumerate(bindings)]
    found = await at_once(*works)
    assert (len(those(found, Review)), len(those(found, TooMany))) == (MAX_OF_OWNER, 10)


async def test_burst_of_one_client_creates_one_review_with_one_session(worlds: list[World]) -> None:
    ann, *_ = await staff(worlds[0])
    binding = new_review(worlds[0], ann).binding
    pairs = [session_of(new_review(worlds[0], ann, binding=binding)) for _ in range(20)]
    works = [
        worlds[n % PROCESSES].stores.reviews.add(review, session, source="192.0.2.1")
        for n, (review, session) in enumerate(pairs)
    ]
    found = await at_once(*works)
    assert len({review.id for review in found}) == 1
    added = [await worlds[0].stores.sessions.get(worlds[0].org_id, session.id) for _, session in pairs]
    assert [session.id for session in added if session is not None] == [found[0].session_id]


async def test_concurrent_background_jobs_expire_each_review_once(worlds: list[World]) -> None:
    ann, *_ = await staff(worlds[0])
    reviews = [await asked(worlds[0], ann, kind=ReviewKind.ONETIME) for _ in range(10)]
    later = START + timedelta(days=2)
    rounds = await at_once(*(world.stores.reviews.lapse(later) for world in worlds))
    ended = [moved.review.id for one in rounds for moved in one]
    assert sorted(ended) == sorted(review.id for review in reviews)


async def credential_of(world: World, owner: Principal) -> ReviewedCredential:
    """Valid for an hour, for the connection of reviews."""
    place = new_review(world).binding.connection_id
    if await world.stores.connections.get(world.org_id, str(place)) is None:
        await world.add_connection("asked for", id=place, reviewers=(REVIEWERS,))
    key, until = uuid4(), START + timedelta(hours=1)
    credential = Credential(key, world.org_id, owner.id, place, f"ann-shop-{key.hex[:6]}", START, until)
    await world.stores.credentials.add(credential, Verifier(4096, b"salt", b"stored", b"server"))
    return ReviewedCredential(key, credential.username)


async def revoke(world: World, credential: ReviewedCredential) -> list[Moved]:
    assert await world.stores.credentials.revoke(credential.id, START)
    return await world.stores.reviews.withdraw_unusable(START, credential.id)


async def test_approval_concurrent_with_the_revocation_of_its_credential_is_first_or_too_late(
    worlds: list[World],
) -> None:
    one, two, *_ = worlds
    ann, bob, _ = await staff(one)
    for number in range(ROUNDS):
        credential = await credential_of(one, ann)
        review = await asked(one, ann, credential=credential)

        async def approve(review: Review = review, delay: float = 0.02 * number) -> Moved:
            await asyncio.sleep(delay)  # from before the revocation to behind it
            return await decided(one, review, bob)

        approved, withdrawn = await at_once(approve(), revoke(two, credential))
        now, session = await state(one, review)
        if isinstance(approved, Conflict):
            assert (now.status, session.status) == (ReviewStatus.WITHDRAWN, SessionStatus.DONE)
            assert now.withdrawal_reason == f"credential {credential.username!r} was revoked"
            assert [moved.session_ended for moved in withdrawn] == [True]
            assert session.metadata["end_detail"] == f"its review was withdrawn: {now.withdrawal_reason}"
        else:
            assert (now.status, now.withdrawal_reason, withdrawn) == (ReviewStatus.APPROVED, "", [])
            assert session.status is SessionStatus.READY


async def test_approval_waits_for_a_revocation_that_has_not_committed(worlds: list[World]) -> None:
    """The approval reads the credential only once the other transaction has ended."""
    one, two, *_ = worlds
    ann, bob, _ = await staff(one)
    credential = await credential_of(one, ann)
    review = await asked(one, ann, credential=credential)
    begun, approve = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(connection: Connection) -> None:
        row = credentials.c.id == credential.id
        connection.execute(update(credentials).where(row).values(revoked_at=START))
        loop.call_soon_threadsafe(begun.set)
        time.sleep(0.5)

    async def late() -> Moved:
        await begun.wait()
        approve.set()
        return await decided(one, review, bob)

    found = await at_once(two.database.together(slow), late())
    assert approve.is_set()
    assert isinstance(found[1], Conflict)
    assert "was revoked, so there is nothing to approve" in found[1].message
    assert (await kept(one, review)).status is ReviewStatus.PENDING
    (moved,) = await one.stores.reviews.lapse(START)
    assert moved.review.status is ReviewStatus.WITHDRAWN


async def test_one_of_concurrent_withdrawals_for_a_credential_counts(worlds: list[World]) -> None:
    ann, *_ = await staff(worlds[0])
    credential = await credential_of(worlds[0], ann)
    review = await asked(worlds[0], ann, credential=credential)
    await worlds[0].stores.credentials.revoke(credential.id, START)
    found = await at_once(*(world.stores.reviews.withdraw_unusable(START, credential.id) for world in worlds))
    assert sorted(map(len, found)) == [0] * (PROCESSES - 1) + [1]
    assert sorted(await news(worlds[0], review)) == ["created", "withdrawn"]


async def test_review_of_a_deleted_credential_is_withdrawn_and_an_approved_one_is_not(worlds: list[World]) -> None:
    world = worlds[0]
    ann, bob, _ = await staff(world)
    deleted, revoked = await credential_of(world, ann), await credential_of(world, ann)
    review, approved = await asked(world, ann, credential=deleted), await asked(world, ann, credential=revoked)
    await decided(world, approved, bob)
    async with world.database.statement() as statement:
        await statement.execute(delete(credentials).where(credentials.c.id == deleted.id))
    assert await revoke(world, revoked) == []
    (moved,) = await world.stores.reviews.lapse(START)
    assert (moved.review.id, moved.review.withdrawal_reason) == (
        review.id,
        f"credential {deleted.username!r} was deleted",
    )
