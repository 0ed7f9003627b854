"""Values of Oracle Database as text, and back."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.protocols.oracledb.wire import oracle_values as values
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.ttc_columns import OracleColumn

# (bytes, text), as Oracle's DUMP shows them.
NUMBERS = [
    ("80", b"0"),
    ("c102", b"1"),
    ("c20218", b"123"),
    ("c20a", b"900"),
    ("c10b33", b"10.5"),
    ("c033", b"0.5"),
    ("bf06", b"0.0005"),
    ("3e6466", b"-1"),
    ("3e6066", b"-5"),
    ("3c640866", b"-19300"),
    ("3d3566", b"-4800"),
    ("ff65", b"~"),
    ("00", b"-~"),
]


@pytest.mark.parametrize(("data", "text"), NUMBERS)
def test_numbers_as_text_and_back(data: str, text: bytes) -> None:
    assert values.number_text(bytes.fromhex(data)) == text
    assert values.pack_number_text(text).hex() == data


@given(st.decimals(min_value=-(10**30), max_value=10**30, places=6, allow_nan=False))
def test_every_number_comes_back(number: Decimal) -> None:
    data = values.pack_number_text(f"{number:f}".encode())
    assert Decimal(values.number_text(data).decode()) == number
    assert len(data) <= values.MAX_NUMBER


@given(st.binary(max_size=24))
def test_any_bytes_are_a_number_or_an_error(data: bytes) -> None:
    try:
        text = values.number_text(data)
    except ValueError:
        return
    assert text in (b"~", b"-~") or Decimal(text.decode()).is_finite()


@pytest.mark.parametrize("text", [b"", b"-", b".", b"1e", b"abc", b"1" * 50, b"1e200", b"1e-200", b"1 2"])
def test_what_is_not_a_number_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError):
        values.pack_number_text(text)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (bytes([120, 124, 2, 3, 5, 6, 7]), b"2024-02-03 04:05:06"),
        (bytes([120, 124, 2, 3, 1, 1, 1, 0, 0, 3, 0xE8]), b"2024-02-03 00:00:00.000001"),
        (bytes([120, 124, 2, 3, 1, 1, 1, 0, 0, 0, 0, 22, 90]), b"2024-02-03 00:00:00 UTC+02:30"),
        (bytes([120, 124, 2, 3, 1, 1, 1, 0, 0, 0, 0, 20, 60]), b"2024-02-03 00:00:00 UTC"),
        (bytes([53, 88, 1, 1, 1, 1, 1]), b"-4712-01-01 00:00:00"),
    ],
)
def test_times_as_text_and_back(data: bytes, text: bytes) -> None:
    assert values.time_text(data) == text
    assert values.pack_time(text, data) == data


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        (c.INTERVAL_YM, "800000033e", b"3-02"),
        (c.INTERVAL_YM, "7fffffff3a", b"-1-02"),
        (c.INTERVAL_DS, "800000023d3e3f80000000", b"2 01:02:03"),
        (c.INTERVAL_DS, "7ffffffe3b3a397fffffff", b"-2 01:02:03.000000001"),
        (c.BINARY_DOUBLE, "bff8000000000000", b"1.5"),
        (c.BINARY_DOUBLE, "4007ffffffffffff", b"-1.5"),
        (c.BINARY_FLOAT, "bfc00000", b"1.5"),
        (c.BOOLEAN, "0101", b"true"),
        (c.BOOLEAN, "00", b"false"),
        (c.RAW, "00ff", b"00FF"),
        (c.NUMBER, "ffffffff", b"FFFFFFFF"),
        (c.DATE, "01", b"01"),
    ],
)
def test_other_values_as_text(kind: int, data: str, text: bytes) -> None:
    assert values.value_text(OracleColumn(kind), bytes.fromhex(data)) == text


@pytest.mark.parametrize(
    ("column", "text", "data"),
    [
        (OracleColumn(c.VARCHAR), "Zoë".encode(), "Zoë".encode()),
        (OracleColumn(c.VARCHAR, form=c.NCHAR), "Zoë".encode(), "Zoë".encode("utf-16-be")),
        (OracleColumn(c.NUMBER), b"12", bytes.fromhex("c10d")),
        (OracleColumn(c.NUMBER), b"twelve", None),
        (OracleColumn(c.VARCHAR), b"", None),
        (OracleColumn(c.BOOLEAN), b"t", b"\1\1"),
        (OracleColumn(c.BINARY_FLOAT), b"1.5", bytes.fromhex("bfc00000")),
        (OracleColumn(c.BINARY_FLOAT), b"1e300", None),
        (OracleColumn(c.CLOB), b"new", None),
    ],
)
def test_changed_values_are_encoded_for_their_type(column: OracleColumn, text: bytes, data: bytes | None) -> None:
    assert values.pack_plain(column, text, b"old") == data


@given(st.floats(allow_nan=False))
def test_every_float_comes_back(number: float) -> None:
    data = values.pack_float(repr(number).encode(), 8)
    assert float(values.float_text(data)) == number
