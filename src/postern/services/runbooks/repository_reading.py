"""Reading of repositories: one attempt at a time for each. The result is stored, for all processes and machines."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from postern.domain.durations import duration_text
from postern.domain.runbook import Repository
from postern.errors import Misconfigured, PosternError, Unavailable
from postern.services.leases import Lease
from postern.services.runbooks.fetching import RepositoryFetcher
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.recording_ports import LeaseStore
from postern.store.ports.runbook_ports import RepositoryStore, SnapshotStore

log = logging.getLogger(__name__)

SETTING = "runbooks"  # how `settings.changed` names what is read, and from where

LONGEST = 300.0  # seconds of an attempt, should the fetcher not end it by itself
ROUND = 180.0  # seconds of a round of upkeep
_AT_ONCE, _OF_ONE = 4, 2  # attempts: of all organisations, of one
_MOST = 8  # repositories of a round
_HELD = timedelta(seconds=2 * ROUND)

_Key = tuple[UUID, UUID, datetime]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A running attempt; `began` is by the clock of the event loop."""

    task: asyncio.Task[None]
    began: float


class RepositoryReading:
    def __init__(
        self,
        repositories: RepositoryStore,
        snapshots: SnapshotStore,
        leases: LeaseStore,
        fetcher: RepositoryFetcher,
        signals: Signals,
        now: Clock,
    ) -> None:
        self._repositories = repositories
        self._snapshots = snapshots
        self._fetcher = fetcher
        self._signals = signals
        self._now = now
        self._running: dict[_Key, Attempt] = {}
        self._over: Counter[UUID] = Counter()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._slots_of: defaultdict[UUID, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_OF_ONE))
        self._leases = {
            failing: Lease(leases, f"runbooks{'/failing' if failing else ''}", now, _HELD) for failing in (False, True)
        }

    def begin(self, org_id: UUID, repository_id: UUID, settings_at: datetime) -> Attempt:
        """Return the running attempt under these settings, or start one.

        Its task raises only Unavailable, when the store does not answer: why a repository could not be read is stored
        with it.
        """
        key = (org_id, repository_id, settings_at)
        running = self._running.get(key)
        if running is None:
            task = asyncio.create_task(self._attempt(*key))
            running = self._running[key] = Attempt(task, asyncio.get_running_loop().time())
            task.add_done_callback(lambda ended: self._forget_task(key, ended))
        return running

    def over(self, org_id: UUID) -> int:
        """Return how many attempts for that organisation have ended here. An answer of the store may predate the end of
        one."""
        return self._over[org_id]

    async def again(self, org_id: UUID, repository_id: UUID, settings_at: datetime) -> None:
        """Read anew: a running attempt may have started too early. Raises Unavailable."""
        running = self._running.get((org_id, repository_id, settings_at))
        if running is not None:
            await asyncio.wait([running.task])
        await asyncio.shield(self.begin(org_id, repository_id, settings_at).task)

    async def once(self, every: timedelta, *, failing: bool) -> bool:
        """Run a round of the background job; return whether anything was due. Raises Unavailable.

        Repositories whose last attempt failed have rounds of their own, so that others do not wait for them. One
        process at a time, over all machines.
        """
        if not await self._leases[failing].have():
            return False
        due = await self._repositories.due(self._now() - every, _MOST, failing=failing)
        tasks = [self.begin(repository.org_id, repository.id, _settings_at(repository)).task for repository in due]
        await asyncio.gather(*map(asyncio.shield, tasks))
        return bool(due)

    async def stop(self) -> None:
        """Cancel running attempts; another process can take over at once."""
        tasks = [attempt.task for attempt in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for lease in self._leases.values():
            await lease.release()

    def _forget_task(self, key: _Key, task: asyncio.Task[None]) -> None:
        self._running.pop(key, None)
        self._over[key[0]] += 1
        if not task.cancelled() and task.exception() is not None:
            log.info(
                "result of reading a repository could not be stored: repository=%s error=%s", key[1], task.exception()
            )

    async def _attempt(self, org_id: UUID, repository_id: UUID, settings_at: datetime) -> None:
        async with self._slots_of[org_id], self._slots:
            at = self._now()
            error = await self._read(org_id, repository_id, settings_at, at)
            if error:
                await self._snapshots.mark_failed(org_id, repository_id, error, settings_at, at)

    async def _read(self, org_id: UUID, repository_id: UUID, settings_at: datetime, at: datetime) -> str:
        """Return why it could not be read; empty when it was, or its settings have changed."""
        try:
            repository = await self._repositories.get(org_id, str(repository_id))
        except Misconfigured as error:
            log.warning("credentials cannot be decrypted: repository=%s error=%s", repository_id, error)
            return "its credentials cannot be decrypted with the keys of this server; set them again"
        if repository is None or repository.updated_at != settings_at:
            return ""
        try:
            async with asyncio.timeout(LONGEST):
                snapshot = await self._fetcher.fetch(repository)
        except TimeoutError:
            return f"it did not answer within {duration_text(LONGEST)}"
        except PosternError as error:
            return error.message
        except Exception:
            log.exception("repository could not be read: repository=%s", repository.name)
            return "internal error of the gateway; see its log"
        try:
            before = {outline.id: outline.commit for outline in await self._snapshots.outlines(org_id)}.get(
                repository_id
            )
            is_kept = await self._snapshots.put(org_id, repository_id, snapshot, settings_at, at)
        except Unavailable:
            raise
        except PosternError as error:
            return error.message
        if is_kept and before != snapshot.commit:
            await self._signals.publish(Topic.SETTINGS_CHANGED, name=SETTING, org_id=str(org_id))
        return ""


def _settings_at(repository: Repository) -> datetime:
    assert repository.updated_at is not None, "only stored repositories are read"
    return repository.updated_at
