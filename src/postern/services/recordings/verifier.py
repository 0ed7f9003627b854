"""Verification of the store, by the same rules as that of an export."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from postern.domain.sessions.ledger import (
    Checkpoint,
    Damaged,
    EntryKind,
    LedgerEntry,
    LedgerHead,
    Recorded,
    RecordKind,
    SealedRecord,
)
from postern.domain.sessions.segment import Segment
from postern.errors import Malformed, Misconfigured, NotFound
from postern.proof.chain import batch_of
from postern.proof.proof_checkpoints import format_line
from postern.proof.proof_copies import locate, measure
from postern.proof.proof_findings import Finding, FindingKind, VerificationReport
from postern.proof.proof_ledger import first_hash
from postern.proof.proof_sessions import ListedSegment, VerifiedSession, make_session
from postern.proof.proof_signatures import SignatureCheck
from postern.proof.verify import Copy, VerificationScope, verify
from postern.store.ports.common_ports import Clock
from postern.store.ports.ledger_ports import Copies, LedgerKeyStore, ProofStore

T = TypeVar("T")

_GONE = (FindingKind.MISSING, FindingKind.UNREADABLE)
ENTRIES, SESSIONS, CHECKPOINTS, RECORDS = 5000, 500, 1000, 1000  # read at a time
FOREIGN = 1000  # unsealed rows that are listed


class RecordVerifier:
    def __init__(self, store: ProofStore, keys: LedgerKeyStore, copies: Copies | None, now: Clock) -> None:
        self._store = store
        self._keys = keys
        self._copies = copies
        self._now = now

    async def verify(
        self,
        org_id: UUID,
        *,
        keys: Sequence[bytes] = (),
        anchors: Sequence[bytes] = (),
        with_segments: bool = True,
        progress: Callable[[int], None] = lambda _entries: None,
    ) -> VerificationReport:
        """Verify one organisation; the gateway may run.

        Without `keys`, those in the store are used, which only a holder of the master key could have put there.
        `progress` gets the number of entries and sessions done. An unreadable row is a finding. Raises Unavailable.
        """
        report = VerificationReport()
        signatures = SignatureCheck(org_id, list(keys) or await load_public_keys(self._keys, org_id, report), report)
        read = _Bridge(asyncio.get_running_loop())
        # Read before the entries: all that the head names then exists.
        head = await self._head(org_id, report)
        last = 0 if head is None else head.number
        scope = VerificationScope(
            org_id, 1, first_hash(org_id), last=last, at=self._now(), with_segments=with_segments, is_live=True
        )
        ends = _Ends()
        await asyncio.to_thread(
            verify,
            scope,
            read.all(self._checkpoints(org_id, report)),
            read.all(self._entries(org_id, ends, progress, report)),
            read.all(self._records(org_id, ends, report)),
            read.all(self._sessions(org_id, ends, progress, report)),
            read_copies(self._copies, read.all(self._segments(org_id))) if with_segments else (),
            signatures,
            anchors,
        )
        await self._find_unrecorded(org_id, report)
        await self._check_head(org_id, ends, report)
        await self._excuse(org_id, ends.number, report)
        return report

    async def _head(self, org_id: UUID, report: VerificationReport) -> LedgerHead | None:
        try:
            return await self._store.head(org_id)
        except Malformed as error:
            report.add(FindingKind.UNREADABLE, f"the head of the ledger cannot be read: {error.message}")
            return None

    async def _checkpoints(self, org_id: UUID, report: VerificationReport) -> AsyncIterator[bytes]:
        async for checkpoint in _pages(lambda after: self._store.checkpoints(org_id, after, CHECKPOINTS), _number, 0):
            if isinstance(checkpoint, Damaged):
                _add(report, checkpoint)
                continue
            try:
                yield format_line(checkpoint)
            except Malformed as error:
                _add(report, Damaged(f"the checkpoint of entry {checkpoint.number}", error.message, checkpoint.number))

    async def _entries(
        self, org_id: UUID, ends: _Ends, progress: Callable[[int], None], report: VerificationReport
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        async for entry in self._rows(org_id, 1):
            if isinstance(entry, Damaged):
                _add(report, entry)
            else:
                ends.see(entry)
                yield entry.hash, entry.content
            progress(1)

    def _rows(self, org_id: UUID, first: int) -> AsyncIterator[LedgerEntry | Damaged]:
        """Return entries by number, also across a gap."""
        return _pages(lambda after: self._store.entries_after(org_id, after, ENTRIES), _number, first - 1)

    async def _records(self, org_id: UUID, ends: _Ends, report: VerificationReport) -> AsyncIterator[SealedRecord]:
        async for record in _pages(lambda after: self._store.records(org_id, after, RECORDS), _number, 0):
            if isinstance(record, Damaged):
                _add(report, record)
            else:
                ends.record = record.number
                yield record

    async def _sessions(
        self, org_id: UUID, ends: _Ends, progress: Callable[[int], None], report: VerificationReport
    ) -> AsyncIterator[VerifiedSession]:
        async for recorded in self._read_sessions(org_id):
            if isinstance(recorded, Damaged):
                _add(report, recorded)
                continue
            facts = recorded.facts
            ends.named = max(ends.named, facts.opened_entry or 0, facts.closed_entry or 0)
            yield make_session(
                facts, [ListedSegment(segment.number, segment.size, segment.digest) for segment in recorded.segments]
            )
            progress(1)

    async def _segments(self, org_id: UUID) -> AsyncIterator[Segment]:
        async for recorded in self._read_sessions(org_id):
            if not isinstance(recorded, Damaged):
                for segment in recorded.segments:
                    yield segment

    def _read_sessions(self, org_id: UUID) -> AsyncIterator[Recorded | Damaged]:
        def place(recorded: Recorded) -> UUID:
            return recorded.facts.session_id

        return _pages(lambda after: self._store.read_sessions(org_id, after, SESSIONS), place, None)

    async def _find_unrecorded(self, org_id: UUID, report: VerificationReport) -> None:
        for kind, subject in await self._store.find_unsealed(org_id, FOREIGN):
            name = "audit entry" if kind is RecordKind.AUDIT else "review"
            report.add(FindingKind.FOREIGN, f"{name} {subject} exists, but the ledger never sealed it")

    async def _check_head(self, org_id: UUID, ends: _Ends, report: VerificationReport) -> None:
        """Compare the head, read last, with what was read: it may be ahead, and never behind."""
        try:
            head = await self._store.head(org_id) or LedgerHead(0, first_hash(org_id))
        except Malformed:  # already reported
            return
        if ends.named > head.number:
            message = f"a session names entry {ends.named} of the ledger, but the last entry is {head.number}"
            report.add(FindingKind.TRUNCATED, f"{message}: the newest entries were removed", entry=head.number + 1)
        if ends.record > head.records:
            report.add(
                FindingKind.FOREIGN, f"record {ends.record} exists, but the ledger has sealed only {head.records}"
            )
        is_behind = head.number < ends.number or head.records < ends.sealed
        is_same = head.number == ends.number > 0
        if is_behind or (is_same and (head.hash, head.at, head.records) != (ends.hash, ends.at, ends.sealed)):
            message = f"the head of the ledger names entry {head.number}, but does not match the newest entry"
            report.add(FindingKind.CHANGED, message, entry=ends.number)

    async def _excuse(self, org_id: UUID, last: int, report: VerificationReport) -> None:
        """Remove findings about what was purged meanwhile: its entry came before its row was deleted."""
        missing = {
            finding.session for finding in report.findings if finding.what in _GONE and finding.session is not None
        }
        if not missing:
            return
        purged = {
            entry.session_id
            async for entry in self._rows(org_id, last + 1)
            if isinstance(entry, LedgerEntry) and entry.kind is EntryKind.PURGED
        } & missing
        if not purged:
            return

        def is_excused(finding: Finding) -> bool:
            return finding.what in _GONE and finding.session in purged

        report.count -= sum(is_excused(finding) for finding in report.findings)
        report.findings[:] = [finding for finding in report.findings if not is_excused(finding)]


async def load_public_keys(keys: LedgerKeyStore, org_id: UUID, report: VerificationReport) -> list[bytes]:
    """Return the public keys in the store, which only a holder of the master key could have put there."""
    try:
        return [key.public for key in await keys.all(org_id)]
    except (Malformed, Misconfigured) as error:
        report.add(FindingKind.FORGED, error.message)
        return []


def read_copies(copies: Copies | None, segments: Iterable[Segment]) -> Iterator[Copy]:
    """Read segments, in the thread of the verification."""

    def read(segment: Segment) -> Iterator[bytes]:
        if copies is None:
            raise NotFound("this process cannot read stored recordings")
        return copies.read(segment)

    for segment in segments:
        try:
            size, digest, problem = *measure(read(segment)), ""
        except (Malformed, NotFound) as error:
            size, digest, problem = 0, b"", error.message
        yield Copy(
            segment.session_id,
            segment.number,
            size,
            digest,
            problem,
            lambda segment=segment: locate(read(segment)),  # type: ignore[misc]
        )


async def _pages(
    read: Callable[[Any], Awaitable[Sequence[T | Damaged]]], place: Callable[[T], Any], after: Any
) -> AsyncIterator[T | Damaged]:
    """Yield all pages; `place` returns the position of a row."""
    while rows := await read(after):
        for row in rows:
            after = row.place if isinstance(row, Damaged) else place(row)
            yield row


def _number(record: Checkpoint | LedgerEntry | SealedRecord) -> int:
    return record.number


def _add(report: VerificationReport, damaged: Damaged) -> None:
    report.add(FindingKind.UNREADABLE, f"{damaged.what} cannot be read: {damaged.problem}", session=damaged.session_id)


@dataclass(slots=True)
class _Ends:
    """The last row read of the ledger and its records; `named` is the newest entry that a session names."""

    number: int = 0
    hash: bytes = b""
    at: datetime | None = None
    sealed: int = 0
    record: int = 0
    named: int = 0

    def see(self, entry: LedgerEntry) -> None:
        self.number, self.hash, self.at = entry.number, entry.hash, entry.at
        batch = batch_of(entry) if entry.kind is EntryKind.RECORDS else None
        self.sealed = self.sealed if batch is None else batch.last


class _Bridge:
    """Lets a thread iterate over what the event loop reads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def all(self, source: AsyncIterator[T]) -> Iterator[T]:
        """Yield in pieces, so that not every row waits for the loop."""
        while piece := asyncio.run_coroutine_threadsafe(_piece(source), self._loop).result():
            yield from piece


async def _piece(source: AsyncIterator[T], most: int = 500) -> list[T]:
    items: list[T] = []
    async for item in source:
        items.append(item)
        if len(items) == most:
            break
    return items
