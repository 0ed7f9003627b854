"""The library: what is read when, what is shown meanwhile, and what one repository that is wrong leaves of the others.

Repositories are read by a fetcher of the tests; the store is a real one."""

from __future__ import annotations

import asyncio
import functools
import json
import threading
from collections.abc import Awaitable
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar
from uuid import UUID, uuid4

import pytest
from tests.support.promises import PATIENT
from tests.support.runbooks import NAME, URL, snapshot_of
from tests.support.world import World

from postern.api.schemas.runbooks.runbook_schemas import list_as_json
from postern.domain.identity.organisation import Organisation
from postern.domain.runbook import Repository, RunbookFile, Snapshot, repository_name
from postern.errors import Invalid, NotFound, Unavailable
from postern.runbooks.template import parse
from postern.services.runbooks import library as module
from postern.services.runbooks import parsed
from postern.services.runbooks.library import RunbookLibrary, Shelf
from postern.services.runbooks.repository_reading import RepositoryReading
from postern.services.runbooks.runbook_listing import ListedShelf, RunbookPart
from postern.services.runbooks.worker_pool import TimeSlices

OTHER = "https://git.example.com/other"
HELLO = {"hello.runbook.sh": 'echo {{ .name | required "say who" }}'}


T = TypeVar("T")


async def within(awaited: Awaitable[T]) -> T:
    """Gives up where the test would hang."""
    async with asyncio.timeout(PATIENT):
        return await awaited


class Shelves:
    """The library of one process, and the upkeep of another one."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.reading = self.new_reading()
        self.library = RunbookLibrary(world.stores.runbook_snapshots, self.reading, world.clock)

    def new_reading(self) -> RepositoryReading:
        stores = self.world.stores
        return RepositoryReading(
            stores.runbook_repositories,
            stores.runbook_snapshots,
            stores.leases,
            self.world.fetcher,
            self.world.signals,
            self.world.clock,
        )

    async def add(self, url: str = URL, org_id: UUID | None = None) -> Repository:
        at = self.world.clock()
        made = Repository(
            org_id or self.world.org_id, url, repository_name(url), hook_ttl=60, created_at=at, updated_at=at
        )
        await self.world.stores.runbook_repositories.add(made)
        self.library.forget(made.org_id)
        return made

    async def shown(self) -> dict[str, tuple[list[str], str]]:
        """By repository: the runbooks' paths, and what is wrong."""
        found = await self.library.shelves(self.world.org_id)
        return {shelf.outline.name: (paths_of(shelf), shelf.error) for shelf in found}


def paths_of(shelf: Shelf) -> list[str]:
    return list(shelf.books.runbooks) if shelf.books else []


@pytest.fixture
def shelves(world: World) -> Shelves:
    return Shelves(world)


async def test_a_repository_is_read_when_somebody_asks_for_it_first(shelves: Shelves) -> None:
    await shelves.add()
    made = shelves.world.fetcher.put(HELLO | {"a/b.runbook.sql": "select 1"})
    found = await asyncio.gather(*(shelves.library.shelves(shelves.world.org_id) for _ in range(5)))
    assert len(shelves.world.fetcher.asked) == 1
    (shelf,) = found[0]
    assert shelf.books is not None
    assert (paths_of(shelf), shelf.books.commit, shelf.error) == (["a/b.runbook.sql", *HELLO], made.commit, "")
    assert shelf.fetched_at == shelves.world.clock()
    runbook = await shelves.library.find(shelves.world.org_id, "", "/hello.runbook.sh")
    assert (runbook.repository, runbook.name, runbook.commit) == (NAME, "/hello.runbook.sh", made.commit)
    assert (runbook.text, [one.name for one in runbook.parameters]) == (HELLO["hello.runbook.sh"], ["name"])
    assert len(shelves.world.fetcher.asked) == 1


async def test_who_hears_late_that_it_was_never_read_does_not_read_it_again(
    shelves: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shelves.add()
    shelves.world.fetcher.put(HELLO)
    outlines = shelves.world.stores.runbook_snapshots.outlines
    answered, released = asyncio.Event(), asyncio.Event()

    async def late(org_id: UUID) -> object:
        found = await outlines(org_id)
        if not answered.is_set():
            answered.set()
            await released.wait()
        return found

    monkeypatch.setattr(shelves.world.stores.runbook_snapshots, "outlines", late)
    first = asyncio.create_task(shelves.shown())
    await within(answered.wait())
    shown = await within(shelves.shown())
    released.set()
    assert await within(first) == shown == {NAME: ([*HELLO], "")}
    assert len(shelves.world.fetcher.asked) == 1
    assert await shelves.shown() == shown
    assert len(shelves.world.fetcher.asked) == 1


async def test_who_asks_costs_nothing_while_it_holds_and_one_statement_after_that(
    shelves: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is opened nor parsed again while the commit is the same, also when it was read again."""
    repository = await shelves.add()
    shelves.world.fetcher.put(HELLO)
    await shelves.shown()
    asked: list[UUID] = []
    outlines = shelves.world.stores.runbook_snapshots.outlines

    async def counted(org_id: UUID) -> object:
        asked.append(org_id)
        return await outlines(org_id)

    monkeypatch.setattr(shelves.world.stores.runbook_snapshots, "outlines", counted)
    monkeypatch.setattr(parsed, "parse", None)
    before = await shelves.library.shelves(shelves.world.org_id)
    assert asked == []
    shelves.world.clock.forward(seconds=2)
    assert repository.updated_at is not None
    await shelves.new_reading().begin(repository.org_id, repository.id, repository.updated_at).task
    asked.clear()  # who reads asks as well
    for _ in range(3):
        (after,) = await shelves.library.shelves(shelves.world.org_id)
    assert len(asked) == 1
    assert after.books is before[0].books
    assert after.fetched_at == shelves.world.clock()


async def test_one_that_hangs_and_one_that_fails_leave_the_others_alone(
    shelves: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT", 0.2)
    for url in (URL, OTHER, "https://git.example.com/hangs"):
        await shelves.add(url)
    fetcher = shelves.world.fetcher
    fetcher.put(HELLO)
    fetcher.put({}, "https://git.example.com/hangs")
    release = fetcher.held["https://git.example.com/hangs"] = asyncio.Event()

    async def others_read() -> dict[str, tuple[list[str], str]]:
        """A slow machine may need longer for them than anybody waits."""
        while True:
            shown = await shelves.shown()
            if sum("for the first time" in error for _, error in shown.values()) == 1:
                return shown
            await asyncio.sleep(0.01)

    shown = await within(others_read())
    assert shown[NAME] == ([*HELLO], "")
    assert shown["git.example.com/other"] == ([], "nothing answers there")
    assert "for the first time" in shown["git.example.com/hangs"][1]
    with pytest.raises(Unavailable, match="nothing answers there"):
        await shelves.library.find(shelves.world.org_id, OTHER, "x")
    asked = len(fetcher.asked)
    assert await within(shelves.shown()) == shown  # nobody waits for it again, nor asks again
    assert len(fetcher.asked) == asked
    release.set()
    await shelves.reading.stop()


async def test_an_attempt_that_fails_keeps_what_was_read_before(shelves: Shelves) -> None:
    repository = await shelves.add()
    made = shelves.world.fetcher.put(HELLO)
    await shelves.shown()
    read_at = shelves.world.clock()
    shelves.world.fetcher.remotes[URL] = Unavailable("it is away")
    shelves.world.clock.forward(minutes=10)
    shelf = await shelves.library.refresh(shelves.world.org_id, repository.id)
    assert shelf.books is not None
    assert (shelf.books.commit, shelf.error, shelf.fetched_at) == (made.commit, "it is away", read_at)
    assert shelf.outline.tried_at == shelves.world.clock()


async def test_another_commit_is_shown_once_it_is_parsed_and_at_once_to_who_had_it_read(shelves: Shelves) -> None:
    repository = await shelves.add()
    shelves.world.fetcher.put(HELLO)
    await shelves.shown()
    shelves.world.fetcher.put({"new.runbook.sh": "echo"})
    shelf = await shelves.library.refresh(shelves.world.org_id, repository.id)
    assert paths_of(shelf) == ["new.runbook.sh"]
    assert (await shelves.shown())[NAME][0] == ["new.runbook.sh"]
    shelves.world.fetcher.put({"newest.runbook.sh": "echo"})
    assert repository.updated_at is not None
    shelves.world.clock.forward(seconds=5)
    await shelves.new_reading().begin(repository.org_id, repository.id, repository.updated_at).task

    assert (await shelves.shown())[NAME][0] == ["new.runbook.sh"]
    await within(asyncio.gather(*shelves.library._loading.values()))
    assert (await shelves.shown())[NAME][0] == ["newest.runbook.sh"]


async def test_of_another_commit_only_files_that_are_others_are_parsed(
    shelves: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def noted(text: str) -> object:
        seen.append(text)
        return parse(text)

    monkeypatch.setattr(parsed, "parse", noted)
    repository = await shelves.add()
    files = {"a.runbook.sh": "echo {{ .a }}", "b.runbook.sh": "echo {{ .b }}", "bad.runbook.sh": "{{ end }}"}
    shelves.world.fetcher.put(files)
    await shelves.shown()
    assert seen == list(files.values())
    seen.clear()
    files |= {"b.runbook.sh": "echo {{ .c }}", "d.runbook.sh": files["a.runbook.sh"]}
    made = shelves.world.fetcher.put(files)
    shelf = await shelves.library.refresh(shelves.world.org_id, repository.id)
    assert seen == ["echo {{ .c }}", "{{ end }}", "echo {{ .a }}"]
    assert shelf.books is not None
    with TimeSlices() as slices:
        assert shelf.books.runbooks == parsed.books_of(NAME, made, None, slices).runbooks
    assert {one.commit for one in shelf.books.runbooks.values()} == {made.commit}


async def test_what_was_read_by_other_settings_is_not_shown(shelves: Shelves) -> None:
    repository = await shelves.add()
    shelves.world.fetcher.put(HELLO)
    await shelves.shown()
    shelves.world.fetcher.remotes[URL] = Unavailable("no such branch")
    later = shelves.world.clock() + timedelta(seconds=1)
    await shelves.world.stores.runbook_repositories.update(replace(repository, branch="other", updated_at=later))
    shelves.library.forget(repository.org_id)
    assert await shelves.shown() == {NAME: ([], "no such branch")}


async def test_a_file_that_is_wrong_says_so_and_the_others_are_there(
    shelves: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shelves.add()

    def broken(text: str) -> object:
        if "bug" in text:
            raise ZeroDivisionError
        return parse(text)

    monkeypatch.setattr(parsed, "parse", broken)
    made = shelves.world.fetcher.put(HELLO | {"bad.runbook.sh": "{{ end }}", "bug.runbook.sh": "bug"})
    large = RunbookFile("large.runbook.sh", None, "it has more than 1 MB")
    shelves.world.fetcher.remotes[URL] = replace(made, files=(*made.files, large))
    (shelf,) = await shelves.library.shelves(shelves.world.org_id)
    assert shelf.books is not None
    errors = {path: one.error for path, one in shelf.books.runbooks.items()}
    assert errors.pop("bad.runbook.sh").startswith("line 1")
    assert "internal error of the gateway" in errors.pop("bug.runbook.sh")
    assert errors == {"hello.runbook.sh": "", "large.runbook.sh": "it has more than 1 MB"}


async def test_a_runbook_is_found_by_any_name_of_its_repository(shelves: Shelves) -> None:
    find = functools.partial(shelves.library.find, shelves.world.org_id)
    with pytest.raises(NotFound, match="configured"):
        await find("", "x")
    repository = await shelves.add()
    shelves.world.fetcher.put(HELLO)
    for name in ("", NAME, URL, str(repository.id), "git@git.example.com:ops/books"):
        assert (await find(name, "hello.runbook.sh")).repository == NAME
        assert await shelves.library.repository(shelves.world.org_id, name) == NAME
    for name, file in ((NAME, "../hello.runbook.sh"), (NAME, "//hello.runbook.sh"), ("http://[", "x"), ("no", "x")):
        with pytest.raises(NotFound):
            await find(name, file)
    shelves.world.fetcher.put({}, OTHER)
    await shelves.add(OTHER)
    with pytest.raises(Invalid, match="is required"):
        await find("", "hello.runbook.sh")


async def test_organisations_do_not_see_each_others(shelves: Shelves) -> None:
    other = Organisation(uuid4(), "other", shelves.world.clock())
    await shelves.world.stores.organisations.add(other)
    await shelves.add(org_id=other.id)
    shelves.world.fetcher.put(HELLO)
    assert await shelves.shown() == {}
    assert [paths_of(one) for one in await shelves.library.shelves(other.id)] == [[*HELLO]]


async def test_memory_is_bounded(shelves: Shelves, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT", 1)
    for url in (URL, OTHER):
        await shelves.add(url)
        shelves.world.fetcher.put(HELLO, url)
    for _ in range(2):
        assert {paths[0] for paths, _ in (await shelves.shown()).values()} == set(HELLO)
    assert len(shelves.library._held) == 1


async def test_attack_who_keeps_much_takes_no_room_of_others(shelves: Shelves, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Organisation(uuid4(), "other", shelves.world.clock())
    await shelves.world.stores.organisations.add(other)
    await shelves.add(org_id=other.id)
    shelves.world.fetcher.put(HELLO)
    (small,) = await shelves.library.shelves(other.id)
    assert small.books is not None
    monkeypatch.setattr(module, "MAX_KEPT", 10_000)
    for number in range(4):
        await shelves.add(f"{OTHER}{number}")
        shelves.world.fetcher.put({"large.runbook.sh": "x" * 8_000}, f"{OTHER}{number}")
        await shelves.shown()
    (again,) = await shelves.library.shelves(other.id)
    assert again.books is small.books


async def test_attack_who_waits_for_what_takes_long_to_open_is_told_and_others_do_not_wait(
    shelves: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OPENED", 0.5)
    other = Organisation(uuid4(), "other", shelves.world.clock())
    await shelves.world.stores.organisations.add(other)
    release, opened = threading.Event(), []

    def opens(name: str, snapshot: Snapshot, before: parsed.Books | None, slices: TimeSlices) -> parsed.Books:
        opened.append(name)
        while name != NAME and not release.is_set():
            slices.rest()
        return parsed.books_of(name, snapshot, before, slices)

    monkeypatch.setattr(module, "books_of", opens)
    for number in range(3):
        await shelves.add(f"{OTHER}{number}")
        shelves.world.fetcher.put(HELLO, f"{OTHER}{number}")
    await shelves.add(org_id=other.id)
    shelves.world.fetcher.put(HELLO)
    try:
        found = await within(shelves.shown())
        assert {error for _, error in found.values()} == {"its last state is being loaded; try again in a few seconds"}
        assert len(opened) == 1
        monkeypatch.setattr(module, "OPENED", PATIENT)
        (shelf,) = await within(shelves.library.shelves(other.id))
        assert paths_of(shelf) == [*HELLO]
    finally:
        release.set()
    assert {error for _, error in (await within(shelves.shown())).values()} == {""}


def test_attack_what_is_too_much_to_open_or_to_list_is_told_of_each_file(monkeypatch: pytest.MonkeyPatch) -> None:
    many = "{{ .a | options " + " ".join(f'"{number:050}"' for number in range(1000)) + " }}"
    made = snapshot_of({"a.runbook.sh": HELLO["hello.runbook.sh"], "b.runbook.sh": many * 2, "c.runbook.sh": "{{"})

    def opened(before: parsed.Books | None = None) -> list[parsed.Runbook]:
        with TimeSlices() as slices:
            return list(parsed.books_of(NAME, made, before, slices).runbooks.values())

    with TimeSlices() as slices:
        whole = parsed.books_of(NAME, made, None, slices)
    assert [bool(one.error) for one in whole.runbooks.values()] == [False, False, True]
    monkeypatch.setattr(parsed, "MAX_LISTED", 10_000)
    assert opened(whole) == opened()  # also what is known from before takes room in a list
    (good, large, wrong) = opened()
    assert (good.error, large.parameters, large.text) == ("", (), many * 2)
    assert "longer than a list can show" in large.error
    assert len(large.listed) < 1_000
    monkeypatch.setattr(parsed, "MAX_LISTED", 100_000)
    monkeypatch.setattr(parsed, "MAX_LISTS", len(good.listed))
    assert ["longer than a list" in one.error for one in opened()] == [False, True, False]
    monkeypatch.setattr(parsed, "SECONDS", -1.0)
    assert all("took all of the time limit" in one.error and not one.parameters for one in opened())
    assert opened(whole)[0] == good  # which takes no time
    assert "is not closed" in wrong.error


async def test_a_list_is_written_in_pieces(shelves: Shelves) -> None:
    files = {f"{number:04}.runbook.sh": "" for number in range(1_000)}
    for url in (URL, OTHER):
        await shelves.add(url)
        shelves.world.fetcher.put(files, url)
    await shelves.add(f"{OTHER}/gone")
    parts = []
    for shelf in await shelves.library.shelves(shelves.world.org_id):
        runbooks = list(shelf.books.runbooks.values()) if shelf.books else []
        both = (
            [RunbookPart(runbooks[:301], ("a" * 500,)), RunbookPart(runbooks[301:], ("b",) * 200)] if runbooks else []
        )
        parts.append(ListedShelf(shelf, both))
    pieces = list(list_as_json(parts, with_connections=True))
    assert max(map(len, pieces)) < sum(map(len, pieces)) / 8
    told = json.loads("".join(pieces))
    names = [[item["name"] for item in one["items"]] for one in told["repositories"]]
    assert names == [[f"/{path}" for path in files]] * 2
    assert [[*map(len, (item["connections"] for item in one["items"]))] for one in told["repositories"]] == [
        [1] * 301 + [200] * 699
    ] * 2
    assert len(told["errors"]) == 1
    assert all("connections" not in part for part in list_as_json(parts, with_connections=False))


async def test_upkeep_reads_what_is_due_and_one_process_does(shelves: Shelves) -> None:
    every = timedelta(minutes=5)
    fetcher = shelves.world.fetcher
    for number in range(6):
        await shelves.add(f"{OTHER}{number}")
        fetcher.put(HELLO, f"{OTHER}{number}")
    await shelves.add()  # which nothing answers for
    second = shelves.new_reading()
    assert await shelves.reading.once(every, failing=False)
    assert not await second.once(every, failing=False)
    assert len(fetcher.asked) == 7
    assert not await shelves.reading.once(every, failing=False)
    shelves.world.clock.forward(minutes=6)
    assert await shelves.reading.once(every, failing=False)
    assert len(fetcher.asked) == 13
    assert await second.once(every, failing=True)
    assert [one.git_url for one in fetcher.asked[13:]] == [URL]
    await shelves.reading.stop()
    shelves.world.clock.forward(minutes=6)
    assert await second.once(every, failing=False)


async def test_one_organisation_does_not_take_all_turns(shelves: Shelves) -> None:
    fetcher = shelves.world.fetcher
    other = Organisation(uuid4(), "other", shelves.world.clock())
    await shelves.world.stores.organisations.add(other)
    for number in range(5):
        await shelves.add(f"{OTHER}{number}")
        fetcher.held[f"{OTHER}{number}"] = asyncio.Event()
    await shelves.add(org_id=other.id)
    fetcher.put(HELLO)
    hanging = asyncio.create_task(shelves.library.shelves(shelves.world.org_id))
    await fetcher.is_asked(2)
    (shelf,) = await within(shelves.library.shelves(other.id))
    assert paths_of(shelf) == [*HELLO]
    hanging.cancel()
    await within(shelves.reading.stop())
    assert fetcher.at_once == 0  # what was under way was ended


async def test_a_fetcher_that_does_not_end_by_itself_is_ended(
    shelves: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postern.services.runbooks.repository_reading.LONGEST", 0.1)
    await shelves.add()
    shelves.world.fetcher.held[URL] = asyncio.Event()
    assert await within(shelves.shown()) == {NAME: ([], "it did not answer within 0.1 seconds")}


async def test_having_it_read_reads_what_is_there_now(shelves: Shelves) -> None:
    """Not what an attempt that began before may have seen."""
    repository = await shelves.add()
    fetcher = shelves.world.fetcher
    release = fetcher.held[URL] = asyncio.Event()
    assert repository.updated_at is not None
    early = shelves.reading.begin(repository.org_id, repository.id, repository.updated_at)
    await fetcher.is_asked(1)
    later = asyncio.create_task(shelves.library.refresh(shelves.world.org_id, repository.id))
    await asyncio.sleep(0.05)
    fetcher.remotes[URL] = snapshot_of(HELLO)
    release.set()
    await within(early.task)
    assert paths_of(await within(later)) == [*HELLO]
    assert len(fetcher.asked) == 2
