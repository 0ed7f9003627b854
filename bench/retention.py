"""What purging costs: sessions purged in a second, and how long others wait who open sessions meanwhile.

    PYTHONPATH=src:. python bench/retention.py [sessions] [sqlite | postgres]

Sessions of one small segment each with a row of searchable text, blob store in a folder. They are opened one after the
other, with 10 ms between two, first by themselves and then beside the purge.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import insert, text
from tests.support.postgres import PostgresServer
from tests.support.recorded import Records
from tests.support.recordings import BrokenBlobs
from tests.support.retention import purger_of
from tests.support.world import World

from postern.archive.folder import FolderBlobs
from postern.domain.sessions.retention import Retention
from postern.domain.sessions.segment import first_link, next_link
from postern.domain.sessions.session import Verb
from postern.store.database import Database
from postern.store.schema.recording_tables import segments
from postern.store.schema.session_tables import session_texts, sessions

SESSIONS = 100_000
CHUNK = 2_000


async def fill(records: Records, count: int) -> None:
    world = records.world
    for first in range(0, count, CHUNK):
        rows, parts, texts = [], [], []
        for number in range(first, min(first + CHUNK, count)):
            key, at = uuid4(), world.clock()
            rows.append(_session(records, key, at))
            parts.append(_segment(world.org_id, key, at))
            texts.append(_text(world, key, number))
            folder = records.folder / str(key)
            folder.mkdir()
            (folder / "1.rec.zst").write_bytes(b"x" * 300)
        async with world.database.transaction() as transaction:
            for table, values in ((sessions, rows), (segments, parts), (session_texts, texts)):
                await transaction.execute(insert(table), values)
    services = records.services()
    while await services.ledger.write():
        pass
    if not world.database.is_sqlite:  # as its own daemon does after so many rows
        async with world.database.statement() as connection:
            await connection.execute(text("analyze"))


def _session(records: Records, key: UUID, at: Any) -> dict[str, Any]:
    maps: dict[str, Any] = {
        name: {} for name in ("connection_tags", "integrations_metadata", "labels", "metadata", "metrics")
    }
    who, target = records.user, records.connection
    return {
        **maps, "id": key, "org_id": records.world.org_id, "principal_id": who.id, "connection_id": target.id,
        "connection": target.name, "connection_subtype": "postgres", "type": "database", "verb": Verb.CONNECT,
        "status": "done", "user": who.email, "user_id": who.subject, "user_name": who.name, "start_date": at,
        "end_date": at, "end_reason": "client_closed", "exit_code": 0, "script_size": 0, "event_size": 300,
        "source": "::1", "pending": 0,
    }  # fmt: skip


def _segment(org_id: UUID, key: UUID, at: Any) -> dict[str, Any]:
    digest = key.bytes * 2
    return {
        "session_id": key, "number": 1, "org_id": org_id, "digest": digest,
        "chain": next_link(first_link(org_id, key), 1, 1000, digest), "size": 1000, "stored_size": 300, "begins": 0,
        "ends": 9, "operations": 1, "is_last": True, "place": f"{key}/1.rec.zst", "stored_at": at, "damage": "",
        "refused": 0,
    }  # fmt: skip


def _text(world: World, key: UUID, number: int) -> dict[str, Any]:
    said = f"select {number} from customers where name = 'x{number % 997}'"
    return {
        "place": number + 1, "session_id": key, "org_id": world.org_id, "pieces": f'[[0, "{number}"]]', "folded": said,
        "words": None, "keys": "" if world.database.is_sqlite else [], "size": len(said), "segments": [1],
        "is_cut": False,
    }  # fmt: skip


async def opens(records: Records, waits: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await records.open()
        waits.append(time.perf_counter() - began)
        await asyncio.sleep(0.01)


@contextmanager
def opening(records: Records) -> Iterator[list[float]]:
    waits: list[float] = []
    task = asyncio.get_running_loop().create_task(opens(records, waits))
    try:
        yield waits
    finally:
        task.cancel()


def said(waits: list[float]) -> str:
    cuts = statistics.quantiles(waits, n=100)
    return f"p50 {cuts[49] * 1e3:.1f} ms, p99 {cuts[98] * 1e3:.1f} ms, longest {max(waits) * 1e3:.1f} ms"


async def measure(url: str, folder: Path, count: int) -> None:
    database = Database(url)
    await database.migrate()
    world = await World.make(database)
    records = await Records.make(world, folder)
    records.folder = folder / "recordings"
    records.folder.mkdir()
    await fill(records, count)
    services = records.services()
    await services.retention.set_organisation(records.user, Retention(1, 1))
    blobs = BrokenBlobs(FolderBlobs(records.folder))
    purger = purger_of(records, services, blobs, folder)
    for _ in range(5):
        await world.stores.purges.tick(world.clock.now, 86_400.0, 86_400.0)
        world.clock.forward(days=0.9)
    began = time.perf_counter()
    preview = await services.retention.preview(records.user, Retention(1, 1))
    print(f"preview of {preview.sessions} sessions: {time.perf_counter() - began:.2f} s")
    with opening(records) as waits:
        await asyncio.sleep(5)
    print(f"opening a session, nothing else: {said(waits)}")
    began, done, rounds = time.perf_counter(), 0, 0
    with opening(records) as waits:
        while done < count:
            done += await purger.once()
            rounds += 1
    seconds = time.perf_counter() - began
    print(f"purged {done} sessions in {seconds:.0f} s, {rounds} rounds: {done / seconds:.0f} sessions/s")
    print(f"opening a session meanwhile: {said(waits)}")
    world.clock.forward(hours=1)
    left = list(records.folder.iterdir())
    assert not left, left[:3]
    await services.checkpoints.make(records.user)
    report = await services.verifier.verify(world.org_id)
    assert report.is_good, report.findings[:3]
    print(f"verified: {report.sessions_purged} purged, nothing found")
    await database.close()


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS
    engine = sys.argv[2] if len(sys.argv) > 2 else "sqlite"
    folder = Path(tempfile.mkdtemp())
    server = PostgresServer() if engine == "postgres" else None
    try:
        if server is not None:
            server.start()
        url = server.dsn("postgres", scheme="postgresql+asyncpg") if server else f"sqlite:///{folder / 'postern.db'}"
        print(f"{engine}, {count} sessions")
        asyncio.run(measure(url, folder, count))
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
