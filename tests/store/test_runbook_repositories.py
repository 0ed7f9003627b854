"""Runbook repositories and their snapshots in the store, on both engines."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import insert, select, update
from tests.support.world import World

from postern.domain.identity.organisation import Organisation
from postern.domain.runbook import OPEN_HOOK, Repository, RunbookFile, Snapshot, repository_id, repository_name
from postern.domain.secret import Secret
from postern.errors import Conflict, Invalid, Malformed, Misconfigured, TooMany
from postern.store.schema.runbook_tables import runbook_snapshots
from postern.store.sql.runbooks import sql_runbook_repositories as module

SNAPSHOT = Snapshot(
    "c0ffee",
    "Ann <ann@example.com>",
    "Restart\n\nand \u00e9\u4e2d",
    (RunbookFile("ops/a.runbook.sh", "echo {{ .name }} \u00e9\ud800"), RunbookFile("b.runbook.sql", None, "too large")),
    {OPEN_HOOK: "print(1)"},
)


def repository_of(world: World, url: str = "https://git.example.com/ops/books.git", **fields: Any) -> Repository:
    at = world.clock()
    empty = Repository(world.org_id, url, repository_name(url), created_at=at, updated_at=at)
    return replace(empty, **fields)


def settings_at(repository: Repository) -> datetime:
    assert repository.updated_at is not None
    return repository.updated_at


async def put(world: World, repository: Repository, snapshot: Snapshot = SNAPSHOT, **later: float) -> bool:
    at = world.clock() + timedelta(**later)
    return await world.stores.runbook_snapshots.put(
        repository.org_id, repository.id, snapshot, settings_at(repository), at
    )


async def failed(world: World, repository: Repository, error: str, **later: float) -> None:
    at = world.clock() + timedelta(**later)
    await world.stores.runbook_snapshots.mark_failed(
        repository.org_id, repository.id, error, settings_at(repository), at
    )


async def test_repository_is_stored_unchanged(world: World) -> None:
    store = world.stores.runbook_repositories
    whole = repository_of(
        world,
        git_user="me",
        git_password=Secret("p\u00e9"),
        ssh_user="git",
        ssh_key=Secret("key"),
        ssh_keypass=Secret("pass"),
        ssh_known_hosts="git.example.com ssh-ed25519 AAAA",
        branch="main",
        hook_ttl=60,
    )
    bare = repository_of(world, "ssh://a.example.com/x/y")
    await store.add(whole)
    await store.add(bare)
    assert await store.all(world.org_id) == [bare, whole]
    assert await store.get(world.org_id, str(whole.id)) == whole
    changed = replace(whole, git_password=Secret("other"), hook_ttl=0, updated_at=world.clock() + timedelta(1))
    changed = await store.update(changed)
    assert await store.get(world.org_id, changed.name) == changed
    await store.remove(changed)
    assert await store.get(world.org_id, str(whole.id)) is None


async def test_repository_is_added_once_and_their_number_is_limited(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = world.stores.runbook_repositories
    monkeypatch.setattr(store, "most", 2)
    await store.add(repository_of(world))
    for url in ("https://git.example.com/ops/books.git", "ssh://git@git.example.com/ops/books"):
        with pytest.raises(Conflict):
            await store.add(repository_of(world, url))
    await store.add(repository_of(world, "https://git.example.com/other"))
    with pytest.raises(TooMany):
        await store.add(repository_of(world, "https://git.example.com/third"))


async def test_replacing_repositories_keeps_the_snapshots_of_those_that_stay(world: World) -> None:
    store, snapshots = world.stores.runbook_repositories, world.stores.runbook_snapshots
    stays, goes = repository_of(world), repository_of(world, "https://git.example.com/goes")
    await store.replace_all(world.org_id, [stays, goes], [])
    for one in (stays, goes):
        assert await put(world, one)
    comes = repository_of(world, "ssh://git@git.example.com/goes")  # the same one by another address
    await store.replace_all(world.org_id, [comes, stays], [stays, goes])
    assert await store.all(world.org_id) == [comes, stays]
    assert [(one.name, one.commit) for one in await snapshots.outlines(world.org_id)] == [
        ("git.example.com/goes", None),
        ("git.example.com/ops/books", "c0ffee"),
    ]
    with pytest.raises(Conflict):
        await store.replace_all(world.org_id, [comes, goes], [comes, stays])
    with pytest.raises(Conflict, match="changed by another request"):
        await store.replace_all(world.org_id, [], [stays])
    assert await store.all(world.org_id) == [comes, stays]
    await store.replace_all(world.org_id, [], [comes, stays])
    assert await snapshots.outlines(world.org_id) == []


async def test_snapshot_is_stored_unchanged(world: World) -> None:
    repository, snapshots = repository_of(world), world.stores.runbook_snapshots
    await world.stores.runbook_repositories.add(repository)
    (before,) = await snapshots.outlines(world.org_id)
    assert (before.commit, before.fetched_at, before.tried_at, before.error) == (None, None, None, "")
    assert await snapshots.get(world.org_id, repository.id) is None
    assert await put(world, repository)
    fetched = await snapshots.get(world.org_id, repository.id)
    assert fetched is not None
    assert (fetched.snapshot, fetched.fetched_at, fetched.error) == (SNAPSHOT, world.clock(), "")
    await failed(world, repository, "no answer\n\0from it", hours=1)
    (after,) = await snapshots.outlines(world.org_id)
    assert (after.commit, after.fetched_at) == ("c0ffee", world.clock())
    assert (after.tried_at, after.error) == (world.clock() + timedelta(hours=1), "no answer  from it")
    fetched = await snapshots.get(world.org_id, repository.id)
    assert fetched is not None
    assert (fetched.snapshot, fetched.error) == (SNAPSHOT, after.error)


async def test_snapshot_of_earlier_settings_is_neither_shown_nor_stored(world: World) -> None:
    repository, snapshots = repository_of(world), world.stores.runbook_snapshots
    await world.stores.runbook_repositories.add(repository)
    assert await put(world, repository)
    changed = replace(repository, branch="other", updated_at=world.clock() + timedelta(seconds=1))
    await world.stores.runbook_repositories.update(changed)
    (outline,) = await snapshots.outlines(world.org_id)
    assert (outline.commit, outline.tried_at) == (None, None)
    assert await snapshots.get(world.org_id, repository.id) is None
    assert not await put(world, repository, seconds=5)  # it was on its way
    await failed(world, changed, "no such branch", seconds=2)
    fetched = await snapshots.get(world.org_id, repository.id)
    assert fetched is not None
    assert (fetched.snapshot, fetched.fetched_at, fetched.error) == (None, None, "no such branch")
    assert await put(world, changed, seconds=3)


async def test_later_of_two_read_attempts_counts(world: World) -> None:
    repository, snapshots = repository_of(world), world.stores.runbook_snapshots
    await world.stores.runbook_repositories.add(repository)
    assert await put(world, repository, replace(SNAPSHOT, commit="newer"), seconds=9)
    assert not await put(world, repository, seconds=3)
    await failed(world, repository, "slow", seconds=4)
    (outline,) = await snapshots.outlines(world.org_id)
    assert (outline.commit, outline.error) == ("newer", "")


async def test_no_snapshot_is_stored_for_a_removed_repository(world: World) -> None:
    repository = repository_of(world)
    await world.stores.runbook_repositories.add(repository)
    assert await put(world, repository)
    await world.stores.runbook_repositories.remove(repository)
    await asyncio.gather(put(world, repository), failed(world, repository, "gone"))
    async with world.database.statement() as statement:
        assert (await statement.execute(select(runbook_snapshots.c.org_id))).all() == []


async def test_repositories_and_snapshots_belong_to_one_organisation(world: World) -> None:
    """This holds for the same address, which has the same id."""
    other = Organisation(uuid4(), "other", world.clock())
    await world.stores.organisations.add(other)
    theirs, ours = replace(repository_of(world), org_id=other.id), repository_of(world)
    for one in (theirs, ours):
        await world.stores.runbook_repositories.add(one)
    assert await put(world, theirs)
    assert [one.commit for one in await world.stores.runbook_snapshots.outlines(world.org_id)] == [None]
    assert await world.stores.runbook_snapshots.get(world.org_id, ours.id) is None
    await world.stores.runbook_repositories.replace_all(world.org_id, [], [ours])
    assert await world.stores.runbook_repositories.all(other.id) == [theirs]
    await _moved(world, other.id, ours)
    with pytest.raises(Misconfigured):
        await world.stores.runbook_snapshots.get(world.org_id, ours.id)


async def _moved(world: World, org_id: UUID, ours: Repository) -> None:
    """Copy the snapshot of another organisation in the database."""
    await world.stores.runbook_repositories.add(ours)
    async with world.database.statement() as statement:
        rows = (await statement.execute(select(runbook_snapshots))).mappings().all()
        (row,) = [dict(row) for row in rows if row["org_id"] == org_id]
        await statement.execute(insert(runbook_snapshots).values({**row, "org_id": ours.org_id}))


async def test_repository_tried_longest_ago_is_due_first(world: World) -> None:
    store = world.stores.runbook_repositories
    names = ("never", "early", "late", "failing", "changed")
    made = {name: repository_of(world, f"https://git.example.com/x/{name}") for name in names}
    for one in made.values():
        await store.add(one)
    await put(world, made["early"], seconds=1)
    await put(world, made["late"], seconds=20)
    await put(world, made["changed"], seconds=20)
    await failed(world, made["failing"], "no", seconds=1)
    await store.update(replace(made["changed"], updated_at=world.clock() + timedelta(seconds=30)))

    async def due(most: int, *, failing: bool) -> list[str]:
        found = await store.due(world.clock() + timedelta(seconds=10), most, failing=failing)
        return [one.name.rpartition("/")[2] for one in found]

    first = await due(9, failing=False)
    assert set(first[:2]) == {"never", "changed"}
    assert first[2:] == ["early"]
    assert len(await due(2, failing=False)) == 2
    assert await due(9, failing=True) == ["failing"]


async def test_oversized_snapshot_is_not_stored_and_damaged_one_is_an_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = repository_of(world)
    await world.stores.runbook_repositories.add(repository)
    assert await put(world, repository)
    monkeypatch.setattr(module, "MAX_SNAPSHOT", 100)
    with pytest.raises(Malformed, match="cannot be read"):
        await world.stores.runbook_snapshots.get(world.org_id, repository.id)
    with pytest.raises(Invalid, match="larger than"):
        await put(world, repository, seconds=1)
    monkeypatch.undo()
    row = f"runbook_snapshots/{world.org_id}/{repository.id}"
    sealed = await world.encryption.seal(b"no zstandard", row=row, org_id=world.org_id)
    async with world.database.statement() as statement:
        await statement.execute(update(runbook_snapshots).values(content=sealed))
    with pytest.raises(Malformed, match="read it again"):
        await world.stores.runbook_snapshots.get(world.org_id, repository.id)


def test_repository_has_one_name_for_all_forms_of_its_address() -> None:
    addresses = (
        "https://git.example.com/ops/books.git",
        "https://GIT.example.com:443/ops/books/",
        "ssh://git@git.example.com/ops/books.git",
        "git@git.example.com:ops/books.git",
    )
    assert {repository_name(one) for one in addresses} == {"git.example.com/ops/books"}
    assert len({repository_id(one) for one in addresses}) == len(addresses)
