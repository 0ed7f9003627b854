"""The check of a ledger, entry by entry: what each entry proves, and which entries are findings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.support.proofs import BEGIN, ORG, SECOND

from postern.domain.sessions.ledger import Checkpoint, EntryKind, Fact, LedgerEntry, LedgerHead, moment
from postern.proof.canonical import canonical
from postern.proof.chain import LedgerCheck, RecordBatch, Stated, batch_of
from postern.proof.proof_checkpoints import new_key, sign_checkpoint
from postern.proof.proof_findings import FindingKind, VerificationReport
from postern.proof.proof_ledger import LedgerWriter, digest_of, first_hash, next_hash

KEY = new_key(ORG, BEGIN)
SESSION = UUID(int=1001)
OPENED: dict[str, Fact] = {"facts": digest_of({}), "started": moment(BEGIN)}
CLOSED: dict[str, Fact] = {
    "facts": digest_of({}),
    "segments": 0,
    "last": "ab" * 32,
    "size": 0,
    "complete": True,
    "reason": "killed",
}
RECORDS: dict[str, Fact] = {
    "first": 1,
    "count": 2,
    "digest": "ab" * 32,
    "oldest": moment(BEGIN),
    "newest": moment(BEGIN + SECOND),
}
ABSENT = object()


def ledger_of(*entries: tuple[EntryKind, UUID | None, Mapping[str, Fact]]) -> LedgerWriter:
    """Return a writer that has added these, one second apart."""
    writer = LedgerWriter(ORG, LedgerHead(0, first_hash(ORG)))
    for number, (kind, session, content) in enumerate(entries):
        writer.add(kind, BEGIN + number * SECOND, session, **content)
    return writer


def checkpoint_of(writer: LedgerWriter, number: int) -> Checkpoint:
    return sign_checkpoint(KEY, LedgerHead(number, writer.entries[number - 1].hash), BEGIN + number * SECOND)


def check(
    writer: LedgerWriter, *checkpoints: int, first: int = 1, since: datetime | None = None, last: int = 0
) -> tuple[LedgerCheck, VerificationReport]:
    """Check the ledger from entry `first` on, with checkpoints of these numbers."""
    report = VerificationReport()
    before = writer.entries[first - 2].hash if first > 1 else b""
    trusted = {number: checkpoint_of(writer, number) for number in checkpoints}
    ledger = LedgerCheck(ORG, first, before, trusted, report)
    for entry in writer.entries[first - 1 :]:
        ledger.add(entry.hash, entry.content)
    ledger.finish(since, last)
    return ledger, report


def found(report: VerificationReport) -> list[tuple[FindingKind, int | None]]:
    return [(finding.what, finding.entry) for finding in report.findings]


def entries(count: int) -> LedgerWriter:
    return ledger_of(*((EntryKind.OPENED, UUID(int=number), OPENED) for number in range(1, count + 1)))


@pytest.mark.parametrize(
    ("first", "checkpoints", "proven", "after"),
    [
        (1, (), 0, 5),
        (1, (3,), 3, 2),
        (1, (2, 5), 5, 0),
        (3, (), 0, 3),
        (3, (4,), 4, 1),
        (3, (2,), 2, 3),  # of the entry before the first
        (3, (1,), 0, 3),  # of an entry that is not there
        (5, (5,), 5, 0),
    ],
)
def test_entries_after_newest_checkpoint_are_counted(
    first: int, checkpoints: tuple[int, ...], proven: int, after: int
) -> None:
    ledger, report = check(entries(5), *checkpoints, first=first, since=BEGIN + 10 * SECOND)
    assert (report.proven_to, report.after_checkpoint, report.entries) == (proven, after, 6 - first)
    assert report.proven_at == (BEGIN + proven * SECOND if proven else None)
    assert [number for number in range(7) if ledger.proves(number)] == list(range(1, proven + 1))
    assert report.is_good, report.findings


@pytest.mark.parametrize(
    ("first", "since", "is_early_enough"),
    [(1, None, True), (1, 5, True), (3, None, False), (3, 1, False), (3, 2, False), (3, 3, True)],
)
def test_ledger_that_begins_after_the_requested_time_is_a_finding(
    first: int, since: int | None, *, is_early_enough: bool
) -> None:
    """Entry 3 is two seconds after the begin: earlier sessions of the requested time can be missing."""
    _, report = check(entries(4), first=first, since=None if since is None else BEGIN + since * SECOND)
    assert found(report) == ([] if is_early_enough else [(FindingKind.MISSING, first - 1)])


def test_empty_part_of_a_ledger_is_a_finding() -> None:
    writer = entries(3)
    report = VerificationReport()
    ledger = LedgerCheck(ORG, 4, writer.head.hash, {}, report)
    ledger.finish(BEGIN + 100 * SECOND)
    assert found(report) == [(FindingKind.MISSING, 3)]
    assert report.after_checkpoint == 0


@pytest.mark.parametrize(("last", "is_cut"), [(0, False), (4, False), (5, True)])
def test_ledger_that_ends_before_the_stated_entry_is_truncated(last: int, *, is_cut: bool) -> None:
    _, report = check(entries(4), last=last)
    assert found(report) == ([(FindingKind.TRUNCATED, 5)] if is_cut else [])


def test_time_of_a_check_is_the_time_of_the_newest_entry() -> None:
    ledger, _ = check(entries(4))
    assert ledger.at == BEGIN + 3 * SECOND
    empty, _ = check(entries(0))
    assert empty.at < BEGIN
    assert empty.at.tzinfo is not None


def damage(writer: LedgerWriter, number: int, entry: LedgerEntry | None) -> list[tuple[bytes, bytes]]:
    """Return the lines of the ledger with entry `number` replaced, or removed."""
    lines = {one.number: one for one in writer.entries}
    if entry is None:
        del lines[number]
    else:
        lines[number] = entry
    return [(one.hash, one.content) for one in lines.values()]


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        ("none", []),
        ("removed", [(FindingKind.MISSING, 4)]),
        ("changed", [(FindingKind.CHANGED, 4)]),
        ("no number", [(FindingKind.UNREADABLE, 4), (FindingKind.MISSING, 4)]),
        ("not JSON", [(FindingKind.UNREADABLE, 4), (FindingKind.MISSING, 4)]),
        ("number 0", [(FindingKind.UNREADABLE, 4), (FindingKind.MISSING, 4)]),
    ],
)
def test_damaged_entry_leaves_only_entries_up_to_the_next_checkpoint_unproven(
    harm: str, expected: list[tuple[FindingKind, int | None]]
) -> None:
    writer = entries(8)
    content = {
        "none": writer.entries[3].content,
        "removed": None,
        "changed": writer.entries[3].content.replace(b"opened", b"closed"),
        "no number": b"{}",
        "not JSON": b"x",
        "number 0": b'{"number":0}',
    }[harm]
    entry = (
        None if content is None else LedgerEntry(ORG, 4, BEGIN, EntryKind.OPENED, None, content, writer.entries[3].hash)
    )
    report = VerificationReport()
    ledger = LedgerCheck(ORG, 1, b"", {number: checkpoint_of(writer, number) for number in (2, 6, 8)}, report)
    for digest, data in damage(writer, 4, entry):
        ledger.add(digest, data)
    ledger.finish(None)
    # A changed kind is a closing without the fields of one.
    assert [one for one in found(report) if one != (FindingKind.UNREADABLE, 4) or harm != "changed"] == expected
    proven = [1, 2, 7, 8] if harm != "none" else list(range(1, 9))
    assert [number for number in range(1, 9) if ledger.proves(number)] == proven


@pytest.mark.parametrize("first", [1, 3])
def test_damaged_second_entry_leaves_the_first_entry_unproven(first: int) -> None:
    writer = entries(6)
    report = VerificationReport()
    before = writer.entries[first - 2].hash if first > 1 else b""
    ledger = LedgerCheck(ORG, first, before, {number: checkpoint_of(writer, number) for number in (4, 6)}, report)
    for entry in writer.entries[first - 1 :]:
        ledger.add(bytes(32) if entry.number == first + 1 else entry.hash, entry.content)
    ledger.finish(None)
    assert [number for number in range(first, 7) if ledger.proves(number)] == [5, 6]


@pytest.mark.parametrize(
    ("position", "what"), [(3, FindingKind.DOUBLED), (2, FindingKind.REORDERED), (1, FindingKind.REORDERED)]
)
def test_repeated_entry_is_a_finding_and_is_not_counted(position: int, what: FindingKind) -> None:
    writer = entries(4)
    report = VerificationReport()
    ledger = LedgerCheck(ORG, 1, b"", {4: checkpoint_of(writer, 4)}, report)
    again = writer.entries[position - 1]
    for entry in (*writer.entries[:3], again, writer.entries[3]):
        ledger.add(entry.hash, entry.content)
    ledger.finish(None)
    assert found(report) == [(what, position)]
    assert (ledger.number, report.entries) == (4, 4)
    assert not ledger.proves(1)


@pytest.mark.parametrize(("missing", "words"), [((3,), "entry 3 of"), ((3, 4), "entries 3 to 4 of")])
def test_consecutive_missing_entries_are_one_finding(missing: tuple[int, ...], words: str) -> None:
    writer = entries(6)
    report = VerificationReport()
    ledger = LedgerCheck(ORG, 1, b"", {}, report)
    for entry in writer.entries:
        if entry.number not in missing:
            ledger.add(entry.hash, entry.content)
    assert found(report) == [(FindingKind.MISSING, 3)]
    assert words in report.findings[0].message


def test_consistent_ledger_that_contradicts_its_checkpoint_is_rewritten() -> None:
    writer, other = entries(4), ledger_of(*[(EntryKind.KEY, None, {"introduces": "x"})] * 4)
    report = VerificationReport()
    ledger = LedgerCheck(ORG, 1, b"", {2: checkpoint_of(other, 2), 4: checkpoint_of(writer, 4)}, report)
    for entry in writer.entries:
        ledger.add(entry.hash, entry.content)
    ledger.finish(None)
    # What follows is compared with the hash that was signed, so that the first entry behind it does not fit either.
    assert found(report) == [(FindingKind.REWRITTEN, 2), (FindingKind.CHANGED, 3)]
    assert not any(ledger.proves(number) for number in range(6))


INVALID: dict[tuple[EntryKind, str], tuple[object, ...]] = {
    **{
        (kind, "at"): (ABSENT, None, 1, "", "2026-05-01T12:00:00")
        for kind in (EntryKind.OPENED, EntryKind.KEY, EntryKind.RECORDS)
    },
    (EntryKind.OPENED, "kind"): (ABSENT, None, 1, "", "other"),
    (EntryKind.OPENED, "session"): (ABSENT, None, 1, "", "x"),
    (EntryKind.OPENED, "facts"): (ABSENT, None, 1, {}),
    (EntryKind.OPENED, "started"): (ABSENT, None, 1, "x", "2026-05-01T12:00:00"),
    (EntryKind.OPENED, "binds"): (None, True, "1", 0, -1, 3),
    (EntryKind.CLOSED, "facts"): (ABSENT, None, 1),
    (EntryKind.CLOSED, "segments"): (ABSENT, None, True, "1", -1),
    (EntryKind.CLOSED, "size"): (ABSENT, None, True, "1", -1),
    (EntryKind.CLOSED, "last"): (ABSENT, None, 1, "x"),
    (EntryKind.CLOSED, "complete"): (ABSENT, None, 1, "true"),
    (EntryKind.CLOSED, "binds"): (None, True, "1", 0, 3),
    (EntryKind.PURGED, "what"): (ABSENT, None, 1),
    (EntryKind.RECORDS, "first"): (ABSENT, None, True, "1", 0, -1),
    (EntryKind.RECORDS, "count"): (ABSENT, None, True, "1", 0, -1, 100_001),
    (EntryKind.RECORDS, "digest"): (ABSENT, None, 1),
    (EntryKind.RECORDS, "oldest"): (ABSENT, None, 1, "x", "2026-05-01T12:00:00"),
    (EntryKind.RECORDS, "newest"): (ABSENT, None, 1, "x", "2026-05-01T12:00:00"),
}
VALID: dict[EntryKind, dict[str, Fact]] = {
    EntryKind.OPENED: OPENED,
    EntryKind.CLOSED: CLOSED,
    EntryKind.PURGED: {"what": "session", "reason": "retention"},
    EntryKind.HELD: {"hold": "a", "by": "ann"},
    EntryKind.RELEASED: {"hold": "a", "by": "ann"},
    EntryKind.KEY: {"introduces": "x"},
    EntryKind.RECORDS: RECORDS,
}


def values_of(kind: EntryKind) -> dict[str, Any]:
    values: dict[str, Any] = {"number": 1, "at": moment(BEGIN), "kind": kind.value, **VALID[kind]}
    return values if kind in (EntryKind.KEY, EntryKind.RECORDS) else values | {"session": str(SESSION)}


def check_one(values: Mapping[str, Any]) -> tuple[LedgerCheck, VerificationReport]:
    """Check a ledger whose only entry has these values; its hash fits."""
    report = VerificationReport()
    ledger = LedgerCheck(ORG, 1, b"", {}, report)
    content = canonical(values)
    ledger.add(next_hash(first_hash(ORG), content), content)
    return ledger, report


@pytest.mark.parametrize("kind", list(EntryKind))
def test_entry_of_each_kind_is_accepted_as_written(kind: EntryKind) -> None:
    ledger, report = check_one(values_of(kind))
    assert report.is_good, report.findings
    assert set(ledger.sessions) == (set() if kind in (EntryKind.KEY, EntryKind.RECORDS) else {SESSION})


@pytest.mark.parametrize(
    ("kind", "name", "value"), [(*key, value) for key, values in INVALID.items() for value in values]
)
def test_entry_with_an_invalid_field_is_a_finding(kind: EntryKind, name: str, value: object) -> None:
    values = {**values_of(kind), name: value}
    if value is ABSENT:
        del values[name]
    ledger, report = check_one(values)
    assert found(report) == [(FindingKind.UNREADABLE, 1)]
    assert not ledger.batches
    for one in ledger.sessions.values():
        assert (one.opened_entry, one.closed_entry, one.is_purged) == (0, 0, False)


@pytest.mark.parametrize("kind", [EntryKind.OPENED, EntryKind.CLOSED])
@pytest.mark.parametrize("binds", [1, 2])
def test_entry_binds_facts_of_its_version(kind: EntryKind, binds: int) -> None:
    """The fact `masked` is bound since version 2, so an entry of version 1 says nothing about it."""
    facts: dict[str, Fact] = {"user": "ann", "masked": 3}
    digest = digest_of(facts if binds == 2 else {"user": "ann"})
    ledger, report = check_one({**values_of(kind), "facts": digest, "binds": binds})
    assert report.is_good, report.findings
    one = ledger.sessions[SESSION]
    check_facts = one.opens if kind is EntryKind.OPENED else one.closes
    assert check_facts(facts)
    assert not check_facts({**facts, "user": "bob"})
    assert check_facts({**facts, "masked": 4}) == (binds == 1)


def test_each_entry_of_session_binds_facts_of_its_own_version() -> None:
    facts: dict[str, Fact] = {"user": "ann", "masked": 3}
    old: dict[str, Fact] = {"facts": digest_of({"user": "ann"})}
    new: dict[str, Fact] = {"facts": digest_of(facts), "binds": 2}
    for opened, closed in ((old, new), (new, old)):
        for kinds in ((EntryKind.OPENED, EntryKind.CLOSED), (EntryKind.CLOSED, EntryKind.OPENED)):
            contents: dict[EntryKind, dict[str, Fact]] = {
                EntryKind.OPENED: {**OPENED, **opened},
                EntryKind.CLOSED: {**CLOSED, **closed},
            }
            ledger, _ = check(ledger_of(*((kind, SESSION, contents[kind]) for kind in kinds)))
            one = ledger.sessions[SESSION]
            assert one.opens(facts)
            assert one.closes(facts)
            assert one.opens({**facts, "masked": 4}) == (opened is old)
            assert one.closes({**facts, "masked": 4}) == (closed is old)
            assert not one.closes(None)


def test_entries_of_a_session_state_its_opening_closing_and_purge() -> None:
    closed: dict[str, Fact] = {**CLOSED, "segments": 3, "size": 700, "complete": False}
    purged: dict[str, Fact] = {"what": "recording", "reason": "retention"}
    ledger, report = check(
        ledger_of(
            (EntryKind.OPENED, SESSION, OPENED),
            (EntryKind.CLOSED, SESSION, closed),
            (EntryKind.PURGED, SESSION, purged),
        )
    )
    assert report.is_good, report.findings
    one = ledger.sessions[SESSION]
    assert (one.opened_entry, one.closed_entry, one.purged_entry) == (1, 2, 3)
    assert (one.started, one.segments, one.size, one.last) == (BEGIN, 3, 700, b"\xab" * 32)
    assert (one.is_complete, one.is_purged, one.is_recording_purged) == (False, False, True)
    fresh = Stated()
    assert (fresh.is_complete, fresh.is_purged, fresh.is_recording_purged) == (True, False, False)


def purge(what: str) -> tuple[EntryKind, UUID, Mapping[str, Fact]]:
    return EntryKind.PURGED, SESSION, {"what": what, "reason": "retention"}


def hold(kind: EntryKind, name: str) -> tuple[EntryKind, UUID, Mapping[str, Fact]]:
    return kind, SESSION, {"hold": name, "by": "ann"}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([purge("session")], []),
        ([hold(EntryKind.HELD, "a"), purge("session")], [(FindingKind.HELD, 2)]),
        ([hold(EntryKind.HELD, "a"), hold(EntryKind.RELEASED, "a"), purge("session")], []),
        ([hold(EntryKind.HELD, "a"), hold(EntryKind.RELEASED, "b"), purge("recording")], [(FindingKind.HELD, 3)]),
        (
            [hold(EntryKind.HELD, "a"), hold(EntryKind.HELD, "b"), hold(EntryKind.RELEASED, "a"), purge("session")],
            [(FindingKind.HELD, 4)],
        ),
        ([purge("session"), hold(EntryKind.HELD, "a")], []),
        ([hold(EntryKind.RELEASED, "a"), purge("session")], []),
    ],
)
def test_purge_of_a_session_under_legal_hold_is_a_finding(
    events: list[tuple[EntryKind, UUID, Mapping[str, Fact]]], expected: list[tuple[FindingKind, int]]
) -> None:
    ledger, report = check(ledger_of(*events))
    assert found(report) == expected
    assert ledger.sessions[SESSION].is_recording_purged


@pytest.mark.parametrize("kinds", [("session", "recording"), ("recording", "session")])
def test_session_stays_purged_whatever_the_order_of_purges(kinds: tuple[str, str]) -> None:
    ledger, report = check(ledger_of(*map(purge, kinds)))
    assert report.is_good
    assert ledger.sessions[SESSION].is_purged
    assert ledger.sessions[SESSION].purged_entry == 2


@pytest.mark.parametrize("kind", [EntryKind.OPENED, EntryKind.CLOSED])
def test_second_opening_or_closing_is_a_finding_and_the_first_one_counts(kind: EntryKind) -> None:
    other: dict[str, Fact] = {**VALID[kind], "facts": digest_of({"user": "bob"})}
    events = [(EntryKind.OPENED, SESSION, OPENED), (EntryKind.CLOSED, SESSION, CLOSED), (kind, SESSION, other)]
    ledger, report = check(ledger_of(*events))
    assert found(report) == [(FindingKind.DOUBLED, 3)]
    one = ledger.sessions[SESSION]
    assert (one.opened_entry, one.closed_entry) == (1, 2)
    assert one.opens({})
    assert one.closes({})


def test_closing_without_an_opening_is_a_finding_only_in_a_whole_ledger() -> None:
    writer = ledger_of((EntryKind.KEY, None, {}), (EntryKind.CLOSED, SESSION, CLOSED))
    assert found(check(writer)[1]) == [(FindingKind.MISSING, 2)]
    assert found(check(writer, first=2, since=BEGIN + 5 * SECOND)[1]) == []


def test_entry_earlier_than_the_entry_before_it_is_a_finding() -> None:
    report = VerificationReport()
    ledger = LedgerCheck(ORG, 1, b"", {}, report)
    before = first_hash(ORG)
    for number, seconds in enumerate((5, 5, 4, 6), 1):
        content = canonical({"number": number, "at": moment(BEGIN + seconds * SECOND), "kind": "key"})
        before = next_hash(before, content)
        ledger.add(before, content)
    assert found(report) == [(FindingKind.UNREADABLE, 3)]
    assert ledger.at == BEGIN + 6 * SECOND


@pytest.mark.parametrize(
    ("begins", "batches", "expected"),
    [
        (1, [(1, 2), (3, 1)], []),
        (1, [(2, 2)], [(FindingKind.MISSING, 1)]),
        (1, [(1, 2), (4, 1)], [(FindingKind.MISSING, 2)]),
        (1, [(1, 2), (2, 1)], [(FindingKind.MISSING, 2)]),
        (2, [(1, 9), (10, 2), (12, 1)], []),  # a part of the ledger begins with any record
        (2, [(1, 9), (10, 2), (13, 1)], [(FindingKind.MISSING, 3)]),
    ],
)
def test_gap_between_batches_of_records_is_a_finding(
    begins: int, batches: list[tuple[int, int]], expected: list[tuple[FindingKind, int]]
) -> None:
    contents: list[dict[str, Fact]] = [{**RECORDS, "first": first, "count": count} for first, count in batches]
    writer = ledger_of(*((EntryKind.RECORDS, None, content) for content in contents))
    ledger, report = check(writer, first=begins, since=BEGIN + 10 * SECOND)
    assert found(report) == expected
    assert [(one.first, one.count) for one in ledger.batches] == batches[begins - 1 :]
    assert ledger.records == max(first + count - 1 for first, count in batches)


def test_batch_of_records_is_read_from_its_entry_only() -> None:
    writer = ledger_of((EntryKind.KEY, None, {}), (EntryKind.RECORDS, None, RECORDS))
    expected = RecordBatch(2, 1, 2, "ab" * 32, BEGIN, BEGIN + SECOND)
    assert batch_of(writer.entries[1]) == expected
    assert expected.last == 2
    for content in (b"x", b"{}", writer.entries[0].content, canonical({**RECORDS, "count": 0})):
        assert batch_of(LedgerEntry(ORG, 2, BEGIN, EntryKind.RECORDS, None, content, b"")) is None
    whole = canonical({**RECORDS, "count": 100_000})
    assert batch_of(LedgerEntry(ORG, 2, BEGIN, EntryKind.RECORDS, None, whole, b"")) is not None


@pytest.mark.parametrize(
    ("since", "until", "is_inside"),
    [
        (None, None, True),
        (0, None, True),
        (10, None, True),
        (11, None, False),
        (None, -1, False),
        (None, 0, True),
        (None, 10, True),
        (3, 4, True),
        (-5, -1, False),
        (11, 20, False),
        (-5, 20, True),
    ],
)
def test_batch_overlaps_every_time_range_that_touches_it(
    since: int | None, until: int | None, *, is_inside: bool
) -> None:
    """The batch is about what happened from second 0 to second 10."""
    batch = RecordBatch(1, 1, 2, "", BEGIN, BEGIN + 10 * SECOND)
    bounds = [None if one is None else BEGIN + timedelta(seconds=one) for one in (since, until)]
    assert batch.overlaps(*bounds) == is_inside


def test_writer_never_sets_time_back_and_counts_records() -> None:
    writer = LedgerWriter(ORG, LedgerHead(4, b"x", BEGIN + 5 * SECOND, 7))
    early = writer.add(EntryKind.RECORDS, BEGIN, None, **RECORDS)
    late = writer.add(EntryKind.OPENED, BEGIN + 9 * SECOND, SESSION, **OPENED)
    assert [(one.number, one.at) for one in (early, late)] == [(5, BEGIN + 5 * SECOND), (6, BEGIN + 9 * SECOND)]
    assert writer.head == LedgerHead(6, late.hash, BEGIN + 9 * SECOND, 9)
    assert late.hash == next_hash(next_hash(b"x", early.content), late.content)
    assert writer.entries == [early, late]
