"""Where each process's numbers come from, and how the API gathers those of all."""

from __future__ import annotations

import asyncio
import importlib
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from postern.metrics.meters import Meters
from postern.metrics.told import gather, tell, watch_lag
from postern.settings import Settings
from postern.store.database import Database
from postern.wiring.recordings import archivist_silence, waiting_for_archivist


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
    """What lies on its disk. Who is silent does not tell so itself."""
    disk = shutil.disk_usage(home)
    found = {"postern_home_free_bytes": float(disk.free), "postern_home_bytes": float(disk.total)}
    size = 0
    for path in (home / "spool").glob("*/*"):
        with suppress(OSError):  # sealed meanwhile
            size += path.stat().st_size
    waiting = waiting_for_archivist(home)
    return found | {
        "postern_spool_bytes": float(size),
        "postern_sealed_segments": float(waiting.segments),
        "postern_sealed_bytes": float(waiting.size),
        "postern_sealed_oldest_seconds": waiting.age,
        "postern_archivist_silence_seconds": archivist_silence(home),
    }
