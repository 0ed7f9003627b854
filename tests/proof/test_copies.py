from __future__ import annotations

import hashlib
from collections.abc import Iterator
from uuid import UUID

import pytest
import zstandard
from tests.support.proofs import BEGIN, ORG, segment_bytes, stored

from postern.errors import Malformed
from postern.interception.events import ClientOutput
from postern.proof.proof_copies import locate, measure, plain
from postern.recording.record_format import (
    FILE_PREFIX,
    MAGIC,
    MAX_HEADER,
    MAX_PAYLOAD,
    PREFIX,
    SHOWN,
    Header,
    encode,
    encode_header,
)

PLAIN = segment_bytes(UUID(int=1), 1, is_last=True, texts=[f"select {at}" for at in range(50)])


def test_segment_has_the_same_digest_at_every_compression_level() -> None:
    expected = (len(PLAIN), hashlib.sha256(PLAIN).digest())
    assert measure([PLAIN]) == expected
    for level in (1, 3, 19):
        packed = zstandard.ZstdCompressor(level).compress(PLAIN)
        assert measure([packed[:100], packed[100:]]) == expected
    assert locate([stored(PLAIN)]) is None


@pytest.mark.parametrize("harm", ["cut", "longer", "two", "flipped"])
def test_frame_that_is_cut_extended_or_changed_is_malformed(harm: str) -> None:
    packed = stored(PLAIN)
    data = {
        "cut": packed[:-1],
        "longer": packed + b"x",
        "two": packed + packed,
        "flipped": packed[:60] + bytes([packed[60] ^ 1]) + packed[61:],
    }[harm]
    with pytest.raises(Malformed):
        measure([data])


def test_decompression_bomb_is_decompressed_in_bounded_pieces() -> None:
    bomb = stored(bytes(1 << 30))
    assert len(bomb) < 200_000

    largest = max(map(len, plain(_once(bomb))))
    assert largest <= 64 << 20


def _once(data: bytes) -> Iterator[bytes]:
    yield data


def test_first_damaged_record_is_located() -> None:
    at = PLAIN.index(b"select 25")
    damaged = PLAIN[:at] + b"x" + PLAIN[at + 1 :]
    found = locate([damaged])
    assert found is not None
    begin, end = found
    assert begin <= at < end <= begin + 100
    assert locate([PLAIN[:-3]]) == (len(PLAIN) - len(PLAIN[-59:]), len(PLAIN) - 3) or locate([PLAIN[:-3]]) is not None
    assert locate([b"hello"]) == (0, 5)
    header_end = len(PLAIN) if b"ann@" not in PLAIN else PLAIN.index(b"ann@") + 20
    found = locate([PLAIN.replace(b"ann@", b"bob@", 1)])
    assert found is not None
    assert found[0] == 0
    assert found[1] <= header_end + 200


HEADER = encode_header(Header(UUID(int=1), ORG, "postgres", "shop", "ann@example.com", BEGIN, 1))
RECORDS = [encode(ClientOutput(b"row %d" % number), number * 1000) for number in range(5)]


def _edit(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("number", [0, 1, 4])
def test_damage_is_located_to_exactly_one_record(number: int, *, is_stored: bool) -> None:
    begin = len(HEADER) + sum(map(len, RECORDS[:number]))
    end = begin + len(RECORDS[number])
    whole = HEADER + b"".join(RECORDS)
    for at in (begin + PREFIX.size, end - 1):  # in its content, and in its checksum
        damaged = _edit(whole, at)
        assert locate([stored(damaged) if is_stored else damaged]) == (begin, end)
        assert locate([bytes([one]) for one in damaged]) == (begin, end)


def test_damage_of_header_is_located() -> None:
    whole = HEADER + b"".join(RECORDS)
    assert locate([_edit(whole, len(HEADER) - 1)]) == (0, len(HEADER))
    assert locate([_edit(whole, FILE_PREFIX.size)]) == (0, len(HEADER))
    assert locate([_edit(whole, 0)]) == (0, FILE_PREFIX.size)
    length = FILE_PREFIX.pack(MAGIC, 1, MAX_HEADER + 1)
    assert locate([length + bytes(MAX_HEADER + 100)]) == (0, FILE_PREFIX.size)


def test_damage_from_an_impossible_record_length_extends_to_the_end() -> None:
    """A length within the limit is followed by an incomplete record."""
    whole = HEADER + b"".join(RECORDS[:2])
    end = len(whole) + 500
    for length, begin in ((MAX_PAYLOAD + 1, len(whole)), (MAX_PAYLOAD, len(whole) + PREFIX.size)):
        prefix = PREFIX.pack(length, SHOWN, 1)
        assert locate([whole + prefix + bytes(200), bytes(300 - PREFIX.size)]) == (begin, end)


@pytest.mark.parametrize("number", [0, 3])
def test_cut_is_located_to_the_incomplete_record(number: int) -> None:
    begin = len(HEADER) + sum(map(len, RECORDS[:number]))
    whole = HEADER + b"".join(RECORDS)
    for left in (1, PREFIX.size, PREFIX.size + 1, len(RECORDS[number]) - 1):
        found = locate([whole[: begin + left]])
        assert found is not None
        assert begin <= found[0] <= begin + left
        assert found[1] == begin + left
    assert locate([whole[:begin]]) is None
    assert locate([whole[:begin], b"", whole[begin:], b""]) is None
    assert locate([]) == (0, 0)


def test_damage_of_a_cut_frame_is_located_where_reading_ends() -> None:
    packed = stored(HEADER + b"".join(RECORDS))
    found = locate([packed[:-1]])
    assert found is not None
    assert found[0] == found[1]
    assert locate([packed + b"x"]) is not None


@pytest.mark.parametrize("pieces", [[], [b""], [b"x"], [b"x", b"", b"yz"]])
def test_uncompressed_pieces_are_measured_and_returned_unchanged(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    assert measure(pieces) == (len(data), hashlib.sha256(data).digest())
    assert b"".join(plain(pieces)) == data


def test_compressed_pieces_of_any_size_are_measured_to_the_exact_end() -> None:
    data = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(300))
    packed = stored(data)
    for size in (4, 100, 1023, 1024, 1025, 5000):
        pieces = [packed[at : at + size] for at in range(0, len(packed), size)]
        assert measure(pieces) == (len(data), hashlib.sha256(data).digest())
    for tail in ([b"x"], [b"", b"x"]):
        with pytest.raises(Malformed, match="extra data after its end"):
            measure([packed, *tail])
    for cut in (4, 5, 2000, len(packed) - 1):
        with pytest.raises(Malformed, match="ends early"):
            measure([packed[:cut]])
