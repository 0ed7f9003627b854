"""Which checkpoints are trusted, and which are findings."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from tests.support.proofs import BEGIN, ORG, SECOND

from postern.domain.sessions.ledger import Checkpoint, LedgerHead
from postern.proof.proof_checkpoints import format_line, new_key, sign_checkpoint
from postern.proof.proof_findings import FindingKind, VerificationReport
from postern.proof.proof_signatures import SignatureCheck

KEY, NEXT, LAST = (new_key(ORG, BEGIN) for _ in range(3))
FOREIGN = new_key(UUID(int=8), BEGIN)


def checkpoint(number: int, *, by: object = None, introduces: bytes | None = None, content: bytes = b"") -> Checkpoint:
    key = KEY if by is None else by
    assert isinstance(key, type(KEY))
    return sign_checkpoint(key, LedgerHead(number, content or bytes(32)), BEGIN + number * SECOND, introduces)


def check(
    given: list[Checkpoint], anchored: tuple[Checkpoint, ...] = (), *, keys: tuple[bytes, ...] = (KEY.public,)
) -> tuple[list[int], VerificationReport]:
    """Return the numbers of the checkpoints that are trusted, and the report."""
    report = VerificationReport()
    signatures = SignatureCheck(ORG, keys, report)
    for one in given:
        signatures.add(format_line(one))
    for one in anchored:
        signatures.add_anchored(format_line(one))
    return list(signatures.finish()), report


def found(report: VerificationReport) -> list[tuple[FindingKind, int | None]]:
    return [(finding.what, finding.entry) for finding in report.findings]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((1, 2, 9), []),
        ((1, 1), [(FindingKind.DOUBLED, 1)]),
        ((2, 1), [(FindingKind.REORDERED, 1)]),
        ((1, 3, 2, 3), [(FindingKind.REORDERED, 2)]),
        ((1, 2, 2, 3), [(FindingKind.DOUBLED, 2)]),
    ],
)
def test_repeated_or_reordered_checkpoint_of_an_export_is_a_finding(
    numbers: tuple[int, ...], expected: list[tuple[FindingKind, int]]
) -> None:
    trusted, report = check([checkpoint(number) for number in numbers])
    assert found(report) == expected
    assert trusted == sorted(set(numbers))
    assert (report.checkpoints, report.anchored) == (len(numbers), 0)


def test_checkpoint_of_another_organisation_is_a_finding_in_an_export_only() -> None:
    other = checkpoint(2, by=FOREIGN)
    trusted, report = check([checkpoint(1), other], keys=(KEY.public, FOREIGN.public))
    assert (trusted, found(report)) == ([1], [(FindingKind.FOREIGN, None)])
    trusted, report = check([checkpoint(1)], (other,), keys=(KEY.public, FOREIGN.public))
    assert (trusted, found(report), report.anchored) == ([1], [], 0)


def test_line_that_is_not_a_checkpoint_is_a_finding_in_export_and_anchor() -> None:
    for add in (SignatureCheck.add, SignatureCheck.add_anchored):
        report = VerificationReport()
        add(SignatureCheck(ORG, [KEY.public], report), b"x")
        assert found(report) == [(FindingKind.UNREADABLE, None)]


def test_checkpoints_of_anchors_are_trusted_and_counted_separately() -> None:
    trusted, report = check([checkpoint(2), checkpoint(4)], (checkpoint(3), checkpoint(5), checkpoint(3)))
    assert report.is_good
    assert (trusted, report.checkpoints, report.anchored) == ([2, 3, 4, 5], 2, 3)


def test_contradicting_checkpoints_of_one_entry_are_a_rewritten_history() -> None:
    trusted, report = check([checkpoint(2)], (checkpoint(2, content=b"x" * 32),))
    assert (trusted, found(report)) == ([2], [(FindingKind.REWRITTEN, 2)])
    assert (report.checkpoints, report.anchored) == (1, 0)


def test_checkpoint_with_wrong_signature_is_forged() -> None:
    trusted, report = check([checkpoint(1), replace(checkpoint(2), signature=bytes(64)), checkpoint(3)])
    assert (trusted, found(report)) == ([1, 3], [(FindingKind.FORGED, 2)])


def test_ledger_without_a_trusted_checkpoint_is_unproven() -> None:
    assert found(check([])[1]) == [(FindingKind.UNPROVEN, None)]
    trusted, report = check([checkpoint(1, by=NEXT)])
    assert (trusted, found(report)) == ([], [(FindingKind.FORGED, 1), (FindingKind.UNPROVEN, None)])


def test_checkpoint_signed_by_a_replaced_key_is_forged() -> None:
    code_exchange = checkpoint(2, introduces=NEXT.public)
    trusted, report = check([checkpoint(1), code_exchange, checkpoint(3, by=NEXT)])
    assert (trusted, found(report)) == ([1, 2, 3], [])
    trusted, report = check([code_exchange, checkpoint(3), checkpoint(4, by=NEXT)])
    assert (trusted, found(report)) == ([2, 4], [(FindingKind.FORGED, 3)])
    # A second signature for the entry of the hand-over is the same statement.
    trusted, report = check([code_exchange], (checkpoint(2),))
    assert (trusted, found(report)) == ([2], [])


@pytest.mark.parametrize(
    ("given", "trusted", "expected", "notes"),
    [
        # The key that was given is the newest: older checkpoints are covered, if the hand-over is there.
        (["old 1", "old 2 introduces", "new 3"], [3], [], 1),
        (["old 1", "new 3"], [3], [(FindingKind.FORGED, 1)], 0),
        (["old 2 introduces", "new 3", "old 4"], [3], [(FindingKind.FORGED, 4)], 1),
        (["old 2 introduces"], [], [(FindingKind.FORGED, 2), (FindingKind.UNPROVEN, None)], 0),
        (["old 2 introduces other", "new 3"], [3], [(FindingKind.FORGED, 2)], 0),
        (["old 3 introduces", "new 3"], [3], [(FindingKind.DOUBLED, 3), (FindingKind.FORGED, 3)], 0),
    ],
)
def test_checkpoints_of_an_older_key_need_one_that_introduces_the_newer_key(
    given: list[str], trusted: list[int], expected: list[tuple[FindingKind, int | None]], notes: int
) -> None:
    made = []
    for text in given:
        who, number, *rest = text.split()
        introduced = LAST.public if "other" in rest else NEXT.public
        by = KEY if who == "old" else NEXT
        made.append(checkpoint(int(number), by=by, introduces=introduced if rest else None))
    numbers, report = check(made, keys=(NEXT.public,))
    assert (numbers, found(report), len(report.notes)) == (trusted, expected, notes)
