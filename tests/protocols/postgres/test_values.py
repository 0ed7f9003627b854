"""Masking values of any type: the number of rows and columns stays, and the result is valid."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.protocols import postgres_test_messages as pg

from postern.domain.rules.masking import Strategy
from postern.inspection.masking.strategies import Substitutes
from postern.interception.events import Scalar
from postern.protocols.postgres.wire.postgres_messages import PostgresField
from postern.protocols.postgres.wire.postgres_rows import PostgresLayout, PostgresRows, cut
from postern.protocols.postgres.wire.postgres_scalars import SCALARS, scalar_codec
from postern.protocols.postgres.wire.postgres_types import ARRAYS
from postern.protocols.postgres.wire.postgres_values import change_cell

TEXT, BINARY = 0, 1
UNKNOWN = 70_000
OIDS = sorted({*SCALARS, *ARRAYS, 18, 2249, UNKNOWN})
KEY = b"k" * 32


def substitutes(strategy: Strategy) -> Substitutes:
    return Substitutes(strategy, KEY)


def described(*fields: tuple[int, int]) -> PostgresLayout:
    return PostgresLayout(tuple(PostgresField(f"c{place}", oid, form) for place, (oid, form) in enumerate(fields)))


def cells_of(rows: PostgresRows, width: int) -> list[list[bytes | None]]:
    columns = cut(rows.encode(), width, [True] * width)
    return [column for column in columns if column is not None]


CELLS = st.one_of(
    st.none(),
    st.binary(max_size=24),
    st.text(max_size=12).map(str.encode),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: b"%d" % number),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: struct.pack("!q", number)),
    st.sampled_from([b"{1,2,NULL}", b'{"a b",c}', b"[0:1]={x,y}", b"1987-06-05", b"13:14:15", b"t", b"\\x00ff", b"{}"]),
)


@given(
    st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5),
    st.sampled_from(OIDS),
    st.sampled_from([TEXT, BINARY]),
    st.sampled_from(Strategy),
)
def test_masking_keeps_the_number_of_rows_and_columns(
    rows: list[tuple[bytes | None, bytes | None]], oid: int, form: int, strategy: Strategy
) -> None:
    block = b"".join(pg.data_row(*row) for row in rows)
    event = PostgresRows(1, described((oid, form), (25, TEXT)), block, len(rows))
    count, size = event.change(0, substitutes(strategy).change)
    first, second = cells_of(event, 2)
    assert len(first) == len(second) == len(rows)
    assert second == [row[1] for row in rows]
    assert [cell is None for cell, row in zip(first, rows, strict=True) if row[0] is None] == [True] * sum(
        row[0] is None for row in rows
    )
    assert count == sum(cell != row[0] for cell, row in zip(first, rows, strict=True))
    assert size == sum(len(row[0] or b"") for cell, row in zip(first, rows, strict=True) if cell != row[0])


@given(st.sampled_from(OIDS), st.sampled_from([TEXT, BINARY]), CELLS.filter(bool), st.sampled_from(Strategy))
def test_masked_value_is_valid_for_its_type(oid: int, form: int, cell: bytes, strategy: Strategy) -> None:
    made = change_cell(oid, form, cell, substitutes(strategy).change)
    codec = scalar_codec(oid, form)
    if made is None or codec is None or made == cell:
        return
    codec.read(made)


@given(
    st.sampled_from(OIDS),
    st.sampled_from([TEXT, BINARY]),
    CELLS.filter(bool),
    st.sampled_from([strategy for strategy in Strategy if strategy is not Strategy.HASH]),  # a hash is hashed, too
)
def test_masking_of_a_cell_is_idempotent(oid: int, form: int, cell: bytes, strategy: Strategy) -> None:
    change = substitutes(strategy).change
    once = change_cell(oid, form, cell, change)
    if once is not None:
        assert change_cell(oid, form, once, change) == once


@pytest.mark.parametrize(
    ("oid", "text", "binary"),
    [
        (1560, b"1011000111", struct.pack("!i", 10) + bytes((0b10110001, 0b11000000))),
        (600, b"(1,2)", struct.pack("!dd", 1, 2)),
        (3614, b"'a':1", struct.pack("!i", 1) + b"a\0\0\1\0\1"),
        (3904, b"[3,9)", b"\x02" + struct.pack("!iiii", 4, 3, 4, 9)),
    ],
)
def test_hash_strategy_nulls_types_without_hashes_in_both_formats(oid: int, text: bytes, binary: bytes) -> None:
    by = substitutes(Strategy.HASH).change
    assert change_cell(oid, TEXT, text, by) is change_cell(oid, BINARY, binary, by) is None
    for strategy in (Strategy.REPLACE, Strategy.PARTIAL):
        by = substitutes(strategy).change
        assert change_cell(oid, TEXT, text, by) not in (None, text)
        assert change_cell(oid, BINARY, binary, by) not in (None, binary)


@pytest.mark.parametrize(
    ("cell", "made"),
    [(b"$1,234.56", b"$0.00"), (b"-1.234,56 \xe2\x82\xac", b"0,00 \xe2\x82\xac"), (b"(\xc2\xa51,234)", b"\xc2\xa50")],
)
def test_masked_money_keeps_its_currency(cell: bytes, made: bytes) -> None:
    assert change_cell(790, TEXT, cell, substitutes(Strategy.REPLACE).change) == made


def test_masked_hstore_keeps_its_structure() -> None:
    def text(value: bytes) -> bytes:
        return struct.pack("!i", len(value)) + value

    cell = struct.pack("!i", 2) + text(b"name") + text(b"Ada") + text(b"none") + struct.pack("!i", -1)
    made = change_cell(UNKNOWN, BINARY, cell, substitutes(Strategy.REPLACE).change)
    assert made == struct.pack("!i", 2) + text(b"****") + text(b"****") + text(b"****") + struct.pack("!i", -1)


@pytest.mark.parametrize(
    ("oid", "least", "most"), [(21, -(2**15), -(2**14)), (23, -(2**31), -(2**30)), (20, -(2**63), -(2**62))]
)
def test_hashed_numbers_are_at_the_lower_end_of_their_type(oid: int, least: int, most: int) -> None:
    """So that a real number is rarely mistaken for a hash."""
    by = substitutes(Strategy.HASH).change
    found = {int(change_cell(oid, TEXT, b"%d" % number, by) or b"0") for number in range(200)}
    assert all(least <= number < most for number in found)
    assert len(found) > 190


def test_cell_whose_values_are_unchanged_keeps_its_bytes() -> None:
    def stays(_scalar: Scalar, value: bytes) -> bytes:
        return value

    for oid, form, cell in (
        (1114, TEXT, b"infinity"),
        (1082, TEXT, b"0044-03-15 BC"),
        (701, TEXT, b"1e+20"),
        (1007, TEXT, b"[0:1]={1,NULL}"),
        (UNKNOWN, BINARY, b"happy"),
        (2950, TEXT, b"123E4567-E89B-42D3-A456-426614174ABC"),
        (1007, BINARY, struct.pack("!iiIiii", 1, 0, 23, 1, 1, 9)),  # shorter than it says
    ):
        assert change_cell(oid, form, cell, stays) == cell


@pytest.mark.parametrize(
    ("oid", "cell"),
    [
        (1114, b"infinity"),
        (1082, b"0044-03-15 BC"),
        (1082, b"05/06/1987"),
        (1184, b"1987-06-05 13:14:15 CEST"),
        (1700, b"NaN"),
        (17, b"dead\\000"),
        (UNKNOWN, b"happy"),
        (2249, b"(Ada,42)"),
        (829, b"0800.2b01.0203"),
        (1186, b"P3DT4H"),
        (1266, b"13:14:15 CEST"),
        (790, b"1 and 2"),
        (18, b"L"),
        (23, b"not a number"),
    ],
)
@pytest.mark.parametrize("strategy", [Strategy.PARTIAL, Strategy.HASH])
def test_value_in_an_unusual_notation_becomes_null(oid: int, cell: bytes, strategy: Strategy) -> None:
    """Attack: write a value in a notation that masking does not know."""
    assert change_cell(oid, TEXT, cell, substitutes(strategy).change) is None


def test_array_header_flags_a_masked_null_element() -> None:
    def gone(_scalar: Scalar, _value: bytes) -> None:
        return None

    array = struct.pack("!iiIii", 1, 0, 25, 2, 1) + struct.pack("!i", 1) + b"a" + struct.pack("!i", 1) + b"b"
    made = change_cell(1009, BINARY, array, gone)
    assert made == struct.pack("!iiIii", 1, 1, 25, 2, 1) + b"\xff" * 8


@pytest.mark.parametrize(
    ("oid", "text", "binary"),
    [
        (23, b"83412", struct.pack("!i", 83412)),
        (700, b"0.1", struct.pack("!f", 0.1)),
        (701, b"1e+20", struct.pack("!d", 1e20)),
        (1082, b"2000-01-03", struct.pack("!i", 2)),
        (1083, b"00:00:00.5", struct.pack("!q", 500_000)),
        (1114, b"2000-01-01 00:00:01.5", struct.pack("!q", 1_500_000)),
        (1184, b"2000-01-01 02:00:01+02", struct.pack("!q", 1_000_000)),
        (1184, b"1999-12-31 18:30:01-05:30", struct.pack("!q", 1_000_000)),
        (2950, b"123e4567-e89b-42d3-a456-426614174abc", bytes.fromhex("123e4567e89b42d3a456426614174abc")),
        (17, b"\\xdead", b"\xde\xad"),
        (869, b"10.0.0.1/8", b"\x02\x08\x00\x04\x0a\x00\x00\x01"),
        (650, b"10.0.0.0/8", b"\x02\x08\x01\x04\x0a\x00\x00\x00"),
        (3802, b'{"a": 1}', b'\x01{"a": 1}'),
        (26, b"4294967295", b"\xff\xff\xff\xff"),
        (790, b"-$1,234.56", struct.pack("!q", -123456)),
        (829, b"08:00:2b:01:02:03", bytes.fromhex("08002b010203")),
        (774, b"08:00:2b:01:02:03:04:05", bytes.fromhex("08002b0102030405")),
        (1186, b"1 year 2 mons 3 days 04:05:06.5", struct.pack("!qii", 14_706_500_000, 3, 14)),
        (1186, b"-3 days -00:00:01", struct.pack("!qii", -1_000_000, -3, 0)),
        (1266, b"13:14:15+02", struct.pack("!qi", 47_655_000_000, -7200)),
        (1042, b"ann  ", b"ann  "),
    ],
)
@pytest.mark.parametrize("strategy", [Strategy.PARTIAL, Strategy.HASH, Strategy.REPLACE])
def test_masked_value_is_equal_in_text_and_binary_format(
    oid: int, text: bytes, binary: bytes, strategy: Strategy
) -> None:
    """Otherwise, the requested format would break a client's joins."""
    seen: list[bytes | None] = []

    def told(by: Callable[[Scalar, bytes], bytes | None]) -> Callable[[Scalar, bytes], bytes | None]:
        def change(scalar: Scalar, value: bytes) -> bytes | None:
            seen.append(value)
            new = by(scalar, value)
            seen.append(new)
            return new

        return change

    by = told(substitutes(strategy).change)
    assert change_cell(oid, TEXT, text, by) is not None
    assert change_cell(oid, BINARY, binary, by) is not None
    assert seen[:2] == seen[2:]
