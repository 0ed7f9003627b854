"""The archiver moves each segment to the blob store in order, exactly once, and loses none."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, update
from tests.support.promises import until
from tests.support.proofs import segment_bytes
from tests.support.recordings import KEYS, BrokenBlobs, Made, decrypt, encrypt, events_of, new_session
from tests.support.world import START, World

from postern.archive import archiver as module
from postern.archive import segment_survey as survey_module
from postern.archive.archiver import Archiver
from postern.archive.folder import FolderBlobs
from postern.archive.segment_survey import survey
from postern.domain.sessions.ledger import EntryKind
from postern.domain.sessions.segment import Segment, first_link, next_link
from postern.errors import Unavailable
from postern.interception.events import ClientOutput, Operation
from postern.recording.layout import recordings_folder, sealed_path
from postern.recording.recording_library import Gap, RecordingLibrary
from postern.recording.stored import StoredSegments
from postern.services.recordings.recording_ledger import Ledger
from postern.store.ports.target_ports import Piece
from postern.store.schema.session_tables import sessions


@pytest.fixture
async def made(world: World, home: Path) -> Made:
    return await new_session(world, home)


def archiver_of(world: World, home: Path, blobs: Any, **more: Any) -> Archiver:
    return Archiver(home, blobs, world.stores.segments, KEYS, **more)


def chain_holds(rows: Sequence[Segment]) -> bool:
    link = first_link(rows[0].org_id, rows[0].session_id)
    for row in rows:
        link = next_link(link, row.number, row.size, row.digest)
        if row.chain != link:
            return False
    return True


async def read(made: Made, blobs: Any) -> list[Any]:
    """What the library finds of it, as values."""
    rows = await made.rows()
    library = RecordingLibrary(made.home, {}, stored=StoredSegments(lambda _session: rows, blobs, KEYS))
    return [event for _, event in await asyncio.to_thread(list, library.records(made.id))]


def wanted(*numbers: int) -> list[Any]:
    return [event for number in numbers for _, event in events_of(number)]


def recorded(found: list[Any]) -> list[Any]:
    return [event for event in found if type(event).__name__ != "End"]


async def test_session_is_stored_completely_and_its_sealed_files_are_deleted(
    world: World, home: Path, blobs: BrokenBlobs, made: Made
) -> None:
    made.seal_all(3)
    heard: list[tuple[UUID, int, list[str], bool]] = []

    async def index(session_id: UUID, segment: int, pieces: Sequence[Piece], *, is_last: bool) -> None:
        assert made.path(segment).exists()
        heard.append((session_id, segment, [said for _, said in pieces], is_last))

    plain = [survey(made.path(number), made.id, number) for number in (1, 2, 3)]
    done = await archiver_of(world, home, blobs, index=index).round()
    assert (done.stored, done.waiting, done.set_aside, done.trouble) == (3, 0, 0, "")
    rows = await made.rows()
    assert [row.number for row in rows] == [1, 2, 3]
    assert [(row.digest, row.size) for row in rows] == [(one.digest, one.size) for one in plain]
    assert [(row.begins, row.ends) for row in rows] == [(0, 900), (1000, 1900), (2000, 2900)]
    assert [(row.operations, row.refused, row.is_last, row.damage) for row in rows] == [
        (3, 1, False, ""), (3, 1, False, ""), (3, 1, True, ""),
    ]  # fmt: skip
    assert chain_holds(rows)
    day = made.session.start_date
    assert rows[1].place == f"{world.org_id}/{day:%Y/%m/%d}/{made.id}/000002.rec.zst"
    kept = recordings_folder(home) / rows[1].place
    assert kept.stat().st_size == rows[1].stored_size
    assert kept.stat().st_mode & 0o077 == 0
    assert not list((home / "sealed").glob("*/*/*"))
    assert heard == [(made.id, n, [f"select {n}.{one}" for one in range(3)], n == 3) for n in (1, 2, 3)]
    assert recorded(await read(made, blobs)) == wanted(1, 2, 3)


async def test_segment_whose_text_index_fails_or_times_out_is_stored_anyway(
    world: World, home: Path, blobs: BrokenBlobs, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "INDEX_DEADLINE", 0.05)
    made.seal_all(3)

    async def index(session_id: UUID, segment: int, pieces: Sequence[Piece], *, is_last: bool) -> None:
        if segment == 1:
            raise ValueError("no text")
        await asyncio.Event().wait()

    done = await archiver_of(world, home, blobs, index=index).round()
    assert (done.stored, done.set_aside, done.trouble) == (3, 0, "")


async def test_archiver_stores_segments_while_the_default_thread_pool_is_busy(
    world: World, home: Path, blobs: BrokenBlobs, made: Made
) -> None:
    """A resolver or a blob store that does not respond can occupy all threads of the pool."""
    made.seal_all(3)
    loop, let_go = asyncio.get_running_loop(), threading.Event()
    few = ThreadPoolExecutor(1)
    loop.set_default_executor(few)
    stuck = loop.run_in_executor(None, let_go.wait)
    try:
        async with asyncio.timeout(60):
            done = await archiver_of(world, home, FolderBlobs(home / "kept")).round()
        assert (done.stored, done.trouble) == (3, "")
    finally:
        let_go.set()
        await stuck


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


def _once(monkeypatch: pytest.MonkeyPatch, target: Any, name: str, *, after: bool) -> None:
    """Kills before or after a call, the first time only."""
    real = getattr(target, name)
    calls = 0

    async def call(*given: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2 and not after:  # of the second segment
            raise Killed
        answer = await real(*given, **more)
        if calls == 2 and after:
            raise Killed
        return answer

    monkeypatch.setattr(target, name, call)


@pytest.mark.parametrize("where", ["index", "put", "row", "delete"])
@pytest.mark.parametrize("after", [False, True])
async def test_archiver_killed_at_any_step_stores_every_segment_exactly_once(
    world: World, home: Path, blobs: BrokenBlobs, made: Made, monkeypatch: pytest.MonkeyPatch, where: str, after: bool
) -> None:
    made.seal_all(3)
    heard: dict[int, Sequence[Piece]] = {}

    async def index(session_id: UUID, segment: int, pieces: Sequence[Piece], *, is_last: bool) -> None:
        heard[segment] = pieces  # replaces

    killed = archiver_of(world, home, blobs, index=index)
    segments = world.stores.segments
    with monkeypatch.context() as patch:
        if where == "index":
            _once(patch, killed, "_index", after=after)
        elif where == "put":
            _once(patch, blobs, "put", after=after)
        elif where == "row":
            _once(patch, segments, "add", after=after)
        else:
            real, calls = Path.unlink, 0

            def unlink(path: Path, missing_ok: bool = False) -> None:
                nonlocal calls
                calls += path.name.endswith(".rec.zst")
                if calls == 2 and not after:
                    raise Killed
                real(path, missing_ok)
                if calls == 2:
                    raise Killed

            patch.setattr(Path, "unlink", unlink)
        with pytest.raises(Killed):
            await killed.round()
    assert recorded(await read(made, blobs)) == wanted(1, 2, 3), "also in between everything can be read"
    done = await archiver_of(world, home, blobs, index=index).round()
    assert (done.set_aside, done.trouble) == (0, "")
    rows = await made.rows()
    assert [row.number for row in rows] == [1, 2, 3]
    assert chain_holds(rows)
    assert not any(row.damage for row in rows)
    assert set(heard) == {1, 2, 3}
    assert len([path for path in recordings_folder(home).rglob("*") if path.is_file()]) == 3
    assert not list((home / "sealed").glob("*/*/*"))
    assert recorded(await read(made, blobs)) == wanted(1, 2, 3)


async def test_concurrent_archivers_store_every_segment_once(
    world: World, home: Path, blobs: BrokenBlobs, made: Made
) -> None:
    """Several share the folder and the store for a moment after their supervisor was killed."""
    made.seal_all(6)
    others = [archiver_of(world, home, blobs) for _ in range(3)]
    await asyncio.gather(*(one.round() for one in others))
    while list((home / "sealed").glob("*/*/*")):
        await others[0].round()
    rows = await made.rows()
    assert [row.number for row in rows] == [1, 2, 3, 4, 5, 6]
    assert chain_holds(rows)
    assert recorded(await read(made, blobs)) == wanted(1, 2, 3, 4, 5, 6)


async def test_archivers_of_two_machines_store_only_their_own_segments(
    world: World, tmp_path: Path, blobs: BrokenBlobs
) -> None:
    homes = [tmp_path / f"m{number}" for number in (1, 2)]
    found = [await new_session(world, home) for home in homes for _ in range(3)]
    for one in found:
        one.seal_all(2)
    done = await asyncio.gather(*(archiver_of(world, home, blobs).round() for home in homes))
    assert [one.stored for one in done] == [6, 6]
    for one in found:
        assert chain_holds(await one.rows())
        assert recorded(await read(one, blobs)) == wanted(1, 2)


async def test_segment_waits_a_limited_time_for_the_segment_before_it(
    world: World, home: Path, blobs: BrokenBlobs, made: Made
) -> None:
    made.seal(1)
    made.seal(3, last=True)
    now = time.time()
    one = archiver_of(world, home, blobs, clock=lambda: now)
    done = await one.round()
    assert (done.stored, done.waiting) == (1, 1)
    assert made.path(3).exists()
    now += module.PATIENCE + 5
    assert (await one.round()).stored == 1
    first, third = await made.rows()
    assert (first.number, third.number) == (1, 3)
    assert third.damage == "segment 2 was missing when this one was stored"
    assert third.chain == next_link(first.chain, 3, third.size, third.digest)
    found = await read(made, blobs)
    assert [(event.segment, event.reason) for event in found if isinstance(event, Gap)] == [(2, "it is missing")]
    made.seal(2)  # found again after all
    await one.round()
    second = (await made.rows())[1]
    assert second.damage == "later segments were stored before this one: their hash chain does not include it"
    assert recorded(await read(made, blobs)) == wanted(1, 2, 3)


async def test_segment_that_arrives_in_time_is_not_reported_as_missing(
    world: World, home: Path, blobs: BrokenBlobs, made: Made
) -> None:
    made.seal(2, last=True)
    one = archiver_of(world, home, blobs)
    assert (await one.round()).waiting == 1
    made.seal(1)
    assert (await one.round()).stored == 2
    rows = await made.rows()
    assert chain_holds(rows)
    assert not any(row.damage for row in rows)


async def test_different_content_for_a_stored_segment_is_set_aside_and_logged_once(
    world: World, home: Path, blobs: BrokenBlobs, made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    made.seal(1, last=True)
    one = archiver_of(world, home, blobs)
    await one.round()
    (before,) = await made.rows()
    made.seal(1, [(0, Operation(1, "drop table proof"))], last=True)
    with caplog.at_level(logging.INFO):
        assert (await one.round()).set_aside == 1
        assert (await one.round()).set_aside == 1
    assert "already stored with different content" in caplog.text
    assert len(caplog.records) == 1, "one line, not one a round"
    assert made.path(1).exists()
    assert await made.rows() == [before]
    assert b"drop table" not in decrypt(blobs, before)


async def test_different_content_in_the_blob_store_is_not_overwritten(
    world: World, home: Path, blobs: BrokenBlobs, made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    other = made.seal(1, [(0, Operation(1, "something else"))], last=True)
    day = made.session.start_date
    key = f"{world.org_id}/{day:%Y/%m/%d}/{made.id}/000001.rec.zst"
    data_key = await KEYS.in_use(world.org_id)
    assert await blobs.put(key, [encrypt(other.read_bytes(), world.org_id, made.id, 1, data_key)])
    other.unlink()
    content = (recordings_folder(home) / key).read_bytes()
    made.seal(1, last=True)
    assert (await archiver_of(world, home, blobs).round()).set_aside == 1
    assert "nothing was overwritten" in caplog.text
    assert (recordings_folder(home) / key).read_bytes() == content
    assert made.path(1).exists()
    assert await made.rows() == []


async def test_damaged_segment_is_stored_unchanged_and_marked_as_damaged(
    world: World, home: Path, blobs: BrokenBlobs, made: Made
) -> None:
    made.seal_all(3)
    path = made.path(2)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    assert (await archiver_of(world, home, blobs).round()).stored == 3
    rows = await made.rows()
    assert [bool(row.damage) for row in rows] == [False, True, False]
    assert chain_holds(rows)
    found = await read(made, blobs)
    (gap,) = [event for event in found if isinstance(event, Gap)]
    assert gap.segment == 2
    kept = [event for event in recorded(found) if not isinstance(event, Gap)]
    assert kept[:7] == wanted(1)
    assert kept[-7:] == wanted(3)


@pytest.mark.parametrize(
    "content",
    [b"", b"no recording at all", b"\x28\xb5\x2f\xfd", bytes(range(1, 101))],
    ids=["nothing", "text", "a frame cut", "bytes"],
)
async def test_unreadable_segment_file_is_stored_and_marked_as_damaged(
    world: World, home: Path, blobs: BrokenBlobs, made: Made, content: bytes
) -> None:
    made.seal(1, last=True)
    made.path(1).write_bytes(content)
    assert (await archiver_of(world, home, blobs).round()).stored == 1
    (row,) = await made.rows()
    assert row.damage
    assert decrypt(blobs, row) == content


async def test_segment_under_another_sessions_file_name_is_marked_as_damaged(
    world: World, home: Path, blobs: BrokenBlobs, made: Made
) -> None:
    other = await new_session(world, home)
    other.seal(1, last=True)
    os.replace(other.path(1), made.path(1))
    await archiver_of(world, home, blobs).round()
    (row,) = await made.rows()
    assert row.damage == "its header names another segment"
    (gap,) = await read(made, blobs)
    assert gap.reason == "another segment is stored in its place"


async def test_segment_of_an_unknown_session_does_not_block_other_sessions(
    world: World, home: Path, blobs: BrokenBlobs, made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = replace(made, session=replace(made.session, id=uuid4()))
    stranger.seal(1, last=True)
    made.seal(1, last=True)
    done = await archiver_of(world, home, blobs).round()
    assert (done.stored, done.set_aside) == (1, 1)
    assert stranger.path(1).exists()
    assert "does not exist in the store" in caplog.text
    assert blobs.puts == [(await made.rows())[0].place], "nothing is stored that has no owner"


async def test_file_that_is_not_a_segment_is_not_touched(
    world: World, home: Path, blobs: BrokenBlobs, made: Made
) -> None:
    made.seal(1, last=True)
    folder = made.path(1).parent
    for name in ("x.rec.zst", f"{made.id}.1.rec.zst", f"{made.id}.000002.rec.zst.partial", "../../../evil.rec.zst"):
        (folder / Path(name).name).write_bytes(b"x")
    assert (await archiver_of(world, home, blobs).round()).stored == 1
    assert len(list(folder.iterdir())) == 4


async def test_archiver_retries_with_growing_delays_and_logs_a_blob_store_outage_once(
    world: World, home: Path, blobs: BrokenBlobs, made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    made.seal_all(2)
    blobs.trouble = "the blob store is down"
    rounds: list[module.Round] = []
    one = archiver_of(world, home, blobs, pause=0.01)
    with caplog.at_level(logging.INFO):
        clock, at = asyncio.get_running_loop().time, list[float]()

        def told(done: module.Round) -> None:
            rounds.append(done)
            at.append(clock())

        task = asyncio.create_task(one.forever(told))
        await until(lambda: len(rounds) >= 5)
        waited = [after - before for before, after in pairwise(at)]
        assert all(wait >= 0.01 * 2**count for count, wait in enumerate(waited, 1)), "each time it waits longer"
        assert all(one.trouble for one in rounds)
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert made.path(1).exists()
        blobs.trouble = ""
        await until(lambda: not list((home / "sealed").glob("*/*/*")))
        await until(lambda: len(caplog.records) >= 2)
        await asyncio.sleep(0.05)
        task.cancel()
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]
    assert "stored again" in caplog.text
    assert chain_holds(await made.rows())


async def test_segment_is_stored_once_an_unavailable_store_recovers(
    world: World, home: Path, blobs: BrokenBlobs, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.seal(1, last=True)

    async def down(_row: Segment) -> bool:
        raise Unavailable("the store does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(world.stores.segments, "add", down)
        done = await archiver_of(world, home, blobs).round()
        assert (done.trouble, done.stored) == ("the store does not answer", 0)
    assert made.path(1).exists()
    assert (await archiver_of(world, home, blobs).round()).stored == 1
    assert recorded(await read(made, blobs)) == wanted(1)


async def test_archiver_stops_at_once_while_the_blob_store_hangs(
    world: World, home: Path, blobs: BrokenBlobs, made: Made
) -> None:
    made.seal(1, last=True)
    blobs.hang = asyncio.Event()
    task = asyncio.create_task(archiver_of(world, home, blobs).forever())
    async with asyncio.timeout(60):
        await until(lambda: blobs.puts)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert made.path(1).exists()
    assert recorded(await read(made, blobs)) == wanted(1)


async def test_upload_to_a_hanging_blob_store_times_out(
    world: World, home: Path, blobs: BrokenBlobs, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.seal(1, last=True)
    blobs.hang = asyncio.Event()
    with monkeypatch.context() as patch:
        patch.setattr(module, "PUT_DEADLINE", 0.1)
        done = await archiver_of(world, home, blobs).round()
    assert done.trouble == "the folder of a test did not accept a segment within 0.1 s"
    blobs.hang = None
    assert (await archiver_of(world, home, blobs).round()).stored == 1


async def test_files_that_cannot_be_stored_do_not_block_other_files(
    world: World, home: Path, blobs: BrokenBlobs, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    for _ in range(6):
        replace(made, session=replace(made.session, id=uuid4())).seal(1, last=True)
    made.seal(1, last=True)
    one = archiver_of(world, home, blobs)
    for _ in range(3):
        await one.round()
    assert len(await made.rows()) == 1


async def test_session_deleted_during_a_round_does_not_stop_the_round(
    world: World, home: Path, blobs: BrokenBlobs, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await new_session(world, home)
    for one in (made, other):
        one.seal(1, last=True)
    real = blobs.put

    async def put(key: str, content: Iterable[bytes]) -> bool:
        if str(made.id) in key:
            async with world.database.statement() as connection:
                await connection.execute(delete(sessions).where(sessions.c.id == made.id))
        return await real(key, content)

    monkeypatch.setattr(blobs, "put", put)
    done = await archiver_of(world, home, blobs).round()
    assert (done.stored, done.set_aside) == (1, 1)
    assert made.path(1).exists()
    assert len(await other.rows()) == 1


def test_memory_of_segment_indexing_does_not_grow_with_output(tmp_path: Path, made_alone: Path) -> None:
    """Indexing a segment with 64 MiB of output takes a few MiB."""
    import tracemalloc

    session = UUID(made_alone.name.partition(".")[0])
    tracemalloc.start()
    told = survey(made_alone, session, 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert told.size > 64 * 1024 * 1024
    assert not told.damage
    assert peak < 8 * 1024 * 1024


@pytest.fixture
def made_alone(tmp_path: Path) -> Path:
    from postern.interception.events import End
    from postern.recording.layout import spool_path
    from postern.recording.record_format import Header, encode
    from postern.recording.sealing import seal
    from postern.recording.spool import Spool

    header = Header(uuid4(), uuid4(), "postgres", "shop", "ann", START)
    spool = Spool.create(spool_path(tmp_path, "w1", header.session), header)
    block = os.urandom(1024) * 64
    for count in range(1025):
        spool.append(encode(ClientOutput(block), count))
    spool.append(encode(End("x"), 2000))
    spool.close()
    path = sealed_path(tmp_path, header.session, START)
    seal(spool.path, path)
    return path


async def test_purged_segment_is_not_stored_again(world: World, home: Path, blobs: BrokenBlobs, made: Made) -> None:
    """The file can have been on another machine when the recording or the whole session was purged."""
    unknown = await new_session(world, home)
    whole = await new_session(world, home)
    for one in (made, unknown, whole):
        one.seal(1, last=True)
    async with world.database.statement() as connection:
        purged = update(sessions).where(sessions.c.id == made.id).values(recording_purged_at=START)
        await connection.execute(purged)
    ledger = Ledger(world.stores.ledger, world.clock)
    await ledger.note(world.org_id, EntryKind.PURGED, whole.id, what="session", reason="asked to")
    for gone in (unknown, whole):
        async with world.database.statement() as connection:
            await connection.execute(delete(sessions).where(sessions.c.id == gone.id))
    done = await archiver_of(world, home, blobs).round()
    assert (done.stored, done.set_aside) == (0, 1)
    assert [one.path().exists() for one in (made, unknown, whole)] == [False, True, False]
    assert blobs.puts == []


def test_indexed_statements_of_a_segment_are_limited_to_one_more_than_the_search_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The additional one tells the search that there were more. All bytes are still hashed."""
    key = uuid4()
    source = segment_bytes(key, 1, is_last=True, texts=[f"select {number:04}" for number in range(1000)])
    whole = survey(io.BytesIO(source), key, 1)
    assert len(whole.texts) == 1000
    monkeypatch.setattr(survey_module, "MOST_TEXT", 1200)
    cut = survey(io.BytesIO(source), key, 1)
    assert cut.texts == whole.texts[:101]
    assert replace(cut, texts=whole.texts) == whole
