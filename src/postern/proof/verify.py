"""Verification: a pure function over iterators, from a store or an export.

Each input says what the next must contain. Checkpoints give hashes of the ledger. The ledger lists sessions and
records. Sessions list segments. Memory use is a few hundred bytes per session and review, and fifty bytes per segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from postern.domain.sessions.ledger import SealedRecord
from postern.errors import Malformed
from postern.proof.chain import LedgerCheck, Stated
from postern.proof.proof_findings import FindingKind, VerificationReport
from postern.proof.proof_recordings import SegmentCheck
from postern.proof.proof_sessions import VerifiedSession
from postern.proof.proof_signatures import SignatureCheck
from postern.proof.records import RecordCheck


@dataclass(frozen=True, slots=True)
class VerificationScope:
    """Part of a ledger to verify.

    - `first`, `before`: first entry, and h(first - 1).
    - `since`, `until`: time range of the sessions, bounds included; None is unbounded.
    - `last`: entry that must be there.
    - `at`: when the rows were read; None for the time of the newest entry.
    - `with_segments`: verify the recordings themselves, not only their lists.
    - `is_live`: new sessions can have been added since.
    """

    org_id: UUID
    first: int
    before: bytes
    since: datetime | None = None
    until: datetime | None = None
    last: int = 0
    at: datetime | None = None
    with_segments: bool = True
    is_live: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """Segment that was read; `problem` says why it could not be.

    `locate` returns the first damaged byte range, by the records' own checksums. It is called before the next segment.
    """

    session_id: UUID
    number: int
    size: int
    digest: bytes
    problem: str = ""
    locate: Callable[[], tuple[int, int] | None] = lambda: None


def verify(
    scope: VerificationScope,
    checkpoints: Iterable[bytes],
    entries: Iterable[tuple[bytes, bytes]],
    records: Iterable[SealedRecord],
    sessions: Iterable[VerifiedSession],
    segments: Iterable[Copy],
    signatures: SignatureCheck,
    anchors: Iterable[bytes] = (),
) -> VerificationReport:
    """Verify a ledger with its records, sessions and segments.

    `checkpoints` and `anchors` are lines, `entries` are (hash, content). Sessions and segments come in the order of
    their ids and numbers. `signatures` has the caller's trusted keys and the report, to which readers of the iterators
    can add findings.
    """
    report = signatures.report
    report.organisation, report.since, report.until = scope.org_id, scope.since, scope.until
    for line in checkpoints:
        signatures.add(line)
    for line in anchors:
        signatures.add_anchored(line)
    ledger = LedgerCheck(scope.org_id, scope.first, scope.before, signatures.finish(), report)
    for digest, content in entries:
        ledger.add(digest, content)
    ledger.finish(scope.since, scope.last)
    _check_records(scope, ledger, records, report)
    recordings = SegmentCheck(report, with_segments=scope.with_segments, is_live=scope.is_live)
    expected = {key: stated for key, stated in ledger.sessions.items() if _is_within(scope, stated)}
    _check_sessions(scope, expected, ledger, sessions, recordings, report)
    for copy in segments:
        recordings.add(copy.session_id, copy.number, copy.size, copy.digest, copy.problem, copy.locate)
    recordings.finish()
    return report


def _check_records(
    scope: VerificationScope, ledger: LedgerCheck, records: Iterable[SealedRecord], report: VerificationReport
) -> None:
    """Check the batches that can contain something from the requested time range."""
    batches = [batch for batch in ledger.batches if batch.overlaps(scope.since, scope.until)]
    RecordCheck(ledger, report, scope.at or ledger.at).check(batches, records, is_live=scope.is_live)


def _is_within(scope: VerificationScope, stated: Stated) -> bool:
    if stated.started is None:  # opened before this part of the ledger
        return False
    return (scope.since is None or stated.started >= scope.since) and (
        scope.until is None or stated.started <= scope.until
    )


def _check_sessions(
    scope: VerificationScope,
    expected: dict[UUID, Stated],
    ledger: LedgerCheck,
    sessions: Iterable[VerifiedSession],
    recordings: SegmentCheck,
    report: VerificationReport,
) -> None:
    seen: set[UUID] = set()
    last: UUID | None = None
    for session in sessions:
        key = session.session_id
        if key in seen:
            report.add(FindingKind.DOUBLED, f"session {key} is duplicated", session=key)
            continue
        if last is not None and key.bytes < last.bytes:
            report.add(FindingKind.REORDERED, f"session {key} is out of order", session=key)
        last = key
        seen.add(key)
        stated = expected.get(key)
        if stated is not None:
            _check_session(session, stated, ledger, recordings, report)
        elif session.entry is None and scope.is_live:
            report.sessions_pending += 1
            recordings.skip(key)
        elif scope.is_live and session.entry is not None and session.entry > ledger.number:
            report.sessions_pending += 1  # it was added while the ledger was read
            recordings.skip(key)
        else:
            why = "is outside of the exported range" if key in ledger.sessions else "is not in the ledger"
            report.add(FindingKind.FOREIGN, f"session {key} exists but {why}", session=key, entry=session.entry)
            recordings.skip(key)
    for key, stated in expected.items():
        if key not in seen and not stated.is_purged:
            message = f"session {key} was removed: the ledger says that it was opened"
            report.add(FindingKind.MISSING, message, session=key, entry=stated.opened_entry)
        elif key not in seen:
            report.sessions_purged += 1
            if not ledger.proves(stated.purged_entry):
                number = stated.purged_entry
                report.notes.append(
                    f"session {key} no longer exists; entry {number} says that it was purged, but no checkpoint covers "
                    "that entry yet"
                )


def _check_session(
    session: VerifiedSession, stated: Stated, ledger: LedgerCheck, recordings: SegmentCheck, report: VerificationReport
) -> None:
    key = session.session_id
    if stated.is_purged:
        report.notes.append(
            f"entry {stated.purged_entry} says that session {key} was purged, but it still exists: the purge is in "
            "progress, or was interrupted"
        )
        report.purges_undone += not session.segments
    good = check_facts(session, stated, report)
    proven = recordings.expect(ledger.org_id, session, stated, is_proven=ledger.proves(stated.closed_entry))
    if stated.closed_entry and not ledger.proves(stated.closed_entry):
        report.sessions_pending += 1
    elif not stated.closed_entry and ledger.proves(stated.opened_entry):
        report.sessions_open += 1
    elif not stated.closed_entry:
        report.sessions_pending += 1
    elif good and proven:
        report.sessions_proven += 1
        report.sessions_incomplete += not stated.is_complete


def check_facts(session: VerifiedSession, stated: Stated, report: VerificationReport) -> bool:
    """Compare a session's row with what the ledger says about it; return whether they match."""
    key = session.session_id
    good = True
    try:
        if not stated.opens(session.opening):
            what = "its user, connection, start or request was changed after it was opened"
            report.add(FindingKind.CHANGED, f"session {key}: {what}", session=key, entry=stated.opened_entry)
            good = False
        if stated.closed_entry and not stated.closes(session.closing):
            what = "its end was changed after it was closed"
            report.add(FindingKind.CHANGED, f"session {key}: {what}", session=key, entry=stated.closed_entry)
            good = False
    except Malformed as error:
        report.add(FindingKind.CHANGED, f"session {key} has invalid facts: {error.message}", session=key)
        good = False
    return good
