"""The ledger's writer: starts and ends of sessions, and batches of the audit log and of reviews, each written once and
in order."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from postern.domain.sessions.ledger import (
    EntryKind,
    Fact,
    LedgerEntry,
    LedgerHead,
    Queued,
    Recorded,
    SealedRecord,
    SessionFacts,
    moment,
)
from postern.domain.sessions.segment import first_link, next_link
from postern.errors import Malformed, Unavailable
from postern.proof.canonical import canonical
from postern.proof.proof_ledger import LedgerWriter, digest_of, first_hash
from postern.proof.proof_sessions import BINDS, opening_of
from postern.proof.records import content_of, digest_of_batch
from postern.store.ports.common_ports import Clock
from postern.store.ports.ledger_ports import LedgerStore

log = logging.getLogger(__name__)

BATCH = 500  # sessions, or records, in one transaction
ROUND = 40  # batches at a time; the rest is for the next round
# Wait for missing segments: the archiver can be down, and a machine can return.
LOST_AFTER = timedelta(days=7)
DAMAGED_AFTER = timedelta(hours=1)  # where the last one is stored and its end cannot be read
_TRIES = 20


class Ledger:
    """Appends entries. Concurrent writers are safe: each number is given once, and the loser of a race starts again."""

    def __init__(self, store: LedgerStore, now: Clock) -> None:
        self._store = store
        self._now = now

    async def write(self, *, batch: int = BATCH, batches: int = ROUND) -> int:
        """Write what is due, in a bounded number of steps; return how many entries.

        Each batch is one transaction, so a kill at any point leaves a complete ledger.
        """
        done = 0
        for _ in range(batches):
            sessions = await self._tell_opened(batch) + await self._tell_closed(batch)
            sealed = await self._seal_records(batch)
            done += sessions + sealed
            if not sessions and not sealed:
                break
        return done

    async def note(self, org_id: UUID, kind: EntryKind, session_id: UUID, **content: Fact) -> int:
        """Append an entry by itself: `purged` (what, reason), `held` or `released` (by). Return its number.

        Call it before the action: a session that disappears without an entry counts as removed. Raises Unavailable when
        other writers were first each time.
        """
        return await self.enter(org_id, kind, session_id, content, lambda entry: self._store.append([entry]))

    async def enter(
        self,
        org_id: UUID,
        kind: EntryKind,
        session_id: UUID,
        content: Mapping[str, Fact],
        append: Callable[[LedgerEntry], Awaitable[bool]],
    ) -> int:
        """Append an entry as `note` does, where `append` stores it with other rows in one transaction.

        `append` returns False when another writer came first.
        """
        for _ in range(_TRIES):
            writer = LedgerWriter(org_id, await self.head(org_id))
            entry = writer.add(kind, self._now(), session_id, **content)
            if await append(entry):
                return entry.number
        raise Unavailable("too many processes are writing the ledger at once; try again")

    async def head(self, org_id: UUID) -> LedgerHead:
        return await self._store.head(org_id) or LedgerHead(0, first_hash(org_id))

    async def _seal_records(self, batch: int) -> int:
        """Seal what waits, one entry for each organisation; return how many entries."""
        queued_by_org: dict[UUID, list[Queued]] = defaultdict(list)
        for queued in await self._store.read_queue(batch):
            queued_by_org[queued.org_id].append(queued)
        done = 0
        for org_id, queued_records in queued_by_org.items():
            writer = LedgerWriter(org_id, await self.head(org_id))
            first = writer.head.records + 1
            records = [
                SealedRecord(number, queued_record.subject, _content(queued_record))
                for number, queued_record in enumerate(_newest_of(queued_records), first)
            ]
            moments = [record.at for record in queued_records]
            entry = writer.add(
                EntryKind.RECORDS,
                max(self._now(), *moments),
                None,
                first=first,
                count=len(records),
                digest=digest_of_batch(record.content for record in records),
                oldest=moment(min(moments)),
                newest=moment(max(moments)),
            )
            done += await self._store.seal(entry, records, [queued_record.number for queued_record in queued_records])
        return done

    async def _tell_opened(self, batch: int) -> int:
        facts_by_org: dict[UUID, list[SessionFacts]] = defaultdict(list)
        for facts in await self._store.find_unopened(batch):
            facts_by_org[facts.org_id].append(facts)
        done = 0
        for org_id, opened in facts_by_org.items():
            writer = LedgerWriter(org_id, await self.head(org_id))
            for facts in opened:
                # A worker's clock can be ahead: an entry must not be older than the start of its session.
                at, started = max(self._now(), facts.started), moment(facts.started)
                content: dict[str, Fact] = {"facts": digest_of(opening_of(facts)), "started": started, "binds": BINDS}
                writer.add(EntryKind.OPENED, at, facts.session_id, **content)
            done += await self._append(writer)
        return done

    async def _tell_closed(self, batch: int) -> int:
        now = self._now()
        recorded_by_org: dict[UUID, list[Recorded]] = defaultdict(list)
        waited = {"damaged_before": now - DAMAGED_AFTER, "lost_before": now - LOST_AFTER}
        for recorded in await self._store.find_unclosed(batch, **waited):
            recorded_by_org[recorded.facts.org_id].append(recorded)
        done = 0
        for org_id, closed in recorded_by_org.items():
            writer = LedgerWriter(org_id, await self.head(org_id))
            for recorded in closed:
                writer.add(EntryKind.CLOSED, now, recorded.facts.session_id, **_closing(recorded))
            done += await self._append(writer)
        return done

    async def _append(self, writer: LedgerWriter) -> int:
        return len(writer.entries) if await self._store.append(writer.entries) else 0


def _newest_of(records: Sequence[Queued]) -> list[Queued]:
    """Return the newest of each subject: the current state is sealed, however often it changed."""
    return list({record.subject: record for record in records}.values())


def _content(queued: Queued) -> bytes:
    """Return the content to seal. What cannot be read is sealed as gone; verification reports the damage."""
    try:
        return canonical(content_of(queued.kind, queued.subject, queued.session_id, queued.facts))
    except Malformed as error:
        log.warning("record cannot be sealed: kind=%s id=%s error=%s", queued.kind, queued.subject, error.message)
        return canonical(content_of(queued.kind, queued.subject, queued.session_id, None))


def _closing(recorded: Recorded) -> dict[str, Fact]:
    """Return the facts of a closed session. The chain is computed anew from the digests; the row proves nothing."""
    facts, segments = recorded.facts, recorded.segments
    chain = first_link(facts.org_id, facts.session_id)
    for segment in segments:
        chain = next_link(chain, segment.number, segment.size, segment.digest)
    in_order = all(segment.number == number for number, segment in enumerate(segments, 1))
    ended = segments[-1].is_last if segments else not recorded.is_recorded
    closing = facts.closing or {}
    return {
        "binds": BINDS,
        "facts": digest_of(closing),
        "segments": len(segments),
        "last": chain.hex(),
        "size": sum(segment.size for segment in segments),
        "complete": in_order and ended,
        "reason": closing.get("end_reason"),
    }
