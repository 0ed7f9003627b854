"""A ledger writer that is killed at any point leaves a consistent ledger, which the next one continues."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

import pytest
from tests.support.recorded import Records
from tests.support.world import World

from postern.store.database import Database

SESSIONS = 400
WRITER = """
import asyncio, sys
from datetime import UTC, datetime
from postern.services.recordings.recording_ledger import Ledger
from postern.store.database import Database
from postern.store.sql.recordings.sql_ledger import SqlLedger

async def write():
    ledger = Ledger(SqlLedger(Database(sys.argv[1])), lambda: datetime.now(UTC))
    print("begun", flush=True)
    while await ledger.write(batch=3, batches=1):
        pass

asyncio.run(write())
"""


@pytest.mark.slow
async def test_ledger_writer_killed_at_random_points_records_each_session_once(sqlite_url: str, tmp_path: Path) -> None:
    database = Database(sqlite_url)
    records = await Records.make(await World.make(database), tmp_path)
    for _ in range(SESSIONS):
        await records.recorded(0)
    killed = 0
    for _ in range(8):
        given = (sys.executable, "-c", WRITER, sqlite_url)
        writer = await asyncio.create_subprocess_exec(*given, stdout=asyncio.subprocess.PIPE)
        assert writer.stdout is not None
        assert await writer.stdout.readline() == b"begun\n"
        await asyncio.sleep(random.uniform(0, 0.15))
        if writer.returncode is None:
            writer.kill()
        killed += await writer.wait() == -9
    services = records.services()
    await services.checkpoints.make(records.user)
    report = await services.verifier.verify(records.world.org_id)
    await database.close()
    assert killed
    assert report.is_good, report.findings
    assert (report.entries, report.sessions_proven) == (2 * SESSIONS, SESSIONS)
