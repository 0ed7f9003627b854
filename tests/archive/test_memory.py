"""The archiver's memory after long recordings."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest
from bench.archive import queries, write
from tests.support.processes import forget_peak, peak, resident
from tests.support.recordings import KEYS, new_session
from tests.support.world import World

from postern.archive.archiver import Archiver
from postern.archive.folder import FolderBlobs
from postern.process import release_memory
from postern.recording.layout import recordings_folder
from postern.recording.segments import MOST

_MB = 1 << 20


@pytest.mark.slow
async def test_memory_does_not_grow_with_the_length_of_a_recording(world: World, home: Path) -> None:
    """Eight segments are 128 MiB of recording. Only bounded caches of the store remain."""
    index = world.services().session_texts.index
    archiver = Archiver(home, FolderBlobs(recordings_folder(home)), world.stores.segments, KEYS, index=index)
    pid, connection, events = os.getpid(), await world.add_connection(), queries(random.Random(1))

    async def archive(segments: int) -> tuple[int, int]:
        """Return how much the process holds afterwards, and the most that it held."""
        made = await new_session(world, home, connection)
        for number in range(1, segments + 1):
            await asyncio.to_thread(write, made, number, events, most=MOST, last=number == segments)
        forget_peak(pid)
        assert (await archiver.round()).stored == segments
        release_memory()
        return resident(pid), peak(pid)

    short, _ = await archive(2)
    long, most = await archive(8)
    assert long - short < 40 * _MB
    assert most - short < 96 * _MB
