"""What long recordings cost: the archiver's memory, an export, and an answer that is too large.

    PYTHONPATH=src:. python bench/long_recordings.py [segments] [sessions]

One session of `segments` full segments (16 MiB each, as written) of short queries, and `sessions` of 10 kB. The store
is SQLite, the blob store a folder, both in the temporary folder.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.archive import queries, write
from tests.support.processes import forget_peak, peak, resident
from tests.support.recordings import Made, new_session
from tests.support.world import MACHINE, World

from postern.archive.archiver import Archiver
from postern.archive.folder import FolderBlobs
from postern.domain.identity.principal import Principal
from postern.domain.sessions.session import EndReason
from postern.process import release_memory
from postern.recording.layout import recordings_folder
from postern.recording.recording_copies import StoredCopies
from postern.recording.segments import MOST
from postern.services.bundle import Services
from postern.store.database import Database
from postern.store.ports.target_ports import SessionEnd
from postern.wiring.blobs import KeysForThreads

MB = 1e6
EXPORTS = 5


async def world_with(folder: Path, sessions: int, segments: int, most: int) -> tuple[World, list[Made], Principal]:
    database = Database(f"sqlite:///{folder / 'postern.db'}")
    await database.migrate()
    world = await World.make(database)
    user = await world.add_user("ann", "admin")
    connection, events = await world.add_connection(), queries(random.Random(1))
    made = [await new_session(world, folder, connection) for _ in range(sessions)]
    for one in made:
        for number in range(1, segments + 1):
            write(one, number, events, most=most, last=number == segments)
        ended = SessionEnd(world.clock(), EndReason.CLIENT_CLOSED, exit_code=0, event_size=segments * most)
        await world.stores.sessions.end(one.id, ended)
    return world, made, user


async def archive(world: World, home: Path, services: Services) -> None:
    blobs = FolderBlobs(recordings_folder(home))
    keys = KeysForThreads(world.encryption, asyncio.get_running_loop())
    archiver = Archiver(home, blobs, world.stores.segments, keys, index=services.session_texts.index)
    forget_peak(os.getpid())
    before, began = resident(os.getpid()), time.perf_counter()
    done = await archiver.round()
    seconds = time.perf_counter() - began
    most, after = peak(os.getpid()), resident(os.getpid())
    release_memory()
    print(
        f"  archiver: {done.stored} segments in {seconds:.1f} s; resident {before / MB:.0f} MB before, "
        f"{most / MB:.0f} at most, {after / MB:.0f} after, {resident(os.getpid()) / MB:.0f} once it gave memory back"
    )


async def export(services: Services, user: Principal, sessions: int, plain: int) -> None:
    """The median of several: the first one also signs a checkpoint."""
    while await services.ledger.write():
        pass  # which an export does first, and the archiver has done long before
    rounds = [await export_once(services, user) for _ in range(EXPORTS)]
    size = rounds[0][2]
    seconds, processor = (median(one[at] for one in rounds) for at in (0, 1))
    print(
        f"  export: {size / MB:.1f} MB in {seconds:.2f} s: {size / seconds / MB:.1f} MB/s, "
        f"{plain / seconds / MB:.1f} MB/s of what was recorded; {processor / sessions * 1000:.2f} ms of processor "
        f"time for each session, {size / processor / MB:.0f} MB for each second of it"
    )


async def export_once(services: Services, user: Principal) -> tuple[float, float, int]:
    """Return seconds by the clock, seconds of processor time, and bytes."""
    began, processor, size = time.perf_counter(), time.process_time(), 0
    async for piece in await services.exports.begin(user, None, None):
        size += len(piece)
    return time.perf_counter() - began, time.process_time() - processor, size


async def run(folder: Path, segments: int, sessions: int) -> None:
    for name, many, each, most in (("one long session", 1, segments, MOST), ("short sessions", sessions, 1, 10_000)):
        home = folder / str(many)
        world, made, user = await world_with(home, many, each, most)
        keys = KeysForThreads(world.encryption, asyncio.get_running_loop())
        copies = StoredCopies(FolderBlobs(recordings_folder(home)), keys)
        services = world.services(replace(MACHINE, copies=copies))
        print(f"{name}: {many} of {each} segments")
        await archive(world, home, services)
        plain = sum([row.size for one in made for row in await one.rows()])
        await export(services, user, many, plain)


if __name__ == "__main__":
    count = [int(text) for text in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(run(Path(place), *(count or [6, 1000])))
