"""Hashes of files that are transferred at the same time."""

from __future__ import annotations

import random
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from postern.protocols.terminal.files.file_hashing import FileHash

BLOCK = random.Random(1).randbytes(3 << 20)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, len(BLOCK)), st.booleans()), max_size=30))
def test_interleaved_file_hashes_cover_their_own_bytes(pieces: list[tuple[int, int, bool]]) -> None:
    files = [(FileHash(), sha256()) for _ in range(4)]
    for number, size, asked in pieces:
        mine, plain = files[number]
        mine.update(BLOCK[:size])
        plain.update(BLOCK[:size])
        if asked:
            assert mine.hexdigest() == plain.hexdigest()
    assert [mine.hexdigest() for mine, _ in files] == [plain.hexdigest() for _, plain in files]


def test_file_hashes_are_right_for_many_interleaved_small_pieces() -> None:
    files = [FileHash() for _ in range(3)]
    for start in range(0, len(BLOCK), 32 * 1024):
        for number, file in enumerate(files):
            if number < 2 or start > len(BLOCK) // 2:
                file.update(BLOCK[start : start + 32 * 1024])
    assert files[0].hexdigest() == files[1].hexdigest() == sha256(BLOCK).hexdigest()
    assert files[2].hexdigest() == sha256(BLOCK[len(BLOCK) // 2 + 32 * 1024 :]).hexdigest()
