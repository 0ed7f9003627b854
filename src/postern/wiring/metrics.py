"""Where each process's numbers come from, and how the API gathers those of all."""

from __future__ import annotations

import asyncio
import importlib
import shutil
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from postern.metrics.meters import Meters
from postern.metrics.told import gather, tell, watch_lag
from postern.recording.layout import ARCHIVE_SUFFIX, sealed_folder
from postern.settings import Settings
from postern.store.database import Database


@asynccontextmanager
async def telling(settings: Settings, meters: Meters, database: Database, process: str) -> AsyncIterator[None]:
    """While this lasts the process counts, and answers who asks."""
    database.observer = lambda seconds: meters.observe("postern_store_seconds", seconds)
    server = await tell(meters, settings.home / "run", process)
    lag = asyncio.create_task(watch_lag(meters))
    try:
        yield
    finally:
        lag.cancel()
        server.close()
        with suppress(asyncio.CancelledError):
            await lag


async def gathered(home: Path) -> bytes:
    """Of all processes of this machine, in Prometheus's text format."""
    by_process = await gather(home / "run")
    machine = await asyncio.to_thread(_machine, home)
    # Its library is not imported before somebody asks.
    prometheus = await asyncio.to_thread(importlib.import_module, "postern.metrics.prometheus")
    text: bytes = await asyncio.to_thread(prometheus.text, by_process, machine)
    return text


def _machine(home: Path) -> dict[str, float]:
    disk = shutil.disk_usage(home)
    found = {"postern_home_free_bytes": float(disk.free), "postern_home_bytes": float(disk.total)}
    found["postern_spool_bytes"] = sum(_sizes((home / "spool").glob("*/*")))
    sealed = list(_sizes(sealed_folder(home).glob(f"*/*/*{ARCHIVE_SUFFIX}")))
    return found | {"postern_sealed_bytes": sum(sealed), "postern_sealed_segments": float(len(sealed))}


def _sizes(files: Iterable[Path]) -> Iterator[float]:
    for path in files:
        with suppress(OSError):  # it was moved on meanwhile
            yield float(path.stat().st_size)
