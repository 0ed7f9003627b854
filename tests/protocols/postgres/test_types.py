"""Cells: reading the texts inside, replacing them, and handling malformed data."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.protocols import postgres_test_messages as pg

from postern.errors import ProtocolViolation
from postern.interception.events import TextKind
from postern.protocols.postgres.wire.postgres_messages import PostgresField
from postern.protocols.postgres.wire.postgres_rows import PostgresRows, layout_of
from postern.protocols.postgres.wire.postgres_types import TextCodec, describe, readable

BINARY, TEXT = 1, 0
INT8, NUMERIC, INET, JSONB, BYTEA, RECORD, TEXT_ARRAY, INT8_ARRAY = 20, 1700, 869, 3802, 17, 2249, 1009, 1016
UNKNOWN = 70_000


def codec_of(oid: int, form: int) -> TextCodec:
    _, codec = describe(PostgresField("c", oid, form))
    assert codec is not None
    return codec


def numeric(text: str) -> bytes:
    """Encode as the server does: base-10000 digits without zeros at either end."""
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    plain = "".join(map(str, digits)) + "0" * max(exponent, 0)
    plain = plain.rjust(scale + 1, "0")
    whole, after = plain[: len(plain) - scale], plain[len(plain) - scale :]
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    after = after.ljust(-(-len(after) // 4) * 4, "0")
    groups = [int((whole + after)[i : i + 4]) for i in range(0, len(whole + after), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        del groups[0]
        weight -= 1
    while groups and groups[-1] == 0:
        del groups[-1]
    head = struct.pack("!hhHh", len(groups), weight if groups else 0, 0x4000 if sign and groups else 0, scale)
    return head + struct.pack(f"!{len(groups)}h", *groups)


def sized(cell: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if cell is None else struct.pack("!i", len(cell)) + cell


def array(oid: int, cells: Sequence[bytes | None]) -> bytes:
    head = struct.pack("!iiI", 1 if cells else 0, int(None in cells), oid)
    return head + (struct.pack("!ii", len(cells), 1) if cells else b"") + b"".join(map(sized, cells))


def record(fields: Sequence[tuple[int, bytes | None]]) -> bytes:
    return struct.pack("!i", len(fields)) + b"".join(struct.pack("!I", oid) + sized(cell) for oid, cell in fields)


NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=None, min_value=-(10**30), max_value=10**30)
INT8S = st.integers(-(1 << 63), (1 << 63) - 1).map(lambda number: number.to_bytes(8, "big", signed=True))
NUMERICS = NUMBERS.map(lambda number: numeric(f"{number:f}"))
INETS = st.one_of(
    st.binary(min_size=4, max_size=4).map(lambda address: b"\x02\x20\0\x04" + address),
    st.binary(min_size=16, max_size=16).map(lambda address: b"\x03\x80\0\x10" + address),
)
SHORT = st.binary(max_size=9)
VALUES: st.SearchStrategy[tuple[int, bytes]] = st.one_of(
    st.tuples(st.just(25), st.binary(max_size=20)),
    st.tuples(st.just(INT8), INT8S),
    st.tuples(st.just(NUMERIC), NUMERICS),
    st.tuples(st.just(INET), INETS),
    st.tuples(st.just(JSONB), st.binary(max_size=20).map(lambda text: b"\x01" + text)),
    st.tuples(st.just(23), st.binary(min_size=4, max_size=4)),
)
RECORDS = st.lists(st.one_of(VALUES, st.tuples(st.just(25), st.none())), max_size=5).map(record)
NESTED = st.lists(st.one_of(VALUES, st.tuples(st.just(RECORD), RECORDS)), max_size=4).map(record)
CELLS: st.SearchStrategy[tuple[int, bytes]] = st.one_of(
    VALUES.filter(lambda value: value[0] not in (23, 25)),
    st.tuples(st.just(RECORD), NESTED),
    st.tuples(st.just(UNKNOWN), NESTED),
    st.tuples(
        st.just(TEXT_ARRAY),
        st.lists(st.one_of(st.none(), SHORT), max_size=4).map(lambda c: array(25, c)),
    ),
    st.tuples(st.just(INT8_ARRAY), st.lists(INT8S, max_size=4).map(lambda cells: array(INT8, list(cells)))),
    st.tuples(
        st.just(UNKNOWN), st.lists(st.binary(max_size=9), max_size=4).map(lambda cells: array(UNKNOWN + 1, list(cells)))
    ),
)


@given(CELLS)
def test_cell_rebuilt_from_its_own_texts_is_unchanged(cell: tuple[int, bytes]) -> None:
    oid, data = cell
    codec = codec_of(oid, BINARY)
    assert codec.rebuild(data, codec.leaves(data)) == data


@given(NUMBERS)
def test_binary_numeric_is_read_as_the_server_prints_it(number: Decimal) -> None:
    (text,) = codec_of(NUMERIC, BINARY).leaves(numeric(f"{number:f}"))
    expected = f"{number:f}"
    assert text.decode() == (expected if number else expected.lstrip("-"))


@pytest.mark.parametrize("special", [0xC000, 0xD000, 0xF000])
def test_numeric_nan_and_infinities_contain_no_text(special: int) -> None:
    cell = struct.pack("!hhHh", 0, 0, special, 0)
    codec = codec_of(NUMERIC, BINARY)
    assert codec.leaves(cell) == []
    assert codec.rebuild(cell, []) == cell


@given(st.binary(max_size=60), st.sampled_from([UNKNOWN, RECORD]))
def test_cell_of_an_unknown_type_is_rebuilt_unchanged(data: bytes, oid: int) -> None:
    codec = codec_of(oid, BINARY)
    assert codec.rebuild(data, codec.leaves(data)) == data


@given(st.binary(max_size=60), st.sampled_from([JSONB, INT8, NUMERIC, INET, TEXT_ARRAY, INT8_ARRAY, 3807]))
def test_malformed_cell_raises_only_expected_errors(data: bytes, oid: int) -> None:
    codec = codec_of(oid, BINARY)
    with suppress(
        ProtocolViolation, ValueError, struct.error, IndexError
    ):  # errors that a pipeline turns into a denial
        codec.leaves(data)


def test_text_in_60_nested_records_is_read_and_replaced() -> None:
    cell = record([(25, b"x")])
    for _ in range(60):
        cell = record([(RECORD, cell)])
    codec = codec_of(RECORD, BINARY)
    assert codec.leaves(cell) == [b"x"]
    assert codec.leaves(codec.rebuild(cell, [b"longer"])) == [b"longer"]


def test_truncated_array_is_a_protocol_violation() -> None:
    with pytest.raises(ProtocolViolation):
        codec_of(TEXT_ARRAY, BINARY).leaves(array(25, [b"secret"])[:-3])


def test_number_too_large_for_its_type_raises() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        codec_of(INT8, BINARY).rebuild(bytes(8), [b"9" * 30])


def test_column_has_the_text_kind_of_its_type() -> None:
    kinds = {16: TextKind.OPAQUE, 25: TextKind.TEXT, JSONB: TextKind.JSON, 114: TextKind.JSON, INT8: TextKind.NUMBER,
             NUMERIC: TextKind.NUMBER, INET: TextKind.ADDRESS, 650: TextKind.ADDRESS, BYTEA: TextKind.TEXT,
             1182: TextKind.OPAQUE, UNKNOWN: TextKind.TEXT}  # fmt: skip
    for form in (TEXT, BINARY):
        assert {oid: describe(PostgresField("c", oid, form))[0].kind for oid in kinds} == kinds


@given(st.lists(st.lists(st.one_of(st.none(), st.binary(max_size=20)), min_size=3, max_size=3), min_size=1, max_size=6))
def test_rows_with_unchanged_texts_keep_their_bytes(rows: list[list[bytes | None]]) -> None:
    block = b"".join(pg.data_row(*row) for row in rows)
    layout = layout_of(pg.row_description("a", ("b", 20), "c")[5:])
    event = PostgresRows(1, layout, block, len(rows))
    for column in range(3):
        assert event.texts(column) == [row[column] for row in rows if row[column] is not None]
        event.replace(column, event.texts(column))
    assert event.encode() == block


@given(
    st.lists(st.lists(st.one_of(st.none(), st.binary(max_size=9)), min_size=2, max_size=2), min_size=1, max_size=6),
    st.binary(max_size=30),
)
def test_rows_with_replaced_texts_are_encoded_as_valid_rows(rows: list[list[bytes | None]], new: bytes) -> None:
    event = PostgresRows(
        1, layout_of(pg.row_description("a", "b")[5:]), b"".join(pg.data_row(*row) for row in rows), len(rows)
    )
    event.replace(1, [new] * len(event.texts(1)))
    assert event.encode() == b"".join(pg.data_row(row[0], None if row[1] is None else new) for row in rows)


def test_replacement_with_a_wrong_number_of_texts_raises() -> None:
    event = PostgresRows(1, layout_of(pg.row_description("a")[5:]), pg.data_row("x"), 1)
    with pytest.raises((ValueError, IndexError)):
        event.replace(0, [b"x", b"y"])
    with pytest.raises((ValueError, IndexError)):
        event.replace(0, [])


@pytest.mark.parametrize(
    "row",
    [
        pg.data_row("a", "b"),
        pg.data_row(),
        b"D\0\0\0\x0a\0\x01\0\0\0\x09",
        b"D\0\0\0\x0b\0\x01\0\0\0\0x",
        b"D\0\0\0\x0a\0\x01\x7f\xff\xff\xff",
    ],
)
def test_rows_with_inconsistent_lengths_are_a_protocol_violation(row: bytes) -> None:
    event = PostgresRows(1, layout_of(pg.row_description("a")[5:]), row, 1)
    with pytest.raises(ProtocolViolation):
        event.texts(0)


@given(st.binary(max_size=40), st.sampled_from([0, 16, 20, 21, 23, 25, 700, 701, 869, 1700, 2950, 3802]))
def test_arbitrary_value_of_any_type_is_readable(value: bytes, oid: int) -> None:
    assert isinstance(readable(value, oid), bytes)


def test_column_keeps_its_table_and_position() -> None:
    column, _ = describe(PostgresField("c", 25, 0, table=16_400, place=3))
    assert (column.table, column.position) == (16_400, 3)
