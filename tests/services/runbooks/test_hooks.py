"""Session hooks: which there are at a moment, what that costs, and who sees what became of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import update
from tests.support.promises import PATIENT
from tests.support.runbooks import NAME, URL
from tests.support.sessions import add_session
from tests.support.world import World

from postern.domain.hook import MAX_OUTPUT, HookKind, HookOutcome, HookRun
from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import Principal
from postern.domain.runbook import CLOSE_HOOK, OPEN_HOOK
from postern.errors import Denied, NotFound, Unavailable
from postern.services.bundle import Services
from postern.services.runbooks import hooks as module
from postern.services.runbooks.hooks import RunbookHooks
from postern.services.runbooks.repositories import FileFields
from postern.store.ports.common_ports import Topic
from postern.store.ports.runbook_ports import RepositoryHooks
from postern.store.schema.session_tables import sessions

OTHER = "https://git.example.com/other"


class Counted:
    """What the store has of hooks, and how often it was asked. While it is `held` it does not answer."""

    def __init__(self, world: World) -> None:
        self._hooks = world.stores.runbook_snapshots.hooks
        self.asked: list[UUID] = []
        self.held: asyncio.Event | None = None
        self._waits = asyncio.Event()
        self.away = False

    async def __call__(self, org_id: UUID) -> list[RepositoryHooks]:
        self.asked.append(org_id)
        if self.away:
            raise Unavailable("the store does not answer")
        found = await self._hooks(org_id)
        if self.held is not None:
            self._waits.set()
            await self.held.wait()
        return found

    async def is_held(self) -> None:
        """The next one that asks waits."""
        async with asyncio.timeout(PATIENT):
            await self._waits.wait()
        self._waits.clear()


@pytest.fixture
def asked(world: World, monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted(world)
    monkeypatch.setattr(world.stores.runbook_snapshots, "hooks", counted)
    return counted


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
def hooks(services: Services, asked: Counted) -> RunbookHooks:
    return services.hooks


@pytest.fixture
async def admin(world: World) -> Principal:
    return await world.add_user("root", "admin")


async def add(services: Services, admin: Principal, url: str = URL, ttl: int = 60) -> str:
    made = await services.runbook_repositories.create(admin, {"git_url": url, "hook_ttl": ttl})
    await services.runbook_repositories.refresh(admin, made.name)
    return made.name


async def texts(hooks: RunbookHooks, world: World, kind: HookKind = HookKind.OPEN) -> list[str]:
    return [one.text for one in await hooks.of(world.org_id, kind)]


async def test_each_kind_of_every_repository_that_has_them_switched_on(
    world: World, services: Services, hooks: RunbookHooks, admin: Principal
) -> None:
    made = world.fetcher.put({}, hooks={OPEN_HOOK: "first", CLOSE_HOOK: "close"})
    world.fetcher.put({}, OTHER, hooks={OPEN_HOOK: "second"})
    world.fetcher.put({}, f"{OTHER}/off", hooks={OPEN_HOOK: "off"})
    await add(services, admin)
    await add(services, admin, OTHER)
    await add(services, admin, f"{OTHER}/off", ttl=0)
    assert await texts(hooks, world) == ["first", "second"]
    (close,) = await hooks.of(world.org_id, HookKind.CLOSE)
    assert (close.kind, close.repository, close.commit, close.text) == (HookKind.CLOSE, NAME, made.commit, "close")
    other = Organisation(uuid4(), "other", world.clock())
    await world.stores.organisations.add(other)
    assert await hooks.of(other.id, HookKind.OPEN) == []


async def test_asking_costs_nothing_for_the_smallest_ttl_and_half_a_minute_at_most(
    world: World, services: Services, hooks: RunbookHooks, asked: Counted, admin: Principal
) -> None:
    async def lasts(seconds: float) -> bool:
        await texts(hooks, world)
        before = len(asked.asked)
        world.clock.forward(seconds=seconds - 0.1)
        await asyncio.gather(*(texts(hooks, world, kind) for kind in HookKind))
        if len(asked.asked) != before:
            return False
        world.clock.forward(seconds=0.2)
        await asyncio.gather(*(texts(hooks, world, kind) for kind in HookKind))
        return len(asked.asked) == before + 1

    assert await lasts(30)  # also where there is none
    world.fetcher.put({}, hooks={OPEN_HOOK: "first"})
    await add(services, admin, ttl=86_400)
    assert await lasts(30)
    await add(services, admin, OTHER, ttl=3)  # which cannot be read
    assert await lasts(3)
    assert await texts(hooks, world) == ["first"]


async def test_what_changes_holds_at_once(
    world: World, services: Services, hooks: RunbookHooks, asked: Counted, admin: Principal
) -> None:
    repositories, fetcher = services.runbook_repositories, world.fetcher
    assert await texts(hooks, world) == []
    fetcher.put({}, hooks={OPEN_HOOK: "first"})
    key = await add(services, admin)
    assert await texts(hooks, world) == ["first"]
    fetcher.put({}, hooks={OPEN_HOOK: "second"})
    await repositories.refresh(admin, key)
    assert await texts(hooks, world) == ["second"]
    await repositories.commit(admin, key, FileFields("a.runbook.sh", "echo"))  # the commit of the fake has no hooks
    assert await texts(hooks, world) == []
    fetcher.put({}, hooks={OPEN_HOOK: "third"})
    world.clock.forward(minutes=10)
    await texts(hooks, world)
    await services.runbook_reading.once(timedelta(minutes=5), failing=False)
    assert await texts(hooks, world) == ["third"]
    await repositories.replace(admin, key, {"git_url": URL})
    await repositories.refresh(admin, key)
    assert await texts(hooks, world) == []
    await repositories.replace_all(admin, [{"git_url": URL, "hook_ttl": 60}])
    await repositories.refresh(admin, key)
    assert await texts(hooks, world) == ["third"]
    await repositories.remove(admin, key)
    assert await texts(hooks, world) == []
    heard = world.signals.of(Topic.SETTINGS_CHANGED)
    assert all(one == {"name": "runbooks", "org_id": str(world.org_id)} for one in heard)


async def test_that_there_is_none_is_known_as_long_as_anything_is(
    world: World, services: Services, hooks: RunbookHooks, asked: Counted, admin: Principal
) -> None:
    def known(org_id: UUID = world.org_id) -> list[bool]:
        return [hooks.is_none(org_id, kind) for kind in HookKind]

    assert known() == [False, False]
    await texts(hooks, world)
    assert known() == [True, True]
    assert known(uuid4()) == [False, False]
    world.fetcher.put({}, hooks={OPEN_HOOK: "first"})
    await add(services, admin)
    assert known() == [False, False]
    await texts(hooks, world)
    assert known() == [False, True]
    world.clock.forward(seconds=31)
    assert known() == [False, False]
    await world.signals.publish(Topic.RESUMED)
    await texts(hooks, world)
    assert len(asked.asked) == 3


async def test_reading_again_what_is_the_same_commit_drops_nothing(
    world: World, services: Services, hooks: RunbookHooks, asked: Counted, admin: Principal
) -> None:
    """Repositories are read every few minutes; it must not cost every worker its cache."""
    world.fetcher.put({}, hooks={OPEN_HOOK: "first"})
    await add(services, admin, ttl=86_400)
    world.clock.forward(minutes=10)
    await texts(hooks, world)
    before = len(asked.asked), len(world.signals.of(Topic.SETTINGS_CHANGED)), len(world.fetcher.asked)
    await services.runbook_reading.once(timedelta(minutes=5), failing=False)
    await texts(hooks, world)
    after = len(asked.asked), len(world.signals.of(Topic.SETTINGS_CHANGED)), len(world.fetcher.asked)
    assert after == (*before[:2], before[2] + 1)


async def test_only_signals_about_it_drop_it(world: World, hooks: RunbookHooks, asked: Counted) -> None:
    await texts(hooks, world)
    await world.signals.publish(Topic.SETTINGS_CHANGED, name="runbooks", org_id=str(uuid4()))
    await world.signals.publish(Topic.SETTINGS_CHANGED, name="auth", org_id=str(world.org_id))
    await texts(hooks, world)
    assert len(asked.asked) == 1
    await world.signals.publish(Topic.SETTINGS_CHANGED, name="runbooks", org_id=str(world.org_id))
    await texts(hooks, world)
    assert len(asked.asked) == 2
    await world.signals.publish(Topic.RESUMED)  # signals may have been missed
    await texts(hooks, world)
    assert len(asked.asked) == 3


async def test_many_who_ask_at_once_are_one_statement_and_one_that_leaves_takes_nobody_with_it(
    world: World, hooks: RunbookHooks, asked: Counted
) -> None:
    asked.held = asyncio.Event()
    tasks = [asyncio.create_task(texts(hooks, world)) for _ in range(50)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.sleep(0)
    asked.held.set()
    assert await asyncio.gather(*tasks[1:]) == [[]] * 49
    assert len(asked.asked) == 1


async def test_what_was_asked_before_a_change_is_not_kept(
    world: World, services: Services, hooks: RunbookHooks, asked: Counted, admin: Principal
) -> None:
    world.fetcher.put({}, hooks={OPEN_HOOK: "first"})
    key = await add(services, admin, ttl=86_400)
    asked.held = asyncio.Event()
    early = asyncio.create_task(texts(hooks, world))
    await asked.is_held()
    await services.runbook_repositories.remove(admin, key)
    late = asyncio.create_task(texts(hooks, world))
    await asked.is_held()
    asked.held.set()
    assert await early == ["first"]
    assert await late == []
    assert await texts(hooks, world) == []


async def test_a_store_that_is_away_is_said_and_asked_again(world: World, hooks: RunbookHooks, asked: Counted) -> None:
    asked.away = True
    with pytest.raises(Unavailable):
        await texts(hooks, world)
    asked.away = False
    assert await texts(hooks, world) == []


async def test_memory_is_bounded(
    world: World, services: Services, hooks: RunbookHooks, admin: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_KEPT", 10)
    world.fetcher.put({}, hooks={OPEN_HOOK: "1234567"})
    await add(services, admin)
    orgs = [Organisation(uuid4(), f"other{number}", world.clock()) for number in range(3)]
    for one in orgs:
        await hooks.of(one.id, HookKind.OPEN)
    assert len(hooks._kept) == 3
    assert await texts(hooks, world) == ["1234567"]
    assert len(hooks._kept) == 4
    monkeypatch.setattr(module, "_ORGANISATIONS_KEPT", 4)
    await hooks.of(uuid4(), HookKind.OPEN)
    assert len(hooks._kept) == 1


def run_of(session_id: UUID, world: World, outcome: HookOutcome) -> HookRun:
    return HookRun(uuid4(), world.org_id, session_id, HookKind.OPEN, NAME, "c0ffee", world.clock(), 0.5, outcome)


async def test_what_became_of_them_is_for_administrators_and_auditors(
    world: World, hooks: RunbookHooks, admin: Principal
) -> None:
    ann, auditor = await world.add_user("ann"), await world.add_user("audrey", "auditor")
    session = await add_session(world, ann)
    run = run_of(session.id, world, HookOutcome(1, "printed"))
    await hooks.record_run(run)
    for reader in (admin, auditor):
        assert await hooks.find(reader, session.id) == [run]
        assert await hooks.find(reader, str(session.id)) == [run]
    with pytest.raises(Denied, match="administrators and auditors"):
        await hooks.find(ann, session.id)
    with pytest.raises(NotFound):
        await hooks.find(await world.add_user("bob"), session.id)
    for unknown in (uuid4(), "no identifier"):
        with pytest.raises(NotFound):
            await hooks.find(admin, unknown)
    elsewhere = replace(admin, org_id=uuid4())
    with pytest.raises(NotFound):
        await hooks.find(elsewhere, session.id)


async def test_what_is_kept_of_one_is_bounded_and_readable(world: World, hooks: RunbookHooks, admin: Principal) -> None:
    session = await add_session(world, admin)
    await hooks.record_run(
        run_of(session.id, world, HookOutcome(None, "\ud800" + "\u4e2d" * 5_000, "no\x1b[2J\n" + "x" * 5_000))
    )
    (kept,) = await hooks.find(admin, session.id)
    assert kept.outcome.output == "?" + "\u4e2d" * (MAX_OUTPUT - 1)
    assert kept.outcome.reason.startswith("no [2J x")
    assert len(kept.outcome.reason) == 1_000
    await hooks.record_run(run_of(uuid4(), world, HookOutcome(0)))  # its session is gone


async def test_what_they_printed_is_not_shown_once_the_recording_is_being_purged(
    world: World, hooks: RunbookHooks, admin: Principal
) -> None:
    session = await add_session(world, admin)
    run = run_of(session.id, world, HookOutcome(0, "printed"))
    await hooks.record_run(run)
    async with world.database.statement() as statement:
        purged = update(sessions).where(sessions.c.id == session.id).values(recording_purged_at=world.clock())
        await statement.execute(purged)
    assert await hooks.find(admin, session.id) == [replace(run, outcome=HookOutcome(0))]
