"""The archivist's process: it needs the store and the blob store, and no key."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from postern.archive.archivist import Archivist, Index, no_index
from postern.process import announce_ready
from postern.recording.space import free_bytes
from postern.settings import Settings
from postern.store.database import Database
from postern.store.ports import SegmentStore
from postern.store.sql.segments import SqlSegments
from postern.wiring import paths
from postern.wiring.blobs import open_blobs
from postern.wiring.trouble import teller

HEARTBEAT = 5.0  # seconds
LATE = 120.0  # seconds without a heart-beat after which it is missed
_NICENESS = 5  # whoever waits for an answer goes first


def run(settings: Settings) -> None:
    """Ends on SIGTERM or SIGINT. Raises Misconfigured."""
    os.nice(_NICENESS)
    asyncio.run(_serve(settings))


def build_archivist(settings: Settings, segments: SegmentStore, index: Index = no_index) -> Archivist:
    """Raises Misconfigured."""
    return Archivist(settings.home, open_blobs(settings), segments, index=index)


async def _serve(settings: Settings) -> None:
    database = Database(settings.url)
    try:
        archivist = build_archivist(settings, SqlSegments(database))
        work = [
            asyncio.create_task(archivist.forever(teller(settings.home))),
            asyncio.create_task(_beat(paths.archivist_beat(settings))),
        ]
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _cancel, work)
        announce_ready()
        try:
            await asyncio.gather(*work)
        except asyncio.CancelledError:
            _cancel(work)
            await asyncio.gather(*work, return_exceptions=True)
    finally:
        await database.close()


def _cancel(work: list[asyncio.Task[None]]) -> None:
    for task in work:
        task.cancel()


async def _beat(file: Path) -> None:
    while True:
        await asyncio.to_thread(_touch, file)
        await asyncio.sleep(HEARTBEAT)


def _touch(file: Path) -> None:
    with suppress(OSError):  # on a disk that is read-only, which whoever asks sees by itself
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)


def trouble_with_recordings(settings: Settings) -> str:
    """Why this machine should be given no sessions now; empty when it may."""
    try:
        if free_bytes(settings.home) < settings.recording_least_free:
            return "recordings: the disk has too little room for them"
    except OSError as error:
        return f"recordings: {error.strerror}"
    return "" if silence(settings) <= LATE else f"archivist: nothing was heard of it for {LATE:g} s"


def silence(settings: Settings) -> float:
    """Seconds since it was last heard of."""
    try:
        return time.time() - paths.archivist_beat(settings).stat().st_mtime
    except FileNotFoundError:
        return math.inf
