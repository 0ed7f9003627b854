"""Deletion of organisations, in rounds that can be interrupted anywhere.

requested (organisations.py): marked, all access invalid ─▶ sessions end ─▶ recordings: blobs, then their rows
    ─▶ sessions: files on this machine, then their rows ─▶ all other rows ─▶ the organisation, with an audit entry
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from uuid import UUID

from postern.domain.identity.organisation import Organisation
from postern.domain.sessions.segment import Segment
from postern.domain.sessions.session import EndReason
from postern.errors import Conflict, PosternError, Unavailable
from postern.services.leases import Lease
from postern.services.recordings.purger import require_own
from postern.services.server.audit import Audit
from postern.services.server.audit_context import AuditContext
from postern.services.server.operators import Operators
from postern.services.targets.agents import AgentChange
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.recording_ports import Blobs, LeaseStore
from postern.store.ports.server_ports import OrganisationDeletionStore

log = logging.getLogger(__name__)

LEASE = "organisation deletion"
LASTS = timedelta(minutes=2)
LONGEST = 60.0  # seconds of a round
PATIENCE = 30.0  # seconds after which a round begins nothing new
ENDING = timedelta(minutes=15)  # for sessions to end; after that their worker counts as dead
SESSIONS, ROWS = 200, 1000  # deleted in one transaction
SEGMENTS = 64  # segments whose blobs are deleted before their rows
LANES = 8  # blobs that are deleted at the same time
DELETE = 10.0  # time limit for deleting one blob, in seconds
RETRY = timedelta(minutes=1)  # after a failure
PAUSE = 0.02  # seconds between two transactions, in which sessions can be opened


async def cut_off(store: OrganisationDeletionStore, signals: Signals, org_id: UUID) -> None:
    """Signal to every process that access to the organisation is invalid: links and tunnels end."""
    for agent_id in await store.agents(org_id):
        await signals.publish(Topic.AGENT_CHANGED, agent_id=str(agent_id), change=AgentChange.DELETED)
    await signals.publish(Topic.POLICY_CHANGED, org_id=str(org_id))


class OrganisationDeleter:
    """Deletes organisations. `clean` deletes the files of these sessions on this machine; it blocks."""

    def __init__(
        self,
        *,
        leases: LeaseStore,
        store: OrganisationDeletionStore,
        blobs: Blobs,
        clean: Callable[[Collection[UUID]], None],
        audit: Audit,
        operators: Operators,
        signals: Signals,
        now: Clock,
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._clean = clean
        self._audit = audit
        self._operators = operators
        self._signals = signals
        self._now = now
        self._lease = Lease(leases, LEASE, now, LASTS)
        self._failed: dict[UUID, datetime] = {}  # when a deletion is tried again

    async def stop(self) -> None:
        """Release the lease, so that another process can take over at once."""
        await self._lease.release()

    async def once(self) -> int:
        """Run a round, if it is our turn, and return how many organisations it deleted. Raises Unavailable."""
        waiting = await self._store.waiting()
        if not waiting or not await self._lease.have():
            return 0
        deleted, end = 0, time.monotonic() + PATIENCE
        for organisation in waiting:
            if self._failed.get(organisation.id, self._now()) > self._now():
                continue
            try:
                deleted += await self._advance(organisation, end)
                self._failed.pop(organisation.id, None)
            except (PosternError, OSError) as error:
                self._failed[organisation.id] = self._now() + RETRY
                reason = error.message if isinstance(error, PosternError) else error.strerror or str(error)
                log.warning("organisation not deleted yet, retrying: org=%r error=%s", organisation.name, reason)
        return deleted

    async def _advance(self, organisation: Organisation, end: float) -> bool:
        """Continue the deletion within the time. Return whether the organisation is gone."""
        org_id = organisation.id
        await self._store.invalidate(org_id)
        if not await self._sessions_ended(organisation):
            return False
        for step in (self._delete_recordings, self._delete_sessions, self._delete_rows):
            while await step(org_id):
                if time.monotonic() > end:
                    return False
                await asyncio.sleep(PAUSE)
        return await self._finish(organisation)

    async def _sessions_ended(self, organisation: Organisation) -> bool:
        running = await self._store.running_sessions(organisation.id, ROWS)
        if not running:
            return True
        if self._now() - (organisation.deleting_at or self._now()) > ENDING:
            log.warning("deleting sessions that did not end: org=%r count=%d", organisation.name, len(running))
            return True
        await cut_off(self._store, self._signals, organisation.id)
        for session_id in running:
            await self._signals.publish(Topic.SESSION_KILL, session_id=str(session_id), reason=EndReason.KILLED)
        return False

    async def _delete_recordings(self, org_id: UUID) -> int:
        segments = await self._store.segments(org_id, SEGMENTS)
        if segments:
            lanes = asyncio.Semaphore(LANES)
            outcomes = await asyncio.gather(
                *(self._delete_blob(segment, lanes) for segment in segments), return_exceptions=True
            )
            gone = [segment for segment, outcome in zip(segments, outcomes, strict=True) if outcome is None]
            if gone:
                await self._store.forget_segments(gone)
            for outcome in outcomes:
                if outcome is not None:
                    raise outcome
        return len(segments)

    async def _delete_blob(self, segment: Segment, lanes: asyncio.Semaphore) -> None:
        try:
            require_own(segment)
        except Conflict as error:  # the blob becomes unreadable once the organisation's data keys are deleted
            log.error("blob not deleted: error=%s", error.message)
            return
        async with lanes:
            try:
                async with asyncio.timeout(DELETE):
                    await self._blobs.delete(segment.place)
            except TimeoutError:
                raise Unavailable(f"{self._blobs.name} did not delete {segment.place} within {DELETE:g} s") from None

    async def _delete_sessions(self, org_id: UUID) -> int:
        """Delete files first: without its row, no process would look for a session's files."""
        ids = await self._store.sessions(org_id, SESSIONS)
        if ids:
            await asyncio.to_thread(self._clean, set(ids))
            await self._store.forget_sessions(ids)
        return len(ids)

    async def _delete_rows(self, org_id: UUID) -> int:
        return await self._store.forget_rows(org_id, ROWS)

    async def _finish(self, organisation: Organisation) -> bool:
        entry = self._audit.by_gateway(
            await self._operators.organisation(),
            "organisations",
            action="delete",
            resource_type="orgs",
            resource=organisation.name,
            audit_context=AuditContext({"organisation": organisation}, None),
        )
        if not await self._store.finish(organisation.id, entry):
            return False
        log.info("organisation deleted: org=%r", organisation.name)
        await self._signals.publish(Topic.DATA_KEYS_CHANGED)
        await self._signals.publish(Topic.POLICY_CHANGED, org_id=str(organisation.id))
        return True
