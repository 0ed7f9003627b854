"""Rules about fields of documents: which paths their patterns match, and answers whose shape shows a value."""

from __future__ import annotations

from uuid import UUID

import pytest

from postern.domain.rules.masking import MaskingRule, Strictness
from postern.domain.targets.target_schema import ColumnRef, Origin
from postern.inspection.masking.masking_interceptor import NOT_INSPECTED, Masking
from postern.inspection.masking.origins import ColumnPatterns, Sources
from postern.inspection.masking.samples import SampleRows
from postern.interception.events import Column, Operation
from postern.interception.verdicts import FORWARD, Refuse, Verdict

from ..conftest import make_session

NOTHING: frozenset[str] = frozenset()
ZIP = ColumnRef("shop", "customers", "address.zip")
FILE = ColumnRef("shop", "fs.files", "metadata.owner")


@pytest.mark.parametrize(
    ("pattern", "ref", "meant"),
    [
        ("zip", ZIP, True),
        ("address", ZIP, True),
        ("address.zip", ZIP, True),
        ("customers.address", ZIP, True),
        ("customers.address.zip", ZIP, True),
        ("shop.customers.address", ZIP, True),
        ("shop.customers.address.zip", ZIP, True),
        ("SHOP.Customers.Address.ZIP", ZIP, True),
        ("customers.*", ZIP, True),
        ("*.zip", ZIP, True),
        ("customers.a*.z*", ZIP, True),
        ("customers.zip", ZIP, False),
        ("orders.address.zip", ZIP, False),
        ("other.customers.address.zip", ZIP, False),
        ("address.street", ZIP, False),
        ("customers.address.zip.code", ZIP, False),
        ("customers", ZIP, False),
        ("shop", ZIP, False),
        ("shop.customers", ZIP, False),
        ("ip", ZIP, False),
        ("files.metadata", FILE, True),
        ("fs.files.metadata.owner", FILE, True),
        ("shop.fs.files.metadata", FILE, True),
        ("fs.chunks.metadata", FILE, False),
        ("cluster.shop.customers.address.zip", ZIP, True),  # more names than the target has
    ],
)
def test_pattern_matches_a_path_and_the_fields_around_it(pattern: str, ref: ColumnRef, meant: bool) -> None:
    patterns = ColumnPatterns([pattern])
    assert patterns.match(ref, NOTHING) is meant
    assert patterns.match(ref, NOTHING) is meant  # from the cache


@pytest.mark.parametrize(
    ("pattern", "path", "meant"),
    [
        ("zip", "address.*", True),
        ("anything", "address.*", True),
        ("anything", "*", True),
        ("customers.address", "address.*", True),
        ("customers.address.zip", "address.*", True),
        ("customers.address.zip", "*", True),
        ("shop.customers.address.zip", "address.*", True),
        ("customers.email", "*", True),
        ("customers.email", "address.*", False),
        ("customers.address.zip", "address.zip.*", True),
        ("customers.address.zip", "address.street.*", False),
        ("orders.address.zip", "*", False),
        ("other.customers.address.zip", "*", False),
        ("tag:pii", "*", False),
    ],
)
def test_pattern_matches_everything_in_a_field(pattern: str, path: str, meant: bool) -> None:
    assert ColumnPatterns([pattern]).match(ColumnRef("shop", "customers", path), NOTHING) is meant


@pytest.mark.parametrize(
    ("pattern", "name", "meant"),
    [("zip", "address.zip", True), ("address", "address.zip", True), ("a*p", "address.zip", True),
     ("street", "address.zip", False), ("address.zip", "address.zip", False)],
)  # fmt: skip
def test_names_in_an_answer_can_be_paths(pattern: str, name: str, meant: bool) -> None:
    assert ColumnPatterns([pattern]).match_name(name) is meant


def test_cached_matches_are_bounded() -> None:
    patterns = ColumnPatterns(["zip", "customers.a.b"])
    for number in range(10_000):
        assert patterns.match(ColumnRef("shop", "customers", f"a.b.c{number}"), NOTHING)
        assert not patterns.match_name(f"c{number}")
    assert len(patterns._matched) <= 4096
    assert len(patterns._matched_names) <= 4096


class DocumentSample:
    """Origins of answers whose shape depends on these columns."""

    def __init__(self, shape: frozenset[ColumnRef] | None) -> None:
        self._shape = shape

    def record_statement(self, statement: str) -> None: ...

    def unread(self, statement: str) -> None:
        return None

    def of(self, statement: str, columns: tuple[Column, ...]) -> Sources:
        return (Origin(),) * len(columns)

    def shape(self, statement: str) -> frozenset[ColumnRef] | None:
        return self._shape

    def tags(self, column: ColumnRef) -> frozenset[str]:
        return NOTHING


def _see(shape: frozenset[ColumnRef] | None, strictness: Strictness) -> tuple[Verdict, int]:
    rule = MaskingRule(UUID(int=0), UUID(int=0), "pii", columns=("customers.address.zip",), strictness=strictness)
    masking = Masking(frozenset(), (rule,), origins=DocumentSample(shape))
    session = make_session()
    masking.see(Operation(1, "q"), session)
    rows = SampleRows(["x"], [["1"]])
    rows.exchange = 1
    return masking.see(rows, session), sum(note.text == NOT_INSPECTED for note in session.notes)


@pytest.mark.parametrize("shape", [frozenset({ZIP}), frozenset({ColumnRef("shop", "customers", "*")}), None])
def test_strict_rule_denies_an_answer_whose_shape_shows_a_value(shape: frozenset[ColumnRef] | None) -> None:
    """Attack: `{x: {$cond: [{$lt: ["$address.zip", "5"]}, 1, "$$REMOVE"]}}`; whether there is an x is a bit of it."""
    verdict, _ = _see(shape, Strictness.STRICT)
    assert isinstance(verdict, Refuse)
    verdict, notes = _see(shape, Strictness.BEST_EFFORT)
    assert verdict is FORWARD
    assert notes == 1


@pytest.mark.parametrize("shape", [frozenset(), frozenset({ColumnRef("shop", "customers", "name")})])
def test_shape_that_depends_on_other_fields_passes(shape: frozenset[ColumnRef]) -> None:
    for strictness in Strictness:
        assert _see(shape, strictness) == (FORWARD, 0)
