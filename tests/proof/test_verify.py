"""Sessions of an export or a store, against what the ledger says of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from tests.support.proofs import BEGIN, ORG, SECOND, Made, a_record, records

from postern.domain.sessions.ledger import EntryKind
from postern.proof.canonical import canonical
from postern.proof.proof_checkpoints import format_line
from postern.proof.proof_copies import measure
from postern.proof.proof_findings import FindingKind, VerificationReport
from postern.proof.proof_ledger import LedgerWriter, first_hash, next_hash
from postern.proof.proof_sessions import VerifiedSession, make_session
from postern.proof.proof_signatures import SignatureCheck
from postern.proof.verify import Copy, VerificationScope, verify

FIRST, SECOND_ID, THIRD, FOURTH = (UUID(int=1000 + number) for number in range(1, 5))


def scope(**values: object) -> VerificationScope:
    return replace(VerificationScope(ORG, 1, first_hash(ORG)), **values)  # type: ignore[arg-type]


def bounds_of(since: int | None, until: int | None) -> dict[str, datetime | None]:
    """Return the bounds of a scope from seconds after the begin."""
    found = {"since": since, "until": until}
    return {name: None if one is None else BEGIN + timedelta(seconds=one) for name, one in found.items()}


def sessions_of(made: Made) -> list[VerifiedSession]:
    return [make_session(*made.sessions[key]) for key in sorted(made.sessions)]


def run(
    made: Made, of: VerificationScope | None = None, sessions: list[VerifiedSession] | None = None
) -> VerificationReport:
    """Verify without an export: as values."""
    copies = [Copy(*key, *measure([data])) for key, data in sorted(made.segments.items())]
    lines = [format_line(one) for one in made.checkpoints]
    entries = [(one.hash, one.content) for one in made.entries]
    signatures = SignatureCheck(ORG, [made.key.public], VerificationReport())
    told_of = sessions_of(made) if sessions is None else sessions
    return verify(of or scope(), lines, entries, made.records, told_of, copies, signatures)


def found(report: VerificationReport) -> list[tuple[FindingKind, UUID | None]]:
    return [(finding.what, finding.session) for finding in report.findings]


def test_report_has_its_scope_and_counts() -> None:
    report = run(a_record(), scope(since=BEGIN, until=BEGIN + timedelta(days=1)))
    assert report.is_good, report.findings
    assert (report.organisation, report.since, report.until) == (ORG, BEGIN, BEGIN + timedelta(days=1))
    assert (report.sessions_proven, report.segments_proven, report.sessions_incomplete) == (4, 6, 0)


@pytest.mark.parametrize(
    ("since", "until", "inside"),
    [
        (None, None, (1, 2, 3, 4)),
        (20, None, (2, 3, 4)),
        (21, None, (3, 4)),
        (None, 20, (1, 2)),
        (None, 19, (1,)),
        (20, 30, (2, 3)),
        (50, None, ()),
    ],
)
def test_only_sessions_that_began_in_the_time_range_are_expected(
    since: int | None, until: int | None, inside: tuple[int, ...]
) -> None:
    """Session n begins ten times n seconds after the begin."""
    made = a_record()
    bounds = bounds_of(since, until)
    wanted = [one for one in sessions_of(made) if one.session_id.int - 1000 in inside]
    made.segments = {key: data for key, data in made.segments.items() if key[0].int - 1000 in inside}
    report = run(made, scope(**bounds), wanted)
    assert report.is_good, report.findings
    assert report.sessions_proven == len(inside)
    none = run(replace(made, segments={}), scope(**bounds), [])
    assert found(none) == [(FindingKind.MISSING, UUID(int=1000 + number)) for number in inside]
    everything = run(replace(made, segments={}), scope(**bounds, with_segments=False))
    assert all("outside of the exported range" in one.message for one in everything.findings)
    outside = [number for number in (1, 2, 3, 4) if number not in inside]
    assert found(everything) == [(FindingKind.FOREIGN, UUID(int=1000 + number)) for number in outside]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ((1, 2, 3, 4), []),
        ((1, 2, 2, 3, 4), [(FindingKind.DOUBLED, SECOND_ID)]),
        ((1, 2, 1, 3, 4), [(FindingKind.DOUBLED, FIRST)]),
        ((1, 3, 2, 4), [(FindingKind.REORDERED, SECOND_ID)]),
        ((1, 2, 4), [(FindingKind.MISSING, THIRD)]),
    ],
)
def test_missing_repeated_or_reordered_session_is_a_finding(
    order: tuple[int, ...], expected: list[tuple[FindingKind, UUID]]
) -> None:
    made = a_record()
    sessions = sessions_of(made)
    report = run(made, sessions=[sessions[number - 1] for number in order])
    assert found(report) == expected


@pytest.mark.parametrize(
    ("is_live", "entry", "is_pending"),
    [
        (True, None, True),
        (True, 9, True),
        (True, 8, False),  # the ledger has come further, and does not know the session
        (False, None, False),
        (False, 9, False),
    ],
)
def test_session_without_a_ledger_entry_is_pending_only_in_a_live_store(
    entry: int | None, *, is_live: bool, is_pending: bool
) -> None:
    made, other = a_record(), Made()
    other.add_session(9)
    [extra] = sessions_of(other)
    made.segments |= other.segments
    report = run(made, scope(is_live=is_live), [*sessions_of(made), replace(extra, entry=entry)])
    assert found(report) == ([] if is_pending else [(FindingKind.FOREIGN, extra.session_id)])
    assert all("not in the ledger" in one.message for one in report.findings)
    assert (report.sessions_pending, report.sessions_proven) == (1 if is_pending else 0, 4)


@pytest.mark.parametrize(
    ("is_closed", "has_checkpoint", "expected"),
    [
        (True, True, (5, 0, 0)),
        (True, False, (4, 0, 1)),
        (False, True, (4, 1, 0)),
        (False, False, (4, 0, 1)),
    ],
)
def test_session_is_counted_as_proven_open_or_pending(
    expected: tuple[int, int, int], *, is_closed: bool, has_checkpoint: bool
) -> None:
    made = a_record()
    made.add_session(5, is_closed=is_closed)
    if has_checkpoint:
        made.checkpoint()
    report = run(made)
    assert report.is_good, report.findings
    assert (report.sessions_proven, report.sessions_open, report.sessions_pending) == expected


def test_session_closed_without_all_segments_is_counted_as_incomplete() -> None:
    report = run(incomplete())
    assert (report.sessions_proven, report.sessions_incomplete) == (1, 1), report.findings


def incomplete() -> Made:
    """Return a session that the ledger closed although segments never came."""
    made = Made()
    made.add_session(1)
    entry = made.entries[1]
    content = canonical({**json.loads(entry.content), "complete": False})
    made.entries[1] = replace(entry, content=content, hash=next_hash(made.entries[0].hash, content))
    made.writer = LedgerWriter(ORG, replace(made.writer.head, hash=made.entries[1].hash))
    made.checkpoint()
    return made


def purge(made: Made, session: UUID, what: str, *, has_checkpoint: bool = True) -> None:
    made.writer.add(EntryKind.PURGED, BEGIN + 60 * SECOND, session, what=what, reason="retention")
    made.entries = made.writer.entries
    if has_checkpoint:
        made.checkpoint()


def without(made: Made, session: UUID, *, rows: bool = True, facts: bool = True) -> Made:
    made.segments = {key: data for key, data in made.segments.items() if key[0] != session}
    if facts:
        del made.sessions[session]
    elif rows:
        made.sessions[session] = (made.sessions[session][0], [])
    return made


@pytest.mark.parametrize(("has_checkpoint", "notes"), [(True, 0), (False, 1)])
def test_purged_session_is_counted_and_not_a_finding(notes: int, *, has_checkpoint: bool) -> None:
    made = a_record()
    purge(made, FIRST, "session", has_checkpoint=has_checkpoint)
    report = run(without(made, FIRST))
    assert report.is_good, report.findings
    assert (report.sessions_purged, report.sessions_proven, len(report.notes)) == (1, 3, notes)


@pytest.mark.parametrize(
    ("what", "rows", "undone", "notes"),
    [
        ("session", False, 1, 1),  # the session's row is left, and no segment
        ("session", True, 1, 2),  # rows of segments are left as well
        ("recording", True, 1, 1),
        ("recording", False, 0, 0),
    ],
)
def test_unfinished_purge_is_a_note_and_not_a_finding(what: str, undone: int, notes: int, *, rows: bool) -> None:
    made = a_record()
    purge(made, FIRST, what)
    report = run(without(made, FIRST, rows=not rows, facts=False))
    assert report.is_good, report.findings
    assert (report.purges_undone, len(report.notes), report.sessions_purged) == (undone, notes, 0)
    assert report.sessions_proven == 4


def _edit_opening(one: VerifiedSession) -> VerifiedSession:
    return replace(one, opening={**one.opening, "user": "bob@example.com"})


def _edit_closing(one: VerifiedSession) -> VerifiedSession:
    return replace(one, closing={**(one.closing or {}), "end_reason": "killed"})


def _remove_closing(one: VerifiedSession) -> VerifiedSession:
    return replace(one, closing=None)


def _write_large_number(one: VerifiedSession) -> VerifiedSession:
    return replace(one, opening={**one.opening, "user": 2**60})


@pytest.mark.parametrize(
    ("change", "entry"),
    [(_edit_opening, 1), (_edit_closing, 2), (_remove_closing, 2), (_write_large_number, None)],
)
def test_changed_facts_of_a_session_are_a_finding(
    change: Callable[[VerifiedSession], VerifiedSession], entry: int | None
) -> None:
    made = a_record()
    first, *others = sessions_of(made)
    report = run(made, sessions=[change(first), *others])
    assert [(one.what, one.session, one.entry) for one in report.findings] == [(FindingKind.CHANGED, FIRST, entry)]
    assert report.sessions_proven == 3


def test_live_store_may_close_session_before_ledger_does() -> None:
    made = a_record()
    made.add_session(5, is_closed=False)
    made.checkpoint()
    *others, last = sessions_of(made)
    report = run(made, sessions=[*others, replace(last, closing={"end_reason": "killed"})])
    assert report.is_good, report.findings
    assert report.sessions_open == 1


def test_missing_record_is_excused_by_age_at_the_given_time() -> None:
    made = records(a_record())
    made.records[3] = replace(made.records[3], facts=None)
    assert [one.what for one in run(made).findings] == [FindingKind.MISSING]
    assert run(made, scope(at=BEGIN + timedelta(days=366))).is_good
    made.records[3] = replace(made.records[3], has_later=True)
    assert run(made).is_good


@pytest.mark.parametrize(("since", "until", "count"), [(None, None, 4), (0, 0, 4), (1, None, 0), (None, -1, 0)])
def test_only_records_of_the_time_range_are_expected(since: int | None, until: int | None, count: int) -> None:
    made = records(a_record())
    bounds = bounds_of(since, until)
    made.records = made.records if count else []
    report = run(replace(made, segments={}), scope(**bounds, with_segments=False))
    assert FindingKind.MISSING not in {one.what for one in report.findings}
    assert report.records_proven == count
