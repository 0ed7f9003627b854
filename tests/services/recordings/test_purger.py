"""What is purged and what is stored longer, and what remains when a purge is interrupted."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.recorded import Records
from tests.support.retention import Keeping, purger_of

from postern.archive.folder import FolderBlobs
from postern.domain.hook import HookKind, HookOutcome, HookRun
from postern.domain.lists import Page
from postern.domain.sessions.ledger import EntryKind
from postern.domain.sessions.retention import PurgeScope
from postern.errors import Conflict, NotFound, Unavailable
from postern.proof.export_reading import verify_package
from postern.proof.proof_findings import FindingKind as Found
from postern.proof.proof_findings import VerificationReport
from postern.recording.layout import sealed_folder, spool_folder
from postern.services.recordings import purger as module

pytestmark = pytest.mark.ci

GONE = (False, 0, 0)
WITHOUT_RECORDING = (True, 0, 0)
WHOLE = (True, 2, 2)


@pytest.fixture
async def keeping(records: Records, tmp_path: Path) -> Keeping:
    return await Keeping.make(records, tmp_path)


async def test_recordings_are_purged_first_and_sessions_later(keeping: Keeping) -> None:
    await keeping.keep(30, 90)
    old = await keeping.sessions(3)
    await keeping.days(29)
    new = await keeping.sessions(1)
    await keeping.round()
    assert await keeping.there([*old, *new]) == [WHOLE] * 4
    await keeping.days(2)
    assert await keeping.round() == 3
    assert await keeping.there([*old, *new]) == [WITHOUT_RECORDING] * 3 + [WHOLE]
    session = await keeping.services.sessions.get(keeping.admin, old[0])
    assert session.recording_purged_at is not None
    report = await keeping.verified()
    assert report.is_good, report.findings
    assert (report.sessions_proven, report.purges_undone) == (4, 0)
    await keeping.days(60)
    assert await keeping.round() == 4
    assert await keeping.there([*old, *new]) == [GONE] * 3 + [WITHOUT_RECORDING]
    report = await keeping.verified()
    assert report.is_good, report.findings
    assert (report.sessions_purged, report.sessions_proven) == (3, 1)
    with pytest.raises(NotFound):
        await keeping.services.sessions.get(keeping.admin, old[0])


async def test_hook_output_is_purged_with_the_recording_and_hook_runs_with_the_session(keeping: Keeping) -> None:
    """This holds for sessions without a recording as well."""
    await keeping.keep(30, 90)
    keys = [*await keeping.sessions(1), *await keeping.sessions(1, segments=0)]
    hooks, org_id = keeping.services.hooks, keeping.admin.org_id
    for key in keys:
        at = keeping.records.world.clock()
        run = HookRun(uuid4(), org_id, key, HookKind.OPEN, "git/a/b", "c0ffee", at, 0.5, HookOutcome(3, "printed"))
        await hooks.record_run(run)
    await keeping.days(31)
    assert [run.outcome.output for key in keys for run in await hooks.find(keeping.admin, key)] == ["printed"] * 2
    assert await keeping.round() == 2
    outcomes = [run.outcome for key in keys for run in await keeping.records.world.stores.hook_runs.of(org_id, key, 9)]
    assert outcomes == [HookOutcome(3)] * 2
    assert await keeping.round() == 0
    await keeping.days(60)
    assert await keeping.round() == 2
    assert [run for key in keys for run in await keeping.records.world.stores.hook_runs.of(org_id, key, 9)] == []


async def test_ledger_and_audit_log_record_what_was_purged_and_why(keeping: Keeping) -> None:
    await keeping.keep(30, 90)
    old = await keeping.sessions(2)
    await keeping.days(31)
    await keeping.round()
    assert set(await keeping.entries(EntryKind.PURGED)) == set(old)
    [entry] = [one for one in await keeping.audit() if one.action == "purge"]
    assert entry.actor_subject == "gateway"
    assert entry.after is not None
    assert set(entry.after["recordings"]) == {str(key) for key in old}
    assert entry.after["reasons"] == ["retention: recordings are stored for 30 days"]


async def test_retention_of_a_connection_overrides_the_general_one_even_if_longer(keeping: Keeping) -> None:
    own = await keeping.sessions(1)
    keeping.records.connection = await keeping.records.world.add_connection("other")
    others = await keeping.sessions(1)
    await keeping.keep(10, 10)
    await keeping.keep(30, 30, "shop")
    await keeping.days(20)
    await keeping.round()
    assert await keeping.there([*own, *others]) == [WHOLE, GONE]
    await keeping.keep(None, None, "shop")
    await keeping.days(20)
    await keeping.round()
    assert await keeping.there(own) == [WHOLE]


async def test_retention_of_a_removed_connection_still_applies_to_its_sessions(keeping: Keeping) -> None:
    await keeping.keep(10, 10)
    await keeping.keep(None, None, "shop")
    mine = await keeping.sessions(1)
    await keeping.records.world.stores.connections.remove(keeping.records.connection)
    await keeping.days(30)
    await keeping.round()
    assert await keeping.there(mine) == [WHOLE]
    await keeping.services.retention.set_connection(keeping.admin, "shop", None)
    await keeping.days(2)
    await keeping.round()
    assert await keeping.there(mine) == [GONE]


async def test_session_that_runs_or_is_not_closed_or_counted_is_not_purged(keeping: Keeping) -> None:
    await keeping.keep(1, 1)
    running = await keeping.records.open()
    await keeping.records.store(running, 2)
    lost = await keeping.records.open()
    await keeping.records.store(lost, 3, numbers=[1, 2])
    await keeping.records.end(lost)
    await keeping.settle()
    uncounted = await keeping.records.recorded(2)
    await keeping.services.ledger.write()
    await keeping.days(3)
    await keeping.round()
    assert await keeping.there([running, lost, uncounted]) == [WHOLE, WHOLE, WHOLE]
    await keeping.settle()
    await keeping.round()
    assert await keeping.there([running, lost, uncounted]) == [WHOLE, WHOLE, GONE]
    assert await keeping.entries(EntryKind.PURGED) == [uncounted]


async def test_local_files_of_a_purged_session_are_deleted(keeping: Keeping) -> None:
    await keeping.keep(1, 1)
    [old] = await keeping.sessions(1)
    [kept] = await keeping.sessions(1)
    await keeping.services.holds.set(keeping.admin, kept, "case A", "somebody asked")
    folders = [sealed_folder(keeping.home) / "2026/01", spool_folder(keeping.home, "w1")]
    for folder in folders:
        folder.mkdir(parents=True)
        for key in (old, kept):
            (folder / f"{key}.000001.rec.zst.partial").write_bytes(b"half")
            (folder / f"{key}.000002.rec").write_bytes(b"whole")
    await keeping.days(3)
    await keeping.round()
    assert {path.name.partition(".")[0] for folder in folders for path in folder.iterdir()} == {str(kept)}


async def test_purge_with_an_unavailable_blob_store_is_reported_and_retried_with_delays(keeping: Keeping) -> None:
    await keeping.keep(1, 1)
    old = await keeping.sessions(2)
    await keeping.days(3)
    keeping.blobs.trouble = "it is away"
    purger = keeping.another()
    for _ in range(3):
        assert await purger.once() == 0
    assert len(keeping.blobs.deletes) == 4  # each once: no hot loop
    found = await keeping.services.purges.find(keeping.admin, Page())
    assert [(one.attempts, one.error) for one in found.items] == [(1, "it is away")] * 2
    report = await keeping.verified()
    assert report.is_good, report.findings
    assert report.purges_undone == 2
    keeping.records.world.clock.forward(minutes=2)
    await purger.once()
    assert len(keeping.blobs.deletes) == 8
    keeping.records.world.clock.forward(minutes=1)
    await purger.once()
    assert len(keeping.blobs.deletes) == 8  # the second pause is longer
    keeping.blobs.trouble = ""
    keeping.records.world.clock.forward(minutes=2)
    assert await purger.once() == 2
    assert await keeping.there(old) == [GONE] * 2
    assert (await keeping.services.purges.find(keeping.admin, Page())).total == 0


async def test_purge_with_a_hanging_blob_store_times_out(keeping: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DELETE", 0.1)
    await keeping.keep(1, 1)
    await keeping.sessions(4, segments=20)
    await keeping.days(3)
    keeping.blobs.hang = asyncio.Event()
    assert await keeping.round() == 0
    assert len(keeping.blobs.deletes) == module.LANES  # not each of 80
    purges = (await keeping.services.purges.find(keeping.admin, Page())).items
    assert ["did not delete" in one.error for one in purges] == [True] * 4


@pytest.mark.parametrize(
    "place", ["../outside", "/etc/hostname", "{other}.000001.rec.zst", "{own}/../{other}.000001.rec.zst"]
)
async def test_segment_row_that_points_elsewhere_deletes_nothing(keeping: Keeping, place: str) -> None:
    await keeping.keep(1, 1)
    [own] = await keeping.sessions(1)
    keeping.records.connection = await keeping.records.world.add_connection("other")
    await keeping.keep(None, None, "other")
    [other] = await keeping.sessions(1)
    await keeping.days(3)
    outside = keeping.records.folder.parent / "outside"
    outside.write_text("not ours")
    changed = place.format(own=own, other=other)
    key = keeping.records.key_of(own)
    await keeping.records.sql("update segments set place = :place where session_id = :id", place=changed, id=key)
    await keeping.round()
    assert await keeping.there([other]) == [WHOLE]
    assert outside.exists()
    [purge] = (await keeping.services.purges.find(keeping.admin, Page())).items
    assert "the row was changed" in purge.error


class Killed(BaseException):
    """Nothing catches it, as nothing catches the end of a process."""


@pytest.mark.parametrize("point", ["delete", "clean", "done"])
@pytest.mark.parametrize("what", [PurgeScope.RECORDING, PurgeScope.SESSION])
async def test_purge_killed_at_any_point_is_completed_and_stays_provable(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch, point: str, what: PurgeScope
) -> None:
    await keeping.keep(1, 1 if what is PurgeScope.SESSION else None)
    old = await keeping.sessions(3)
    await keeping.days(3)
    killed = keeping.another()

    async def die(*_given: object) -> None:
        raise Killed

    def die_at_once(*_given: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        if point == "delete":
            patched.setattr(type(keeping.blobs), "delete", die)
        elif point == "clean":
            patched.setattr(killed, "_clean", die_at_once)
        else:
            patched.setattr(type(keeping.records.world.stores.purges), "mark_done", die)
        with pytest.raises(Killed):
            await killed.once()
    await killed.stop()  # its lease ends by itself, which takes a minute
    assert set(await keeping.entries(EntryKind.PURGED)) == set(old)
    report = await keeping.verified()
    assert report.is_good, report.findings
    assert report.purges_undone == 3
    assert await keeping.round() == 3
    assert await keeping.there(old) == [GONE if what is PurgeScope.SESSION else WITHOUT_RECORDING] * 3
    assert len(await keeping.entries(EntryKind.PURGED)) == 3
    report = await keeping.verified()
    assert report.is_good, report.findings


async def test_clock_set_forward_purges_nothing_for_a_day(keeping: Keeping) -> None:
    await keeping.keep(30, 30)
    old = await keeping.sessions(1)
    await keeping.round()
    keeping.records.world.clock.forward(days=400)
    purger = keeping.another()
    await purger.once()
    assert await keeping.there(old) == [WHOLE]
    keeping.records.world.clock.forward(hours=23)
    await purger.once()
    assert await keeping.there(old) == [WHOLE]
    keeping.records.world.clock.forward(days=-400)  # somebody noticed
    await purger.once()
    keeping.records.world.clock.forward(hours=25)
    await purger.once()
    keeping.records.world.clock.forward(hours=23)
    await purger.once()
    assert await keeping.there(old) == [WHOLE]


async def test_session_with_a_wrong_old_end_date_is_retained_by_the_ledgers_time(keeping: Keeping) -> None:
    await keeping.keep(30, 30)
    await keeping.sessions(1)
    world = keeping.records.world
    now = world.clock.now
    world.clock.now = now - timedelta(days=3650)
    old = await keeping.records.recorded(2)
    world.clock.now = now
    await keeping.settle()
    await keeping.round()
    assert await keeping.there([old]) == [WHOLE]


async def test_many_sessions_are_purged_in_batches_and_none_is_left_out(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 5)
    monkeypatch.setattr(module, "BATCH", 2)
    monkeypatch.setattr(module, "AT_ONCE", 3)
    await keeping.keep(1, 1)
    old = await keeping.sessions(23, segments=1)
    held = old[::7]
    for key in held:
        await keeping.services.holds.set(keeping.admin, key, "case A", "court order")
    await keeping.days(3)
    assert await keeping.round() == len(old) - len(held)
    assert await keeping.there(old) == [(True, 1, 1) if key in held else GONE for key in old]
    entries = [one for one in await keeping.audit() if one.action == "purge"]
    told = [key for one in entries if one.after is not None for key in one.after["sessions"]]
    assert sorted(told) == sorted(str(key) for key in old if key not in held)


async def test_interrupted_purge_pass_continues_where_it_stopped(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 4)
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    await keeping.keep(1, 1)
    old = await keeping.sessions(6, segments=0)
    await keeping.days(3)
    purger = keeping.another()
    assert await purger.once() == 0  # it had no time
    monkeypatch.setattr(module, "PATIENCE", 30.0)
    assert await purger.once() == 6
    assert await keeping.there(old) == [GONE] * 6


async def test_purge_pass_begins_when_a_retention_takes_effect(keeping: Keeping) -> None:
    purger = keeping.another()
    old = await keeping.sessions(1)
    await keeping.days(30)
    await purger.once()
    await keeping.keep(1, 1)
    await purger.once()
    assert await keeping.there(old) == [WHOLE]
    await keeping.days(1)
    assert await purger.once() == 1
    await keeping.sessions(1)
    await keeping.days(3)
    assert await purger.once() == 0  # until the next pass, in an hour
    purger._pass_at = -module.PASS
    assert await purger.once() == 1


async def test_only_one_process_at_a_time_purges(keeping: Keeping) -> None:
    await keeping.keep(1, 1)
    old = await keeping.sessions(2)
    await keeping.days(3)
    first, second = keeping.another(), keeping.another()
    done = await asyncio.gather(first.once(), second.once())
    assert sorted(done) == [0, 2]
    assert await keeping.there(old) == [GONE] * 2
    assert len(await keeping.entries(EntryKind.PURGED)) == 2


async def test_interrupted_purge_of_a_long_session_keeps_its_progress(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE", 2)
    await keeping.keep(1, 1)
    [long] = await keeping.sessions(1, segments=7)
    await keeping.days(3)
    inner = keeping.blobs.inner.delete
    calls: list[str] = []

    async def some(key: str) -> None:
        calls.append(key)
        if len(calls) > 5:
            raise Unavailable("enough")
        await inner(key)

    monkeypatch.setattr(keeping.blobs.inner, "delete", some)
    await keeping.round()
    assert await keeping.there([long]) == [(True, 3, 2)]
    assert (await keeping.verified()).is_good


async def test_session_under_legal_hold_is_never_purged(keeping: Keeping) -> None:
    await keeping.keep(1, 1)
    held, free = await keeping.sessions(2)
    holds = keeping.services.holds
    await holds.set(keeping.admin, held, "case A", "court order")
    await holds.set(keeping.admin, held, "case B", "another one")
    await keeping.days(100)
    await keeping.round()
    assert await keeping.there([held, free]) == [WHOLE, GONE]
    await holds.release(keeping.admin, held, "case A")
    await keeping.round()
    assert await keeping.there([held]) == [WHOLE]
    await holds.release(keeping.admin, held, "case B")
    await keeping.round()
    assert await keeping.there([held]) == [GONE]
    assert await keeping.entries(EntryKind.HELD) == [held, held] == await keeping.entries(EntryKind.RELEASED)
    report = await keeping.verified()
    assert report.is_good, report.findings


async def test_legal_hold_deleted_in_the_database_still_prevents_a_purge(keeping: Keeping) -> None:
    await keeping.keep(1, 1)
    [held] = await keeping.sessions(1)
    await keeping.services.holds.set(keeping.admin, held, "case A", "court order")
    await keeping.records.sql("delete from holds")
    await keeping.records.sql("update sessions set holds = 0")
    await keeping.days(100)
    await keeping.round()
    assert await keeping.there([held]) == [WHOLE]
    with pytest.raises(Conflict, match="the ledger has a legal hold on it"):
        await keeping.services.purges.purge(keeping.admin, held, PurgeScope.SESSION, "it bothers me")


async def test_database_rejects_deleting_the_row_of_a_session_under_legal_hold(keeping: Keeping) -> None:
    [held] = await keeping.sessions(1)
    await keeping.services.holds.set(keeping.admin, held, "case A", "court order")
    with pytest.raises(Exception, match=r"(?i)foreign key"):
        await keeping.records.sql("delete from sessions where id = :id", id=keeping.records.key_of(held))


async def test_ledger_entry_that_purges_a_session_under_legal_hold_is_a_finding(keeping: Keeping) -> None:
    """An attacker who can write the ledger could add such an entry."""
    [held] = await keeping.sessions(1)
    await keeping.services.holds.set(keeping.admin, held, "case A", "court order")
    await keeping.services.ledger.note(
        keeping.records.world.org_id,
        EntryKind.PURGED,
        held,
        what="session",
        reason="written by hand",
    )
    report = await keeping.verified()
    assert [(one.what, one.session) for one in report.findings] == [(Found.HELD, held)]


async def test_concurrent_legal_hold_and_purge_never_both_succeed(keeping: Keeping) -> None:
    for _ in range(10):
        [key] = await keeping.sessions(1)
        purge = keeping.services.purges.purge(keeping.admin, key, PurgeScope.SESSION, "asked to")
        hold = keeping.records.services().holds.set(keeping.admin, key, "case A", "court order")
        outcomes = await asyncio.gather(purge, hold, return_exceptions=True)
        refused = [one for one in outcomes if isinstance(one, BaseException)]
        assert len(refused) == 1, outcomes
        assert isinstance(refused[0], Conflict), refused
        held, purged = key in await keeping.entries(EntryKind.HELD), key in await keeping.entries(EntryKind.PURGED)
        assert held != purged
    await keeping.round()
    report = await keeping.verified()
    assert report.is_good, report.findings


async def test_session_removed_without_a_ledger_entry_is_missing(keeping: Keeping) -> None:
    removed, purged = await keeping.sessions(2)
    await keeping.services.purges.purge(keeping.admin, purged, PurgeScope.SESSION, "asked to")
    await keeping.round()
    await keeping.records.sql("delete from sessions where id = :id", id=keeping.records.key_of(removed))
    report = await keeping.verified()
    assert [(one.what, one.session) for one in report.findings] == [(Found.MISSING, removed)]
    assert report.sessions_purged == 1


async def test_recording_removed_without_a_ledger_entry_is_missing(keeping: Keeping) -> None:
    removed, purged = await keeping.sessions(2)
    await keeping.services.purges.purge(keeping.admin, purged, PurgeScope.RECORDING, "asked to")
    await keeping.round()
    await keeping.records.sql("delete from segments where session_id = :id", id=keeping.records.key_of(removed))
    report = await keeping.verified()
    assert {(one.what, one.session) for one in report.findings} == {(Found.MISSING, removed)}


async def test_session_with_a_purge_entry_but_not_purged_is_noted_as_interrupted(keeping: Keeping) -> None:
    [key] = await keeping.sessions(1)
    await keeping.services.ledger.note(
        keeping.records.world.org_id, EntryKind.PURGED, key, what="session", reason="nobody did it"
    )
    report = await keeping.verified()
    assert report.is_good, report.findings
    assert report.purges_undone == 1
    assert any("was interrupted" in note for note in report.notes)


async def test_export_after_purges_is_proven_with_the_public_key_alone(keeping: Keeping, tmp_path: Path) -> None:
    recording, session, kept, begun, removed = await keeping.sessions(5)
    for key, what in ((recording, PurgeScope.RECORDING), (session, PurgeScope.SESSION)):
        await keeping.services.purges.purge(keeping.admin, key, what, "asked to")
    await keeping.round()
    await keeping.services.purges.purge(keeping.admin, begun, PurgeScope.RECORDING, "asked to")
    (keeping.records.folder / f"{begun}.000001.rec.zst").unlink()  # half of it, as after a kill

    async def report() -> VerificationReport:
        path = tmp_path / "export.tar"
        pieces = [piece async for piece in await keeping.services.exports.begin(keeping.admin, None, None)]
        path.write_bytes(b"".join(pieces))
        keys = [key.public for key in await keeping.services.checkpoints.keys(keeping.admin)]
        return verify_package(path, keys)

    found = await report()
    assert found.is_good, found.findings
    assert (found.sessions_purged, found.purges_undone, found.sessions_proven) == (1, 1, 4)
    await keeping.records.sql("delete from sessions where id = :id", id=keeping.records.key_of(removed))
    assert [(one.what, one.session) for one in (await report()).findings] == [(Found.MISSING, removed)]
    assert kept


async def test_counts_for_reports_remain_after_a_purge(keeping: Keeping) -> None:
    [key] = await keeping.sessions(1)
    world = keeping.records.world

    async def counted() -> int:
        return await keeping.records.sql("update session_counts set sessions = sessions where level = 0")

    before = await counted()
    await keeping.services.purges.purge(keeping.admin, key, PurgeScope.SESSION, "asked to")
    await keeping.round()
    assert await world.stores.sessions.get(world.org_id, key) is None
    assert await counted() == before > 0


async def test_first_start_does_not_warn_of_the_clock(records: Records, caplog: pytest.LogCaptureFixture) -> None:
    """A store without sessions has nothing that a wrong clock could purge."""
    services = records.services()
    purger = purger_of(records, services, FolderBlobs(records.folder), records.folder)
    await purger.once()
    await purger.stop()
    await purger_of(records, services, FolderBlobs(records.folder), records.folder).once()
    assert caplog.messages == []


async def test_first_round_over_old_sessions_purges_nothing_for_a_day(
    records: Records, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = [await records.recorded(2)]
    keeping = await Keeping.make(records, tmp_path)  # its first round
    assert [message for message in caplog.messages if "no earlier round" in message] != []
    await keeping.settle()
    await keeping.keep(1, 1)
    await keeping.days(3)
    assert await keeping.round() == 1
    assert await keeping.there(old) == [GONE]
