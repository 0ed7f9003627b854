"""The report of a verification, and its JSON."""

from __future__ import annotations

from uuid import UUID

from tests.support.proofs import BEGIN, ORG

from postern.proof.proof_findings import MOST, Finding, FindingKind, VerificationReport


def test_report_is_good_until_a_finding_is_added() -> None:
    report = VerificationReport()
    assert report.is_good
    report.add(FindingKind.HELD, "it was purged", entry=3)
    assert not report.is_good
    assert report.findings == [Finding(FindingKind.HELD, "it was purged", entry=3)]


def test_all_findings_are_counted_and_the_first_thousand_are_listed() -> None:
    report = VerificationReport()
    for number in range(MOST + 5):
        report.add(FindingKind.MISSING, "x", entry=number)
    assert (report.count, len(report.findings)) == (MOST + 5, MOST)
    assert report.findings[-1].entry == MOST - 1
    assert report.as_json()["count"] == MOST + 5


def test_report_as_json_has_every_field_of_the_report() -> None:
    report = VerificationReport(organisation=ORG, since=BEGIN, entries=4, proven_to=3, proven_at=BEGIN)
    report.notes.append("a note")
    report.add(FindingKind.CHANGED, "x", session=UUID(int=5), segment=2, begin=0, end=9)
    report.add(FindingKind.UNPROVEN, "y")
    found = report.as_json()
    assert set(found) == {"good", *VerificationReport.__slots__}
    assert (found["good"], found["organisation"], found["until"]) == (False, str(ORG), None)
    assert found["since"] == found["proven_at"] == "2026-05-01T12:00:00.000000Z"
    assert (found["entries"], found["proven_to"], found["notes"], found["count"]) == (4, 3, ["a note"], 2)
    empty = {"session": None, "segment": None, "entry": None, "begin": None, "end": None}
    assert found["findings"] == [
        {**empty, "what": "changed", "message": "x", "session": str(UUID(int=5)), "segment": 2, "begin": 0, "end": 9},
        {**empty, "what": "unproven", "message": "y"},
    ]
    assert VerificationReport().as_json()["good"] is True
