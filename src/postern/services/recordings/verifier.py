"""Verification of what is in the store, by the same rules as that of an export."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TypeVar
from uuid import UUID

from postern.domain.ledger import Entry, Kind, Recorded
from postern.domain.segment import Segment
from postern.errors import Malformed, NotFound
from postern.proof.checkpoints import line_of
from postern.proof.copies import locate, measure
from postern.proof.findings import Finding, Report, What
from postern.proof.ledger import first_hash
from postern.proof.sessions import Listed, Told, told
from postern.proof.signatures import SignatureCheck
from postern.proof.verify import Copy, Scope, verify
from postern.store.ports.ledger import Copies, LedgerKeyStore, ProofStore

T = TypeVar("T")

_GONE = (What.MISSING, What.UNREADABLE)
ENTRIES, SESSIONS, CHECKPOINTS = 5000, 500, 1000  # read at a time


class Verifier:
    def __init__(self, store: ProofStore, keys: LedgerKeyStore, copies: Copies | None) -> None:
        self._store = store
        self._keys = keys
        self._copies = copies

    async def verify(
        self,
        org_id: UUID,
        *,
        keys: Sequence[bytes] = (),
        anchors: Sequence[bytes] = (),
        with_segments: bool = True,
        progress: Callable[[int], None] = lambda _entries: None,
    ) -> Report:
        """Of one organisation; the gateway may run. Without `keys`, by those in the store, which only who has the
        master key could have put there. `progress` is told how many entries and sessions are done.

        Raises Unavailable, and Misconfigured when a key in the store was changed."""
        known = list(keys) or [key.public for key in await self._keys.all(org_id)]
        signatures = SignatureCheck(org_id, known, Report())
        read = _Bridge(asyncio.get_running_loop())
        scope = Scope(org_id, 1, first_hash(org_id), with_segments=with_segments, is_live=True)
        ends: list[int] = [0]
        report = await asyncio.to_thread(
            verify,
            scope,
            read.all(self._checkpoints(org_id)),
            read.all(self._entries(org_id, ends, progress)),
            read.all(self._sessions(org_id, progress)),
            self._read(read.all(self._segments(org_id))) if with_segments else (),
            signatures,
            anchors,
        )
        await self._excuse(org_id, ends[0], report)
        return report

    async def _checkpoints(self, org_id: UUID) -> AsyncIterator[bytes]:
        number = 0
        while found := await self._store.checkpoints(org_id, number, CHECKPOINTS):
            number = found[-1].number
            for one in found:
                yield line_of(one)

    async def _entries(
        self, org_id: UUID, ends: list[int], progress: Callable[[int], None]
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        async for entry in self._rows(org_id, 1):
            ends[0] = entry.number
            yield entry.hash, entry.content
            progress(1)

    async def _rows(self, org_id: UUID, first: int) -> AsyncIterator[Entry]:
        """By number, also over a gap."""
        after = first - 1
        while found := await self._store.entries_after(org_id, after, ENTRIES):
            after = found[-1].number
            for entry in found:
                yield entry

    async def _sessions(self, org_id: UUID, progress: Callable[[int], None]) -> AsyncIterator[Told]:
        async for recorded in self._recorded(org_id):
            yield told(recorded.facts, [Listed(one.number, one.size, one.digest) for one in recorded.segments])
            progress(1)

    async def _segments(self, org_id: UUID) -> AsyncIterator[Segment]:
        async for recorded in self._recorded(org_id):
            for segment in recorded.segments:
                yield segment

    async def _recorded(self, org_id: UUID) -> AsyncIterator[Recorded]:
        after: UUID | None = None
        while found := await self._store.recorded(org_id, after, SESSIONS):
            after = found[-1].facts.session_id
            for recorded in found:
                yield recorded

    def _read(self, segments: Iterator[Segment]) -> Iterator[Copy]:
        """In the thread of the verification."""
        for segment in segments:
            try:
                size, digest, problem = *measure(self._stored(segment)), ""
            except (Malformed, NotFound) as error:
                size, digest, problem = 0, b"", error.message
            yield Copy(
                segment.session_id,
                segment.number,
                size,
                digest,
                problem,
                lambda segment=segment: locate(self._stored(segment)),  # type: ignore[misc]
            )

    def _stored(self, segment: Segment) -> Iterator[bytes]:
        if self._copies is None:
            raise NotFound("nothing here reads what is stored of recordings")
        return self._copies.read(segment)

    async def _excuse(self, org_id: UUID, last: int, report: Report) -> None:
        """What was purged while we were at it is not missing: the entry came before the row went."""
        missing = {one.session for one in report.findings if one.what in _GONE and one.session is not None}
        if not missing:
            return
        purged = {
            entry.session_id async for entry in self._rows(org_id, last + 1) if entry.kind is Kind.PURGED
        } & missing
        if not purged:
            return

        def is_excused(one: Finding) -> bool:
            return one.what in _GONE and one.session in purged

        report.count -= sum(is_excused(one) for one in report.findings)
        report.findings[:] = [one for one in report.findings if not is_excused(one)]


class _Bridge:
    """Lets a thread iterate over what the event loop reads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def all(self, source: AsyncIterator[T]) -> Iterator[T]:
        """In pieces, so that not every row waits for the loop."""
        while piece := asyncio.run_coroutine_threadsafe(_piece(source), self._loop).result():
            yield from piece


async def _piece(source: AsyncIterator[T], most: int = 500) -> list[T]:
    found: list[T] = []
    async for one in source:
        found.append(one)
        if len(found) == most:
            break
    return found
