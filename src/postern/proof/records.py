"""Records: digests of audit entries and reviews, which the ledger seals.

A record is canonical JSON with digests only, because the chain can never be purged of a name:

    audit     kind, subject, facts (SHA-256 of the entry's row)
    review    kind, subject, session, status, asked (SHA-256 of the request, its author and its approvers), input
              (SHA-256 of the statement), standing (SHA-256 of status and timestamps), voices (SHA-256 of each vote,
              sorted)
    either    kind, subject, gone: the row no longer existed when the ledger came to seal it

Records are numbered without gaps. One ledger entry seals a batch of them, with its first number, their count and the
SHA-256 over them, so that a burst of audit entries costs few ledger entries. A review has one record for each change:
its request never changes, its status follows the table of `domain.review`, and votes before the decision stay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from postern.domain.reviews.review import KEPT
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.sessions.ledger import RecordKind, SealedRecord
from postern.errors import Malformed
from postern.proof.canonical import canonical, parse
from postern.proof.chain import LedgerCheck, RecordBatch
from postern.proof.proof_findings import FindingKind, VerificationReport
from postern.proof.proof_ledger import digest_of

_NAMES = {RecordKind.AUDIT: "audit entry", RecordKind.REVIEW: "review"}
_PENDING = ReviewStatus.PENDING.value
# From → to, over any number of steps; no other transition is valid.
_LATER: Mapping[str, frozenset[str]] = {
    _PENDING: frozenset(ReviewStatus),
    ReviewStatus.APPROVED.value: frozenset(ReviewStatus) - {ReviewStatus.PENDING, ReviewStatus.REJECTED},
    ReviewStatus.PROCESSING.value: frozenset({ReviewStatus.PROCESSING, ReviewStatus.EXECUTED}),
}


def content_of(
    kind: RecordKind, subject: UUID, session_id: UUID | None, facts: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the record of these facts, which come from `store.sql.records`. Raises Malformed."""
    values: dict[str, Any] = {"kind": kind.value, "subject": str(subject)}
    if kind is RecordKind.REVIEW:
        values["session"] = None if session_id is None else str(session_id)
    if facts is None:
        return values | {"gone": True}
    try:
        if kind is RecordKind.AUDIT:
            return values | {"facts": digest_of(facts)}
        return values | {
            "status": str(facts["status"]),
            "asked": digest_of(facts["asked"]),
            "input": _digest_of_input(str(subject), facts["input"]),
            "standing": digest_of(facts["standing"]),
            "voices": sorted(digest_of({"review": str(subject), **voice}) for voice in facts["voices"]),
        }
    except (KeyError, TypeError, AttributeError):
        raise Malformed("its facts are not those of a record") from None


def _digest_of_input(subject: str, text: str) -> str:
    return digest_of({"review": subject, "input": text})


def digest_of_batch(contents: Iterable[bytes]) -> str:
    """Return the SHA-256 over records, in hexadecimal."""
    digest = hashlib.sha256(b"postern records\n")
    for content in contents:
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def format_line(record: SealedRecord) -> bytes:
    """Return a record as a line of an export, without line feed."""
    values = {"number": record.number, "content": record.content.decode(), "later": record.has_later}
    return canonical({**values, "facts": record.facts})


def read_line(line: bytes) -> SealedRecord:
    """Parse a line. Raises Malformed."""
    values = parse(line)
    number, content, facts, later = (values.get(name) for name in ("number", "content", "facts", "later"))
    fits = type(number) is int and number > 0 and isinstance(content, str) and isinstance(later, bool)
    if not fits or not (facts is None or isinstance(facts, dict)):
        raise Malformed("it is not a record of an export")
    assert isinstance(content, str)  # as `fits` says
    encoded = content.encode()
    return SealedRecord(values["number"], _subject(parse(encoded)), encoded, facts, values["later"])


@dataclass(slots=True)
class _Newest:
    """Newest record of a review, and the review's current content: None if its row is gone."""

    number: int
    content: Mapping[str, Any]
    now: Mapping[str, Any] | None
    has_later: bool
    is_input_gone: bool
    oldest: datetime


class RecordCheck:
    """Compares records with the batches in the ledger, and with their audit entries and reviews."""

    def __init__(self, ledger: LedgerCheck, report: VerificationReport, at: datetime) -> None:
        """Start a check. `at` is when the rows were read: reviews are deleted some time after their end."""
        self._ledger = ledger
        self._report = report
        self._at = at
        self._last = 0
        self._batch: list[SealedRecord] = []
        self._reviews: dict[UUID, _Newest] = {}

    def check(self, batches: list[RecordBatch], records: Iterable[SealedRecord], *, is_live: bool) -> None:
        """Check the records. All `batches` must be there; a live store can have newer records."""
        waiting = iter(batches)
        batch = next(waiting, None)
        for record in records:
            if record.number <= self._last:
                what = FindingKind.DOUBLED if record.number == self._last else FindingKind.REORDERED
                self._add(what, f"record {record.number} is out of order", batch)
                continue
            self._last = record.number
            while batch is not None and record.number > batch.last:
                self._close(batch)
                batch = next(waiting, None)
            if batch is not None and record.number >= batch.first:
                self._batch.append(record)
            elif is_live and batch is None and record.number > self._ledger.records:
                self._report.records_pending += 1  # sealed while the ledger was read
                self._supersede(record)
            else:
                self._add(FindingKind.FOREIGN, f"record {record.number} exists, but no ledger entry seals it", batch)
        while batch is not None:
            self._close(batch)
            batch = next(waiting, None)
        for subject, newest in self._reviews.items():
            self._judge(subject, newest)

    def _add(self, what: FindingKind, message: str, batch: RecordBatch | None) -> None:
        self._report.add(what, message, entry=None if batch is None else batch.entry)

    def _supersede(self, record: SealedRecord) -> None:
        if record.subject in self._reviews:
            self._reviews[record.subject].has_later = True

    def _close(self, batch: RecordBatch) -> None:
        """Check a batch after all its records were read."""
        records, self._batch = self._batch, []
        good = self._report.count  # a missing record makes the digest incomparable, so that none of the batch is proven
        if len(records) != batch.count:
            present_numbers = {record.number for record in records}
            missing = [number for number in range(batch.first, batch.last + 1) if number not in present_numbers]
            numbers = ", ".join(str(number) for number in missing[:10]) + (" …" if len(missing) > 10 else "")
            self._add(FindingKind.MISSING, f"records {numbers} are missing; entry {batch.entry} seals them", batch)
        elif digest_of_batch(record.content for record in records) != batch.digest:
            message = f"records {batch.first} to {batch.last} do not match entry {batch.entry} of the ledger"
            self._add(FindingKind.CHANGED, message, batch)
            return
        for record in records:
            self._compare(record, batch)
        proven = self._ledger.proves(batch.entry) and good == self._report.count
        self._report.records_proven += len(records) if proven else 0
        self._report.records_pending += 0 if self._ledger.proves(batch.entry) else len(records)

    def _compare(self, record: SealedRecord, batch: RecordBatch) -> None:
        try:
            sealed = _read(record.content)
        except Malformed as error:
            self._add(FindingKind.UNREADABLE, f"record {record.number} cannot be read: {error.message}", batch)
            return
        kind, subject = RecordKind(sealed["kind"]), UUID(sealed["subject"])
        if subject != record.subject:
            message = f"the row of record {record.number} names {record.subject}, but the record names {subject}"
            self._add(FindingKind.CHANGED, message, batch)
        try:
            now = None if record.facts is None else content_of(kind, subject, _uuid(sealed), record.facts)
        except Malformed as error:
            message = f"the {_NAMES[kind]} {subject} (record {record.number}) cannot be read: {error.message}"
            self._add(FindingKind.UNREADABLE, message, batch)
            return
        if kind is RecordKind.AUDIT:
            self._compare_audit(record, sealed, now, batch)
            return
        before = self._reviews.get(subject)
        if before is not None and not (_follows(before.content, sealed) and self._keeps_input(before.content, sealed)):
            self._add(
                FindingKind.CHANGED,
                f"the review {subject} was changed in a way that Postern does not allow (record {record.number})",
                batch,
            )
        is_input_gone = record.facts is not None and record.facts.get("input") == ""
        self._reviews[subject] = _Newest(record.number, sealed, now, record.has_later, is_input_gone, batch.oldest)

    def _keeps_input(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Return whether the review's statement is unchanged, or deleted with its session's recording."""
        if after.get("gone") or before.get("input") == after.get("input"):
            return True
        session_id = _uuid(after)
        if session_id is None or after["input"] != _digest_of_input(after["subject"], ""):
            return False
        session = self._ledger.sessions.get(session_id)
        # If the checked part of the ledger starts after the session's entries, it says nothing about a purge.
        return session is None or session.is_recording_purged

    def _compare_audit(
        self, record: SealedRecord, sealed: Mapping[str, Any], now: Mapping[str, Any] | None, batch: RecordBatch
    ) -> None:
        if sealed.get("gone"):
            message = f"the audit entry {record.subject} was removed before the ledger sealed it"
            self._add(FindingKind.MISSING, message, batch)
        elif now is None:
            self._add(
                FindingKind.MISSING, f"the audit entry {record.subject} (record {record.number}) was removed", batch
            )
        elif now != sealed:
            self._add(
                FindingKind.CHANGED, f"the audit entry {record.subject} (record {record.number}) was changed", batch
            )

    def _judge(self, subject: UUID, newest: _Newest) -> None:
        """Compare the newest record of a review with its current row."""
        if newest.has_later:
            return
        session = self._ledger.sessions.get(_uuid(newest.content) or UUID(int=0))
        if newest.now is None:
            is_purged = session is not None and session.is_purged
            if not is_purged and not newest.content.get("gone") and newest.oldest + KEPT > self._at:
                self._add(FindingKind.MISSING, f"the review {subject} (record {newest.number}) was removed", None)
            elif newest.content.get("gone") and not is_purged:
                self._add(FindingKind.MISSING, f"the review {subject} was removed before the ledger sealed it", None)
            return
        sealed, now = dict(newest.content), dict(newest.now)
        if newest.is_input_gone and session is not None and session.is_recording_purged:
            sealed["input"] = now["input"]  # a purge deletes the statement that it quotes
        if sealed != now:
            names = ", ".join(name for name in sorted(now) if sealed.get(name) != now[name])
            message = f"the review {subject} (record {newest.number}) was changed: {names}"
            self._add(FindingKind.CHANGED, message, None)


def _follows(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether a review can change from `before` to `after`, apart from its statement."""
    if before.get("gone") or after.get("gone"):
        return bool(after.get("gone"))
    if before.get("asked") != after.get("asked") or before.get("session") != after.get("session"):
        return False
    status = str(before.get("status"))
    if status not in _LATER:  # final
        return before == {**after, "input": before.get("input")}
    if str(after.get("status")) not in _LATER[status]:
        return False
    return status == _PENDING or set(before.get("voices") or ()) <= set(after.get("voices") or ())


def _uuid(content: Mapping[str, Any]) -> UUID | None:
    """Return the session of a parsed record."""
    session = content.get("session")
    return None if session is None else UUID(session)


def _read(content: bytes) -> dict[str, Any]:
    """Parse a record. Raises Malformed unless its content is exactly that of a record."""
    values = parse(content)
    subject, kind, session = _subject(values), values.get("kind"), values.get("session")
    # A list of values, not a set: JSON values can be unhashable.
    if kind not in list(RecordKind) or not (session is None or _is_uuid(session)):
        raise Malformed("its kind is unknown, or its session has no valid identifier")
    names = {"kind", "subject"} | ({"session"} if kind == RecordKind.REVIEW else set())
    if values.get("gone") is True:
        names |= {"gone"}
    elif kind == RecordKind.AUDIT:
        names |= {"facts"}
    else:
        names |= {"asked", "input", "standing", "status", "voices"}
    texts = names - {"gone", "session", "voices"}
    voices = values.get("voices", [])
    if set(values) != names or not all(isinstance(values[name], str) for name in texts):
        raise Malformed(f"it is not a record about {subject}")
    if not isinstance(voices, list) or not all(isinstance(voice, str) for voice in voices):
        raise Malformed(f"it is not a record about {subject}")
    return values


def _is_uuid(text: object) -> bool:
    try:
        return isinstance(text, str) and str(UUID(text)) == text
    except ValueError:
        return False


def _subject(content: Mapping[str, Any]) -> UUID:
    subject = content.get("subject")
    if not _is_uuid(subject):
        raise Malformed("its subject is missing or not valid")
    return UUID(str(subject))
