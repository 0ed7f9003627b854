"""Ledger: entries as canonical JSON, each bound to all entries before it.

    h(0) = SHA-256("postern ledger" ‖ organisation)
    h(n) = SHA-256(h(n-1) ‖ entry n)

Every entry has `number`, `at` and `kind`; timestamps never decrease. The other fields depend on the kind:

    opened    session, facts (SHA-256 of the facts in its row at its opening), started
    closed    session, facts (of its end), segments, last (c(n) of the chain of its segments), size in bytes as
              written, complete (false if segments never arrived), reason
    purged    session, what ("recording" or "session"), reason, segments that were stored, by (the principal's id) if
              a user requested it
    held, released    session, hold (its id), by (the principal's id)
    key       introduces (fingerprint of the key that signs from here on)
    records   first, count, digest (`proof.records`), oldest and newest (time range of what they are about)

`binds` in `opened` and `closed` says which facts the digest covers (`proof.proof_sessions`); without it, those of the
first version.

The ledger contains facts as digests only, and no name of a person, so that a purge leaves no personal data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from postern.domain.sessions.ledger import EntryKind, Fact, LedgerEntry, LedgerHead, moment
from postern.proof.canonical import canonical


def first_hash(org_id: UUID) -> bytes:
    """Return h(0)."""
    return hashlib.sha256(b"postern ledger" + org_id.bytes).digest()


def next_hash(before: bytes, entry: bytes) -> bytes:
    """Return h(n)."""
    return hashlib.sha256(before + entry).digest()


def digest_of(facts: Mapping[str, Fact]) -> str:
    """Return the digest of facts, in hexadecimal."""
    return hashlib.sha256(b"postern facts\n" + canonical(facts)).hexdigest()


class LedgerWriter:
    """Appends entries to `head`; `entries` are the appended ones."""

    def __init__(self, org_id: UUID, head: LedgerHead) -> None:
        self._org_id = org_id
        self.head = head
        self.entries: list[LedgerEntry] = []

    def add(self, kind: EntryKind, at: datetime, session_id: UUID | None, **content: Fact) -> LedgerEntry:
        """Append an entry. `at` is raised to the timestamp of the previous entry."""
        last = self.head
        at = max(at, last.at) if last.at is not None else at
        number = last.number + 1
        values: dict[str, Fact] = {"number": number, "at": moment(at), "kind": kind.value, **content}
        if session_id is not None:
            values["session"] = str(session_id)
        data = canonical(values)
        entry = LedgerEntry(self._org_id, number, at, kind, session_id, data, next_hash(last.hash, data))
        self.entries.append(entry)
        sealed = content["count"] if kind is EntryKind.RECORDS else 0
        self.head = LedgerHead(number, entry.hash, at, last.records + int(sealed or 0))
        return entry
