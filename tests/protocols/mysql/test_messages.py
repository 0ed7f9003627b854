"""Encoding and parsing of MySQL packets, commands and answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.errors import ProtocolViolation
from postern.protocols.mysql.wire import mysql_messages as m

CELLS = st.lists(st.none() | st.binary(max_size=300), max_size=6)


@given(st.integers(0, (1 << 63) - 1))
def test_length_encoded_integer_round_trips(value: int) -> None:
    data = m.lenenc(value)
    assert m.read_lenenc(data, 0, len(data)) == (value, len(data))


BOUNDS = sorted({(1 << bits) + more for bits in (0, 8, 16, 24, 31, 32, 62, 63) for more in (-2, -1, 0, 1)} | {
    249, 250, 251, 252, 253, 254, 255, (1 << 64) - 1})  # fmt: skip


@pytest.mark.parametrize("number", [number for number in BOUNDS if number >= 0])
def test_number_of_64_bits_and_length_of_63_bits_round_trip(number: int) -> None:
    data = b"x" + m.lenenc(number) + b"y"
    end = len(data) - 1
    assert m.read_number(data, 1, end) == (number, end)
    assert m.after_lenenc(data, 1, end) == end
    for cut in range(1, end):
        with pytest.raises(ProtocolViolation):
            m.read_number(data, 1, cut)
        with pytest.raises(ProtocolViolation):
            m.after_lenenc(data, 1, cut)
    if number < 1 << 63:
        assert m.read_lenenc(data, 1, end) == (number, end)
        with pytest.raises(ProtocolViolation):
            m.read_text(data, 1, end + min(number, 2) - 1)
    else:
        with pytest.raises(ProtocolViolation):
            m.read_lenenc(data, 1, end)


@pytest.mark.parametrize("insert_id", [0, 250, 251, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("affected", [0, 251, 1 << 24, 1 << 63, (1 << 64) - 1])
def test_ok_packet_with_64_bit_numbers_round_trips(affected: int, insert_id: int) -> None:
    done = m.Done(affected, insert_id, m.MORE_RESULTS, 2, b"text")
    payload = m.ok(1, done)[4:]
    assert m.parse_ok(payload) == done
    assert m.ok_status(payload, 0, len(payload)) == m.MORE_RESULTS
    for cut in range(1, len(payload) - 4):
        with pytest.raises(ProtocolViolation):
            m.ok_status(payload, 0, cut)


@pytest.mark.parametrize("data", [b"", b"\xfb", b"\xff", b"\xfc\x01", b"\xfd\x01\x01", b"\xfe" + bytes(7)])
def test_malformed_length_is_a_protocol_violation(data: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        m.read_lenenc(data, 0, len(data))


def test_text_length_of_64_bits_is_a_protocol_violation() -> None:
    with pytest.raises(ProtocolViolation, match="too large"):
        m.read_text(b"\xfe" + b"\xff" * 8, 0, 9)


def test_text_longer_than_its_packet_is_a_protocol_violation() -> None:
    with pytest.raises(ProtocolViolation):
        m.read_text(b"\x05abc", 0, 4)


@given(st.lists(st.binary(max_size=100), max_size=8), st.sampled_from([1, 2, 3, 7, 64]))
def test_packets_are_reassembled_from_chunks_of_any_size(payloads: list[bytes], size: int) -> None:
    stream = b"".join([m.packet(at, payload) for at, payload in enumerate(payloads)])
    reader = m.MysqlPackets(1000)
    found = [one for start in range(0, len(stream), size) for one in reader.feed(stream[start : start + size])]
    assert found == [m.Packet(at, payload) for at, payload in enumerate(payloads)]
    assert reader.waiting == 0


@pytest.mark.parametrize("size", [m.MAX_PAYLOAD - 1, m.MAX_PAYLOAD, m.MAX_PAYLOAD + 1, 2 * m.MAX_PAYLOAD])
def test_payload_of_16_mib_or_more_is_split_into_packets(size: int) -> None:
    stream = m.packet(255, bytes(size))
    count = m.packets_of(size)
    assert len(stream) == size + count * m.HEAD
    assert m.MysqlPackets(size).feed(stream) == [m.Packet((254 + count) & 0xFF, bytes(size))]


def test_payload_beyond_the_limit_is_a_violation_at_its_header() -> None:
    with pytest.raises(ProtocolViolation):
        m.MysqlPackets(100).feed(m.packet(0, bytes(101))[:4])


def test_ok_err_and_eof_packets_round_trip() -> None:
    done = m.Done(300, 70_000, m.MORE_RESULTS | m.IN_TRANSACTION, 2, b"Rows matched: 1")
    payload = m.ok(1, done)[4:]
    assert m.parse_ok(payload) == done
    assert m.ok_status(payload, 0, len(payload)) == done.status
    assert m.parse_eof(m.eof(5, m.MORE_RESULTS, 7)[4:]) == (m.MORE_RESULTS, 7)
    assert m.parse_err(m.err(1, 1227, "42000", "no", "ask")[4:]) == m.Failed(1227, "42000", "no. ask")
    assert m.parse_err(m.err(1, 1, "\ufffd1", "\udcff")[4:]) == m.Failed(1, "?1000", "?")
    assert m.parse_err(b"\xff\x10\x04Too many connections") == m.Failed(1040, "HY000", "Too many connections")


def test_column_definition_round_trips() -> None:
    field = m.MysqlField("größe", m.VAR_STRING, 1, 45, 0, 400, "shop", "i", "items", "size")
    assert m.parse_field(m.column(2, field)[4:]) == field


def test_attack_long_column_definition_is_not_cached() -> None:
    before = m._known_field.cache_info().currsize
    field = m.MysqlField("a" * 10_000, m.LONG)
    assert m.parse_field(m.column(1, field)[4:]) == field
    assert m._known_field.cache_info().currsize == before


@pytest.mark.parametrize("payload", [b"", b"\x03def", m.column(1, m.MysqlField("a", m.LONG))[4:-3]])
def test_truncated_column_definition_is_a_protocol_violation(payload: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        m.parse_field(payload)


@given(CELLS)
def test_text_row_round_trips(cells: list[bytes | None]) -> None:
    row = tuple(cells)
    assert m.parse_text_row(m.text_row(1, row)[4:], len(row)) == row


def test_text_row_of_another_width_is_a_protocol_violation() -> None:
    row = m.text_row(1, (b"a", None))[4:]
    for width in (1, 3):
        with pytest.raises(ProtocolViolation):
            m.parse_text_row(row, width)
