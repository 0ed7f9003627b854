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
from pathlib import Path
from uuid import UUID, uuid4

from tests.recording.test_blob import row_of
from tests.support.recordings import KEYS

from postern.archive.folder import FolderBlobs
from postern.domain.segment import Segment
from postern.recording.blob import PIECE, encrypted_file, open_blob
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


def measure(folder: Path, size: int, count: int) -> None:
    file = folder / "sealed"
    file.write_bytes(os.urandom(size))
    found: dict[str, list[tuple[float, float]]] = {}
    stored = 0
    for one in range(ROUNDS):
        session = UUID(int=one + 1)
        rows = [row_of(size, number, session=session) for number in range(1, count + 1)]
        stored = rows[0].stored_size
        for name in ("plain", "encrypted"):
            blobs = FolderBlobs(folder / f"{name}-{one}-{uuid4().hex}")

            async def put(name: str = name, blobs: FolderBlobs = blobs, rows: list[Segment] = rows) -> None:
                for row in rows:
                    content = plain(file) if name == "plain" else encrypted_file(file, KEYS, row)
                    assert await blobs.put(row.place, content)

            read = read_plain if name == "plain" else read_encrypted
            found.setdefault(f"put {name}", []).append(timed(lambda put=put: asyncio.run(put())))
            found.setdefault(f"read {name}", []).append(
                timed(lambda read=read, blobs=blobs, rows=rows: [read(blobs, row) for row in rows])
            )
            for row in rows:
                (blobs._folder / row.place).unlink()
    for name, times in found.items():
        clock, processor = (statistics.median(each) for each in zip(*times, strict=True))
        print(
            f"{size:>12,} {name:16} {size * count / clock / 1e6:10.1f} {clock / count * 1000:10.3f} "
            f"{processor / count * 1000:10.3f} {stored - size if 'encrypted' in name else 0:10}"
        )


if __name__ == "__main__":
    print(f"{'bytes':>12} {'':16} {'MB/s':>10} {'ms each':>10} {'CPU ms':>10} {'bytes more':>10}")
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as place:
        for size, count in KINDS:
            measure(Path(place), size, count)
