"""Marks of cells, as interceptors make them."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.support.protocols import postgres_test_messages as pg

from postern.domain.rules.masking import InfoType, MaskingRule, Strategy, TypeGroup
from postern.domain.sessions.results import Mask
from postern.inspection.masked_cells import mark_cells
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.events import Mark, compare_cells
from postern.interception.pipeline import SessionView
from postern.protocols.postgres.wire.postgres_messages import PostgresField
from postern.protocols.postgres.wire.postgres_rows import PostgresLayout, PostgresRows

ONE, TWO = Mask("one", "hash"), Mask("two", "hash")


def rows(*texts: str) -> PostgresRows:
    block = b"".join(pg.data_row(text.encode()) for text in texts)
    return PostgresRows(1, PostgresLayout((PostgresField("c", 25, 0),)), block, len(texts))


def changed(bits: bytes, count: int) -> PostgresRows:
    """Rows of which these are replaced."""
    block = rows(*["old"] * count)
    block.replace(0, [b"new" if bits[row // 8] >> row % 8 & 1 else b"old" for row in range(count)])
    return block


@pytest.mark.parametrize(
    ("bits", "count", "masks", "marks"),
    [
        pytest.param(b"\x00", 3, [ONE], [], id="nothing changed"),
        pytest.param(b"\x07", 3, [ONE], [Mark(ONE, (0,))], id="all rows"),
        pytest.param(b"\x05", 3, [ONE], [Mark(ONE, (0,), b"\x05")], id="one mask for some rows"),
        pytest.param(
            *(b"\x05\x02", 10, [ONE, TWO, ONE]),
            [Mark(ONE, (0,), b"\x01\x02"), Mark(TWO, (0,), b"\x04\x00")],
            id="a mask for each row",
        ),
        pytest.param(
            *(b"\x05", 3, [ONE, TWO, TWO]),
            [Mark(ONE, (0,), b"\x05"), Mark(TWO, (0,), b"\x05")],
            id="more texts than cells, as in arrays",
        ),
    ],
)
def test_marks_tell_the_changed_rows(bits: bytes, count: int, masks: list[Mask], marks: list[Mark]) -> None:
    assert mark_cells(changed(bits, count), 0, masks) == marks


def test_changed_rows_compares_cells_and_nulls() -> None:
    old: list[bytes | None] = [b"a", None, b"c", b"d", None, b"f", b"g", b"h", b"i"]
    new: list[bytes | None] = [b"a", None, None, b"D", b"e", b"f", b"g", b"h", b"I"]
    assert compare_cells(old, new) == bytes([0b00011100, 1])
    assert compare_cells([], []) == b""


def masking(strategy: Strategy = Strategy.REPLACE) -> Masking:
    types = (TypeGroup("ALL", (InfoType.EMAIL_ADDRESS, InfoType.CREDIT_CARD)),)
    rule = MaskingRule(UUID(int=1), UUID(int=2), "contact", groups=types, strategy=strategy)
    return Masking(frozenset(), (rule,), b"k" * 32)


@pytest.mark.parametrize("strategy", Strategy)
def test_types_of_a_few_cells_are_told_apart(strategy: Strategy, session: SessionView) -> None:
    masking(strategy).see(rows("x", "ann@example.com", "4111111111111111", "y", "bob@example.com"), session)
    assert {(mark.mask.info_types, mark.rows) for mark in session.marks} == {
        (("EMAIL_ADDRESS",), b"\x12"),
        (("CREDIT_CARD",), b"\x04"),
    }
    assert {mark.mask.strategy for mark in session.marks} == {strategy.value}


def test_many_cells_of_one_column_share_the_types_found_in_it(session: SessionView) -> None:
    texts = [f"u{number}@example.com" for number in range(200)] + ["my 4111111111111111"]
    masking().see(rows(*texts), session)
    (mark,) = session.marks
    assert (mark.mask.info_types, mark.rows) == (("CREDIT_CARD", "EMAIL_ADDRESS"), b"")


def test_value_that_equals_its_replacement_has_no_mark(session: SessionView) -> None:
    masking().see(rows("****@****", "****"), session)
    assert session.marks == []
