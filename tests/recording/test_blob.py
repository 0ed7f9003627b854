"""Encrypted segments are read like files: any range, in pieces, and never anything that was not stored."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.recordings import KEYS, BrokenBlobs, decrypt, encrypt
from tests.support.world import START

from postern.archive.folder import FolderBlobs
from postern.domain.sessions.segment import Segment
from postern.errors import Malformed, NotFound, Unavailable
from postern.recording.blob import PIECE, encrypt_file, open_blob, read_preamble
from postern.recording.cipher import CHUNK, PREAMBLE, SALT, STEP, encrypted_size, offset

ORG, SESSION = UUID(int=1), UUID(int=2)
BIG = 40 * CHUNK + 1234  # more than two pieces


def content_of(size: int) -> bytes:
    return hashlib.shake_256(b"a segment").digest(size)


def row_of(size: int, number: int = 1, org_id: UUID = ORG, session: UUID = SESSION) -> Segment:
    """Of a segment of `size` bytes as it was sealed."""
    data_key = asyncio.run(KEYS.in_use(org_id))
    place = f"{org_id}/{session}/{number:06}.rec.zst"
    stored = encrypted_size(size)
    return Segment(session, org_id, number, b"", b"", 0, stored, 0, 0, 0, True, place, START, data_key=data_key)


class Memory:
    """A blob store of one process; it remembers what was asked."""

    name = "memory"

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.reads: list[tuple[int, int]] = []

    async def put(self, key: str, content: object) -> bool:
        raise NotImplementedError

    async def delete(self, key: str) -> None:
        self.kept.pop(key, None)

    def size(self, key: str) -> int:
        return len(self.kept[key])

    def read(self, key: str, start: int, length: int) -> bytes:
        if key not in self.kept:
            raise NotFound(f"there is no {key}")
        self.reads.append((start, length))
        return self.kept[key][start : start + length]

    def keep(self, content: bytes, row: Segment) -> Segment:
        assert row.data_key is not None
        self.kept[row.place] = encrypt(content, row.org_id, row.session_id, row.number, row.data_key)
        return row


def stored(content: bytes, number: int = 1, org_id: UUID = ORG, session: UUID = SESSION) -> tuple[Memory, Segment]:
    blobs = Memory()
    return blobs, blobs.keep(content, row_of(len(content), number, org_id, session))


@pytest.mark.parametrize("size", [0, 1, CHUNK, CHUNK + 1, 16 * CHUNK, 16 * CHUNK + 1, BIG])
@pytest.mark.parametrize("step", [1000, CHUNK, 1 << 20, -1])
def test_blob_round_trips_with_any_read_size(size: int, step: int) -> None:
    content = content_of(size)
    blobs, row = stored(content)
    with open_blob(blobs, KEYS, row) as blob:
        assert b"".join(iter(lambda: blob.read(step), b"")) == content
    assert all(length <= PIECE for _, length in blobs.reads)
    assert sum(length for _, length in blobs.reads) <= row.stored_size + len(blobs.reads)


@given(st.lists(st.tuples(st.integers(0, BIG + 10), st.integers(0, 3 * CHUNK)), min_size=1, max_size=8))
@settings(max_examples=25, deadline=None)
def test_any_range_can_be_read(asked: list[tuple[int, int]]) -> None:
    content = content_of(BIG)
    blobs, row = stored(content)
    with open_blob(blobs, KEYS, row) as blob:
        for at, length in asked:
            blob.seek(at)
            assert blob.read(length) == content[at : at + length]
        assert blob.seek(0, io.SEEK_END) == BIG
        blob.seek(-5, io.SEEK_CUR)
        assert blob.read() == content[-5:]


def test_range_read_fetches_the_preamble_and_one_piece() -> None:
    blobs, row = stored(content_of(BIG))
    with open_blob(blobs, KEYS, row) as blob:
        blob.seek(20 * CHUNK)
        blob.read(10)
    assert blobs.reads == [(0, PREAMBLE), (offset(20), 16 * STEP)]


def test_small_blob_is_read_with_one_request() -> None:
    blobs, row = stored(content_of(1000))
    decrypt(blobs, row)
    assert len(blobs.reads) == 1


def refused(blobs: Memory, row: Segment) -> str:
    with pytest.raises(Malformed) as caught:
        decrypt(blobs, row)
    return caught.value.message


Change = Callable[[bytes], bytes]


def flipped(at: int) -> Change:
    return lambda blob: blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1 :]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (flipped(0), "is not encrypted"),
        (flipped(4), "encrypted in format 0"),
        (flipped(5), "which this store does not have"),
        (flipped(PREAMBLE - 1), f"cannot be decrypted from byte {PREAMBLE} on"),
        (flipped(PREAMBLE), f"cannot be decrypted from byte {PREAMBLE} on"),
        (flipped(offset(7) + 100), f"cannot be decrypted from byte {offset(7)} on"),
        (flipped(-1 % encrypted_size(BIG)), f"cannot be decrypted from byte {offset(40)} on"),
        (lambda blob: blob[:-1], "it was cut: only"),
        (lambda blob: blob[: offset(40)], "it was cut: only"),
        (lambda blob: blob[: offset(16)], "it was cut: only"),
        (lambda blob: blob[:10], "it was cut"),
        (lambda _: b"", "it was cut"),
        (lambda blob: blob + b"x", "more than the"),
        (lambda blob: blob[: offset(3)] + blob[offset(4) : offset(5)] + blob[offset(4) :], f"from byte {offset(3)} on"),
        (lambda _: b"\x28\xb5\x2f\xfd" + content_of(5000), "is not encrypted: the gateway did not write it"),
        (lambda _: content_of(encrypted_size(BIG)), "is not encrypted"),
    ],
)
def test_attack_changed_blob_is_never_read_as_intact(change: Change, said: str) -> None:
    content = content_of(BIG)
    blobs, row = stored(content)
    blobs.kept[row.place] = change(blobs.kept[row.place])
    assert said in refused(blobs, row)
    found: list[bytes] = []
    with open_blob(blobs, KEYS, row) as blob, pytest.raises(Malformed):
        found.extend(iter(lambda: blob.read(1000), b""))
    assert content.startswith(b"".join(found)), "what comes before the damage is what was stored"


def test_attack_blob_cut_at_a_chunk_with_a_matching_row_is_detected() -> None:
    """The attacker can also write the store, but has no key."""
    blobs, row = stored(content_of(BIG))
    for size in (offset(40), offset(16), offset(1)):
        blobs.kept[row.place] = blobs.kept[row.place][:size]
        assert "cannot be decrypted" in refused(blobs, replace(row, stored_size=size))


def test_attack_swapped_blobs_of_two_segments_do_not_decrypt() -> None:
    blobs, one = stored(content_of(5000))
    other = blobs.keep(content_of(5000), row_of(5000, 2))
    blobs.kept[one.place], blobs.kept[other.place] = blobs.kept[other.place], blobs.kept[one.place]
    assert "is another segment" in refused(blobs, one)
    assert "is another segment" in refused(blobs, other)


def test_attack_blob_of_another_session_does_not_decrypt() -> None:
    blobs, one = stored(content_of(5000))
    other = blobs.keep(content_of(5000), row_of(5000, session=uuid4()))
    blobs.kept[one.place] = blobs.kept[other.place]
    assert "is another segment" in refused(blobs, one)


def test_attack_blob_of_another_organisation_does_not_decrypt() -> None:
    blobs, one = stored(content_of(5000))
    other = blobs.keep(content_of(5000), row_of(5000, org_id=uuid4()))
    blobs.kept[one.place] = blobs.kept[other.place]
    assert "data key" in refused(blobs, one)
    assert other.data_key is not None
    assert one.data_key is not None
    named = blobs.kept[other.place].replace(other.data_key.bytes, one.data_key.bytes)
    blobs.kept[one.place] = named
    assert "cannot be decrypted" in refused(blobs, one)


def test_missing_blob_and_unavailable_store_raise_different_errors(tmp_path: Path) -> None:
    blobs, row = stored(b"x")
    blobs.kept.clear()
    with pytest.raises(NotFound):
        decrypt(blobs, row)
    with pytest.raises(NotFound):
        read_preamble(blobs, row.place)
    down = BrokenBlobs(FolderBlobs(tmp_path), trouble="the blob store is down")
    with pytest.raises(Unavailable):
        decrypt(down, row)


def test_two_blobs_of_one_file_share_no_bytes(tmp_path: Path) -> None:
    """Two archivers can encrypt the same segment, if the first one was killed."""
    file = tmp_path / "one.rec.zst"
    file.write_bytes(content_of(3 * CHUNK))
    row = row_of(3 * CHUNK)
    one, other = (b"".join(encrypt_file(file, KEYS, row)) for _ in range(2))
    assert len(one) == len(other) == row.stored_size
    assert one[: PREAMBLE - SALT] == other[: PREAMBLE - SALT]
    assert one[PREAMBLE - SALT : PREAMBLE] != other[PREAMBLE - SALT : PREAMBLE]
    same = sum(a == b for a, b in zip(one[PREAMBLE:], other[PREAMBLE:], strict=True))
    assert same < len(one) * 0.01


_COPY = """
import asyncio, resource, sys
from dataclasses import replace
from pathlib import Path
from postern.archive.folder import FolderBlobs
from postern.recording.blob import encrypt_file, open_blob
from tests.recording.test_blob import row_of
from tests.support.recordings import KEYS
folder, size = Path(sys.argv[1]), int(sys.argv[2])
row, blobs = row_of(size), FolderBlobs(folder / "kept")
small = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert asyncio.run(blobs.put(row.place, encrypt_file(folder / "one", KEYS, row)))
total = 0
with open_blob(blobs, KEYS, row) as blob:
    while data := blob.read(65536):
        total += len(data)
assert total == size
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - small)
"""


@pytest.mark.parametrize("megabytes", [128, pytest.param(2048, marks=pytest.mark.huge)])
@pytest.mark.ci
def test_memory_does_not_grow_with_the_segment(tmp_path: Path, megabytes: int) -> None:
    with (tmp_path / "one").open("wb") as file:
        file.truncate(megabytes << 20)
    command = [sys.executable, "-c", _COPY, str(tmp_path), str(megabytes << 20)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 16 * 1024  # KiB
