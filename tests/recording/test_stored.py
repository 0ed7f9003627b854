"""The library reads stored segments like local ones, and reports what is wrong with them."""

from __future__ import annotations

import asyncio
import os
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.support.recordings import KEYS, BrokenBlobs, Made, encrypt, events_of, new_session
from tests.support.world import World

from postern.archive.archiver import Archiver
from postern.archive.folder import FolderBlobs
from postern.domain.sessions.segment import Segment
from postern.errors import NotFound, Unavailable
from postern.interception.events import ClientOutput, End, Event, Operation
from postern.recording import seek
from postern.recording.blob import PIECE
from postern.recording.layout import recordings_folder, spool_folder
from postern.recording.recording_library import Gap, RecordingLibrary
from postern.recording.recovery import recover
from postern.recording.stored import StoredSegments
from postern.store.database import Database


@pytest.fixture
async def world(database: Database) -> World:
    return await World.make(database)


@pytest.fixture
def blobs(home: Path) -> BrokenBlobs:
    return BrokenBlobs(FolderBlobs(recordings_folder(home)))


@pytest.fixture
async def made(world: World, home: Path) -> Made:
    return await new_session(world, home)


async def store(made: Made, blobs: BrokenBlobs) -> list[Segment]:
    done = await Archiver(made.home, blobs, made.world.stores.segments, KEYS).round()
    assert not done.trouble
    return await made.rows()


def library(made: Made, blobs: BrokenBlobs, rows: list[Segment]) -> RecordingLibrary:
    return RecordingLibrary(made.home, {}, stored=StoredSegments(lambda _session: rows, blobs, KEYS))


def events(found: list[tuple[int, Event | Gap]]) -> list[Any]:
    return [event for _, event in found if not isinstance(event, End)]


def wanted(*numbers: int) -> list[Any]:
    return [event for number in numbers for _, event in events_of(number)]


async def test_session_is_read_from_spool_sealed_folder_and_blob_store(made: Made, blobs: BrokenBlobs) -> None:
    made.seal(1)
    made.seal(2)
    rows = await store(made, blobs)
    made.seal(3)
    made.spool(4)
    found = library(made, blobs, rows)
    assert events(list(found.records(made.id))) == wanted(1, 2, 3, 4)
    assert found.reading(made.id).header() == made.header(1)
    assert [text for _, text in found.operations(made.id)][:2] == [b"select 1.0", b"select 1.1"]
    assert b"row 4.2\n" in [content for _, _, content in found.events(made.id)]


async def test_segment_archived_while_the_recording_is_read_is_still_read(made: Made, blobs: BrokenBlobs) -> None:
    """The archiver moves the rest between two segments: the library looks for each where it is then."""
    made.seal_all(3)
    rows: list[Segment] = []
    reading = library(made, blobs, rows).records(made.id)
    found = [next(reading)]
    rows += await store(made, blobs)
    found += list(reading)
    assert events(found) == wanted(1, 2, 3)


async def test_seek_does_not_read_earlier_blobs(made: Made, blobs: BrokenBlobs) -> None:
    made.seal_all(5)
    rows = await store(made, blobs)
    blobs.reads.clear()
    asked: list[UUID] = []

    def rows_of(session: UUID) -> list[Segment]:
        asked.append(session)
        return rows

    reading = RecordingLibrary(made.home, {}, stored=StoredSegments(rows_of, blobs, KEYS)).reading(made.id)
    first = seek.first_segment(reading, 3_500_000)
    assert (first, blobs.reads) == (4, [])
    assert len(asked) == 3, "once for all that is stored, and for each of 8 and 6, which might be there by now"
    assert events(list(reading.records(first))) == wanted(4, 5)
    assert {key for key, _, _ in blobs.reads} == {rows[3].place, rows[4].place}
    assert seek.first_segment(reading, 10**12) == 5
    assert seek.first_segment(reading, 0) == 1


async def test_missing_blob_is_a_gap_and_reading_continues(made: Made, blobs: BrokenBlobs) -> None:
    made.seal_all(3)
    rows = await store(made, blobs)
    (recordings_folder(made.home) / rows[1].place).unlink()
    found = events(list(library(made, blobs, rows).records(made.id)))
    assert found == [*wanted(1), Gap(2, "it is missing from the blob store"), *wanted(3)]
    (recordings_folder(made.home) / rows[0].place).unlink()
    assert library(made, blobs, rows).reading(made.id).header().segment == 3
    (recordings_folder(made.home) / rows[2].place).unlink()
    with pytest.raises(NotFound, match="there is no"):
        library(made, blobs, rows).reading(made.id).header()


async def test_blob_that_vanishes_while_it_is_read_is_a_gap(made: Made, blobs: BrokenBlobs) -> None:
    shown = [(number, ClientOutput(os.urandom(65536))) for number in range(80)]  # more than one piece
    made.seal(1, shown)
    made.seal(2, last=True)
    rows = await store(made, blobs)
    reading = library(made, blobs, rows).records(made.id)
    found = [next(reading)]
    (recordings_folder(made.home) / rows[0].place).unlink()
    found += list(reading)
    (gap,) = [event for _, event in found if isinstance(event, Gap)]
    assert gap == Gap(1, "it is missing from the blob store")
    assert events(found)[-7:] == wanted(2)
    assert 0 < sum(isinstance(event, ClientOutput) for event in events(found)[:-8]) < len(shown)


@pytest.mark.parametrize("cut", [20, 60, 200])
async def test_truncated_blob_is_a_gap_and_reading_continues(made: Made, blobs: BrokenBlobs, cut: int) -> None:
    made.seal_all(3)
    rows = await store(made, blobs)
    path = recordings_folder(made.home) / rows[1].place
    path.write_bytes(path.read_bytes()[:-cut])
    found = events(list(library(made, blobs, rows).records(made.id)))
    assert [event.segment for event in found if isinstance(event, Gap)] == [2]
    assert found[:7] == wanted(1)
    assert found[-7:] == wanted(3)


async def test_attack_blob_replaced_by_another_valid_segment_is_a_gap(made: Made, blobs: BrokenBlobs) -> None:
    """The attacker can write the blob store and has the keys, so that the segment itself is valid."""
    made.seal_all(3)
    rows = await store(made, blobs)
    forged = made.seal(2, [(1_000_000, Operation(1, "select 'harmless'"))])
    place, data_key = recordings_folder(made.home) / rows[1].place, await KEYS.in_use(rows[1].org_id)
    content = encrypt(forged.read_bytes(), rows[1].org_id, made.id, 2, data_key)
    forged.unlink()
    place.write_bytes(content)
    rows[1] = replace(rows[1], stored_size=len(content))
    found = events(list(library(made, blobs, rows).records(made.id)))
    (gap,) = [event for event in found if isinstance(event, Gap)]
    assert gap == Gap(2, "its bytes differ from those that were stored")
    other = await new_session(made.world, made.home)
    content = encrypt(other.seal(2).read_bytes(), rows[1].org_id, made.id, 2, data_key)
    place.write_bytes(content)
    rows[1] = replace(rows[1], stored_size=len(content))
    found = events(list(library(made, blobs, rows).records(made.id)))
    assert found == [*wanted(1), Gap(2, "another segment is stored in its place"), *wanted(3)]


async def test_unavailable_blob_store_is_an_error_and_not_a_gap(made: Made, blobs: BrokenBlobs) -> None:
    """Unavailable segments must not look like lost ones."""
    made.seal_all(2)
    rows = await store(made, blobs)
    blobs.trouble = "the blob store is down"
    with pytest.raises(Unavailable):
        library(made, blobs, rows).reading(made.id).header()
    blobs.trouble = ""
    reading = library(made, blobs, rows).records(made.id)
    next(reading)
    blobs.trouble = "the blob store is down"
    with pytest.raises(Unavailable):
        list(reading)


async def test_slow_reader_requests_blobs_in_pieces(made: Made, blobs: BrokenBlobs) -> None:
    made.seal(1, [(number, ClientOutput(os.urandom(65536))) for number in range(80)], last=True)
    rows = await store(made, blobs)
    found = library(made, blobs, rows).records(made.id)
    next(found)
    assert len(blobs.reads) <= 2
    assert all(length <= PIECE for _, _, length in blobs.reads)
    assert len(list(found)) == 80


async def test_recovery_counts_the_segments_stored_before_the_crash(made: Made, blobs: BrokenBlobs) -> None:
    made.seal(1)
    made.seal(2)
    rows = await store(made, blobs)
    made.spool(3)
    found = await asyncio.to_thread(recover, spool_folder(made.home, "w1"), lambda _session: rows)
    (one,) = found
    assert (one.session, one.operations, one.refused, one.damage) == (made.id, 9, 3, "")
    assert one.size > rows[0].size + rows[1].size
    rows = await store(made, blobs)
    assert [row.is_last for row in rows] == [False, False, True]
    assert not any(row.damage for row in rows)


async def test_spool_of_an_already_stored_segment_is_not_stored_again(made: Made, blobs: BrokenBlobs) -> None:
    """The worker was killed after it sealed the spool and before it deleted it."""
    made.seal(1, last=True)
    rows = await store(made, blobs)
    made.spool(1, end=End("client_closed"))
    await asyncio.to_thread(recover, spool_folder(made.home, "w1"), lambda _session: rows)
    assert made.path(1).exists()
    assert await store(made, blobs) == rows
    assert not made.path(1).exists()


@pytest.mark.parametrize("megabytes", [64, pytest.param(2048, marks=pytest.mark.huge)])
async def test_memory_does_not_grow_with_the_size_of_the_recording(
    made: Made, blobs: BrokenBlobs, megabytes: int
) -> None:
    block = os.urandom(4096) * 16
    count = megabytes // 16
    for number in range(1, count + 1):
        made.seal(number, [(number * 1000 + one, ClientOutput(block)) for one in range(256)], last=number == count)
        if number % 4 == 0:
            await store(made, blobs)
    rows = await store(made, blobs)
    assert sum(row.size for row in rows) > megabytes << 20

    def read() -> int:
        return sum(
            len(event.data) for _, event in library(made, blobs, rows).records(made.id) if type(event) is ClientOutput
        )

    tracemalloc.start()
    assert await asyncio.to_thread(read) == count * 256 * len(block)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 << 20
