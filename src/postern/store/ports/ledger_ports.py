"""What proof needs from the outside: the ledger's tables, what is stored of segments, anchors, and a lease."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from postern.domain.lists import Page, Stretch
from postern.domain.sessions.ledger import (
    AnchorState,
    Checkpoint,
    Damaged,
    EntryKind,
    LedgerEntry,
    LedgerHead,
    LedgerKey,
    LedgerProgress,
    Queued,
    Recorded,
    RecordKind,
    SealedRecord,
    SessionFacts,
)
from postern.domain.sessions.segment import Segment


class LedgerStore(Protocol):
    """Of the writer."""

    async def head(self, org_id: UUID) -> LedgerHead | None:
        """None where there is no entry yet. Raises Malformed when somebody broke the row."""

    async def find_unopened(self, limit: int) -> list[SessionFacts]:
        """Return opened sessions of any organisation that the ledger does not know, oldest first.

        A session that waits for a review, or to run, is left out: its start is not final before a worker claims it."""

    async def find_unclosed(self, limit: int, *, damaged_before: datetime, lost_before: datetime) -> list[Recorded]:
        """Sessions that are done, that the ledger knows as opened and not as closed, and whose segments are all stored;
        with those that ended before `lost_before`, and those that ended before `damaged_before` whose last segment is
        damaged, whatever is stored of them. In the order of their ends."""

    async def append(self, entries: Sequence[LedgerEntry]) -> bool:
        """Of one organisation, in one transaction, with the marks on their sessions. False, and nothing was done, when
        another writer came first."""

    async def read_queue(self, limit: int) -> list[Queued]:
        """Return what the ledger has still to seal, of any organisation, in the order in which it came."""

    async def seal(self, entry: LedgerEntry, sealed: Sequence[SealedRecord], done: Sequence[int]) -> bool:
        """Add an entry with the records that it seals, and take the numbers `done` out of the queue. Return False, and
        do nothing, when another writer came first."""


class ProofStore(Protocol):
    """Of who reads the ledger. Places of pages are those of the last item: its number or id, or `Damaged.place`."""

    async def head(self, org_id: UUID) -> LedgerHead | None:
        """None where there is no entry yet. Raises Malformed when somebody broke the row."""

    async def records(self, org_id: UUID, after: Any, limit: int) -> list[SealedRecord | Damaged]:
        """Return sealed records by number, from behind `after`, with what they are about now."""

    async def find_unsealed(self, org_id: UUID, limit: int) -> list[tuple[RecordKind, str]]:
        """Return the ids of audit entries and reviews that nobody sealed, and that do not wait to be sealed."""

    async def entry_before(self, org_id: UUID, at: datetime) -> int:
        """The newest entry that is older than `at`; 0 when there is none."""

    async def entries(self, org_id: UUID, first: int, last: int) -> list[LedgerEntry]:
        """By number."""

    async def entries_after(
        self, org_id: UUID, after: Any, limit: int, *, kind: EntryKind | None = None
    ) -> list[LedgerEntry | Damaged]:
        """Return entries by number, from behind `after`, whatever is missing between; with `kind` only those."""

    async def read_sessions(
        self,
        org_id: UUID,
        after: Any,
        limit: int,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[Recorded | Damaged]:
        """Sessions that were opened, by id, from behind `after`. A session with a segment that cannot be read comes
        without that segment, behind the damage."""

    async def closed_segments(
        self, org_id: UUID, after: Any, limit: int, *, since: datetime | None, until: datetime | None, last: int
    ) -> list[tuple[Any, list[Segment]]]:
        """Return the readable segments of `limit` sessions that were opened, each behind its session's place: the id,
        from behind `after`. Sessions that the ledger has not closed up to its entry `last` come without segments."""

    async def checkpoints(self, org_id: UUID, after: Any, limit: int) -> list[Checkpoint | Damaged]:
        """By number, from behind `after`."""


class WholeLedgerStore(LedgerStore, ProofStore, Protocol):
    """For who writes and who reads."""


class CheckpointStore(Protocol):
    async def standings(self) -> list[LedgerProgress]:
        """Of all organisations. One statement."""

    async def newest(self, org_id: UUID) -> Checkpoint | None: ...

    async def find(self, org_id: UUID, page: Page) -> Stretch[tuple[Checkpoint, list[AnchorState]]]:
        """Newest first."""

    async def add(self, checkpoint: Checkpoint, anchors: Sequence[str]) -> bool:
        """With the anchors that it has to reach. False when its entry has one already."""

    async def waiting(self, at: datetime, limit: int) -> list[tuple[Checkpoint, AnchorState]]:
        """What has to be anchored by then, oldest first."""

    async def mark(self, state: AnchorState, next_at: datetime) -> None:
        """What came of a try."""


class LedgerKeyStore(Protocol):
    async def all(self, org_id: UUID) -> list[LedgerKey]:
        """Newest first; the one that signs is not retired."""

    async def add_first(self, key: LedgerKey) -> None:
        """Does nothing when the organisation has one."""

    async def rotate(self, key: LedgerKey, entry: LedgerEntry, checkpoint: Checkpoint, anchors: Sequence[str]) -> bool:
        """Adds the key with the entry and the checkpoint that introduce it, and retires the one before, all in one
        transaction. False, and nothing was done, when another writer came first."""


class Copies(Protocol):
    """What is stored of segments."""

    def read(self, segment: Segment) -> Iterator[bytes]:
        """The segment as it was sealed, decrypted, in pieces. Blocks: call it from a thread. Raises NotFound,
        Malformed, Unavailable."""


class Anchor(Protocol):
    """A place outside where checkpoints are kept, so that nobody inside can take them back."""

    @property
    def name(self) -> str:
        """At most 16 characters; the same at every start."""

    async def put(self, checkpoint: Checkpoint, line: bytes) -> None:
        """`line` is the checkpoint as files have it. Safe to repeat. Raises Unavailable, with the reason."""
