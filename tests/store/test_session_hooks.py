"""Session hooks in the store: those of a repository, and the results of their runs; on both engines."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, select, update
from tests.store.test_runbook_repositories import SNAPSHOT, failed, put, repository_of
from tests.support.sessions import add_session
from tests.support.world import World

from postern.domain.hook import MAX_HOOK, HookKind, HookOutcome, HookRun
from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import Principal
from postern.domain.runbook import CLOSE_HOOK, OPEN_HOOK
from postern.store.ports.runbook_ports import RepositoryHooks
from postern.store.schema.runbook_tables import runbook_repositories, runbook_snapshots, session_hooks
from postern.store.schema.session_tables import sessions
from postern.store.sql.resealing import reseal

BOTH = {OPEN_HOOK: "print('\u00e9')", CLOSE_HOOK: "print(2)"}


async def hooks(world: World, org_id: UUID | None = None) -> list[RepositoryHooks]:
    return await world.stores.runbook_snapshots.hooks(org_id or world.org_id)


async def test_only_repositories_with_hooks_enabled_have_hooks(world: World) -> None:
    first = repository_of(world, "https://git.example.com/a/first", hook_ttl=60)
    without = repository_of(world, "https://git.example.com/a/without", hook_ttl=5)
    unread = repository_of(world, "https://git.example.com/a/zz-unread", hook_ttl=7)
    off = repository_of(world, "https://git.example.com/a/off")
    for one in (first, without, unread, off):
        await world.stores.runbook_repositories.add(one)
    await put(world, first, replace(SNAPSHOT, hooks=BOTH))
    await put(world, without, replace(SNAPSHOT, hooks={}))
    await put(world, off)
    found = await hooks(world)
    assert found == [
        RepositoryHooks("git.example.com/a/first", 60, SNAPSHOT.commit, BOTH),
        RepositoryHooks("git.example.com/a/without", 5, SNAPSHOT.commit, {}),
        RepositoryHooks("git.example.com/a/zz-unread", 7, "", {}),
    ]


async def test_attack_hooks_of_line_ends_are_read_without_long_json_parsing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parsing them as JSON blocked the event loop of a worker for milliseconds per repository."""
    repository = repository_of(world, hook_ttl=1)
    await world.stores.runbook_repositories.add(repository)
    texts = {OPEN_HOOK: "\n" * MAX_HOOK, CLOSE_HOOK: "\U0001f600" * (MAX_HOOK // 4)}
    await put(world, repository, replace(SNAPSHOT, hooks=texts))
    read: list[int] = []

    def loads(text: bytes) -> Any:
        read.append(len(text))
        return json.loads(text)

    monkeypatch.setattr("postern.store.sql.runbooks.sql_runbook_repositories.json", SimpleNamespace(loads=loads))
    assert [one.texts for one in await hooks(world)] == [texts]
    assert sum(read) < 1_000


async def test_failed_read_keeps_the_hooks_and_changed_settings_clear_them(world: World) -> None:
    repository = repository_of(world, hook_ttl=60)
    await world.stores.runbook_repositories.add(repository)
    await put(world, repository)
    await failed(world, repository, "it is away", seconds=1)
    assert [one.texts for one in await hooks(world)] == [SNAPSHOT.hooks]
    await put(world, repository, replace(SNAPSHOT, commit="c1", hooks={}), seconds=2)  # they were deleted
    assert [(one.commit, one.texts) for one in await hooks(world)] == [("c1", {})]
    await put(world, repository, seconds=3)
    other = replace(repository, branch="next", updated_at=world.clock() + timedelta(seconds=5))
    await world.stores.runbook_repositories.update(other)
    assert [(one.commit, one.texts) for one in await hooks(world)] == [("", {})]
    await failed(world, other, "no such branch", seconds=6)
    assert [(one.commit, one.texts) for one in await hooks(world)] == [("", {})]


async def test_hooks_written_into_the_database_do_not_run(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Unsealed hooks, hooks of another organisation or repository, and runbooks in place of hooks."""
    other = Organisation(uuid4(), "other", world.clock())
    await world.stores.organisations.add(other)
    ours = repository_of(world, hook_ttl=60)
    fine = repository_of(world, "https://git.example.com/ops/zz", hook_ttl=60)
    for one in (ours, fine, replace(ours, org_id=other.id)):
        await world.stores.runbook_repositories.add(one)
        await put(world, one)
    mine = (runbook_snapshots.c.org_id == world.org_id, runbook_snapshots.c.repository_id == ours.id)
    async with world.database.statement() as statement:
        rows = (await statement.execute(select(runbook_snapshots))).mappings().all()
    kept = {(row["org_id"], row["repository_id"]): row for row in rows}
    own = kept[world.org_id, ours.id]
    planted = (
        b'{"commit": "c0ffee", "texts": {"session-open.runbook.py": "evil"}}',
        kept[other.id, ours.id]["hooks"],
        kept[world.org_id, fine.id]["hooks"],
        own["content"],
        own["hooks"][:-1] + bytes([own["hooks"][-1] ^ 1]),
    )
    for hooks_ in planted:
        async with world.database.statement() as statement:
            await statement.execute(update(runbook_snapshots).where(*mine).values(hooks=hooks_))
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            found = await hooks(world)
        assert [one.texts for one in found] == [{}, SNAPSHOT.hooks]
        assert "the hooks of a repository do not run" in caplog.text
        assert f"repository={ours.name}" in caplog.text
        assert "evil" not in caplog.text
    async with world.database.statement() as statement:
        await statement.execute(update(runbook_snapshots).where(*mine).values(hooks=own["hooks"], commit_id="another"))
    assert [one.texts for one in await hooks(world)] == [{}, SNAPSHOT.hooks]


def run_of(session_id: UUID, org_id: UUID, world: World, **fields: object) -> HookRun:
    outcome = HookOutcome(0, "printed \u00e9\0\n")
    made = HookRun(
        uuid4(), org_id, session_id, HookKind.OPEN, "git.example.com/ops/books", "c0ffee", world.clock(), 0.25, outcome
    )
    return replace(made, **fields)  # type: ignore[arg-type]


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann")


async def of(world: World, session_id: UUID, most: int = 100) -> list[HookRun]:
    return await world.stores.hook_runs.of(world.org_id, session_id, most)


async def test_hook_runs_are_ordered_and_limited_and_their_output_is_sealed(world: World, ann: Principal) -> None:
    session, another = await add_session(world, ann), await add_session(world, ann)
    at = world.clock()
    close = run_of(
        session.id,
        world.org_id,
        world,
        kind=HookKind.CLOSE,
        started_at=at + timedelta(seconds=1),
        outcome=HookOutcome(None, "", "the agent has no python3"),
    )
    opened = run_of(session.id, world.org_id, world)
    for one in (close, opened, run_of(another.id, world.org_id, world), replace(close, seconds=9.0)):
        await world.stores.hook_runs.add(one)
    assert await of(world, session.id) == [opened, close]
    assert await of(world, session.id, 1) == [opened]
    assert await of(world, uuid4()) == []
    async with world.database.statement() as statement:
        row = await statement.execute(select(session_hooks.c.output).where(session_hooks.c.id == opened.id))
        sealed = row.scalar_one()
    assert b"printed" not in sealed
    async with world.database.statement() as statement:
        await statement.execute(update(session_hooks).where(session_hooks.c.id == close.id).values(output=sealed))
    told = replace(
        close.outcome, reason="the agent has no python3; its output cannot be decrypted with the keys of this server"
    )
    assert await of(world, session.id) == [opened, replace(close, outcome=told)]  # it is another run's


async def test_hook_run_of_a_session_of_another_organisation_is_not_stored(world: World, ann: Principal) -> None:
    other = Organisation(uuid4(), "other", world.clock())
    await world.stores.organisations.add(other)
    session = await add_session(world, ann)
    await world.stores.hook_runs.add(run_of(uuid4(), world.org_id, world))
    await world.stores.hook_runs.add(run_of(session.id, other.id, world))
    async with world.database.statement() as statement:
        assert (await statement.execute(select(session_hooks.c.id))).all() == []
    await world.stores.hook_runs.add(run_of(session.id, world.org_id, world))
    assert await world.stores.hook_runs.of(other.id, session.id, 100) == []


async def test_hook_output_after_a_purged_recording_is_not_stored(world: World, ann: Principal) -> None:
    session = await add_session(world, ann)
    purged = update(sessions).where(sessions.c.id == session.id).values(recording_purged_at=world.clock())
    async with world.database.statement() as statement:
        await statement.execute(purged)
    run = run_of(session.id, world.org_id, world)
    await world.stores.hook_runs.add(run)
    assert await of(world, session.id) == [replace(run, outcome=HookOutcome(0))]


async def test_key_renewal_reseals_hooks_and_their_output(world: World, ann: Principal) -> None:
    repository = repository_of(world, hook_ttl=60)
    await world.stores.runbook_repositories.add(repository)
    await put(world, repository)
    session = await add_session(world, ann)
    runs = [run_of(session.id, world.org_id, world, outcome=HookOutcome(0, text)) for text in ("printed", "")]
    for one in runs:
        await world.stores.hook_runs.add(one)
    await world.encryption.renew(world.org_id)
    assert await reseal(world.database, world.encryption, world.org_id) == 4  # and a repository, and its runbooks
    assert await reseal(world.database, world.encryption, world.org_id) == 0
    assert [one.texts for one in await hooks(world)] == [SNAPSHOT.hooks]
    assert {one.id: one for one in await of(world, session.id)} == {one.id: one for one in runs}


async def test_hook_runs_are_deleted_with_their_session_and_not_with_their_repository(
    world: World, ann: Principal
) -> None:
    repository = repository_of(world, hook_ttl=60)
    await world.stores.runbook_repositories.add(repository)
    session = await add_session(world, ann)
    run = run_of(session.id, world.org_id, world)
    await world.stores.hook_runs.add(run)
    async with world.database.statement() as statement:
        await statement.execute(delete(runbook_repositories))
    assert await of(world, session.id) == [run]
    async with world.database.statement() as statement:
        await statement.execute(delete(sessions).where(sessions.c.id == session.id))
        assert (await statement.execute(select(session_hooks.c.id))).all() == []
