"""Exports for auditors: a part of the ledger with all that it proves, as one tar, in constant memory."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any, TypeVar
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.sessions.ledger import (
    Checkpoint,
    Damaged,
    EntryKind,
    LedgerEntry,
    LedgerKey,
    Recorded,
    SealedRecord,
)
from postern.domain.sessions.segment import Segment
from postern.errors import Conflict, Invalid, Malformed, NotFound, PosternError
from postern.proof.chain import RecordBatch, batch_of
from postern.proof.package import Manifest, segment_name
from postern.proof.proof_checkpoints import format_line
from postern.proof.proof_ledger import first_hash
from postern.proof.proof_sessions import ListedSegment
from postern.proof.proof_sessions import format_line as session_line
from postern.proof.proof_writing import PackageWriter
from postern.proof.records import format_line as record_line
from postern.services.identity.users import require_reader
from postern.services.recordings.checkpoints import PROOF, Checkpoints
from postern.services.recordings.recording_ledger import Ledger
from postern.store.ports.common_ports import Clock
from postern.store.ports.ledger_ports import Copies, ProofStore

log = logging.getLogger(__name__)

T = TypeVar("T")

ENTRIES, SESSIONS, CHECKPOINTS, RECORDS = 2000, 500, 1000, 1000  # read at a time
_PIECE = 256 * 1024
_IN_MEMORY = 4 * 1024 * 1024  # bytes of a segment that are not put into a file first
# Small segments are read many at a time: one by one, most of an export's time goes into waiting for threads, and for a
# blob store far away. Two batches are in memory at most.
BATCH_BYTES, BATCH_SEGMENTS = 2 * 1024 * 1024, 512
_READERS = 8  # threads that read a batch


class Exports:
    def __init__(
        self, store: ProofStore, ledger: Ledger, checkpoints: Checkpoints, copies: Copies | None, now: Clock
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._checkpoints = checkpoints
        self._copies = copies
        self._now = now

    async def begin(self, principal: Principal, since: datetime | None, until: datetime | None) -> AsyncIterator[bytes]:
        """Export the sessions that began from `since` to `until`, both included, with the part of the ledger that
        proves them.

        It signs a checkpoint first, so that all of it can be proved. Raises Denied, Invalid, and Conflict for an empty
        ledger.
        """
        require_reader(principal, PROOF)
        if since is not None and until is not None and since > until:
            raise Invalid("until: must not be before since", field="until")
        org_id = principal.org_id
        await self._ledger.write()
        if await self._checkpoints.sign(org_id) is None:
            raise Conflict("the ledger is empty; sessions are added shortly after they start")
        key = await self._checkpoints.signing(org_id)
        head = await self._ledger.head(org_id)
        # One earlier entry shows that the range is complete.
        first = 1 if since is None else max(1, await self._store.entry_before(org_id, since))
        previous = await self._store.entries(org_id, first - 1, first - 1)
        before = previous[0].hash if previous else first_hash(org_id)
        manifest = Manifest(org_id, since, until, first, before, head.number, self._now())
        return self._stream(manifest, key)

    async def _stream(self, manifest: Manifest, key: LedgerKey) -> AsyncIterator[bytes]:
        writer = PackageWriter(manifest, key)
        yield writer.begin()
        left_out: set[UUID] = set()  # sessions whose rows cannot be read: their segments are left out, too
        async for data in self._lines(manifest, writer, left_out):
            if data:
                yield data
        yield writer.flush()
        async for data in self._segments(manifest, writer, left_out):
            yield data
        yield writer.end(self._now())

    async def _lines(self, manifest: Manifest, writer: PackageWriter, left_out: set[UUID]) -> AsyncIterator[bytes]:
        org_id = manifest.org_id
        number: Any = 0
        while checkpoints := await self._store.checkpoints(org_id, number, CHECKPOINTS):
            number = _place(checkpoints[-1])
            for checkpoint in _readable(checkpoints):
                # Older checkpoints are needed where they introduce a key; newer ones are about later entries.
                if checkpoint.number <= manifest.last and (
                    checkpoint.number >= manifest.first or checkpoint.introduces
                ):
                    yield writer.line("checkpoints", format_line(checkpoint))
        async for entry in self._entries(manifest):
            yield writer.line("ledger", entry.hash.hex().encode() + b" " + entry.content)
        async for record in self._records(manifest):
            yield writer.line("records", record_line(record))
        async for recorded in self._sessions(manifest, left_out):
            listed = [
                ListedSegment(segment.number, segment.size, segment.digest) for segment in _final(recorded, manifest)
            ]
            yield writer.line("sessions", session_line(recorded.facts, listed))

    async def _records(self, manifest: Manifest) -> AsyncIterator[SealedRecord]:
        """Yield the records of the batches that overlap the exported time, as the ledger lists them."""
        async for entry in self._entries(manifest, EntryKind.RECORDS):
            batch = batch_of(entry)
            if batch is not None and batch.overlaps(manifest.since, manifest.until):
                async for record in self._batch(manifest.org_id, batch):
                    yield record

    async def _batch(self, org_id: UUID, batch: RecordBatch) -> AsyncIterator[SealedRecord]:
        after: Any = batch.first - 1
        while records := await self._store.records(org_id, after, RECORDS):
            after = _place(records[-1])
            for record in _readable(records):
                if record.number > batch.last:
                    return
                yield record

    async def _entries(self, manifest: Manifest, kind: EntryKind | None = None) -> AsyncIterator[LedgerEntry]:
        after: Any = manifest.first - 1
        while entries := await self._store.entries_after(manifest.org_id, after, ENTRIES, kind=kind):
            after = _place(entries[-1])
            for entry in _readable(entries):
                if entry.number > manifest.last:
                    return
                yield entry

    async def _sessions(self, manifest: Manifest, left_out: set[UUID]) -> AsyncIterator[Recorded]:
        """Yield the sessions of the exported part of the ledger; later ones are left for the next export.

        `left_out` gains those that cannot be read.
        """
        after: Any = None
        while rows := await self._store.read_sessions(
            manifest.org_id, after, SESSIONS, since=manifest.since, until=manifest.until
        ):
            last = rows[-1]
            after = last.place if isinstance(last, Damaged) else last.facts.session_id
            left_out |= {row.session_id for row in rows if isinstance(row, Damaged) and row.session_id is not None}
            for recorded in _readable(rows):
                left_out.discard(recorded.facts.session_id)
                entry = recorded.facts.opened_entry
                if entry is not None and entry <= manifest.last:
                    yield recorded

    async def _segments(self, manifest: Manifest, writer: PackageWriter, left_out: set[UUID]) -> AsyncIterator[bytes]:
        """Yield each segment as a member of the tar. While one batch is written, the next one is read."""
        if self._copies is None:
            return
        reading: asyncio.Task[list[_Copy]] | None = None
        try:
            async for batch in self._batches(manifest, left_out):
                is_large = batch[0].stored_size > BATCH_BYTES
                following = None if is_large else asyncio.create_task(_read_batch(self._copies, batch))
                ready, reading = reading, following
                if ready is not None:
                    yield _members(await ready, writer)
                if is_large:
                    async for data in self._segment(batch[0], writer):
                        yield data
            if reading is not None:
                yield _members(await reading, writer)
        finally:
            if reading is not None:
                reading.cancel()

    async def _batches(self, manifest: Manifest, left_out: set[UUID]) -> AsyncIterator[list[Segment]]:
        """Yield small segments together, as many as fit, and each large one by itself."""
        batch: list[Segment] = []
        size = 0
        async for segment in self._closed_segments(manifest, left_out):
            if batch and (size + segment.stored_size > BATCH_BYTES or len(batch) >= BATCH_SEGMENTS):
                yield batch
                batch, size = [], 0
            batch.append(segment)
            size += segment.stored_size
        if batch:
            yield batch

    async def _closed_segments(self, manifest: Manifest, left_out: set[UUID]) -> AsyncIterator[Segment]:
        """Yield the segments of the sessions that `_sessions` yields, without reading all of their rows again."""
        after: Any = None
        while rows := await self._store.closed_segments(
            manifest.org_id, after, SESSIONS, since=manifest.since, until=manifest.until, last=manifest.last
        ):
            after = rows[-1][0]
            for session_id, segments in rows:
                for segment in segments if session_id not in left_out else ():
                    yield segment

    async def _segment(self, segment: Segment, writer: PackageWriter) -> AsyncIterator[bytes]:
        """Yield a large segment. An unreadable one is left out; verification reports it as missing."""
        assert self._copies is not None
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
            try:
                size, digest = await asyncio.to_thread(_keep, self._copies, segment, file)
            except (Malformed, NotFound) as error:
                _left_out(segment, error)
                return
            before, behind = writer.stream(_name_of(segment), size, digest)
            yield before
            while data := await asyncio.to_thread(file.read, _PIECE):
                yield data
            yield behind


@dataclass(frozen=True, slots=True)
class _Copy:
    """`data` is None where the segment cannot be read."""

    segment: Segment
    data: bytes | None


async def _read_batch(copies: Copies, batch: Sequence[Segment]) -> list[_Copy]:
    """Read small segments, several at a time; return them in order."""
    share = -(-len(batch) // _READERS)
    shares = [batch[start : start + share] for start in range(0, len(batch), share)]
    read = await asyncio.gather(*(asyncio.to_thread(_read_all, copies, each) for each in shares))
    return [copy for each in read for copy in each]


def _read_all(copies: Copies, batch: Sequence[Segment]) -> list[_Copy]:
    found_copies = []
    for segment in batch:
        try:
            found_copies.append(_Copy(segment, b"".join(copies.read(segment))))
        except (Malformed, NotFound) as error:
            _left_out(segment, error)
            found_copies.append(_Copy(segment, None))
    return found_copies


def _members(copies: Sequence[_Copy], writer: PackageWriter) -> bytes:
    """Return the readable segments as members of the tar."""
    return b"".join(writer.member(_name_of(copy.segment), copy.data) for copy in copies if copy.data is not None)


def _name_of(segment: Segment) -> str:
    suffix = ".rec.zst" if segment.place.endswith(".zst") else ".rec"
    return segment_name(segment.session_id, segment.number, suffix)


def _left_out(segment: Segment, error: PosternError) -> None:
    log.warning(
        "export continues without a segment: session=%s segment=%d error=%s",
        segment.session_id,
        segment.number,
        error.message,
    )


def _place(row: Checkpoint | LedgerEntry | SealedRecord | Damaged) -> Any:
    """Return where the next page begins."""
    return row.place if isinstance(row, Damaged) else row.number


def _readable(rows: Sequence[T | Damaged]) -> Iterator[T]:
    """Yield the readable rows. Verification reports the others as missing."""
    for row in rows:
        if isinstance(row, Damaged):
            log.warning("export continues without an unreadable record: record=%s error=%s", row.what, row.problem)
        else:
            yield row


def _final(recorded: Recorded, manifest: Manifest) -> Sequence[Segment]:
    """Return its segments once the ledger has closed it: a running session may gain more, and none is proved yet."""
    entry = recorded.facts.closed_entry
    return recorded.segments if entry is not None and entry <= manifest.last else ()


def _keep(copies: Copies, segment: Segment, file: IO[bytes]) -> tuple[int, bytes]:
    digest = hashlib.sha256()
    for piece in copies.read(segment):
        file.write(piece)
        digest.update(piece)
    size = file.tell()
    file.seek(0)
    return size, digest.digest()
