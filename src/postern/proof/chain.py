"""Part of a verification: the ledger, entry by entry, against its checkpoints."""

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
from postern.proof.proof_sessions import BINDS, bound

_MOST_RECORDS = 100_000  # that one entry seals


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """What the entry `entry` of the ledger says of the records that it seals."""

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
        """Whether anything in it may have happened then; both moments included, None without bound."""
        return (since is None or self.newest >= since) and (until is None or self.oldest <= until)


class Stated:
    """What the ledger says of one session."""

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
        """Raises ValueError, KeyError."""
        started, facts = _moment(values["started"]), _text(values["facts"])
        self._binds = (_binds(values), self._binds[1])
        self.started, self._opening, self.opened_entry = started, facts, number

    def close(self, number: int, values: Mapping[str, Any]) -> None:
        """Raises ValueError, KeyError."""
        facts, is_complete, last = _text(values["facts"]), values["complete"], bytes.fromhex(_text(values["last"]))
        segments, size = _count(values["segments"]), _count(values["size"])
        if type(is_complete) is not bool:
            raise ValueError("complete")
        self._binds = (self._binds[0], _binds(values))
        self._closing, self.is_complete, self.segments, self.size, self.last = facts, is_complete, segments, size, last
        self.closed_entry = number

    def opens(self, opening: Mapping[str, Fact]) -> bool:
        """Raises Malformed."""
        return digest_of(bound(opening, self._binds[0])) == self._opening

    def closes(self, closing: Mapping[str, Fact] | None) -> bool:
        """Raises Malformed."""
        return closing is not None and digest_of(bound(closing, self._binds[1])) == self._closing


class LedgerCheck:
    """Feed it entries in order. `number` is the last one."""

    def __init__(
        self, org_id: UUID, first: int, before: bytes, checkpoints: Mapping[int, Checkpoint], report: VerificationReport
    ) -> None:
        self.org_id = org_id
        self.sessions: dict[UUID, Stated] = {}
        self.batches: list[RecordBatch] = []
        self.records = 0  # the number of the newest that is sealed
        self.number = first - 1
        self._first = first
        self._hash = first_hash(org_id) if first == 1 else before
        self._checkpoints = checkpoints
        self._report = report
        self._proven = 0
        self._before = first - 1  # where the interval began that the next checkpoint closes
        self._doubtful: list[tuple[int, int]] = []  # entries (first, last) that no checkpoint speaks for
        self._at: datetime | None = None
        self._first_at: datetime | None = None
        self._broken = False  # since the last checkpoint: it cannot fit, and why has been said
        self._compare()

    @property
    def at(self) -> datetime:
        """Return the time of the newest entry."""
        return self._at or datetime.min.replace(tzinfo=UTC)

    def add(self, digest: bytes, content: bytes) -> None:
        """`digest` is h(n) as it is listed."""
        values = self._read(content)
        if values is None:
            return
        number = values["number"]
        if number <= self.number:
            what, word = (
                (FindingKind.DOUBLED, "there twice")
                if number == self.number
                else (FindingKind.REORDERED, "not in its place")
            )
            self._report.add(what, f"the entry {number} of the ledger is {word}", entry=number)
            self._broken = True
            return
        if number > self.number + 1:
            self._missing(self.number + 1, number - 1)
        elif next_hash(self._hash, content) != digest:
            self._report.add(
                FindingKind.CHANGED, f"the entry {number} of the ledger, or its hash, was changed", entry=number
            )
            self._broken = True
        self.number, self._hash = number, digest
        self._report.entries += 1
        self._keep(number, values)
        self._compare()

    def finish(self, since: datetime | None, last: int = 0) -> None:
        """`since` is where the sessions begin that must all be there, `last` an entry that is said to be."""
        newest = max(self._checkpoints, default=0)
        if max(newest, last) > self.number:
            who = f"a checkpoint proves {newest}" if newest > self.number else f"there were {last}"
            message = f"the ledger ends with entry {self.number}, and {who}: its tail was cut off"
            self._report.add(FindingKind.TRUNCATED, message, entry=self.number + 1)
        early = self._first > 1 and (since is None or self._first_at is None or self._first_at >= since)
        if early:
            message = f"the ledger begins with entry {self._first}, too late for the sessions that were asked for"
            self._report.add(FindingKind.MISSING, message, entry=self._first - 1)
        self._report.proven_to = self._proven
        if self._proven:
            self._report.proven_at = self._checkpoints[self._proven].at
        self._report.after_checkpoint = max(0, self.number - max(self._proven, self._first - 1))
        for key, one in self.sessions.items():
            if one.closed_entry and not one.opened_entry and self._first == 1:
                message = f"the ledger closes the session {key} and never opened it"
                self._report.add(FindingKind.MISSING, message, session=key, entry=one.closed_entry)

    def proves(self, number: int) -> bool:
        """Whether a trusted checkpoint that fits covers that entry."""
        doubted = any(first <= number <= last for first, last in self._doubtful)
        return 0 < number <= self._proven and not doubted

    def _compare(self) -> None:
        checkpoint = self._checkpoints.get(self.number)
        if checkpoint is None:
            return
        fits = checkpoint.hash == self._hash
        if not fits and not self._broken:
            message = f"the ledger up to entry {self.number} is not the one that was signed: it was written anew"
            self._report.add(FindingKind.REWRITTEN, message, entry=self.number)
        if fits and not self._broken:
            self._proven = self.number
        else:
            self._doubtful.append((self._before + 1, self.number))
        # What follows is judged by what was signed.
        self._hash, self._broken, self._before = checkpoint.hash, False, self.number

    def _read(self, content: bytes) -> dict[str, Any] | None:
        try:
            values = parse(content)
            if type(values.get("number")) is not int or values["number"] < 1:
                raise Malformed("it has no number")
            return values
        except Malformed as error:
            number = self.number + 1
            self._report.add(FindingKind.UNREADABLE, f"the entry {number} of the ledger: {error.message}", entry=number)
            self._broken = True
            return None

    def _missing(self, first: int, last: int) -> None:
        many = (
            f"the entries {first} to {last} of the ledger are"
            if last > first
            else f"the entry {first} of the ledger is"
        )
        self._report.add(FindingKind.MISSING, f"{many} missing", entry=first)
        self._broken = True

    def _keep(self, number: int, values: dict[str, Any]) -> None:
        try:
            at = _moment(values["at"])
            kind = EntryKind(values["kind"])
            if self._at is not None and at < self._at:
                raise ValueError("time goes back")
            self._at, self._first_at = at, self._first_at or at
            if kind is EntryKind.RECORDS:
                self._seal(number, values)
            elif kind is not EntryKind.KEY:
                self._state(number, kind, UUID(_text(values["session"])), values)
        except (ValueError, KeyError, TypeError, AttributeError):
            message = f"the entry {number} of the ledger says what no ledger says"
            self._report.add(FindingKind.UNREADABLE, message, entry=number)

    def _seal(self, number: int, values: dict[str, Any]) -> None:
        batch = _batch(number, values)
        expected = self.records + 1
        if batch.first < expected or (batch.first > expected and (self._first == 1 or self.records > 0)):
            message = f"the entry {number} of the ledger seals records from {batch.first} on, and {expected} is next"
            self._report.add(FindingKind.MISSING, message, entry=number)
        self.records = max(self.records, batch.last)
        self.batches.append(batch)

    def _state(self, number: int, kind: EntryKind, key: UUID, values: dict[str, Any]) -> None:
        one = self.sessions.setdefault(key, Stated())
        if (kind is EntryKind.OPENED and one.opened_entry) or (kind is EntryKind.CLOSED and one.closed_entry):
            message = f"the session {key} is {kind.value} twice in the ledger"
            self._report.add(FindingKind.DOUBLED, message, session=key, entry=number)
        elif kind is EntryKind.OPENED:
            one.open(number, values)
        elif kind is EntryKind.CLOSED:
            one.close(number, values)
        elif kind is EntryKind.HELD:
            one.holds |= {str(values.get("hold"))}
        elif kind is EntryKind.RELEASED:
            one.holds -= {str(values.get("hold"))}
        elif kind is EntryKind.PURGED:
            if one.holds:
                message = f"the session {key} was purged although it was held"
                self._report.add(FindingKind.HELD, message, session=key, entry=number)
            one.is_purged = one.is_purged or _text(values["what"]) == "session"
            one.is_recording_purged, one.purged_entry = True, number


def batch_of(entry: LedgerEntry) -> RecordBatch | None:
    """Return what an entry of the kind `records` says; None when it says what no ledger says."""
    try:
        return _batch(entry.number, parse(entry.content))
    except (Malformed, ValueError, KeyError):
        return None


def _batch(number: int, values: Mapping[str, Any]) -> RecordBatch:
    """Raises ValueError, KeyError."""
    oldest, newest = _moment(values["oldest"]), _moment(values["newest"])
    batch = RecordBatch(
        number, _count(values["first"]), _count(values["count"]), _text(values["digest"]), oldest, newest
    )
    if not 0 < batch.count <= _MOST_RECORDS or batch.first < 1:
        raise ValueError("count")
    return batch


def _text(value: object) -> str:
    """Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError("no text")
    return value


def _moment(value: object) -> datetime:
    """Raises ValueError: a moment without a time zone cannot be compared with others."""
    at = datetime.fromisoformat(_text(value))
    if at.tzinfo is None:
        raise ValueError("no time zone")
    return at


def _count(value: object) -> int:
    """Raises ValueError."""
    if type(value) is not int or value < 0:
        raise ValueError("no count")
    return value


def _binds(values: Mapping[str, Any]) -> int:
    """Raises ValueError for what a newer version binds."""
    found = values.get("binds", 1)
    if type(found) is not int or not 1 <= found <= BINDS:
        raise ValueError("binds")
    return found
