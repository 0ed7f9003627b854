"""The ports of proof: the ledger's tables, stored segments, anchors, and a lease."""

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
    SessionVerification,
)
from postern.domain.sessions.segment import Segment


class LedgerStore(Protocol):
    """The writer's view of the ledger."""

    async def head(self, org_id: UUID) -> LedgerHead | None:
        """Return the head; None where there is no entry yet. Raises Malformed when the row is damaged."""

    async def find_unopened(self, limit: int) -> list[SessionFacts]:
        """Return opened sessions of any organisation that the ledger does not know, oldest first.

        A session that waits for a review, or to run, is left out: its start is not final before a worker claims it."""

    async def find_unclosed(self, limit: int, *, damaged_before: datetime, lost_before: datetime) -> list[Recorded]:
        """Return finished sessions that are opened in the ledger and not closed, and whose segments are all stored, by
        end.

        Also those that ended before `lost_before`, and those that ended before `damaged_before` whose last segment is
        damaged, whatever is stored of them.
        """

    async def append(self, entries: Sequence[LedgerEntry]) -> bool:
        """Append entries of one organisation, with the marks on their sessions, in one transaction. False, and
        nothing is done, when another writer came first."""

    async def read_queue(self, limit: int) -> list[Queued]:
        """Return what the ledger has still to seal, of any organisation, in the order in which it came."""

    async def seal(self, entry: LedgerEntry, sealed: Sequence[SealedRecord], done: Sequence[int]) -> bool:
        """Add an entry with the records that it seals, and take the numbers `done` out of the queue. Return False, and
        do nothing, when another writer came first."""


class ProofStore(Protocol):
    """The reader's view of the ledger. Positions of pages are those of the last item: its number or id, or
    `Damaged.place`."""

    async def head(self, org_id: UUID) -> LedgerHead | None:
        """Return the head; None where there is no entry yet. Raises Malformed when the row is damaged."""

    async def records(self, org_id: UUID, after: Any, limit: int) -> list[SealedRecord | Damaged]:
        """Return sealed records by number, after `after`, with their present content."""

    async def find_unsealed(self, org_id: UUID, limit: int) -> list[tuple[RecordKind, str]]:
        """Return the ids of audit entries and reviews that were never sealed, and are not queued."""

    async def entry_before(self, org_id: UUID, at: datetime) -> int:
        """Return the newest entry that is older than `at`; 0 when there is none."""

    async def entries(self, org_id: UUID, first: int, last: int) -> list[LedgerEntry]:
        """Return entries by number."""

    async def entries_after(
        self, org_id: UUID, after: Any, limit: int, *, kind: EntryKind | None = None
    ) -> list[LedgerEntry | Damaged]:
        """Return entries by number, after `after`, across gaps; with `kind` only those."""

    async def read_sessions(
        self,
        org_id: UUID,
        after: Any,
        limit: int,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[Recorded | Damaged]:
        """Return opened sessions by id, after `after`. A session with an unreadable segment comes without it, after
        the damage."""

    async def read_session(self, org_id: UUID, session_id: UUID) -> list[Recorded | Damaged]:
        """Return one opened session, as `read_sessions` does; empty where there is none."""

    async def purge_entry(self, org_id: UUID, session_id: UUID) -> int | None:
        """Return the number of the entry that says that the session, or its recording, was purged."""

    async def verification(self, session_id: UUID) -> SessionVerification | None:
        """Return the last verification of the session by itself."""

    async def store_verification(self, verification: SessionVerification) -> None:
        """Store the last verification; it replaces an earlier one."""

    async def closed_segments(
        self, org_id: UUID, after: Any, limit: int, *, since: datetime | None, until: datetime | None, last: int
    ) -> list[tuple[Any, list[Segment]]]:
        """Return the readable segments of `limit` sessions that were opened, each behind its session's place: the id,
        from behind `after`. Sessions that the ledger has not closed up to its entry `last` come without segments."""

    async def checkpoints(self, org_id: UUID, after: Any, limit: int) -> list[Checkpoint | Damaged]:
        """Return checkpoints by number, after `after`."""


class WholeLedgerStore(LedgerStore, ProofStore, Protocol):
    """The ledger for writers and readers."""


class CheckpointStore(Protocol):
    async def standings(self) -> list[LedgerProgress]:
        """Return the progress of all organisations. One statement."""

    async def newest(self, org_id: UUID) -> Checkpoint | None: ...

    async def find(self, org_id: UUID, page: Page) -> Stretch[tuple[Checkpoint, list[AnchorState]]]:
        """Return checkpoints, newest first."""

    async def covering(self, org_id: UUID, entry: int) -> tuple[Checkpoint, list[AnchorState]] | None:
        """Return the first checkpoint that covers the entry, with its anchors."""

    async def add(self, checkpoint: Checkpoint, anchors: Sequence[str]) -> bool:
        """Add a checkpoint with its anchors. False when its entry has one already."""

    async def waiting(self, at: datetime, limit: int) -> list[tuple[Checkpoint, AnchorState]]:
        """Return checkpoints that are due at anchors, oldest first."""

    async def mark(self, state: AnchorState, next_at: datetime) -> None:
        """Store the result of an attempt."""


class LedgerKeyStore(Protocol):
    async def all(self, org_id: UUID) -> list[LedgerKey]:
        """Return keys, newest first; the signing one is not retired."""

    async def add_first(self, key: LedgerKey) -> None:
        """Add a key; do nothing when the organisation has one."""

    async def rotate(self, key: LedgerKey, entry: LedgerEntry, checkpoint: Checkpoint, anchors: Sequence[str]) -> bool:
        """Add the key with the entry and the checkpoint that introduce it, and retire the previous one, in one
        transaction.

        False, and nothing is done, when another writer came first.
        """


class Copies(Protocol):
    """Stored segments."""

    def read(self, segment: Segment) -> Iterator[bytes]:
        """Yield the segment as it was sealed, decrypted, in pieces. Blocks: call it from a thread. Raises NotFound,
        Malformed, Unavailable."""


class Anchor(Protocol):
    """An external place for checkpoints, so that they cannot be revoked from inside."""

    @property
    def name(self) -> str:
        """The anchor's name, at most 16 characters; the same at every start."""

    async def put(self, checkpoint: Checkpoint, line: bytes) -> None:
        """Store a checkpoint; `line` is its form in files. Can be repeated. Raises Unavailable, with the reason."""
