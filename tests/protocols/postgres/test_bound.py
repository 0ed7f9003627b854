"""Bind values are recorded and judged as the target reads them, or as plain bytes of unknown type."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import UTC, timedelta

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.postgres import PostgresServer

from postern.protocols.postgres.wire.postgres_bind_values import parameters, plain


def test_binary_bind_values_are_recorded_as_text() -> None:
    values = (b"x", None, (7).to_bytes(4, "big"), b"\0\xff", b"\x01", struct.pack("!d", 1.5))
    shown = (b"x", None, b"7", b"\\x00ff", b"true", b"1.5")
    assert parameters(values, (1,), (25, 25, 23, 0, 16, 701)) == (shown, (4,))
    assert parameters(values[:2], (), ()) == ((b"x", None), ())
    assert parameters((b"\0", b"\0"), (0, 1), ()) == ((b"\0", b"\\x00"), (2,))


@pytest.mark.parametrize(
    ("value", "oid", "shown"),
    [
        (b"\2", 16, b"true"),  # to the target, each byte but zero is
        (b"\2\x08\0\4\x0a\0\0\1", 869, b"10.0.0.1/8"),
        (b"\2\x20\0\4\x0a\0\0\1", 869, b"10.0.0.1"),
        (struct.pack("!hhHh", 0, 0, 0xF000, 0), 1700, b"-Infinity"),
        (struct.pack("!hhHh", 0, 0, 0xD000, 0), 1700, b"Infinity"),
        (struct.pack("!hhHh", 0, 0, 0xC000, 0), 1700, b"NaN"),
        (b"a\x01b", 25, b"a\x01b"),
        (b"\x01", 17, b"\\x01"),
    ],
)
def test_attack_binary_bind_value_is_read_as_by_the_target(value: bytes, oid: int, shown: bytes) -> None:
    assert parameters((value,), (1,), (oid,)) == ((shown,), ())


def test_attack_binary_values_without_a_known_type_are_marked_as_unread() -> None:
    """The integer 825373492 of an unnamed type is `1234` as text. Bytes that are shown as hexadecimal digits can also
    be a text of control characters."""
    values = (b"1234", b"1234", b"1234", b"1234", b"\0\0\0\1", None, b"")
    assert parameters(values, (1,), (0, 23, 25, 1114, 0, 0, 0))[1] == (1, 4, 5)
    assert parameters(values, (0, 1), (0,))[1] == (2,)
    assert parameters(values, (), ())[1] == ()


_VALUES = {
    "int4": st.integers(-(2**31), 2**31 - 1),
    "int8": st.integers(-(2**63), 2**63 - 1),
    "numeric": st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=6),
    "float8": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "text": st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
    "bytea": st.binary(max_size=8),
    "date": st.dates(),
    "timestamp": st.datetimes(),
    "timestamptz": st.datetimes(timezones=st.just(UTC)),
    "uuid": st.uuids(),
    "inet": st.ip_addresses(),
    "interval": st.timedeltas(min_value=timedelta(days=-9_999), max_value=timedelta(days=9_999)),
}


@pytest.fixture(scope="module")
def direct(postgres_server: PostgresServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_server.dsn(), autocommit=True) as connection:
        yield connection


@given(data=st.data(), kind=st.sampled_from(sorted(_VALUES)), many=st.booleans())
def test_text_of_a_binary_value_equals_the_value_on_a_server(
    direct: psycopg.Connection, data: st.DataObject, kind: str, many: bool
) -> None:
    """On a real server, the binary value and its text are the same value."""
    value: object = data.draw(_VALUES[kind])
    if many:
        value = [value, *data.draw(st.lists(st.none() | _VALUES[kind], max_size=3))]
    name = f"{kind}[]" if many else kind
    info = direct.adapters.types[kind]
    oid = info.array_oid if many else info.oid
    with direct.cursor(binary=True) as cursor:
        raw = cursor.execute(f"select %t::{name}".encode(), [value]).pgresult
        assert raw is not None
        cell = raw.get_value(0, 0)
    assert cell is not None
    shown = plain(cell, oid)
    assert shown is not None
    equal = f"select %t::{name} is not distinct from %t::{name}".encode()
    assert direct.execute(equal, [value, shown.decode()]).fetchone() == (True,)


@given(st.binary(max_size=40), st.integers(0, 4000))
def test_arbitrary_bind_value_bytes_are_read_without_an_error(value: bytes, oid: int) -> None:
    assert isinstance(parameters((value,), (1,), (oid,))[0][0], bytes)
