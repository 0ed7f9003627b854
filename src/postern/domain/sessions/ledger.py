"""The ledger of an organisation: numbered entries about its sessions and its records, checkpoints that sign how far it
has come, and where these are anchored. How they are chained and signed: `postern.proof`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from postern.domain.sessions.segment import Segment

Fact = str | int | None


class EntryKind(StrEnum):
    """The kind of an entry."""

    OPENED = "opened"
    CLOSED = "closed"
    PURGED = "purged"
    HELD = "held"
    RELEASED = "released"
    KEY = "key"  # of no session: from here on another key signs
    RECORDS = "records"  # of no session: it seals a batch of records


class RecordKind(StrEnum):
    """The kind of a sealed record."""

    AUDIT = "audit"  # an entry of the audit log
    REVIEW = "review"  # a review, as it was when something happened to it


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """`content` is canonical JSON; `hash` binds it and all before it."""

    org_id: UUID
    number: int  # from 1
    at: datetime
    kind: EntryKind
    session_id: UUID | None
    content: bytes
    hash: bytes


@dataclass(frozen=True, slots=True)
class LedgerHead:
    """The newest entry of a ledger; number 0 and `at` None where it has none yet. `records` is the number of the newest
    record that it seals."""

    number: int
    hash: bytes
    at: datetime | None = None
    records: int = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An Ed25519 signature over the ledger up to entry `number`. `key` is the fingerprint of the key that signed,
    `introduces` the public key (32 bytes) of the one that signs what follows, where that changes."""

    org_id: UUID
    number: int
    hash: bytes
    at: datetime
    key: str
    signature: bytes
    introduces: bytes | None = None


@dataclass(frozen=True, slots=True)
class LedgerKey:
    """`id` is the SHA-256 of the public key, in hexadecimal; `private` is the raw key, 32 bytes."""

    id: str
    org_id: UUID
    public: bytes
    private: bytes
    created_at: datetime
    retired_at: datetime | None = None

    def __repr__(self) -> str:
        return f"LedgerKey(id={self.id})"


@dataclass(frozen=True, slots=True)
class AnchorState:
    """Whether a checkpoint has reached an anchor; `error` is of the last try that failed."""

    org_id: UUID
    number: int
    anchor: str
    attempts: int = 0
    done_at: datetime | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What of a session the ledger binds: `opening` when it was opened, `closing` how it ended, None before. Moments
    are texts. `opened_entry` and `closed_entry` are where the store says they are in the ledger. `metadata` goes along
    in an export and is not bound: it may change afterwards."""

    session_id: UUID
    org_id: UUID
    started: datetime
    opening: Mapping[str, Fact]
    closing: Mapping[str, Fact] | None
    script: str | None
    metadata: Mapping[str, object]
    opened_entry: int | None = None
    closed_entry: int | None = None


@dataclass(frozen=True, slots=True)
class Queued:
    """Something that the ledger has to seal. `facts` is what it is about now, None where that row is gone. `session_id`
    is the session of a review. `at` is when it happened."""

    number: int
    org_id: UUID
    kind: RecordKind
    subject: UUID
    session_id: UUID | None
    at: datetime
    facts: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class SealedRecord:
    """A sealed record: canonical JSON with digests, in which no name stands. Numbers are dense within an organisation.

    `facts` is what its subject is now, None where that is gone. `has_later`: the subject has changed since, so a later
    record speaks for it."""

    number: int
    subject: UUID
    content: bytes
    facts: Mapping[str, Any] | None = None
    has_later: bool = False


@dataclass(frozen=True, slots=True)
class Damaged:
    """A row that cannot be read, and why. `place` is where the next page begins."""

    what: str
    problem: str
    place: Any
    session_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """A session with the segments that are stored of it, by number. `is_recorded`: there have to be some."""

    facts: SessionFacts
    segments: tuple[Segment, ...]
    is_recorded: bool


@dataclass(frozen=True, slots=True)
class LedgerProgress:
    """The newest entry of a ledger and its newest checkpoint; 0 and None where there are none."""

    org_id: UUID
    entries: int
    checkpoint: int
    checkpoint_at: datetime | None


@dataclass(frozen=True, slots=True)
class SessionVerification:
    """The result of the last verification of one session. `checkpoint` is the entry of the checkpoint that covers it;
    `segments` and `size` (bytes) are what was read and found unchanged; `findings` is their number."""

    session_id: UUID
    org_id: UUID
    at: datetime
    by: UUID
    by_email: str
    checkpoint: int
    segments: int
    size: int
    findings: int

    @property
    def is_good(self) -> bool:
        return self.findings == 0


def moment(at: datetime) -> str:
    """Return a timestamp as in a ledger: UTC, with microseconds."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
