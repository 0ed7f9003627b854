"""What recording costs: encoding an event, and appending it by `write` against a shared mapping.

    python bench/recording.py [folder]

Prints the minimum and the median of several interleaved rounds. The spool lies in `folder` (the
temporary folder when not given), and is synced every 50 ms as the gateway does.
"""

from __future__ import annotations

import mmap
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from postern.interception.events import ClientOutput, Event, Operation
from postern.recording.record_format import encode

ROUNDS = 5
PAGE = mmap.PAGESIZE


def by_write(descriptor: int, record: bytes, count: int) -> None:
    write = os.write
    for _ in range(count):
        write(descriptor, record)


def by_mapping(descriptor: int, record: bytes, count: int) -> None:
    """Space reserved in growing extents, a window mapped over the last one, a copy for each record."""
    size = len(record)
    used = end = base = 0
    extent = 4 * PAGE
    window: mmap.mmap | None = None
    for _ in range(count):
        if used + size > end:
            while used + size > end:
                os.posix_fallocate(descriptor, end, extent)
                end += extent
                extent = min(extent * 2, 1 << 20)
            if window is not None:
                window.close()
            base = used - used % PAGE
            window = mmap.mmap(descriptor, end - base, offset=base)
        assert window is not None
        window[used - base : used - base + size] = record
        used += size
    if window is not None:
        window.close()


def append(way: Callable[[int, bytes, int], None], folder: Path, record: bytes, count: int) -> float:
    """Microseconds for each record."""
    path = folder / "bench.rec"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600)
    stop = threading.Event()

    def sync() -> None:
        while not stop.wait(0.05):
            os.fdatasync(descriptor)

    syncer = threading.Thread(target=sync)
    syncer.start()
    start = time.perf_counter()
    way(descriptor, record, count)
    spent = time.perf_counter() - start
    stop.set()
    syncer.join()
    os.close(descriptor)
    path.unlink()
    return spent / count * 1e6


def encoding(event: Event, count: int) -> float:
    start = time.perf_counter()
    for micros in range(count):
        encode(event, micros)
    return (time.perf_counter() - start) / count * 1e6


def show(name: str, times: list[float]) -> None:
    print(f"{name:44} {min(times):7.2f} {statistics.median(times):7.2f}")


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.gettempdir())
    print(f"{'µs per record':44} {'min':>7} {'median':>7}")
    statement = "select abalance from pgbench_accounts where aid = 4711"
    for name, event in (
        ("encode an operation", Operation(1, statement)),
        ("encode an operation with 3 values", Operation(1, statement, values=(b"4711", None, b"abc"))),
        ("encode 200 bytes shown", ClientOutput(bytes(200))),
        ("encode 64 KiB shown", ClientOutput(os.urandom(65536))),
    ):
        show(name, [encoding(event, 20_000) for _ in range(ROUNDS)])
    for size in (100, 400, 2000, 32768):
        record, count = os.urandom(size), min(100_000, 100_000_000 // size)
        times: dict[str, list[float]] = {"write": [], "mapping": []}
        for _ in range(ROUNDS):
            times["write"].append(append(by_write, folder, record, count))
            times["mapping"].append(append(by_mapping, folder, record, count))
        for way, spent in times.items():
            show(f"append {size} bytes by {way}", spent)


if __name__ == "__main__":
    main()
