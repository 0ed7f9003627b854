"""The segments of sessions, against the chain that the ledger closed each session with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from uuid import UUID

import pytest
from tests.support.proofs import BEGIN, ORG

from postern.domain.sessions.ledger import Fact, SessionFacts, moment
from postern.domain.sessions.segment import first_link, next_link
from postern.proof.chain import Stated
from postern.proof.proof_findings import FindingKind, VerificationReport
from postern.proof.proof_ledger import digest_of
from postern.proof.proof_recordings import SegmentCheck
from postern.proof.proof_sessions import ListedSegment, VerifiedSession, make_session

SESSION, OTHER = UUID(int=1001), UUID(int=1002)


def listed(*numbers: int) -> list[ListedSegment]:
    return [ListedSegment(number, 100 + number, sha256(b"%d" % number).digest()) for number in numbers]


def stated(session: UUID, segments: Sequence[ListedSegment], *, is_closed: bool = True, purged: str = "") -> Stated:
    """Return what a ledger says of a session that has these segments."""
    one = Stated()
    one.open(1, {"facts": digest_of({}), "started": moment(BEGIN)})
    chain = first_link(ORG, session)
    for segment in segments:
        chain = next_link(chain, segment.number, segment.size, segment.digest)
    if is_closed:
        size = sum(segment.size for segment in segments)
        values = {"facts": digest_of({}), "complete": True, "segments": len(segments), "size": size}
        one.close(2, {**values, "last": chain.hex()})
    if purged:
        one.is_recording_purged, one.purged_entry = True, 3
    return one


def session_of(session: UUID, segments: Sequence[ListedSegment]) -> VerifiedSession:
    opening: dict[str, Fact] = {}
    return make_session(SessionFacts(session, ORG, BEGIN, opening, None, None, {}, 1), segments)


class Check:
    """Expects the segments of one session and adds those that are there."""

    def __init__(
        self,
        rows: Sequence[ListedSegment],
        sealed: Sequence[ListedSegment] | None = None,
        *,
        is_closed: bool = True,
        purged: str = "",
        is_proven: bool = True,
        with_segments: bool = True,
        is_live: bool = False,
    ) -> None:
        self.report = VerificationReport()
        self.segments = SegmentCheck(self.report, with_segments=with_segments, is_live=is_live)
        said = stated(SESSION, rows if sealed is None else sealed, is_closed=is_closed, purged=purged)
        self.is_good = self.segments.expect(ORG, session_of(SESSION, rows), said, is_proven=is_proven)

    def add(self, *there: ListedSegment, problem: str = "", session: UUID = SESSION) -> Check:
        for one in there:
            self.segments.add(session, one.number, one.size, one.digest, problem, lambda: (3, 9))
        return self

    def finish(self) -> list[tuple[FindingKind, int | None, int | None, int | None]]:
        self.segments.finish()
        return [(one.what, one.segment, one.begin, one.end) for one in self.report.findings]


def counts(check: Check) -> tuple[int, int, int]:
    return check.report.segments_proven, check.report.bytes_proven, check.report.segments_unproven


def test_segments_that_match_their_list_are_proven() -> None:
    check = Check(listed(1, 2, 3)).add(*listed(1, 2, 3))
    assert (check.is_good, check.finish()) == (True, [])
    assert counts(check) == (3, 306, 0)


@pytest.mark.parametrize(
    ("is_closed", "is_proven", "with_segments", "expected"),
    [
        (True, True, True, (2, 203, 0)),
        (True, True, False, (0, 0, 2)),
        (True, False, True, (0, 0, 2)),
        (False, False, True, (0, 0, 2)),
    ],
)
def test_segments_are_proven_only_if_read_closed_and_under_a_checkpoint(
    expected: tuple[int, int, int], *, is_closed: bool, is_proven: bool, with_segments: bool
) -> None:
    check = Check(listed(1, 2), is_closed=is_closed, is_proven=is_proven, with_segments=with_segments)
    if with_segments:
        check.add(*listed(1, 2))
    assert (check.is_good, check.finish()) == (True, [])
    assert counts(check) == expected


@pytest.mark.parametrize(
    ("rows", "sealed", "expected"),
    [
        ((), (), []),
        ((1, 2), (1, 2), []),
        ((1, 3), (1, 2, 3), [(FindingKind.MISSING, 2)]),
        ((2, 3), (1, 2, 3), [(FindingKind.MISSING, 1)]),
        ((1, 2), (1, 2, 3), [(FindingKind.MISSING, 3)]),
        ((), (1, 2), [(FindingKind.MISSING, 1), (FindingKind.MISSING, 2)]),
        ((1, 2, 3), (1, 2), [(FindingKind.FOREIGN, 3)]),
        ((1, 2, 3, 4), (1, 2), [(FindingKind.FOREIGN, 3), (FindingKind.FOREIGN, 4)]),
        ((1,), (), [(FindingKind.FOREIGN, 1)]),
        ((2, 1), (1, 2), [(FindingKind.CHANGED, None)]),
    ],
)
def test_list_of_segments_must_match_the_closing_of_the_session(
    rows: tuple[int, ...], sealed: tuple[int, ...], expected: list[tuple[FindingKind, int | None]]
) -> None:
    check = Check(listed(*rows), listed(*sealed))
    assert check.is_good == (not expected)
    found = [(one.what, one.segment) for one in check.report.findings]
    assert found == expected
    assert {one.entry for one in check.report.findings} <= {2}
    assert check.report.segments_unproven == (len(rows) if expected else 0)


@pytest.mark.parametrize("change", [{"size": 1}, {"digest": bytes(32)}])
def test_changed_row_of_a_segment_is_a_finding(change: dict[str, object]) -> None:
    rows = listed(1, 2)
    rows[0] = replace(rows[0], **change)  # type: ignore[arg-type]
    check = Check(rows, listed(1, 2))
    assert [(one.what, one.segment) for one in check.report.findings] == [(FindingKind.CHANGED, None)]


def test_row_of_a_segment_with_a_short_digest_is_missing() -> None:
    rows = listed(1, 2)
    rows[1] = replace(rows[1], digest=b"x")
    assert [(one.what, one.segment) for one in Check(rows, listed(1, 2)).report.findings] == [(FindingKind.MISSING, 2)]


def test_findings_of_missing_segments_are_limited_to_a_hundred() -> None:
    assert Check([], listed(*range(1, 100))).report.count == 99
    assert Check([], listed(*range(1, 102))).report.count == 100


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ((1, 2, 3), []),
        ((), [(FindingKind.MISSING, 1, 0, 101), (FindingKind.MISSING, 2, 0, 102), (FindingKind.MISSING, 3, 0, 103)]),
        ((2, 3), [(FindingKind.MISSING, 1, 0, 101)]),
        ((1, 3), [(FindingKind.MISSING, 2, 0, 102)]),
        ((1, 2, 3, 4), [(FindingKind.FOREIGN, 4, None, None)]),
        ((1, 1, 2, 3), [(FindingKind.DOUBLED, 1, None, None)]),
        ((2, 1, 3), [(FindingKind.REORDERED, 1, None, None), (FindingKind.MISSING, 1, 0, 101)]),
    ],
)
def test_missing_additional_repeated_or_reordered_segment_is_a_finding(
    there: tuple[int, ...], expected: list[tuple[FindingKind, int | None, int | None, int | None]]
) -> None:
    assert Check(listed(1, 2, 3)).add(*listed(*there)).finish() == expected


def test_unlisted_segments_of_an_open_session_with_gaps_are_foreign() -> None:
    check = Check(listed(2, 5, 7), is_closed=False, is_proven=False)
    assert check.add(*listed(1, 2, 3, 5, 7)).finish() == [
        (FindingKind.FOREIGN, number, None, None) for number in (1, 3)
    ]
    assert counts(check) == (0, 0, 3)


@pytest.mark.parametrize("change", [{"size": 1}, {"digest": bytes(32)}])
def test_changed_segment_is_located(change: dict[str, object]) -> None:
    changed = replace(listed(2)[0], **change)  # type: ignore[arg-type]
    check = Check(listed(1, 2)).add(*listed(1), changed)
    assert check.finish() == [(FindingKind.CHANGED, 2, 3, 9)]
    assert counts(check) == (1, 101, 0)


def test_change_that_cannot_be_located_covers_the_whole_segment() -> None:
    check = Check(listed(1))
    check.segments.add(SESSION, 1, 5, bytes(32), "", lambda: None)
    assert check.finish() == [(FindingKind.CHANGED, 1, 0, 101)]


def test_unreadable_segment_is_a_finding() -> None:
    check = Check(listed(1)).add(ListedSegment(1, 0, b""), problem="it ends early")
    assert check.finish() == [(FindingKind.UNREADABLE, 1, 0, 101)]
    assert counts(check) == (0, 0, 0)


@pytest.mark.parametrize("is_live", [False, True])
def test_unlisted_segment_is_unproven_in_a_live_store_and_foreign_in_an_export(*, is_live: bool) -> None:
    check = Check(listed(1), is_live=is_live).add(*listed(1, 2))
    check.add(*listed(1), session=OTHER)
    foreign = [(FindingKind.FOREIGN, 2, None, None), (FindingKind.FOREIGN, 1, None, None)]
    assert check.finish() == ([] if is_live else foreign)
    assert counts(check) == (1, 101, 2 if is_live else 0)


def test_segments_of_a_skipped_session_are_ignored() -> None:
    check = Check(listed(1))
    check.segments.skip(OTHER)
    check.add(*listed(1)).add(*listed(1, 2), session=OTHER)
    assert check.finish() == []
    assert counts(check) == (1, 101, 0)


def test_segments_of_sessions_in_the_wrong_order_are_reordered() -> None:
    check = Check(listed(1))
    check.segments.skip(OTHER)
    check.add(*listed(1), session=OTHER).add(*listed(1))
    assert [one[0] for one in check.finish()] == [FindingKind.REORDERED, FindingKind.MISSING]


def test_purged_recording_needs_no_segments() -> None:
    check = Check([], listed(1, 2), purged="recording")
    assert (check.is_good, check.finish(), check.report.purges_undone) == (True, [], 0)
    assert not check.report.notes
    still = Check(listed(1, 2), purged="recording").add(*listed(1))
    assert (still.is_good, still.finish(), still.report.purges_undone, len(still.report.notes)) == (True, [], 1, 1)
    assert counts(still) == (0, 0, 0)


def test_missing_segments_are_not_reported_if_segments_are_not_read() -> None:
    assert Check(listed(1), with_segments=False).finish() == []


def test_segment_chain_of_another_session_is_a_finding() -> None:
    report = VerificationReport()
    segments = SegmentCheck(report, with_segments=True, is_live=False)
    assert not segments.expect(ORG, session_of(OTHER, listed(1)), stated(SESSION, listed(1)), is_proven=True)
    assert [one.what for one in report.findings] == [FindingKind.CHANGED]


def test_closing_size_must_be_the_sum_of_its_segments() -> None:
    said = stated(SESSION, listed(1, 2))
    said.size += 1
    report = VerificationReport()
    segments = SegmentCheck(report, with_segments=True, is_live=False)
    assert not segments.expect(ORG, session_of(SESSION, listed(1, 2)), said, is_proven=True)
