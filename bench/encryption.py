"""What encrypting recordings costs: segments put into a folder and read again, plain against encrypted.

    python bench/encryption.py [folder]

Plain means: the same pieces, put and read without a key. Prints the median of several interleaved rounds, wall-clock
and processor time, and how many bytes more are stored. Everything lies in `folder` (the temporary folder when not
given).
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from uuid import UUID

from tests.recording.test_blob import row_of
from tests.support.recordings import KEYS

from postern.archive.folder import FolderBlobs
from postern.domain.sessions.segment import Segment
from postern.recording.blob import PIECE, encrypt_file, open_blob
from postern.recording.cipher import CHUNK

ROUNDS = 5
KINDS = ((500, 200), (4 << 20, 16), (256 << 20, 1))  # bytes of a sealed segment, how many


def plain(file: Path) -> Iterator[bytes]:
    with file.open("rb", buffering=0) as source:
        yield from iter(lambda: source.read(CHUNK), b"")


def read_plain(blobs: FolderBlobs, row: Segment) -> int:
    at = 0
    while data := blobs.read(row.place, at, PIECE):
        at += len(data)
    return at


def read_encrypted(blobs: FolderBlobs, row: Segment) -> int:
    total = 0
    with open_blob(blobs, KEYS, row) as blob:
        while data := blob.read(CHUNK):
            total += len(data)
    return total


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the clock and of the processor."""
    began, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - processor


def put(blobs: FolderBlobs, file: Path, rows: list[Segment], *, encrypted: bool) -> None:
    async def all_of_them() -> None:
        for row in rows:
            assert await blobs.put(row.place, encrypt_file(file, KEYS, row) if encrypted else plain(file))

    asyncio.run(all_of_them())


def read(blobs: FolderBlobs, rows: list[Segment], *, encrypted: bool) -> None:
    for row in rows:
        (read_encrypted if encrypted else read_plain)(blobs, row)


def measure(folder: Path, size: int, count: int) -> None:
    file = folder / "sealed"
    file.write_bytes(os.urandom(size))
    found: dict[str, list[tuple[float, float]]] = {}
    more = 0
    for one in range(ROUNDS):
        rows = [row_of(size, number, session=UUID(int=one + 1)) for number in range(1, count + 1)]
        more = rows[0].stored_size - size
        for name in ("plain", "encrypted"):
            with tempfile.TemporaryDirectory(dir=folder) as place:
                blobs, encrypted = FolderBlobs(Path(place)), name == "encrypted"
                taken = timed(partial(put, blobs, file, rows, encrypted=encrypted))
                found.setdefault(f"put {name}", []).append(taken)
                taken = timed(partial(read, blobs, rows, encrypted=encrypted))
                found.setdefault(f"read {name}", []).append(taken)
    for name, times in found.items():
        clock, processor = (statistics.median(each) for each in zip(*times, strict=True))
        print(
            f"{size:>12,} {name:16} {size * count / clock / 1e6:10.1f} {clock / count * 1000:10.3f} "
            f"{processor / count * 1000:10.3f} {more if 'encrypted' in name else 0:10}"
        )


if __name__ == "__main__":
    print(f"{'bytes':>12} {'':16} {'MB/s':>10} {'ms each':>10} {'CPU ms':>10} {'bytes more':>10}")
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as place:
        for size, count in KINDS:
            measure(Path(place), size, count)
