"""The ledger: entries as canonical JSON, each bound to all before it.

    h(0) = SHA-256("postern ledger" ‖ organisation)
    h(n) = SHA-256(h(n-1) ‖ entry n)

Every entry has `number`, `at` and `kind`; moments never go back. Those about sessions:

    opened    session, facts (SHA-256 of what its row says at its opening), started
    closed    session, facts (of how it ended), segments, last (c(n) of the chain of its segments), size in bytes as
              written, complete (false where segments never came), reason
    purged    session, what ("recording" or "session"), reason, segments that were stored, by (the principal's id) where
              somebody asked for it
    held, released    session, hold (its id), by (the principal's id)
    key       introduces (fingerprint of the key that signs from here on)
    records   first, count, digest (`proof.records`), oldest and newest (when what they are about happened)

`binds` in `opened` and `closed` says which facts the digest covers (`proof.sessions`); without it they are the first.

Facts are in the ledger as a digest only: it holds no name of a person, so that a purge leaves none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from postern.domain.sessions.ledger import EntryKind, Fact, LedgerEntry, LedgerHead, moment
from postern.proof.canonical import canonical


def first_hash(org_id: UUID) -> bytes:
    """h(0)"""
    return hashlib.sha256(b"postern ledger" + org_id.bytes).digest()


def next_hash(before: bytes, entry: bytes) -> bytes:
    """h(n)"""
    return hashlib.sha256(before + entry).digest()


def digest_of(facts: Mapping[str, Fact]) -> str:
    """Of facts, in hexadecimal."""
    return hashlib.sha256(b"postern facts\n" + canonical(facts)).hexdigest()


class LedgerWriter:
    """Adds entries behind `head`; `entries` are what was added."""

    def __init__(self, org_id: UUID, head: LedgerHead) -> None:
        self._org_id = org_id
        self.head = head
        self.entries: list[LedgerEntry] = []

    def add(self, kind: EntryKind, at: datetime, session_id: UUID | None, **content: Fact) -> LedgerEntry:
        """`at` is brought forward to that of the entry before."""
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
