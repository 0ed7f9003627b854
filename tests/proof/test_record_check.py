"""The check of records: audit entries and reviews against the batches that the ledger seals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from tests.support.proofs import BEGIN, ORG, SECOND

from postern.domain.reviews.review import KEPT, TRANSITIONS
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.sessions.ledger import EntryKind, Fact, LedgerHead, RecordKind, SealedRecord, moment
from postern.errors import Malformed
from postern.proof.canonical import canonical
from postern.proof.chain import LedgerCheck
from postern.proof.proof_checkpoints import new_key, sign_checkpoint
from postern.proof.proof_findings import FindingKind, VerificationReport
from postern.proof.proof_ledger import LedgerWriter, digest_of, first_hash
from postern.proof.records import RecordCheck, content_of, digest_of_batch

KEY = new_key(ORG, BEGIN)
REVIEW, AUDIT, SESSION = UUID(int=60), UUID(int=50), UUID(int=1001)
VOICE = {"principal_id": str(UUID(int=9)), "choice": "APPROVED", "comment": "for the incident"}
OTHER_VOICE = {**VOICE, "principal_id": str(UUID(int=10))}
FACTS: dict[str, Any] = {
    "asked": {"kind": "statement", "reason": "incident"},
    "standing": {"decided_at": None},
    "status": "PENDING",
    "input": "drop table people",
    "voices": [],
}
ENTRY: dict[str, Any] = {"id": str(AUDIT), "actor_email": "ann@example.com", "status": 200}


def review(facts: Mapping[str, Any] | None = FACTS, session: UUID | None = SESSION, **changes: Any) -> bytes:
    """Return the sealed content of a review that has these facts."""
    now = None if facts is None else {**facts, **changes}
    return canonical(content_of(RecordKind.REVIEW, REVIEW, session, now))


def audit(facts: Mapping[str, Any] | None = ENTRY) -> bytes:
    return canonical(content_of(RecordKind.AUDIT, AUDIT, None, facts))


def numbered(
    *records: tuple[UUID, bytes, Mapping[str, Any] | None], has_later: bool | None = None
) -> list[SealedRecord]:
    """Return records from number 1; of each subject all but the last have a later one."""
    last = {subject: number for number, (subject, _, _) in enumerate(records, 1)}
    return [
        SealedRecord(number, subject, content, facts, number < last[subject] if has_later is None else has_later)
        for number, (subject, content, facts) in enumerate(records, 1)
    ]


class Ledger:
    """A ledger that seals batches of records, with a checkpoint after `proven` of its entries, or after all."""

    def __init__(self, *batches: Sequence[SealedRecord], proven: int | None = None, purged: str = "") -> None:
        self.writer = LedgerWriter(ORG, LedgerHead(0, first_hash(ORG)))
        self.writer.add(EntryKind.OPENED, BEGIN, SESSION, facts=digest_of({}), started=moment(BEGIN))
        if purged:
            self.writer.add(EntryKind.PURGED, BEGIN, SESSION, what=purged, reason="retention")
        for batch in batches:
            content: dict[str, Fact] = {
                "first": batch[0].number,
                "count": len(batch),
                "digest": digest_of_batch(one.content for one in batch),
                "oldest": moment(BEGIN),
                "newest": moment(BEGIN + SECOND),
            }
            self.writer.add(EntryKind.RECORDS, BEGIN + SECOND, None, **content)
        self.proven = len(self.writer.entries) if proven is None else proven

    def check(
        self, records: Sequence[SealedRecord], *, at: datetime = BEGIN, is_live: bool = False
    ) -> VerificationReport:
        report = VerificationReport()
        checkpoints = {}
        if self.proven:
            head = LedgerHead(self.proven, self.writer.entries[self.proven - 1].hash)
            checkpoints[self.proven] = sign_checkpoint(KEY, head, BEGIN)
        ledger = LedgerCheck(ORG, 1, b"", checkpoints, report)
        for entry in self.writer.entries:
            ledger.add(entry.hash, entry.content)
        assert report.is_good, report.findings
        RecordCheck(ledger, report, at).check(ledger.batches, records, is_live=is_live)
        return report


def found(report: VerificationReport) -> list[tuple[FindingKind, int | None]]:
    return [(finding.what, finding.entry) for finding in report.findings]


def check(
    *records: tuple[UUID, bytes, Mapping[str, Any] | None], purged: str = "", at: datetime = BEGIN
) -> VerificationReport:
    """Check these records as one batch, entry 2 or 3 of the ledger."""
    batch = numbered(*records)
    return Ledger(batch, purged=purged).check(batch, at=at)


def history(
    *contents: bytes, now: Mapping[str, Any] | None, purged: str = "", at: datetime = BEGIN
) -> VerificationReport:
    """Check the records of one review, which is `now` as it is."""
    return check(*((REVIEW, content, now) for content in contents), purged=purged, at=at)


def test_unchanged_records_are_proven() -> None:
    records = numbered((AUDIT, audit(), ENTRY), (REVIEW, review(), FACTS), (REVIEW, review(), FACTS))
    report = Ledger(records[:2], records[2:]).check(records)
    assert report.is_good, report.findings
    assert (report.records_proven, report.records_pending) == (3, 0)


@pytest.mark.parametrize(("proven", "expected"), [(0, (0, 3)), (1, (0, 3)), (2, (2, 1)), (3, (3, 0))])
def test_records_after_the_newest_checkpoint_are_pending(proven: int, expected: tuple[int, int]) -> None:
    records = numbered((AUDIT, audit(), ENTRY), (REVIEW, review(), FACTS), (REVIEW, review(), FACTS))
    report = Ledger(records[:2], records[2:], proven=proven).check(records)
    assert report.is_good, report.findings
    assert (report.records_proven, report.records_pending) == expected


@pytest.mark.parametrize(
    ("sealed", "now", "what"),
    [
        (ENTRY, ENTRY, None),
        (ENTRY, None, FindingKind.MISSING),
        (ENTRY, {**ENTRY, "status": 403}, FindingKind.CHANGED),
        (None, None, FindingKind.MISSING),
        (None, ENTRY, FindingKind.MISSING),
        (ENTRY, {"x": 1.5}, FindingKind.UNREADABLE),
    ],
)
def test_changed_audit_entry_differs_from_its_record(
    sealed: Mapping[str, Any] | None, now: Mapping[str, Any] | None, what: FindingKind | None
) -> None:
    report = check((AUDIT, audit(sealed), now))
    assert found(report) == ([] if what is None else [(what, 2)])
    assert report.records_proven == (1 if what is None else 0)
    assert report.records_pending == 0
    assert all(str(AUDIT) in finding.message for finding in report.findings)


def test_damaged_record_leaves_only_its_own_batch_unproven() -> None:
    records = numbered((AUDIT, audit(), None), (REVIEW, review(), FACTS), (REVIEW, review(), FACTS))
    report = Ledger(records[:2], records[2:]).check(records)
    assert found(report) == [(FindingKind.MISSING, 2)]
    assert (report.records_proven, report.records_pending) == (1, 0)


def _later(status: ReviewStatus) -> set[ReviewStatus]:
    """Return the statuses that can follow, over any number of transitions."""
    reached = {status}
    while more := {to for (_, before, _), to in TRANSITIONS.items() if before in reached} - reached:
        reached |= more
    return reached


@pytest.mark.parametrize("after", list(ReviewStatus))
@pytest.mark.parametrize("before", list(ReviewStatus))
def test_status_of_a_review_changes_only_along_allowed_transitions(before: ReviewStatus, after: ReviewStatus) -> None:
    now = {**FACTS, "status": after.value}
    report = history(review(status=before.value), review(now), now=now)
    assert found(report) == ([] if after in _later(before) else [(FindingKind.CHANGED, 2)])


@pytest.mark.parametrize(
    ("status", "change", "is_allowed"),
    [
        *((status, {"asked": {"kind": "jit"}}, False) for status in ("PENDING", "APPROVED", "PROCESSING", "EXECUTED")),
        *((status, {"standing": {"decided_at": "x"}}, True) for status in ("PENDING", "APPROVED", "PROCESSING")),
        *((status, {"standing": {"decided_at": "x"}}, False) for status in ("EXECUTED", "REJECTED", "EXPIRED")),
        *((status, {"voices": [VOICE, OTHER_VOICE]}, True) for status in ("PENDING", "APPROVED", "PROCESSING")),
        ("EXECUTED", {"voices": [VOICE, OTHER_VOICE]}, False),
        ("PENDING", {"voices": []}, True),  # who speaks once more replaces what they said
        *((status, {"voices": []}, False) for status in ("APPROVED", "PROCESSING", "EXECUTED")),
        *((status, {"voices": [OTHER_VOICE]}, False) for status in ("APPROVED", "PROCESSING", "EXECUTED")),
        *((status, {"input": "select 1"}, False) for status in ("PENDING", "APPROVED", "PROCESSING", "EXECUTED")),
        *((status, {"input": ""}, False) for status in ("PENDING", "APPROVED", "PROCESSING", "EXECUTED")),
    ],
)
def test_sealed_review_changes_only_as_its_status_allows(
    status: str, change: Mapping[str, Any], *, is_allowed: bool
) -> None:
    """The review was changed in the store, and the gateway sealed it once more."""
    before = {**FACTS, "status": status, "voices": [VOICE]}
    now = {**before, **change}
    report = history(review(before), review(now), now=now)
    assert found(report) == ([] if is_allowed else [(FindingKind.CHANGED, 2)])


def test_changed_session_of_a_sealed_review_is_a_finding() -> None:
    for session in (None, UUID(int=1002)):
        report = history(review(), review(session=session), now=FACTS)
        assert found(report) == [(FindingKind.CHANGED, 2)]


@pytest.mark.parametrize("status", ["PENDING", "APPROVED", "EXPIRED"])
def test_purged_recording_excuses_only_the_deleted_statement_of_a_sealed_review(status: str) -> None:
    before = {**FACTS, "status": status}
    now = {**before, "input": ""}
    assert history(review(before), review(now), now=now, purged="recording").is_good
    other = {**before, "input": "select 1"}
    assert found(history(review(before), review(other), now=other, purged="recording")) == [(FindingKind.CHANGED, 3)]
    assert found(history(review(now), review(before), now=before, purged="recording")) == [(FindingKind.CHANGED, 3)]


@pytest.mark.parametrize(("session", "is_good"), [(None, False), (SESSION, False), (UUID(int=1002), True)])
def test_deleted_statement_is_accepted_only_if_the_session_is_not_in_the_ledger(
    session: UUID | None, *, is_good: bool
) -> None:
    """A part of the ledger has no older sessions; a review without a session has no purge."""
    now = {**FACTS, "input": ""}
    assert history(review(session=session), review(now, session), now=now).is_good == is_good


@pytest.mark.parametrize(
    ("contents", "what"),
    [
        ((review(), review(None)), FindingKind.MISSING),
        ((review(None), review(None)), FindingKind.MISSING),
        ((review(None), review()), FindingKind.CHANGED),
    ],
)
def test_removed_review_that_reappears_is_a_finding(contents: Sequence[bytes], what: FindingKind) -> None:
    assert what in {finding.what for finding in history(*contents, now=None).findings}
    purged = history(*contents, now=None, purged="session")
    assert found(purged) == ([(FindingKind.CHANGED, 3)] if what is FindingKind.CHANGED else [])


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"asked": {"kind": "jit"}}, "asked"),
        ({"standing": {"decided_at": "x"}}, "standing"),
        ({"status": "APPROVED"}, "status"),
        ({"input": "select 1"}, "input"),
        ({"input": ""}, "input"),
        ({"voices": [VOICE]}, "voices"),
        ({"voices": [VOICE], "status": "APPROVED"}, "status, voices"),
    ],
)
def test_finding_names_what_differs_between_a_review_and_its_newest_record(
    change: Mapping[str, Any], name: str
) -> None:
    report = history(review(), review(), now={**FACTS, **change})
    assert found(report) == [(FindingKind.CHANGED, None)]
    assert report.findings[0].message == f"the review {REVIEW} (record 2) was changed: {name}"


def test_review_with_later_record_is_not_compared() -> None:
    """The later record is outside the time range of the export, or not sealed yet."""
    for now in (None, {**FACTS, "status": "APPROVED"}):
        records = numbered((REVIEW, review(), now), has_later=True)
        assert Ledger(records).check(records).is_good


@pytest.mark.parametrize(
    ("change", "purged", "is_good"),
    [
        ({"input": ""}, "recording", True),
        ({"input": ""}, "session", True),
        ({"input": ""}, "", False),
        ({"input": "select 1"}, "recording", False),
        ({"input": "", "status": "APPROVED"}, "recording", False),
        ({"status": "APPROVED"}, "recording", False),
    ],
)
def test_purge_excuses_only_a_deleted_statement_of_a_review(
    change: Mapping[str, Any], purged: str, *, is_good: bool
) -> None:
    report = history(review(), now={**FACTS, **change}, purged=purged)
    assert found(report) == ([] if is_good else [(FindingKind.CHANGED, None)])


@pytest.mark.parametrize(
    ("purged", "age", "sealed", "is_good"),
    [
        ("", 0, FACTS, False),
        ("", KEPT.days - 1, FACTS, False),
        ("", KEPT.days, FACTS, True),
        ("recording", 0, FACTS, False),
        ("session", 0, FACTS, True),
        ("", 0, None, False),
        ("", KEPT.days, None, False),
        ("recording", 0, None, False),
        ("session", 0, None, True),
    ],
)
def test_removed_review_is_excused_only_by_age_or_a_purged_session(
    purged: str, age: int, sealed: Mapping[str, Any] | None, *, is_good: bool
) -> None:
    at = BEGIN + KEPT * (age / KEPT.days)
    report = history(review(sealed), now=None, purged=purged, at=at)
    assert found(report) == ([] if is_good else [(FindingKind.MISSING, None)])


def test_removed_review_without_a_session_is_a_finding() -> None:
    assert found(history(review(session=None), now=None, purged="session")) == [(FindingKind.MISSING, None)]


def three_batches() -> list[SealedRecord]:
    subjects = [UUID(int=100 + number) for number in range(1, 7)]
    contents = [(one, canonical(content_of(RecordKind.AUDIT, one, None, ENTRY)), ENTRY) for one in subjects]
    return numbered(*contents)


@pytest.mark.parametrize(
    ("order", "expected", "proven"),
    [
        ((1, 2, 3, 4, 5, 6), [], 6),
        ((), [(FindingKind.MISSING, 2), (FindingKind.MISSING, 3), (FindingKind.MISSING, 4)], 0),
        ((2, 3, 4, 5, 6), [(FindingKind.MISSING, 2)], 4),
        ((1, 2, 4, 5, 6), [(FindingKind.MISSING, 3)], 4),
        ((1, 2, 3, 4, 5), [(FindingKind.MISSING, 4)], 4),
        ((1, 2, 5, 6), [(FindingKind.MISSING, 3)], 4),
        ((1, 2), [(FindingKind.MISSING, 3), (FindingKind.MISSING, 4)], 2),
        ((1, 2, 2, 3, 4, 5, 6), [(FindingKind.DOUBLED, 2)], 6),
        ((1, 2, 3, 1, 4, 5, 6), [(FindingKind.REORDERED, 3)], 6),
        ((2, 1, 3, 4, 5, 6), [(FindingKind.REORDERED, 2), (FindingKind.MISSING, 2)], 4),
    ],
)
def test_missing_repeated_or_reordered_records_are_findings(
    order: tuple[int, ...], expected: list[tuple[FindingKind, int]], proven: int
) -> None:
    records = three_batches()
    ledger = Ledger(records[:2], records[2:4], records[4:])
    report = ledger.check([records[number - 1] for number in order])
    assert found(report) == expected
    assert report.records_proven == proven


@pytest.mark.parametrize(
    ("count", "words"),
    [(1, "records 1 are"), (10, "records 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 are"), (11, "7, 8, 9, 10 … are")],
)
def test_finding_names_the_first_ten_missing_records(count: int, words: str) -> None:
    records = [SealedRecord(number, AUDIT, audit(), ENTRY) for number in range(1, count + 2)]
    report = Ledger(records).check(records[count:])
    assert words in report.findings[0].message


@pytest.mark.parametrize("is_live", [False, True])
def test_unsealed_record_is_pending_only_in_a_live_store(*, is_live: bool) -> None:
    records = three_batches()
    report = Ledger(records[:2], records[2:4]).check(records, is_live=is_live)
    assert found(report) == ([] if is_live else [(FindingKind.FOREIGN, None)] * 2)
    assert (report.records_proven, report.records_pending) == (4, 2 if is_live else 0)


def test_record_between_batches_is_foreign_in_a_live_store() -> None:
    records = three_batches()
    ledger = Ledger(records[:2], records[4:])  # the entry for records 3 and 4 is not among the batches
    report = VerificationReport()
    check_of = LedgerCheck(ORG, 3, ledger.writer.entries[1].hash, {}, report)
    entry = ledger.writer.entries[2]
    check_of.add(entry.hash, entry.content)
    RecordCheck(check_of, report, BEGIN).check(check_of.batches, records[3:], is_live=True)
    assert found(report) == [(FindingKind.FOREIGN, 3)]
    assert report.records_pending == 2


def test_review_of_a_live_store_is_compared_with_its_unsealed_newer_record() -> None:
    now = {**FACTS, "status": "APPROVED"}
    records = [SealedRecord(1, REVIEW, review(), now, False), SealedRecord(2, REVIEW, review(now), now, False)]
    ledger = Ledger(records[:1])
    assert ledger.check(records, is_live=True).is_good
    assert found(ledger.check(records[:1], is_live=True)) == [(FindingKind.CHANGED, None)]


def test_changed_content_of_a_record_is_a_finding_of_its_batch() -> None:
    records = three_batches()
    ledger = Ledger(records[:2], records[2:])
    records[1] = replace(records[1], content=records[0].content)
    report = ledger.check(records)
    assert found(report) == [(FindingKind.CHANGED, 2)]
    assert (report.records_proven, report.records_pending) == (4, 0)


def test_record_of_a_row_with_another_subject_is_a_finding() -> None:
    [record] = numbered((UUID(int=51), audit(), ENTRY))
    assert found(Ledger([record]).check([record])) == [(FindingKind.CHANGED, 2)]


def test_digest_of_a_batch_depends_on_the_boundaries_of_its_records() -> None:
    assert digest_of_batch([b"a", b"bc"]) != digest_of_batch([b"ab", b"c"])
    assert digest_of_batch([b"a", b""]) != digest_of_batch([b"a"])


SEALED = {
    "audit": json.loads(audit()),
    "gone audit": json.loads(audit(None)),
    "review": json.loads(review(voices=[VOICE])),
    "review without session": json.loads(review(session=None)),
    "gone review": json.loads(review(None)),
}
ABSENT = object()
ANY: tuple[Any, ...] = (ABSENT, None, True, 0, "x", [], {}, [1], str(REVIEW).replace("-", ""))


def _is_accepted(field: str, value: object) -> bool:
    if field in ("facts", "asked", "input", "standing", "status"):
        return isinstance(value, str)
    if field == "gone":
        return value is True
    return (field == "session" and value is None) or (field == "voices" and value == [])


@pytest.mark.parametrize(("name", "field"), [(name, field) for name, values in SEALED.items() for field in values])
def test_invalid_field_of_a_sealed_record_is_a_finding(name: str, field: str) -> None:
    for value in ANY:
        values = {**SEALED[name], field: value}
        if value is ABSENT:
            del values[field]
        record = SealedRecord(1, UUID(SEALED[name]["subject"]), canonical(values), None)
        report = Ledger([record]).check([record])
        is_unreadable = FindingKind.UNREADABLE in {finding.what for finding in report.findings}
        assert is_unreadable != _is_accepted(field, value), (value, report.findings)


@pytest.mark.parametrize("name", SEALED)
@pytest.mark.parametrize("field", ["more", "gone", "facts", "voices", "session"])
def test_unknown_field_of_a_sealed_record_is_a_finding(name: str, field: str) -> None:
    if field in SEALED[name]:
        return
    record = SealedRecord(1, UUID(SEALED[name]["subject"]), canonical({**SEALED[name], field: "x"}), None)
    assert FindingKind.UNREADABLE in {finding.what for finding in Ledger([record]).check([record]).findings}


@pytest.mark.parametrize(
    "facts",
    [
        *({name: value for name, value in FACTS.items() if name != missing} for missing in FACTS),
        {**FACTS, "voices": 1},
        {**FACTS, "voices": [1]},
        {**FACTS, "asked": {"x": 1.5}},
    ],
)
def test_review_with_unreadable_facts_is_a_finding(facts: Mapping[str, Any]) -> None:
    with pytest.raises(Malformed):
        content_of(RecordKind.REVIEW, REVIEW, SESSION, facts)
    assert found(history(review(), now=facts)) == [(FindingKind.UNREADABLE, 2)]
