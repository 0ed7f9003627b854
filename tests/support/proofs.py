"""A ledger, its checkpoints, sessions and segments, made without a gateway, and the export of them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import zstandard

from postern.domain.sessions.ledger import (
    Checkpoint,
    EntryKind,
    Fact,
    LedgerEntry,
    LedgerHead,
    LedgerKey,
    RecordKind,
    SealedRecord,
    SessionFacts,
    moment,
)
from postern.domain.sessions.segment import first_link, next_link
from postern.interception.events import RUN, ClientOutput, End, Operation
from postern.proof.canonical import canonical
from postern.proof.package import Manifest, segment_name
from postern.proof.proof_checkpoints import format_line, new_key, sign_checkpoint
from postern.proof.proof_copies import measure
from postern.proof.proof_ledger import LedgerWriter, digest_of, first_hash
from postern.proof.proof_sessions import ListedSegment, opening_of
from postern.proof.proof_sessions import format_line as session_line
from postern.proof.proof_writing import PackageWriter
from postern.proof.records import content_of, digest_of_batch
from postern.proof.records import format_line as record_line
from postern.recording.record_format import Header, encode, encode_header

ORG = UUID(int=7)
BEGIN = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def segment_bytes(session: UUID, number: int, *, is_last: bool, texts: Sequence[str] = ("select 1",)) -> bytes:
    """As a worker writes it."""
    parts = [encode_header(Header(session, ORG, "postgres", "shop", "ann@example.com", BEGIN, number))]
    for at, text in enumerate(texts):
        parts.append(encode(Operation(at, text, RUN, (), False), at * 1000))
        parts.append(encode(ClientOutput(b"row of " + text.encode()), at * 1000 + 10))
    parts.append(encode(End("client_closed" if is_last else "", continues=not is_last), len(texts) * 1000))
    return b"".join(parts)


def stored(plain: bytes) -> bytes:
    return zstandard.ZstdCompressor(3, write_checksum=True, write_content_size=True).compress(plain)


def facts_of(session: UUID, started: datetime, *, is_closed: bool = True) -> SessionFacts:
    opening = {"user": "ann@example.com", "connection": "shop", "verb": "connect", "start_date": moment(started)}
    closing: dict[str, Fact] = {"end_date": moment(started + SECOND), "end_reason": "client_closed", "exit_code": 0}
    return SessionFacts(session, ORG, started, opening, closing if is_closed else None, "select 1", {"a": 1.5}, 1)


@dataclass
class Made:
    """What an export is made of; tests change it and pack it."""

    key: LedgerKey = field(default_factory=lambda: new_key(ORG, BEGIN))
    entries: list[LedgerEntry] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    sessions: dict[UUID, tuple[SessionFacts, list[ListedSegment]]] = field(default_factory=dict)
    segments: dict[tuple[UUID, int], bytes] = field(default_factory=dict)
    writer: LedgerWriter = field(default_factory=lambda: LedgerWriter(ORG, LedgerHead(0, first_hash(ORG))))
    since: datetime | None = None
    until: datetime | None = None
    first: int = 1
    suffix: str = ".rec"
    records: list[SealedRecord] = field(default_factory=list)

    def add_session(self, number: int, segments: int = 2, *, is_closed: bool = True) -> UUID:
        session, started = UUID(int=1000 + number), BEGIN + number * 10 * SECOND
        facts = facts_of(session, started, is_closed=is_closed)
        at = started + SECOND
        digest = digest_of(opening_of(facts))
        opened = self.writer.add(EntryKind.OPENED, at, session, facts=digest, started=moment(started))
        chain, listed = first_link(ORG, session), []
        for one in range(1, segments + 1):
            plain = segment_bytes(session, one, is_last=is_closed and one == segments)
            size, hashed = measure([plain])
            chain = next_link(chain, one, size, hashed)
            listed.append(ListedSegment(one, size, hashed))
            self.segments[session, one] = stored(plain) if self.suffix == ".rec.zst" else plain
        if facts.closing is not None:
            self.writer.add(
                EntryKind.CLOSED,
                at + SECOND,
                session,
                facts=digest_of(facts.closing),
                segments=segments,
                last=chain.hex(),
                size=sum(one.size for one in listed),
                complete=True,
                reason="client_closed",
            )
        self.sessions[session] = (replace(facts, opened_entry=opened.number), listed)
        self.entries = self.writer.entries
        return session

    def checkpoint(self) -> Checkpoint:
        at = (self.writer.head.at or BEGIN) + SECOND
        made = sign_checkpoint(self.key, self.writer.head, at)
        self.checkpoints.append(made)
        return made

    def rotate(self) -> LedgerKey:
        """Another key signs from now on; answers the one before."""
        old, new = self.key, new_key(ORG, BEGIN)
        self.writer.add(EntryKind.KEY, BEGIN, None, introduces=new.id)
        self.checkpoints.append(sign_checkpoint(old, self.writer.head, self.writer.head.at or BEGIN, new.public))
        self.entries, self.key = self.writer.entries, new
        return old

    def pack(self, *, part: int = 400) -> bytes:
        kept = [one for one in self.entries if one.number >= self.first]
        before = {one.number: one.hash for one in self.entries}.get(self.first - 1, first_hash(ORG))
        last = self.entries[-1].number if self.entries else 0
        manifest = Manifest(ORG, self.since, self.until, self.first, before, last, BEGIN)
        writer = PackageWriter(manifest, self.key, part=part)
        data = [writer.begin()]
        data += [writer.line("checkpoints", format_line(one)) for one in self.checkpoints]
        data += [writer.line("ledger", one.hash.hex().encode() + b" " + one.content) for one in kept]
        data += [writer.line("records", record_line(one)) for one in self.records]
        data += [writer.line("sessions", session_line(*self.sessions[key])) for key in sorted(self.sessions)]
        data.append(writer.flush())
        for (session, number), content in sorted(self.segments.items()):
            data.append(writer.member(segment_name(session, number, self.suffix), content))
        return b"".join([*data, writer.end(BEGIN)])


def a_record(*, suffix: str = ".rec") -> Made:
    """Three sessions with segments, one without; all closed, under two checkpoints."""
    made = Made(suffix=suffix)
    made.add_session(1)
    made.checkpoint()
    made.add_session(2, segments=3)
    made.add_session(3, segments=0)
    made.add_session(4, segments=1)
    made.checkpoint()
    return made


def records(made: Made) -> Made:
    """Seals two audit entries and two reviews, and signs that."""
    audit: dict[str, Fact] = {"id": str(UUID(int=50)), "actor_email": "ann@example.com", "status": 200, "after": None}
    voice = {"principal_id": str(UUID(int=9)), "choice": "APPROVED", "comment": "for the incident", "own": False}
    review = {
        "asked": {"kind": "jit", "reason": "incident", "principal_id": str(UUID(int=8))},
        "standing": {"status": "APPROVED", "decided_at": moment(BEGIN)},
        "status": "APPROVED",
        "input": "select 1",
        "voices": [voice],
    }
    found: list[tuple[RecordKind, UUID, UUID | None, dict[str, Any]]] = [
        (RecordKind.AUDIT, UUID(int=50), None, audit),
        (RecordKind.AUDIT, UUID(int=51), None, {**audit, "id": str(UUID(int=51))}),
        (RecordKind.REVIEW, UUID(int=60), UUID(int=1001), review),
        (RecordKind.REVIEW, UUID(int=61), None, {**review, "status": "PENDING", "voices": []}),
    ]
    first = made.writer.head.records + 1
    for number, (kind, subject, session, facts) in enumerate(found, first):
        content = canonical(content_of(kind, subject, session, facts))
        made.records.append(SealedRecord(number, subject, content, facts))
    made.writer.add(
        EntryKind.RECORDS,
        made.writer.head.at or BEGIN,
        None,
        first=first,
        count=len(found),
        digest=digest_of_batch(one.content for one in made.records),
        oldest=moment(BEGIN),
        newest=moment(BEGIN),
    )
    made.entries = made.writer.entries
    made.checkpoint()
    return made


def unpack(data: bytes, folder: Path) -> Path:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        tar.extractall(folder, filter="data")
    return folder
