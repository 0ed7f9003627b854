"""Schedules in the store, and which process runs those that are due. On both engines."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select
from tests.support.world import START, World

from postern.domain.identity.organisation import Organisation
from postern.domain.lists import Page
from postern.domain.runbook import Schedule
from postern.domain.secret import Secret
from postern.errors import TooMany
from postern.store.database import Database
from postern.store.schema.runbook_tables import runbook_schedule_runs, runbook_schedules
from postern.store.sql.resealing import count_by_key
from postern.store.sql.runbooks.sql_runbook_schedules import BEGINS

MOST = 100


async def schedule_of(world: World, name: str = "nightly", **fields: Any) -> Schedule:
    connection = fields.pop("connection", None) or await world.add_connection(f"shop-{name}")
    empty = Schedule(
        uuid4(),
        world.org_id,
        name,
        owner_id=fields.pop("owner_id", None) or (await world.add_user(f"owner-of-{name}")).id,
        connection_id=connection.id,
        repository="git.example.com/acme/ops",
        file="a/b.runbook.sh",
        cron="0 3 * * *",
        zone="Europe/Berlin",
        next_at=START,
        created_at=START,
        updated_at=START,
    )
    return replace(empty, **fields)


async def add(world: World, name: str = "nightly", **fields: Any) -> Schedule:
    made = await schedule_of(world, name, **fields)
    await world.stores.runbook_schedules.add(made)
    return made


async def kept(world: World, schedule: Schedule) -> Schedule:
    found = await world.stores.runbook_schedules.get(world.org_id, str(schedule.id))
    assert found is not None
    return found


async def test_schedule_is_stored_unchanged_and_updated(world: World) -> None:
    store = world.stores.runbook_schedules
    parameters = {"user": Secret("ann"), "pin": Secret("planted-'\u00e9")}
    made = await add(world, parameters=parameters, tracker_fields={"summary": Secret("why")})
    for key in ("nightly", str(made.id)):
        found = await store.get(world.org_id, key)
        assert found is not None
        assert (found, found.connection, found.owner) == (made, "shop-nightly", "owner-of-nightly@example.com")
    assert (await kept(world, made)).parameters["pin"].reveal() == "planted-'\u00e9"
    other = await world.add_connection("other")
    changed = replace(made, name="x", connection_id=other.id, cron="1 * * * *", enabled=False, next_at=None)
    changed = replace(changed, file="c", repository="d", zone="UTC", parameters={}, updated_at=START + timedelta(1))
    changed = replace(changed, tracker_fields={})
    changed = await store.update(changed)
    assert await kept(world, made) == changed
    await store.remove(changed)
    assert await store.get(world.org_id, "x") is None


async def test_schedule_parameters_are_sealed(world: World) -> None:
    made = await add(world, parameters={"pin": Secret("planted")}, tracker_fields={"why": Secret("planted")})
    async with world.database.statement() as connection:
        (raw,) = (await connection.execute(select(runbook_schedules.c.given))).scalars()
    assert b"planted" not in raw
    assert base64.b64encode(b"planted") not in raw
    assert sum((await count_by_key(world.database)).values()) >= 1
    await world.stores.runbook_schedules.update(replace(made, name="other"))
    assert (await kept(world, made)).parameters["pin"].reveal() == "planted"


async def test_schedules_are_listed_by_owner_or_all_by_name(world: World) -> None:
    other = Organisation(uuid4(), "acme", START)
    await world.stores.organisations.add(other)
    store = world.stores.runbook_schedules
    for name in ("bbb", "aaa", "ccc"):
        await add(world, name)
    mine = await kept(world, await add(world, "mine"))
    await store.add(replace(await schedule_of(world, "theirs"), org_id=other.id, name="aaa"))
    page = await store.find(world.org_id, Page(2, 1))
    assert ([one.name for one in page.items], page.total) == (["bbb", "ccc"], 4)
    own = await store.find(world.org_id, Page(), owner_id=mine.owner_id)
    assert (list(own.items), own.total) == ([mine], 1)


async def test_schedules_per_organisation_are_limited(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.stores.runbook_schedules, "most", 2)
    rest = [await schedule_of(world, f"x-{number}") for number in range(4)]
    outcomes = await asyncio.gather(*(world.stores.runbook_schedules.add(one) for one in rest), return_exceptions=True)
    assert sum(isinstance(one, TooMany) for one in outcomes) == 2
    assert (await world.stores.runbook_schedules.find(world.org_id, Page())).total == 2


async def test_due_schedules_are_ordered_by_waiting_time(world: World) -> None:
    for name, hours, enabled in (("late", -5, True), ("now", 0, True), ("soon", 1, True), ("off", -9, False)):
        await add(world, name, next_at=START + timedelta(hours=hours), enabled=enabled)
    await add(world, "never", next_at=None)
    store = world.stores.runbook_schedules
    assert [one.name for one in await store.due(START, 10, MOST)] == ["late", "now"]
    assert [one.name for one in await store.due(START, 1, MOST)] == ["late"]


async def test_due_schedules_of_organisations_take_turns(world: World) -> None:
    other = Organisation(uuid4(), "acme", START)
    await world.stores.organisations.add(other)
    store = world.stores.runbook_schedules
    for number in range(4):
        await add(world, f"mine-{number}", next_at=START - timedelta(hours=9 - number))
    for number in range(2):
        theirs = await schedule_of(world, f"theirs-{number}", next_at=START - timedelta(minutes=9 - number))
        await store.add(replace(theirs, org_id=other.id))
    turns = ["mine-0", "theirs-0", "mine-1", "theirs-1", "mine-2", "mine-3"]
    assert [one.name for one in await store.due(START, 10, 10)] == turns
    assert [one.name for one in await store.due(START, 10, 2)] == turns[:4]
    assert [one.name for one in await store.due(START, 3, 10)] == turns[:3]


async def test_taken_schedule_is_no_longer_due_and_records_its_outcome(world: World) -> None:
    made = await add(world)
    store, then, run_id = world.stores.runbook_schedules, START + timedelta(hours=1), uuid4()
    assert not await store.take(run_id, made.id, then, None, START)
    assert await store.take(run_id, made.id, START, then, START)
    assert not await store.take(uuid4(), made.id, START, then, START)
    assert await store.due(START, 10, MOST) == []
    taken = replace(made, next_at=then, last_at=START, last_error=BEGINS)
    assert await kept(world, made) == taken
    assert await store.settle(run_id, "")
    assert await kept(world, made) == replace(taken, last_session_id=run_id, last_error="")
    again = uuid4()
    assert await store.take(again, made.id, then, then, then)
    assert await store.settle(again, "why")
    told = replace(taken, last_at=then, last_session_id=run_id, last_error="why")
    assert await kept(world, made) == told
    # A change does not touch what is told of the last run.
    changed = await store.update(replace(made, next_at=then, last_error="other"))
    told = replace(told, version=changed.version)
    assert await kept(world, made) == told
    await store.ran(made.id, again)
    assert await kept(world, made) == replace(told, last_session_id=again, last_error="")
    await store.update(replace(changed, next_at=then, enabled=False))
    assert not await store.take(uuid4(), made.id, then, None, START)


async def test_schedule_run_is_kept_until_it_started_or_was_reported(world: World) -> None:
    made, other = await add(world), await add(world, "other")
    store, postprocessing = world.stores.runbook_schedules, world.stores.postprocessing
    first, second, later = uuid4(), uuid4(), START + timedelta(hours=1)
    assert await store.take(first, made.id, START, later, later)
    assert await store.take(second, other.id, START, later, later + timedelta(minutes=1))
    whole = await store.find_unsettled(later + timedelta(hours=1), 10)
    assert [one.id for one in whole] == [first, second]
    assert await store.find_unsettled(later, 10) == []
    assert [one.id for one in await store.find_unsettled(later + timedelta(hours=1), 10, other.id)] == [second]
    run = whole[0]
    assert (run.schedule, run.owner, run.connection) == ("nightly", "owner-of-nightly@example.com", "shop-nightly")
    assert (run.schedule_id, run.owner_id, run.connection_id) == (made.id, made.owner_id, made.connection_id)
    assert (run.repository, run.file, run.due_at, run.at) == (made.repository, made.file, START, later)
    assert await postprocessing.failed_runs(10) == []
    # Of those who say at once what came of it, one is heard.
    said = await asyncio.gather(store.settle(first, "why"), store.settle(first, "why"), store.settle(first, ""))
    assert sorted(said) == [False, False, True]
    await store.settle(second, "")
    assert await store.find_unsettled(later + timedelta(hours=1), 10) == []
    failed = await postprocessing.failed_runs(10)
    if failed:  # else it came about
        assert failed == [replace(run, error="why")]
        await postprocessing.queue_schedule_events([first], [])
    async with world.database.statement() as connection:
        assert (await connection.execute(select(runbook_schedule_runs.c.id))).all() == []


async def test_outcome_of_an_earlier_run_does_not_overwrite_a_later_one(world: World) -> None:
    made, store, later = await add(world), world.stores.runbook_schedules, START + timedelta(hours=1)
    first, second = uuid4(), uuid4()
    assert await store.take(first, made.id, START, later, START)
    assert await store.take(second, made.id, later, None, later)
    assert await store.settle(second, "")
    assert await store.settle(first, "lost")
    shown = await kept(world, made)
    assert (shown.last_session_id, shown.last_error) == (second, "")
    assert [one.id for one in await world.stores.postprocessing.failed_runs(10)] == [first]


async def test_schedule_is_deleted_with_its_connection_and_stays_without_its_owner(world: World) -> None:
    made, other = await add(world), await add(world, "other")
    shop = await world.stores.connections.get(world.org_id, str(made.connection_id))
    assert shop is not None
    await world.stores.connections.remove(shop)
    assert await world.stores.runbook_schedules.get(world.org_id, "nightly") is None
    await world.stores.principals.remove(other.owner_id)
    found = await world.stores.runbook_schedules.get(world.org_id, "other")
    assert found is not None
    assert (found, found.owner) == (other, "")
    assert await world.stores.runbook_schedules.take(uuid4(), other.id, START, None, START)
    (run,) = await world.stores.runbook_schedules.find_unsettled(START + timedelta(1), 10)
    assert (run.owner_id, run.owner) == (other.owner_id, "")
    await world.stores.runbook_schedules.remove(other)
    assert await world.stores.runbook_schedules.settle(run.id, "it is told also of one that is gone")


# Takes what is due over and over, and prints what it has taken.
TAKER = """
import asyncio, sys
from datetime import timedelta
from uuid import uuid4
from postern.domain.secret import Secret
from postern.store.database import Database
from postern.store.encryption import Encryption, LocalMaster
from postern.store.stores import Stores
from postern.store.sql.sql_data_keys import SqlDataKeys
from tests.support.world import START

async def main():
    database = Database(sys.argv[1])
    encryption = Encryption(SqlDataKeys(database), LocalMaster(bytes.fromhex(sys.argv[2])))
    store = Stores(database, encryption).runbook_schedules
    await store.due(START, 1, 1)
    print("ready", flush=True)
    sys.stdin.readline()
    while due := await store.due(START, 10, 10):
        for one in due:
            if await store.take(uuid4(), one.id, one.next_at, one.next_at + timedelta(hours=2), START):
                print(one.id, one.next_at.isoformat(), flush=True)
    await database.close()

asyncio.run(main())
"""


@pytest.mark.ci
async def test_each_schedule_run_is_taken_by_one_of_several_processes(database: Database, database_url: str) -> None:
    master = os.urandom(32)
    world = await World.make(database, master)
    made = [await add(world, f"x-{number}", next_at=START - timedelta(hours=9)) for number in range(6)]
    command = (sys.executable, "-c", TAKER, database_url, master.hex())
    pipe = asyncio.subprocess.PIPE
    takers = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe) for _ in range(3)]
    try:
        for taker in takers:
            assert taker.stdout is not None
            assert (await taker.stdout.readline()).strip() == b"ready"
        outputs = await asyncio.gather(*(taker.communicate(b"go\n") for taker in takers))
    finally:
        for taker in takers:
            if taker.returncode is None:
                taker.kill()
                await taker.wait()
    assert [taker.returncode for taker in takers] == [0] * 3
    runs = [line for output, _ in outputs for line in output.decode().split("\n") if line]
    assert len(runs) == len(set(runs)) == len(made) * 5  # at nine, seven, five, three hours and one before
    assert {UUID(line.split()[0]) for line in runs} == {one.id for one in made}
