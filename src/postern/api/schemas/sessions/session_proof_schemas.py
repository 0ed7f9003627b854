"""Bodies of the proof of one session."""

from __future__ import annotations

from datetime import datetime
from typing import Self
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer
from postern.domain.sessions.ledger import LedgerEntry, SessionVerification
from postern.domain.sessions.segment import Segment
from postern.services.recordings.session_proofs import REASONS, Finding, FindingKind, ProofState, SessionProof

MAX_SEGMENTS = 1_000  # that an answer lists
MAX_FINDINGS = 100


class LedgerEntryAnswer(Answer):
    number: int
    at: datetime
    hash: str = Field(description="Hash of the ledger up to this entry, in hexadecimal")

    @classmethod
    def of(cls, entry: LedgerEntry) -> Self:
        return cls(number=entry.number, at=entry.at, hash=entry.hash.hex())


class SegmentAnswer(Answer):
    number: int
    size: int = Field(description="Bytes, as recorded")
    digest: str = Field(description="SHA-256 of the recorded bytes, in hexadecimal")
    chain: str = Field(description="Hash over this segment and all before it; that of the last one is in the ledger")
    stored_at: datetime

    @classmethod
    def of(cls, segment: Segment) -> Self:
        return cls(
            number=segment.number,
            size=segment.size,
            digest=segment.digest.hex(),
            chain=segment.chain.hex(),
            stored_at=segment.stored_at,
        )


class ReachedAnchorAnswer(Answer):
    anchor: str = Field(description="file, webhook or bucket")
    reached_at: datetime | None = Field(description="Null until it has stored the checkpoint")


class CoveringCheckpointAnswer(Answer):
    number: int = Field(description="The ledger's entry up to which everything is signed")
    at: datetime
    hash: str
    key: str = Field(description="Fingerprint of the signing key")
    anchors: list[ReachedAnchorAnswer]


class SessionVerificationAnswer(Answer):
    at: datetime
    by: str = Field(description="E-mail address of the user who asked for it")
    is_good: bool
    segments: int = Field(description="Segments that were read and found unchanged")
    size: int = Field(description="Their bytes, as recorded")
    findings: int

    @classmethod
    def of(cls, verification: SessionVerification) -> Self:
        return cls(
            at=verification.at,
            by=verification.by_email,
            is_good=verification.is_good,
            segments=verification.segments,
            size=verification.size,
            findings=verification.findings,
        )


class FindingAnswer(Answer):
    what: FindingKind
    message: str
    segment: int | None
    entry: int | None = Field(description="The ledger's entry")

    @classmethod
    def of(cls, finding: Finding) -> Self:
        return cls(what=finding.what, message=finding.message, segment=finding.segment, entry=finding.entry)


class SessionProofAnswer(Answer):
    session_id: UUID
    state: ProofState = Field(
        description="open: it runs; pending: no checkpoint covers its end yet; signed: a checkpoint does; verified, "
        "changed: result of the last verification; purged: the recording was purged"
    )
    reason: str = Field(description="The state as a sentence")
    is_sealed: bool = Field(description="The ledger has its end, with the hash of its recording")
    is_complete: bool | None = Field(description="All segments were stored when it was sealed; null before")
    opened: LedgerEntryAnswer | None = Field(description="The ledger's entry about its start")
    closed: LedgerEntryAnswer | None = Field(description="The ledger's entry about its end")
    purged: LedgerEntryAnswer | None = Field(description="The ledger's entry about the purge of its recording")
    segments: list[SegmentAnswer] = Field(description=f"Stored segments, the first {MAX_SEGMENTS:,}")
    segment_count: int
    size: int = Field(description="Bytes of all stored segments, as recorded")
    checkpoint: CoveringCheckpointAnswer | None = Field(description="The checkpoint that covers its end")
    verification: SessionVerificationAnswer | None = Field(description="The last verification; null if there is none")
    findings: list[FindingAnswer] = Field(
        description=f"The first {MAX_FINDINGS} findings of this verification; empty if nothing was verified now"
    )

    @classmethod
    def of(cls, proof: SessionProof) -> Self:
        return cls(
            session_id=proof.session.id,
            state=proof.state,
            reason=REASONS[proof.state],
            is_sealed=proof.closed is not None,
            is_complete=proof.is_complete,
            opened=_entry(proof.opened),
            closed=_entry(proof.closed),
            purged=_entry(proof.purged),
            segments=[SegmentAnswer.of(segment) for segment in proof.segments[:MAX_SEGMENTS]],
            segment_count=len(proof.segments),
            size=sum(segment.size for segment in proof.segments),
            checkpoint=_checkpoint(proof),
            verification=None if proof.verification is None else SessionVerificationAnswer.of(proof.verification),
            findings=[FindingAnswer.of(finding) for finding in proof.findings[:MAX_FINDINGS]],
        )


def _entry(entry: LedgerEntry | None) -> LedgerEntryAnswer | None:
    return None if entry is None else LedgerEntryAnswer.of(entry)


def _checkpoint(proof: SessionProof) -> CoveringCheckpointAnswer | None:
    """Return it without the errors of anchors, which can name addresses that only administrators know."""
    if proof.checkpoint is None:
        return None
    checkpoint, states = proof.checkpoint
    return CoveringCheckpointAnswer(
        number=checkpoint.number,
        at=checkpoint.at,
        hash=checkpoint.hash.hex(),
        key=checkpoint.key,
        anchors=[ReachedAnchorAnswer(anchor=state.anchor, reached_at=state.done_at) for state in states],
    )
