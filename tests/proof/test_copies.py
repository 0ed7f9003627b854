from __future__ import annotations

import hashlib
from collections.abc import Iterator
from uuid import UUID

import pytest
import zstandard
from tests.support.proofs import segment_bytes, stored

from postern.errors import Malformed
from postern.proof.copies import locate, measure, plain

PLAIN = segment_bytes(UUID(int=1), 1, is_last=True, texts=[f"select {at}" for at in range(50)])


def test_a_copy_proves_itself_however_it_is_compressed() -> None:
    expected = (len(PLAIN), hashlib.sha256(PLAIN).digest())
    assert measure([PLAIN]) == expected
    for level in (1, 3, 19):
        packed = zstandard.ZstdCompressor(level).compress(PLAIN)
        assert measure([packed[:100], packed[100:]]) == expected
    assert locate([stored(PLAIN)]) is None


@pytest.mark.parametrize("harm", ["cut", "longer", "two", "flipped"])
def test_a_frame_that_is_cut_or_followed_by_something_is_refused(harm: str) -> None:
    packed = stored(PLAIN)
    data = {
        "cut": packed[:-1],
        "longer": packed + b"x",
        "two": packed + packed,
        "flipped": packed[:60] + bytes([packed[60] ^ 1]) + packed[61:],
    }[harm]
    with pytest.raises(Malformed):
        measure([data])


def test_a_bomb_is_opened_in_small_pieces() -> None:
    bomb = stored(bytes(1 << 30))
    assert len(bomb) < 200_000

    largest = max(map(len, plain(_once(bomb))))
    assert largest <= 64 << 20


def _once(data: bytes) -> Iterator[bytes]:
    yield data


def test_the_first_damaged_record_is_located() -> None:
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
