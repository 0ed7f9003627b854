"""Issues on their way to a tracker: made once, closed once, whoever dies at whichever step."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.support.issues import CountingTracker, opened, wanted
from tests.support.promises import within
from tests.support.world import World

from postern.domain.identity.organisation import Organisation
from postern.domain.issues.issue import IssueState, SessionIssue, TrackerKind, TrackerSettings, Uncertain
from postern.domain.lists import Page
from postern.domain.sessions.session import EndReason
from postern.errors import Denied, Invalid, NotFound, PosternError, Unavailable
from postern.services.issues import issue_delivery
from postern.services.issues.issue_delivery import IssueDelivery
from postern.store.database import Database
from postern.store.ports.common_ports import Topic
from postern.store.ports.issue_ports import SessionIssueStore
from postern.store.ports.target_ports import SessionEnd

SETTINGS = TrackerSettings(TrackerKind.JIRA_CLOUD, "https://tracker.example.com")


class Killed(BaseException):
    """The process dies here."""


@dataclass
class Office:
    world: World
    tracker: CountingTracker
    settings: dict[UUID, TrackerSettings | None] = field(default_factory=dict)
    counted: list[str] = field(default_factory=list)
    running: list[IssueDelivery] = field(default_factory=list)

    def process(self, store: SessionIssueStore | None = None) -> IssueDelivery:
        """Another one that delivers."""

        async def settings(org_id: UUID) -> TrackerSettings | None:
            return self.settings.get(org_id, SETTINGS)

        made = IssueDelivery(
            store=store or self.world.stores.session_issues,
            leases=self.world.stores.leases,
            settings=settings,
            trackers=self.tracker,
            signals=self.world.signals,
            now=self.world.clock,
            count=self.counted.append,
        )
        self.running.append(made)
        return made

    async def session(self, **fields: Any) -> UUID:
        """One that runs, whose issue is wanted."""
        one = wanted(self.world, **fields)
        await self.world.stores.session_issues.add(one)
        await opened(self.world, one.session_id, org_id=one.org_id)
        return one.session_id

    async def end(self, session_id: UUID) -> None:
        await self.world.stores.sessions.end(session_id, SessionEnd(self.world.clock(), EndReason.COMPLETED))

    async def now(self, session_id: UUID) -> SessionIssue:
        found = await self.world.stores.session_issues.get(session_id)
        assert found is not None
        return found

    async def round(self, process: IssueDelivery) -> None:
        await process.once()
        await process.wait_until_idle()


@pytest.fixture
async def office(database: Database) -> AsyncIterator[Office]:
    world = await World.make(database)
    made = Office(world, CountingTracker(world.clock))
    yield made
    for process in made.running:
        await process.stop()
    assert made.tracker.open_clients == 0


def raises(error: Callable[[], BaseException], *questions: str) -> Callable[[str], Coroutine[Any, Any, None]]:
    async def raising(question: str) -> None:
        if question in questions:
            raise error()

    return raising


async def test_an_issue_is_made_and_closed_once_its_session_is_over(office: Office) -> None:
    process, key = office.process(), await office.session()
    await office.round(process)
    kept = await office.now(key)
    assert (kept.state, kept.issue) == (IssueState.MADE, office.tracker.made[0][0])
    await office.round(process)
    await office.end(key)
    await office.round(process)
    assert (await office.now(key)).state is IssueState.CLOSED
    assert office.tracker.status == {"OPS-1": "done"}
    assert office.tracker.asked == ["create", "transition"]
    assert office.counted == ["made", "closed"]
    session = await office.world.stores.sessions.get(office.world.org_id, key)
    assert session is not None
    assert session.integrations_metadata == {
        "tracker_issue_key": "OPS-1",
        "tracker_issue_url": "https://tracker.example.com/OPS-1",
    }


async def test_the_end_of_a_session_that_was_over_before_its_issue_was_made(office: Office) -> None:
    process, key = office.process(), await office.session()
    await office.end(key)
    for _ in range(2):
        await office.round(process)
    assert (await office.now(key)).state is IssueState.CLOSED
    assert office.tracker.asked == ["create", "transition"]


async def test_whoever_waits_for_it_is_told(office: Office) -> None:
    process, key = office.process(), await office.session()
    assert not process.woken.is_set()
    await office.world.signals.publish(Topic.ISSUE_CHANGED, session_id=str(key))
    assert process.woken.is_set()
    await office.round(process)
    assert office.world.signals.of(Topic.ISSUE_CHANGED)[1:] == [{"session_id": str(key)}]


@pytest.mark.parametrize("error", [lambda: Unavailable("it is down"), lambda: Uncertain("it went away"), TimeoutError])
@pytest.mark.parametrize("done", [False, True])
async def test_after_an_answer_that_never_came_it_is_looked_for_first(
    office: Office, error: Callable[[], Exception], done: bool
) -> None:
    """And no earlier than the tracker would find it."""
    process, key = office.process(), await office.session()
    office.tracker.lag = 45.0
    if done:
        office.tracker.after = raises(error, "create")
    else:
        office.tracker.before = raises(error, "create")
    await office.round(process)
    office.tracker.before = office.tracker.after = None
    kept = await office.now(key)
    assert kept.state is IssueState.WANTED
    assert kept.error
    assert kept.next_at is not None
    if (done and not isinstance(error(), Unavailable)) or isinstance(error(), Uncertain):
        assert (kept.next_at - office.world.clock.now).total_seconds() >= 45.0
    await office.round(process)
    assert office.tracker.asked == ["create"]
    office.world.clock.now = max(kept.next_at, office.world.clock.now)
    office.world.clock.forward(seconds=45)
    await office.round(process)
    assert office.tracker.asked == ["create", "find", *([] if done else ["create"])]
    assert len(office.tracker.made) == 1
    assert (await office.now(key)).state is IssueState.MADE
    assert office.counted == ["failed", "made"]


async def test_tries_are_further_and_further_apart_and_end_after_days(office: Office) -> None:
    process, key = office.process(), await office.session()
    office.tracker.before = raises(lambda: Unavailable("it is down"), "create", "find")
    waits = []
    for _ in range(12):
        await office.round(process)
        kept = await office.now(key)
        assert kept.next_at is not None
        waits.append((kept.next_at - office.world.clock.now).total_seconds())
        office.world.clock.now = kept.next_at
    assert waits[0] <= 5.0
    assert all(before < after * 2.1 for before, after in itertools.pairwise(waits))
    assert all(150.0 <= wait <= 300.0 for wait in waits[-4:])
    office.world.clock.now += issue_delivery.KEPT_TRYING
    await office.round(process)
    kept = await office.now(key)
    told = f"an earlier attempt may have created it (search for {kept.new and kept.new.marker}): it is down"
    assert (kept.state, kept.error, kept.next_at) == (IssueState.GIVEN_UP, told, None)
    assert office.counted == [*["failed"] * 12, "given_up"]


async def test_a_tracker_that_asks_for_a_pause_gets_it(office: Office) -> None:
    process, key = office.process(), await office.session()
    office.tracker.before = raises(lambda: Unavailable("slowly", retry_after=120), "create")
    await office.round(process)
    kept = await office.now(key)
    assert kept.next_at is not None
    assert (kept.next_at - office.world.clock.now).total_seconds() >= 120


@pytest.mark.parametrize("kind", [Denied, NotFound, Invalid])
async def test_what_a_tracker_refuses_for_good_is_given_up_until_somebody_says_otherwise(
    office: Office, kind: type[PosternError], caplog: pytest.LogCaptureFixture
) -> None:
    process, key = office.process(), await office.session()
    office.tracker.before = raises(lambda: kind("no\nsuch project"), "create")
    await office.round(process)
    kept = await office.now(key)
    assert (kept.state, kept.error, kept.next_at) == (IssueState.GIVEN_UP, "no\\nsuch project", None)
    assert f"issue given up: session={key} action=create error=no\\nsuch project" in caplog.text
    assert "customfield" not in caplog.text
    assert office.counted == ["given_up"]
    office.tracker.before = None
    await office.round(process)
    assert office.tracker.asked == ["create"]
    await office.world.stores.session_issues.retry(office.world.org_id, key, office.world.clock())
    await office.round(process)
    assert (await office.now(key)).state is IssueState.MADE
    assert len(office.tracker.made) == 1


@pytest.mark.parametrize("is_there", [True, False])
async def test_attack_what_was_given_up_after_an_uncertain_try_says_so_and_is_not_lost(
    office: Office, is_there: bool
) -> None:
    """Nor is it where its session never came."""
    process, one = office.process(), wanted(office.world)
    store = office.world.stores.session_issues
    await store.add(one)
    fails = raises(lambda: Uncertain("it went away"), "create")
    office.tracker.before, office.tracker.after = (None, fails) if is_there else (fails, None)
    await office.round(process)
    office.tracker.after, office.tracker.before = None, raises(lambda: Denied("no such token"), "find")
    office.world.clock.forward(minutes=2)
    await office.round(process)
    told = f"an earlier attempt may have created it (search for {one.new and one.new.marker}): no such token"
    for minutes in (0, 15):
        office.world.clock.forward(minutes=minutes)
        await office.round(process)
        kept = await office.now(one.session_id)
        assert (kept.state, kept.error) == (IssueState.GIVEN_UP, told)
    office.tracker.before = None
    assert await store.retry(office.world.org_id, None, office.world.clock()) == 1
    await office.round(process)
    await office.round(process)
    if is_there:
        assert (await office.now(one.session_id)).state is IssueState.CLOSED
    else:
        assert await store.get(one.session_id) is None
    assert len(office.tracker.made) == is_there


@pytest.mark.parametrize("is_there", [True, False])
async def test_attack_who_tries_again_after_days_and_twice_makes_one(office: Office, is_there: bool) -> None:
    """It is tried once; whether that came through is looked for before anybody can try it anew."""
    process, key = office.process(), await office.session()
    office.tracker.lag = 20.0
    again = office.world.stores.session_issues.retry
    office.tracker.before = raises(lambda: Invalid("no such project"), "create")
    await office.round(process)
    office.world.clock.now += issue_delivery.KEPT_TRYING * 2
    fails = raises(lambda: Uncertain("it went away"), "create")
    office.tracker.before, office.tracker.after = (None, fails) if is_there else (fails, None)
    for _ in range(3):
        await again(office.world.org_id, key, office.world.clock())
        await office.round(process)
        office.world.clock.forward(seconds=5)
    assert (await office.now(key)).error == "it went away"
    office.tracker.before = office.tracker.after = None
    office.world.clock.forward(minutes=2)
    await office.round(process)
    kept = await office.now(key)
    if is_there:
        assert kept.state is IssueState.MADE
    else:
        told = "it went away; the gateway searched the tracker for it and did not find it"
        assert (kept.state, kept.error, kept.next_at) == (IssueState.GIVEN_UP, told, None)
        await again(office.world.org_id, key, office.world.clock())
        await office.round(process)
    assert (await office.now(key)).state is IssueState.MADE
    assert len(office.tracker.made) == 1


async def test_a_transition_that_fails_is_tried_again(office: Office) -> None:
    process, key = office.process(), await office.session()
    await office.round(process)
    await office.end(key)
    office.tracker.before = raises(lambda: Uncertain("it went away"), "transition")
    await office.round(process)
    office.tracker.before = None
    office.world.clock.forward(minutes=1)
    await office.round(process)
    assert (await office.now(key)).state is IssueState.CLOSED
    assert office.tracker.asked == ["create", "transition", "transition"]


async def test_without_a_tracker_they_wait_for_one(office: Office) -> None:
    process, key = office.process(), await office.session()
    for missing in (None, replace(SETTINGS, enabled=False)):
        office.settings[office.world.org_id] = missing
        await office.round(process)
        kept = await office.now(key)
        assert (kept.state, kept.attempts, kept.error) == (IssueState.WANTED, 0, issue_delivery.NO_TRACKER)
        office.world.clock.forward(minutes=5)
    del office.settings[office.world.org_id]
    await office.round(process)
    assert (await office.now(key)).state is IssueState.MADE
    assert office.tracker.asked == ["create"]


async def test_a_slow_tracker_holds_up_no_other_organisation(office: Office) -> None:
    other = Organisation(uuid4(), "acme", office.world.clock())
    await office.world.stores.organisations.add(other)
    slow = [await office.session() for _ in range(2 * issue_delivery.OF_ONE)]
    go_on, all_wait, told = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def wait(question: str) -> None:
        if len(office.tracker.asked) == issue_delivery.OF_ONE:
            all_wait.set()
        await go_on.wait()

    office.tracker.before = wait
    process = office.process()
    await process.once()
    async with asyncio.timeout(within(5)):
        await all_wait.wait()
    office.tracker.before = None
    quick = await office.session(org_id=other.id)
    office.world.signals.subscribe(Topic.ISSUE_CHANGED, lambda _: told.set())
    await process.once()
    async with asyncio.timeout(within(5)):
        await told.wait()
    assert (await office.now(quick)).state is IssueState.MADE
    assert len(office.tracker.asked) == issue_delivery.OF_ONE + 1
    go_on.set()
    await process.wait_until_idle()
    await office.round(process)
    assert {(await office.now(key)).state for key in slow} == {IssueState.MADE}
    assert len(office.tracker.made) == len(slow) + 1


async def test_attack_a_tracker_that_is_never_idle_is_asked_by_the_settings_that_there_are(office: Office) -> None:
    """What was changed or switched off must not wait until nothing is to be done."""
    asked_by: list[TrackerSettings] = []
    made = CountingTracker.__call__

    def by(tracker: CountingTracker, settings: TrackerSettings) -> CountingTracker:
        asked_by.append(settings)
        return made(tracker, settings)

    process, go_on, waits = office.process(), asyncio.Event(), asyncio.Event()

    async def wait(_question: str) -> None:
        waits.set()
        await go_on.wait()

    office.tracker.before = wait
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CountingTracker, "__call__", by)
        first = await office.session()
        await process.once()
        async with asyncio.timeout(within(5)):
            await waits.wait()
        other = replace(SETTINGS, url="https://other.example.com")
        office.settings[office.world.org_id] = other
        second = await office.session()
        await process.once()
        assert office.tracker.asked == ["create"]
        go_on.set()
        await process.wait_until_idle()
        await office.round(process)
        assert asked_by == [SETTINGS, other]
        assert {(await office.now(one)).state for one in (first, second)} == {IssueState.MADE}
        go_on.clear()
        waits.clear()
        await office.session()
        await process.once()
        async with asyncio.timeout(within(5)):
            await waits.wait()
        office.settings[office.world.org_id] = replace(other, enabled=False)
        off = await office.session()
        await process.once()
        assert (await office.now(off)).error == issue_delivery.NO_TRACKER
        go_on.set()
        await process.wait_until_idle()
    assert office.tracker.open_clients == 0


async def test_attack_the_issue_of_a_session_that_lasted_long_is_not_given_up_at_the_first_fault(
    office: Office,
) -> None:
    process, key = office.process(), await office.session()
    await office.round(process)
    office.world.clock.now += 2 * issue_delivery.KEPT_TRYING
    await office.end(key)
    office.tracker.before = raises(lambda: Unavailable("it is down"), "transition")
    await office.round(process)
    assert (await office.now(key)).state is IssueState.CLOSING
    office.tracker.before = None
    office.world.clock.forward(minutes=1)
    await office.round(process)
    assert office.tracker.status == {"OPS-1": "done"}


async def test_one_process_at_a_time_delivers(office: Office) -> None:
    key, first, second = await office.session(), office.process(), office.process()
    await office.round(first)
    later = await office.session()
    await office.round(second)
    assert (await office.now(later)).state is IssueState.WANTED
    await first.stop()
    await office.round(second)
    assert {(await office.now(one)).state for one in (key, later)} == {IssueState.MADE}
    assert len(office.tracker.made) == 2


class Dying:
    """A store whose process is killed at its n-th change, before it or right after it."""

    def __init__(self, store: SessionIssueStore, at: int, *, after: bool) -> None:
        self._store, self._left, self._after = store, at, after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in ("trying", "made", "closed", "forget", "failed"):
            return found

        async def call(*args: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                raise Killed
            answer = await found(*args)
            if self._left == 0:
                raise Killed
            return answer

        return call


@pytest.mark.parametrize("step", ["create", "find", "transition"])
@pytest.mark.parametrize("after", [False, True])
async def test_killed_while_a_tracker_is_asked(office: Office, step: str, after: bool) -> None:
    office.tracker.lag = 20.0
    key = await office.session()
    if step == "find":  # there was an attempt before, that came through and of which nothing was heard
        office.tracker.after = raises(lambda: Uncertain("it went away"), "create")
        await _life(office, office.process())
        office.tracker.after = None
        office.world.clock.forward(minutes=2)
    if step == "transition":
        await _life(office, office.process())
        await office.end(key)
    dies = raises(Killed, step)
    office.tracker.before, office.tracker.after = (None, dies) if after else (dies, None)
    await _life(office, office.process())
    office.tracker.before = office.tracker.after = None
    await _rest(office, key)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("after", [False, True])
async def test_killed_while_it_is_noted(office: Office, number: int, after: bool) -> None:
    office.tracker.lag = 20.0
    key = await office.session()
    dying = office.process(Dying(office.world.stores.session_issues, number, after=after))
    await _life(office, dying)
    await office.end(key)
    await _life(office, dying)
    await _rest(office, key)


async def _life(office: Office, process: IssueDelivery) -> None:
    """Until it is killed, or nothing is left to be done now; its lease ends by itself."""
    await process.once()
    while process._tasks:
        await asyncio.wait(process._tasks)
    office.world.clock.forward(seconds=40)


async def _rest(office: Office, key: UUID) -> None:
    """Others do what is left: there is one issue, and it is closed."""
    await office.end(key)
    process = office.process()
    for _ in range(6):
        await office.round(process)
        office.world.clock.forward(minutes=2)
    kept = await office.now(key)
    assert (kept.state, len(office.tracker.made)) == (IssueState.CLOSED, 1)
    assert kept.issue == office.tracker.made[0][0]
    assert office.tracker.status == {"OPS-1": "done"}


async def test_an_issue_that_was_refused_its_session_is_looked_for_and_closed(office: Office) -> None:
    """It may have been made all the same; if it was not, it never is."""
    process, store = office.process(), office.world.stores.session_issues
    for is_there in (True, False):
        one = wanted(office.world)
        await store.add(one)
        fails = raises(lambda: Uncertain("it went away"), "create")
        office.tracker.before, office.tracker.after = (None, fails) if is_there else (fails, None)
        await office.round(process)
        office.tracker.before = office.tracker.after = None
        await store.withdraw(one.session_id, office.world.clock())
        for _ in range(3):
            office.world.clock.forward(minutes=2)
            await office.round(process)
        if is_there:
            assert (await office.now(one.session_id)).state is IssueState.CLOSED
        else:
            assert await store.get(one.session_id) is None
    assert office.tracker.status == {"OPS-1": "done"}
    assert (await store.find(office.world.org_id, None, Page(10))).total == 1
