"""Pending tracker work of sessions in the store, on both engines and by several processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, select
from tests.support.examples import examples
from tests.support.issues import new_issue, opened, wanted
from tests.support.world import World

from postern.domain.identity.organisation import Organisation
from postern.domain.issues.issue import Issue, IssueState, SessionIssue
from postern.domain.lists import Page
from postern.domain.sessions.session import EndReason
from postern.store.database import Database
from postern.store.ports.target_ports import SessionEnd, SessionFilter
from postern.store.schema.issue_tables import session_issues
from postern.store.schema.session_tables import sessions
from postern.store.stores import Stores

ROUNDS = examples(10)
PROCESSES = 3
MADE = Issue("OPS-1", "https://tracker.example.com/browse/OPS-1")
TOLD = {"tracker_issue_key": MADE.key, "tracker_issue_url": MADE.url}
PAGE = Page(100)
LONG_AGO = timedelta(minutes=10)


@pytest.fixture
async def worlds(database_url: str) -> AsyncIterator[list[World]]:
    """The same store, as each of several processes sees it."""
    databases = [Database(database_url, pool_size=3) for _ in range(PROCESSES)]
    first = await World.make(databases[0])
    others = [replace(first, database=one, stores=Stores(one, first.encryption)) for one in databases[1:]]
    yield [first, *others]
    for one in databases:
        await one.close()


async def added(world: World, session_id: UUID | None = None, **fields: Any) -> SessionIssue:
    made = wanted(world, session_id, **fields)
    await world.stores.session_issues.add(made)
    return made


async def now(world: World, session_id: UUID) -> SessionIssue:
    found = await world.stores.session_issues.get(session_id)
    assert found is not None
    return found


async def due(world: World) -> list[UUID]:
    found = await world.stores.session_issues.due(world.org_id, world.clock(), 100)
    return [one.session_id for one in found]


async def follow(world: World) -> int:
    return await world.stores.session_issues.follow(world.clock(), world.clock() - LONG_AGO)


async def tried(world: World, session_id: UUID) -> bool:
    found = await world.stores.session_issues.get(session_id)
    return await tried_as(world, found or wanted(world, session_id))


async def tried_as(world: World, read: SessionIssue) -> bool:
    """By who read it as it was then."""
    at = world.clock()
    return await world.stores.session_issues.claim_attempt(read, at, at + timedelta(minutes=1))


async def end(world: World, session_id: UUID) -> None:
    await world.stores.sessions.end(session_id, SessionEnd(world.clock(), EndReason.COMPLETED))


async def told(world: World, session_id: UUID) -> Mapping[str, Any]:
    session = await world.stores.sessions.get(world.org_id, session_id)
    assert session is not None
    return session.integrations_metadata


async def test_session_issue_is_stored_unchanged_and_its_fields_are_sealed(world: World) -> None:
    made = await added(world)
    assert await now(world, made.session_id) == made
    assert await world.stores.session_issues.due(world.org_id, world.clock(), 100) == [made]
    async with world.database.statement() as connection:
        sealed = (await connection.execute(select(session_issues.c.new))).scalar_one()
    assert b"OPS" not in sealed
    assert await world.stores.session_issues.get(uuid4()) is None


async def test_session_has_at_most_one_issue(world: World) -> None:
    first = await added(world)
    assert await tried(world, first.session_id)
    await added(world, first.session_id, transition="closed")
    assert (await now(world, first.session_id)).transition == "done"
    assert (await now(world, first.session_id)).attempts == 1


async def test_due_issues_are_ordered_with_new_ones_first(world: World) -> None:
    issues, at = world.stores.session_issues, world.clock()
    other = Organisation(uuid4(), "acme", at)
    await world.stores.organisations.add(other)
    old = await added(world)
    assert await tried(world, old.session_id)
    assert await issues.organisations(at) == []
    world.clock.forward(minutes=1)
    new, later = await added(world), await added(world, next_at=world.clock() + timedelta(seconds=1))
    elsewhere = await added(world, org_id=other.id)
    assert await due(world) == [new.session_id, old.session_id]
    assert [one.session_id for one in await issues.due(world.org_id, world.clock(), 1)] == [new.session_id]
    assert set(await issues.organisations(world.clock())) == {world.org_id, other.id}
    assert [one.session_id for one in await issues.due(other.id, world.clock(), 9)] == [elsewhere.session_id]
    world.clock.forward(seconds=1)
    assert await due(world) == [new.session_id, later.session_id, old.session_id]


async def test_created_issue_is_set_on_its_session_and_its_fields_are_deleted(world: World) -> None:
    one = await added(world)
    await opened(world, one.session_id)
    assert await tried(world, one.session_id)
    await world.stores.session_issues.mark_created(one.session_id, MADE, world.clock())
    kept = await now(world, one.session_id)
    assert (kept.state, kept.issue, kept.new, kept.attempts, kept.next_at) == (IssueState.MADE, MADE, None, 0, None)
    assert await told(world, one.session_id) == TOLD
    found = await world.stores.sessions.find(world.org_id, SessionFilter(issue=MADE.key), Page())
    assert [session.id for session in found.items] == [one.session_id]
    assert await follow(world) == 0
    await world.stores.session_issues.mark_created(one.session_id, Issue("OPS-2", "elsewhere"), world.clock())
    assert (await now(world, one.session_id)).issue == MADE


async def test_attack_stale_reader_of_an_issue_does_not_try_it_again(world: World) -> None:
    """It would create the issue without checking whether it exists."""
    one = await added(world)
    early = await now(world, one.session_id)
    assert await tried(world, one.session_id)
    world.clock.forward(minutes=2)
    assert not await tried_as(world, early)
    assert await tried(world, one.session_id)
    await world.stores.session_issues.mark_created(one.session_id, MADE, world.clock())
    await opened(world, one.session_id)
    await end(world, one.session_id)
    await follow(world)
    assert (await now(world, one.session_id)).state is IssueState.CLOSING
    assert not await tried_as(world, early)
    assert await tried(world, one.session_id)


async def test_issue_created_before_its_session_is_set_on_it_later(world: World) -> None:
    one = await added(world)
    await world.stores.session_issues.mark_created(one.session_id, MADE, world.clock())
    assert await follow(world) == 0
    await opened(world, one.session_id)
    assert await told(world, one.session_id) == {}
    assert await follow(world) == 1
    assert await told(world, one.session_id) == TOLD
    assert await follow(world) == 0


@pytest.mark.parametrize("made_first", [True, False])
async def test_issue_is_closed_once_its_session_has_ended_in_either_order(world: World, made_first: bool) -> None:
    one = await added(world)
    await opened(world, one.session_id)
    issues = world.stores.session_issues
    if made_first:
        await issues.mark_created(one.session_id, MADE, world.clock())
    assert await follow(world) == 0
    await end(world, one.session_id)
    assert await follow(world) == 1
    if not made_first:
        assert (await now(world, one.session_id)).state is IssueState.WANTED
        await issues.mark_created(one.session_id, MADE, world.clock())
    kept = await now(world, one.session_id)
    assert (kept.state, kept.ended, kept.attempts) == (IssueState.CLOSING, True, 0)
    assert await due(world) == [one.session_id]
    assert await tried(world, one.session_id)
    await issues.mark_closed(one.session_id, world.clock())
    kept = await now(world, one.session_id)
    assert (kept.state, kept.next_at) == (IssueState.CLOSED, None)
    assert await told(world, one.session_id) == TOLD
    assert await follow(world) == 0


@pytest.mark.parametrize("made_first", [True, False])
async def test_issue_without_a_transition_is_closed_without_a_tracker_call(world: World, made_first: bool) -> None:
    one = await added(world, transition="")
    await opened(world, one.session_id)
    if made_first:
        await world.stores.session_issues.mark_created(one.session_id, MADE, world.clock())
    await end(world, one.session_id)
    await follow(world)
    if not made_first:
        await world.stores.session_issues.mark_created(one.session_id, MADE, world.clock())
    kept = await now(world, one.session_id)
    assert (kept.state, kept.next_at) == (IssueState.CLOSED, None)


async def test_failed_issue_is_retried_until_given_up_and_again_on_request(world: World) -> None:
    issues, one = world.stores.session_issues, await added(world)
    await opened(world, one.session_id)
    later = world.clock() + timedelta(minutes=5)
    assert await tried(world, one.session_id)
    await issues.mark_failed(one.session_id, "it is down", later, world.clock())
    kept = await now(world, one.session_id)
    assert (kept.state, kept.attempts, kept.error, kept.next_at) == (IssueState.WANTED, 1, "it is down", later)
    assert not await tried(world, one.session_id)
    world.clock.forward(minutes=5)
    assert await tried(world, one.session_id)
    await issues.mark_failed(one.session_id, "no such project" + "!" * 5_000, None, world.clock())
    kept = await now(world, one.session_id)
    assert (kept.state, kept.attempts, kept.next_at, len(kept.error)) == (IssueState.GIVEN_UP, 2, None, 1_000)
    assert not await tried(world, one.session_id)
    assert await issues.retry(uuid4(), one.session_id, world.clock()) == 0
    assert await issues.retry(world.org_id, uuid4(), world.clock()) == 0
    assert await issues.retry(world.org_id, one.session_id, world.clock()) == 1
    assert await issues.retry(world.org_id, None, world.clock()) == 0
    kept = await now(world, one.session_id)
    assert (kept.state, kept.attempts, kept.next_at) == (IssueState.WANTED, 2, world.clock())


async def test_failed_transition_is_retried_on_request(world: World) -> None:
    issues, one = world.stores.session_issues, await added(world)
    await opened(world, one.session_id)
    await issues.mark_created(one.session_id, MADE, world.clock())
    await end(world, one.session_id)
    await follow(world)
    assert await tried(world, one.session_id)
    await issues.mark_failed(one.session_id, "no such transition", None, world.clock())
    assert await issues.retry(world.org_id, None, world.clock()) == 1
    kept = await now(world, one.session_id)
    assert (kept.state, kept.issue, kept.next_at) == (IssueState.CLOSING, MADE, world.clock())


async def test_untried_issue_of_a_denied_session_is_deleted(world: World) -> None:
    one = await added(world)
    await world.stores.session_issues.withdraw(one.session_id, world.clock())
    assert await world.stores.session_issues.get(one.session_id) is None
    assert not await tried(world, one.session_id)


async def test_tried_issue_of_a_denied_session_is_looked_up_in_the_tracker(world: World) -> None:
    issues, one, other = world.stores.session_issues, await added(world), await added(world)
    for each in (one, other):
        assert await tried(world, each.session_id)
        await issues.withdraw(each.session_id, world.clock())
        kept = await now(world, each.session_id)
        assert (kept.state, kept.new, kept.ended) == (IssueState.WITHDRAWN, new_issue(each.session_id), True)
    world.clock.forward(minutes=1)
    assert set(await due(world)) == {one.session_id, other.session_id}
    await issues.mark_created(one.session_id, MADE, world.clock())
    assert (await now(world, one.session_id)).state is IssueState.CLOSING
    await issues.forget(one.session_id)
    assert (await now(world, one.session_id)).state is IssueState.CLOSING
    await issues.forget(other.session_id)
    assert await issues.get(other.session_id) is None


async def test_created_issue_of_a_denied_session_is_closed(world: World) -> None:
    issues, one, refused = world.stores.session_issues, await added(world), await added(world)
    await issues.mark_created(one.session_id, MADE, world.clock())
    await issues.withdraw(one.session_id, world.clock())
    assert (await now(world, one.session_id)).state is IssueState.CLOSING
    assert await tried(world, refused.session_id)
    await issues.mark_failed(refused.session_id, "no such project", None, world.clock())
    await issues.withdraw(refused.session_id, world.clock())
    assert await issues.get(refused.session_id) is None


async def test_issue_whose_session_never_opened_is_withdrawn_after_a_while(world: World) -> None:
    """The process was killed in between."""
    untried, made, sought = await added(world), await added(world), await added(world)
    there = await added(world)
    await opened(world, there.session_id)
    await world.stores.session_issues.mark_created(made.session_id, MADE, world.clock())
    assert await tried(world, sought.session_id)
    assert await follow(world) == 0
    world.clock.now += LONG_AGO + timedelta(seconds=1)
    assert await follow(world) == 3
    assert await world.stores.session_issues.get(untried.session_id) is None
    states = [(await now(world, one.session_id)).state for one in (made, sought, there)]
    assert states == [IssueState.CLOSING, IssueState.WITHDRAWN, IssueState.WANTED]
    assert await follow(world) == 0
    # What was withdrawn and given up is looked for again, and never made for nobody.
    await world.stores.session_issues.mark_failed(sought.session_id, "no", None, world.clock())
    assert await world.stores.session_issues.retry(world.org_id, None, world.clock()) == 1
    assert (await now(world, sought.session_id)).state is IssueState.WITHDRAWN


async def test_issue_of_a_deleted_session_is_closed(world: World) -> None:
    one = await added(world)
    await opened(world, one.session_id)
    await world.stores.session_issues.mark_created(one.session_id, MADE, world.clock())
    async with world.database.statement() as connection:
        await connection.execute(delete(sessions))
    world.clock.now += LONG_AGO + timedelta(seconds=1)
    assert await follow(world) == 1
    assert (await now(world, one.session_id)).state is IssueState.CLOSING


async def test_issues_are_listed_newest_first_and_closed_ones_are_pruned(world: World) -> None:
    issues, made = world.stores.session_issues, []
    for _ in range(3):
        made.append(await added(world))
        world.clock.forward(seconds=1)
    await issues.mark_created(made[1].session_id, MADE, world.clock())
    await issues.withdraw(made[1].session_id, world.clock())
    assert await tried(world, made[1].session_id)
    await issues.mark_closed(made[1].session_id, world.clock())
    listed = await issues.find(world.org_id, None, PAGE)
    assert [one.session_id for one in listed.items] == [one.session_id for one in reversed(made)]
    assert all(one.new is None for one in listed.items)
    closed = await issues.find(world.org_id, IssueState.CLOSED, PAGE)
    assert ([one.issue for one in closed.items], closed.total) == ([MADE], 1)
    second = await issues.find(world.org_id, IssueState.WANTED, Page(1, 1))
    assert ([one.session_id for one in second.items], second.total) == ([made[0].session_id], 2)
    assert (await issues.find(uuid4(), None, PAGE)).total == 0
    await issues.prune(world.clock())
    assert (await issues.find(world.org_id, None, PAGE)).total == 3
    await issues.prune(world.clock() + timedelta(seconds=1))
    assert (await issues.find(world.org_id, None, PAGE)).total == 2


async def test_one_of_several_processes_tries_an_issue(worlds: list[World]) -> None:
    for _ in range(ROUNDS):
        one = await added(worlds[0])
        assert sorted(await asyncio.gather(*(tried(world, one.session_id) for world in worlds))) == [False, False, True]


async def test_concurrent_additions_of_an_issue_leave_one(worlds: list[World]) -> None:
    for _ in range(ROUNDS):
        one = wanted(worlds[0])
        several = [replace(one, transition=str(number)) for number in range(PROCESSES)]
        adding = zip(worlds, several, strict=True)
        await asyncio.gather(*(world.stores.session_issues.add(each) for world, each in adding))
        assert await now(worlds[0], one.session_id) in several


async def test_issue_created_while_its_session_opens_or_ends_is_set_and_closed(worlds: list[World]) -> None:
    one, two, three = worlds
    for _ in range(ROUNDS):
        opening, ending = await added(one), await added(one)
        await opened(one, ending.session_id)
        await asyncio.gather(
            opened(two, opening.session_id),
            end(two, ending.session_id),
            *(one.stores.session_issues.mark_created(each.session_id, MADE, one.clock()) for each in (opening, ending)),
            follow(three),
            follow(three),
        )
        await follow(three)
        assert await told(one, opening.session_id) == TOLD
        assert await told(one, ending.session_id) == TOLD
        assert (await now(one, opening.session_id)).state is IssueState.MADE
        assert (await now(one, ending.session_id)).state is IssueState.CLOSING


async def test_issue_of_a_session_denied_concurrently_is_never_left_open(worlds: list[World]) -> None:
    """Either the tracker is never called, or its issue is closed."""
    one, two, _ = worlds
    for _ in range(ROUNDS):
        fresh, asked = await added(one), await added(one)
        assert await tried(one, asked.session_id)
        may_try, *_ = await asyncio.gather(
            tried(one, fresh.session_id),
            one.stores.session_issues.mark_created(asked.session_id, MADE, one.clock()),
            *(two.stores.session_issues.withdraw(each.session_id, two.clock()) for each in (fresh, asked)),
        )
        left = await one.stores.session_issues.get(fresh.session_id)
        assert (left is not None and left.state is IssueState.WITHDRAWN) is may_try
        assert (left is None) is not may_try
        assert (await now(one, asked.session_id)).state is IssueState.CLOSING
