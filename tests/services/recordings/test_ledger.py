"""The writer of the ledger, on both engines."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import event
from tests.support.recorded import Records
from tests.support.world import World

from postern.domain.sessions.ledger import EntryKind, LedgerEntry, Recorded
from postern.domain.sessions.session import SessionStatus
from postern.errors import Unavailable
from postern.proof.proof_ledger import first_hash, next_hash
from postern.services.recordings.recording_ledger import DAMAGED_AFTER, LOST_AFTER, Ledger
from postern.store.sql.recordings.sql_ledger import SqlLedger


async def told(world: World) -> list[dict[str, Any]]:
    """All entries, after checking that they are chained."""
    before, found = first_hash(world.org_id), []
    for number, entry in enumerate(await world.stores.ledger.entries(world.org_id, 1, 10**9), 1):
        before = next_hash(before, entry.content)
        assert (entry.number, entry.hash) == (number, before)
        found.append(json.loads(entry.content))
    return found


def kinds(entries: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["kind"], one["session"]) for one in entries]


async def test_session_is_recorded_when_it_opens_and_when_all_its_segments_are_stored(records: Records) -> None:
    ledger = records.services().ledger
    first, second = await records.open(), await records.open()
    waiting = await records.open(status=SessionStatus.READY, script="select 1")
    assert await ledger.write() == 2
    await records.end(first)
    assert await ledger.write() == 0  # its segments are not stored
    await records.store(first, 2, numbers=[2])
    assert await ledger.write() == 0  # one is missing
    await records.sql("delete from segments")
    await records.store(first, 2)
    assert await ledger.write() == 1
    entries = await told(records.world)
    assert kinds(entries) == [("opened", str(first)), ("opened", str(second)), ("closed", str(first))]
    closed = entries[-1]
    assert (closed["segments"], closed["complete"], closed["reason"]) == (2, True, "client_closed")
    assert str(waiting) not in str(entries)
    assert await ledger.write() == 0


async def test_ledger_contains_no_names_or_addresses(records: Records) -> None:
    await records.recorded()
    await records.services().ledger.write()
    text = json.dumps(await told(records.world))
    for name in (records.user.email, records.user.name, records.user.subject, records.connection.name, "192.0.2.7"):
        assert name not in text


async def test_session_without_a_recording_is_closed_with_no_segments(records: Records) -> None:
    session = await records.recorded(0)
    await records.services().ledger.write()
    entries = await told(records.world)
    assert kinds(entries) == [("opened", str(session)), ("closed", str(session))]
    assert (entries[1]["segments"], entries[1]["size"], entries[1]["complete"]) == (0, 0, True)


async def test_script_killed_before_it_ran_is_recorded_as_opened_and_closed(records: Records) -> None:
    session = await records.open(status=SessionStatus.READY, script="select 1")
    await records.end(session, size=0)
    await records.services().ledger.write()
    assert kinds(await told(records.world)) == [("opened", str(session)), ("closed", str(session))]


async def test_session_with_lost_segments_is_closed_as_incomplete_after_a_delay(records: Records) -> None:
    ledger, clock = records.services().ledger, records.world.clock
    lost, damaged = await records.open(), await records.open()
    await records.store(lost, 3, numbers=[1, 3])
    await records.store(damaged, 2, is_last=False, damage="it ends early")
    for session in (lost, damaged):
        await records.end(session)
    assert await ledger.write() == 2
    clock.now += DAMAGED_AFTER
    assert await ledger.write() == 1
    clock.now += LOST_AFTER
    assert await ledger.write() == 1
    closed = {one["session"]: one for one in await told(records.world) if one["kind"] == "closed"}
    assert [closed[str(one)]["complete"] for one in (damaged, lost)] == [False, False]
    assert [closed[str(one)]["segments"] for one in (damaged, lost)] == [2, 2]


async def test_sessions_with_unstored_segments_do_not_block_other_sessions(records: Records) -> None:
    for _ in range(3):
        await records.end(await records.open())  # of which nothing is stored
    done = await records.recorded()
    ledger = records.services().ledger
    await ledger.write(batch=2)
    assert ("closed", str(done)) in kinds(await told(records.world))


async def test_ledger_writes_bounded_batches_and_the_next_round_continues(records: Records) -> None:
    sessions = [await records.recorded(1) for _ in range(5)]
    ledger = records.services().ledger
    assert await ledger.write(batch=2, batches=1) == 4
    assert await ledger.write(batch=2, batches=1) == 4
    assert await ledger.write(batch=2) == 2
    entries = kinds(await told(records.world))
    assert [key for kind, key in entries if kind == "opened"] == list(map(str, sessions))
    assert [key for kind, key in entries if kind == "closed"] == list(map(str, sessions))


async def test_ledger_times_never_decrease_when_the_clock_is_set_back(records: Records) -> None:
    ledger, clock = records.services().ledger, records.world.clock
    await records.recorded()
    await ledger.write()
    clock.forward(seconds=-100)
    await records.recorded()
    await ledger.write()
    moments = [one["at"] for one in await told(records.world)]
    assert moments == sorted(moments)


async def test_concurrent_ledger_writers_record_everything_once(records: Records) -> None:
    sessions = [await records.recorded(1) for _ in range(30)]
    writers = [Ledger(SqlLedger(records.world.database), records.world.clock) for _ in range(4)]

    async def write(ledger: Ledger) -> None:
        for _ in range(40):
            await ledger.write(batch=3, batches=2)

    notes = [writers[0].note(records.world.org_id, EntryKind.HELD, one, by="nobody") for one in sessions[:5]]
    await asyncio.gather(*map(write, writers), *notes)
    entries = kinds(await told(records.world))
    assert len(entries) == len(set(entries)) == 65


async def test_single_entry_gets_the_next_number(records: Records) -> None:
    ledger = records.services().ledger
    session = await records.recorded()
    await ledger.write()
    number = await ledger.note(records.world.org_id, EntryKind.PURGED, session, what="recording", reason="retention")
    assert number == 3
    assert (await told(records.world))[2]["what"] == "recording"


async def test_entry_that_always_loses_its_number_to_others_is_unavailable(records: Records) -> None:
    class Busy(SqlLedger):
        async def append(self, entries: Sequence[LedgerEntry]) -> bool:
            return False

    ledger = Ledger(Busy(records.world.database), records.world.clock)
    with pytest.raises(Unavailable, match="try again"):
        await ledger.note(records.world.org_id, EntryKind.HELD, uuid4(), by="x")


async def test_each_organisation_has_its_own_ledger(records: Records) -> None:
    other = UUID(int=77)
    await records.sql(
        "insert into orgs (id, name, created_at) values (:id, 'other', :at)",
        id=records.key_of(other) if records.world.database.is_sqlite else other,
        at=records.world.clock() if not records.world.database.is_sqlite else "2026-01-01 00:00:00.000000",
    )
    first = await records.recorded(0)
    records.world.org_id, kept = other, records.world.org_id
    second = await records.recorded(0)
    await records.services().ledger.write()
    assert {key for _, key in kinds(await told(records.world))} == {str(second)}
    records.world.org_id = kept
    assert {key for _, key in kinds(await told(records.world))} == {str(first)}


async def test_ledger_round_finds_unrecorded_sessions_by_partial_indexes(records: Records) -> None:
    """With a million sessions, a round every few seconds must not read all of them."""
    if not records.world.database.is_sqlite:
        pytest.skip("PostgreSQL decides by statistics")
    now = records.world.clock()
    heard: list[str] = []

    def hear(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        heard.append(statement)

    engine = records.world.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", hear)
    store = records.world.stores.ledger
    await store.find_unopened(5)
    await store.find_unclosed(5, damaged_before=now, lost_before=now)
    await store.read_sessions(records.world.org_id, uuid4(), 5)
    event.remove(engine, "before_cursor_execute", hear)
    expected = ["ix_sessions_not_opened", "ix_sessions_not_closed", "ix_sessions_org_id_id"]
    with sqlite3.connect(str(engine.url.database)) as connection:
        for statement, index in zip(heard, expected, strict=True):
            plan = connection.execute("explain query plan " + statement, ["x"] * statement.count("?")).fetchall()
            assert index in plan[0][3], plan


async def test_batch_of_entries_is_appended_completely_or_not_at_all(records: Records) -> None:
    """As after a crash during the append: the second entry's number is taken."""
    first, second = await records.open(), await records.open()
    ledger = records.services().ledger
    await ledger.write()
    store = SqlLedger(records.world.database)
    [one, two] = await store.entries(records.world.org_id, 1, 2)
    again = [LedgerEntry(one.org_id, 3, one.at, EntryKind.CLOSED, first, b"{}", one.hash), two]
    assert not await store.append(again)
    assert len(await told(records.world)) == 2
    kept = await store.read_sessions(one.org_id, None, 5)
    assert [one.facts.closed_entry for one in kept if isinstance(one, Recorded)] == [None, None]
    assert second
