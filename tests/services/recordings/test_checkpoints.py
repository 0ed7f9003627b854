from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text
from tests.support.recorded import Records

from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.sessions.ledger import Checkpoint
from postern.errors import Conflict, Denied
from postern.proof.proof_checkpoints import Trust, is_good, new_key, read_line
from postern.proof.proof_findings import FindingKind
from postern.services.background_jobs import BackgroundJobs, Task
from postern.services.recordings.ledger_worker import LASTS


def auditor(records: Records) -> Principal:
    return replace(records.user, groups=frozenset({"auditor"}))


async def test_checkpoint_on_demand_covers_all_entries_and_reaches_the_anchor(records: Records) -> None:
    services = records.services()
    with pytest.raises(Conflict, match="the ledger is empty"):
        await services.checkpoints.make(records.user)
    await records.recorded()
    made = await services.checkpoints.make(records.user)
    [key] = await services.checkpoints.keys(auditor(records))
    assert made.number == 2
    assert is_good(made, key.public)
    assert [read_line(line) for line in records.anchor.lines] == [made]
    assert await services.checkpoints.make(records.user) == made
    listed = await services.checkpoints.find(auditor(records), Page())
    [(checkpoint, [state])] = listed.items
    assert (checkpoint, state.anchor, state.error) == (made, "held", "")
    assert state.done_at is not None


async def test_user_without_the_needed_group_cannot_make_list_or_export_checkpoints(records: Records) -> None:
    services = records.services()
    nobody = replace(records.user, groups=frozenset())
    for call in (
        services.checkpoints.make(nobody),
        services.checkpoints.make(auditor(records)),
        services.checkpoints.rotate(auditor(records)),
        services.checkpoints.keys(nobody),
        services.checkpoints.find(nobody, Page()),
        services.exports.begin(nobody, None, None),
    ):
        with pytest.raises(Denied):
            await call


async def test_checkpoint_is_made_at_an_interval_if_there_are_new_entries(records: Records) -> None:
    services, clock = records.services(), records.world.clock
    keeper = services.ledger_worker
    await keeper.once()
    assert await records.world.stores.checkpoints.newest(records.world.org_id) is None
    await records.open()
    await keeper.once()
    await records.open()
    await keeper.once()
    assert len(records.anchor.lines) == 1
    clock.forward(minutes=10)
    await keeper.once()
    await keeper.once()
    clock.forward(minutes=10)
    await keeper.once()
    assert [read_line(line).number for line in records.anchor.lines] == [1, 2]


async def test_unavailable_anchor_is_retried_and_its_error_listed(records: Records) -> None:
    services, clock = records.services(), records.world.clock
    records.anchor.away = True
    await records.open()
    await services.ledger_worker.once()
    await services.ledger_worker.once()  # too early for another try
    listed = await services.checkpoints.find(records.user, Page())
    [(_, [state])] = listed.items
    assert (state.attempts, state.done_at, state.error) == (1, None, "the anchor is away")
    clock.forward(seconds=11)
    await services.ledger_worker.once()
    records.anchor.away = False
    clock.forward(hours=1)
    await services.ledger_worker.once()
    listed = await services.checkpoints.find(records.user, Page())
    [(_, [state])] = listed.items
    assert (state.attempts, state.error) == (3, "")
    assert len(records.anchor.lines) == 1


async def test_anchor_that_is_no_longer_configured_is_listed_with_an_error(records: Records) -> None:
    await records.open()
    await records.services().ledger.write()
    records.anchor.away = True
    await records.services().checkpoints.make(records.user)
    without = records.world.services()
    records.world.clock.forward(hours=2)
    await without.checkpoints.bring()
    [(_, [state])] = (await without.checkpoints.find(records.user, Page())).items
    assert "no longer configured" in state.error


async def test_rotated_key_is_introduced_by_the_previous_key(records: Records) -> None:
    services = records.services()
    await records.open()
    await services.checkpoints.make(records.user)
    old = await services.checkpoints.signing(records.world.org_id)
    new = await services.checkpoints.rotate(records.user)
    assert await services.checkpoints.signing(records.world.org_id) == new
    await records.open()
    await services.checkpoints.make(records.user)
    found = await records.world.stores.ledger.checkpoints(records.world.org_id, 0, 10)
    checkpoints = [one for one in found if isinstance(one, Checkpoint)]
    assert [one.number for one in checkpoints] == [1, 2, 3]
    assert [one.key for one in checkpoints] == [old.id, old.id, new.id]
    trust = Trust([old.public])
    assert [trust.refusal(one) for one in checkpoints] == ["", "", ""]
    kept = await services.checkpoints.keys(records.user)
    assert [(one.id, one.retired_at is None) for one in kept] == [(new.id, True), (old.id, False)]


async def test_private_ledger_key_is_encrypted_in_the_store(records: Records) -> None:
    services = records.services()
    key = await services.checkpoints.signing(records.world.org_id)
    async with records.world.database.statement() as connection:
        row = (await connection.execute(text("select private, public from ledger_keys"))).one()
    assert key.private not in bytes(row.private)
    assert bytes(row.public) == key.public


async def test_public_key_replaced_in_the_store_is_forged(records: Records) -> None:
    services = records.services()
    await services.checkpoints.signing(records.world.org_id)
    other = new_key(records.world.org_id, records.world.clock())
    await records.sql("update ledger_keys set public = :public, id = :id", public=other.public, id=other.id)
    report = await services.verifier.verify(records.world.org_id)
    assert FindingKind.FORGED in {one.what for one in report.findings}
    await records.sql("delete from ledger_keys")
    await services.checkpoints.signing(records.world.org_id)
    await records.sql("update ledger_keys set public = :public", public=other.public)
    report = await services.verifier.verify(records.world.org_id)
    assert any(one.what is FindingKind.FORGED and "was changed" in one.message for one in report.findings)


async def test_concurrent_creation_of_the_first_key_yields_one_key(records: Records) -> None:
    made = await asyncio.gather(*(records.services().checkpoints.signing(records.world.org_id) for _ in range(5)))
    assert len({one.id for one in made}) == 1


async def test_only_one_process_at_a_time_writes_the_ledger(records: Records) -> None:
    first, second = records.services().ledger_worker, records.services().ledger_worker
    assert await first.once()
    assert not await second.once()
    records.world.clock.now += LASTS
    assert await second.once()  # the first one was killed
    assert not await first.once()
    await second.stop()
    assert await first.once()


async def test_ledger_worker_runs_until_cancelled_and_then_releases_its_lease(records: Records) -> None:
    keeper = records.services().ledger_worker
    await records.recorded()
    task = asyncio.create_task(BackgroundJobs([Task("ledger", 0.01, keeper.once, stop=keeper.stop)]).forever())
    async with asyncio.timeout(60):
        await records.anchor.reached.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await records.services().ledger_worker.once()
    assert timedelta(0) < LASTS
