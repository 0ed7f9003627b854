"""The codec of the Oracle server for tests: values, fields and logins."""

from __future__ import annotations

import datetime
import hashlib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.oracledb import type_codings as types
from tests.support.oracledb.server_logon import Challenge, decrypt, encrypt, pad
from tests.support.oracledb.ttc_fields import BadMessage, FieldReader, Incomplete, counted, integer, sized
from tests.support.oracledb.type_codings import decode_float, decode_moment, decode_number, encode_moment, encode_number

NUMBERS = [
    ("0", "80"),
    ("1", "c102"),
    ("10", "c10b"),
    ("100", "c202"),
    ("123", "c20218"),
    ("123.45", "c202182e"),
    ("0.1", "c00b"),
    ("0.01", "c002"),
    ("0.001", "bf0b"),
    ("-1", "3e6466"),
    ("-123.45", "3d644e3866"),
    ("1e125", "ff0b"),
]


@pytest.mark.parametrize(("text", "data"), NUMBERS)
def test_number_has_an_exponent_and_digits_of_base_100(text: str, data: str) -> None:
    assert encode_number(Decimal(text)).hex() == data
    assert decode_number(bytes.fromhex(data)) == Decimal(text)


digits = st.integers(-(10**38) + 1, 10**38 - 1)


@given(digits, st.integers(-60, 60))
def test_numbers_are_read_as_written(number: int, exponent: int) -> None:
    value = Decimal(number).scaleb(exponent, types.DIGITS)
    assert decode_number(encode_number(value)) == value


@given(digits, digits)
def test_bytes_of_numbers_have_the_order_of_their_values(one: int, other: int) -> None:
    assert (encode_number(one) < encode_number(other)) is (one < other)


moments = st.datetimes(
    min_value=datetime.datetime.fromisoformat("0002-01-01"), max_value=datetime.datetime.fromisoformat("9998-01-01")
)
zones = st.integers(-12 * 60, 14 * 60).map(lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes)))


@given(moments)
def test_timestamps_are_read_as_written(moment: datetime.datetime) -> None:
    assert decode_moment(encode_moment(moment, types.TIMESTAMP)) == moment
    assert decode_moment(encode_moment(moment, types.DATE)) == moment.replace(microsecond=0)


@given(moments, zones)
def test_timestamps_keep_their_time_zone(moment: datetime.datetime, zone: datetime.timezone) -> None:
    zoned = moment.replace(tzinfo=zone)
    read = decode_moment(encode_moment(zoned, types.TIMESTAMP_TZ))
    assert (read, read.utcoffset()) == (zoned, zoned.utcoffset())


@given(st.floats(allow_nan=False))
def test_doubles_are_read_as_written(value: float) -> None:
    assert decode_float(types.encode_float(value, double=True)) == value


@given(st.integers(-(2**63) + 1, 2**63 - 1), st.binary(max_size=70_000))
def test_fields_are_read_as_written(number: int, data: bytes) -> None:
    reader = FieldReader(integer(number) + counted(data) + sized(data))
    assert (reader.integer(), reader.counted() or b"", reader.sized()) == (number, data, data)
    assert reader.remaining() == 0


@pytest.mark.parametrize("data", [b"", b"\x02\x01", b"\x05ab", b"\xfe\x01\x05ab"])
def test_field_that_is_cut_off_is_incomplete(data: bytes) -> None:
    read = FieldReader(data).integer if data[:1] == b"\x02" else FieldReader(data).counted
    with pytest.raises(Incomplete):
        read()


def test_integer_of_more_than_eight_bytes_is_an_error() -> None:
    with pytest.raises(BadMessage, match="9 bytes"):
        FieldReader(b"\x09" + bytes(9)).integer()


def proof(challenge: Challenge, password: bytes) -> dict[str, str]:
    """Return what a client with a password answers to a challenge, by the client's half of the arithmetic."""
    given_pairs = {key: value for key, value, _ in challenge.first_reply()}
    salt = bytes.fromhex(given_pairs["AUTH_VFR_DATA"])
    speedy = hashlib.pbkdf2_hmac("sha512", password, salt + b"AUTH_PBKDF2_SPEEDY_KEY", 4096)
    key = hashlib.sha512(speedy + salt).digest()[:32]
    server_part = decrypt(key, bytes.fromhex(given_pairs["AUTH_SESSKEY"]))
    client_part = bytes(range(32))
    shared = (client_part + server_part).hex().upper().encode()
    combined = hashlib.pbkdf2_hmac("sha512", shared, bytes.fromhex(given_pairs["AUTH_PBKDF2_CSK_SALT"]), 3)[:32]
    return {
        "AUTH_SESSKEY": encrypt(key, client_part).hex(),
        "AUTH_PASSWORD": encrypt(combined, pad(bytes(16) + password)).hex(),
        "AUTH_PBKDF2_SPEEDY_KEY": encrypt(combined, bytes(16) + speedy).hex(),
    }


@pytest.mark.parametrize(("password", "accepted"), [(b"Secret_1", True), (b"secret_1", False), (b"", False)])
def test_login_needs_the_password(password: bytes, accepted: bool) -> None:
    challenge = Challenge(b"Secret_1")
    assert challenge.is_proved_by(proof(challenge, password)) is accepted


@pytest.mark.parametrize("missing", ["AUTH_SESSKEY", "AUTH_PASSWORD", "AUTH_PBKDF2_SPEEDY_KEY"])
def test_login_needs_each_part_of_the_proof(missing: str) -> None:
    challenge = Challenge(b"Secret_1")
    pairs = proof(challenge, b"Secret_1")
    del pairs[missing]
    assert not challenge.is_proved_by(pairs)
