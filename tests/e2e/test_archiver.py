"""The archiver as a process, killed at random points and inside a whole gateway; and behaviour on a full disk."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import until, wait_until, within
from tests.support.recordings import Made, events_of, new_session
from tests.support.world import World

from postern.archive.folder import FolderBlobs
from postern.domain.sessions.segment import first_link, next_link
from postern.recording.layout import recordings_folder
from postern.recording.recording_library import RecordingLibrary
from postern.recording.stored import StoredSegments
from postern.settings import load
from postern.store.database import Database
from postern.store.encryption import file_key, make_file_key
from postern.store.ports.keys import SegmentKeys
from postern.wiring import paths
from postern.wiring.blobs import KeysForThreads

pytestmark = pytest.mark.slow


@contextmanager
def archiver(home: Path, url: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    settings = load({}, home=str(home), database_url=url)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "postern", "archiver"],
            env={**os.environ, **settings.environment()},
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def left(home: Path) -> int:
    return len(list((home / "sealed").glob("*/*/*.rec.zst")))


def check(made: Made, rows: list, segments: int, keys: SegmentKeys) -> None:  # type: ignore[type-arg]
    """Every segment once, the chain whole, every record there."""
    assert [row.number for row in rows] == list(range(1, segments + 1))
    assert not any(row.damage for row in rows)
    link = first_link(rows[0].org_id, rows[0].session_id)
    for row in rows:
        link = next_link(link, row.number, row.size, row.digest)
        assert row.chain == link
    stored = StoredSegments(lambda _: rows, FolderBlobs(recordings_folder(made.home)), keys)
    found = [event for _, event in RecordingLibrary(made.home, {}, stored=stored).records(made.id)]
    wanted = [event for number in range(1, segments + 1) for _, event in events_of(number)]
    assert [event for event in found if type(event).__name__ != "End"] == wanted


async def opened(database: Database, home: Path) -> World:
    """A store that the archiver of this home can open, too."""
    settings = load({}, home=str(home))
    make_file_key(paths.encryption_key(settings))
    return await World.make(database, file_key(paths.encryption_key(settings)))


async def kill_at_random(database: Database, home: Path, kills: int, count: int) -> None:
    world = await opened(database, home)
    connection = await world.add_connection()
    made = [await new_session(world, home, connection) for _ in range(count)]
    for one in made:
        await asyncio.to_thread(one.seal_all, 3)
    url = database._url.render_as_string(hide_password=False)
    chance = random.Random(kills)
    log = home / "log"
    killed_in_the_middle = 0
    for _ in range(kills):
        with archiver(home, url, log) as process:
            before = left(home)
            async with asyncio.timeout(120):
                while before and left(home) == before:  # noqa: ASYNC110 - files set no event
                    await asyncio.sleep(0.002)
            await asyncio.sleep(chance.uniform(0, 0.05))
            process.kill()
        killed_in_the_middle += left(home) > 0
    assert killed_in_the_middle >= kills // 2
    with archiver(home, url, log):
        await until(lambda: not left(home), 300)
    await world.encryption.load()
    keys = KeysForThreads(world.encryption, asyncio.get_running_loop())
    for one in made:
        check(one, await one.rows(), 3, keys)
    assert len(list(recordings_folder(home).rglob("*.rec.zst"))) == 3 * count
    assert "Traceback" not in await asyncio.to_thread(log.read_text)


async def test_archiver_killed_at_random_points_loses_no_segment(database: Database, tmp_path: Path) -> None:
    await kill_at_random(database, tmp_path / "home", kills=2, count=60)


@pytest.mark.huge
async def test_archiver_killed_at_many_random_points_loses_no_segment(database: Database, tmp_path: Path) -> None:
    await kill_at_random(database, tmp_path / "home", kills=25, count=600)


async def test_archiver_stops_within_seconds_of_sigterm(database: Database, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    url = database._url.render_as_string(hide_password=False)
    with archiver(home, url, tmp_path / "log") as process:
        await asyncio.to_thread(wait_until, lambda: (home / "run" / "archiver").exists())
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, within(3)) == 0


@pytest.fixture
def tight(target: PostgresServer) -> Iterator[Gateway]:
    """A gateway whose spool is a file system of 64 MiB, of which 40 must be free."""
    running = Gateway(recording_least_free=40 << 20, recording_output_limit=1 << 40, recording_segment_size=1 << 40)
    spool = running.home / "spool"
    spool.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(spool)], capture_output=True)
    if done.returncode != 0:
        pytest.skip("only root may mount")
    try:
        running.start()
        running.connection("target", target)
        yield running
    finally:
        for worker in running.workers.values():
            worker.kill()
        subprocess.run(["umount", "-l", str(spool)], check=True)
        running.stop()


def refusal(gateway: Gateway) -> str:
    """What a new client is told; empty when it is let in."""
    try:
        psycopg.connect(gateway.url()).close()
    except psycopg.OperationalError as error:
        return str(error)
    return ""


def show_slowly(connection: psycopg.Connection) -> None:
    for _ in range(60):
        connection.execute("select repeat('x', 1000000)")
        time.sleep(0.1)


def test_nearly_full_disk_denies_new_sessions_and_then_ends_running_ones(tight: Gateway) -> None:
    with psycopg.connect(tight.url(), autocommit=True) as large:
        session = tight.newest()
        large.execute("select repeat('x', 1000000) from generate_series(1, 26)")

        wait_until(lambda: "MiB left" in refusal(tight))
        assert large.execute("select 'goes on'").fetchone() == ("goes on",)
        with pytest.raises(psycopg.OperationalError, match="the gateway cannot record this session"):
            show_slowly(large)
    assert tight.finished(session.id).metadata["end_reason"] == "recording_failed"
    assert "No space left" not in tight.worker.log()
    assert "goes on" in tight.text(session.id)
    wait_until(lambda: not refusal(tight))  # it was sealed, so there is room again
    wait_until(lambda: "there is enough space for recordings again" in tight.worker.log())


def test_full_disk_denies_a_session_with_the_reason(gateway: Gateway) -> None:
    worker = gateway.add_worker(
        "poor", postgres_port=free_port(), tunnel_port=free_port(), recording_least_free=1 << 60
    )
    with pytest.raises(psycopg.OperationalError, match=r"this gateway's disk has \d+ MiB left"):
        psycopg.connect(gateway.url(port=worker.port))
    assert gateway.newest_finished().metadata["end_reason"] == "recording_failed"
    worker.stop()
    del gateway.workers["poor"]
