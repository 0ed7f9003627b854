"""The job that purges by retention, and carries out purges that have begun.

The order is: the ledger and the audit log (`purges.py`), stored segments, files on this machine, rows. A kill at any
point leaves a purge that the next round continues. Nothing is deleted without an entry in the ledger.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from uuid import UUID

from postern.domain.lists import Position
from postern.domain.sessions.retention import (
    Purge,
    PurgeScope,
    RetainedSession,
    Retention,
    Retentions,
    RetentionSetting,
    due,
    retentions_at,
)
from postern.domain.sessions.segment import Segment
from postern.errors import Conflict, PosternError, Unavailable
from postern.services.leases import Lease
from postern.services.recordings.purges import PurgeRegister
from postern.store.ports.common_ports import Clock
from postern.store.ports.recording_ports import Blobs, LeaseStore
from postern.store.ports.retention_ports import Doomed, PurgeStore, RetentionStore

log = logging.getLogger(__name__)

LEASE = "purge"
LASTS = timedelta(minutes=2)  # so that more than a round is left of it when one begins
LONGEST = 50.0  # seconds of a round
PATIENCE = 30.0  # seconds after which a round begins nothing new
PASS = 3600.0  # seconds between two passes over all sessions
PAGE = 2000  # sessions checked in one statement
BATCH = 100  # purges that begin in one transaction; as many as an entry of the audit log names
AT_ONCE = 24  # purges that are carried out together
LANES = 8  # blobs that are deleted at the same time
PIECE = 64  # segments of one session between two deletions of rows, so that long sessions make progress
DELETE = 10.0  # time limit for deleting one blob, in seconds
PAUSE = 0.02  # seconds between two transactions, in which sessions can be opened
# A clock that was set forward makes everything old: then nothing is purged for a day, so that users can notice.
JUMP, QUIET = 86_400.0, 86_400.0  # seconds
_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(minutes=1), timedelta(hours=6)


@dataclass(slots=True)
class _Lanes:
    """Parallel deletions of one step. Once the blob store has hung, the step does not wait for it again."""

    free: asyncio.Semaphore
    trouble: str = ""


class Purger:
    """Runs purges. `clean` deletes the files of these sessions on this machine; it blocks."""

    def __init__(
        self,
        *,
        leases: LeaseStore,
        retentions: RetentionStore,
        store: PurgeStore,
        register: PurgeRegister,
        blobs: Blobs,
        clean: Callable[[Collection[UUID]], None],
        now: Clock,
    ) -> None:
        self._retentions = retentions
        self._store = store
        self._register = register
        self._blobs = blobs
        self._clean = clean
        self._now = now
        self._lease = Lease(leases, LEASE, now, LASTS)
        self._waiting: deque[tuple[UUID, Position | None]] = deque()  # organisations left in this pass
        self._known: list[RetentionSetting] = []
        self._pass_at: float | None = None
        self._quiet = False

    async def stop(self) -> None:
        """Release the lease, so that another process can take over at once."""
        await self._lease.release()

    async def once(self) -> int:
        """Run a round, if it is our turn; return how many purges were done. Raises Unavailable when the store does not
        answer."""
        now = self._now()
        if not await self._lease.have():
            return 0
        end = time.monotonic() + PATIENCE
        done = await self._carry_out(end)
        if self._is_quiet(now, await self._store.tick(now, JUMP, QUIET)):
            return done
        await self._plan()
        while self._waiting and time.monotonic() < end:
            await self._look(*self._waiting.popleft())
            done += await self._carry_out(end)
        return done

    def _is_quiet(self, now: datetime, until: datetime) -> bool:
        quiet = now < until
        if quiet and not self._quiet:
            log.warning(
                "purging by retention paused, because the clock differs by more than a day from the last round, or no "
                "earlier round checked these sessions: until=%s",
                until.isoformat(timespec="minutes"),
            )
        self._quiet = quiet
        return quiet

    async def _plan(self) -> None:
        """Begin a pass when one is due, or a retention was changed or has taken effect."""
        settings = await self._retentions.all()
        at = self._now()
        current = [setting for setting in settings if not setting.waits(at)]
        is_due = self._pass_at is None or time.monotonic() - self._pass_at > PASS
        if not is_due and current == self._known:
            return
        self._known, self._pass_at = current, time.monotonic()
        self._waiting = deque((org_id, None) for org_id in sorted({setting.org_id for setting in settings}, key=str))

    async def _look(self, org_id: UUID, after: Position | None) -> None:
        """Check one page of an organisation's sessions."""
        now = self._now()
        retentions = retentions_at(await self._retentions.of(org_id), now)
        if retentions.shortest is None:
            return
        before = now - timedelta(days=retentions.shortest)
        sessions = await self._store.find_closed(org_id, before, after, PAGE)
        doomed = _find_due(sessions, retentions, now)
        for at in range(0, len(doomed), BATCH):
            await self._begin(org_id, doomed[at : at + BATCH])
            await asyncio.sleep(PAUSE)
        if len(sessions) == PAGE:
            last = sessions[-1]
            self._waiting.appendleft((org_id, Position(last.started, last.session_id)))

    async def _begin(self, org_id: UUID, doomed: Sequence[tuple[RetainedSession, PurgeScope, str]]) -> None:
        """Begin the purges that are allowed. Concurrent changes are left for the next pass."""
        for _ in range(3):
            free = await self._store.purgeable([session.session_id for session, _, _ in doomed])
            doomed = [candidate for candidate in doomed if candidate[0].session_id in free]
            if not doomed or await self._register.begin(org_id, doomed):
                return

    async def _carry_out(self, end: float) -> int:
        """Carry out purges that have begun and are due; return how many."""
        total = 0
        while time.monotonic() < end:
            doomed = await self._store.find_begun(self._now(), AT_ONCE)
            if not doomed:
                break
            lanes = _Lanes(asyncio.Semaphore(LANES))
            outcomes = await asyncio.gather(*(self._delete(doomed_session, lanes) for doomed_session in doomed))
            gone = [doomed_session.purge for doomed_session, is_gone in zip(doomed, outcomes, strict=True) if is_gone]
            if not gone:
                break
            try:
                await asyncio.to_thread(self._clean, {purge.session_id for purge in gone})
            except OSError as error:
                for purge in gone:
                    await self._record_failure(
                        purge, f"its files on this machine cannot be deleted: {error.strerror or error}"
                    )
                break
            await self._store.mark_done(gone)
            total += len(gone)
            await asyncio.sleep(PAUSE)
        return total

    async def _delete(self, doomed: Doomed, lanes: _Lanes) -> bool:
        """Delete all stored segments of a session; return whether none is left."""
        key, segments = doomed.purge.session_id, doomed.segments
        try:
            for segment in segments:
                require_own(segment)
            for at in range(0, len(segments), PIECE):
                piece = segments[at : at + PIECE]
                outcomes = await asyncio.gather(
                    *(self._delete_one(segment.place, lanes) for segment in piece), return_exceptions=True
                )
                for outcome in outcomes:
                    if outcome is not None:
                        raise outcome
                if at + PIECE < len(segments):
                    await self._store.forget(key, [segment.number for segment in piece])
        except PosternError as error:
            await self._record_failure(doomed.purge, error.message)
            return False
        except Exception as error:  # an unexpected error must not stop the other purges
            log.exception("session cannot be purged: session=%s", key)
            await self._record_failure(doomed.purge, f"unexpected error: {error}")
            return False
        return True

    async def _delete_one(self, place: str, lanes: _Lanes) -> None:
        async with lanes.free:
            if lanes.trouble:
                raise Unavailable(lanes.trouble)
            try:
                async with asyncio.timeout(DELETE):
                    await self._blobs.delete(place)
            except TimeoutError:
                lanes.trouble = f"{self._blobs.name} did not delete {place} within {DELETE:g} s"
                raise Unavailable(lanes.trouble) from None

    async def _record_failure(self, purge: Purge, error: str) -> None:
        attempts = purge.attempts + 1
        pause = min(_FIRST_PAUSE * 2 ** min(attempts - 1, 20), _LONGEST_PAUSE)
        log.warning("session not purged yet: session=%s retry_in=%s error=%s", purge.session_id, pause, error)
        await self._store.mark_failed(purge.session_id, attempts, error, self._now() + pause)


def _find_due(
    candidates: Sequence[RetainedSession], retentions: Retentions, at: datetime
) -> list[tuple[RetainedSession, PurgeScope, str]]:
    due_purges = []
    for session in candidates:
        retention = retentions.of(session.connection_id)
        purge_scope = due(session, retention, at)
        if purge_scope is not None:
            due_purges.append((session, purge_scope, _reason(purge_scope, retention)))
    return due_purges


def _reason(what: PurgeScope, retention: Retention) -> str:
    days = retention.session_days if what is PurgeScope.SESSION else retention.recording_days
    return f"retention: {what.value}s are stored for {days} days"


def require_own(segment: Segment) -> None:
    """Check that the path belongs to the session, so that a changed row cannot delete another one's recording. Raises
    Conflict."""
    place = PurePosixPath(segment.place)
    names = any(str(segment.session_id) in part for part in place.parts)
    if place.is_absolute() or ".." in place.parts or not names:
        raise Conflict(
            f"the row of segment {segment.number} says that it is stored at {segment.place!r}, which is not a path of "
            "this session: the row was changed; nothing was deleted there"
        )
