"""A process that begins runs of schedules is killed between two steps, with all that its engine had open. What comes of
the other steps is in test_schedule_runs.py, without a process for each. On both engines."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import replace

import pytest
from tests.services.runbooks.test_schedule_runs import listening, reasons
from tests.services.runbooks.test_schedules import now, pass_by, plan, sessions, stocked
from tests.support.world import World

from postern.services.runbooks.schedules import INTERRUPTED
from postern.store.database import Database

# Does once what is due; it dies right behind one call.
VICTIM = """
import asyncio, os, signal, sys
from datetime import datetime
from tests.support.world import World
from postern.services.runbooks.runs import Runs
from postern.store.database import Database
from postern.store.sql.runbooks.sql_runbook_schedules import SqlRunbookSchedules

async def main(url, master, at, owner, name):
    owner = {one.__name__: one for one in (Runs, SqlRunbookSchedules)}[owner]
    real = getattr(owner, name)

    async def dying(*given, **more):
        await real(*given, **more)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, dying)
    world = await World.make(Database(url), bytes.fromhex(master))
    world.clock.now = datetime.fromisoformat(at)
    await world.services().runbook_schedules.once()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "may_run", "says"),
    [
        ("SqlRunbookSchedules.take", True, INTERRUPTED),
        ("Runs.submit", True, ""),
        ("SqlRunbookSchedules.settle", False, "access mode runbooks is disabled"),
    ],
)
async def test_a_run_is_one_session_or_one_event(
    database: Database, database_url: str, place: str, may_run: bool, says: str
) -> None:
    master = os.urandom(32)
    desk = await stocked(await World.make(database, master))
    await listening(desk)
    await plan(desk)
    if not may_run:
        desk.shop = replace(desk.shop, access_mode_runbooks=desk.shop.access_mode_exec)
        await desk.world.overwrite(desk.shop)
    desk.world.clock.forward(hours=1)
    words = (database_url, master.hex(), desk.world.clock().isoformat(), *place.split("."))
    victim = await asyncio.create_subprocess_exec(sys.executable, "-c", VICTIM, *words)
    assert await victim.wait() == -signal.SIGKILL
    shown = await pass_by(desk, minutes=3)
    told, begun = await reasons(desk), await sessions(desk)
    assert (len(begun), [says in one for one in told]) == ((0, [True]) if says else (1, []))
    assert (says in shown.last_error) if says else shown.last_error == ""
    assert shown.last_session_id == (begun[0].id if begun else None)
    assert await desk.world.stores.runbook_schedules.find_unsettled(desk.world.clock(), 10) == []
    await pass_by(desk, minutes=3)
    assert (await reasons(desk), await sessions(desk), await now(desk)) == (told, begun, shown)
