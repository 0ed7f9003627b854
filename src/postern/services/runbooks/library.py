"""The library: the runbooks of an organisation's repositories, cached in this process while they are the newest.

One cheap statement finds the newest commit, and its answer is cached for a moment. A new commit is opened and parsed in
a thread, once for all concurrent requests; until then the previous commit is shown.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from postern.domain.runbook import repository_name
from postern.errors import Invalid, NotFound, PosternError, Unavailable
from postern.services.runbooks.parsed import Books, Runbook, books_of
from postern.services.runbooks.repository_reading import RepositoryReading
from postern.services.runbooks.worker_pool import WorkerPool
from postern.store.ports.common_ports import Clock
from postern.store.ports.runbook_ports import Outline, SnapshotStore

log = logging.getLogger(__name__)

HOLDS = timedelta(seconds=1)
FIRST_WAIT = 5.0  # seconds that a caller waits for the first reading of a repository, from its start
OPENED = 10.0  # seconds that a caller waits until a snapshot is opened
MAX_KEPT = 128_000_000  # characters of all repositories

NO_REPOSITORY = (
    "no repository with runbooks is configured; an administrator adds one: postern admin runbook-repositories create"
)


@dataclass(frozen=True, slots=True)
class Shelf:
    """A repository and its runbooks. `books` are None until its first read; `fetched_at` says how old they are.

    `error`: why the last attempt to read it failed.
    """

    outline: Outline
    books: Books | None
    error: str = ""

    @property
    def fetched_at(self) -> datetime | None:
        return self.outline.fetched_at


@dataclass(frozen=True, slots=True)
class _Kept:
    """Cached outlines. `over`: how many reads had ended when the store was queried."""

    outlines: Sequence[Outline]
    until: datetime
    over: int


@dataclass(frozen=True, slots=True)
class _Held:
    settings_at: datetime
    books: Books


class RunbookLibrary:
    def __init__(self, snapshots: SnapshotStore, reading: RepositoryReading, now: Clock) -> None:
        self._snapshots = snapshots
        self._reading = reading
        self._now = now
        self._kept: dict[UUID, _Kept] = {}
        self._held: OrderedDict[tuple[UUID, UUID], _Held] = OrderedDict()
        self._turns = WorkerPool()
        self._loading: dict[tuple[UUID, UUID, datetime, str], asyncio.Task[Books | None]] = {}

    async def shelves(self, org_id: UUID) -> list[Shelf]:
        """Return the repositories by name. One that was never read is read now, within bounds of time.

        Raises Unavailable when the store does not answer.
        """
        outlines = await self._outlines(org_id)
        attempts = [
            self._reading.begin(org_id, outline.id, outline.settings_at)
            for outline in outlines
            if outline.tried_at is None
        ]
        if attempts:
            passed = asyncio.get_running_loop().time() - min(attempt.began for attempt in attempts)
            done, _ = await asyncio.wait({item.task for item in attempts}, timeout=max(FIRST_WAIT - passed, 0))
            if done:
                outlines = await self._outlines(org_id)
        return list(await asyncio.gather(*(self._shelf(org_id, item) for item in outlines)))

    async def find(self, org_id: UUID, repository: str, file: str) -> Runbook:
        """Return a runbook. `repository`: a name, an address or an identifier; empty for the only one.

        `file` is with or without a leading slash. Raises NotFound, Invalid when the repository is ambiguous,
        Unavailable when it was never read.
        """
        shelf = self._select_shelf(await self.shelves(org_id), repository)
        if shelf.books is None:
            raise Unavailable(f"{shelf.outline.name} could not be read: {shelf.error}")
        runbook = shelf.books.runbooks.get(file.removeprefix("/"))
        if runbook is None:
            raise NotFound(f"there is no runbook {file!r} in {shelf.outline.name}")
        return runbook

    async def repository(self, org_id: UUID, repository: str) -> str:
        """Return the repository's name. Raises NotFound, Invalid as `find`."""
        return self._select_shelf(await self.shelves(org_id), repository).outline.name

    async def refresh(self, org_id: UUID, repository_id: UUID) -> Shelf:
        """Read the repository now, and return it. Raises NotFound, Unavailable when the store does not answer."""
        await self._reading.again(org_id, repository_id, (await self._outline(org_id, repository_id)).settings_at)
        outline = await self._outline(org_id, repository_id)
        return await self._shelf(org_id, outline, wait=True)

    def forget(self, org_id: UUID) -> None:
        """Drop the cached outlines of an organisation."""
        self._kept.pop(org_id, None)

    async def outlines(self, org_id: UUID) -> Sequence[Outline]:
        """Return the current outlines, by name."""
        self.forget(org_id)
        return await self._outlines(org_id)

    async def _outline(self, org_id: UUID, repository_id: UUID) -> Outline:
        for outline in await self.outlines(org_id):
            if outline.id == repository_id:
                return outline
        raise NotFound(f"there is no repository {repository_id}")

    async def _outlines(self, org_id: UUID) -> Sequence[Outline]:
        now = self._now()
        cached = self._kept.get(org_id)
        # An outline from before the attempt would call a repository unread that was just read.
        while cached is None or cached.until <= now or cached.over != self._reading.over(org_id):
            over = self._reading.over(org_id)
            cached = self._kept[org_id] = _Kept(await self._snapshots.outlines(org_id), now + HOLDS, over)
        return cached.outlines

    def _select_shelf(self, shelves: Sequence[Shelf], repository: str) -> Shelf:
        if not shelves:
            raise NotFound(NO_REPOSITORY)
        if not repository and len(shelves) > 1:
            names = ", ".join(shelf.outline.name for shelf in shelves)
            raise Invalid(f"repository: is required; the repositories are {names}", field="repository")
        accepted_names = (repository, _name_of(repository))
        for shelf in shelves:
            outline = shelf.outline
            if not repository or outline.name in accepted_names or str(outline.id) == repository.lower():
                return shelf
        raise NotFound(f"there is no repository {repository!r}")

    async def _shelf(self, org_id: UUID, outline: Outline, *, wait: bool = False) -> Shelf:
        if outline.tried_at is None:
            return Shelf(outline, None, "it is being read for the first time; try again in a few seconds")
        if outline.commit is None:
            return Shelf(outline, None, outline.error)
        cached = self._held.get((org_id, outline.id))
        same = cached is not None and cached.settings_at == outline.settings_at
        if cached is not None and same:
            self._held.move_to_end((org_id, outline.id))
            if cached.books.commit == outline.commit:
                return Shelf(outline, cached.books, outline.error)
        task = self._load(org_id, outline)
        is_known = cached is not None and same
        if wait or not is_known:
            await asyncio.wait({task}, timeout=OPENED)
        if cached is not None and is_known and not (wait and task.done()):
            return Shelf(replace(outline, commit=cached.books.commit), cached.books, outline.error)
        if not task.done():
            return Shelf(outline, None, "its last state is being loaded; try again in a few seconds")
        try:
            return Shelf(outline, task.result(), outline.error)
        except Unavailable:
            raise
        except PosternError as error:
            return Shelf(outline, None, error.message)

    def _load(self, org_id: UUID, outline: Outline) -> asyncio.Task[Books | None]:
        assert outline.commit is not None
        key = (org_id, outline.id, outline.settings_at, outline.commit)
        task = self._loading.get(key)
        if task is None:
            task = self._loading[key] = asyncio.create_task(self._load_books(org_id, outline))
            task.add_done_callback(lambda ended: self._forget_task(key, ended))
        return task

    def _forget_task(self, key: tuple[UUID, UUID, datetime, str], task: asyncio.Task[Books | None]) -> None:
        self._loading.pop(key, None)
        if not task.cancelled() and task.exception() is not None:
            log.warning("snapshot cannot be opened: repository=%s error=%s", key[1], task.exception())

    async def _load_books(self, org_id: UUID, outline: Outline) -> Books | None:
        async with self._turns.of(org_id):  # bounds the memory for snapshots that are being opened
            fetched = await self._snapshots.get(org_id, outline.id)
            if fetched is None or fetched.snapshot is None:
                return None
            snapshot, cached = fetched.snapshot, self._held.get((org_id, outline.id))
            before = None if cached is None else cached.books
            books = await self._turns.do(lambda slices: books_of(outline.name, snapshot, before, slices))
        self._held[org_id, outline.id] = _Held(fetched.settings_at, books)
        self._held.move_to_end((org_id, outline.id))
        self._make_room()
        return books

    def _make_room(self) -> None:
        """Drop the least recently used books of the organisation that has most, so that others keep theirs."""
        sizes: Counter[UUID] = Counter()
        for (org_id, _), cached in self._held.items():
            sizes[org_id] += cached.books.size
        while len(self._held) > 1 and sizes.total() > MAX_KEPT:
            largest = max(sizes, key=lambda org_id: sizes[org_id])
            oldest = next(key for key in self._held if key[0] == largest)
            sizes[largest] -= self._held.pop(oldest).books.size


def _name_of(repository: str) -> str:
    try:
        return repository_name(repository)
    except ValueError:  # no address at all
        return repository
