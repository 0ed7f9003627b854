"""Verification: a pure function over iterators, whoever reads them from where.

The checkpoints first, since they say which hashes have to come; then the ledger, which says what sessions there have
to be and what records; then the records; then the sessions, whose lists say what segments; then the segments. What is
held in memory is some hundred bytes for each session and each review, and fifty for each segment.
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
    """Whose ledger, and which part of it: from entry `first` on, `before` being h(first - 1); `last` must be there. The
    sessions are those that began from `since` to `until`, both included; None is without bound. `with_segments`: the
    recordings themselves are looked at, not only what is listed of them. `is_live`: sessions may have come since.
    `at` is when the rows were read, None for the time of the newest entry."""

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
    """A segment that was read: `problem` says why not, where it could not be. `locate` looks for the first byte range
    that is damaged, by the records' own checksums; it is called before the next one is asked for."""

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
    """`checkpoints` and `anchors` are lines, `entries` (hash, content), sessions and segments in the order of their ids
    and numbers. `signatures` knows the keys that the one who asks has kept, and has the report, to which readers of the
    iterators may add as well."""
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
    wanted = {key: one for key, one in ledger.sessions.items() if _is_within(scope, one)}
    _check_sessions(scope, wanted, ledger, sessions, recordings, report)
    for copy in segments:
        recordings.add(copy.session_id, copy.number, copy.size, copy.digest, copy.problem, copy.locate)
    recordings.finish()
    return report


def _check_records(
    scope: VerificationScope, ledger: LedgerCheck, records: Iterable[SealedRecord], report: VerificationReport
) -> None:
    """A batch counts where anything in it may be of the time that was asked for."""
    batches = [one for one in ledger.batches if one.overlaps(scope.since, scope.until)]
    RecordCheck(ledger, report, scope.at or ledger.at).check(batches, records, is_live=scope.is_live)


def _is_within(scope: VerificationScope, one: Stated) -> bool:
    if one.started is None:  # it was opened before the part of the ledger that is here
        return False
    return (scope.since is None or one.started >= scope.since) and (scope.until is None or one.started <= scope.until)


def _check_sessions(
    scope: VerificationScope,
    wanted: dict[UUID, Stated],
    ledger: LedgerCheck,
    sessions: Iterable[VerifiedSession],
    recordings: SegmentCheck,
    report: VerificationReport,
) -> None:
    seen: set[UUID] = set()
    last: UUID | None = None
    for told in sessions:
        key = told.session_id
        if key in seen:
            report.add(FindingKind.DOUBLED, f"the session {key} is there twice", session=key)
            continue
        if last is not None and key.bytes < last.bytes:
            report.add(FindingKind.REORDERED, f"the session {key} is not in its place", session=key)
        last = key
        seen.add(key)
        stated = wanted.get(key)
        if stated is not None:
            _check_session(told, stated, ledger, recordings, report)
        elif told.entry is None and scope.is_live:
            report.sessions_pending += 1
            recordings.leave(key)
        elif scope.is_live and told.entry is not None and told.entry > ledger.number:
            report.sessions_pending += 1  # it came while the ledger was read
            recordings.leave(key)
        else:
            why = "is outside of what was exported" if key in ledger.sessions else "is not in the ledger"
            report.add(FindingKind.FOREIGN, f"the session {key} is there and {why}", session=key, entry=told.entry)
            recordings.leave(key)
    for key, stated in wanted.items():
        if key not in seen and not stated.is_purged:
            message = f"the session {key} was removed: the ledger says it was opened"
            report.add(FindingKind.MISSING, message, session=key, entry=stated.opened_entry)
        elif key not in seen:
            report.sessions_purged += 1
            if not ledger.proves(stated.purged_entry):
                number = stated.purged_entry
                report.notes.append(f"the session {key} is gone; the entry {number} says it was purged, unsigned yet")


def _check_session(
    told: VerifiedSession, stated: Stated, ledger: LedgerCheck, recordings: SegmentCheck, report: VerificationReport
) -> None:
    key = told.session_id
    good = True
    if stated.is_purged:
        report.notes.append(
            f"the entry {stated.purged_entry} says that the session {key} was purged, and it is still there: the purge "
            "goes on, or was not finished"
        )
        report.purges_undone += not told.segments
    try:
        if not stated.opens(told.opening):
            what = "who, where, when or what was asked is not what it was when the session was opened"
            report.add(FindingKind.CHANGED, f"the session {key}: {what}", session=key, entry=stated.opened_entry)
            good = False
        if stated.closed_entry and not stated.closes(told.closing):
            what = "when and how it ended is not what it was when the session was closed"
            report.add(FindingKind.CHANGED, f"the session {key}: {what}", session=key, entry=stated.closed_entry)
            good = False
    except Malformed as error:
        report.add(FindingKind.CHANGED, f"the session {key} has facts that nobody wrote: {error.message}", session=key)
        good = False
    proven = recordings.expect(ledger.org_id, told, stated, is_proven=ledger.proves(stated.closed_entry))
    if stated.closed_entry and not ledger.proves(stated.closed_entry):
        report.sessions_pending += 1
    elif not stated.closed_entry and ledger.proves(stated.opened_entry):
        report.sessions_open += 1
    elif not stated.closed_entry:
        report.sessions_pending += 1
    elif good and proven:
        report.sessions_proven += 1
        report.sessions_incomplete += not stated.is_complete
