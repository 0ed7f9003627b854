"""The proof of one session: where the ledger has it, which checkpoint signs that, and a verification on request.

A session is proven by little: its entries in the ledger, the entries from there to the next checkpoint, whose hashes
lead to what was signed, and its segments. So one session can be verified without reading the whole store. What only a
whole verification finds, such as a deleted session, stays with `postern recordings verify`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.sessions.ledger import (
    AnchorState,
    Checkpoint,
    Damaged,
    LedgerEntry,
    Recorded,
    SessionFacts,
    SessionVerification,
)
from postern.domain.sessions.segment import Segment
from postern.domain.sessions.session import Session, SessionStatus
from postern.errors import Conflict, Malformed
from postern.proof.canonical import parse
from postern.proof.chain import LedgerCheck, Stated
from postern.proof.proof_checkpoints import format_line
from postern.proof.proof_findings import Finding, FindingKind, VerificationReport
from postern.proof.proof_ledger import first_hash
from postern.proof.proof_recordings import SegmentCheck
from postern.proof.proof_sessions import ListedSegment, make_session
from postern.proof.proof_signatures import SignatureCheck
from postern.proof.verify import Copy, check_facts
from postern.services.recordings.concurrency_limit import ConcurrencyLimit
from postern.services.recordings.verifier import load_public_keys, read_copies
from postern.services.server.audit_context import record_change
from postern.services.sessions import Sessions
from postern.store.ports.common_ports import Clock
from postern.store.ports.ledger_ports import CheckpointStore, Copies, LedgerKeyStore, ProofStore

__all__ = ["REASONS", "Finding", "FindingKind", "ProofState", "SessionProof", "SessionProofs"]

MAX_SIZE = 512 << 20  # bytes of a recording that a request verifies
MAX_ENTRIES = 200_000  # between an entry and its checkpoint
_PAGE = 5_000
_ON_THE_HOST = "run `postern recordings verify` on the gateway's host"


class ProofState(StrEnum):
    OPEN = "open"
    PENDING = "pending"
    SIGNED = "signed"
    VERIFIED = "verified"
    CHANGED = "changed"
    PURGED = "purged"


REASONS = {
    ProofState.OPEN: "the session has not ended",
    ProofState.PENDING: "no checkpoint covers the end of the session yet",
    ProofState.SIGNED: "a checkpoint covers the session; it was not verified since",
    ProofState.VERIFIED: "the last verification found the session and its recording unchanged",
    ProofState.CHANGED: "the last verification found that something was changed",
    ProofState.PURGED: "the recording was purged, and the ledger says so",
}


@dataclass(frozen=True, slots=True)
class SessionProof:
    """What the store says about the proof of a session. `checkpoint` is the one that covers its end, with its anchors.

    `is_complete`: all segments were stored when the ledger closed the session; None before. `damage` is what cannot be
    read of the session's rows; without `recorded` that is all of it, or the ledger does not know the session.
    """

    session: Session
    recorded: Recorded | None
    damage: Sequence[Damaged]
    state: ProofState
    opened: LedgerEntry | None
    closed: LedgerEntry | None
    purged: LedgerEntry | None
    is_complete: bool | None
    checkpoint: tuple[Checkpoint, Sequence[AnchorState]] | None
    verification: SessionVerification | None
    findings: Sequence[Finding] = ()

    @property
    def segments(self) -> Sequence[Segment]:
        return () if self.recorded is None else self.recorded.segments


@dataclass(slots=True)
class _Checks:
    """The checks of one verification, and what the ledger says about the session."""

    report: VerificationReport
    stated: Stated = field(default_factory=Stated)
    is_proven: bool = True


class SessionProofs:
    def __init__(
        self,
        sessions: Sessions,
        store: ProofStore,
        checkpoints: CheckpointStore,
        keys: LedgerKeyStore,
        copies: Copies | None,
        now: Clock,
    ) -> None:
        self.limit = ConcurrencyLimit("verify sessions", each=2, most=4)
        self._sessions = sessions
        self._store = store
        self._checkpoints = checkpoints
        self._keys = keys
        self._copies = copies
        self._now = now

    async def get(self, principal: Principal, session_id: str) -> SessionProof:
        """Return what the store says; nothing is verified. Raises NotFound."""
        return await self._proof(await self._sessions.get(principal, session_id))

    async def verify(self, principal: Principal, session_id: str) -> SessionProof:
        """Verify the session now, and store the result.

        Raises NotFound, TooMany, and Conflict for a session that cannot be verified yet, or is too large for a request.
        """
        session = await self._sessions.get(principal, session_id)
        with self.limit.acquire(principal.id):
            proof = await self._proof(session)
            _require_verifiable(proof)
            report = VerificationReport(organisation=session.org_id)
            await self._check(proof, report)
            if report.count:
                await self._require_unchanged(proof)
        verification = SessionVerification(
            session_id=session.id,
            org_id=session.org_id,
            at=self._now(),
            by=principal.id,
            by_email=principal.email,
            checkpoint=0 if proof.checkpoint is None else proof.checkpoint[0].number,
            segments=report.segments_proven,
            size=report.bytes_proven,
            findings=report.count,
        )
        await self._store.store_verification(verification)
        record_change(None, {"id": session.id, "findings": report.count, "segments": report.segments_proven})
        return await self._proof(session, report.findings)

    async def _proof(self, session: Session, findings: Sequence[Finding] = ()) -> SessionProof:
        rows = await self._store.read_session(session.org_id, session.id)
        recorded = next((row for row in rows if isinstance(row, Recorded)), None)
        opened, closed = (
            (None, None) if recorded is None else (recorded.facts.opened_entry, recorded.facts.closed_entry)
        )
        purged = await self._store.purge_entry(session.org_id, session.id)
        checkpoint = (
            None if closed is None else await self._checkpoints.covering(session.org_id, max(closed, purged or 0))
        )
        closing = await self._entry(session.org_id, closed)
        verification = await self._store.verification(session.id)
        return SessionProof(
            session=session,
            recorded=recorded,
            damage=[row for row in rows if isinstance(row, Damaged)],
            state=_state_of(session, checkpoint is not None, verification),
            opened=await self._entry(session.org_id, opened),
            closed=closing,
            purged=await self._entry(session.org_id, purged),
            is_complete=None if closing is None else _says_complete(closing),
            checkpoint=checkpoint,
            verification=verification,
            findings=findings,
        )

    async def _entry(self, org_id: UUID, number: int | None) -> LedgerEntry | None:
        """Return the entry; None where it is missing, or cannot be read."""
        entries = [] if number is None else await self._store.entries_after(org_id, number - 1, 1)
        return next((entry for entry in entries if isinstance(entry, LedgerEntry) and entry.number == number), None)

    async def _check(self, proof: SessionProof, report: VerificationReport) -> None:
        """Add to the report what was changed. Raises Conflict."""
        session, recorded = proof.session, proof.recorded
        for damaged in proof.damage:
            _add_damage(report, damaged, session.id)
        if recorded is None:
            return
        checks = _Checks(report)
        await self._check_entries(session, recorded.facts, checks)
        if _find_missing(recorded.facts, checks.stated, report):
            return
        listed = [ListedSegment(segment.number, segment.size, segment.digest) for segment in recorded.segments]
        verified = make_session(recorded.facts, listed)
        check_facts(verified, checks.stated, report)
        segments = SegmentCheck(report, with_segments=True, is_live=False)
        segments.expect(session.org_id, verified, checks.stated, is_proven=checks.is_proven)
        if not checks.stated.is_recording_purged:
            await asyncio.to_thread(_check_segments, segments, read_copies(self._copies, recorded.segments))
        segments.finish()

    async def _require_unchanged(self, proof: SessionProof) -> None:
        """Raise Conflict where a purge that began meanwhile explains the findings."""
        if proof.purged is None and await self._store.purge_entry(proof.session.org_id, proof.session.id) is not None:
            raise Conflict("the session was purged while it was verified; ask again")

    async def _check_entries(self, session: Session, facts: SessionFacts, checks: _Checks) -> None:
        """Check that checkpoints sign the session's entries."""
        org_id, report = session.org_id, checks.report
        signatures = SignatureCheck(org_id, await load_public_keys(self._keys, org_id, report), report)
        purged = await self._store.purge_entry(org_id, session.id)
        ranges: dict[int, list[int]] = {}  # entries by the checkpoint that covers them, in rising order
        for number in sorted({facts.opened_entry or 0, facts.closed_entry or 0, purged or 0} - {0}):
            covering = await self._checkpoints.covering(org_id, number)
            if covering is None:
                continue
            checkpoint, _ = covering
            if checkpoint.number not in ranges:
                signatures.add(format_line(checkpoint))
            ranges.setdefault(checkpoint.number, []).append(number)
        trusted = signatures.finish()
        for last, numbers in ranges.items():
            ledger = await self._check_range(org_id, numbers[0], last, trusted, report)
            checks.stated.join(ledger.sessions.get(session.id, Stated()))
            checks.is_proven &= all(ledger.proves(number) for number in numbers)
        if not checks.is_proven and not report.count:
            message = f"no trusted checkpoint proves the entries of session {session.id}"
            report.add(FindingKind.UNPROVEN, message, session=session.id)

    async def _check_range(
        self, org_id: UUID, first: int, last: int, trusted: dict[int, Checkpoint], report: VerificationReport
    ) -> LedgerCheck:
        """Check the ledger from an entry to the checkpoint that covers it. Raises Conflict."""
        if last - first >= MAX_ENTRIES:
            raise Conflict(
                f"the checkpoint that covers the session is {last - first:,} entries after it, and a request verifies "
                f"at most {MAX_ENTRIES:,}; {_ON_THE_HOST}"
            )
        before = await self._entry(org_id, first - 1)
        start = first_hash(org_id) if before is None else before.hash
        ledger = LedgerCheck(org_id, first, start, trusted, report)
        while ledger.number < last:
            entries = await self._store.entries_after(org_id, ledger.number, min(_PAGE, last - ledger.number))
            for entry in entries:
                if isinstance(entry, Damaged):
                    _add_damage(report, entry)
                elif entry.number <= last:
                    ledger.add(entry.hash, entry.content)
            if not entries or isinstance(entries[-1], Damaged) or entries[-1].number >= last:
                break
        if ledger.number < last:
            message = f"entry {last} of the ledger, which a checkpoint signs, is missing or cannot be read"
            report.add(FindingKind.TRUNCATED, message, entry=last)
        return ledger


def _add_damage(report: VerificationReport, damaged: Damaged, session_id: UUID | None = None) -> None:
    report.add(FindingKind.UNREADABLE, f"{damaged.what} cannot be read: {damaged.problem}", session=session_id)


def _says_complete(closed: LedgerEntry) -> bool | None:
    try:
        value = parse(closed.content).get("complete")
    except Malformed:
        return None
    return value if isinstance(value, bool) else None


def _state_of(session: Session, is_signed: bool, verification: SessionVerification | None) -> ProofState:
    if verification is not None and not verification.is_good:
        return ProofState.CHANGED
    if session.recording_purged_at is not None:
        return ProofState.PURGED
    if session.status is not SessionStatus.DONE:
        return ProofState.OPEN
    if not is_signed:
        return ProofState.PENDING
    return ProofState.SIGNED if verification is None else ProofState.VERIFIED


def _require_verifiable(proof: SessionProof) -> None:
    """Raise Conflict for a session that cannot be verified yet, or is too large. Damage can be reported in any case."""
    if proof.session.status is not SessionStatus.DONE:
        raise Conflict("the session has not ended; its recording can be verified after its end")
    if proof.checkpoint is None and not proof.damage:
        raise Conflict(
            "no checkpoint covers this session yet; try again in a few minutes, or ask an administrator to run "
            "`postern recordings checkpoint`"
        )
    size = sum(segment.size for segment in proof.segments)
    if size > MAX_SIZE:
        raise Conflict(f"the recording has {size:,} bytes, and a request verifies at most {MAX_SIZE:,}; {_ON_THE_HOST}")


def _find_missing(facts: SessionFacts, stated: Stated, report: VerificationReport) -> bool:
    """Report entries that are not where the session's row says; return whether there are any."""
    numbers = ((facts.opened_entry, stated.opened_entry, "start"), (facts.closed_entry, stated.closed_entry, "end"))
    missing = [(named, what) for named, number, what in numbers if named != number]
    for named, what in missing:
        message = f"entry {named} of the ledger is not about the {what} of session {facts.session_id}"
        report.add(FindingKind.MISSING, message, session=facts.session_id, entry=named)
    return bool(missing)


def _check_segments(check: SegmentCheck, copies: Iterator[Copy]) -> None:
    """Read the segments. Blocks."""
    for copy in copies:
        check.add(copy.session_id, copy.number, copy.size, copy.digest, copy.problem, copy.locate)
