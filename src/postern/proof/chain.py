"""Verification of the ledger, entry by entry, against its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from postern.domain.sessions.ledger import Checkpoint, EntryKind, Fact, LedgerEntry
from postern.errors import Malformed
from postern.proof.canonical import parse
from postern.proof.proof_findings import FindingKind, VerificationReport
from postern.proof.proof_ledger import digest_of, first_hash, next_hash
from postern.proof.proof_sessions import BINDS, bound_facts

_MOST_RECORDS = 100_000  # per entry


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Facts in the ledger entry `entry` about the records that it seals."""

    entry: int
    first: int
    count: int
    digest: str
    oldest: datetime
    newest: datetime

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    def overlaps(self, since: datetime | None, until: datetime | None) -> bool:
        """Return whether something in the batch can be from that time, bounds included; None is unbounded."""
        return (since is None or self.newest >= since) and (until is None or self.oldest <= until)


class Stated:
    """Facts in the ledger about one session."""

    __slots__ = (
        *("_binds", "_closing", "_opening", "closed_entry", "is_complete", "is_purged", "is_recording_purged", "last"),
        *("holds", "opened_entry", "purged_entry", "segments", "size", "started"),
    )

    def __init__(self) -> None:
        self.opened_entry = self.closed_entry = self.purged_entry = 0
        self.started: datetime | None = None
        self._opening = self._closing = ""
        self._binds = (1, 1)
        self.segments = self.size = 0
        self.last = b""
        self.is_complete = True
        self.is_purged = self.is_recording_purged = False
        self.holds: frozenset[str] = frozenset()

    def open(self, number: int, values: Mapping[str, Any]) -> None:
        """Apply the entry `opened`. Raises ValueError or KeyError if it is not valid."""
        started, facts = _timestamp(values["started"]), _text(values["facts"])
        self._binds = (_binds(values), self._binds[1])
        self.started, self._opening, self.opened_entry = started, facts, number

    def close(self, number: int, values: Mapping[str, Any]) -> None:
        """Apply the entry `closed`. Raises ValueError or KeyError if it is not valid."""
        facts, is_complete, last = _text(values["facts"]), values["complete"], bytes.fromhex(_text(values["last"]))
        segments, size = _count(values["segments"]), _count(values["size"])
        if type(is_complete) is not bool:
            raise ValueError("complete")
        self._binds = (self._binds[0], _binds(values))
        self._closing, self.is_complete, self.segments, self.size, self.last = facts, is_complete, segments, size, last
        self.closed_entry = number

    def join(self, other: Stated) -> None:
        """Add what another part of the ledger says about the same session."""
        if other.opened_entry:
            self.started, self._opening, self.opened_entry = other.started, other._opening, other.opened_entry
            self._binds = (other._binds[0], self._binds[1])
        if other.closed_entry:
            self._closing, self.is_complete, self.closed_entry = other._closing, other.is_complete, other.closed_entry
            self.segments, self.size, self.last = other.segments, other.size, other.last
            self._binds = (self._binds[0], other._binds[1])
        if other.purged_entry:
            self.is_purged, self.is_recording_purged = other.is_purged, other.is_recording_purged
            self.purged_entry = other.purged_entry

    def opens(self, opening: Mapping[str, Fact]) -> bool:
        """Return whether these facts are those of the entry `opened`. Raises Malformed."""
        return digest_of(bound_facts(opening, self._binds[0])) == self._opening

    def closes(self, closing: Mapping[str, Fact] | None) -> bool:
        """Return whether these facts are those of the entry `closed`. Raises Malformed."""
        return closing is not None and digest_of(bound_facts(closing, self._binds[1])) == self._closing


class LedgerCheck:
    """Check of a ledger. Takes entries in order; `number` is the last one.

    The check recomputes the hash of each entry. At each checkpoint it compares the result with what was signed, and
    then continues from the signed hash, so that one damaged part does not spoil the verdict on the rest.
    """

    def __init__(
        self, org_id: UUID, first: int, before: bytes, checkpoints: Mapping[int, Checkpoint], report: VerificationReport
    ) -> None:
        self.org_id = org_id
        self.sessions: dict[UUID, Stated] = {}
        self.batches: list[RecordBatch] = []
        self.records = 0  # number of the newest sealed record
        self.number = first - 1
        self._first = first
        self._hash = first_hash(org_id) if first == 1 else before
        self._checkpoints = checkpoints
        self._report = report
        self._proven = 0
        self._before = first - 1  # last entry before the interval that the next checkpoint closes
        self._doubtful: list[tuple[int, int]] = []  # entries (first, last) without a valid checkpoint
        self._at: datetime | None = None
        self._first_at: datetime | None = None
        self._broken = False  # since the last checkpoint; the cause has been reported
        self._compare()

    @property
    def at(self) -> datetime:
        """Return the time of the newest entry."""
        return self._at or datetime.min.replace(tzinfo=UTC)

    def add(self, digest: bytes, content: bytes) -> None:
        """Check one entry. `digest` is the listed h(n)."""
        values = self._read(content)
        if values is None:
            return
        number = values["number"]
        if number <= self.number:
            what, word = (
                (FindingKind.DOUBLED, "duplicated")
                if number == self.number
                else (FindingKind.REORDERED, "out of order")
            )
            self._report.add(what, f"entry {number} of the ledger is {word}", entry=number)
            self._broken = True
            return
        if number > self.number + 1:
            self._missing(self.number + 1, number - 1)
        elif next_hash(self._hash, content) != digest:
            self._report.add(
                FindingKind.CHANGED, f"entry {number} of the ledger, or its hash, was changed", entry=number
            )
            self._broken = True
        self.number, self._hash = number, digest
        self._report.entries += 1
        self._apply(number, values)
        self._compare()

    def finish(self, since: datetime | None, last: int = 0) -> None:
        """Finish the check.

        From `since` on, all sessions must be there. `last` is an entry that must be there.
        """
        newest = max(self._checkpoints, default=0)
        if max(newest, last) > self.number:
            who = f"a checkpoint proves entry {newest}" if newest > self.number else f"it must have {last} entries"
            message = f"the ledger ends with entry {self.number}, but {who}: its end was cut off"
            self._report.add(FindingKind.TRUNCATED, message, entry=self.number + 1)
        early = self._first > 1 and (since is None or self._first_at is None or self._first_at >= since)
        if early:
            message = f"the ledger begins with entry {self._first}, too late for the requested sessions"
            self._report.add(FindingKind.MISSING, message, entry=self._first - 1)
        self._report.proven_to = self._proven
        if self._proven:
            self._report.proven_at = self._checkpoints[self._proven].at
        self._report.after_checkpoint = max(0, self.number - max(self._proven, self._first - 1))
        for key, stated in self.sessions.items():
            if stated.closed_entry and not stated.opened_entry and self._first == 1:
                message = f"the ledger closes session {key} but never opened it"
                self._report.add(FindingKind.MISSING, message, session=key, entry=stated.closed_entry)

    def proves(self, number: int) -> bool:
        """Return whether a trusted, matching checkpoint covers the entry."""
        doubted = any(first <= number <= last for first, last in self._doubtful)
        return 0 < number <= self._proven and not doubted

    def _compare(self) -> None:
        checkpoint = self._checkpoints.get(self.number)
        if checkpoint is None:
            return
        fits = checkpoint.hash == self._hash
        if not fits and not self._broken:
            message = f"the ledger up to entry {self.number} does not match its signed checkpoint: it was rewritten"
            self._report.add(FindingKind.REWRITTEN, message, entry=self.number)
        if fits and not self._broken:
            self._proven = self.number
        else:
            self._doubtful.append((self._before + 1, self.number))
        # What follows is checked against what was signed.
        self._hash, self._broken, self._before = checkpoint.hash, False, self.number

    def _read(self, content: bytes) -> dict[str, Any] | None:
        try:
            values = parse(content)
            if type(values.get("number")) is not int or values["number"] < 1:
                raise Malformed("it has no number")
            return values
        except Malformed as error:
            number = self.number + 1
            self._report.add(FindingKind.UNREADABLE, f"entry {number} of the ledger: {error.message}", entry=number)
            self._broken = True
            return None

    def _missing(self, first: int, last: int) -> None:
        many = f"entries {first} to {last} of the ledger are" if last > first else f"entry {first} of the ledger is"
        self._report.add(FindingKind.MISSING, f"{many} missing", entry=first)
        self._broken = True

    def _apply(self, number: int, values: dict[str, Any]) -> None:
        try:
            at = _timestamp(values["at"])
            kind = EntryKind(values["kind"])
            if self._at is not None and at < self._at:
                raise ValueError("time goes back")
            self._at, self._first_at = at, self._first_at or at
            if kind is EntryKind.RECORDS:
                self._seal(number, values)
            elif kind is not EntryKind.KEY:
                self._apply_to_session(number, kind, UUID(_text(values["session"])), values)
        except (ValueError, KeyError, TypeError, AttributeError):
            message = f"entry {number} of the ledger has invalid content"
            self._report.add(FindingKind.UNREADABLE, message, entry=number)

    def _seal(self, number: int, values: dict[str, Any]) -> None:
        batch = _batch(number, values)
        expected = self.records + 1
        if batch.first < expected or (batch.first > expected and (self._first == 1 or self.records > 0)):
            message = f"entry {number} of the ledger seals records from {batch.first} on; {expected} was expected"
            self._report.add(FindingKind.MISSING, message, entry=number)
        self.records = max(self.records, batch.last)
        self.batches.append(batch)

    def _apply_to_session(self, number: int, kind: EntryKind, key: UUID, values: dict[str, Any]) -> None:
        session = self.sessions.setdefault(key, Stated())
        if (kind is EntryKind.OPENED and session.opened_entry) or (kind is EntryKind.CLOSED and session.closed_entry):
            message = f"session {key} is {kind.value} twice in the ledger"
            self._report.add(FindingKind.DOUBLED, message, session=key, entry=number)
        elif kind is EntryKind.OPENED:
            session.open(number, values)
        elif kind is EntryKind.CLOSED:
            session.close(number, values)
        elif kind is EntryKind.HELD:
            session.holds |= {str(values.get("hold"))}
        elif kind is EntryKind.RELEASED:
            session.holds -= {str(values.get("hold"))}
        elif kind is EntryKind.PURGED:
            if session.holds:
                message = f"session {key} was purged despite a legal hold"
                self._report.add(FindingKind.HELD, message, session=key, entry=number)
            session.is_purged = session.is_purged or _text(values["what"]) == "session"
            session.is_recording_purged, session.purged_entry = True, number


def batch_of(entry: LedgerEntry) -> RecordBatch | None:
    """Return the batch of an entry of the kind `records`; None if its content is not valid."""
    try:
        return _batch(entry.number, parse(entry.content))
    except (Malformed, ValueError, KeyError):
        return None


def _batch(number: int, values: Mapping[str, Any]) -> RecordBatch:
    """Parse a batch. Raises ValueError, KeyError."""
    oldest, newest = _timestamp(values["oldest"]), _timestamp(values["newest"])
    batch = RecordBatch(
        number, _count(values["first"]), _count(values["count"]), _text(values["digest"]), oldest, newest
    )
    if not 0 < batch.count <= _MOST_RECORDS or batch.first < 1:
        raise ValueError("count")
    return batch


def _text(value: object) -> str:
    """Return a string. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError("no text")
    return value


def _timestamp(value: object) -> datetime:
    """Parse a timestamp. Raises ValueError, also without a time zone: it could not be compared with others."""
    at = datetime.fromisoformat(_text(value))
    if at.tzinfo is None:
        raise ValueError("no time zone")
    return at


def _count(value: object) -> int:
    """Return a count. Raises ValueError."""
    if type(value) is not int or value < 0:
        raise ValueError("no count")
    return value


def _binds(values: Mapping[str, Any]) -> int:
    """Return which facts an entry binds. Raises ValueError for a newer version."""
    version = values.get("binds", 1)
    if type(version) is not int or not 1 <= version <= BINDS:
        raise ValueError("binds")
    return version
